//! Unexpected tokens: where the parser stopped, and what it expected there. `mistakes` turns them into diagnostics.

use std::ops::Range;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::syntax::token::{Tok, Token};

/// An expected construct that is more than a single token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
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

impl Label {
    pub const ALL: [Label; 8] = [
        Label::Expression,
        Label::Type,
        Label::Name,
        Label::Statement,
        Label::End,
        Label::Geometry,
        Label::Pattern,
        Label::Text,
    ];
}

/// The furthest unexpected token, and what was expected in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Miss {
    /// Index of the token in the file.
    pub at: usize,
    pub(super) tokens: u128,
    pub(super) labels: u16,
}

impl Miss {
    pub fn expected(&self, tok: Tok) -> bool {
        self.tokens & (1 << tok as u32) != 0
    }

    pub fn expected_label(&self, label: Label) -> bool {
        self.labels & (1 << label as u32) != 0
    }

    pub fn labels(&self) -> impl Iterator<Item = Label> + '_ {
        Label::ALL.into_iter().filter(|l| self.expected_label(*l))
    }

    /// Returns the expected tokens among `all`.
    pub fn tokens_of<'a>(&self, all: &'a [(&'static str, Tok)]) -> impl Iterator<Item = &'a (&'static str, Tok)> {
        let tokens = self.tokens;
        all.iter().filter(move |(_, tok)| tokens & (1 << *tok as u32) != 0)
    }

    pub(super) fn move_to(&mut self, at: usize) -> bool {
        if at > self.at {
            *self = Miss { at, tokens: 0, labels: 0 };
        }
        at == self.at
    }
}

/// A syntax error found by the parser.
#[derive(Clone, Debug)]
pub(crate) enum Mistake {
    /// Parsing stopped: the miss, and the token range of the statement.
    Miss { miss: Miss, statement: Range<usize> },
    /// A finished diagnostic; the parser recognized what was meant.
    Said(Box<Diagnostic>),
}

impl Mistake {
    /// Returns the byte offset of the error.
    pub fn place(&self, tokens: &[Token]) -> u32 {
        match self {
            Mistake::Miss { miss, .. } => tokens.get(miss.at).map_or(u32::MAX, |t| t.start),
            Mistake::Said(diagnostic) => diagnostic.primary().map_or(0, |span| span.start),
        }
    }
}

/// Builds the diagnostic for `(a, b) = …` and `a, b = …`.
pub(crate) fn several_places(places: Span, operator: Span) -> Diagnostic {
    Diagnostic::error("E0135", "variables are assigned one by one")
        .at(places, "several at once")
        .because(operator, "assigned here")
        .help("two values are exchanged through a third name: `let old = a; a = b; b = old`")
        .help("new names are bound together: `let (a, b) = …`")
}
