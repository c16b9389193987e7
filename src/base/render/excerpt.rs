//! Excerpts of sources for ariadne: a text with the same number of lines as the source, in which only the labeled lines
//! have content.
//!
//! Long lines are cut to the surroundings of their labels, and control characters are replaced. So the output stays
//! short for files and lines of any length.

use std::collections::BTreeMap;
use std::ops::Range;

use ariadne::{Cache, Source};

use crate::diag::DiagLabel;
use crate::escape;
use crate::source::{FileId, SourceMap, Span};

/// Smallest and largest number of characters shown around each end of a label if its line is too long.
const NEAR: std::ops::RangeInclusive<usize> = 6..=50;
/// Width of a tab in columns.
pub(super) const TAB: usize = 4;
/// Marks a file id in ariadne's output, to be replaced by the file's name and the location in the source.
const MARK: char = '\u{1}';

pub(super) struct Excerpts<'a> {
    sources: &'a SourceMap,
    files: BTreeMap<FileId, Excerpt>,
}

struct Excerpt {
    source: Source<String>,
    segments: Vec<SourceSegment>,
    /// Start offset of each shown line in the source and in the excerpt, by line number.
    shown_lines: BTreeMap<usize, (usize, usize)>,
}

/// A range of source bytes and its position in the excerpt. It has the same length there, except that a line end is
/// always one byte.
struct SourceSegment {
    from: Range<usize>,
    at: usize,
    bytes: usize,
}

impl<'a> Excerpts<'a> {
    /// Creates the excerpts. `gap` marks omitted text. A line has at most `width` columns, including its line number.
    pub(super) fn new(sources: &'a SourceMap, labels: &[&DiagLabel], gap: &str, width: usize) -> Self {
        let mut spans: BTreeMap<FileId, Vec<Range<usize>>> = BTreeMap::new();
        for label in labels {
            let range = clamp(sources.text(label.span.file), label.span);
            spans.entry(label.span.file).or_default().push(range);
        }
        let last = spans.iter().flat_map(|(file, spans)| spans.iter().map(|s| sources.line(*file, s.end).0 + 1));
        // Width of the margin, such as ` 12 │ ` for a line number of two digits.
        let margin = last.max().unwrap_or(1).to_string().len() + 4;
        let limits = ExcerptLimits { gap, columns: width.saturating_sub(margin).max(24) };
        let files = spans.into_iter().map(|(file, spans)| (file, excerpt(sources, file, &spans, limits))).collect();
        Excerpts { sources, files }
    }

    /// Maps a span of the source to the excerpt.
    pub(super) fn map(&self, span: Span) -> Range<usize> {
        let Some(excerpt) = self.files.get(&span.file) else { return 0..0 };
        let range = clamp(self.sources.text(span.file), span);
        let start = excerpt.map(range.start);
        start..excerpt.map(range.end).max(start)
    }

    /// Replaces the marked locations in ariadne's headings with file names and source locations.
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

    /// Maps a location in an excerpt, such as `3:14:7` (file 3, line 14, column 7), to the source.
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
        let index = self.segments.partition_point(|segment| segment.from.start <= offset);
        let Some(segment) = index.checked_sub(1).and_then(|i| self.segments.get(i)) else { return 0 };
        segment.at + offset.saturating_sub(segment.from.start).min(segment.bytes)
    }

    fn source_column(&self, text: &str, line: usize, column: usize) -> usize {
        let Some(&(start, shown)) = self.shown_lines.get(&line) else { return column };
        let shown_text = self.source.text().get(shown..).unwrap_or("");
        let offset = shown + shown_text.char_indices().nth(column - 1).map_or(shown_text.len(), |(i, _)| i);
        let index = self.segments.partition_point(|segment| segment.at <= offset);
        let Some(segment) = index.checked_sub(1).and_then(|i| self.segments.get(i)) else { return column };
        let original = (segment.from.start + offset - segment.at).min(segment.from.end);
        text.get(start..original).map_or(column, |before| before.chars().count() + 1)
    }
}

