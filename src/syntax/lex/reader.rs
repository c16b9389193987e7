//! The state of the lexer.

use logos::Lexer;

use crate::token::{Tok, Token};
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};

/// Maximum nesting depth of brackets.
pub(crate) const MAX_DEPTH: usize = 200;

/// The tokens of a file.
#[derive(Debug, Default)]
pub struct Lexed {
    pub tokens: Vec<Token>,
    pub diagnostics: Vec<Diagnostic>,
    /// Whether a bracket or a block comment was open at the end of the text.
    pub open_at_end: bool,
    /// Whether lexing stopped because brackets are nested too deeply.
    pub too_deep: bool,
    /// Byte offsets of the unclosed `{` tokens.
    pub unclosed_braces: Vec<u32>,
}

/// An open bracket.
pub struct LexerBracket {
    pub(super) kind: Tok,
    pub(super) token: Token,
    /// The value of [`LexReader::header`] outside this bracket.
    pub(super) header: bool,
}

pub struct LexReader<'t> {
    pub(super) file: FileId,
    pub(super) text: &'t str,
    pub(super) lexer: Lexer<'t, Tok>,
    pub(super) out: Lexed,
    pub(super) open: Vec<LexerBracket>,
    /// Whether a newline was read since the last token.
    pub(super) newline: bool,
    /// Whether the header of an item or statement was read, but not yet the `{` of its body.
    pub(super) header: bool,
    /// End offset of the last invalid character. Adjacent invalid characters are reported only once.
    pub(super) bad_until: usize,
    /// The first `{` whose `}` is indented less than the line of the `{`, and the span of that `}`.
    pub(super) suspect: Option<(Token, Span)>,
}
