//! Layer 2: text to tokens to tree. Parsing cannot fail: what is not understood is an error node and a diagnostic.
//!
//! `token` names the tokens, `lex` reads them (strings, brackets, the newline rule), `parse` builds the tree with one file per
//! area of the grammar, `mistakes` turns a place where parsing stopped into a message, `literal` knows numbers and escapes,
//! `doubts` warns of what is right and probably means something else.
//! The grammar for people is `grammar/clk.ebnf`.

use crate::base::diag::Diagnostic;
use crate::base::source::FileId;

pub mod ast;
mod doubts;
mod dump;
mod incomplete;
mod lex;
pub(crate) mod literal;
mod mistakes;
mod parse;
pub mod token;

pub use lex::lex;

/// Reads a file. The tree is whole even after mistakes.
pub fn parse(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>) {
    let (tree, mut diagnostics, tokens) = parse::file(file, text);
    if diagnostics.is_empty() {
        diagnostics = doubts::find(file, text, &tokens);
    }
    (tree, diagnostics)
}

/// Whether the text is a beginning that more lines could complete (open brackets, strings, comments, a trailing operator).
pub fn is_incomplete(text: &str) -> bool {
    incomplete::is_incomplete(text)
}

/// The tree as indented text, for `clk emit --stage ast`.
pub fn dump(file: &ast::File) -> String {
    dump::dump(file)
}
