//! Advice on faults that needs the program: what the index of an access is made of, which loop is around two accesses, which
//! `return` kept threads from a barrier.
//!
//! Input: a fault, its kernel, the size of its launch. Output: the diagnostic of [`fault_diagnostic`] with better help where the kernel
//! says enough. What would be right only sometimes is left out; a fault in a function that the kernel calls keeps its general help.

mod barriers;
mod bounds;
mod case;
mod loops;
mod races;
mod threads;
mod written;

use crate::base::diag::Diagnostic;
use crate::check::typed::{Kernel, Program};
use crate::device::{Extents, Fault, FaultKind, fault_diagnostic};
use case::Case;

/// Returns the diagnostic of a fault in a launch of a kernel.
pub fn explained(program: &Program, kernel: &Kernel, extents: Extents, fault: &Fault) -> Diagnostic {
    let diagnostic = fault_diagnostic(fault);
    let Some(body) = kernel.body.as_deref() else { return diagnostic };
    let case = Case { program, kernel, body, extents, fault };
    match &fault.kind {
        FaultKind::OutOfBounds { array, indices, shape, axis, .. } => {
            bounds::advised(&case, (array, indices, shape, *axis), diagnostic)
        }
        FaultKind::Race(race) => races::advised(&case, race, diagnostic),
        FaultKind::Divergence { what, elsewhere, .. } => barriers::advised(&case, (what, *elsewhere), diagnostic),
        FaultKind::Incomplete { total, .. } => written::advised(&case, *total, diagnostic),
        _ => diagnostic,
    }
}
