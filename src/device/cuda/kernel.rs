//! A kernel on a GPU: the variants of its text, and the cached plans of its launches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::Context;
use super::plan::Kept;
use super::text::abi::{CudaKernel, KernelArgument, Options, PlaceKind};
use super::text::{cuda_text, tensor_text};
use super::variant::Variant;
use super::whole;
use crate::base::late::Late;
use crate::base::source::Sources;
use crate::ir::def::{Form, Kernel as Definition};
use crate::ir::{Prepared, spin};

/// A kernel with all variants of its text that launches needed so far.
pub(crate) struct Kernel {
    pub context: Arc<Context>,
    pub prepared: Arc<Prepared>,
    /// The sources of its line information, if machine code has any.
    sources: Option<Arc<Sources>>,
    /// By parameter: see [`whole::own_elements`].
    pub own_elements: Vec<bool>,
    variants: Mutex<HashMap<Options, Arc<Variant>>>,
    /// Those for tensor cores; `None` where there can be none.
    of_product: Mutex<HashMap<Options, Option<Arc<Variant>>>>,
    may_hang: OnceLock<bool>,
    /// Plans of recent launches, the last one first.
    pub plans: Mutex<Vec<Kept>>,
}

impl Kernel {
    /// Starts to compile the variant that most launches need.
    pub fn new(context: Arc<Context>, prepared: Arc<Prepared>, sources: Option<Arc<Sources>>) -> Kernel {
        let own_elements = whole::own_elements(&prepared.module);
        let kernel = Kernel {
            context,
            prepared,
            sources,
            own_elements,
            variants: Mutex::default(),
            of_product: Mutex::default(),
            may_hang: OnceLock::new(),
            plans: Mutex::default(),
        };
        // The text of a `grid` kernel is specialized for the block, which only the launch knows.
        if matches!(kernel.definition().form, Form::Threads { .. }) {
            kernel.variant(&kernel.options());
        }
        kernel
    }

    pub fn definition(&self) -> &Definition {
        &self.prepared.module.kernel
    }

    /// Returns whether its threads may wait forever.
    pub fn may_hang(&self) -> bool {
        let module = &self.prepared.module;
        *self.may_hang.get_or_init(|| module.functions.get(module.kernel.body).is_some_and(spin::may_hang))
    }

    /// Returns the options of the variant that launches prefer.
    pub fn options(&self) -> Options {
        let wanted = &self.context.settings.text;
        Options { stop: wanted.checked, room: self.context.properties.shared_per_block, ..wanted.clone() }
    }

    /// Returns the variant for these options.
    pub fn variant(&self, options: &Options) -> Arc<Variant> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = variants.get(options) {
            return found.clone();
        }
        let variant = self.compiled(cuda_text(&self.prepared, options, self.sources.as_deref()));
        variants.insert(options.clone(), variant.clone());
        variant
    }

    /// Returns the variant for tensor cores with these options, if the kernel is a product that can have one.
    pub fn product_variant(&self, options: &Options) -> Option<Arc<Variant>> {
        let mut variants = self.of_product.lock().unwrap_or_else(PoisonError::into_inner);
        let text = || tensor_text(&self.prepared, options, self.sources.as_deref());
        variants.entry(options.clone()).or_insert_with(|| text().map(|kernel| self.compiled(kernel))).clone()
    }

    /// Starts to compile a text.
    fn compiled(&self, kernel: CudaKernel) -> Arc<Variant> {
        self.context.count_guards(&kernel.guards);
        let (context, name, source) = (self.context.clone(), self.definition().name.clone(), kernel.text.clone());
        let mut flags = kernel.options.flags();
        flags.push("-lineinfo".into());
        let code = Late::start("kernel compiler", move || context.machine_code(&name, &source, &flags));
        let wants = |argument: KernelArgument| kernel.params.contains(&argument);
        Arc::new(Variant {
            reports: kernel.params.iter().position(|param| *param == KernelArgument::Faults),
            prints: wants(KernelArgument::Prints),
            meets: wants(KernelArgument::GridBarrier),
            endless: kernel.places.iter().any(|place| place.kind == PlaceKind::Stopped),
            kernel: Arc::new(kernel),
            code,
            loaded: OnceLock::new(),
            loading: Mutex::default(),
        })
    }
}
