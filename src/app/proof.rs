//! The text of what a proof says of a kernel, of the reports of its counterexamples, and of what a run was too small to show.

use crate::app::console::paint;
use crate::app::interrupt::Interrupt;
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::render::Style;
use crate::base::source::{Sources, Span};
use crate::compile::Session;
use crate::host::interp::{Interpreter, Missed};
use crate::prove::{Report, Small, Verdict, settled};

/// Returns the verdicts, a line each, below the kernel's name.
pub(crate) fn text(report: &Report, sources: &Sources, style: Style) -> String {
    let instance = if report.instance.is_empty() { String::new() } else { format!("  ({})", report.instance) };
    let mut text = format!("{}{}\n", escape::name(&report.kernel), escape::name(&instance));
    let assuming = assuming(report, sources);
    if !assuming.is_empty() {
        text += &format!("  assuming {}\n", escape::name(&assuming.join(", ")));
    }
    for (property, verdict) in &report.verdicts {
        let said = match verdict {
            Verdict::Proved { .. } => {
                let sizes = match report.largest {
                    None => "for all sizes".to_string(),
                    Some(largest) => format!("for all arrays of up to {largest} elements"),
                };
                format!("{} {sizes}", paint(style, "32", "proved"))
            }
            Verdict::Refuted { sizes, .. } if sizes.is_empty() => paint(style, "31", "refuted"),
            Verdict::Refuted { sizes, .. } => format!("{} by {sizes}", paint(style, "31", "refuted")),
            Verdict::Unknown { why, place } => {
                let at = place.map(|place| format!("{}: ", position(place, sources))).unwrap_or_default();
                format!("{}: {at}{why}", paint(style, "33", "unknown"))
            }
        };
        text += &format!("  {:<14}  {said}\n", property.name());
    }
    if let Some(line) = report.silence(&|place| position(place, sources)) {
        text += &format!("  {}\n", escape::name(&line));
    }
    text
}

/// Returns a line for each kind of verdict: `scale: in bounds, free of races proved; written unknown`.
pub(crate) fn summary(report: &Report) -> String {
    let mut parts: Vec<String> = vec![];
    for word in ["refuted", "unknown", "proved"] {
        let own = report.verdicts.iter().filter(|(_, verdict)| verdict.word() == word);
        let names: Vec<String> = own.map(|(property, _)| property.name()).collect();
        if !names.is_empty() {
            parts.push(format!("{} {word}", names.join(", ")));
        }
    }
    format!("{}: {}", report.kernel, parts.join("; "))
}

/// Returns the clauses that all proofs rest on.
pub(crate) fn assuming(report: &Report, sources: &Sources) -> Vec<String> {
    let text = |clause: &Span| sources.slice(*clause).split_whitespace().collect::<Vec<_>>().join(" ");
    report.assuming.iter().map(text).collect()
}

/// Returns the reports of all counterexamples, each once.
pub(crate) fn counterexamples(report: &Report) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = vec![];
    for (_, verdict) in &report.verdicts {
        if let Verdict::Refuted { found, .. } = verdict
            && !all.contains(found)
        {
            all.push((**found).clone());
        }
    }
    all
}

pub(crate) fn position(place: Span, sources: &Sources) -> String {
    let (line, column) = sources.line_column(place);
    format!("{}:{line}:{column}", sources.name(place.file))
}

/// Takes the warnings of a run, settled by proofs; the fault with which it has failed is not among them.
pub(crate) fn beyond(
    interpreter: &mut Interpreter,
    session: &Session,
    failed: Option<&Diagnostic>,
    interrupt: &Interrupt,
) -> Vec<Diagnostic> {
    let warnings = interpreter.take_warnings();
    let kernels = interpreter.small.kernels();
    let small = kernels.map(|(kernel, Missed { blocks, warps })| Small { kernel, blocks, warps });
    settled((warnings, failed), small, &session.program, session.main, &|| interrupt.exit_code().is_some())
}
