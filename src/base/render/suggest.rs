//! A fix as text: its title, and the lines as they would read afterwards.

use std::fmt::Write as _;

use super::{excerpt, wrap};
use crate::base::diag::Fix;
use crate::base::source::{FileId, Sources, Span};

/// More lines than this are not shown.
const MAX_LINES: usize = 8;

/// A fix under its title, or under the last help text if that has `said` the same.
pub(super) fn add_suggestion(fix: &Fix, said: Option<&str>, sources: &Sources, width: usize, help: &mut Vec<String>) {
    let lines = changed_lines(fix, sources).unwrap_or_default();
    let shown = listing(&lines);
    match help.last_mut().filter(|_| said.is_some_and(|said| says_the_same(said, &fix.title))) {
        Some(help) => help.push_str(&shown),
        None => {
            let title = wrap::fold(&excerpt::one_line(&fix.title), width).join("\n");
            help.push(if lines.is_empty() { title } else { format!("{title}:{shown}") });
        }
    }
}

fn listing(lines: &[(usize, String)]) -> String {
    let digits = lines.last().map_or(1, |(number, _)| number.to_string().len());
    let mut text = String::new();
    for (number, line) in lines {
        let _ = write!(text, "\n{number:>digits$} | {}", excerpt::printable(&clip(line)));
    }
    text
}

/// Whether a help text names the code that the title of a fix names: "did you mean `alpha`?", "write `alpha`".
fn says_the_same(help: &str, title: &str) -> bool {
    let code = title.split('`').nth(1);
    help.lines().count() == 1 && code.is_some_and(|code| help.split('`').skip(1).step_by(2).any(|said| said == code))
}

fn clip(line: &str) -> String {
    match line.char_indices().nth(160) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_string(),
    }
}

/// The lines that the edits touch, after them, with their numbers. None if the edits do not fit the source or each other.
fn changed_lines(fix: &Fix, sources: &Sources) -> Option<Vec<(usize, String)>> {
    let mut edits: Vec<&(Span, String)> = fix.edits.iter().collect();
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let file: FileId = edits.first()?.0.file;
    let text = sources.text(file);
    let first = edits.first()?.0.range().start;
    let last = edits.iter().map(|(span, _)| span.range().end).max()?;
    let start = text.get(..first)?.rfind('\n').map_or(0, |at| at + 1);
    let end = text.get(last..)?.find('\n').map_or(text.len(), |at| last + at);
    if end - start > 4000 {
        return None;
    }
    let mut changed = String::new();
    let mut at = start;
    for (span, replacement) in edits {
        if span.file != file {
            return None;
        }
        changed.push_str(text.get(at..span.range().start)?);
        changed.push_str(replacement);
        at = span.range().end;
    }
    changed.push_str(text.get(at..end)?);
    let number = text.get(..start)?.matches('\n').count() + 1;
    let lines: Vec<_> =
        changed.lines().enumerate().map(|(i, line)| (number + i, line.trim_end().to_string())).collect();
    (lines.len() <= MAX_LINES).then_some(lines)
}
