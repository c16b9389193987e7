//! Programs as highlighted HTML: tokens are `<span>` elements with one-letter classes.

use std::fmt::Write as _;

use super::highlight::{HighlightClass, highlight};

/// Escapes a text for HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

fn class(class: HighlightClass) -> Option<&'static str> {
    Some(match class {
        HighlightClass::Keyword => "k",
        HighlightClass::Type => "t",
        HighlightClass::Function | HighlightClass::Kernel => "f",
        HighlightClass::Builtin => "b",
        HighlightClass::Constant => "q",
        HighlightClass::Number => "n",
        HighlightClass::String => "s",
        HighlightClass::Comment => "c",
        HighlightClass::Variable
        | HighlightClass::Parameter
        | HighlightClass::Property
        | HighlightClass::Dimension
        | HighlightClass::Namespace
        | HighlightClass::Operator
        | HighlightClass::Punctuation
        | HighlightClass::Error => return None,
    })
}

const CLOSED: &str = "</span>";

/// Returns a program as HTML. Adjacent tokens of the same class, such as those of a string, share one `<span>`.
pub fn program(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    let mut last = None;
    for (range, kind) in highlight(text) {
        let (Some(between), Some(part)) = (text.get(at..range.start), text.get(range.clone())) else { continue };
        out += &escape(between);
        let name = class(kind);
        match name {
            Some(_) if name == last && between.is_empty() => {
                out.truncate(out.len() - CLOSED.len());
                let _ = write!(out, "{}{CLOSED}", escape(part));
            }
            Some(name) => drop(write!(out, "<span class=\"{name}\">{}{CLOSED}", escape(part))),
            None => out += &escape(part),
        }
        (at, last) = (range.end, name);
    }
    out + &escape(text.get(at..).unwrap_or(""))
}
