//! A kernel on a GPU: its variants (generated code with different options), and cached launch plans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::GpuContext;
use super::plan::LaunchPlan;
use super::text::abi::{CodegenOptions, CudaKernel, KernelArgument};
use super::text::{cuda_text, tensor_text};
use super::variant::KernelVariant;
use clk_base::background::Background;
use clk_base::source::SourceMap;
use clk_ir::def::{Kernel as Definition, LaunchForm};
use clk_ir::{PreparedKernel, spin_loops};
use clk_runtime::fault_record::FaultSiteKind;
use clk_runtime::plan_cache::PlanCache;
use clk_runtime::write_coverage::overwritten_by_threads;

/// A kernel with the variants that launches have needed so far.
pub(crate) struct KernelVariants {
    pub context: Arc<GpuContext>,
    pub prepared: Arc<PreparedKernel>,
    /// The sources for line information, if machine code contains it.
    sources: Option<Arc<SourceMap>>,
    /// For each parameter, the result of [`overwritten_by_threads`].
    pub overwritten_by_threads: Vec<bool>,
    variants: Mutex<HashMap<CodegenOptions, Arc<KernelVariant>>>,
    /// Variants for tensor cores. The value is `None` if tensor cores cannot run the kernel with these options.
    tensor_variants: Mutex<HashMap<CodegenOptions, Option<Arc<KernelVariant>>>>,
    may_hang: OnceLock<bool>,
    /// The plans of recent launches. A launch without threads has none.
    pub plans: PlanCache<Option<Arc<LaunchPlan>>>,
}

impl KernelVariants {
    /// Starts compiling the variant that most launches need.
    pub fn new(
        context: Arc<GpuContext>,
        prepared: Arc<PreparedKernel>,
        sources: Option<Arc<SourceMap>>,
    ) -> KernelVariants {
        let kernel = KernelVariants {
            context,
            overwritten_by_threads: overwritten_by_threads(&prepared.module),
            prepared,
            sources,
            variants: Mutex::default(),
            tensor_variants: Mutex::default(),
            may_hang: OnceLock::new(),
            plans: PlanCache::default(),
        };
        // The code of a `grid` kernel is specialized for the block shape, which is known only at launch, so its
        // compilation starts later.
        if matches!(kernel.definition().form, LaunchForm::Threads { .. }) {
            kernel.variant(&kernel.options());
        }
        kernel
    }

    pub fn definition(&self) -> &Definition {
        &self.prepared.module.kernel
    }

    /// Returns whether the threads of the kernel may wait forever.
    pub fn may_hang(&self) -> bool {
        let module = &self.prepared.module;
        *self.may_hang.get_or_init(|| module.functions.get(module.kernel.body).is_some_and(spin_loops::may_hang))
    }

    /// Returns the options of the preferred variant.
    pub fn options(&self) -> CodegenOptions {
        let defaults = &self.context.settings.text;
        CodegenOptions { stop: defaults.checked, room: self.context.properties.shared_per_block, ..defaults.clone() }
    }

    /// Returns the variant for these options.
    pub fn variant(&self, options: &CodegenOptions) -> Arc<KernelVariant> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = variants.get(options) {
            return found.clone();
        }
        let variant = self.start_compilation(cuda_text(&self.prepared, options, self.sources.as_deref()));
        variants.insert(options.clone(), variant.clone());
        variant
    }

    /// Returns the tensor-core variant with these options, if the kernel can have one.
    pub fn product_variant(&self, options: &CodegenOptions) -> Option<Arc<KernelVariant>> {
        let mut variants = self.tensor_variants.lock().unwrap_or_else(PoisonError::into_inner);
        let text = || tensor_text(&self.prepared, options, self.sources.as_deref());
        variants.entry(options.clone()).or_insert_with(|| text().map(|kernel| self.start_compilation(kernel))).clone()
    }

    /// Starts compiling generated code.
    fn start_compilation(&self, kernel: CudaKernel) -> Arc<KernelVariant> {
        self.context.count_guards(&kernel.guards);
        let (context, name, source) = (self.context.clone(), self.definition().name.clone(), kernel.text.clone());
        let mut flags = kernel.options.flags();
        flags.push("-lineinfo".into());
        let code = Background::start("kernel compiler", move || context.machine_code(&name, &source, &flags));
        let wants = |argument: KernelArgument| kernel.params.contains(&argument);
        Arc::new(KernelVariant {
            fault_argument: kernel.params.iter().position(|param| *param == KernelArgument::Faults),
            prints: wants(KernelArgument::Prints),
            has_grid_barrier: wants(KernelArgument::GridBarrier),
            may_run_forever: kernel.places.iter().any(|place| place.kind == FaultSiteKind::Stopped),
            kernel: Arc::new(kernel),
            code,
            loaded: OnceLock::new(),
            loading: Mutex::default(),
        })
    }
}
