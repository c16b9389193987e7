//! Compares a kernel's `expect` clauses, such as `expect in_bounds`, with the results of its proofs.

use super::prover::prove_kernel;
use super::report::{MAX_NAMED, ProofReport, ProofVerdict, Property};
use clk_base::diag::Diagnostic;
use clk_check::typed::{Expected, Kernel, KernelId, Program};

/// Proves a kernel that has an `expect` clause. Returns an error with the counterexample for each refuted expectation,
/// and a warning for each that is not proved.
pub fn check_expectations(program: &Program, id: KernelId) -> Vec<Diagnostic> {
    let Some(kernel) = program.kernels.get(id).filter(|kernel| !kernel.expects.is_empty()) else { return vec![] };
    let report = prove_kernel(program, id);
    let mut all: Vec<Diagnostic> = vec![];
    for expect in &kernel.expects {
        let Some(property) = Property::from_expected(expect.expected) else { continue };
        let word = expect.expected.text();
        match report.verdict(property) {
            Some(ProofVerdict::Proved { .. }) => {}
            Some(ProofVerdict::Refuted { sizes, found, .. }) => {
                let by = if sizes.is_empty() { "a run shows it".into() } else { format!("refuted by {sizes}") };
                let title = format!("`{}` violates `expect {word}`", kernel.name);
                let error = Diagnostic::error("E0618", title).at(expect.span, by);
                all.push(error.because(kernel.name_span, "this kernel"));
                if !all.contains(found) {
                    all.push((**found).clone());
                }
            }
            Some(ProofVerdict::Unknown { why, place }) => {
                let title = format!("`expect {word}` is not proved for `{}`", kernel.name);
                let warning = Diagnostic::warning("W0606", title).at(expect.span, "expected here");
                all.push(match place {
                    Some(place) => warning.because(*place, why),
                    None => warning.note(why),
                });
            }
            None => {}
        }
    }
    all.extend(unexamined_warning(kernel, &report));
    all
}

/// Returns the warning about launches that the proof does not cover.
fn unexamined_warning(kernel: &Kernel, report: &ProofReport) -> Option<Diagnostic> {
    let proved = |expected: Expected| {
        matches!(
            Property::from_expected(expected).and_then(|property| report.verdict(property)),
            Some(ProofVerdict::Proved { .. })
        )
    };
    let expect = kernel.expects.iter().find(|expect| proved(expect.expected))?;
    let more = report.unexamined.len().checked_sub(1)?;
    let title = format!("the expectations of `{}` are not proved for all its launches", kernel.name);
    let label = format!("proved with {}", report.instance);
    let mut warning = Diagnostic::warning("W0606", title).at(expect.span, label);
    for (text, span) in report.unexamined.iter().take(MAX_NAMED) {
        warning = warning.because(*span, format!("not examined: {text}"));
    }
    Some(if more >= MAX_NAMED {
        warning.note(format!("{} more launches are not examined", more + 1 - MAX_NAMED))
    } else {
        warning
    })
}
