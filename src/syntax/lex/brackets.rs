//! Balances brackets. Inserts missing closing brackets and drops surplus ones, so that an error does not affect the
//! whole file.

use super::{LexReader, LexerBracket};
use crate::token::{Tok, Token};
use clk_base::diag::{Applicability, Diagnostic};

/// Returns the token that closes an opening bracket.
pub(crate) fn closer_of(open: Tok) -> Tok {
    match open {
        Tok::LParen => Tok::RParen,
        Tok::LBracket => Tok::RBracket,
        Tok::InterpOpen => Tok::InterpClose,
        _ => Tok::RBrace,
    }
}

/// Returns the source text of the closing bracket.
fn closer_text(open: Tok) -> &'static str {
    match open {
        Tok::LParen => ")",
        Tok::LBracket => "]",
        _ => "}",
    }
}

fn closes(open: Tok, close: Tok) -> bool {
    closer_of(open) == close || open == Tok::InterpOpen && close == Tok::RBrace
}

impl LexReader<'_> {
    /// Handles a closing bracket.
    pub(super) fn close(&mut self, kind: Tok, start: usize, end: usize) {
        let partner = self.partner(kind);
        match (partner, self.open.len()) {
            (Some(index), length) if index + 1 < length => {
                self.report_unclosed(start, end);
                self.close_above(index + 1, start);
                self.pop(start, end);
            }
            (Some(_), _) => {
                self.compare_indentation(start, end);
                self.pop(start, end);
                if self.open.is_empty() {
                    // All brackets up to here are balanced, so suspicious indentation is not an error.
                    self.suspect = None;
                }
            }
            (None, _) => self.report_surplus(kind, start, end),
        }
    }

    /// Returns the innermost open bracket that `kind` closes, within the current string interpolation.
    fn partner(&self, kind: Tok) -> Option<usize> {
        for (index, open) in self.open.iter().enumerate().rev() {
            if closes(open.kind, kind) {
                return Some(index);
            }
            if open.kind == Tok::InterpOpen {
                return None;
            }
        }
        None
    }

    /// Closes the innermost bracket.
    pub(super) fn pop(&mut self, start: usize, end: usize) {
        if let Some(open) = self.open.pop() {
            self.header = open.header;
            self.emit(closer_of(open.kind), start, end);
        }
    }

    /// Closes all but the first `keep` open brackets with empty tokens at `at`.
    pub(super) fn close_above(&mut self, keep: usize, at: usize) {
        while self.open.len() > keep {
            self.pop(at, at);
        }
    }

    /// Reports a closing bracket without a partner.
    fn report_surplus(&mut self, kind: Tok, start: usize, end: usize) {
        let text = kind.text().unwrap_or("}");
        let span = self.span(start, end);
        let wrong_kind = match self.open.last() {
            Some(open) if matches!(open.kind, Tok::LParen | Tok::LBracket) => Some((open.kind, open.token)),
            _ => None,
        };
        match wrong_kind {
            Some((open, token)) => {
                let closer = closer_text(open);
                let opened = token.span(self.file);
                self.report(
                    Diagnostic::error("E0103", format!("`{text}` does not match the open bracket"))
                        .at(span, format!("this should be `{closer}`"))
                        .because(opened, "to close this")
                        .fix(format!("replace it with `{closer}`"), span, closer, Applicability::MaybeIncorrect),
                );
                self.pop(start, end);
            }
            None => self.report(
                Diagnostic::error("E0103", format!("`{text}` closes nothing"))
                    .at(span, "no bracket is open here")
                    .help("remove it, or look above for the place where its partner is missing")
                    .fix("remove it", span, "", Applicability::MaybeIncorrect),
            ),
        }
    }

    /// Reports that the innermost bracket is open when an outer one closes.
    fn report_unclosed(&mut self, start: usize, end: usize) {
        let Some(open) = self.open.last() else { return };
        let (kind, token, place) = (open.kind, open.token, self.place_for_closer(open));
        let closer = closer_text(kind);
        let diagnostic = self.unclosed(token, closer);
        let diagnostic = match place {
            Some(place) => {
                diagnostic.because(self.span(place, place), format!("a `{closer}` is missing here or earlier"))
            }
            None => diagnostic.because(self.span(start, end), format!("a `{closer}` should come before this")),
        };
        let edit = place.unwrap_or(self.last_end());
        let fix = format!("insert `{closer}`");
        self.report(diagnostic.fix(fix, self.span(edit, edit), closer, Applicability::MaybeIncorrect));
    }

    /// Guesses where the closing bracket of an open `(` or `[` belongs: at the end of a line that the next line does
    /// not continue, or before a token that cannot be inside the bracket.
    fn place_for_closer(&self, open: &LexerBracket) -> Option<usize> {
        if !matches!(open.kind, Tok::LParen | Tok::LBracket) {
            return None;
        }
        let first = self.out.tokens.iter().rposition(|t| t.start == open.token.start && t.kind == open.kind)?;
        let inside = self.out.tokens.get(first + 1..)?;
        let (mut depth, mut conditional) = (0usize, false);
        for (before, token) in inside.iter().zip(inside.iter().skip(1)) {
            match before.kind {
                Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen => depth += 1,
                Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose => depth = depth.saturating_sub(1),
                Tok::If if depth == 0 => conditional = true,
                _ => {}
            }
            if depth > 0 || !before.kind.can_end_line() {
                continue;
            }
            let gap = self.text.get(before.end as usize..token.start as usize).unwrap_or("");
            let joins = token.kind.continues_line() || matches!(token.kind, Tok::Comma | Tok::Minus | Tok::LBrace);
            let is_outside = match token.kind {
                Tok::Assign => open.kind == Tok::LBracket,
                Tok::LBrace => open.header && !conditional,
                Tok::Arrow => before.kind != Tok::RParen,
                _ => gap.contains('\n') && !joins,
            };
            if is_outside {
                return Some(before.end as usize);
            }
        }
        None
    }

    /// Returns the indentation of the line that contains `at`, and whether only blanks precede `at`. Returns 0 and
    /// false for lines over 1000 bytes, which are rarely indented by hand.
    fn margin(&self, at: usize) -> (usize, bool) {
        const LONGEST: usize = 1000;
        let from = at.saturating_sub(LONGEST);
        let before = self.text.as_bytes().get(from..at).unwrap_or(&[]);
        let line = match before.iter().rposition(|&b| b == b'\n') {
            Some(newline) => &before[newline + 1..],
            None if from == 0 => before,
            None => return (0, false),
        };
        let blanks = line.iter().take_while(|&&b| b == b' ' || b == b'\t').count();
        (blanks, blanks == line.len())
    }

    /// Compares the indentation of a `}` at the start of its line with that of the line of its `{`. If the `}` is
    /// further left, it belongs to an outer `{`, and the inner `{` is unclosed.
    fn compare_indentation(&mut self, start: usize, end: usize) {
        let Some(open) = self.open.last().filter(|open| open.kind == Tok::LBrace) else { return };
        let ((closer, first), (opener, _)) = (self.margin(start), self.margin(open.token.start as usize));
        if self.suspect.is_none() && first && closer < opener {
            self.suspect = Some((open.token, self.span(start, end)));
        }
    }

    /// Builds the diagnostic for an unclosed `{`. Determines from the indentation which `{` it is and where its `}`
    /// belongs.
    fn unclosed_brace(&mut self, innermost: Token) -> Diagnostic {
        let suspect = self.suspect.take();
        let token = suspect.map_or(innermost, |(token, _)| token);
        self.out.unclosed_braces.push(token.start);
        let diagnostic = self.unclosed(token, "}");
        let (margin, _) = self.margin(token.start as usize);
        let brace_end = token.end as usize;
        let mut at =
            brace_end + self.text.get(brace_end..).and_then(|t| t.find('\n')).unwrap_or(self.text.len() - brace_end);
        // Find the first line that is indented no further than the line of the `{`.
        let outside = loop {
            let Some(rest) = self.text.get(at + 1..).filter(|_| at < self.text.len()) else { break None };
            let line = rest.split('\n').next().unwrap_or("");
            let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
            if blanks <= margin && !line.trim().is_empty() {
                break Some((at + 1 + blanks, line.trim()));
            }
            at += 1 + line.len();
        };
        let Some((place, line)) = outside else {
            let end = self.text.trim_end().len().max(brace_end);
            return diagnostic.because(self.span(end, end), "the text ends here");
        };
        let word = line.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        let length = if word.is_empty() { line.chars().next().map_or(0, char::len_utf8) } else { word.len() };
        let label = self.span(place, place + length);
        let diagnostic = diagnostic.because(label, "a `}` should come before this");
        let (edit, text) = match word {
            "else" => (place, "} ".to_string()),
            _ => {
                let line_end = self.text.get(..place).unwrap_or("").trim_end().len();
                (line_end, format!("\n{}}}", " ".repeat(margin)))
            }
        };
        diagnostic.fix("insert `}`", self.span(edit, edit), text, Applicability::MaybeIncorrect)
    }

    fn unclosed(&self, token: Token, closer: &str) -> Diagnostic {
        let text = token.text(self.text);
        Diagnostic::error("E0102", format!("`{text}` is never closed"))
            .at(token.span(self.file), format!("this needs a `{closer}`"))
    }

    fn last_end(&self) -> usize {
        self.out.tokens.last().map_or(0, |t| t.end as usize)
    }

    /// Reports brackets that are still open at the end of the text.
    pub(super) fn unclosed_at_end(&mut self) {
        let Some(open) = self.open.last() else { return };
        let (kind, token, place) = (open.kind, open.token, self.place_for_closer(open));
        let end = self.text.trim_end().len().max(token.end as usize);
        let closer = closer_text(kind);
        let others = self.open.len() - 1;
        let mut diagnostic = match (kind, place) {
            (Tok::LBrace, _) => self.unclosed_brace(token),
            (_, Some(place)) => {
                let label = format!("a `{closer}` is missing here or earlier");
                self.unclosed(token, closer).because(self.span(place, place), label)
            }
            (_, None) => self.unclosed(token, closer).because(self.span(end, end), "the text ends here"),
        };
        if others > 0 {
            diagnostic = diagnostic.note(format!("{others} more {} open around it", plural(others)));
        }
        if kind != Tok::LBrace {
            let edit = place.unwrap_or(end);
            let fix = format!("insert `{closer}`");
            diagnostic = diagnostic.fix(fix, self.span(edit, edit), closer, Applicability::MaybeIncorrect);
        }
        self.report(diagnostic);
    }

    /// Recovers from a missing closing bracket when a line starts with a keyword that cannot be inside the open
    /// bracket.
    pub(super) fn recover_bracket(&mut self, kind: Tok, start: usize) {
        let keep = if self.starts_item_at_margin(kind, start) {
            self.protected_count()
        } else if starts_statement(kind) {
            let inner = self.open.iter().rposition(|o| matches!(o.kind, Tok::LBrace | Tok::InterpOpen));
            inner.map_or(0, |index| index + 1)
        } else {
            return;
        };
        if keep >= self.open.len() {
            return;
        }
        let Some(open) = self.open.last() else { return };
        let (kind, token, place) = (open.kind, open.token, self.place_for_closer(open));
        let before = self.last_end();
        let diagnostic = match kind {
            Tok::LBrace => self.unclosed_brace(token),
            _ => {
                let closer = closer_text(kind);
                let place = place.unwrap_or(before);
                self.unclosed(token, closer)
                    .because(self.span(place, place), format!("a `{closer}` is missing here or earlier"))
                    .fix(format!("insert `{closer}`"), self.span(place, place), closer, Applicability::MaybeIncorrect)
            }
        };
        self.report(diagnostic);
        self.close_above(keep, before);
    }

    /// Returns the number of brackets that recovery must not close: those up to the innermost string interpolation.
    fn protected_count(&self) -> usize {
        self.open.iter().rposition(|o| o.kind == Tok::InterpOpen).map_or(0, |index| index + 1)
    }

    /// Returns whether a keyword in the first column starts a new item even if brackets are open.
    fn starts_item_at_margin(&self, kind: Tok, start: usize) -> bool {
        let margin = start == 0 || self.text.as_bytes().get(start - 1) == Some(&b'\n');
        margin && matches!(kind, Tok::Kernel | Tok::Fn | Tok::Struct | Tok::Test | Tok::Bench | Tok::Import)
    }

    pub(super) fn report_too_deep(&mut self, token: Token) {
        let span = token.span(self.file);
        self.out.diagnostics.clear();
        self.report(
            Diagnostic::error("E0111", "brackets are nested too deeply")
                .at(span, format!("this is more than {} brackets deep", super::MAX_DEPTH))
                .help("name the inner parts with `let`, or move them to functions"),
        );
    }
}

/// Returns whether a keyword always starts a statement.
pub(super) fn starts_statement(kind: Tok) -> bool {
    use Tok::*;
    matches!(kind, Let | Var | Shared | For | While | Loop | Return | Break | Continue | Kernel | Import | Test | Bench)
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "bracket is" } else { "brackets are" }
}
