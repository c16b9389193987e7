//! A variant of a kernel: its generated code, machine code and loaded function.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::GpuContext;
use super::driver::{DriverFunction, DriverModule};
use super::text::abi::CudaKernel;
use clk_base::background::Background;
use clk_runtime::DeviceError;

/// A variant of a kernel. It is compiled on a separate thread.
pub(crate) struct KernelVariant {
    pub kernel: Arc<CudaKernel>,
    /// The position of the argument that receives the address of a fault record, if the variant can report faults.
    pub fault_argument: Option<usize>,
    /// Whether the kernel prints (`prints`), and whether it has a grid barrier (`has_grid_barrier`).
    pub prints: bool,
    pub has_grid_barrier: bool,
    /// Whether the kernel may run forever. If so, it polls the stop word.
    pub may_run_forever: bool,
    pub(super) code: Background<Result<Vec<u8>, DeviceError>>,
    pub(super) loaded: OnceLock<LoadedVariant>,
    /// Locked while the variant is loaded.
    pub(super) loading: Mutex<()>,
}

/// The machine code of a variant, loaded into the GPU.
pub(crate) struct LoadedVariant {
    context: Arc<GpuContext>,
    module: DriverModule,
    pub function: DriverFunction,
    /// Bytes of static shared memory per block.
    pub static_shared: u32,
    /// The limit of dynamic shared memory in bytes that the driver currently allows for the function.
    pub allowed: Mutex<u32>,
}

impl Drop for LoadedVariant {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.driver() {
            self.context.forget_runs_with(self.function);
            // Wait before unloading, because asynchronous launches of the function may still be running.
            self.context.wait_before_unload();
            driver.unload(self.module);
        }
    }
}

/// The default limit of a function's dynamic shared memory.
pub(crate) const DEFAULT_DYNAMIC_SHARED: u32 = 48 << 10;

impl KernelVariant {
    /// Returns the loaded function, after waiting for its compilation. If loading fails, the next call retries it,
    /// because the cause may be temporary: full memory, or a lost worker process.
    pub fn load(&self, context: &Arc<GpuContext>) -> Result<&LoadedVariant, DeviceError> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let cubin = self.code.get().as_ref().map_err(Clone::clone)?;
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let module = context.load(cubin)?;
        let loaded = context.call(|driver| {
            let function_entry = driver.function(module, &self.kernel.entry);
            if function_entry.is_err() {
                driver.unload(module);
            }
            let function = function_entry?;
            Ok(LoadedVariant {
                context: context.clone(),
                module,
                function,
                static_shared: driver.static_shared(function),
                allowed: Mutex::new(DEFAULT_DYNAMIC_SHARED),
            })
        })?;
        Ok(self.loaded.get_or_init(|| loaded))
    }
}
