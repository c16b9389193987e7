//! Tests of copies between two GPUs of one process.

use super::*;

/// Returns two GPUs, each with a kernel. Both GPUs share one fake driver.
fn two() -> [(CudaGpu, Arc<dyn Executable>, Arc<Fake>); 2] {
    let (first, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (driver, properties) = (fake.clone(), Properties { ordinal: 1, ..fake.properties.clone() });
    let second = CudaGpu::with_parts(properties, GpuSettings::default(), move |_| Ok(driver), || Ok(Arc::new(Paper)));
    let other = second.load(Arc::new(shifted(Access::Out, false)), None);
    [(first, kernel, fake.clone()), (second, other, fake)]
}

#[test]
fn peer_copies_of_parts_are_asynchronous() {
    let [(_first, one, fake), (_second, other, _)] = two();
    let (x, z) = (storage(&[1.0, 2.0, 3.0, 4.0]), storage(&[5.0, 6.0, 7.0, 8.0]));
    let (mut a, mut b) = (Storage::zeros(16), Storage::zeros(16));
    run(&one, &x, &mut a).unwrap();
    run(&other, &z, &mut b).unwrap();
    let waits = fake.count("synchronize");
    let arrival = b.copy_on_devices(4, &a, 8, 8).unwrap().expect("a copy");
    assert_eq!((fake.count("copy"), fake.count("wait"), fake.count("download")), (1, 0, 0));
    arrival.settle().unwrap();
    assert_eq!(fake.count("wait"), 2, "both GPUs wait for the copy");
    assert_eq!(fake.count("synchronize"), waits);
    assert_eq!(floats(&b), [5.0, 3.0, 4.0, 8.0]);
    // The host's copy of `b` is older than the transferred bytes.
    drop(b.copy_on_devices(0, &a, 0, 4).unwrap().expect("a copy"));
    assert_eq!(fake.count("wait"), 4);
    assert_eq!(floats(&b), [1.0, 3.0, 4.0, 8.0]);
    assert!(b.copy_on_devices(12, &a, 0, 8).unwrap().is_none(), "beyond the end");
    assert_eq!(fake.count("forget_event"), 6, "three for each copy");
}

#[test]
fn shared_replicas_are_not_overwritten() {
    let [(_first, one, _), (_second, other, _)] = two();
    let (x, z) = (storage(&[1.0, 2.0]), storage(&[5.0, 6.0]));
    let (mut a, mut b) = (Storage::zeros(8), Storage::zeros(8));
    run(&one, &x, &mut a).unwrap();
    run(&other, &z, &mut b).unwrap();
    let shared = b.duplicate().unwrap();
    assert!(b.copy_on_devices(0, &a, 0, 4).unwrap().is_none());
    assert_eq!((floats(&b), floats(&shared)), (vec![5.0, 6.0], vec![5.0, 6.0]));
    let mut host_array = Storage::zeros(8);
    assert!(host_array.copy_on_devices(0, &a, 0, 4).unwrap().is_none(), "it is on no device");
}

#[test]
fn peer_gpus_read_whole_arrays() {
    let [(_first, one, fake), (_second, other, _)] = two();
    let (x, mut a, mut b) = (storage(&[1.0, 2.0]), Storage::zeros(8), Storage::zeros(8));
    run(&one, &x, &mut a).unwrap();
    // A duplicate is copied to the other GPU, and the original stays where it is.
    let copy = a.duplicate().unwrap();
    let waits = fake.count("synchronize");
    run(&other, &copy, &mut b).unwrap();
    run(&one, &a, &mut Storage::zeros(8)).unwrap();
    assert_eq!((fake.count("copy"), fake.count("download"), fake.count("synchronize") - waits), (1, 0, 0));
    assert_eq!(floats(&b), [1.0, 2.0]);
}
