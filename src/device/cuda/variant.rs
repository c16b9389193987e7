//! A variant of a kernel: generated text, machine code, loaded function.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::Context;
use super::driver::{Function, Module};
use super::text::abi::CudaKernel;
use crate::base::late::Late;
use crate::device::DeviceError;

/// One variant of the text, compiled on a thread of its own.
pub(crate) struct Variant {
    pub kernel: Arc<CudaKernel>,
    /// The argument that takes the address of a fault record, if the text can report faults.
    pub reports: Option<usize>,
    /// It prints; it has a grid barrier.
    pub prints: bool,
    pub meets: bool,
    /// It may run forever, but polls the stop word.
    pub endless: bool,
    pub(super) code: Late<Result<Vec<u8>, DeviceError>>,
    pub(super) loaded: OnceLock<Loaded>,
    /// Held while the variant is loaded.
    pub(super) loading: Mutex<()>,
}

/// A loaded variant.
pub(crate) struct Loaded {
    context: Arc<Context>,
    module: Module,
    pub function: Function,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// The dynamic shared memory that was opted in to so far, above the default.
    pub allowed: Mutex<u32>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.driver() {
            self.context.forget_function(self.function);
            // A call may be over whose launches are not.
            self.context.let_end();
            driver.unload(self.module);
        }
    }
}

/// Dynamic shared memory that a function has by default.
pub(crate) const USUAL_SHARED: u32 = 48 << 10;

impl Variant {
    /// Returns the loaded function; waits for its compilation. A failed load is tried again at the next call, because its cause
    /// may be gone by then: memory was full, or the process that runs kernels was lost.
    pub fn load(&self, context: &Arc<Context>) -> Result<&Loaded, DeviceError> {
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
            let found = driver.function(module, &self.kernel.entry);
            if found.is_err() {
                driver.unload(module);
            }
            let function = found?;
            Ok(Loaded {
                context: context.clone(),
                module,
                function,
                static_shared: driver.static_shared(function),
                allowed: Mutex::new(USUAL_SHARED),
            })
        })?;
        Ok(self.loaded.get_or_init(|| loaded))
    }
}
