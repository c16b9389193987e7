//! Excerpts of sources for ariadne: a text with as many lines as the source, in which only the labeled lines have content. Long
//! lines are cut to the surroundings of labels, and control characters are replaced. The output therefore stays short for files
//! and lines of any length.

use std::collections::BTreeMap;
use std::ops::Range;

use ariadne::{Cache, Source};

use crate::base::diag::Label;
use crate::base::escape;
use crate::base::source::{FileId, Sources, Span};

/// Bounds on the characters kept before and after each end of a label in a line that is too long.
const NEAR: std::ops::RangeInclusive<usize> = 6..=50;
/// Width of a tab in columns.
pub(super) const TAB: usize = 4;
/// Placeholder for a file name until the true line and column are inserted.
const MARK: char = '\u{1}';

pub(super) struct Excerpts<'a> {
    sources: &'a Sources,
    files: BTreeMap<FileId, Excerpt>,
}

struct Excerpt {
    source: Source<String>,
    pieces: Vec<Piece>,
    /// Start of each shown line, in the source and in the excerpt.
    shown_lines: BTreeMap<usize, (usize, usize)>,
}

/// Bytes `from` of the source are at `at` in the excerpt, with the same length (but a line end is always one byte).
struct Piece {
    from: Range<usize>,
    at: usize,
    bytes: usize,
}

impl<'a> Excerpts<'a> {
    /// Creates the excerpts. `gap` marks omitted parts of a line; including its number, a line has at most `width` columns.
    pub(super) fn new(sources: &'a Sources, labels: &[&Label], gap: &str, width: usize) -> Self {
        let mut spans: BTreeMap<FileId, Vec<Range<usize>>> = BTreeMap::new();
        for label in labels {
            let range = clamp(sources.text(label.span.file), label.span);
            spans.entry(label.span.file).or_default().push(range);
        }
        let last = spans.iter().flat_map(|(file, spans)| spans.iter().map(|s| sources.line(*file, s.end).0 + 1));
        // The margin with the line number, ` 12 │ `.
        let margin = last.max().unwrap_or(1).to_string().len() + 4;
        let room = Room { gap, columns: width.saturating_sub(margin).max(24) };
        let files = spans.into_iter().map(|(file, spans)| (file, excerpt(sources, file, &spans, room))).collect();
        Excerpts { sources, files }
    }

    /// Maps a span of the source to the excerpt.
    pub(super) fn map(&self, span: Span) -> Range<usize> {
        let Some(excerpt) = self.files.get(&span.file) else { return 0..0 };
        let range = clamp(self.sources.text(span.file), span);
        let start = excerpt.map(range.start);
        start..excerpt.map(range.end).max(start)
    }

    /// Replaces the lines and columns of the excerpt in ariadne's headings by those of the source, with its name.
    pub(super) fn restore_places(&self, drawn: &str) -> String {
        let mut restored = String::with_capacity(drawn.len());
        let mut rest = drawn;
        while let Some(at) = rest.find(MARK) {
            restored.push_str(&rest[..at]);
            let tail = &rest[at + MARK.len_utf8()..];
            let end = tail.find(|c: char| c != ':' && !c.is_ascii_digit()).unwrap_or(tail.len());
            restored.push_str(&self.place(&tail[..end]));
            rest = &tail[end..];
        }
        restored + rest
    }

    /// Maps a location such as `3:14:7` (file 3, line 14, column 7 of the excerpt) to the source.
    fn place(&self, numbers: &str) -> String {
        let mut numbers = numbers.split(':').map(|n| n.parse::<usize>().unwrap_or(1));
        let mut next = || numbers.next().unwrap_or(1);
        let (file, line, column) = (FileId(next() as u32), next(), next());
        let name = one_line(self.sources.name(file));
        let column = self.files.get(&file).map_or(column, |e| e.source_column(self.sources.text(file), line, column));
        format!("{name}:{line}:{column}")
    }
}

impl Excerpt {
    fn map(&self, offset: usize) -> usize {
        let index = self.pieces.partition_point(|piece| piece.from.start <= offset);
        let Some(piece) = index.checked_sub(1).and_then(|i| self.pieces.get(i)) else { return 0 };
        piece.at + offset.saturating_sub(piece.from.start).min(piece.bytes)
    }

    fn source_column(&self, text: &str, line: usize, column: usize) -> usize {
        let Some(&(start, shown)) = self.shown_lines.get(&line) else { return column };
        let shown_text = self.source.text().get(shown..).unwrap_or("");
        let offset = shown + shown_text.char_indices().nth(column - 1).map_or(shown_text.len(), |(i, _)| i);
        let index = self.pieces.partition_point(|piece| piece.at <= offset);
        let Some(piece) = index.checked_sub(1).and_then(|i| self.pieces.get(i)) else { return column };
        let original = (piece.from.start + offset - piece.at).min(piece.from.end);
        text.get(start..original).map_or(column, |before| before.chars().count() + 1)
    }
}

