//! Key bindings: Enter indents the next line of an unfinished entry or breaks a line, Alt-Enter always breaks it, and `}`
//! unindents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustyline::{Cmd, ConditionalEventHandler, Event, EventContext, RepeatCount};

use crate::syntax;

const INDENT: usize = 4;

/// Whether an entry needs more lines.
pub(crate) fn is_unfinished(entry: &str) -> bool {
    let is_command = entry.trim_start().starts_with([':', '?']);
    !is_command && syntax::is_incomplete(entry)
}

/// Enter: runs a complete entry, or continues an unfinished one with its current indentation. If lines follow the cursor, as in
/// a recalled entry, it inserts a new line.
pub(crate) struct Enter;

/// Alt-Enter: always inserts a new line.
pub(crate) struct NewLine;

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let text = context.line();
        let inside = text.get(context.pos()..).is_some_and(|behind| behind.contains('\n'));
        (inside || is_unfinished(text)).then(|| new_line(context))
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

/// `}` on a line that contains only indentation.
///
/// No single command of rustyline deletes blanks and inserts a character with the cursor after it, but a completion does: the
/// key requests one, and the completer replaces the indentation.
pub(crate) struct Close {
    pub steps_back: StepsBack,
}

/// The number of blanks that the next completion replaces by `}`; 0 for an ordinary completion.
pub(crate) type StepsBack = Arc<AtomicUsize>;

impl ConditionalEventHandler for Close {
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

/// Returns the indentation of the next line in columns: four per open bracket.
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
    fn open_brackets_indent() {
        assert_eq!(indentation("kernel f() threads(i: 3) {"), 4);
        assert_eq!(indentation("fn f() {\n    if x {"), 8);
        assert_eq!(indentation("fn f() {\n    g(\"}\") // }"), 4);
        assert_eq!(indentation("let x ="), 0);
    }
}
