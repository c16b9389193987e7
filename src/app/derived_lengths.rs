//! Messages about accesses past the end of an array whose length was derived from accesses or launches. Such a
//! length may be wrong, so the message says how to state the right one, and is a warning unless no length of the array
//! makes sense of the access.

use clk_base::diag::{Applicability, Diagnostic, Fix, Severity};
use clk_base::source::{SourceMap, Span};
use clk_import::{DerivedLength, SuggestedLength, TranslatedKernel};
use clk_prove::{ProofReport, ProofVerdict, Property};

/// The code of warnings about accesses past a derived length.
const PAST_DERIVED_LENGTH: &str = "W0853";

/// Adapts the verdicts about a kernel to the assumptions about it. A proof becomes unknown if a launch may break the
/// assumptions; a counterexample that is an access past a derived length is explained. `translated` are the translated
/// kernels of the CUDA file, or empty for a Clk program.
pub(crate) fn adapt_verdicts(report: &mut ProofReport, translated: &[TranslatedKernel], sources: &SourceMap) {
    if let Some(kernel) = translated.iter().find(|kernel| kernel.clk_name == report.kernel.as_str()) {
        for (property, verdict) in &mut report.verdicts {
            adapt(verdict, kernel, sources);
            if let (Property::RaceFree, ProofVerdict::Proved { .. }, Some(place)) =
                (*property, &*verdict, kernel.block_scope)
            {
                let why = "an atomic function of block scope may race between blocks".to_string();
                *verdict = ProofVerdict::Unknown { why, place: Some(place.span) };
            }
        }
    }
}

fn adapt(verdict: &mut ProofVerdict, kernel: &TranslatedKernel, sources: &SourceMap) {
    if let (ProofVerdict::Proved { .. }, Some(doubt)) = (&*verdict, &kernel.launch_doubt) {
        *verdict = ProofVerdict::Unknown { why: doubt.why.clone(), place: Some(doubt.place.span) };
        return;
    }
    let ProofVerdict::Refuted { past_end_of: Some(array), found, .. } = verdict else { return };
    if let Some(LengthExplanation::Unknown(why)) = explain(found, array, kernel, sources) {
        *verdict = ProofVerdict::Unknown { why, place: found.primary() };
    }
}

/// The result of the explanation of an access past a derived length.
pub(crate) enum LengthExplanation {
    /// The message says where the length comes from.
    Added,
    /// The length is derived from other accesses, which say nothing about this one, so it may be no fault. This is the
    /// reason.
    Unknown(String),
}

/// Explains an access past the end of an array, if the length of the array was derived.
pub(crate) fn explain(
    found: &mut Diagnostic,
    array: &str,
    kernel: &TranslatedKernel,
    sources: &SourceMap,
) -> Option<LengthExplanation> {
    let derived = kernel.derived_lengths.iter().find(|derived| derived.clk_array == array)?;
    let place = found.primary().map(|place| sources.original(place));
    let is_here = |at: Span| place.is_some_and(|place| at.is_in(place) || place.is_in(at));
    Some(match derived.accesses.iter().find(|access| is_here(access.access.span)) {
        Some(access) => {
            *found = explained(found, kernel, derived, access, sources);
            LengthExplanation::Added
        }
        None => LengthExplanation::Unknown(format!("the source does not state the length of `{}`", derived.array)),
    })
}

fn explained(
    found: &Diagnostic,
    kernel: &TranslatedKernel,
    derived: &DerivedLength,
    access: &SuggestedLength,
    sources: &SourceMap,
) -> Diagnostic {
    let array = &derived.array;
    let mut explained = found.clone();
    explained.notes.push(match derived.launch {
        Some(launch) => {
            let (line, _) = sources.line_column(launch.span);
            format!("the length of `{array}` is that of the launch in line {line}, which may pass related sizes")
        }
        None => format!("the length of `{array}` is derived from accesses of the kernel and may be wrong"),
    });
    if !access.is_plausible {
        return explained;
    }
    let comment = format!("// clk: {array}[{}]", access.length);
    explained.help.push(format!("if `{array}` is longer, state its length in a comment: `{comment}`"));
    explained.code = PAST_DERIVED_LENGTH;
    explained.severity = Severity::Warning;
    explained.fixes.extend(comment_fix(kernel, &comment, sources).map(|edit| Fix {
        title: format!("state that `{array}` has at least {} elements", access.length),
        edits: vec![edit],
        applicability: Applicability::MaybeIncorrect,
    }));
    explained
}

/// Returns the edit that adds a comment on a line before a kernel. `None` if the comment would not be about the kernel,
/// because the line contains more than the declaration, or if a macro produces the kernel.
fn comment_fix(kernel: &TranslatedKernel, comment: &str, sources: &SourceMap) -> Option<(Span, String)> {
    let name = Some(kernel.source).filter(|source| source.expansion.is_none())?.span;
    let before = sources.text(name.file).get(..name.range().start)?;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let (lines, declaration) = before.split_at(start);
    let indent = &declaration[..declaration.len() - declaration.trim_start().len()];
    let is_plain = declaration.trim_start().chars().all(|c| c.is_ascii_alphanumeric() || " _*&<>(),:".contains(c));
    let is_continued = lines.trim_end_matches(['\r', '\n']).ends_with('\\');
    (is_plain && !is_continued).then(|| (Span::new(name.file, start, start), format!("{indent}{comment}\n")))
}
