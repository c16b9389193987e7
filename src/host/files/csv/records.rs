//! A reader of CSV records: splits a text into records of fields. A field records whether it was quoted; quoted fields
//! are text. Errors in quoting are reported with their line number.
//!
//! Fields borrow from the text; only a field with a doubled quote is copied. A record ends at `\n`, `\r` or `\r\n`
//! outside of quotes. Blank lines are skipped, as is white space around a field, and lines before the first record that
//! begin with `#`.

use std::borrow::Cow;

use crate::problem::{HostResult, RuntimeError};

pub struct CsvField<'t> {
    pub text: Cow<'t, str>,
    pub quoted: bool,
}

/// A cursor in a text.
#[derive(Clone)]
pub(crate) struct CsvRecords<'t> {
    name: &'t str,
    text: &'t str,
    at: usize,
    /// Line number of the cursor, from 1.
    line: u64,
    /// The separator byte. [`BLANKS`] means one or more spaces and tabs.
    separator: u8,
    /// Whether this is a .txt file.
    is_text_file: bool,
}

/// The separator of files in which blanks separate numbers, as NumPy's `savetxt` writes them.
const BLANKS: u8 = b' ';

/// A line that begins with `#`.
pub(super) struct Comment {
    pub line: u64,
    /// The number of fields that the line has if it is parsed as a record.
    pub fields: usize,
    /// Whether white space, another `#`, `!` or nothing follows the `#`. The line is then probably a comment.
    pub is_spaced: bool,
}

impl<'t> CsvRecords<'t> {
    /// Creates a reader of a text without a byte order mark, positioned at the first record. `name` is the file's name.
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let mut records = CsvRecords { name, text, at: 0, line: 1, separator: b',', is_text_file: false };
        while records.comment().is_some() {}
        records.separator = detect_separator(records.clone());
        records
    }

    /// Creates a reader of a text in which blanks separate the fields, and `#` begins a comment at any place.
    pub fn separated_by_blanks(name: &'t str, text: &'t str) -> Self {
        CsvRecords { name, text, at: 0, line: 1, separator: BLANKS, is_text_file: true }
    }

    /// Returns whether blanks separate the fields.
    pub fn has_blanks(&self) -> bool {
        self.separator == BLANKS
    }

    /// Returns whether this is a .txt file.
    pub fn is_text_file(&self) -> bool {
        self.is_text_file
    }

    /// If the next line begins with `#`, reads it as a comment.
    pub fn comment(&mut self) -> Option<Comment> {
        let mut cursor = self.clone();
        cursor.begin();
        // Unless blanks are separators, tabs are not skipped: they may be separators after empty fields.
        let skips_tabs = self.has_blanks();
        cursor.skip_to(|byte| byte != b' ' && !(skips_tabs && byte == b'\t'));
        let after = cursor.text[cursor.at..].strip_prefix('#')?;
        let is_spaced = after.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '#' | '!'));
        let (start, line) = (cursor.at, cursor.line);
        cursor.skip_to(|byte| matches!(byte, b'\n' | b'\r'));
        let mut fields = vec![];
        let first_record = CsvRecords { text: &self.text[start..cursor.at], at: 0, ..self.clone() }.next(&mut fields);
        cursor.end_of_line();
        *self = cursor;
        // If a quote is not closed, the text after it is one more field.
        Some(Comment { line, fields: fields.len() + usize::from(first_record.is_err()), is_spaced })
    }

    /// Returns the comments before the first record.
    pub fn comments(&self) -> impl Iterator<Item = Comment> {
        let mut records = CsvRecords { at: 0, line: 1, ..self.clone() };
        std::iter::from_fn(move || records.comment())
    }

    /// Reads the next record into `fields`; returns its line, or `None` at the end.
    pub fn next(&mut self, fields: &mut Vec<CsvField<'t>>) -> HostResult<Option<u64>> {
        fields.clear();
        if !self.begin() {
            return Ok(None);
        }
        let line = self.line;
        loop {
            self.blanks();
            let is_quoted = self.byte() == Some(b'"') && !self.has_blanks();
            fields.push(if is_quoted { self.quoted()? } else { self.plain() });
            if self.has_blanks() {
                self.blanks();
            }
            match self.byte() {
                None | Some(b'\n' | b'\r') => break,
                Some(b'#') if self.has_blanks() => {
                    self.skip_to(|byte| matches!(byte, b'\n' | b'\r'));
                    break;
                }
                Some(byte) if byte == self.separator => self.at += 1,
                // After a blank, the next number begins.
                _ if self.has_blanks() => {}
                _ => break,
            }
        }
        self.end_of_line();
        Ok(Some(line))
    }

    /// Returns the text not read yet.
    pub fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips to the next line with content; returns false if there is none.
    fn begin(&mut self) -> bool {
        loop {
            let start = self.at;
            if self.separator != b'\t' {
                self.blanks();
            }
            match self.byte() {
                None => return false,
                Some(b'\n' | b'\r') => self.end_of_line(),
                Some(_) => {
                    self.at = start;
                    return true;
                }
            }
        }
    }

    fn skip_to(&mut self, is_end: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
        self.at += rest.iter().position(|&byte| is_end(byte)).unwrap_or(rest.len());
    }

    /// Skips spaces. Also skips tabs, unless the tab is the separator.
    fn blanks(&mut self) {
        let separator = self.separator;
        self.skip_to(|byte| byte != b' ' && (byte != b'\t' || separator == b'\t'));
    }

    fn end_of_line(&mut self) {
        match self.byte() {
            Some(b'\r') if self.text.as_bytes().get(self.at + 1) == Some(&b'\n') => self.at += 2,
            Some(b'\n' | b'\r') => self.at += 1,
            _ => return,
        }
        self.line += 1;
    }

    fn plain(&mut self) -> CsvField<'t> {
        let (start, separator, blanks) = (self.at, self.separator, self.has_blanks());
        let is_end = |byte| byte == separator || blanks && matches!(byte, b'\t' | b'#');
        self.skip_to(|byte| is_end(byte) || matches!(byte, b'\n' | b'\r'));
        CsvField { text: Cow::Borrowed(self.text[start..self.at].trim()), quoted: false }
    }

    /// Skips to the closing quote of the field that begins here.
    fn skip_quoted(&mut self) {
        loop {
            self.at += 1;
            self.skip_to(|byte| byte == b'"');
            match self.text.as_bytes().get(self.at + 1) {
                Some(b'"') => self.at += 1,
                _ => return,
            }
        }
    }

    /// Reads a quoted field, in which a quote is doubled.
    fn quoted(&mut self) -> HostResult<CsvField<'t>> {
        let line = self.line;
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let start = self.at;
            self.skip_to(|byte| byte == b'"');
            let piece = &self.text[start..self.at];
            self.line += count_line_ends(piece);
            if text.is_empty() {
                text = Cow::Borrowed(piece);
            } else {
                text.to_mut().push_str(piece);
            }
            if self.byte().is_none() {
                let title = format!("line {line} of `{}` has a quote that is not closed", self.name);
                return Err(
                    RuntimeError::new("E0714", title).help("a quote inside of a field in quotes is doubled: `\"\"`")
                );
            }
            self.at += 1;
            if self.byte() != Some(b'"') {
                break;
            }
            text.to_mut().push('"');
            self.at += 1;
        }
        self.blanks();
        match self.byte() {
            None | Some(b'\n' | b'\r') => {}
            Some(byte) if byte == self.separator => {}
            Some(_) => {
                let title = format!("line {} of `{}` continues after a closing quote", self.line, self.name);
                return Err(
                    RuntimeError::new("E0714", title).help("a quote inside of a field in quotes is doubled: `\"\"`")
                );
            }
        }
        Ok(CsvField { text, quoted: true })
    }
}

