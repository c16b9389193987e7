//! Escaping of untrusted text (file names, names in files) for terminals: control characters are written as `\u{1b}`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character controls a terminal or misleads the reader: control characters and marks that change the writing direction.
pub(crate) fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
        '\u{061c}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes a name, including line ends.
pub fn name(text: &str) -> Cow<'_, str> {
    spelled(text, is_obeyed)
}

/// Escapes a text of several lines; line ends and tabs are kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    spelled(text, |c| is_obeyed(c) && !matches!(c, '\n' | '\t'))
}

fn spelled(text: &str, is_wrong: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_wrong) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' if is_wrong(c) => out.push_str("\\n"),
            '\r' if is_wrong(c) => out.push_str("\\r"),
            '\t' if is_wrong(c) => out.push_str("\\t"),
            c if is_wrong(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Escapes a JSON text without changing its meaning: JSON itself escapes only the first 32 characters.
pub fn json(text: String) -> String {
    let is_wrong = |c: char| c != '\n' && is_obeyed(c);
    if !text.contains(is_wrong) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // All of these are below U+10000 and occur only in strings.
        match c {
            c if is_wrong(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        assert_eq!(name("plain é 漢"), "plain é 漢");
        assert_eq!(name("a\x1b[2Jb\n\t\r\u{9b}\u{202e}\x7f"), "a\\u{1b}[2Jb\\n\\t\\r\\u{9b}\\u{202e}\\u{7f}");
        assert_eq!(lines("a\n\tb\x07"), "a\n\tb\\u{7}");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "a\u{9b}\u{7f}\u{202e}\x1b é";
        let shown = json(serde_json::Value::from(text).to_string());
        assert!(!shown.contains(is_obeyed), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
