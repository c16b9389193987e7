//! A reader of CSV records: splits a text into records of fields, each with whether it was quoted (and therefore is text), and
//! reports errors in quoting with their line.
//!
//! Fields borrow from the text; only a field with a doubled quote is copied. A record ends at `\n`, `\r` or `\r\n` outside of
//! quotes. Blank lines and lines that begin with `#` are skipped, as is white space around a field.

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
    separator: u8,
}

impl<'t> Records<'t> {
    /// Creates a reader of a text without a byte order mark. `name` is the file's.
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let mut records = Records { name, text, at: 0, line: 1, separator: b',' };
        records.separator = separator(records.clone());
        records
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
            fields.push(if self.byte() == Some(b'"') { self.quoted()? } else { self.plain() });
            match self.byte() {
                Some(byte) if byte == self.separator => self.at += 1,
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
                Some(b'#') if self.at == start => {
                    self.skip_to(|byte| matches!(byte, b'\n' | b'\r'));
                    self.end_of_line();
                }
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
        let (start, separator) = (self.at, self.separator);
        self.skip_to(|byte| byte == separator || matches!(byte, b'\n' | b'\r'));
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

/// Returns a comma, or a semicolon or a tab if the first record has no comma outside of quotes.
fn separator(mut records: Records<'_>) -> u8 {
    if !records.begin() {
        return b',';
    }
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
    found
}

/// Parses a number as in source code, without `_` and hexadecimals.
pub(super) fn number(field: &str) -> Option<f64> {
    let words = ["nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"];
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    let spelled = field.bytes().all(plain) || words.iter().any(|word| field.eq_ignore_ascii_case(word));
    if spelled { field.parse().ok() } else { None }
}
