//! Renders Markdown in terminals: the subset used by the pages of `clk explain` and by documentation comments.

use crate::console::paint;
use clk_base::escape;
use clk_base::render::RenderStyle;
use clk_base::render::wrap;

const BOLD: &str = "1";
const CODE: &str = "36";

/// Renders Markdown: wraps paragraphs to the terminal's width, and indents code blocks without other changes.
pub(crate) fn render(markdown: &str, style: RenderStyle) -> String {
    let mut out = String::new();
    let mut paragraph = String::new();
    let mut in_code = false;
    // Documentation comments come from user files, so control sequences are escaped.
    for line in escape::lines(markdown).lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            flush(&mut paragraph, &mut out, style);
            in_code = !in_code;
            if in_code && info.contains("fails") {
                out.push_str(&paint(style, "31", "    // wrong"));
                out.push('\n');
            }
        } else if in_code {
            out.push_str(&paint(style, CODE, &format!("    {line}")));
            out.push('\n');
        } else if let Some(title) = line.strip_prefix('#') {
            flush(&mut paragraph, &mut out, style);
            out.push_str(&paint(style, BOLD, title.trim_start_matches('#').trim()));
            out.push('\n');
        } else if line.trim().is_empty() {
            flush(&mut paragraph, &mut out, style);
            if !out.is_empty() && !out.ends_with("\n\n") {
                out.push('\n');
            }
        } else {
            if starts_item(line) {
                flush(&mut paragraph, &mut out, style);
            }
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(if paragraph.is_empty() { line.trim_end() } else { line.trim() });
        }
    }
    flush(&mut paragraph, &mut out, style);
    out
}

fn starts_item(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("- ") || line.starts_with("* ") || line.starts_with('|')
}

fn flush(paragraph: &mut String, out: &mut String, style: RenderStyle) {
    for line in wrap::fold(&without_links(paragraph), style.width) {
        out.push_str(&inline(&line, style));
        out.push('\n');
    }
    paragraph.clear();
}

/// Replaces links by their texts, except in backquotes, because a terminal cannot follow links.
fn without_links(paragraph: &str) -> String {
    let mut out = paragraph.to_owned();
    let mut from = 0;
    while let Some(middle) = out.get(from..).and_then(|rest| rest.find("](")).map(|at| from + at) {
        let in_code = out[..middle].matches('`').count() % 2 == 1;
        let start = out[..middle].rfind('[').filter(|_| !in_code);
        let end = out[middle..].find(')').map(|at| middle + at);
        match (start, end) {
            (Some(start), Some(end)) => {
                out.replace_range(middle..=end, "");
                // A picture is a link that begins with `!`, which is removed too.
                let start = if out[..start].ends_with('!') { start - 1 } else { start };
                let mark = if out[start..].starts_with('!') { 2 } else { 1 };
                out.replace_range(start..start + mark, "");
                from = middle - mark;
            }
            _ => from = middle + 2,
        }
    }
    out
}

/// Colors text in backquotes. Keeps the backquotes, so that copied text still shows where code begins and ends.
fn inline(line: &str, style: RenderStyle) -> String {
    if !style.color {
        return line.to_string();
    }
    let mut out = String::new();
    for (i, part) in line.split('`').enumerate() {
        if i % 2 == 1 {
            out.push_str(&paint(style, CODE, &format!("`{part}`")));
        } else {
            out.push_str(part);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_text() {
        let text = "See [a `b`](c.md#d), `x[i](y)` and [e](f).";
        assert_eq!(without_links(text), "See a `b`, `x[i](y)` and e.");
        assert_eq!(without_links("a](b [c"), "a](b [c");
    }

    #[test]
    fn paragraphs_wrap_and_code_does_not() {
        let style = RenderStyle { color: false, ascii: true, width: 12 };
        let text = "# Title\none two three four\n\n```clk fails\nlet x = 1   + 2\n```\n- item one\n- item two";
        let expected = "Title\none two\nthree four\n\n    // wrong\n    let x = 1   + 2\n- item one\n- item two\n";
        assert_eq!(render(text, style), expected);
    }
}
