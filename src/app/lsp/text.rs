//! A text with an index of its lines, for converting positions from and to the client's encoding.

use serde_json::{Value, json};
use std::ops::Range;

/// The unit in which the client counts columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PositionEncoding {
    Utf8,
    #[default]
    Utf16,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    text: String,
    /// The byte offset of the start of each line.
    starts: Vec<usize>,
    pub encoding: PositionEncoding,
}

impl Text {
    pub fn new(text: String, encoding: PositionEncoding) -> Text {
        Text { starts: line_starts(&text), text, encoding }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the line that contains an offset, and the offset of the line's start.
    fn line(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|&s| s <= offset).saturating_sub(1);
        (line, self.starts.get(line).copied().unwrap_or(0))
    }

    pub fn line_of(&self, offset: usize) -> usize {
        self.line(offset).0
    }

    /// Returns the line and column of an offset. An offset inside a character is rounded down to the character's start.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let (line, start) = self.line(offset);
        let before = self.text.get(start..offset).unwrap_or("");
        (line, self.units(before))
    }

    /// Returns the length of a text in the client's unit of columns.
    pub fn units(&self, text: &str) -> usize {
        match self.encoding {
            PositionEncoding::Utf8 => text.len(),
            PositionEncoding::Utf16 if text.is_ascii() => text.len(),
            PositionEncoding::Utf16 => text.encode_utf16().count(),
        }
    }

    /// Returns the offset of a line and column. A position beyond the end of its line or of the text is moved back to
    /// that end.
    pub fn offset(&self, line: usize, column: usize) -> usize {
        let Some(&start) = self.starts.get(line) else { return self.text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        let line = self.text.get(start..end).unwrap_or("");
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let mut units = 0;
        for (at, c) in line.char_indices() {
            let next = units + if self.encoding == PositionEncoding::Utf8 { c.len_utf8() } else { c.len_utf16() };
            if next > column {
                return start + at;
            }
            units = next;
        }
        start + line.len()
    }

    pub fn json_position(&self, offset: usize) -> Value {
        let (line, character) = self.position(offset);
        json!({ "line": line, "character": character })
    }

    pub fn json_range(&self, range: &Range<usize>) -> Value {
        json!({ "start": self.json_position(range.start), "end": self.json_position(range.end) })
    }

    /// Returns the offset of a position that is given in the protocol's JSON.
    pub fn offset_of(&self, position: &Value) -> usize {
        let number =
            |key: &str| position.get(key).and_then(Value::as_u64).map_or(0, |n| n.min(u32::MAX.into()) as usize);
        self.offset(number("line"), number("character"))
    }

    pub fn range_of(&self, range: &Value) -> Range<usize> {
        let end = |key: &str| self.offset_of(range.get(key).unwrap_or(&Value::Null));
        let (a, b) = (end("start"), end("end"));
        a.min(b)..a.max(b)
    }

    /// Applies a change from the client: new text for a range, or a new text for the whole document.
    pub fn change(&mut self, change: &Value) {
        let Some(new) = change.get("text").and_then(Value::as_str) else { return };
        match change.get("range").filter(|r| r.is_object()) {
            None => *self = Text::new(new.to_owned(), self.encoding),
            Some(range) => {
                let range = self.range_of(range);
                self.text.replace_range(range, new);
                // An edit may join or separate `\r` and `\n`, so all line starts are computed again. Replacing the
                // range copies the text anyway.
                self.starts = line_starts(&self.text);
            }
        }
    }
}

/// Returns the offsets of line starts. Line ends are `\n`, `\r\n` and `\r`, as in the protocol; the language has fewer.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_in_both_units() {
        let utf16 = Text::new("aé😀b\nc".into(), PositionEncoding::Utf16);
        assert_eq!(utf16.position(7), (0, 4));
        assert_eq!(utf16.offset(0, 4), 7);
        assert_eq!(utf16.offset(0, 3), 3, "the middle of a pair is its start");
        assert_eq!(utf16.offset(0, 99), 8);
        assert_eq!(utf16.offset(9, 9), 10);
        let utf8 = Text::new("aé😀b\nc".into(), PositionEncoding::Utf8);
        assert_eq!(utf8.position(7), (0, 7));
        assert_eq!(utf8.offset(1, 1), 10);
    }

    #[test]
    fn all_line_ends_of_the_protocol_are_recognized() {
        let text = Text::new("a\rb\r\nc\nd\r\re".into(), PositionEncoding::Utf16);
        assert_eq!(text.starts, [0, 2, 5, 7, 9, 10]);
        for (offset, position) in
            [(0, (0, 0)), (2, (1, 0)), (3, (1, 1)), (5, (2, 0)), (7, (3, 0)), (9, (4, 0)), (10, (5, 0))]
        {
            assert_eq!((text.position(offset), text.offset(position.0, position.1)), (position, offset));
        }
        assert_eq!(text.offset(0, 9), 1, "the end of a line is before what ends it");
        assert_eq!(text.offset(1, 9), 3);
        // The first edit separates `\r` from `\n`; the second one joins them again.
        let mut text = Text::new("a\r\nb".into(), PositionEncoding::Utf16);
        let at = |line: u32, character: u32| json!({"line": line, "character": character});
        text.change(&json!({"range": {"start": at(1, 0), "end": at(1, 0)}, "text": "\n"}));
        assert_eq!((text.as_str(), text.starts.len()), ("a\r\n\nb", 3));
        text.change(&json!({"range": {"start": at(0, 1), "end": at(1, 0)}, "text": "\r"}));
        assert_eq!((text.as_str(), text.starts.clone()), ("a\r\nb", vec![0, 3]));
    }

    #[test]
    fn changes_update_the_line_table() {
        let mut text = Text::new("one\ntwo\nthree\n".into(), PositionEncoding::Utf16);
        let range = json!({"start": {"line": 0, "character": 2}, "end": {"line": 2, "character": 1}});
        text.change(&json!({"range": range, "text": "X\nY\nZ"}));
        assert_eq!(text.as_str(), "onX\nY\nZhree\n");
        assert_eq!(text.starts, Text::new(text.as_str().into(), PositionEncoding::Utf16).starts);
        text.change(&json!({"text": "all"}));
        assert_eq!((text.as_str(), text.starts.len()), ("all", 1));
        text.change(&json!({"range": 5, "text": "again"}));
        assert_eq!(text.as_str(), "again");
    }
}
