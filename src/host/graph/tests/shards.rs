//! Random programs whose arrays are in parts on several devices, some with halos: with the other generators' operations, donated operands,
//! views, assignments and bits.

use std::cell::RefCell;
use std::sync::Arc;

use super::*;
use crate::host::shard::{Layout, Team, of, shard};

/// The devices, and what decides how the next array is cut.
struct Node {
    sites: Vec<Site>,
    random: Random,
}

thread_local! {
    static NODE: RefCell<Option<Node>> = const { RefCell::new(None) };
}

/// Cuts an array into one to four parts along a random axis.
fn cut(value: &Value) -> Value {
    let Value::Array(array) = value else { return value.clone() };
    if array.rank() == 0 {
        return value.clone();
    }
    let (layout, team) = NODE.with_borrow_mut(|node| {
        let node = node.as_mut().expect("devices");
        let (parts, axis) = (1 + node.random.below(4), node.random.below(array.rank()));
        let halo = node.random.pick(&[0, 0, 1, 3]);
        let team = Team { sites: node.sites[..parts].into(), counts: Arc::default() };
        (Layout::even(axis, array.shape()[axis], parts, halo, None), team)
    });
    Value::Array(shard(array, &layout, &team).expect("parts"))
}

/// Runs programs with devices of their own.
fn on_devices(device: &Simulator, seed: u64, work: impl FnOnce()) {
    let kernels: Arc<Kernels> = Arc::default();
    let site = |_| Site::new(Arc::new(device.clone()), &Control::default(), kernels.clone()).donate_from(0);
    let sites: Vec<Site> = (0..4).map(site).collect();
    let _standing = sites[0].clone().enter();
    NODE.set(Some(Node { sites, random: Random(seed ^ 0x5a) }));
    work();
    NODE.set(None);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_programs_of_shards_agree() {
    for device in simulators() {
        for seed in seeds(1) {
            on_devices(&device, seed, || program_of(seed, seed % 4 == 0, cut));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_views_of_shards_agree() {
    for device in simulators() {
        for seed in seeds(1) {
            on_devices(&device, seed, || views::Fuzz::moved(seed, cut).run(25));
        }
    }
}

#[test]
fn arrays_are_in_parts() {
    on_devices(&Simulator::default(), 1, || {
        let cuts = (0..50).map(|_| cut(&numbers(100)));
        let parts: Vec<usize> = cuts.map(|value| of(array(&value)).expect("parts").layout().parts()).collect();
        assert!((1..=4).all(|count| parts.contains(&count)), "{parts:?}");
    });
}
