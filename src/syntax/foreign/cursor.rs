//! The position of the parser for foreign code in its tokens.

use super::tokens::{ForeignComment, ForeignToken, ForeignTokenKind};
use super::tree::Dialect;

/// Maximum nesting of expressions and blocks.
const MAX_DEPTH: usize = 60;

pub(super) struct ForeignParser<'t> {
    pub text: &'t str,
    pub dialect: Dialect,
    tokens: Vec<ForeignToken<'t>>,
    comments: Vec<ForeignComment>,
    /// Index of the next token.
    pub at: usize,
    /// Number of comments that statements have taken.
    pub taken_comments: usize,
    /// The end of the last comment at the end of a line that a statement has taken.
    pub comment_end: usize,
    depth: usize,
    /// Whether the expression is the head of an `if` or a loop, where `{` begins the body.
    pub in_head: bool,
    /// Whether the expression is the second operand of `? :`, which a `:` ends.
    pub in_conditional: bool,
    /// Whether the next statement is the body of the one before: `let y = 2 in y + 1`.
    pub must_continue: bool,
}

impl<'t> ForeignParser<'t> {
    pub fn new(
        text: &'t str,
        dialect: Dialect,
        tokens: Vec<ForeignToken<'t>>,
        comments: Vec<ForeignComment>,
    ) -> ForeignParser<'t> {
        ForeignParser {
            text,
            dialect,
            tokens,
            comments,
            at: 0,
            taken_comments: 0,
            comment_end: 0,
            depth: 0,
            in_head: false,
            in_conditional: false,
            must_continue: false,
        }
    }

    pub fn token_at(&self, index: usize) -> ForeignToken<'t> {
        let last = self.tokens[self.tokens.len() - 1];
        self.tokens.get(index).copied().unwrap_or(last)
    }

    pub fn token(&self) -> ForeignToken<'t> {
        self.token_at(self.at)
    }

    pub fn kind(&self) -> ForeignTokenKind {
        self.token().kind
    }

    /// Returns the text of the next token unless it is a string.
    pub fn word(&self) -> &'t str {
        self.word_at(0)
    }

    /// Returns the text of the token `offset` tokens after the next one, unless it is a string.
    pub fn word_at(&self, offset: usize) -> &'t str {
        let token = self.token_at(self.at + offset);
        if token.kind == ForeignTokenKind::Text { "" } else { token.text }
    }

    pub fn is_name_at(&self, offset: usize) -> bool {
        self.token_at(self.at + offset).kind == ForeignTokenKind::Name
    }

    /// Takes the next token.
    pub fn next(&mut self) -> ForeignToken<'t> {
        let token = self.token();
        self.at += 1;
        token
    }

    /// Takes the next token if it is this operator or word.
    pub fn eat(&mut self, word: &str) -> bool {
        let found = self.word() == word && matches!(self.kind(), ForeignTokenKind::Operator | ForeignTokenKind::Name);
        self.at += usize::from(found);
        found
    }

    /// Takes this operator or word, or fails.
    pub fn expect(&mut self, word: &str) -> Option<()> {
        self.eat(word).then_some(())
    }

    pub fn name(&mut self) -> Option<&'t str> {
        (self.kind() == ForeignTokenKind::Name).then(|| self.next().text)
    }

    pub fn skip_line_ends(&mut self) {
        while self.kind() == ForeignTokenKind::LineEnd {
            self.at += 1;
        }
    }

    /// Returns the end of the last token that is part of a line.
    pub fn last_end(&self) -> usize {
        let taken = self.tokens[..self.at.min(self.tokens.len())].iter().rev();
        taken.into_iter().find(|token| !token.text.is_empty()).map_or(0, ForeignToken::end)
    }

    /// Runs `parse` one level deeper; fails at the maximum depth.
    pub fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Runs `parse`; restores the position if it fails.
    pub fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (at, taken, in_head) = (self.at, self.taken_comments, self.in_head);
        let parsed = parse(self);
        if parsed.is_none() {
            (self.at, self.taken_comments, self.in_head) = (at, taken, in_head);
        }
        parsed
    }

    /// Takes the comments before the byte offset `end`.
    pub fn take_comments(&mut self, end: usize) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some(comment) = self.comments.get(self.taken_comments).filter(|comment| comment.start < end) {
            if !comment.text.is_empty() {
                taken.push(comment.text.clone());
            }
            self.taken_comments += 1;
        }
        taken
    }

    /// Takes the comment that follows the byte offset `end` in the same line.
    pub fn take_trailing_comment(&mut self, end: usize) -> Option<String> {
        let comment = self.comments.get(self.taken_comments).filter(|comment| !comment.is_alone)?;
        let between = self.text.get(end..comment.start)?;
        if between.contains('\n') {
            return None;
        }
        self.taken_comments += 1;
        self.comment_end = comment.end;
        Some(comment.text.clone())
    }
}
