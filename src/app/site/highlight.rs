//! Programs and outputs as HTML: Clk in colors by its own lexer, and messages with links to the pages of their codes.

use std::fmt::Write as _;

use crate::ide::{self, Class};
use crate::lang::codes;

/// Escapes a text for HTML.
pub(super) fn escape(text: &str) -> String {
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
pub(super) fn program(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    let mut last = None;
    for (range, kind) in ide::highlight(text) {
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

/// Returns the output of a command; `up` leads to the root of the site.
pub(super) fn output(text: &str, up: &str) -> String {
    let mut out = String::new();
    for line in escape(text).split_inclusive('\n') {
        let code = line.split_once('[').and_then(|(word, rest)| {
            let is_head = ["error", "warning", "note"].contains(&word);
            let code = rest.split_once(']').filter(|_| is_head)?.0;
            codes::find(code).map(|page| (word.to_owned(), page.code))
        });
        match code {
            Some((word, code)) => {
                let rest = line.split_once(']').map_or("", |(_, rest)| rest);
                let link = format!("<a href=\"{up}errors/{code}.html\">{code}</a>");
                let _ = write!(out, "<span class=\"{word}\">{word}[{link}]</span>{rest}");
            }
            None => out += line,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_program() {
        let html = program("let x = \"<\" // 1 < 2");
        let expected = "<span class=\"k\">let</span> x = <span class=\"s\">&quot;&lt;&quot;</span> <span class=\"c\">// 1 &lt; 2</span>";
        assert_eq!(html, expected);
    }

    #[test]
    fn codes_lead_to_their_pages() {
        let html = output("error[E0601]: a < b\n", "../");
        assert_eq!(html, "<span class=\"error\">error[<a href=\"../errors/E0601.html\">E0601</a>]</span>: a &lt; b\n");
        assert_eq!(output("x[i]", ""), "x[i]");
    }
}
