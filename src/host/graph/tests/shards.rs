//! Tests random programs whose arrays are sharded over several devices, some with halos. They use the operations of the
//! other random tests: buffer donation, views, assignments and bitcasts.

use std::cell::RefCell;
use std::sync::Arc;

use super::*;
use crate::shard::{ShardDevices, ShardLayout, as_sharded, shard};

/// The devices, and the random state that determines the sharding of the next array.
struct ShardTestDevices {
    contexts: Vec<ExecContext>,
    random: Random,
}

thread_local! {
    static DEVICES: RefCell<Option<ShardTestDevices>> = const { RefCell::new(None) };
}

/// Divides an array into one to four shards along a random axis.
fn cut(value: &HostValue) -> HostValue {
    let HostValue::Array(array) = value else { return value.clone() };
    if array.rank() == 0 {
        return value.clone();
    }
    let (layout, team) = DEVICES.with_borrow_mut(|node| {
        let node = node.as_mut().expect("devices");
        let (parts, axis) = (1 + node.random.random_below(4), node.random.random_below(array.rank()));
        let halo = node.random.pick(&[0, 0, 1, 3]);
        let team = ShardDevices { contexts: node.contexts[..parts].into(), counters: Arc::default() };
        (ShardLayout::even(axis, array.shape()[axis], parts, halo, None), team)
    });
    HostValue::Array(shard(array, &layout, &team).expect("parts"))
}

/// Runs a program with several new devices.
fn on_devices(device: &Simulator, seed: u64, work: impl FnOnce(&ExecContext)) {
    let state: Arc<ExpressionState> = Arc::default();
    let context =
        |_| ExecContext::new(Arc::new(device.clone()), &Control::default(), state.clone()).with_min_donated(0);
    let contexts: Vec<ExecContext> = (0..4).map(context).collect();
    let exec = contexts[0].clone();
    DEVICES.set(Some(ShardTestDevices { contexts, random: Random(seed ^ 0x5a) }));
    work(&exec);
    DEVICES.set(None);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_programs_of_shards_agree() {
    for device in simulators() {
        for seed in seeds(1) {
            on_devices(&device, seed, |exec| program_of(exec, seed, seed % 4 == 0, cut));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_views_of_shards_agree() {
    for device in simulators() {
        for seed in seeds(1) {
            on_devices(&device, seed, |exec| views::Fuzz::moved(seed, cut).run(exec, 25));
        }
    }
}

#[test]
fn arrays_are_sharded() {
    on_devices(&Simulator::default(), 1, |_| {
        let cuts = (0..50).map(|_| cut(&numbers(100)));
        let parts: Vec<usize> = cuts.map(|value| as_sharded(array(&value)).expect("parts").layout().parts()).collect();
        assert!((1..=4).all(|count| parts.contains(&count)), "{parts:?}");
    });
}
