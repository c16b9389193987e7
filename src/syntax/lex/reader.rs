//! The state of the lexer.

use logos::Lexer;

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Span};
use crate::syntax::token::{Tok, Token};

/// Maximum nesting depth of brackets.
pub(crate) const MAX_DEPTH: usize = 200;

/// The tokens of a file.
#[derive(Debug, Default)]
pub struct Lexed {
    pub tokens: Vec<Token>,
    pub diagnostics: Vec<Diagnostic>,
    /// A bracket or a block comment was still open at the end of the text.
    pub open_at_end: bool,
    /// Brackets are nested too deeply, and lexing stopped there.
    pub too_deep: bool,
    /// Byte offsets of the unclosed `{` tokens.
    pub unclosed_braces: Vec<u32>,
}

/// An open bracket.
pub struct Open {
    pub(super) kind: Tok,
    pub(super) token: Token,
    /// The value of [`Reader::header`] outside of this bracket.
    pub(super) header: bool,
}

pub struct Reader<'t> {
    pub(super) file: FileId,
    pub(super) text: &'t str,
    pub(super) lexer: Lexer<'t, Tok>,
    pub(super) out: Lexed,
    pub(super) open: Vec<Open>,
    /// A newline was read since the last token.
    pub(super) newline: bool,
    /// A header (of an item or a statement with a body) was read whose `{` has not come yet.
    pub(super) header: bool,
    /// End of the last unknown character, so that a run of them is reported once.
    pub(super) bad_until: usize,
    /// The first `{` whose `}` is indented less than its line, and that `}`.
    pub(super) suspect: Option<(Token, Span)>,
}
