//! A parser of the Python literals in .npy headers: strings, integers, booleans, lists, tuples and one dictionary.

/// A literal; a tuple is represented as a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PythonLiteral {
    Text(String),
    Int(u64),
    Bool(bool),
    List(Vec<PythonLiteral>),
}

/// Maximum nesting depth of a literal. NumPy does not write deeper nesting.
const DEPTH: usize = 8;

/// Parses a text that is a dictionary; `None` for other texts.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(String, PythonLiteral)>> {
    let mut reader = PythonReader { rest: text };
    let mut entries = Vec::new();
    reader.expect('{')?;
    while !reader.skip_char('}') {
        let PythonLiteral::Text(key) = reader.value(DEPTH)? else { return None };
        reader.expect(':')?;
        entries.push((key, reader.value(DEPTH)?));
        if !reader.skip_char(',') {
            reader.expect('}')?;
            break;
        }
    }
    reader.rest.trim_matches([' ', '\n', '\0']).is_empty().then_some(entries)
}

struct PythonReader<'a> {
    rest: &'a str,
}

impl<'a> PythonReader<'a> {
    fn skip_char(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Option<()> {
        self.skip_char(c).then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<PythonLiteral> {
        let depth = depth.checked_sub(1)?;
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '(' => self.list('(', ')', depth),
            '[' => self.list('[', ']', depth),
            quote @ ('\'' | '"') => self.text(quote),
            '0'..='9' => self.int(),
            _ => self.word(),
        }
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<PythonLiteral> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.skip_char(close) {
            items.push(self.value(depth)?);
            if !self.skip_char(',') {
                self.expect(close)?;
                break;
            }
        }
        Some(PythonLiteral::List(items))
    }

    fn text(&mut self, quote: char) -> Option<PythonLiteral> {
        let mut text = String::new();
        let mut rest = self.rest.get(quote.len_utf8()..)?;
        loop {
            let end = rest.find([quote, '\\'])?;
            let (plain, special) = rest.split_at(end);
            text.push_str(plain);
            match special.strip_prefix('\\') {
                Some(code) => {
                    let (character, length) = decode_escape(code)?;
                    text.extend(character);
                    rest = code.get(length..)?;
                }
                None => {
                    self.rest = special.get(quote.len_utf8()..)?;
                    return Some(PythonLiteral::Text(text));
                }
            }
        }
    }

    /// Parses an integer. It may end in `L`, which Python 2 writes.
    fn int(&mut self) -> Option<PythonLiteral> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok().map(PythonLiteral::Int)
    }

    fn word(&mut self) -> Option<PythonLiteral> {
        let words = [("True", true), ("False", false)];
        let (word, value) = words.into_iter().find(|(word, _)| self.rest.starts_with(word))?;
        self.rest = self.rest.get(word.len()..)?;
        Some(PythonLiteral::Bool(value))
    }
}

/// Decodes an escape sequence; `code` is the text after the backslash. Returns its characters and its length. Returns
/// `None` if it is invalid in Python, and for `\N{…}`, which is not supported.
fn decode_escape(code: &str) -> Option<(Vec<char>, usize)> {
    let number = |digits: &str, radix: u32| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let hexadecimal = |length: usize| {
        let digits = code.get(1..1 + length).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        Some((vec![number(digits, 16)?], 1 + length))
    };
    let first = code.chars().next()?;
    let one = match first {
        '\\' | '\'' | '"' => first,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'v' => '\u{b}',
        'f' => '\u{c}',
        // A backslash at the end of a line continues the string.
        '\n' => return Some((vec![], 1)),
        'x' => return hexadecimal(2),
        'u' => return hexadecimal(4),
        'U' => return hexadecimal(8),
        'N' => return None,
        '0'..='7' => {
            let length = code.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            return Some((vec![number(code.get(..length)?, 8)?], length));
        }
        // Python keeps the backslash of an unknown escape sequence.
        other => return Some((vec!['\\', other], other.len_utf8())),
    };
    Some((vec![one], 1))
}

/// Returns a text as a Python string literal.
pub(crate) fn quote(text: &str) -> String {
    let mut literal = String::from("'");
    for c in text.chars() {
        match c {
            '\\' | '\'' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            c if c.is_ascii_control() => literal.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let text = "{'descr': [('a', '<f4'), ('b\\'', '|u1', (3,))], 'fortran_order': False, 'shape': (3L, 4), }   \n";
        let entries = dictionary(text).unwrap();
        let name = |name: &str| PythonLiteral::Text(name.into());
        let fields = vec![
            PythonLiteral::List(vec![name("a"), name("<f4")]),
            PythonLiteral::List(vec![name("b'"), name("|u1"), PythonLiteral::List(vec![PythonLiteral::Int(3)])]),
        ];
        assert_eq!(entries[0], ("descr".into(), PythonLiteral::List(fields)));
        assert_eq!(entries[1].1, PythonLiteral::Bool(false));
        assert_eq!(entries[2].1, PythonLiteral::List(vec![PythonLiteral::Int(3), PythonLiteral::Int(4)]));
    }

    #[test]
    fn strings_are_parsed_like_python() {
        let read = |literal: &str| match dictionary(&format!("{{'k': {literal}}}"))?.pop()?.1 {
            PythonLiteral::Text(text) => Some(text),
            _ => None,
        };
        for (literal, text) in [
            (r"'a\\b'", r"a\b"),
            (r#"'\'\"'"#, "'\""),
            (r#""it's""#, "it's"),
            (r"'\n\t\r\a\b\v\f'", "\n\t\r\u{7}\u{8}\u{b}\u{c}"),
            (r"'\xe9\u6f22\U0001F600'", "é漢😀"),
            (r"'\7\1010'", "\u{7}A0"),
            (r"'\d\é'", r"\d\é"),
            ("'a\\\nb'", "ab"),
        ] {
            assert_eq!(read(literal).as_deref(), Some(text), "{literal}");
        }
        for literal in [r"'\x4'", r"'\xg0'", r"'\ud800'", r"'\N{DIGIT ONE}'", r"'\", r"'a\'"] {
            assert_eq!(read(literal), None, "{literal}");
        }
        for text in ["", "plain", "it's", "\"", r"a\b\", "\n\r\t\u{0}\u{1b}\u{7f}", "é漢😀\u{85}\u{2028}"] {
            assert_eq!(read(&quote(text)).as_deref(), Some(text), "{text:?}");
        }
    }

    #[test]
    fn malformed_headers_are_rejected() {
        let deep = format!("{{'a': {}", "[".repeat(10_000));
        for text in [
            "",
            "{",
            "{'a'",
            "{'a':",
            "{'a': 1",
            "{'a': 1} x",
            "{1: 2}",
            "{'a': -1}",
            "{'a': '",
            "{'a': 1 'b': 2}",
            &deep,
        ] {
            assert_eq!(dictionary(text), None, "{text:.20}");
        }
    }
}
