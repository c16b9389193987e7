//! A JSON reader that validates the whole text first and then reads values in place.
//!
//! Values stay text until their type is known. Therefore, 64-bit integers keep all digits, floats are rounded only
//! once, and a list of a million numbers needs no allocation for each number. As an extension, `NaN`, `Infinity` and
//! `-Infinity` are numbers, because Python's `json` module writes them.

use std::borrow::Cow;
use std::ops::Range;

/// Maximum nesting depth of lists and objects.
const MAX_DEPTH: usize = 64;

/// Numbers that are accepted although standard JSON does not have them.
pub(crate) const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

impl JsonKind {
    /// Returns the name of the kind with its article, for messages.
    pub fn words(self) -> &'static str {
        match self {
            JsonKind::Null => "null",
            JsonKind::Bool => "a truth value",
            JsonKind::Number => "a number",
            JsonKind::Text => "a string",
            JsonKind::List => "a list",
            JsonKind::Object => "an object",
        }
    }
}

/// A syntax error: the byte offset in the text, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub at: usize,
    pub why: String,
}

/// A JSON value: a part of a validated text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonRaw<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonRaw<'a> {
    /// Validates a text that consists of one value, and returns that value.
    pub fn parse(text: &'a str) -> Result<JsonRaw<'a>, JsonError> {
        let mut checker = JsonValidator { bytes: text.as_bytes(), at: 0 };
        checker.space();
        let start = checker.at;
        checker.value(0)?;
        let end = checker.at;
        checker.space();
        match checker.at == text.len() {
            true => Ok(JsonRaw { text: text.get(start..end).unwrap_or(""), at: start }),
            false => Err(checker.wrong("the request ends before this")),
        }
    }

    /// Returns the JSON text of the value.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the byte range of the value in the complete text.
    pub fn place(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    pub fn kind(&self) -> JsonKind {
        match self.text.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::List,
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// Returns the content of a string without escapes; `None` for other kinds of values.
    pub fn string(&self) -> Option<Cow<'a, str>> {
        let inner = self.text.strip_prefix('"')?.strip_suffix('"')?;
        Some(if inner.contains('\\') { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) })
    }

    /// Iterates over the values of a list. For other kinds of values, there are none.
    pub fn items(&self) -> JsonItems<'a> {
        JsonItems { rest: self.inside(b'['), at: self.at + 1 }
    }

    /// Iterates over the fields of an object in source order. For other kinds of values, there are none.
    pub fn fields(&self) -> impl Iterator<Item = (Cow<'a, str>, JsonRaw<'a>)> {
        let mut rest = JsonItems { rest: self.inside(b'{'), at: self.at + 1 };
        std::iter::from_fn(move || {
            let key = rest.next()?;
            // The iterator skips the colon between name and value as it skips commas.
            Some((key.string()?, rest.next()?))
        })
    }

    /// Returns the number of values in a list, without decoding them.
    pub fn count(&self) -> usize {
        self.items().count()
    }

    fn inside(&self, open: u8) -> &'a str {
        match self.text.as_bytes().first() == Some(&open) {
            true => self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or(""),
            false => "",
        }
    }
}

/// Iterator over the values of a list.
#[derive(Clone)]
pub(crate) struct JsonItems<'a> {
    /// The text between the brackets that was not read yet.
    rest: &'a str,
    at: usize,
}

impl<'a> Iterator for JsonItems<'a> {
    type Item = JsonRaw<'a>;

    fn next(&mut self) -> Option<JsonRaw<'a>> {
        let between = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        let skipped = self.rest.bytes().take_while(|b| between(b)).count();
        let text = self.rest.get(skipped..)?;
        let len = length(text.as_bytes());
        let value = text.get(..len).filter(|value| !value.is_empty())?;
        let item = JsonRaw { text: value, at: self.at + skipped };
        self.rest = text.get(len..)?;
        self.at += skipped + len;
        Some(item)
    }
}

/// Returns the length in bytes of the value at the start of a validated text, including nested values.
fn length(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_length(text),
        Some(b'[' | b'{') => {
            let (mut at, mut depth) = (0, 0usize);
            while let Some(byte) = text.get(at) {
                match byte {
                    b'"' => {
                        at += string_length(&text[at..]);
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
            at
        }
        _ => text.iter().take_while(|b| is_word(**b)).count(),
    }
}

fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match text.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

/// Whether a byte can be part of a number or of a literal such as `true` or `null`.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// Replaces the escapes in the content of a string. An unpaired surrogate becomes the replacement character (U+FFFD).
fn unescape(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    let four = |rest: &mut std::str::Chars<'_>| -> u32 {
        rest.by_ref().take(4).fold(0, |code, digit| code << 4 | digit.to_digit(16).unwrap_or(0))
    };
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('u') => {
                let first = four(&mut rest);
                let mut lookahead = rest.clone();
                let second = match (lookahead.next(), lookahead.next()) {
                    (Some('\\'), Some('u')) if (0xd800..0xdc00).contains(&first) => four(&mut lookahead),
                    _ => 0,
                };
                let code = if (0xdc00..0xe000).contains(&second) {
                    rest = lookahead;
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                };
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => text.push(other),
            None => {}
        }
    }
    text
}

