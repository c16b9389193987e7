//! Brackets: each opener gets its closer, by force if need be, so that a missing one spoils one place and not the whole file.

use super::{Open, Reader};
use crate::base::diag::{Applicability, Diagnostic};
use crate::syntax::token::{Tok, Token};

/// The mark that closes an opener.
pub fn closer_of(open: Tok) -> Tok {
    match open {
        Tok::LParen => Tok::RParen,
        Tok::LBracket => Tok::RBracket,
        Tok::InterpOpen => Tok::InterpClose,
        _ => Tok::RBrace,
    }
}

/// How a closer looks in the source.
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

impl Reader<'_> {
    /// Takes a closing bracket.
    pub(super) fn close(&mut self, kind: Tok, start: usize, end: usize) {
        let partner = self.partner(kind);
        match (partner, self.open.len()) {
            (Some(index), length) if index + 1 < length => {
                self.report_unclosed(start, end);
                self.close_above(index + 1, start);
                self.pop(start, end);
            }
            (Some(_), _) => self.pop(start, end),
            (None, _) => self.surplus(kind, start, end),
        }
    }

    /// The innermost bracket that `kind` closes; a string's interpolation is a wall.
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

    /// Closes all brackets from the one with number `keep` on, as if their closers stood at `at`.
    pub(super) fn close_above(&mut self, keep: usize, at: usize) {
        while self.open.len() > keep {
            self.pop(at, at);
        }
    }

    /// A closer without a partner.
    fn surplus(&mut self, kind: Tok, start: usize, end: usize) {
        let text = kind.text().unwrap_or("}");
        let span = self.span(start, end);
        let wrong_kind = match self.open.last() {
            Some(open) if matches!(open.kind, Tok::LParen | Tok::LBracket) => Some((open.kind, open.token)),
            _ => None,
        };
        match wrong_kind {
            Some((open, token)) => {
                let wanted = closer_text(open);
                let opened = token.span(self.file);
                self.report(
                    Diagnostic::error("E0103", format!("`{text}` does not close what is open here"))
                        .at(span, format!("this should be `{wanted}`"))
                        .because(opened, "to close this")
                        .fix(format!("replace it by `{wanted}`"), span, wanted, Applicability::MaybeIncorrect),
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

    /// A closer comes for an outer bracket while the innermost is still open.
    fn report_unclosed(&mut self, start: usize, end: usize) {
        let Some(open) = self.open.last() else { return };
        let (kind, token) = (open.kind, open.token);
        let before = self.last_end();
        let wanted = closer_text(kind);
        let diagnostic = self
            .unclosed(token, wanted)
            .because(self.span(start, end), format!("a `{wanted}` should come before this"))
            .fix(format!("insert `{wanted}`"), self.span(before, before), wanted, Applicability::MaybeIncorrect);
        self.report(diagnostic);
    }

    fn unclosed(&self, token: Token, wanted: &str) -> Diagnostic {
        let text = token.text(self.text);
        Diagnostic::error("E0102", format!("`{text}` is never closed"))
            .at(token.span(self.file), format!("this needs a `{wanted}`"))
    }

    fn last_end(&self) -> usize {
        self.out.tokens.last().map_or(0, |t| t.end as usize)
    }

    /// The text ends while brackets are open.
    pub(super) fn unclosed_at_end(&mut self) {
        let Some(open) = self.open.last() else { return };
        let (kind, token) = (open.kind, open.token);
        let end = self.text.trim_end().len().max(token.end as usize);
        let wanted = closer_text(kind);
        let others = self.open.len() - 1;
        let mut diagnostic = self.unclosed(token, wanted).because(self.span(end, end), "the text ends here");
        if others > 0 {
            diagnostic = diagnostic.note(format!("{others} more {} open around it", plural(others)));
        }
        let edit = self.span(end, end);
        let diagnostic = if kind == Tok::LBrace {
            diagnostic
        } else {
            diagnostic.fix(format!("insert `{wanted}`"), edit, wanted, Applicability::MaybeIncorrect)
        };
        self.report(diagnostic);
    }

    /// A line starts with a word that cannot stand inside the open bracket: the bracket was forgotten above.
    pub(super) fn recover_bracket(&mut self, kind: Tok, start: usize) {
        let keep = if self.starts_item_at_margin(kind, start) {
            self.wall()
        } else if starts_statement(kind) {
            let inner = self.open.iter().rposition(|o| matches!(o.kind, Tok::LBrace | Tok::InterpOpen));
            inner.map_or(0, |index| index + 1)
        } else {
            return;
        };
        if keep >= self.open.len() {
            return;
        }
        let Some(Open { kind: open, token, .. }) = self.open.last() else { return };
        let (open, token) = (*open, *token);
        let before = self.last_end();
        let wanted = closer_text(open);
        let diagnostic = self
            .unclosed(token, wanted)
            .because(self.span(before, before), format!("a `{wanted}` is missing here at the latest"))
            .fix(format!("insert `{wanted}`"), self.span(before, before), wanted, Applicability::MaybeIncorrect);
        self.report(diagnostic);
        self.close_above(keep, before);
    }

    /// Brackets below this number belong to a string around here and stay.
    fn wall(&self) -> usize {
        self.open.iter().rposition(|o| o.kind == Tok::InterpOpen).map_or(0, |index| index + 1)
    }

    /// An item's keyword in the first column is an item, whatever is still open.
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

/// Keywords that start a statement and nothing else.
pub(super) fn starts_statement(kind: Tok) -> bool {
    use Tok::*;
    matches!(kind, Let | Var | Shared | For | While | Loop | Return | Break | Continue | Kernel | Import | Test | Bench)
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "bracket is" } else { "brackets are" }
}
