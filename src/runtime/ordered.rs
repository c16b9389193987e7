//! A device with reproducible results: kernels whose results may depend on the order of threads run on the simulator.
//!
//! Input: kernels, as for any device. Kernels with atomic sums of floats, used results of atomic operations, or
//! exchanges run on the simulator, which runs blocks in a fixed order ([`super::Control::deterministic`]). All other
//! kernels run on the device: unless they have a data race, their threads communicate only through barriers.

use std::sync::Arc;

use super::exchange::{CollectiveDevice, CollectiveError};
use super::{Device, DeviceWrapper, Executable};
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_ir::def::Module;
use clk_ir::visit::{depends_on_atomic_order, each_stmt};

/// A device that runs most kernels itself, and runs order-dependent kernels on the simulator.
pub struct DeterministicDevice {
    device: Arc<dyn Device>,
    simulator: Arc<dyn Device>,
}

impl DeterministicDevice {
    /// Combines a device with a simulator whose launches are [`super::Control::deterministic`].
    pub fn new(device: Arc<dyn Device>, simulator: Arc<dyn Device>) -> DeterministicDevice {
        DeterministicDevice { device, simulator }
    }
}

impl DeviceWrapper for DeterministicDevice {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        match is_order_dependent(&kernel.module) {
            true => self.simulator.load(kernel, sources),
            false => self.device.load(kernel, sources),
        }
    }

    /// The libraries for collective operations add in an order that they choose.
    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        Err(CollectiveError::Unsupported(self.device.name()))
    }
}

/// Returns whether a kernel's results may depend on the order in which threads perform atomic operations.
fn is_order_dependent(module: &Module) -> bool {
    module.functions.iter().any(|(_, function)| {
        let mut depends = false;
        each_stmt(&function.body, &mut |stmt| depends |= depends_on_atomic_order(function, &stmt.kind));
        depends
    })
}