/// Clamps a span to the text, to character boundaries, and to the last line.
fn clamp(text: &str, span: Span) -> Range<usize> {
    let range = span.range();
    let end_of_text = text.len();
    let mut start = floor(text, range.start.min(end_of_text));
    let end = ceil(text, range.end.min(end_of_text)).max(start);
    // The end of the input is shown after the last nonblank text rather than on a line that does not exist.
    if start == end_of_text {
        start = text.trim_end().len();
        return start..start;
    }
    start..end
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Limits on the width of a line.
#[derive(Clone, Copy)]
struct Room<'g> {
    gap: &'g str,
    columns: usize,
}

fn excerpt(sources: &Sources, file: FileId, spans: &[Range<usize>], room: Room<'_>) -> Excerpt {
    let text = sources.text(file);
    let mut points: Vec<usize> = spans.iter().flat_map(|s| [s.start, s.end.saturating_sub(1).max(s.start)]).collect();
    points.sort_unstable();
    // The end of a text belongs to its last line, even if that has a line end.
    let line_of = |point: usize| sources.line(file, point.min(text.len().saturating_sub(1)));
    let mut excerpt = Excerpt { source: Source::from(String::new()), pieces: vec![], shown_lines: BTreeMap::new() };
    let mut shown = String::new();
    let mut lines = 0;
    for on_line in points.chunk_by(|a, b| line_of(*a) == line_of(*b)).filter(|_| !text.is_empty()) {
        let (line, start) = line_of(on_line[0]);
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at + 1);
        shown.extend(std::iter::repeat_n('\n', line - lines));
        excerpt.shown_lines.insert(line + 1, (start, shown.len()));
        show_line(&text[start..end], start, on_line, room, &mut shown, &mut excerpt.pieces);
        lines = line + 1;
    }
    excerpt.source = Source::from(shown);
    excerpt
}

/// Adds a line to the excerpt, cut to the surroundings of the points if it is long.
fn show_line(line: &str, start: usize, points: &[usize], room: Room<'_>, shown: &mut String, pieces: &mut Vec<Piece>) {
    let content = line.trim_end_matches(['\n', '\r']);
    for keep in kept(content, start, points, room) {
        if keep.start > 0 {
            shown.push_str(room.gap);
        }
        pieces.push(Piece { from: start + keep.start..start + keep.end, at: shown.len(), bytes: keep.len() });
        shown.extend(content[keep.clone()].chars().map(harmless));
        if keep.end == content.len() {
            // The line's end may be labeled, too.
            pieces.push(Piece { from: start + keep.end..start + line.len(), at: shown.len(), bytes: 1 });
            shown.push('\n');
            return;
        }
    }
    shown.push_str(room.gap);
    shown.push('\n');
}

/// Returns the parts of a line to show, ordered and disjoint.
fn kept(content: &str, start: usize, points: &[usize], room: Room<'_>) -> Vec<Range<usize>> {
    if columns(content) <= room.columns {
        return std::iter::once(0..content.len()).collect();
    }
    // As much around each point as fits.
    let mut parts = Vec::new();
    for near in NEAR.rev() {
        parts = around(content, start, points, near);
        let wide: usize = parts.iter().map(|part| columns(&content[part.clone()]) + columns(room.gap)).sum();
        if wide + columns(room.gap) <= room.columns {
            break;
        }
    }
    parts
}

/// Returns the parts of a line within a distance of `near` from a point.
fn around(content: &str, start: usize, points: &[usize], near: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for point in points {
        let at = (point - start).min(content.len());
        let from = floor(content, at.saturating_sub(near));
        let to = ceil(content, (at + near).min(content.len()));
        match parts.last_mut() {
            Some(last) if from <= last.end + 4 => last.end = last.end.max(to),
            _ => parts.push(from..to),
        }
    }
    parts
}

/// Returns the number of columns of a text in a terminal, with tabs expanded.
fn columns(text: &str) -> usize {
    text.chars().fold(0, |column, c| if c == '\t' { (column / TAB + 1) * TAB } else { column + 1 })
}

/// Returns a replacement of the same number of bytes, so that offsets stay valid, for control characters and for characters
/// that ariadne treats as line ends.
fn harmless(c: char) -> char {
    match (c, c.len_utf8()) {
        ('\t', _) => '\t',
        (c, _) if !escape::is_obeyed(c) => c,
        (_, 1) => '?',
        (_, 2) => '·',
        _ => '\u{fffd}',
    }
}

/// Escapes control characters except line ends.
pub(super) fn printable(text: &str) -> String {
    escape::lines(text).into_owned()
}

/// Returns a text on one line, truncated and with control characters escaped.
pub(super) fn one_line(text: &str) -> String {
    let cut: String = text.chars().take(400).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    let line: String = cut.trim().chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    escape::name(&line).into_owned() + more
}

impl Cache<FileId> for &mut Excerpts<'_> {
    type Storage = String;

    fn fetch(&mut self, id: &FileId) -> Result<&Source<String>, impl std::fmt::Debug> {
        self.files.get(id).map(|excerpt| &excerpt.source).ok_or("no such source")
    }

    fn display<'a>(&self, id: &'a FileId) -> Option<impl std::fmt::Display + 'a> {
        Some(format!("{MARK}{}", id.0))
    }
}