/// Returns the number of line ends in a text.
fn count_line_ends(piece: &str) -> u64 {
    let bytes = piece.as_bytes();
    let lone = |(i, &byte): (usize, &u8)| byte == b'\n' || byte == b'\r' && bytes.get(i + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(|&(i, byte)| lone((i, byte))).count() as u64
}

/// Detects the separator in the first record: a comma if the record has one outside of quotes, otherwise a semicolon or
/// a tab. If it has none of these, but several numbers with blanks between them, returns [`BLANKS`].
fn detect_separator(mut records: CsvRecords<'_>) -> u8 {
    if !records.begin() {
        return b',';
    }
    let line = records.text[records.at..].lines().next().unwrap_or("").split('\r').next().unwrap_or("");
    let has_columns = words_of_numbers(line) > 1;
    let mut separator = b',';
    // Whether a field begins here. A quote is special only at the start of a field.
    let mut begins = true;
    while let Some(byte) = records.byte() {
        match byte {
            b'"' if begins => records.skip_quoted(),
            b',' => return b',',
            b'\n' | b'\r' => break,
            b';' => separator = b';',
            b'\t' if separator != b';' => separator = b'\t',
            _ => {}
        }
        begins = matches!(byte, b';' | b'\t') || begins && byte == b' ';
        records.at += 1;
    }
    if has_columns && separator == b',' { BLANKS } else { separator }
}

/// Splits a text at blanks. Returns the number of words if all are numbers, otherwise 0.
pub(super) fn words_of_numbers(text: &str) -> usize {
    let numbers = text.split_ascii_whitespace().take_while(|word| number(word).is_some()).count();
    if numbers == text.split_ascii_whitespace().count() { numbers } else { 0 }
}

/// Parses a number in decimal notation, or a name such as `nan` or `inf`.
pub(crate) fn number(field: &str) -> Option<f64> {
    let words = ["nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"];
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    let spelled = field.bytes().all(plain) || words.iter().any(|word| field.eq_ignore_ascii_case(word));
    if spelled { field.parse().ok() } else { None }
}
