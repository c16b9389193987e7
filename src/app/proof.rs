//! Formats the verdicts and counterexamples of a kernel's proofs. Also warns about errors that a run did not show
//! because its launches were too small.

use serde_json::{Value, json};

use crate::console::paint;
use crate::interrupt::Interrupt;
use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::render::{self, RenderStyle};
use clk_base::source::{SourceMap, Span};
use clk_check::typed::{Expected, Kernel};
use clk_compile::Session;
use clk_host::interp::{Interpreter, UncoveredSizes};
use clk_import::TranslatedKernel;
use clk_ir::inexact_operations::InexactOperations;
use clk_prove::{ProofReport, ProofVerdict, Property, UntestedSizes, settle_warnings};

/// The assumption of a proof for the launches without overflow of signed integers.
const NO_OVERFLOW: &str = "no signed operation overflows, which is undefined in C++";

/// Returns the kernel's name, followed by a line for each verdict.
pub(crate) fn verdicts_text(report: &ProofReport, sources: &SourceMap, style: RenderStyle) -> String {
    let instance = if report.instance.is_empty() { String::new() } else { format!("  ({})", report.instance) };
    let mut text = format!("{}{}\n", escape::name(&report.kernel), escape::name(&instance));
    let assuming = assumptions(report, sources);
    if !assuming.is_empty() {
        text += &format!("  assuming {}\n", escape::name(&assuming.join(", ")));
    }
    for (property, verdict) in &report.verdicts {
        let said = match verdict {
            ProofVerdict::Proved { without_overflow, .. } => {
                let sizes = match report.largest {
                    None => "for all sizes".to_string(),
                    Some(largest) => format!("for all arrays of up to {largest} elements"),
                };
                let condition = if *without_overflow { " without signed overflow" } else { "" };
                format!("{} {sizes}{condition}", paint(style, "32", "proved"))
            }
            ProofVerdict::Refuted { sizes, .. } if sizes.is_empty() => paint(style, "31", "refuted"),
            ProofVerdict::Refuted { sizes, .. } => format!("{} by {sizes}", paint(style, "31", "refuted")),
            ProofVerdict::Unknown { why, place } => {
                let at = place.map(|place| format!("{}: ", position(place, sources))).unwrap_or_default();
                format!("{}: {at}{why}", paint(style, "33", "unknown"))
            }
        };
        text += &format!("  {:<14}  {said}\n", property.name());
    }
    if let Some(line) = report.not_examined_note(&|place| position(place, sources)) {
        text += &format!("  {}\n", escape::name(&line));
    }
    text
}

/// Returns the verdicts about a kernel and the counterexamples, without color.
pub(crate) fn report_text(report: &ProofReport, sources: &SourceMap) -> String {
    let style = RenderStyle::default();
    let mut text = verdicts_text(report, sources, style);
    for found in counterexamples(report) {
        text += &format!("\n{}", render::text(&found, sources, style));
    }
    text
}

/// Returns one line with the properties for each verdict: `scale: in bounds, free of races proved; written unknown`.
pub(crate) fn summary(report: &ProofReport) -> String {
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

/// Returns the source texts of the `assume` clauses that the proofs use.
pub(crate) fn assumptions(report: &ProofReport, sources: &SourceMap) -> Vec<String> {
    let text = |clause: &Span| sources.slice(*clause).split_whitespace().collect::<Vec<_>>().join(" ");
    report.assuming.iter().map(text).collect()
}

/// Returns the diagnostics of all counterexamples, without duplicates.
pub(crate) fn counterexamples(report: &ProofReport) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = vec![];
    for (_, verdict) in &report.verdicts {
        if let ProofVerdict::Refuted { found, .. } = verdict
            && !all.contains(found)
        {
            all.push((**found).clone());
        }
    }
    all
}

