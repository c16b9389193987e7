//! The parser's errors: unexpected tokens with the tokens that were expected, and complete diagnostics. `mistakes`
//! converts unexpected tokens to diagnostics.

use std::ops::Range;

use crate::token::{Tok, Token};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

/// An expected construct that is more than a single token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedConstruct {
    Expression,
    Type,
    Name,
    Statement,
    /// A newline or `;`.
    End,
    /// `threads(…)` or `grid(…) block(…)`.
    Geometry,
    Pattern,
    Text,
}

impl ExpectedConstruct {
    pub const ALL: [ExpectedConstruct; 8] = [
        ExpectedConstruct::Expression,
        ExpectedConstruct::Type,
        ExpectedConstruct::Name,
        ExpectedConstruct::Statement,
        ExpectedConstruct::End,
        ExpectedConstruct::Geometry,
        ExpectedConstruct::Pattern,
        ExpectedConstruct::Text,
    ];
}

/// The furthest token at which parsing failed, and the tokens and constructs that were expected there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UnexpectedToken {
    /// Index of the token in the file.
    pub at: usize,
    pub(super) tokens: u128,
    pub(super) labels: u16,
}

impl UnexpectedToken {
    pub fn expected(&self, tok: Tok) -> bool {
        self.tokens & (1 << tok as u32) != 0
    }

    pub fn expected_label(&self, label: ExpectedConstruct) -> bool {
        self.labels & (1 << label as u32) != 0
    }

    pub fn labels(&self) -> impl Iterator<Item = ExpectedConstruct> + '_ {
        ExpectedConstruct::ALL.into_iter().filter(|l| self.expected_label(*l))
    }

    /// Returns the entries of `all`, a table of spellings and tokens, whose tokens were expected.
    pub fn tokens_of<'a>(&self, all: &'a [(&'static str, Tok)]) -> impl Iterator<Item = &'a (&'static str, Tok)> {
        let tokens = self.tokens;
        all.iter().filter(move |(_, tok)| tokens & (1 << *tok as u32) != 0)
    }

    pub(super) fn move_to(&mut self, at: usize) -> bool {
        if at > self.at {
            *self = UnexpectedToken { at, tokens: 0, labels: 0 };
        }
        at == self.at
    }
}

/// A syntax error found by the parser.
#[derive(Clone, Debug)]
pub(crate) enum SyntaxError {
    /// Parsing stopped at an unexpected token; `statement` is the token range of the statement.
    Unexpected { unexpected: UnexpectedToken, statement: Range<usize> },
    /// A complete diagnostic, for errors that the parser itself explains.
    Reported(Box<Diagnostic>),
}

impl SyntaxError {
    /// Returns the byte offset of the error.
    pub fn place(&self, tokens: &[Token]) -> u32 {
        match self {
            SyntaxError::Unexpected { unexpected, .. } => tokens.get(unexpected.at).map_or(u32::MAX, |t| t.start),
            SyntaxError::Reported(diagnostic) => diagnostic.primary().map_or(0, |span| span.start),
        }
    }
}

/// Builds the diagnostic for `a, b = …` and `(a, b) += …`.
pub(crate) fn multiple_assignment_error(places: Span, operator: Span) -> Diagnostic {
    Diagnostic::error("E0135", "several variables are assigned only as a tuple")
        .at(places, "several at once")
        .because(operator, "assigned here")
        .help("write the places in parentheses, and `=`: `(a, b) = (b, a)`")
        .help("new names are bound together: `let (a, b) = …`")
}
