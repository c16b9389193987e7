//! Lints about a text that is translated from another language. Lints about variables of the translation and about
//! Clk's syntax are removed. The others keep their message, but lose their advice, which is about Clk.

use clk_base::diag::Diagnostic;
use clk_base::source::{SourceMap, Span};

/// Lints about choices of the translation: `let`, unused values, names that hide others, the form of expressions,
/// comments.
const ABOUT_CLK: &[&str] = &["W0004", "W0005", "W0007", "W0011", "W0012", "W0101", "W0102", "W0103"];

/// Lints about one variable, which their title names.
const ABOUT_VARIABLES: &[&str] = &["W0001", "W0002", "W0009"];

/// Removes the lints about a translated text that do not apply to the original, and the advice of the others.
pub(crate) fn retain(diagnostics: &mut Vec<Diagnostic>, sources: &SourceMap) {
    diagnostics.retain_mut(|found| {
        let is_translated = found.primary().is_some_and(|place| sources.is_generated(place.file));
        // The codes of lints begin with `W00` and `W01`.
        let is_lint = found.code.starts_with("W00") || found.code.starts_with("W01");
        if !is_lint || !is_translated {
            return true;
        }
        found.help.clear();
        found.fixes.clear();
        let names_variable = ABOUT_VARIABLES.contains(&found.code);
        // `var` or `let` is a choice of the translation.
        let is_about_declaration = found.code == "W0009" && !found.title.contains("never ends");
        !ABOUT_CLK.contains(&found.code) && !is_about_declaration && (!names_variable || is_original(found, sources))
    });
}

/// Returns whether the original has the variable that the title names, on the lines of one of the places.
fn is_original(found: &Diagnostic, sources: &SourceMap) -> bool {
    let Some(name) = found.title.split('`').nth(1) else { return false };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has_name = |span: Span| {
        let origin = sources.original(span);
        let (text, range) = (sources.text(origin.file), origin.range());
        let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at);
        text[start..end].split(|c: char| !is_word(c)).any(|word| word == name)
    };
    found.labels.iter().any(|label| has_name(label.span))
}
