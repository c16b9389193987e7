//! Text from outside (names in files, file names) as it may be shown: what a terminal would obey is spelled out, as
//! `\u{1b}`. In: any text. Out: text of printable characters, with line ends and tabs where the caller allows them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal may obey a character, or be misled by it, and not show it: control characters and marks that change
/// the direction of writing.
pub(crate) fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
        '\u{061c}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name: on one line, nothing in it is obeyed.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    spelled(text, is_obeyed)
}

/// A text of several lines: line ends and tabs stay, nothing else in it is obeyed.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
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

/// A JSON text with the same meaning that may be shown, too: JSON itself escapes only the first 32 characters.
pub(crate) fn json(text: String) -> String {
    let is_wrong = |c: char| c != '\n' && is_obeyed(c);
    if !text.contains(is_wrong) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // All of them lie below U+10000, and outside of strings JSON has none of them.
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
