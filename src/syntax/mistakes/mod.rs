//! Explains syntax errors: from the point where parsing stopped to a diagnostic that says what was probably meant and how to
//! write it in Clk.
//!
//! `statement` recognizes errors by the beginning of the statement (declarations, loops and keywords of other languages),
//! `expression` and `place` by the unexpected token and the tokens before it; everything else becomes "expected …, found …"
//! here.

mod expression;
mod place;
mod statement;

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::{FileId, Span};
use crate::lang::scalar::Scalar;
use crate::syntax::parse::{Label, Miss, Mistake};
use crate::syntax::token::{KEYWORDS, OPERATORS, Tok, Token};

/// Builds the diagnostic for a syntax error.
pub(crate) fn explain(file: FileId, text: &str, tokens: &[Token], mistake: Mistake) -> Diagnostic {
    match mistake {
        Mistake::Said(diagnostic) => *diagnostic,
        Mistake::Miss { miss, statement } => {
            let here = Here { file, text, tokens, miss, start: statement.start, end: statement.end };
            statement::explain(&here)
                .or_else(|| expression::explain(&here))
                .or_else(|| place::explain(&here))
                .unwrap_or_else(|| plain(&here))
        }
    }
}

/// A [`Miss`] with its surroundings: the failed statement and the source.
struct Here<'t> {
    file: FileId,
    text: &'t str,
    tokens: &'t [Token],
    miss: Miss,
    /// The token range of the failed statement: its first token, and the one after its last.
    start: usize,
    end: usize,
}

impl<'t> Here<'t> {
    fn token(&self, index: usize) -> Token {
        let end = self.text.len();
        self.tokens.get(index).copied().unwrap_or(Token::new(Tok::Eof, end, end))
    }

    fn kind(&self, index: usize) -> Tok {
        self.token(index).kind
    }

    fn word(&self, index: usize) -> &'t str {
        self.token(index).text(self.text)
    }

    fn span(&self, index: usize) -> Span {
        self.token(index).span(self.file)
    }

    /// Returns the span from one token to another, both included.
    fn spans(&self, first: usize, last: usize) -> Span {
        self.span(first).to(self.span(last))
    }

    fn slice(&self, span: Span) -> &'t str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Returns the kind of the unexpected token.
    fn found(&self) -> Tok {
        self.kind(self.miss.at)
    }

    /// Returns the kind of the token before it, in the same statement; `Eof` if there is none.
    fn before(&self) -> Tok {
        if self.miss.at > self.start { self.kind(self.miss.at - 1) } else { Tok::Eof }
    }

    /// Returns the empty span directly after the token before the unexpected one.
    fn behind_before(&self) -> Span {
        match self.miss.at.checked_sub(1) {
            Some(before) => self.span(before).after(),
            None => self.span(self.miss.at),
        }
    }

    /// Whether two tokens touch, with no space between them.
    fn adjacent(&self, first: usize, second: usize) -> bool {
        self.token(first).end == self.token(second).start
    }

    /// Returns the innermost bracket of the statement that is open at the unexpected token.
    fn bracket(&self) -> Option<usize> {
        let mut depth = 0usize;
        for index in (self.start..self.miss.at).rev() {
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
    fn find(&self, from: usize, kind: Tok) -> Option<usize> {
        (from..self.end).find(|&index| self.kind(index) == kind)
    }
}

/// Adds a machine-applicable fix of one edit.
fn sure(diagnostic: Diagnostic, title: impl Into<String>, span: Span, text: impl Into<String>) -> Diagnostic {
    diagnostic.fix(title, span, text, Applicability::MachineApplicable)
}

/// Adds a fix of one edit that may be incorrect.
fn maybe(diagnostic: Diagnostic, title: impl Into<String>, span: Span, text: impl Into<String>) -> Diagnostic {
    diagnostic.fix(title, span, text, Applicability::MaybeIncorrect)
}

/// Maps a C or CUDA type name, or a type name of Clk itself, to the Clk type; `auto` and `void` map to an empty string.
fn c_type(word: &str) -> Option<&'static str> {
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

/// Builds the generic diagnostic "expected …, found …".
fn plain(here: &Here<'_>) -> Diagnostic {
    let expected = expectation(&here.miss);
    let found = describe(here, here.miss.at);
    let title = match expected.is_empty() {
        true => format!("{found} is not expected here"),
        false => format!("expected {expected}, found {found}"),
    };
    let span = match here.found() {
        Tok::Newline | Tok::Eof => here.behind_before(),
        _ => here.span(here.miss.at),
    };
    let label = if expected.is_empty() { "unexpected".to_owned() } else { format!("expected {expected}") };
    let mut diagnostic = Diagnostic::error("E0101", title).at(span, label);
    if let Some(open) = here.bracket().filter(|open| open + 1 < here.miss.at) {
        diagnostic = diagnostic.because(here.span(open), "inside this");
    }
    diagnostic
}

/// Describes the expected tokens and constructs.
fn expectation(miss: &Miss) -> String {
    let mut words: Vec<String> = miss.labels().map(|label| label_text(label).to_owned()).collect();
    let has_operand = miss.expected_label(Label::Expression) || miss.expected_label(Label::Statement);
    if !has_operand {
        let tokens = miss.tokens_of(KEYWORDS).chain(miss.tokens_of(OPERATORS));
        words.extend(tokens.map(|(text, _)| format!("`{text}`")));
    }
    words.truncate(4);
    match words.len() {
        0 => String::new(),
        1 => words.remove(0),
        _ => {
            let last = words.pop().unwrap_or_default();
            format!("{} or {last}", words.join(", "))
        }
    }
}

fn label_text(label: Label) -> &'static str {
    match label {
        Label::Expression => "an expression",
        Label::Type => "a type",
        Label::Name => "a name",
        Label::Statement => "a statement",
        Label::End => "the end of the statement",
        Label::Geometry => "`threads(…)` or `grid(…) block(…)`",
        Label::Pattern => "a name",
        Label::Text => "a string",
    }
}

/// Describes a token for a diagnostic.
fn describe(here: &Here<'_>, index: usize) -> String {
    let token = here.token(index);
    match token.kind {
        Tok::Newline => "the end of the line".into(),
        Tok::Eof => "the end of the text".into(),
        Tok::StrStart | Tok::StrText | Tok::StrEnd => "a string".into(),
        Tok::InterpClose => "`}`".into(),
        kind if token.start == token.end => kind.text().map_or("the end".into(), |t| format!("`{t}`")),
        kind if kind.is_keyword() => format!("the keyword `{}`", token.text(here.text)),
        _ => format!("`{}`", token.text(here.text)),
    }
}
