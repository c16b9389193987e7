//! The resources that the compiler reports for a profiled kernel, and advice for its profile.

use rustc_hash::FxHashMap;

use crate::app::generated::Generator;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::KernelId;
use crate::compile::Session;
use crate::device::profile::{Counted, Profile};
use crate::profile::Resources;
use crate::profile::advice::{Subject, advice};
use crate::profile::devices::{GPUS, Gpu};
use crate::profile::repair::Kernels;
use crate::prove::{Property, Verdict, examine};

/// Returns the names of the GPUs that have bounds.
pub(crate) fn names_of_gpus() -> String {
    GPUS.iter().map(|gpu| gpu.name).collect::<Vec<_>>().join(", ")
}

/// The kernels of a program, by the span of their name.
pub(crate) struct KernelIds(FxHashMap<Span, KernelId>);

impl KernelIds {
    pub fn of(session: &Session) -> KernelIds {
        KernelIds(session.program.kernels.iter().map(|(id, kernel)| (kernel.name_span, id)).collect())
    }

    /// Returns the kernel that a profile is of.
    pub fn find(&self, kernels: &Kernels<'_>, profile: &Profile) -> Option<KernelId> {
        let (_, kernel) = kernels.at(profile.span)?;
        self.0.get(&kernel.name.span).copied()
    }
}

/// Returns the resources that the CUDA compiler reports for a kernel without compile-time parameters, if that compiler is available.
pub(crate) fn resources(
    generator: &Generator,
    session: &Session,
    kernel: Option<KernelId>,
    profile: &Profile,
) -> Option<Resources> {
    let id = kernel.filter(|_| profile.of == Counted::Kernel)?;
    let plain = session.program.kernels[id].sig.generics.is_empty();
    if plain && !profile.tiled { generator.resources(session, id) } else { None }
}

/// Returns the advice for a profile.
pub(crate) fn advice_for(
    profile: &Profile,
    resources: Option<Resources>,
    gpu: &'static Gpu,
    (session, kernels, ids): (&Session, &Kernels<'_>, &KernelIds),
) -> Vec<Diagnostic> {
    let any_order = || {
        let Some(id) = ids.find(kernels, profile) else { return false };
        let report = examine(&session.program, id);
        let is_proved = |property| matches!(report.verdict(property), Some(Verdict::Proved { .. }));
        report.unexamined.is_empty() && is_proved(Property::RaceFree) && is_proved(Property::Order)
    };
    advice(&Subject { profile, kernels, gpu, resources, any_order: &any_order })
}
