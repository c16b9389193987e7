//! The context of a syntax error: the unexpected token and the tokens around it.

use crate::syntax_error::UnexpectedToken;
use crate::token::{Tok, Token};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::{FileId, Span};
use clk_scalar::Scalar;
use clk_scalar::foreign_names::{self, ClkEquivalent};

/// An [`UnexpectedToken`] with the statement that contains it and the source.
pub struct MistakeContext<'t> {
    pub(super) file: FileId,
    pub(super) text: &'t str,
    pub(super) tokens: &'t [Token],
    pub(super) unexpected: UnexpectedToken,
    /// The token range of the failed statement, `start..end`.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'t> MistakeContext<'t> {
    pub fn token(&self, index: usize) -> Token {
        let end = self.text.len();
        self.tokens.get(index).copied().unwrap_or(Token::new(Tok::Eof, end, end))
    }

    pub fn kind(&self, index: usize) -> Tok {
        self.token(index).kind
    }

    pub fn word(&self, index: usize) -> &'t str {
        self.token(index).text(self.text)
    }

    pub fn span(&self, index: usize) -> Span {
        self.token(index).span(self.file)
    }

    /// Returns the span of the tokens `first..=last`.
    pub fn spans(&self, first: usize, last: usize) -> Span {
        self.span(first).to(self.span(last))
    }

    pub fn slice(&self, span: Span) -> &'t str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Returns the kind of the unexpected token.
    pub fn found_token(&self) -> Tok {
        self.kind(self.unexpected.at)
    }

    /// Returns the kind of the token before the unexpected one in the same statement; `Eof` if there is none.
    pub fn token_before(&self) -> Tok {
        if self.unexpected.at > self.start { self.kind(self.unexpected.at - 1) } else { Tok::Eof }
    }

    /// Returns the empty span directly after the token before the unexpected one.
    pub fn span_after_previous(&self) -> Span {
        match self.unexpected.at.checked_sub(1) {
            Some(before) => self.span(before).after(),
            None => self.span(self.unexpected.at),
        }
    }

    /// Returns whether there is no space between two tokens.
    pub fn adjacent(&self, first: usize, second: usize) -> bool {
        self.token(first).end == self.token(second).start
    }

    /// Returns the innermost bracket of the statement that is open at the unexpected token.
    pub fn bracket(&self) -> Option<usize> {
        let mut depth = 0usize;
        for index in (self.start..self.unexpected.at).rev() {
            match self.kind(index) {
                Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose => depth += 1,
                Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen if depth == 0 => return Some(index),
                Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Returns the first token of this kind in the statement, starting at `from`.
    pub fn find(&self, from: usize, kind: Tok) -> Option<usize> {
        (from..self.end).find(|&index| self.kind(index) == kind)
    }
}

/// Maps the name of a scalar or vector type of C, CUDA, Python or Clk to the Clk type; `auto` and `void` map to an
/// empty string. The names are those of the table of foreign names.
pub(crate) fn c_type(word: &str) -> Option<&'static str> {
    if matches!(word, "auto" | "void" | "val") {
        return Some("");
    }
    match foreign_names::find_type(word).map(|row| row.equivalent) {
        Some(ClkEquivalent::Name(clk)) if clk != "str" => Some(clk),
        _ => Scalar::from_name(word).map(Scalar::name),
    }
}

/// Returns the type of two C type names in a row, such as `unsigned char`.
pub(crate) fn joined_type(first: &'static str, second: &'static str) -> &'static str {
    match (first, second) {
        ("u32", "i64") => "u64",
        ("u32", "i8") => "u8",
        ("u32", "i16") => "u16",
        ("i64", "f64") => "f64",
        (first, _) => first,
    }
}

/// Adds a fix of one edit that may be incorrect.
pub(crate) fn possible_fix(
    diagnostic: Diagnostic,
    title: impl Into<String>,
    span: Span,
    text: impl Into<String>,
) -> Diagnostic {
    diagnostic.fix(title, span, text, Applicability::MaybeIncorrect)
}

/// Adds a machine-applicable fix of one edit.
pub(crate) fn certain_fix(
    diagnostic: Diagnostic,
    title: impl Into<String>,
    span: Span,
    text: impl Into<String>,
) -> Diagnostic {
    diagnostic.fix(title, span, text, Applicability::MachineApplicable)
}
