//! Applies all machine-applicable fixes of a file at once.

use clk_base::diag::{Applicability, Diagnostic, Fix};
use clk_base::source::FileId;

/// Returns the machine-applicable fixes of one file that do not overlap, in the order of the diagnostics.
pub(crate) fn non_overlapping(diagnostics: &[Diagnostic], file: FileId) -> Vec<&Fix> {
    let mut edited: Vec<(u32, u32)> = Vec::new();
    let mut selected = Vec::new();
    // The fixes of one diagnostic are alternatives; the first machine-applicable one is used.
    let sure = |d: &'_ Diagnostic| d.fixes.iter().position(|f| f.applicability == Applicability::MachineApplicable);
    for diagnostic in diagnostics {
        let Some(fix) = sure(diagnostic).and_then(|i| diagnostic.fixes.get(i)) else { continue };
        let own = fix.edits.iter().all(|(span, _)| span.file == file);
        let free = |&(start, end): &(u32, u32)| fix.edits.iter().all(|(s, _)| s.end < start || end < s.start);
        if own && !fix.edits.is_empty() && edited.iter().all(free) {
            edited.extend(fix.edits.iter().map(|(s, _)| (s.start, s.end)));
            selected.push(fix);
        }
    }
    selected
}

/// Returns the text with the fixes of [`non_overlapping`] applied.
pub(crate) fn apply(text: &str, fixes: &[&Fix]) -> String {
    let mut edits: Vec<_> = fixes.iter().flat_map(|f| &f.edits).collect();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse((span.start, span.end)));
    let mut out = text.to_owned();
    for (span, new) in edits {
        if out.get(span.range()).is_some() {
            out.replace_range(span.range(), new);
        }
    }
    out
}
