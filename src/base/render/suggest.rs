//! Renders fixes as help texts: the title and the changed lines.

use std::fmt::Write as _;

use super::{excerpt, wrap};
use crate::diag::Fix;
use crate::source::{FileId, SourceMap, Span};

/// Maximum number of lines shown.
const MAX_LINES: usize = 40;

/// Adds the changed lines of a fix to the help texts: below `last_help` if that text already suggests the fix, else
/// below the title of the fix.
pub(super) fn add_suggestion(
    fix: &Fix,
    last_help: Option<&str>,
    sources: &SourceMap,
    width: usize,
    help: &mut Vec<String>,
) {
    let lines = changed_lines(fix, sources).unwrap_or_default();
    let shown = listing(&lines, width);
    match help.last_mut().filter(|_| last_help.is_some_and(|text| suggests_the_fix(text, &fix.title))) {
        Some(help) => help.push_str(&shown),
        None => {
            let title = wrap::fold(&excerpt::one_line(&fix.title), width).join("\n");
            help.push(if lines.is_empty() { title } else { format!("{title}:{shown}") });
        }
    }
}

fn listing(lines: &[ChangedLine], width: usize) -> String {
    let digits = lines.last().map_or(1, |line| line.number.to_string().len());
    let space = width.saturating_sub(digits + 3).max(20);
    let mut text = String::new();
    for ChangedLine { number, text: line, at } in lines {
        let _ = write!(text, "\n{number:>digits$} | {}", excerpt::printable(&clip(line, *at, space)));
    }
    text
}

/// Returns whether a help text contains the code in the title of a fix: "did you mean `alpha`?", "write `alpha`".
fn suggests_the_fix(help: &str, title: &str) -> bool {
    let code = title.split('`').nth(1);
    help.lines().count() == 1
        && code.is_some_and(|code| help.split('`').skip(1).step_by(2).any(|quoted| quoted == code))
}

/// A changed source line, after the fix is applied.
struct ChangedLine {
    number: usize,
    text: String,
    /// Character offset of the first change.
    at: usize,
}

/// Cuts a line to `space` columns: to its start if the change is within these columns, else to the surroundings of the
/// change.
fn clip(line: &str, at: usize, space: usize) -> String {
    let count = line.chars().count();
    if count <= space {
        return line.to_string();
    }
    // In ASCII, each of the two gaps (`...`) takes three columns.
    let shown = space.saturating_sub(6);
    let start = if at < shown * 2 / 3 { 0 } else { at - shown / 3 };
    let part: String = line.chars().skip(start).take(shown).collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if start + shown < count { "…" } else { "" });
    format!("{before}{part}{after}")
}

/// Applies the edits and returns the changed lines. `None` if the edits overlap or are outside the source.
fn changed_lines(fix: &Fix, sources: &SourceMap) -> Option<Vec<ChangedLine>> {
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
    let first = text.get(start..first)?.chars().count();
    let line = |(i, line): (usize, &str)| ChangedLine {
        number: number + i,
        text: line.trim_end().to_string(),
        at: if i == 0 { first } else { 0 },
    };
    let lines: Vec<_> = changed.lines().enumerate().map(line).collect();
    (lines.len() <= MAX_LINES).then_some(lines)
}
