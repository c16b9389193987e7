//! Compares what is expected of a kernel (`expect in_bounds`) with what is proved of it.

use super::examine::examine;
use super::report::{MAX_NAMED, Property, Report, Verdict};
use crate::base::diag::Diagnostic;
use crate::check::typed::{Expected, Kernel, KernelId, Program};

/// Examines a kernel if something is expected of it. Returns an error with the report of a run for what is refuted, and a warning
/// for what is not proved.
pub fn unexpected(program: &Program, id: KernelId) -> Vec<Diagnostic> {
    let Some(kernel) = program.kernels.get(id).filter(|kernel| !kernel.expects.is_empty()) else { return vec![] };
    let report = examine(program, id);
    let mut all: Vec<Diagnostic> = vec![];
    for expect in &kernel.expects {
        let Some(property) = Property::of(expect.what) else { continue };
        let word = expect.what.text();
        match report.verdict(property) {
            Some(Verdict::Proved { .. }) => {}
            Some(Verdict::Refuted { sizes, found }) => {
                let by = if sizes.is_empty() { "a run shows it".into() } else { format!("refuted by {sizes}") };
                let title = format!("`{}` is not what `expect {word}` says", kernel.name);
                let error = Diagnostic::error("E0618", title).at(expect.span, by);
                all.push(error.because(kernel.name_span, "this kernel"));
                if !all.contains(found) {
                    all.push((**found).clone());
                }
            }
            Some(Verdict::Unknown { why, place }) => {
                let title = format!("`expect {word}` is not proved of `{}`", kernel.name);
                let warning = Diagnostic::warning("W0606", title).at(expect.span, "expected here");
                all.push(match place {
                    Some(place) => warning.because(*place, why),
                    None => warning.note(why),
                });
            }
            None => {}
        }
    }
    all.extend(unexamined(kernel, &report));
    all
}

/// Returns the warning about launches that a proof does not speak of.
fn unexamined(kernel: &Kernel, report: &Report) -> Option<Diagnostic> {
    let proved = |what: Expected| {
        matches!(Property::of(what).and_then(|property| report.verdict(property)), Some(Verdict::Proved { .. }))
    };
    let expect = kernel.expects.iter().find(|expect| proved(expect.what))?;
    let more = report.unexamined.len().checked_sub(1)?;
    let title = format!("what is expected of `{}` is not proved of all its launches", kernel.name);
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
