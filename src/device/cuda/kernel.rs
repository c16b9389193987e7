//! A kernel on its way to the GPU: its texts, their machine code, the loaded functions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::Context;
use super::driver::{Function, Module};
use super::plan::Kept;
use super::text::abi::{CudaKernel, KernelArgument, Options, PlaceKind};
use super::text::cuda_text;
use super::whole;
use crate::base::late::Late;
use crate::base::source::Sources;
use crate::device::DeviceError;
use crate::ir::Prepared;
use crate::ir::def::{Form, Kernel as Definition};

/// A kernel with all texts of it that launches asked for.
pub(crate) struct Kernel {
    pub context: Arc<Context>,
    pub prepared: Arc<Prepared>,
    /// Where its lines are, if machine code is to name them.
    sources: Option<Arc<Sources>>,
    /// By parameter: see [`whole::own_elements`].
    pub own_elements: Vec<bool>,
    variants: Mutex<HashMap<Options, Arc<Variant>>>,
    /// How the last launches were made, the last one first.
    pub plans: Mutex<Vec<Kept>>,
}

/// One text, compiled by a thread of its own.
pub(crate) struct Variant {
    pub kernel: Arc<CudaKernel>,
    /// Which argument is the address of a fault record, if it may report a fault.
    pub reports: Option<usize>,
    /// It prints, its blocks meet.
    pub prints: bool,
    pub meets: bool,
    /// It ends when it is told to, and else perhaps never.
    pub endless: bool,
    code: Late<Result<Vec<u8>, DeviceError>>,
    loaded: OnceLock<Result<Loaded, DeviceError>>,
}

/// What the driver made of it.
pub(crate) struct Loaded {
    context: Arc<Context>,
    module: Module,
    pub function: Function,
    /// Bytes of shared memory beside the dynamic ones.
    pub static_shared: u32,
    /// The dynamic shared memory that was asked for so far, above what every function has.
    pub allowed: Mutex<u32>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.driver() {
            self.context.forget_function(self.function);
            driver.unload(self.module);
        }
    }
}

/// Dynamic shared memory that a function has without asking.
pub(crate) const USUAL_SHARED: u32 = 48 << 10;

impl Kernel {
    /// Starts to compile what most launches need.
    pub fn new(context: Arc<Context>, prepared: Arc<Prepared>, sources: Option<Arc<Sources>>) -> Kernel {
        let own_elements = whole::own_elements(&prepared.module);
        let kernel =
            Kernel { context, prepared, sources, own_elements, variants: Mutex::default(), plans: Mutex::default() };
        // A `grid` kernel's text is made for its blocks, which the launch knows.
        if matches!(kernel.definition().form, Form::Threads { .. }) {
            kernel.variant(&kernel.options());
        }
        kernel
    }

    pub fn definition(&self) -> &Definition {
        &self.prepared.module.kernel
    }

    /// What launches ask for unless something speaks against it.
    pub fn options(&self) -> Options {
        let wanted = &self.context.settings.text;
        Options { stop: wanted.checked, ..wanted.clone() }
    }

    /// The text for these options.
    pub fn variant(&self, options: &Options) -> Arc<Variant> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = variants.get(options) {
            return found.clone();
        }
        let kernel = cuda_text(&self.prepared, options, self.sources.as_deref());
        self.context.count_guards(&kernel.guards);
        let (context, name, source) = (self.context.clone(), self.definition().name.clone(), kernel.text.clone());
        let mut flags = options.flags();
        flags.push("-lineinfo".into());
        let code = Late::start("kernel compiler", move || context.machine_code(&name, &source, &flags));
        let wants = |argument: KernelArgument| kernel.params.contains(&argument);
        let variant = Arc::new(Variant {
            reports: kernel.params.iter().position(|param| *param == KernelArgument::Faults),
            prints: wants(KernelArgument::Prints),
            meets: wants(KernelArgument::GridBarrier),
            endless: kernel.places.iter().any(|place| place.kind == PlaceKind::Stopped),
            kernel: Arc::new(kernel),
            code,
            loaded: OnceLock::new(),
        });
        variants.insert(options.clone(), variant.clone());
        variant
    }
}

impl Variant {
    /// The loaded function; waits for its compiler.
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
