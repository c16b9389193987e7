//! A device whose results are the same in each run: kernels whose results may depend on the order of threads go to the simulator.
//!
//! Input: kernels, as for any device. Output: of those with sums of floats by atomic operations, old values of atomic operations, and
//! exchanges, what the simulator computes, which runs their blocks in one order ([`super::Control::deterministic`]); of all others what
//! the device does. Idea: all other communication of threads is ordered by barriers, or a race.

use std::sync::Arc;

use super::lent::Lent;
use super::sim::Isa;
use super::storage::{Remote, Storage};
use super::{Coming, Device, DeviceError, Executable, Mark, Statistics};
use crate::base::aligned::Guard;
use crate::base::source::Sources;
use crate::ir::Prepared;
use crate::ir::def::Module;
use crate::ir::visit::{each_stmt, shows_order};

/// A device, and the simulator for what it runs in no fixed order.
pub struct Ordered {
    device: Arc<dyn Device>,
    simulator: Arc<dyn Device>,
}

impl Ordered {
    /// Combines a device with a simulator, whose launches have to be [`super::Control::deterministic`].
    pub fn new(device: Arc<dyn Device>, simulator: Arc<dyn Device>) -> Ordered {
        Ordered { device, simulator }
    }
}

impl Device for Ordered {
    fn name(&self) -> String {
        self.device.name()
    }

    fn model(&self) -> String {
        self.device.model()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.load_named(kernel, &Sources::default())
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        match is_ordered(&kernel.module) {
            true => self.simulator.load_named(kernel, sources),
            false => self.device.load_named(kernel, sources),
        }
    }

    fn is_remote(&self) -> bool {
        self.device.is_remote()
    }

    fn memory(&self) -> Option<u64> {
        self.device.memory()
    }

    fn expect(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn Coming>>, DeviceError> {
        self.device.expect(bytes, spare)
    }

    fn have(&self, storage: &Storage) -> Result<(), DeviceError> {
        self.device.have(storage)
    }

    unsafe fn lend(&self, lent: &Lent, copied: bool) -> Result<Arc<dyn Remote>, DeviceError> {
        // SAFETY: as required of the caller.
        unsafe { self.device.lend(lent, copied) }
    }

    unsafe fn give_back(&self, lent: &Lent, storage: &Storage) -> Result<(), DeviceError> {
        // SAFETY: as required of the caller.
        unsafe { self.device.give_back(lent, storage) }
    }

    fn own(&self, storage: &mut Storage) -> Result<Arc<dyn Remote>, DeviceError> {
        self.device.own(storage)
    }

    unsafe fn lock(&self, bytes: &[u8]) -> Option<Guard> {
        // SAFETY: as required of the caller.
        unsafe { self.device.lock(bytes) }
    }

    fn is_watchful(&self) -> bool {
        self.device.is_watchful()
    }

    fn instructions(&self) -> Option<Isa> {
        self.device.instructions()
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.device.finish()
    }

    fn confirm(&self) -> Result<(), DeviceError> {
        self.device.confirm()
    }

    fn begin_batch(&self) {
        self.device.begin_batch();
    }

    fn end_batch(&self) -> Result<(), DeviceError> {
        self.device.end_batch()
    }

    fn mark(&self) -> Option<Mark> {
        self.device.mark()
    }

    fn spilled(&self) -> u64 {
        self.device.spilled()
    }

    fn statistics(&self) -> Statistics {
        self.device.statistics()
    }
}

/// Returns whether the order in which threads reach atomic operations may show in a kernel's results.
fn is_ordered(module: &Module) -> bool {
    module.functions.iter().any(|(_, function)| {
        let mut found = false;
        each_stmt(&function.body, &mut |stmt| found |= shows_order(function, &stmt.kind));
        found
    })
}
