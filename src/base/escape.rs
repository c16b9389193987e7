//! Escaping of untrusted text (file names, names in files) for terminals: the escape character is written as `\u{1b}`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns whether a character must be escaped: control characters, line separators and marks that change the writing
/// direction.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
        '\u{061c}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes a name, including line ends.
pub fn name(text: &str) -> Cow<'_, str> {
    escape_matching(text, is_unprintable)
}

/// Escapes a text of several lines; line ends and tabs are kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape_matching(text, |c| is_unprintable(c) && !matches!(c, '\n' | '\t'))
}

fn escape_matching(text: &str, must_escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&must_escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' if must_escape(c) => out.push_str("\\n"),
            '\r' if must_escape(c) => out.push_str("\\r"),
            '\t' if must_escape(c) => out.push_str("\\t"),
            c if must_escape(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Escapes unprintable characters in a JSON text, which does not change its meaning. JSON serializers escape only the
/// control characters below U+0020.
pub fn json(text: String) -> String {
    let must_escape = |c: char| c != '\n' && is_unprintable(c);
    if !text.contains(must_escape) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // These characters are below U+10000 and occur only inside JSON strings.
        match c {
            c if must_escape(c) => {
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
    fn control_characters_are_escaped() {
        assert_eq!(name("plain é 漢"), "plain é 漢");
        assert_eq!(name("a\x1b[2Jb\n\t\r\u{9b}\u{202e}\x7f"), "a\\u{1b}[2Jb\\n\\t\\r\\u{9b}\\u{202e}\\u{7f}");
        assert_eq!(lines("a\n\tb\x07"), "a\n\tb\\u{7}");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "a\u{9b}\u{7f}\u{202e}\x1b é";
        let shown = json(serde_json::Value::from(text).to_string());
        assert!(!shown.contains(is_unprintable), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
