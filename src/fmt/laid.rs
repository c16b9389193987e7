//! A text during formatting, and edits to it.

use std::ops::Range;

use super::elements::{self, Element};
use super::{breaks, layout, roles, write};
use crate::base::source::FileId;
use crate::syntax;

/// A replacement: a range of bytes and the new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// A text with its tokens and comments.
pub struct Laid<'t> {
    pub(super) file: FileId,
    pub(super) text: &'t str,
    pub(super) elements: Vec<Element>,
}

impl<'t> Laid<'t> {
    pub fn read(file: FileId, text: &'t str) -> Self {
        Laid { file, text, elements: elements::read(text, &syntax::lex(file, text).tokens) }
    }

    /// Applies the rules once and returns the new text.
    pub fn pass(mut self, width: usize) -> String {
        roles::assign(self.text, &mut self.elements);
        breaks::settle(self.text, &mut self.elements);
        let gaps = layout::lay_out(self.text, &mut self.elements, width);
        write::write(self.text, &self.elements, &gaps)
    }
}
