//! Layer 2: the lexer and the parser. Parsing never fails: invalid text becomes error nodes and diagnostics.
//!
//! `lex` produces the tokens that `token` defines, `parse` builds the tree, `mistakes` explains syntax errors,
//! `foreign` translates code of other languages, `literal` interprets numbers and escapes, and `suspicious_operators`
//! warns about valid code that probably means something else. The reference grammar is `grammar/clk.ebnf`.

#![allow(rustdoc::private_intra_doc_links)]

use clk_base::diag::Diagnostic;
use clk_base::source::FileId;

pub mod ast;
mod dump;
mod foreign;
mod incomplete;
mod lex;
pub mod literal;
mod mistakes;
mod parse;
mod suspicious_operators;
mod syntax_error;
pub mod token;

pub use foreign::{translate_names, translated_span};
pub use lex::lex;

/// Parses a file. The tree covers the whole file even if there are errors.
pub fn parse(file: FileId, text: &str) -> (ast::SourceFile, Vec<Diagnostic>) {
    let (mut tree, mut diagnostics, tokens) = parse::file(file, text);
    diagnostics = match diagnostics.is_empty() {
        true => suspicious_operators::find(file, text, &tokens),
        false => foreign::translate(file, text, &tokens, &mut tree, diagnostics),
    };
    (tree, diagnostics)
}

/// Returns whether more lines could complete the text: it has an open bracket or comment, or a trailing operator.
pub fn is_incomplete(text: &str) -> bool {
    incomplete::is_incomplete(text)
}

/// Formats the tree as indented text, for `clk emit --stage ast`.
pub fn dump(file: &ast::SourceFile) -> String {
    dump::dump(file)
}
