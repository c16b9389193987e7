//! The context of a syntax error: the unexpected token and the tokens around it.

use crate::syntax_error::UnexpectedToken;
use crate::token::{Tok, Token};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::{FileId, Span};
use clk_scalar::Scalar;

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

/// Maps a type name of C, CUDA or Clk to the Clk type; `auto` and `void` map to an empty string.
pub(crate) fn c_type(word: &str) -> Option<&'static str> {
    Some(match word {
        "float" => "f32",
        "double" => "f64",
        "int" | "int32_t" | "signed" => "i32",
        "unsigned" | "uint" | "uint32_t" => "u32",
        "long" | "int64_t" | "ptrdiff_t" | "ssize_t" => "i64",
        "size_t" | "uint64_t" | "ulong" => "u64",
        "short" | "int16_t" => "i16",
        "ushort" | "uint16_t" => "u16",
        "char" | "int8_t" => "i8",
        "uchar" | "uint8_t" | "byte" => "u8",
        "half" | "__half" => "f16",
        "__nv_bfloat16" => "bf16",
        "float2" => "f32x2",
        "float3" => "f32x3",
        "float4" => "f32x4",
        "int2" => "i32x2",
        "int3" => "i32x3",
        "int4" => "i32x4",
        "double2" => "f64x2",
        "auto" | "void" | "val" => "",
        _ => return Scalar::from_name(word).map(Scalar::name),
    })
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