/// Clamps a span to the text, to character boundaries, and to the last line.
fn clamp(text: &str, span: Span) -> Range<usize> {
    let range = span.range();
    let end_of_text = text.len();
    let mut start = floor(text, range.start.min(end_of_text));
    let end = ceil(text, range.end.min(end_of_text)).max(start);
    // A label at the end of the input is shown after the last nonblank character, because the end may be on an empty
    // line.
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

/// Limits on the width of a line, and the text that marks omissions.
#[derive(Clone, Copy)]
struct ExcerptLimits<'g> {
    gap: &'g str,
    columns: usize,
}

fn excerpt(sources: &SourceMap, file: FileId, spans: &[Range<usize>], limits: ExcerptLimits<'_>) -> Excerpt {
    let text = sources.text(file);
    let mut points: Vec<usize> = spans.iter().flat_map(|s| [s.start, s.end.saturating_sub(1).max(s.start)]).collect();
    points.sort_unstable();
    // The end of the text belongs to the last line, even if the text ends with a line end.
    let line_of = |point: usize| sources.line(file, point.min(text.len().saturating_sub(1)));
    let mut excerpt = Excerpt { source: Source::from(String::new()), segments: vec![], shown_lines: BTreeMap::new() };
    let mut shown = String::new();
    let mut lines = 0;
    for on_line in points.chunk_by(|a, b| line_of(*a) == line_of(*b)).filter(|_| !text.is_empty()) {
        let (line, start) = line_of(on_line[0]);
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at + 1);
        shown.extend(std::iter::repeat_n('\n', line - lines));
        excerpt.shown_lines.insert(line + 1, (start, shown.len()));
        show_line(&text[start..end], start, on_line, limits, &mut shown, &mut excerpt.segments);
        lines = line + 1;
    }
    excerpt.source = Source::from(shown);
    excerpt
}

/// Adds a line to the excerpt, cut to the surroundings of the points if it is long.
fn show_line(
    line: &str,
    start: usize,
    points: &[usize],
    limits: ExcerptLimits<'_>,
    shown: &mut String,
    segments: &mut Vec<SourceSegment>,
) {
    let content = line.trim_end_matches(['\n', '\r']);
    for range in visible_ranges(content, start, points, limits) {
        if range.start > 0 {
            shown.push_str(limits.gap);
        }
        segments.push(SourceSegment {
            from: start + range.start..start + range.end,
            at: shown.len(),
            bytes: range.len(),
        });
        shown.extend(content[range.clone()].chars().map(replace_control_char));
        if range.end == content.len() {
            // The line end itself may have a label, so it is also a segment.
            segments.push(SourceSegment { from: start + range.end..start + line.len(), at: shown.len(), bytes: 1 });
            shown.push('\n');
            return;
        }
    }
    shown.push_str(limits.gap);
    shown.push('\n');
}

/// Returns the ranges of a line to show, ordered and disjoint.
fn visible_ranges(content: &str, start: usize, points: &[usize], limits: ExcerptLimits<'_>) -> Vec<Range<usize>> {
    if columns(content) <= limits.columns {
        return std::iter::once(0..content.len()).collect();
    }
    // Show as much around each point as fits.
    let mut parts = Vec::new();
    for near in NEAR.rev() {
        parts = around(content, start, points, near);
        let wide: usize = parts.iter().map(|part| columns(&content[part.clone()]) + columns(limits.gap)).sum();
        if wide + columns(limits.gap) <= limits.columns {
            break;
        }
    }
    parts
}

/// Returns the ranges of a line within `near` bytes of a point.
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

/// Replaces control characters and the characters that ariadne treats as line ends. The replacement has the same number
/// of bytes, so that offsets stay valid.
fn replace_control_char(c: char) -> char {
    match (c, c.len_utf8()) {
        ('\t', _) => '\t',
        (c, _) if !escape::is_unprintable(c) => c,
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