/// Returns a JSON record for each verdict. `translation` is the kernel of a CUDA file.
pub(crate) fn verdict_records(
    report: &ProofReport,
    kernel: &Kernel,
    translation: Option<&TranslatedKernel>,
    sources: &SourceMap,
) -> Vec<Value> {
    let at = |place: Span| render::place_json(sources.original(place), sources);
    let unexamined: Vec<Value> =
        report.unexamined.iter().map(|(text, place)| json!({ "arguments": text, "at": at(*place) })).collect();
    let (mut assuming, fidelity) = (assumptions(report, sources), fidelity(report, kernel, &at));
    let notes = translation.iter().flat_map(|kernel| &kernel.assumptions).filter(|assumption| !assumption.is_clause);
    assuming.extend(notes.map(|assumption| assumption.text.to_string()));
    let records = report.verdicts.iter().map(|(property, verdict)| {
        let mut record = json!({
            "kernel": report.kernel,
            "instance": report.instance,
            "property": property.name(),
            "verdict": verdict.word(),
            "assuming": assuming,
            "unexamined": unexamined,
            "fidelity": fidelity,
        });
        match verdict {
            ProofVerdict::Proved { steps, without_overflow } => {
                if *without_overflow {
                    let mut assuming = assuming.clone();
                    assuming.push(NO_OVERFLOW.to_string());
                    record["assuming"] = json!(assuming);
                }
                record["certificates"] = json!(steps);
                record["largest"] = json!(report.largest.map(|n| n as i64));
            }
            ProofVerdict::Refuted { sizes, found, .. } => {
                record["sizes"] = json!(sizes);
                record["code"] = json!(found.code);
            }
            ProofVerdict::Unknown { why, place } => {
                record["why"] = json!(why);
                record["at"] = json!(place.map(at));
            }
        }
        record
    });
    records.collect()
}

/// Describes how far the kernel's results agree between devices and runs.
fn fidelity(report: &ProofReport, kernel: &Kernel, at: &dyn Fn(Span) -> Value) -> Value {
    let tested = kernel.expects.iter().filter_map(|expect| match expect.expected {
        Expected::MaxUlp(limit) => Some(limit),
        _ => None,
    });
    let order = report.verdict(Property::Order);
    let empty = InexactOperations::default();
    let inexact = report.inexact.as_ref().unwrap_or(&empty);
    let results = match order {
        // A tuned choice, which may differ between devices, may change the order of operations.
        _ if report.inexact.is_none() || !kernel.tunes.is_empty() || inexact.nan_bits => "unknown",
        Some(ProofVerdict::Refuted { .. }) => "order",
        _ if !inexact.unordered_sums.is_empty() => "order",
        Some(ProofVerdict::Proved { without_overflow: true, .. }) => "unknown",
        Some(ProofVerdict::Proved { .. }) if !inexact.functions.is_empty() => "ulp",
        Some(ProofVerdict::Proved { .. }) if inexact.tensor_cores => "tensor-cores",
        Some(ProofVerdict::Proved { .. }) => "bits",
        _ => "unknown",
    };
    let functions: Vec<Value> =
        inexact.functions.iter().map(|(name, ulps)| json!({ "name": name, "ulps": ulps })).collect();
    json!({
        "results": results,
        "functions": functions,
        "unordered_sums": inexact.unordered_sums.iter().map(|place| at(*place)).collect::<Vec<_>>(),
        "tensor_cores": inexact.tensor_cores,
        "max_ulp": tested.min(),
    })
}

pub(crate) fn position(place: Span, sources: &SourceMap) -> String {
    let place = sources.original(place);
    let (line, column) = sources.line_column(place);
    format!("{}:{line}:{column}", sources.name(place.file))
}

/// Removes the warnings from the interpreter and returns those that no proof refutes. Omits a warning that repeats the
/// fault `failed`, which ended the run.
pub(crate) fn unproved_warnings(
    interpreter: &mut Interpreter,
    session: &Session,
    failed: Option<&Diagnostic>,
    interrupt: &Interrupt,
) -> Vec<Diagnostic> {
    let warnings = interpreter.take_warnings();
    let kernels = interpreter.observers.coverage.undercovered_kernels();
    let small = kernels.map(|(kernel, UncoveredSizes { blocks, warps })| UntestedSizes { kernel, blocks, warps });
    settle_warnings((warnings, failed), small, &session.program, session.main, &|| interrupt.exit_code().is_some())
}
