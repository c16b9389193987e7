//! Fixes that need nobody to look at them, applied together.

use crate::base::diag::{Applicability, Diagnostic, Fix};
use crate::base::source::FileId;

/// The sure fixes of one file that do not touch each other, in the order of the diagnostics.
pub(crate) fn together(diagnostics: &[Diagnostic], file: FileId) -> Vec<&Fix> {
    let mut taken: Vec<(u32, u32)> = Vec::new();
    let mut found = Vec::new();
    // One diagnostic's fixes are alternatives: the first sure one counts.
    let sure = |d: &'_ Diagnostic| d.fixes.iter().position(|f| f.applicability == Applicability::MachineApplicable);
    for diagnostic in diagnostics {
        let Some(fix) = sure(diagnostic).and_then(|i| diagnostic.fixes.get(i)) else { continue };
        let own = fix.edits.iter().all(|(span, _)| span.file == file);
        let free = |&(start, end): &(u32, u32)| fix.edits.iter().all(|(s, _)| s.end < start || end < s.start);
        if own && !fix.edits.is_empty() && taken.iter().all(free) {
            taken.extend(fix.edits.iter().map(|(s, _)| (s.start, s.end)));
            found.push(fix);
        }
    }
    found
}

/// A text after fixes of [`together`].
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
