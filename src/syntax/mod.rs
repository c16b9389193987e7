//! Layer 2: text to tokens to tree. Parsing cannot fail: what is not understood is an error node and a diagnostic.

use crate::base::diag::Diagnostic;
use crate::base::source::FileId;

pub mod ast;

/// Reads a file. The tree is whole even after mistakes.
pub fn parse(_file: FileId, _text: &str) -> (ast::File, Vec<Diagnostic>) {
    unimplemented!()
}

/// Whether the text is a beginning that more lines could complete (open brackets, strings, comments, a trailing operator).
pub fn is_incomplete(_text: &str) -> bool {
    unimplemented!()
}

/// The tree as indented text, for `clk emit --stage ast`.
pub fn dump(_file: &ast::File) -> String {
    unimplemented!()
}
