//! A variant of a kernel: generated text, machine code, loaded function.

use std::sync::{Arc, Mutex, OnceLock};

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
    pub(super) loaded: OnceLock<Result<Loaded, DeviceError>>,
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
    /// Returns the loaded function; waits for its compilation.
    pub fn load(&self, context: &Arc<Context>) -> Result<&Loaded, DeviceError> {
        let loaded = self.loaded.get_or_init(|| {
            let cubin = self.code.get().as_ref().map_err(Clone::clone)?;
            let module = context.load(cubin)?;
            context.call(|driver| {
                let function = driver.function(module, &self.kernel.entry)?;
                let static_shared = driver.static_shared(function);
                Ok(Loaded {
                    context: context.clone(),
                    module,
                    function,
                    static_shared,
                    allowed: Mutex::new(USUAL_SHARED),
                })
            })
        });
        loaded.as_ref().map_err(Clone::clone)
    }
}
