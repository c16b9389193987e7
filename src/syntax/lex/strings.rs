//! String literals: text, escapes, and interpolations `{expression:format}`, whose expressions use the ordinary lexer.

use super::{LexReader, LexerBracket};
use crate::literal;
use crate::token::{Tok, Token};
use clk_base::diag::{Applicability, Diagnostic};

/// How a text segment of a string ends.
enum SegmentEnd {
    /// The closing quote.
    Quote,
    /// A `{` that opens an interpolation.
    Brace,
    /// The end of the line.
    LineEnd,
}

impl LexReader<'_> {
    /// Lexes a string whose opening quote was just read.
    pub(super) fn string(&mut self, start: usize) {
        self.push(Tok::StrStart, start, start + 1);
        loop {
            let from = self.lexer.span().end;
            let (stop, length) = self.text_part(from);
            self.lexer.bump(length);
            let end = from + length;
            if length > 0 {
                self.emit(Tok::StrText, from, end);
            }
            match stop {
                SegmentEnd::Quote => {
                    self.lexer.bump(1);
                    self.emit(Tok::StrEnd, end, end + 1);
                    return;
                }
                SegmentEnd::Brace => {
                    self.lexer.bump(1);
                    self.emit(Tok::InterpOpen, end, end + 1);
                    let closed = self.interpolation(end);
                    if !closed || self.out.too_deep {
                        let end = self.lexer.span().end;
                        self.emit(Tok::StrEnd, end, end);
                        return;
                    }
                }
                SegmentEnd::LineEnd => {
                    self.unterminated(start, end);
                    self.emit(Tok::StrEnd, end, end);
                    return;
                }
            }
        }
    }

    /// Returns the length of the literal text that starts at `from`, and how it ends.
    fn text_part(&mut self, from: usize) -> (SegmentEnd, usize) {
        let text = self.text;
        let rest = text.get(from..).unwrap_or("");
        let bytes = rest.as_bytes();
        let mut at = 0;
        loop {
            match bytes.get(at) {
                Some(b'"') => return (SegmentEnd::Quote, at),
                None | Some(b'\n') => return (SegmentEnd::LineEnd, at),
                Some(b'\\') => at += self.escape(from + at, rest.get(at..).unwrap_or("")),
                Some(b @ (b'{' | b'}')) if bytes.get(at + 1) == Some(b) => at += 2,
                Some(b'{') => return (SegmentEnd::Brace, at),
                Some(b'}') => {
                    self.lone_brace(from + at);
                    at += 1;
                }
                Some(_) => at += 1,
            }
        }
    }

    fn escape(&mut self, at: usize, rest: &str) -> usize {
        if matches!(rest.as_bytes().get(1), None | Some(b'\n')) {
            return 1;
        }
        let (length, value) = literal::escape(rest);
        if value.is_none() {
            let span = self.span(at, at + length);
            let shown = rest.get(..length).unwrap_or("\\");
            self.report(
                Diagnostic::error("E0109", format!("`{shown}` is not an escape"))
                    .at(span, "unknown escape")
                    .help(
                        "the escapes are \\n \\t \\r \\0 \\\" \\\\ \\{ \\} and \\u{1F600}; a plain backslash is `\\\\`",
                    )
                    .fix("double the backslash", self.span(at, at + 1), "\\\\", Applicability::MaybeIncorrect),
            );
        }
        length
    }

    /// Lexes the contents of `{…}`; returns false if the line or the text ends first.
    fn interpolation(&mut self, brace: usize) -> bool {
        let token = Token::new(Tok::InterpOpen, brace, brace + 1);
        self.open.push(LexerBracket { kind: Tok::InterpOpen, token, header: self.header });
        self.header = false;
        if self.open.len() > super::MAX_DEPTH {
            self.out.too_deep = true;
            self.report_too_deep(token);
            return false;
        }
        let level = self.open.len();
        while !self.out.too_deep {
            match self.lexer.next() {
                None => return self.unclosed_interpolation(level),
                Some(Ok(Tok::Newline)) => {
                    self.newline = true;
                    return self.unclosed_interpolation(level);
                }
                Some(Ok(Tok::Colon | Tok::ColonColon)) if self.open.len() == level => {
                    if !self.format() {
                        return self.unclosed_interpolation(level);
                    }
                }
                Some(Ok(Tok::RBrace)) if self.open.len() == level => {
                    let at = self.lexer.span();
                    self.report_empty(brace, at.end);
                    self.pop(at.start, at.end);
                }
                Some(token) => self.token(token),
            }
            if self.open.len() < level {
                return true;
            }
        }
        false
    }

    /// Lexes the format between the colon and the closing brace.
    fn format(&mut self) -> bool {
        let start = self.lexer.span().start + 1;
        let rest = self.text.get(start..).unwrap_or("");
        let Some(length) = rest.find(['}', '"', '\n']).filter(|&at| rest.as_bytes().get(at) == Some(&b'}')) else {
            return false;
        };
        self.lexer.bump((start + length).saturating_sub(self.lexer.span().end));
        self.emit(Tok::Format, start, start + length);
        true
    }

    fn report_empty(&mut self, brace: usize, end: usize) {
        if self.out.tokens.last().is_some_and(|t| t.kind == Tok::InterpOpen) {
            let span = self.span(brace, end);
            self.report(
                Diagnostic::error("E0110", "the braces in a string are empty")
                    .at(span, "an expression is missing")
                    .help("name the value here, as in `\"{x}\"`; braces themselves are written `{{}}`")
                    .fix("write literal braces", span, "{{}}", Applicability::MaybeIncorrect),
            );
        }
    }

    fn lone_brace(&mut self, at: usize) {
        let span = self.span(at, at + 1);
        self.report(
            Diagnostic::error("E0110", "`}` in a string closes nothing")
                .at(span, "no `{` before it")
                .help("in a string braces enclose values; a brace itself is doubled: `}}`")
                .fix("double it", span, "}}", Applicability::MachineApplicable),
        );
    }

    fn unclosed_interpolation(&mut self, level: usize) -> bool {
        let end = self.lexer.span().start;
        let opened = self.open.get(level - 1).map(|o| o.token);
        self.close_above(level - 1, end);
        let (Some(token), false) = (opened, self.reported_since(opened)) else { return false };
        self.report_open_interpolation(token);
        false
    }

    fn report_open_interpolation(&mut self, token: Token) {
        let span = token.span(self.file);
        self.report(
            Diagnostic::error("E0110", "`{` in a string is never closed")
                .at(span, "a value starts here, and no `}` follows in this line")
                .help("close it with `}`, or write `{{` for a brace itself"),
        );
    }

    /// Returns whether an error after this token has already been reported.
    fn reported_since(&self, token: Option<Token>) -> bool {
        let start = token.map_or(0, |t| t.start);
        self.out.diagnostics.iter().any(|d| d.primary().is_some_and(|s| s.start >= start))
    }

    fn unterminated(&mut self, start: usize, end: usize) {
        // Inside an interpolation, the quote probably closes the outer string, and a `}` is missing.
        if let Some(outer) = self.open.iter().find(|o| o.kind == Tok::InterpOpen) {
            let token = outer.token;
            return self.report_open_interpolation(token);
        }
        let quote = self.span(start, start + 1);
        let line_end = self.span(end, end);
        self.report(
            Diagnostic::error("E0104", "a string is never closed")
                .at(quote, "this quote has no partner in its line")
                .help("close it with `\"`; a line break inside a string is written `\\n`")
                .fix("close it at the end of the line", line_end, "\"", Applicability::MaybeIncorrect),
        );
    }

    /// Reports a single-quoted string such as `'c'`, and lexes it as an ordinary string.
    pub(super) fn quoted(&mut self, start: usize, end: usize) {
        let inside = self.text.get(start + 1..end - 1).unwrap_or("");
        let double_quoted = format!("\"{}\"", inside.replace('"', "\\\""));
        let span = self.span(start, end);
        self.report(
            Diagnostic::error("E0112", "strings need double quotes").at(span, "single quotes mean nothing in Clk").fix(
                format!("write `{double_quoted}`"),
                span,
                double_quoted,
                Applicability::MachineApplicable,
            ),
        );
        self.push(Tok::StrStart, start, start + 1);
        if !inside.is_empty() {
            self.emit(Tok::StrText, start + 1, end - 1);
        }
        self.emit(Tok::StrEnd, end - 1, end);
    }
}
