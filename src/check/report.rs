//! Selects the diagnostics of a check that are shown to the user: sorted by position, without duplicates, up to a
//! limit.

use std::collections::HashMap;

use crate::typed::ModuleId;
use clk_base::diag::{self, Diagnostic};
use clk_base::source::Span;

/// Maximum number of errors reported by one check; further errors are mostly consequences of the first ones.
pub(crate) const MAX_ERRORS: usize = 20;
const MAX_WARNINGS: usize = 50;

/// Code of the diagnostic for an erroneous tree node that no other diagnostic explains.
pub const UNREPORTED: &str = "E0999";

/// The module that each import of a file refers to, by `Import::span`. If an import has no module, the caller has
/// reported an error.
pub type Imports = HashMap<Span, ModuleId>;

/// Sorts diagnostics by source position, removes duplicates, and truncates to the maximum counts.
pub fn tidy(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|d| d.primary().map_or((u32::MAX, 0), |s| (s.file.0, s.start)));
    diagnostics.dedup_by(|a, b| a.code == b.code && a.primary() == b.primary());
    let (mut errors, mut warnings) = (0, 0);
    diagnostics.retain(|d| {
        let (count, limit) = if d.is_error() { (&mut errors, MAX_ERRORS) } else { (&mut warnings, MAX_WARNINGS) };
        *count += 1;
        *count <= limit
    });
    if let Some(last) = diagnostics.iter_mut().rfind(|d| d.is_error()) {
        last.notes.extend(diag::hidden_errors_note(errors.saturating_sub(MAX_ERRORS)));
    }
    diagnostics
}
