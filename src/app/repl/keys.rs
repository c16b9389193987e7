//! Key bindings: Enter runs a complete entry or starts an indented line, Alt-Enter always starts a line, and `}`
//! removes a level of indentation.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use rustyline::{Cmd, ConditionalEventHandler, Event, EventContext, RepeatCount};

const INDENT: usize = 4;

/// Whether an entry is incomplete, so that Enter must continue it.
pub(crate) fn is_unfinished(entry: &str) -> bool {
    let is_command = entry.trim_start().starts_with([':', '?']);
    !is_command && clk_syntax::is_incomplete(entry)
}

/// Enter: runs a complete entry. In an incomplete one, or if lines follow the cursor, starts a new indented line. An
/// entry found by a search runs wherever the cursor is.
pub(crate) struct EnterKey {
    pub search: Arc<HistorySearch>,
}

/// Whether the user has searched the history for the current entry, and the entries that can be found.
///
/// A search leaves the cursor where it found the text. There, Enter runs the entry, unless the user has edited it.
#[derive(Default)]
pub(crate) struct HistorySearch {
    has_searched: AtomicBool,
    multi_line_entries: Mutex<FxHashSet<String>>,
}

impl HistorySearch {
    /// Begins a new entry.
    pub fn reset(&self) {
        self.has_searched.store(false, Ordering::Relaxed);
    }

    pub fn add(&self, entry: &str) {
        if entry.contains('\n') {
            self.multi_line_entries.lock().unwrap_or_else(PoisonError::into_inner).insert(entry.to_owned());
        }
    }

    /// Returns whether a text is an entry that a search has found.
    fn has_found(&self, text: &str) -> bool {
        self.has_searched.load(Ordering::Relaxed)
            && self.multi_line_entries.lock().unwrap_or_else(PoisonError::into_inner).contains(text)
    }
}

/// Ctrl-R and Ctrl-S: records that the history is searched.
pub(crate) struct SearchKey {
    pub search: Arc<HistorySearch>,
}

impl ConditionalEventHandler for SearchKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        self.search.has_searched.store(true, Ordering::Relaxed);
        None
    }
}

/// Alt-Enter: starts a new line even if the entry is complete.
pub(crate) struct NewLine;

impl ConditionalEventHandler for EnterKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let text = context.line();
        let inside = text.get(context.pos()..).is_some_and(|behind| behind.contains('\n'));
        let continues = inside && !self.search.has_found(text);
        (continues || is_unfinished(text)).then(|| new_line(context))
    }
}

impl ConditionalEventHandler for NewLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        Some(new_line(context))
    }
}

fn new_line(context: &EventContext) -> Cmd {
    let text = context.line();
    let before = text.get(..context.pos()).unwrap_or(text);
    Cmd::Insert(1, format!("\n{}", " ".repeat(indentation(before))))
}

/// `}` on a line that contains only indentation: reduces the indentation to that of a closing brace.
///
/// No single command of rustyline deletes blanks and inserts a character before the cursor, but a completion does: the
/// key requests a completion, and the completer replaces the indentation.
pub(crate) struct CloseBrace {
    pub steps_back: StepsBack,
}

/// Number of blanks that the next completion replaces by `}`; 0 if it is an ordinary completion.
pub(crate) type StepsBack = Arc<AtomicUsize>;

impl ConditionalEventHandler for CloseBrace {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        let (_, line) = before.rsplit_once('\n')?;
        let surplus = line.len().saturating_sub(indentation(before).saturating_sub(INDENT));
        let only_blanks = surplus > 0 && line.bytes().all(|b| b == b' ');
        only_blanks.then(|| {
            self.steps_back.store(surplus, Ordering::Relaxed);
            Cmd::Complete
        })
    }
}

/// Returns the indentation of the next line, in columns: four for each open bracket.
fn indentation(text: &str) -> usize {
    let mut depth = 0usize;
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => quoted = false,
            '\\' if quoted => drop(chars.next()),
            '"' => quoted = !quoted,
            _ if quoted => {}
            '/' if chars.peek() == Some(&'/') => drop(chars.by_ref().find(|&c| c == '\n')),
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    INDENT * depth.min(20)
}

#[cfg(test)]
mod tests {
    use super::indentation;

    #[test]
    fn open_brackets_increase_the_indentation() {
        assert_eq!(indentation("kernel f() threads(i: 3) {"), 4);
        assert_eq!(indentation("fn f() {\n    if x {"), 8);
        assert_eq!(indentation("fn f() {\n    g(\"}\") // }"), 4);
        assert_eq!(indentation("let x ="), 0);
    }
}
