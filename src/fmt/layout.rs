//! Indents lines and splits lines that are too long.

use super::elements::{ElementKind, FormatElement, TokenRole};
use super::spacing::{space_between, width};
use super::split;
use clk_syntax::token::Tok;

/// Number of blanks per level of indentation.
pub(crate) const INDENT: usize = 4;

/// The whitespace before an element.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WhitespaceGap {
    pub newlines: u8,
    pub blanks: u32,
}

/// The indentation of the contents of an open bracket and of its closing bracket.
#[derive(Clone, Copy)]
struct BracketIndent {
    content: usize,
    end: usize,
    /// Whether the bracket contains items separated by commas rather than statements.
    list: bool,
}

/// Returns the whitespace before every element, including deleted elements.
pub(crate) fn lay_out(text: &str, elements: &mut [FormatElement], limit: usize) -> Vec<WhitespaceGap> {
    let mut gaps = vec![WhitespaceGap::default(); elements.len()];
    let mut levels = vec![BracketIndent { content: 0, end: 0, list: false }];
    let mut start = 0;
    // The last token before the line, ignoring comments.
    let mut before: Option<usize> = None;
    // The first token at or after the start of the line. The index only increases, so consecutive comment lines take
    // linear time.
    let mut token = 0;
    while start < elements.len() {
        let level = levels.last().copied().unwrap_or(BracketIndent { content: 0, end: 0, list: false });
        while token < elements.len() && (token < start || elements[token].is_comment()) {
            token += 1;
        }
        let continued = is_continued(elements, elements.get(token), level, before);
        let indent = match (elements[start].closes, continued) {
            (true, _) => level.end,
            (false, true) => level.content + INDENT,
            (false, false) => level.content,
        };
        let mut end = line_end(elements, start);
        while width(elements, start, end) + indent > limit {
            let continuation = if continued { indent } else { level.content + INDENT };
            // Every split of a line adds a break, except the last one.
            if !(split::LongLine { start, end, indent, continuation, limit }).split(elements) {
                break;
            }
            end = line_end(elements, start);
        }
        let newlines = if start == 0 { 0 } else { elements[start].breaks.max(1) };
        gaps[start] = WhitespaceGap { newlines, blanks: indent as u32 };
        for index in start..end {
            let element = elements[index];
            if index > start
                && let Some(neighbor) = (start..index).rev().find(|&i| !elements[i].deleted)
            {
                gaps[index].blanks = space_between(elements, neighbor, index) as u32;
            }
            if element.opens {
                let list = element.role != TokenRole::Block;
                levels.push(BracketIndent { content: indent + INDENT, end: indent, list });
            } else if element.closes && levels.len() > 1 {
                levels.pop();
            }
            if !element.is_comment() {
                before = Some(index);
            }
        }
        start = end;
    }
    align_comments(text, elements, &mut gaps);
    gaps
}

/// Returns the first element of the next line.
fn line_end(elements: &[FormatElement], start: usize) -> usize {
    (start + 1..elements.len()).find(|&i| elements[i].breaks > 0).unwrap_or(elements.len())
}

/// Returns whether the line continues a statement or item of an earlier line. A comment belongs to the token after it.
fn is_continued(
    elements: &[FormatElement],
    token: Option<&FormatElement>,
    level: BracketIndent,
    before: Option<usize>,
) -> bool {
    let Some(element) = token else { return false };
    let Some(before) = before.map(|i| &elements[i]) else { return false };
    if element.closes || element.boundary || before.opens {
        return false;
    }
    let own_brace = element.is_token(Tok::LBrace) && element.role == TokenRole::Block;
    if own_brace && (super::roles::ends_value(before) || before.is_token(Tok::Else) || before.is_token(Tok::Loop)) {
        return false;
    }
    let item_before = match before.tok() {
        Some(Tok::Comma) => level.list,
        Some(Tok::Semi | Tok::Doc | Tok::Unroll | Tok::NoUnroll) => true,
        // These tokens can be the end of `#unroll(4)`, or of a statement that ends with its block.
        Some(Tok::RParen) => is_hint(elements, before),
        Some(Tok::RBrace) => !level.list && !super::breaks::continues(element),
        _ => false,
    };
    !(item_before || before.comma && level.list)
}

fn is_hint(elements: &[FormatElement], close: &FormatElement) -> bool {
    (close.mate as usize).checked_sub(1).is_some_and(|i| elements[i].is_token(Tok::Unroll))
}

/// Aligns trailing comments of consecutive lines if they were aligned in the source.
fn align_comments(text: &str, elements: &[FormatElement], gaps: &mut [WhitespaceGap]) {
    let mut run: Vec<(usize, usize, usize)> = Vec::new();
    let mut column = 0;
    let mut line_has_comment = false;
    for index in 0..elements.len() {
        let element = &elements[index];
        if gaps[index].newlines > 0 {
            if !line_has_comment || gaps[index].newlines > 1 {
                align(&mut run, gaps);
            }
            line_has_comment = false;
            column = 0;
        }
        let first = gaps[index].newlines > 0 || index == 0;
        if element.kind == ElementKind::LineComment && !first {
            run.push((index, column, source_column(text, element.start as usize)));
            line_has_comment = true;
        }
        if !element.deleted {
            column += gaps[index].blanks as usize + element.width as usize + usize::from(element.comma);
        }
    }
    align(&mut run, gaps);
}

/// Aligns the trailing comments of consecutive lines. A comment is given by its element, the end column of the code
/// before it, and its column in the source.
fn align(run: &mut Vec<(usize, usize, usize)>, gaps: &mut [WhitespaceGap]) {
    let run = std::mem::take(run);
    let aligned = run.len() > 1 && run.windows(2).all(|pair| pair[0].2 == pair[1].2);
    let target = run.iter().map(|(_, column, _)| column + 1).max().unwrap_or(0);
    for (index, column, _) in run {
        gaps[index].blanks = if aligned { (target - column) as u32 } else { 1 };
    }
}

fn source_column(text: &str, at: usize) -> usize {
    let line = text.get(..at).and_then(|t| t.rsplit('\n').next()).unwrap_or("");
    line.chars().count()
}
