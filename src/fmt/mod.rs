//! Layer 3: the formatter.
//!
//! It works on tokens and comments, not on the tree, and decides only the whitespace between them. Line breaks of the source
//! are kept where possible, so a block written on one line stays on one line if it fits. The formatter determines indentation,
//! blanks, the placement of brackets and `{` that span lines, trailing commas, and the splitting of lines over [`WIDTH`]. At
//! most one blank line between statements is kept.
//!
//! `elements` reads tokens and comments and matches brackets, `roles` resolves ambiguous tokens (the `{` of a block or of a
//! struct, unary or binary minus), `breaks` determines the required line breaks, `layout` indents the lines and calls `split`
//! on those that are too long, and `write` produces the text. This pass is repeated on its own output until nothing changes.
//! Finally `same` compares the result with the source: if a token, a comment or the meaning had changed, nothing would be
//! written.
//!
//! # Termination and idempotence
//!
//! - *A pass terminates.* It visits the lines once, from first to last. A line that is too long is split only by
//!   [`breaks::add`], which returns whether it added a break, and a split that added none is the last of its line. No split
//!   removes a break, so a pass makes at most as many splits as there are elements.
//! - *The iteration terminates.* After [`PASSES`] passes the text is refused with a message and left unchanged.
//! - *Formatting is idempotent.* A pass is a function of the text alone, so the iteration runs into a cycle, nearly always a
//!   fixed point. The result is the smallest text of the cycle in the order of [`str`], which does not depend on where the
//!   cycle was entered, and formatting it again runs through the same cycle.

mod breaks;
mod elements;
mod laid;
mod layout;
mod roles;
mod same;
mod space;
mod split;
mod write;

use std::ops::Range;

use crate::base::diag::Diagnostic;
use crate::base::source::FileId;
use crate::syntax::{self, ast};
pub use laid::Edit;
use laid::Laid;

/// Maximum width of a line in characters.
pub const WIDTH: usize = 120;

/// A formatted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    pub text: String,
    /// The changes in order; they affect only blanks, line breaks, and commas or semicolons next to them.
    pub edits: Vec<Edit>,
}

/// Maximum number of passes before a text is refused. Two are usual, since each pass only does what the previous one made
/// necessary.
const PASSES: usize = 24;

/// Formats a text. A text with syntax errors is refused with its diagnostics, and one whose meaning would change with an
/// internal error (E0999).
pub fn format(file: FileId, text: &str) -> Result<Formatted, Vec<Diagnostic>> {
    format_to(file, text, WIDTH)
}

/// As [`format()`], with another line width.
pub fn format_to(file: FileId, text: &str, width: usize) -> Result<Formatted, Vec<Diagnostic>> {
    let tree = sound(file, text)?;
    let old = Laid::read(file, text);
    let new = settled(file, text, width).map_err(|why| refused(&why))?;
    if new == text {
        return Ok(Formatted { text: new, edits: Vec::new() });
    }
    let edits = same::check((&old, &tree), &Laid::read(file, &new)).map_err(|why| refused(&why))?;
    Ok(Formatted { text: new, edits })
}

/// As [`format()`], restricted to changes in a range of bytes and those they depend on.
pub fn format_range(file: FileId, text: &str, range: Range<usize>) -> Result<Formatted, Vec<Diagnostic>> {
    let tree = sound(file, text)?;
    let old = Laid::read(file, text);
    let all = format(file, text)?.edits;
    let mut first = all.iter().take_while(|edit| edit.range.end < range.start).count();
    let mut end = all.iter().take_while(|edit| edit.range.start <= range.end).count().max(first);
    // Moving a comma to the next line takes two edits: one of them alone would change the program.
    let mut more = 1;
    loop {
        let edits = all.get(first..end).unwrap_or_default();
        let new = apply(text, edits);
        let whole = edits.len() == all.len();
        if whole || same::check((&old, &tree), &Laid::read(file, &new)).is_ok() {
            return Ok(Formatted { text: new, edits: edits.to_vec() });
        }
        (first, end, more) = (first.saturating_sub(more), (end + more).min(all.len()), 2 * more);
    }
}

/// Returns the tree of a text without syntax errors.
fn sound(file: FileId, text: &str) -> Result<ast::File, Vec<Diagnostic>> {
    let (tree, diagnostics) = syntax::parse(file, text);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics.into_iter().filter(Diagnostic::is_error).collect());
    }
    Ok(tree)
}

fn refused(why: &str) -> Vec<Diagnostic> {
    let title = "internal error: this program could not be laid out without changing it";
    vec![Diagnostic::error("E0999", title).note(why).note("nothing was written")]
}

/// Iterates passes until they run into a cycle; returns the smallest text of the cycle.
fn settled(file: FileId, text: &str, width: usize) -> Result<String, String> {
    let mut seen = vec![Laid::read(file, text).pass(width)];
    while let Some(last) = seen.last().filter(|_| seen.len() < PASSES) {
        let next = Laid::read(file, last).pass(width);
        if let Some(from) = seen.iter().position(|earlier| *earlier == next) {
            return Ok(seen.into_iter().skip(from).min().unwrap_or_default());
        }
        seen.push(next);
    }
    Err(format!("{PASSES} passes over it did not settle its lines"))
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
