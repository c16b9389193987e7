//! Tests of the selection of devices.

mod wrappers;

use super::*;

#[test]
fn names_of_devices() {
    let parse = |text: &str| text.parse::<DeviceChoice>();
    assert_eq!(parse("auto"), Ok(DeviceChoice::AutoAloud));
    assert_eq!(parse("gpu"), Ok(DeviceChoice::Gpu(None)));
    assert_eq!((parse("sim"), parse("sim:4")), (Ok(DeviceChoice::Sim(None)), Ok(DeviceChoice::Sim(Some(4)))));
    assert_eq!(parse("gpu:3"), Ok(DeviceChoice::Gpu(Some(3))));
    assert_eq!(parse("both:1"), Ok(DeviceChoice::Both(Some(1))));
    for wrong in ["gpus", "gpu:", "gpu:x", "", "GPU", "gpu:-1", "cpu", "sim:0", "sim:", "simulator"] {
        assert!(parse(wrong).is_err_and(|e| e.title.contains("devices are auto, sim")), "{wrong}");
    }
}

#[test]
fn repeated_choice_returns_the_same_device() {
    let machine = DeviceRegistry::new(DeviceOptions::default());
    let (a, b) = (
        machine.open(DeviceSelector::Sim(None)).expect("there"),
        machine.open(DeviceSelector::Sim(None)).expect("there"),
    );
    assert_eq!((a.name(), b.name()), ("sim".to_string(), "sim".to_string()));
    assert!(machine.choose(DeviceChoice::Sim(None)).expect("there").memory().is_none());
    let number = |n| machine.open(DeviceSelector::Sim(Some(n)));
    assert!(number(0).is_ok() && number(1).is_err_and(|error| error.to_string().contains("sim:0 to sim:0")));
    for count in [2, 5, 3] {
        machine.choose(DeviceChoice::Sim(Some(count))).expect("there");
        assert!(number(count - 1).is_ok() && number(count).is_err(), "{count} of them");
    }
    assert!(!Arc::ptr_eq(&number(1).expect("there"), &number(2).expect("there")), "each has arrays of its own");
}
