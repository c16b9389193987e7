//! Explains the faults of launches: the one place that makes diagnostics of them.
//!
//! Input: a fault and the [`FaultOrigin`], which says what is known about the launch. Output: the diagnostic of
//! [`fault_diagnostic`] with the place of the launch. Its help text is replaced if the kernel's source allows more
//! specific advice, for example about the operands of an index. Advice that may be wrong is omitted.

mod barriers;
mod bounds;
mod context;
mod enclosing;
mod index_ranges;
mod races;
mod thread_values;
mod thread_variance;
mod unwritten;

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Kernel, Program};
use clk_runtime::{
    DeviceError, Fault, FaultKind, LaunchExtents, LaunchOrigin, ReplayVerdict, device_diagnostic, fault_diagnostic,
};
use context::FaultContext;
use unwritten::UnwrittenElements;

/// The launch in which a fault occurred.
#[derive(Clone, Copy, Debug)]
pub struct FaultOrigin<'a> {
    program: &'a Program,
    source: Option<(&'a Kernel, LaunchExtents)>,
    launched: Option<Span>,
}

impl<'a> FaultOrigin<'a> {
    /// A launch by a statement of the program, at `launched`. `source` is the kernel with the extents of the launch;
    /// `None` if a generated kernel ran, whose indices are not those of the source.
    pub fn new(program: &'a Program, source: Option<(&'a Kernel, LaunchExtents)>, launched: Span) -> FaultOrigin<'a> {
        FaultOrigin { program, source, launched: Some(launched) }
    }

    /// A launch whose kernel is found by its location.
    pub fn of_launch(program: &'a Program, origin: &LaunchOrigin) -> FaultOrigin<'a> {
        let kernel = origin.kernel.and_then(|span| program.kernels.iter().find(|(_, kernel)| kernel.name_span == span));
        FaultOrigin::new(program, kernel.map(|(_, kernel)| (kernel, origin.extents)), origin.launched)
    }

    /// A launch that no statement of the program makes, such as a trial run.
    pub fn of_trial(program: &'a Program, kernel: &'a Kernel, extents: LaunchExtents) -> FaultOrigin<'a> {
        FaultOrigin { program, source: Some((kernel, extents)), launched: None }
    }

    /// Returns the diagnostic of a fault. The faults of earlier launches and of lost devices name their own launch.
    pub fn explain(&self, fault: &Fault) -> Diagnostic {
        if let FaultKind::Device(error @ (DeviceError::EarlierLaunch(_) | DeviceError::Lost(_))) = &fault.kind {
            return explain_device_error(self.program, error, self.launched.unwrap_or(fault.span));
        }
        let diagnostic = self.advise(fault, fault_diagnostic(fault));
        match self.launched {
            Some(launched) => diagnostic.because(launched, "launched here"),
            None => diagnostic,
        }
    }

    /// Replaces the help text by advice that depends on the kernel's source. The help text is kept for a fault in a
    /// function that the kernel calls.
    fn advise(&self, fault: &Fault, diagnostic: Diagnostic) -> Diagnostic {
        let Some((kernel, extents)) = self.source else { return diagnostic };
        let Some(body) = kernel.body.as_deref() else { return diagnostic };
        let case = FaultContext { program: self.program, kernel, body, extents, fault };
        match &fault.kind {
            FaultKind::OutOfBounds { array, indices, shape, axis, .. } => {
                bounds::advise(&case, array, indices, shape, *axis, diagnostic)
            }
            FaultKind::Race(race) => races::advise(&case, race, diagnostic),
            FaultKind::Divergence { what, elsewhere, .. } => barriers::advise(&case, what, *elsewhere, diagnostic),
            FaultKind::Incomplete { array, shape, first, total, .. } => {
                unwritten::advise(&case, &UnwrittenElements { array, shape, first, total: *total }, diagnostic)
            }
            _ => diagnostic,
        }
    }
}

/// Returns the diagnostic of a device error that was noticed at `span`. If a launch of the program caused it, the
/// diagnostic is the one of that launch's fault.
pub fn explain_device_error(program: &Program, error: &DeviceError, span: Span) -> Diagnostic {
    match error {
        DeviceError::EarlierLaunch(earlier) => FaultOrigin::of_launch(program, &earlier.origin).explain(&earlier.fault),
        DeviceError::Lost(loss) => {
            let diagnostic = device_diagnostic(error, span);
            match (&loss.verdict, &loss.origin) {
                (ReplayVerdict::Fault(fault), Some(origin)) => {
                    FaultOrigin::of_launch(program, origin).advise(fault, diagnostic)
                }
                _ => diagnostic,
            }
        }
        _ => device_diagnostic(error, span),
    }
}
