//! The text of what a proof says of a kernel, of the reports of its counterexamples, and of what a run was too small to show.

use crate::app::console::paint;
use crate::app::interrupt::Interrupt;
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::render::Style;
use crate::base::source::{Sources, Span};
use crate::compile::Session;
use crate::host::interp::{Interpreter, Missed};
use crate::prove::{Property, Report, Verdict, examine, of_file};

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

/// What a launch of another size may do wrong although one of this size does not.
const BEYOND: [Property; 4] = [Property::InBounds, Property::RaceFree, Property::Barriers, Property::NoOverflow];

/// Takes the warnings of a run. Kernels of the program's own file (others are proved in theirs) whose launches were too small to tell
/// are proved instead: notes of hazards that no launch has are dropped, others say why that is not known, and faults of larger launches
/// are added, but for the one with which the run itself has failed.
pub(crate) fn beyond(
    interpreter: &mut Interpreter,
    session: &Session,
    failed: Option<&Diagnostic>,
    interrupt: &Interrupt,
) -> Vec<Diagnostic> {
    let is_new = |found: &Diagnostic| {
        failed.is_none_or(|failed| (failed.code, failed.primary()) != (found.code, found.primary()))
    };
    let mut warnings = interpreter.take_warnings();
    let program = &session.program;
    let own = of_file(program, session.main);
    let small: Vec<_> = interpreter.small.kernels().filter(|(id, _)| own.contains(id)).collect();
    for (id, missed) in small {
        if interrupt.exit_code().is_some() {
            break;
        }
        let (kernel, report) = (&program.kernels[id], examine(program, id));
        let proved = matches!(report.verdict(Property::RaceFree), Some(Verdict::Proved { .. }));
        let of_kernel = |one: &Diagnostic| one.code == "W0603" && one.primary() == Some(kernel.name_span);
        warnings.retain(|one| !(proved && of_kernel(one)));
        warnings.iter_mut().filter(|one| of_kernel(one)).for_each(|hazard| settle(hazard, &report));
        let refuted = report.verdicts.iter().filter(|(property, _)| BEYOND.contains(property));
        warnings.extend(refuted.filter_map(|(_, verdict)| larger(verdict, &report.kernel, missed, is_new)));
    }
    warnings
}

/// Adds to the note of a hazard what the proof says of it.
fn settle(hazard: &mut Diagnostic, report: &Report) {
    let said = match report.verdict(Property::RaceFree) {
        Some(Verdict::Refuted { sizes, .. }) => format!("a launch with {sizes} has a race, reported below"),
        Some(Verdict::Unknown { why, .. }) => format!("a proof for all sizes was tried, and does not settle it: {why}"),
        _ => return,
    };
    hazard.notes.push(said);
}

/// Returns the warning of a fault that a larger launch has.
fn larger(
    verdict: &Verdict,
    kernel: &str,
    missed: Missed,
    is_new: impl FnOnce(&Diagnostic) -> bool,
) -> Option<Diagnostic> {
    let Verdict::Refuted { sizes, found } = verdict else { return None };
    if !is_new(found) {
        return None;
    }
    let had = match (missed.blocks, missed.warps) {
        (true, true) => "at most one block, of at most 32 threads",
        (true, false) => "at most one block",
        _ => "blocks of at most 32 threads",
    };
    let mut warning =
        Diagnostic::warning("W0611", format!("another launch of `{kernel}` has a fault: {}", found.title));
    warning.labels.clone_from(&found.labels);
    warning.notes.push(format!("launches of this run had {had}; one with {sizes} has it ({})", found.code));
    warning.notes.extend(found.notes.iter().cloned());
    warning.help.clone_from(&found.help);
    Some(warning)
}
