//! The formatter's list of tokens and comments, with line breaks and matching brackets.

use clk_syntax::token::{Tok, Token};

/// The value of [`FormatElement::mate`] and [`FormatElement::within`] if there is no such bracket.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementKind {
    /// A token. A string is one element, of kind [`Tok::StrEnd`].
    Token(Tok),
    LineComment,
    BlockComment,
}

/// The role of a token, which distinguishes uses of the same kind of token. The module `roles` determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRole {
    Plain,
    /// A `(` or `[` that groups values, the `<` of type parameters, or `<<<`.
    Open,
    /// A `(` or `[` that belongs to the value before it, without a blank between them.
    Call,
    /// The `{` of a block.
    Block,
    /// The `{` of a struct's definition or literal.
    Fields,
    /// The `{` of an import.
    Names,
    /// A unary `-` or `!`.
    Prefix,
    /// `step`, `as`, `on` or `batch` used as a keyword.
    Word,
    /// `threads`, `grid` or `block` of a kernel.
    Geometry,
    /// `assume`, `expect` or `tune` of a kernel.
    Clause,
    /// A binary operator with its precedence.
    Binary(u8),
    /// The `@` of `[f32; N] @gpu`.
    Placed,
    /// The `.` between two field numbers, as in `t.0 .1`; without the blank, `0.1` would be a single number.
    SpacedDot,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FormatElement {
    pub kind: ElementKind,
    pub start: u32,
    /// End offset of the element in the text, without trailing blanks.
    pub end: u32,
    /// Width in characters.
    pub width: u32,
    /// Number of line breaks before the element: 0, 1, or 2 for a blank line.
    pub breaks: u8,
    /// Whether a statement ended before the element.
    pub boundary: bool,
    /// Whether to insert a comma after the element.
    pub comma: bool,
    /// Whether this is a comma or semicolon to be removed.
    pub deleted: bool,
    /// The role; a closing bracket has the role of its opening bracket.
    pub role: TokenRole,
    /// Index of the matching bracket.
    pub mate: u32,
    /// Index of the innermost bracket (except `<`) that is open before this element.
    pub within: u32,
    pub opens: bool,
    pub closes: bool,
}

impl FormatElement {
    pub fn is_token(&self, tok: Tok) -> bool {
        self.kind == ElementKind::Token(tok)
    }

    pub(crate) fn tok(&self) -> Option<Tok> {
        match self.kind {
            ElementKind::Token(tok) => Some(tok),
            ElementKind::LineComment | ElementKind::BlockComment => None,
        }
    }

    pub(crate) fn is_comment(&self) -> bool {
        self.tok().is_none()
    }

    pub fn text<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}

/// Reads all tokens and comments of a text.
pub(crate) fn read(text: &str, tokens: &[Token]) -> Vec<FormatElement> {
    let mut reader = ElementReader { text, out: Vec::with_capacity(tokens.len()), at: 0, breaks: 0, boundary: false };
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        index += 1;
        match token.kind {
            Tok::Newline => reader.boundary = true,
            Tok::Eof => break,
            Tok::StrStart => {
                index = string_end(tokens, index);
                let end = tokens.get(index - 1).map_or(token.end, |t| t.end);
                reader.token(Tok::StrEnd, token.start as usize, end as usize);
            }
            kind => reader.token(kind, token.start as usize, token.end as usize),
        }
    }
    reader.gap(text.len());
    reader.out
}

/// Returns the index of the token after the string whose opening quote is before `index`.
fn string_end(tokens: &[Token], mut index: usize) -> usize {
    let mut depth = 1;
    while let Some(token) = tokens.get(index) {
        index += 1;
        match token.kind {
            Tok::StrStart => depth += 1,
            Tok::StrEnd => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    index
}

struct ElementReader<'t> {
    text: &'t str,
    out: Vec<FormatElement>,
    at: usize,
    breaks: u8,
    boundary: bool,
}

impl ElementReader<'_> {
    fn token(&mut self, kind: Tok, start: usize, end: usize) {
        self.gap(start);
        let end = if kind == Tok::Doc { start + self.slice(start, end).trim_end().len() } else { end };
        self.push(ElementKind::Token(kind), start, end);
        self.boundary = false;
    }

    fn slice(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or("")
    }

    fn push(&mut self, kind: ElementKind, start: usize, end: usize) {
        let text = self.slice(start, end);
        let width = if text.is_ascii() { text.len() } else { text.chars().count() } as u32;
        self.out.push(FormatElement {
            kind,
            start: start as u32,
            end: end as u32,
            width,
            breaks: self.breaks.min(2),
            boundary: self.boundary,
            comma: false,
            deleted: false,
            role: TokenRole::Plain,
            mate: NONE,
            within: NONE,
            opens: false,
            closes: false,
        });
        self.breaks = 0;
        self.at = end;
    }

    /// Reads comments and counts line breaks up to the next token.
    fn gap(&mut self, until: usize) {
        if self.at == 0 && until > 0 {
            self.first_line(until);
        }
        while self.at < until {
            let rest = self.slice(self.at, until);
            let bytes = rest.as_bytes();
            match bytes {
                [b'\n', ..] => {
                    self.breaks = (self.breaks + 1).min(2);
                    self.at += 1;
                }
                [b'/', b'/', ..] => {
                    let line = rest.split('\n').next().unwrap_or("").trim_end().len();
                    self.push(ElementKind::LineComment, self.at, self.at + line);
                }
                [b'/', b'*', ..] => {
                    let length = block_comment(bytes);
                    self.push(ElementKind::BlockComment, self.at, self.at + length);
                }
                _ => self.at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
    }

    /// Skips a byte order mark; keeps a `#!` line like a comment.
    fn first_line(&mut self, until: usize) {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
        let rest = self.slice(self.at, until);
        if rest.starts_with("#!") {
            let line = rest.split('\n').next().unwrap_or("").trim_end().len();
            self.push(ElementKind::LineComment, self.at, self.at + line);
        }
    }
}

/// Returns the length in bytes of the nested comment at the start of a text.
fn block_comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    loop {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (at, depth) = (at + 2, depth + 1),
            Some(b"*/") => (at, depth) = (at + 2, depth - 1),
            Some(_) => at += 1,
            None => return bytes.len(),
        }
        if depth == 0 {
            return at;
        }
    }
}
