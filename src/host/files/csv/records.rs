//! A reader of CSV records: splits a text into records of fields, each with whether it was quoted (and therefore is text), and
//! reports errors in quoting with their line.
//!
//! Fields borrow from the text; only a field with a doubled quote is copied. A record ends at `\n`, `\r` or `\r\n` outside of
//! quotes. Blank lines are skipped, as is white space around a field, and lines before the first record that begin with `#`.

use std::borrow::Cow;

use crate::host::problem::{Outcome, Problem};

pub struct Field<'t> {
    pub text: Cow<'t, str>,
    pub quoted: bool,
}

/// A cursor in a text.
#[derive(Clone)]
pub(crate) struct Records<'t> {
    name: &'t str,
    text: &'t str,
    at: usize,
    /// Line number of the cursor, from 1.
    line: u64,
    /// [`BLANKS`] for any number of spaces and tabs.
    separator: u8,
}

/// The separator of columns of numbers that NumPy's `savetxt` writes.
const BLANKS: u8 = b' ';

/// A line that begins with `#`.
pub(super) struct Comment {
    pub line: u64,
    /// The number of fields, if the line were data.
    pub fields: usize,
    /// Whether white space, another `#`, `!` or nothing follows the `#`, as in text that is meant for people.
    pub is_spaced: bool,
}

impl<'t> Records<'t> {
    /// Creates a reader of a text without a byte order mark, which begins at the first record. `name` is the file's.
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let mut records = Records { name, text, at: 0, line: 1, separator: b',' };
        while records.comment().is_some() {}
        records.separator = separator(records.clone());
        records
    }

    /// Whether blanks separate the fields.
    pub fn has_blanks(&self) -> bool {
        self.separator == BLANKS
    }

    /// Reads the comment that comes next, if the next line begins with `#`.
    pub fn comment(&mut self) -> Option<Comment> {
        let mut ahead = self.clone();
        ahead.begin();
        // A tab may separate an empty field.
        ahead.skip_to(|byte| byte != b' ');
        let after = ahead.text[ahead.at..].strip_prefix('#')?;
        let is_spaced = after.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '#' | '!'));
        let (start, line) = (ahead.at, ahead.line);
        ahead.skip_to(|byte| matches!(byte, b'\n' | b'\r'));
        let mut fields = vec![];
        let alone = Records { text: &self.text[start..ahead.at], at: 0, ..self.clone() }.next(&mut fields);
        ahead.end_of_line();
        *self = ahead;
        // A quote that is not closed begins one more field.
        Some(Comment { line, fields: fields.len() + usize::from(alone.is_err()), is_spaced })
    }

    /// Returns the comments before the first record.
    pub fn comments(&self) -> impl Iterator<Item = Comment> {
        let mut records = Records { at: 0, line: 1, ..self.clone() };
        std::iter::from_fn(move || records.comment())
    }

    /// Reads the next record into `fields`; returns its line, or `None` at the end.
    pub fn next(&mut self, fields: &mut Vec<Field<'t>>) -> Outcome<Option<u64>> {
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
                Some(byte) if byte == self.separator => self.at += 1,
                // The next number.
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

    /// Skips spaces, and tabs unless they are the separator.
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

    fn plain(&mut self) -> Field<'t> {
        let (start, separator, blanks) = (self.at, self.separator, self.has_blanks());
        self.skip_to(|byte| byte == separator || blanks && byte == b'\t' || matches!(byte, b'\n' | b'\r'));
        Field { text: Cow::Borrowed(self.text[start..self.at].trim()), quoted: false }
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
    fn quoted(&mut self) -> Outcome<Field<'t>> {
        let line = self.line;
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let start = self.at;
            self.skip_to(|byte| byte == b'"');
            let piece = &self.text[start..self.at];
            self.line += ends(piece);
            if text.is_empty() {
                text = Cow::Borrowed(piece);
            } else {
                text.to_mut().push_str(piece);
            }
            if self.byte().is_none() {
                let title = format!("line {line} of `{}` has a quote that is not closed", self.name);
                return Err(Problem::new("E0714", title).help("a quote inside of a field in quotes is doubled: `\"\"`"));
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
                let title = format!("line {} of `{}` goes on behind a closing quote", self.line, self.name);
                return Err(Problem::new("E0714", title).help("a quote inside of a field in quotes is doubled: `\"\"`"));
            }
        }
        Ok(Field { text, quoted: true })
    }
}

/// Returns the number of line ends in a text.
fn ends(piece: &str) -> u64 {
    let bytes = piece.as_bytes();
    let lone = |(i, &byte): (usize, &u8)| byte == b'\n' || byte == b'\r' && bytes.get(i + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(|&(i, byte)| lone((i, byte))).count() as u64
}

/// Returns a comma, or a semicolon or a tab if the first record has no comma outside of quotes, or [`BLANKS`] if it has none of these and
/// consists of several numbers between blanks.
fn separator(mut records: Records<'_>) -> u8 {
    if !records.begin() {
        return b',';
    }
    let line = records.text[records.at..].lines().next().unwrap_or("").split('\r').next().unwrap_or("");
    let has_columns = words_of_numbers(line) > 1;
    let mut found = b',';
    // Whether this is the start of a field: only there is a quote special.
    let mut begins = true;
    while let Some(byte) = records.byte() {
        match byte {
            b'"' if begins => records.skip_quoted(),
            b',' => return b',',
            b'\n' | b'\r' => break,
            b';' => found = b';',
            b'\t' if found != b';' => found = b'\t',
            _ => {}
        }
        begins = matches!(byte, b';' | b'\t') || begins && byte == b' ';
        records.at += 1;
    }
    if has_columns && found == b',' { BLANKS } else { found }
}

/// Returns the number of words of a text if all are numbers, else 0.
pub(super) fn words_of_numbers(text: &str) -> usize {
    let numbers = text.split_ascii_whitespace().take_while(|word| number(word).is_some()).count();
    if numbers == text.split_ascii_whitespace().count() { numbers } else { 0 }
}

/// Parses a number as in source code, without `_` and hexadecimals.
pub(super) fn number(field: &str) -> Option<f64> {
    let words = ["nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"];
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    let spelled = field.bytes().all(plain) || words.iter().any(|word| field.eq_ignore_ascii_case(word));
    if spelled { field.parse().ok() } else { None }
}
