//! A text with its tokens and comments, and edits of a text.

use std::ops::Range;

use super::elements::{self, FormatElement};
use super::{breaks, layout, roles, write};
use clk_base::source::FileId;

/// A replacement: a range of bytes and the new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// A text with its tokens and comments.
pub struct TokenizedText<'t> {
    pub(super) file: FileId,
    pub(super) text: &'t str,
    pub(super) elements: Vec<FormatElement>,
}

impl<'t> TokenizedText<'t> {
    pub fn read(file: FileId, text: &'t str) -> Self {
        TokenizedText { file, text, elements: elements::read(text, &clk_syntax::lex(file, text).tokens) }
    }

    /// Applies the formatting rules once and returns the new text.
    pub fn pass(mut self, width: usize) -> String {
        roles::assign(self.text, &mut self.elements);
        breaks::add_required_breaks(self.text, &mut self.elements);
        let gaps = layout::lay_out(self.text, &mut self.elements, width);
        write::write(self.text, &self.elements, &gaps)
    }
}