/// Validates a text, and finds the first byte at which it is not JSON.
struct JsonValidator<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl JsonValidator<'_> {
    fn wrong(&self, why: impl Into<String>) -> JsonError {
        JsonError { at: self.at.min(self.bytes.len()), why: why.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            None => Err(self.wrong("it ends where a value is expected")),
            Some(b'{' | b'[') if depth >= MAX_DEPTH => {
                Err(self.wrong(format!("lists and objects are nested more than {MAX_DEPTH} deep")))
            }
            Some(b'{') => self.sequence(b'}', |checker| {
                if checker.peek() != Some(b'"') {
                    return Err(checker.wrong("the name of a field is a string"));
                }
                checker.string()?;
                checker.space();
                if checker.peek() != Some(b':') {
                    return Err(checker.wrong("a `:` belongs between a field's name and its value"));
                }
                checker.at += 1;
                checker.space();
                checker.value(depth + 1)
            }),
            Some(b'[') => self.sequence(b']', |checker| checker.value(depth + 1)),
            Some(b'"') => self.string(),
            Some(_) => self.word(),
        }
    }

    /// Validates items that are separated by commas, up to the closing bracket.
    fn sequence(
        &mut self,
        close: u8,
        mut part: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            part(self)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(found) if found == close => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => return Err(self.wrong(format!("a `,` or a `{}` was expected", char::from(close)))),
                None => return Err(self.wrong(format!("it ends before a `{}`", char::from(close)))),
            }
            self.space();
        }
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.wrong("it ends inside of a string")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => {
                    return Err(self.wrong("a string contains a control character; write `\\n`, `\\u0007`"));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let digits = self.bytes.get(self.at + 2..self.at + 6);
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') if digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) => self.at += 6,
            _ => return Err(self.wrong("this is not a JSON escape")),
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), JsonError> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().take_while(|b| is_word(**b)).count();
        let word = std::str::from_utf8(&rest[..len]).unwrap_or("");
        let is_constant = matches!(word, "true" | "false" | "null") || NOT_FINITE.contains(&word);
        if is_constant || is_number(word.as_bytes()) {
            self.at += len;
            return Ok(());
        }
        let shown: String = word.chars().take(40).collect();
        Err(match shown.is_empty() {
            true => self.wrong("a value was expected here"),
            false => self.wrong(format!("`{shown}` is not a JSON value")),
        })
    }
}

/// Whether a word is a JSON number: it has no leading `+` or zeros, and has digits on both sides of a decimal point.
fn is_number(word: &[u8]) -> bool {
    fn digits(text: &[u8]) -> usize {
        text.iter().take_while(|b| b.is_ascii_digit()).count()
    }
    let word = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(word);
    if whole == 0 || whole > 1 && word[0] == b'0' {
        return false;
    }
    let mut rest = &word[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', after @ ..] => after,
            plain => plain,
        };
        let count = digits(exponent);
        return count > 0 && count == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_texts_are_accepted_as_by_serde() {
        let texts = [
            "1",
            "-0",
            "01",
            "+1",
            "1.",
            ".5",
            "1e5",
            "1e",
            "1E+5",
            "-",
            "[1,2]",
            "[1,]",
            "[,]",
            "{}",
            "{\"a\":1}",
            "{\"a\" 1}",
            "{a:1}",
            "\"a\\u00e9\"",
            "\"\\x\"",
            "\"a",
            "tru",
            "true",
            "null",
            "[[[]]]",
            "[1 2]",
            "",
            " ",
            "{\"a\":1,}",
            "{\"a\":1,\"a\":2}",
            "\"\t\"",
            "[1]]",
            "1 2",
            "{\"a\":[{\"b\":null}]}",
            "\"\\u12\"",
            "é",
            "\u{0}",
        ];
        for text in texts {
            let serde = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(JsonRaw::parse(text).is_ok(), serde, "{text:?}");
        }
        for text in NOT_FINITE {
            assert_eq!(JsonRaw::parse(text).expect("a number").kind(), JsonKind::Number);
        }
    }

    #[test]
    fn values_have_the_reported_ranges() {
        let text = r#" {"a\n": [1, -2.5e3 , "x,]" , NaN], "b" : { "c": [] } } "#;
        let whole = JsonRaw::parse(text).expect("JSON");
        let fields: Vec<_> = whole.fields().collect();
        assert_eq!(fields[0].0, "a\n");
        let items: Vec<&str> = fields[0].1.items().map(|v| v.text()).collect();
        assert_eq!(items, ["1", "-2.5e3", "\"x,]\"", "NaN"]);
        for item in fields[0].1.items() {
            assert_eq!(&text[item.place()], item.text());
        }
        assert_eq!(fields[1].1.fields().next().expect("a field").1.kind(), JsonKind::List);
        assert_eq!(whole.count(), 0, "an object is no list");
    }

    #[test]
    fn strings_are_decoded_as_by_serde() {
        for text in [r#""a\"\\\/\b\f\n\r\t\u00e9é""#, r#""\ud83d\ude00""#, r#""""#] {
            let serde: String = serde_json::from_str(text).expect("a string");
            assert_eq!(JsonRaw::parse(text).expect("JSON").string().expect("a string"), serde);
        }
        assert_eq!(JsonRaw::parse(r#""\ud83dx""#).expect("JSON").string().expect("a string"), "\u{fffd}x");
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(JsonRaw::parse(&deep).is_err_and(|e| e.at == MAX_DEPTH && e.why.contains("nested")));
        assert_eq!(JsonRaw::parse("[1, x]").expect_err("no JSON").at, 4);
    }
}
