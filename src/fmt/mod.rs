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
//! of it. That is one pass, and the text that comes out is the input of the next, until one changes nothing. At the end the
//! text is compared with the first one: had a token, a comment or the meaning changed, nothing would be written (`same`).
//!
//! # Why layout ends, and why a second time changes nothing
//!
//! - *A pass ends.* It walks over the lines once, from the first to the last. A line that is too long is split only by
//!   [`breaks::add`], which answers whether it put a break where none was, and a split that added none is the last of its
//!   line. No split takes a break away, so a pass makes at most as many splits as there are elements.
//! - *The passes end.* After [`PASSES`] of them the text is refused, with a message, and left as it is.
//! - *A second time changes nothing.* A pass is a function of the text alone. The passes over a text therefore run into a cycle,
//!   nearly always of one text that is laid out already. What is written is the first text of the cycle in the order of
//!   [`str`], which does not depend on where the cycle was entered; and passes over it run through the same cycle again.

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
use crate::syntax::{self, ast};
use elements::Element;

/// Lines are broken that have more characters than this.
pub const WIDTH: usize = 120;

/// Blanks of one level.
pub(crate) const INDENT: usize = 4;

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

/// Passes over a text before it is refused. Two are usual: each can only do what the one before it made necessary.
const PASSES: usize = 24;

/// Lays a text out. A text with syntax errors is left alone, and its diagnostics come back; so does one whose meaning would
/// change, with an internal error (E0999).
pub fn format(file: FileId, text: &str) -> Result<Formatted, Vec<Diagnostic>> {
    format_to(file, text, WIDTH)
}

/// As [`format()`], with lines of another width.
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

/// As [`format()`], but only what lies in a range of bytes changes, and what cannot change without its neighbors.
pub fn format_range(file: FileId, text: &str, range: Range<usize>) -> Result<Formatted, Vec<Diagnostic>> {
    let tree = sound(file, text)?;
    let old = Laid::read(file, text);
    let all = format(file, text)?.edits;
    let mut first = all.iter().take_while(|edit| edit.range.end < range.start).count();
    let mut end = all.iter().take_while(|edit| edit.range.start <= range.end).count().max(first);
    // A comma that goes to the next line is two edits: one of them alone would make another program.
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

/// The tree of a text without syntax errors.
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

/// A text with its tokens and comments.
struct Laid<'t> {
    file: FileId,
    text: &'t str,
    elements: Vec<Element>,
}

impl<'t> Laid<'t> {
    fn read(file: FileId, text: &'t str) -> Self {
        Laid { file, text, elements: elements::read(text, &syntax::lex(file, text).tokens) }
    }

    /// One pass: the text that the rules make of this one.
    fn pass(mut self, width: usize) -> String {
        roles::assign(self.text, &mut self.elements);
        breaks::settle(self.text, &mut self.elements);
        let gaps = layout::lay_out(self.text, &mut self.elements, width);
        write::write(self.text, &self.elements, &gaps)
    }
}

/// The first text of the cycle that passes over a text run into.
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
