//! Layer 3: the formatter.
//!
//! It works on tokens and comments, not on the tree, and changes only whitespace and the separators next to it. It
//! keeps line breaks of the source if possible, so a block written on one line stays on one line if it fits. A pass
//! consists of `elements` (reads tokens and comments), `roles` (resolves ambiguous tokens), `breaks` (adds required
//! line breaks), `layout` (indents lines, and calls `split` for long lines) and `write`. The formatter repeats passes
//! until the text no longer changes. Then `verify` checks that the result is the same program as the source.

#![allow(rustdoc::private_intra_doc_links)]

mod breaks;
mod elements;
mod layout;
mod roles;
mod spacing;
mod split;
mod tokenized_text;
mod verify;
mod write;

use std::ops::Range;

use clk_base::diag::Diagnostic;
use clk_base::source::FileId;
use clk_syntax::ast;
pub use tokenized_text::Edit;
use tokenized_text::TokenizedText;
use verify::FormatDifference;

/// Maximum width of a line in characters.
pub const WIDTH: usize = 120;

/// A formatted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    pub text: String,
    /// The changes in order; they affect only blanks, line breaks, and commas or semicolons next to them.
    pub edits: Vec<Edit>,
}

/// Maximum number of passes before formatting fails with an error. Two are usual.
const PASSES: usize = 24;

/// Formats a text. Returns its diagnostics if it has syntax errors, and an internal error (E0999) if its meaning would
/// change.
pub fn format(file: FileId, text: &str) -> Result<Formatted, Vec<Diagnostic>> {
    format_to(file, text, WIDTH)
}

/// Like [`format()`], but with another line width.
pub fn format_to(file: FileId, text: &str, width: usize) -> Result<Formatted, Vec<Diagnostic>> {
    let tree = parse_valid(file, text)?;
    let old = TokenizedText::read(file, text);
    let new = format_to_fixpoint(file, text, width).map_err(internal_error)?;
    if new == text {
        return Ok(Formatted { text: new, edits: Vec::new() });
    }
    let edits = verify::check(&old, &tree, &TokenizedText::read(file, &new)).map_err(internal_error)?;
    Ok(Formatted { text: new, edits })
}

/// Like [`format()`], but makes only the changes in a range of bytes, and changes outside it that they depend on.
pub fn format_range(file: FileId, text: &str, range: Range<usize>) -> Result<Formatted, Vec<Diagnostic>> {
    let tree = parse_valid(file, text)?;
    let old = TokenizedText::read(file, text);
    let all = format(file, text)?.edits;
    let mut first = all.iter().take_while(|edit| edit.range.end < range.start).count();
    let mut end = all.iter().take_while(|edit| edit.range.start <= range.end).count().max(first);
    // Moving a comma to the next line takes two edits. One of them without the other would change the program.
    let mut more = 1;
    loop {
        let edits = all.get(first..end).unwrap_or_default();
        let new = apply(text, edits);
        let whole = edits.len() == all.len();
        if whole || verify::check(&old, &tree, &TokenizedText::read(file, &new)).is_ok() {
            return Ok(Formatted { text: new, edits: edits.to_vec() });
        }
        (first, end, more) = (first.saturating_sub(more), (end + more).min(all.len()), 2 * more);
    }
}

/// Parses a text; returns the errors if there are any.
fn parse_valid(file: FileId, text: &str) -> Result<ast::SourceFile, Vec<Diagnostic>> {
    let (tree, diagnostics) = clk_syntax::parse(file, text);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics.into_iter().filter(Diagnostic::is_error).collect());
    }
    Ok(tree)
}

fn internal_error(difference: FormatDifference) -> Vec<Diagnostic> {
    let title = "internal error: formatting would change the meaning of this program";
    vec![Diagnostic::error("E0999", title).note(difference.to_string()).note("nothing was written")]
}

/// Repeats passes until a text occurs for the second time. Returns the smallest text of this cycle, which nearly always
/// consists of a single text, a fixpoint.
///
/// - *A pass terminates.* It visits the lines once. A long line is split only by [`breaks::add`], and a split that adds
///   no break is the last of its line. No split removes a break, so a pass makes at most as many splits as there are
///   elements.
/// - *The iteration terminates.* After [`PASSES`] passes it returns an error.
/// - *Formatting is idempotent.* The result of a pass depends only on the text, so the iteration ends in a cycle. The
///   smallest text of the cycle does not depend on the text with which the cycle begins. Formatting this text again
///   goes through the same cycle.
fn format_to_fixpoint(file: FileId, text: &str, width: usize) -> Result<String, FormatDifference> {
    let mut texts = vec![TokenizedText::read(file, text).pass(width)];
    while let Some(last) = texts.last().filter(|_| texts.len() < PASSES) {
        let next = TokenizedText::read(file, last).pass(width);
        if let Some(from) = texts.iter().position(|earlier| *earlier == next) {
            return Ok(texts.into_iter().skip(from).min().unwrap_or_default());
        }
        texts.push(next);
    }
    Err(FormatDifference::NoFixpoint(PASSES))
}

/// Applies edits, which must be ordered and disjoint, to a text.
pub fn apply(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in edits {
        out.push_str(text.get(at..edit.range.start).unwrap_or(""));
        out.push_str(&edit.text);
        at = edit.range.end;
    }
    out.push_str(text.get(at..).unwrap_or(""));
    out
}
