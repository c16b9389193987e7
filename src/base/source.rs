//! Source files and locations in them.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Index of a file in [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId(pub u32);

/// A range of bytes in one file; `start <= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(FileId, u32, u32)", into = "(FileId, u32, u32)")]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl From<(FileId, u32, u32)> for Span {
    /// Builds a span from a file and two offsets, which may come from another process.
    fn from((file, start, end): (FileId, u32, u32)) -> Span {
        Span { file, start, end: end.max(start) }
    }
}

impl From<Span> for (FileId, u32, u32) {
    fn from(span: Span) -> (FileId, u32, u32) {
        (span.file, span.start, span.end)
    }
}

impl Span {
    pub fn new(file: FileId, start: usize, end: usize) -> Self {
        let (start, end) = (start as u32, end as u32);
        Span { file, start, end: end.max(start) }
    }

    /// Returns the smallest range that contains both ranges; `self` if the files differ.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns the empty range at the end of this one.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns whether this range is within `outer`.
    pub fn is_in(self, outer: Span) -> bool {
        self.file == outer.file && outer.start <= self.start && self.end <= outer.end
    }

    pub fn contains(self, offset: u32) -> bool {
        self.start <= offset && offset <= self.end
    }
}

/// The origin of a generated text, such as the translation of a file in another language.
pub trait TextOrigin: std::fmt::Debug + Send + Sync + std::panic::RefUnwindSafe + std::panic::UnwindSafe {
    /// Returns the place from which a range of bytes of the text was generated.
    fn source_of(&self, range: std::ops::Range<usize>) -> Option<Span>;
}

/// A source text: a file, a standard-library module or the input of a REPL entry.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// The name in messages: a path as the user wrote it, `std/nn.clk`, `<entry 3>`.
    pub name: Arc<str>,
    pub text: Arc<str>,
    /// Set if the text is generated. Messages are then about its origin.
    origin: Option<Arc<dyn TextOrigin>>,
    /// The start offset of each line, computed on first use.
    lines: Arc<OnceLock<Vec<usize>>>,
}

impl SourceText {
    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
        })
    }

    /// Returns the line of an offset, counted from 0, and the offset of the line's start.
    fn line(&self, offset: usize) -> (usize, usize) {
        let lines = self.lines();
        let line = lines.partition_point(|&start| start <= offset).saturating_sub(1);
        (line, lines[line])
    }
}

/// All sources of a session. Files are only added, never removed.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceText>,
}

impl SourceMap {
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        self.add_text(name.into(), text.into(), None)
    }

    /// Adds a text that was generated from other files of these sources.
    pub fn add_generated(&mut self, name: impl Into<Arc<str>>, text: String, origin: Arc<dyn TextOrigin>) -> FileId {
        self.add_text(name.into(), text.into(), Some(origin))
    }

    fn add_text(&mut self, name: Arc<str>, text: Arc<str>, origin: Option<Arc<dyn TextOrigin>>) -> FileId {
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceText { name, text, origin, lines: Arc::default() });
        id
    }

    /// Returns whether a file is a generated text.
    pub fn is_generated(&self, file: FileId) -> bool {
        self.get(file).is_some_and(|source| source.origin.is_some())
    }

    /// Returns the place from which the text of a span was generated; otherwise the span itself.
    pub fn original(&self, span: Span) -> Span {
        let origin = self.get(span.file).and_then(|source| source.origin.as_ref());
        origin.and_then(|origin| origin.source_of(span.range())).unwrap_or(span)
    }

    pub fn get(&self, file: FileId) -> Option<&SourceText> {
        self.files.get(file.0 as usize)
    }

    pub fn name(&self, file: FileId) -> &str {
        self.get(file).map_or("<unknown>", |f| &f.name)
    }

    pub fn text(&self, file: FileId) -> &str {
        self.get(file).map_or("", |f| &f.text)
    }

    /// Returns the text of a span; empty if the span does not belong to these sources.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.file).get(span.range()).unwrap_or("")
    }

    /// Returns a line, counted from 1, without its end; empty if there is none.
    pub fn line_text(&self, file: FileId, number: usize) -> &str {
        let Some(source) = self.get(file) else { return "" };
        let start = number.checked_sub(1).and_then(|line| source.lines().get(line));
        start.and_then(|&start| source.text.get(start..)?.lines().next()).unwrap_or("")
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceText)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// Returns the line of an offset, counted from 0, and the offset of the line's start.
    pub(crate) fn line(&self, file: FileId, offset: usize) -> (usize, usize) {
        self.get(file).map_or((0, 0), |source| source.line(offset))
    }

    /// Returns the line and column of a span's start, counted from 1; columns count characters.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let text = self.text(span.file);
        let at = if text.is_char_boundary(span.start as usize) { span.start as usize } else { text.len() };
        let (line, start) = self.line(span.file, at);
        (line + 1, text.get(start..at).unwrap_or("").chars().count() + 1)
    }
}
