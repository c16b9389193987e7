//! Selects the diagnostics of a check that are reported: sorted by position, without duplicates, up to a limit.

use std::collections::HashMap;

use crate::base::diag::{self, Diagnostic};
use crate::base::source::Span;
use crate::check::typed::ModuleId;

/// Maximum number of errors reported by one check; further errors are mostly consequences of the first ones.
pub(crate) const MAX_ERRORS: usize = 20;
const MAX_WARNINGS: usize = 50;

/// Code of the diagnostic for an erroneous tree node that no other diagnostic explains.
pub const UNREPORTED: &str = "E0999";

/// Modules that a file's imports resolve to, by `Import::span`. A missing entry has already been reported by the caller.
pub type Imports = HashMap<Span, ModuleId>;

/// Sorts diagnostics by source position, removes duplicates, and truncates to the maximum counts.
pub fn tidy(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    found.sort_by_key(|d| d.primary().map_or((u32::MAX, 0), |s| (s.file.0, s.start)));
    found.dedup_by(|a, b| a.code == b.code && a.primary() == b.primary());
    let (mut errors, mut warnings) = (0, 0);
    found.retain(|d| {
        let (count, most) = if d.is_error() { (&mut errors, MAX_ERRORS) } else { (&mut warnings, MAX_WARNINGS) };
        *count += 1;
        *count <= most
    });
    if let Some(last) = found.iter_mut().rfind(|d| d.is_error()) {
        last.notes.extend(diag::and_more(errors.saturating_sub(MAX_ERRORS)));
    }
    found
}
