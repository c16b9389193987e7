//! Adds to a profile the resources that the CUDA compiler reports for its kernel, and advice.

use rustc_hash::FxHashMap;

use crate::generated::KernelEmitter;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::KernelId;
use clk_compile::Session;
use clk_profile::KernelResources;
use clk_profile::advice::{AdviceContext, advise};
use clk_profile::edits::ParsedKernels;
use clk_profile::gpus::{GPUS, GpuModel};
use clk_prove::{ProofVerdict, Property, prove_kernel};
use clk_runtime::profile::{CostCounting, Profile};

/// Returns the names of the GPUs for which time bounds can be computed.
pub(crate) fn names_of_gpus() -> String {
    GPUS.iter().map(|gpu| gpu.name).collect::<Vec<_>>().join(", ")
}

/// Finds the kernels of a program by the spans of their names.
pub(crate) struct KernelIds(FxHashMap<Span, KernelId>);

impl KernelIds {
    pub fn of(session: &Session) -> KernelIds {
        KernelIds(session.program.kernels.iter().map(|(id, kernel)| (kernel.name_span, id)).collect())
    }

    /// Returns the kernel that a profile describes.
    pub fn find(&self, kernels: &ParsedKernels<'_>, profile: &Profile) -> Option<KernelId> {
        let (_, kernel) = kernels.at(profile.span)?;
        self.0.get(&kernel.name.span).copied()
    }
}

/// Returns the registers, spills and shared memory of a kernel as the CUDA compiler reports them. `None` if that
/// compiler is missing or the kernel has compile-time parameters.
pub(crate) fn resources(
    generator: &KernelEmitter,
    session: &Session,
    kernel: Option<KernelId>,
    profile: &Profile,
) -> Option<KernelResources> {
    let id = kernel.filter(|_| profile.of == CostCounting::Kernel)?;
    let plain = session.program.kernels[id].sig.generics.is_empty();
    if plain && !profile.tiled { generator.resources(session, id) } else { None }
}

/// Returns the advice for a profile.
pub(crate) fn advice_for(
    profile: &Profile,
    resources: Option<KernelResources>,
    gpu: &'static GpuModel,
    session: &Session,
    kernels: &ParsedKernels<'_>,
    ids: &KernelIds,
) -> Vec<Diagnostic> {
    let any_order = || {
        let Some(id) = ids.find(kernels, profile) else { return false };
        let report = prove_kernel(&session.program, id);
        let is_proved = |property| matches!(report.verdict(property), Some(ProofVerdict::Proved { .. }));
        report.unexamined.is_empty() && is_proved(Property::RaceFree) && is_proved(Property::Order)
    };
    advise(&AdviceContext { profile, kernels, gpu, resources, any_order: &any_order })
}
