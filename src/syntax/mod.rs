//! Layer 2: source text to tokens to a syntax tree. Parsing cannot fail: unparsable text becomes an error node and a diagnostic.
//!
//! `token` defines the tokens, `lex` produces them (strings, brackets, the newline rule), `parse` builds the tree with one
//! file per area of the grammar, `mistakes` explains syntax errors, `literal` interprets numbers and escapes, and `doubts`
//! warns about valid code that probably means something else.
//! The reference grammar is `grammar/clk.ebnf`.

use crate::base::diag::Diagnostic;
use crate::base::source::FileId;

pub mod ast;
mod doubts;
mod dump;
mod incomplete;
mod lex;
pub mod literal;
mod miss;
mod mistakes;
mod parse;
pub mod token;

pub use lex::lex;

/// Parses a file. The tree covers the whole file even if there are errors.
pub fn parse(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>) {
    let (tree, mut diagnostics, tokens) = parse::file(file, text);
    if diagnostics.is_empty() {
        diagnostics = doubts::find(file, text, &tokens);
    }
    (tree, diagnostics)
}

/// Whether more lines could complete the text (open brackets, strings or comments, a trailing operator).
pub fn is_incomplete(text: &str) -> bool {
    incomplete::is_incomplete(text)
}

/// Formats the tree as indented text, for `clk emit --stage ast`.
pub fn dump(file: &ast::File) -> String {
    dump::dump(file)
}
