//! Layer 3: the one way a Clk text is laid out.
//!
//! The formatter works on tokens and comments, not on the tree: it decides only what stands between two of them. Line breaks
//! that the author made are kept where they can be, so a block that was written on one line stays there if it fits; what is
//! settled is indentation, blanks, where brackets and `{` stand when they span lines, trailing commas, and lines over
//! [`WIDTH`], which are broken. One blank line between statements is kept, more become one.
//!
//! `elements` reads tokens and comments with the places of the brackets, `roles` tells apart what looks alike (a `{` of a
//! block and one of a struct, a minus of one and of two operands), `breaks` settles the line breaks that the rules ask for,
//! `layout` walks over the lines, indents them and asks `split` for more breaks where one is too long, and `write` makes text
//! and edits of it. At the end the text is read again: had the meaning changed, nothing would be written (`same`).

mod breaks;
mod elements;
mod layout;
mod roles;
mod same;
mod space;
mod split;
mod write;

use std::ops::Range;

use crate::base::diag::Diagnostic;
use crate::base::source::FileId;
use crate::syntax;

/// Lines are broken that have more characters than this.
pub const WIDTH: usize = 120;

/// Blanks of one level.
pub const INDENT: usize = 4;

/// A replacement in the text: a range of bytes and what stands there afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// A text laid out anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    pub text: String,
    /// What changed, from the first to the last: only blanks, line breaks, and commas or semicolons beside them.
    pub edits: Vec<Edit>,
}

/// Lays a text out. A text with syntax errors is left alone, and its diagnostics come back; so does one whose meaning would
/// change, with an internal error (E0999).
pub fn format(file: FileId, text: &str) -> Result<Formatted, Vec<Diagnostic>> {
    let (tree, diagnostics) = syntax::parse(file, text);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics.into_iter().filter(Diagnostic::is_error).collect());
    }
    let lexed = syntax::lex(file, text);
    let formatted = lay_out(text, &lexed.tokens);
    if formatted.edits.is_empty() {
        return Ok(formatted);
    }
    match same::check(file, (text, &lexed.tokens, &tree), &formatted.text) {
        Ok(()) => Ok(formatted),
        Err(why) => Err(vec![
            Diagnostic::error("E0999", "internal error: formatting would change what this program means")
                .note(why)
                .note("nothing was written"),
        ]),
    }
}

/// As [`format()`], but only what lies in a range of bytes changes.
pub fn format_range(file: FileId, text: &str, range: Range<usize>) -> Result<Formatted, Vec<Diagnostic>> {
    let mut formatted = format(file, text)?;
    formatted.edits.retain(|edit| edit.range.start <= range.end && edit.range.end >= range.start);
    formatted.text = apply(text, &formatted.edits);
    Ok(formatted)
}

fn lay_out(text: &str, tokens: &[syntax::token::Token]) -> Formatted {
    let mut elements = elements::read(text, tokens);
    roles::assign(text, &mut elements);
    breaks::settle(text, &mut elements);
    let lines = layout::lay_out(text, &mut elements);
    write::write(text, &elements, &lines)
}

/// A text after edits that stand in order and do not overlap.
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
