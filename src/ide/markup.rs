//! Programs as HTML, in colors: classes of one letter for spans of tokens of a kind.

use std::fmt::Write as _;

use super::highlight::{Class, highlight};

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

fn class(class: Class) -> Option<&'static str> {
    Some(match class {
        Class::Keyword => "k",
        Class::Type => "t",
        Class::Function | Class::Kernel => "f",
        Class::Builtin => "b",
        Class::Constant => "q",
        Class::Number => "n",
        Class::String => "s",
        Class::Comment => "c",
        Class::Variable
        | Class::Parameter
        | Class::Property
        | Class::Dimension
        | Class::Namespace
        | Class::Operator
        | Class::Punctuation
        | Class::Error => return None,
    })
}

const CLOSED: &str = "</span>";

/// Returns a program with spans for its parts. Tokens of a kind that touch, such as those of a string, share one.
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
