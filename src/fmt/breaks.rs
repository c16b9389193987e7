//! Adds, moves and removes line breaks as the formatting rules require. Starts from the line breaks of the source.

use super::elements::{ElementKind, FormatElement, TokenRole};
use super::roles;
use clk_syntax::token::Tok;

/// Determines the line breaks, and the commas and semicolons next to them.
pub(crate) fn add_required_breaks(text: &str, elements: &mut Vec<FormatElement>) {
    move_breaks(elements);
    if semicolons(elements) {
        elements.retain(|e| !e.deleted);
        roles::assign(text, elements);
    }
    brackets(elements);
    for index in 0..elements.len() {
        if elements[index].opens {
            trailing_comma(elements, index);
        }
    }
    let end = elements.len();
    headers(elements, 0, end);
}

/// Adds a break before an element of a line that is too long; returns whether it was added.
///
/// Does not add the break if `move_breaks` would remove it again or if it would end a statement.
pub(crate) fn add(elements: &mut [FormatElement], index: usize) -> bool {
    let new = index > 0
        && elements.get(index).is_some_and(|e| e.breaks == 0)
        && !refuses_break(elements, index)
        && !ends_statement(elements, index);
    if new {
        elements[index].breaks = 1;
    }
    new
}

/// Returns whether a break before this element would end a statement by the lexer's newline rule.
fn ends_statement(elements: &[FormatElement], index: usize) -> bool {
    let Some(next) = elements[index..].iter().find(|e| !e.is_comment()) else { return false };
    let Some(before) = elements[..index].iter().rev().find(|e| !e.is_comment()) else { return false };
    let bracketed = elements.get(next.within as usize).is_some_and(|open| !open.is_token(Tok::LBrace));
    let body = next.is_token(Tok::LBrace) && next.role == TokenRole::Block && opens_body(before);
    let (ends, continues_statement) =
        (before.tok().is_some_and(Tok::can_end_line), next.tok().is_some_and(Tok::continues_line));
    let closes = next.is_token(Tok::RBrace);
    let clause = matches!(next.role, TokenRole::Geometry | TokenRole::Clause);
    !next.boundary && !bracketed && !closes && !body && !clause && ends && !continues_statement
}

/// Returns whether a line must not begin with this element, unless a statement begins with it.
fn refuses_break(elements: &[FormatElement], index: usize) -> bool {
    let FormatElement { kind, role, boundary, .. } = elements[index];
    let Some(before) = index.checked_sub(1).map(|i| elements[i]) else { return true };
    let ElementKind::Token(tok) = kind else { return false };
    if boundary || before.is_comment() || before.is_token(Tok::Doc) {
        return false;
    }
    match tok {
        Tok::Comma | Tok::Semi | Tok::LaunchOpen => true,
        Tok::Else => before.is_token(Tok::RBrace),
        Tok::LBrace => opens_body(&before),
        Tok::LParen | Tok::LBracket if role == TokenRole::Call => true,
        Tok::Lt if role == TokenRole::Open => true,
        _ => before.is_token(Tok::Dot) || before.role == TokenRole::Prefix || closes_empty(elements, index),
    }
}

/// Moves or removes breaks on the wrong side of a token.
fn move_breaks(elements: &mut [FormatElement]) {
    for index in 0..elements.len() {
        let FormatElement { kind, breaks, .. } = elements[index];
        if kind == ElementKind::Token(Tok::Doc) {
            elements[index].breaks = breaks.max(1);
            if let Some(next) = elements.get_mut(index + 1) {
                next.breaks = next.breaks.max(1);
            }
        } else if breaks > 0 && index > 0 && refuses_break(elements, index) {
            elements[index].breaks = 0;
            let separates = matches!(kind, ElementKind::Token(Tok::Comma | Tok::Semi));
            if let Some(next) = elements.get_mut(index + 1).filter(|_| separates) {
                next.breaks = next.breaks.max(breaks);
            }
        }
    }
}

/// Returns whether this is a closing bracket directly after its opening bracket.
fn closes_empty(elements: &[FormatElement], index: usize) -> bool {
    elements[index].closes && elements[index].mate as usize + 1 == index
}

/// Returns whether a `{` after this token begins a body (or the fields of a struct) rather than a value.
fn opens_body(before: &FormatElement) -> bool {
    roles::ends_value(before)
        || before.is_token(Tok::Else)
        || before.is_token(Tok::Loop)
        || before.role == TokenRole::Word
}

/// Removes semicolons at line ends, except after expressions, where a semicolon suppresses printing the value. Returns
/// whether any were removed.
fn semicolons(elements: &mut [FormatElement]) -> bool {
    let mut any = false;
    // For each open bracket, whether the current statement in it is more than an expression.
    let mut more: Vec<bool> = vec![false];
    for index in 0..elements.len() {
        let element = elements[index];
        let Some(tok) = element.tok() else { continue };
        let Some(top) = more.last_mut() else { break };
        if element.boundary {
            *top = false;
        }
        if element.opens {
            more.push(false);
        } else if element.closes {
            more.pop();
        } else if tok == Tok::Semi {
            let needless = *top;
            *top = false;
            if needless && ends_line(elements, index) || is_alone(elements, index) {
                delete(elements, index);
                any = true;
            }
        } else {
            *top |= is_statement(tok);
        }
    }
    any
}

fn is_statement(tok: Tok) -> bool {
    use Tok::*;
    matches!(tok, Let | Var | Const | Shared | Import | Break | Continue | Return) || tok.is_assignment()
}

/// Deletes a semicolon. Moves the line break before it and the end of the statement to the next element.
fn delete(elements: &mut [FormatElement], index: usize) {
    let breaks = elements[index].breaks;
    elements[index].deleted = true;
    if let Some(next) = elements.get_mut(index + 1) {
        next.breaks = next.breaks.max(breaks);
    }
    for next in elements.iter_mut().skip(index + 1) {
        next.boundary = true;
        if !next.is_comment() {
            break;
        }
    }
}

/// Returns whether the semicolon ends no statement. Returns false before documentation, because the semicolon can
/// determine which item the documentation belongs to.
fn is_alone(elements: &[FormatElement], index: usize) -> bool {
    if elements.get(index + 1).is_some_and(|next| next.is_token(Tok::Doc)) {
        return false;
    }
    let before = elements[..index].iter().rev().find(|e| !e.is_comment());
    elements[index].boundary || before.is_none_or(|e| e.is_token(Tok::Semi) || e.is_token(Tok::LBrace))
}

/// Returns whether only comments and semicolons follow on the line.
fn ends_line(elements: &[FormatElement], index: usize) -> bool {
    let next = elements.iter().skip(index + 1).find(|e| !e.is_comment() && !e.is_token(Tok::Semi) || e.breaks > 0);
    next.is_none_or(|e| e.breaks > 0 || e.closes)
}

/// An open bracket.
struct OpenBracket {
    at: usize,
    /// Whether the bracket contains a line break outside nested brackets.
    direct: bool,
    /// Whether the bracket contains a line break, possibly in nested brackets.
    any: bool,
    /// Index of the block before the last `else`; the next block belongs to the same chain.
    chain: Option<usize>,
}

/// Adds line breaks after the opening and before the closing bracket if the bracket contains a line break. If a block
/// of an `if` chain contains a line break, does the same for all blocks of the chain.
fn brackets(elements: &mut [FormatElement]) {
    let top = || OpenBracket { at: usize::MAX, direct: false, any: false, chain: None };
    let mut open: Vec<OpenBracket> = vec![top()];
    let mut broken = vec![false; elements.len()];
    // For each block, the previous block in its chain of `if` and `else`.
    let mut previous_block: Vec<usize> = vec![usize::MAX; elements.len()];
    for index in 0..elements.len() {
        let element = elements[index];
        let Some(level) = open.last_mut() else { return };
        if element.breaks > 0 {
            (level.direct, level.any) = (true, true);
        }
        if element.is_token(Tok::Else) && index > 0 && elements[index - 1].role == TokenRole::Block {
            level.chain = Some(elements[index - 1].mate as usize);
        }
        if element.opens {
            if element.role == TokenRole::Block
                && let Some(before) = level.chain.take()
            {
                previous_block[index] = before;
            }
            open.push(OpenBracket { at: index, ..top() });
        } else if element.closes
            && let Some(bracket) = open.pop()
        {
            let brace = element.is_token(Tok::RBrace);
            let before = previous_block[bracket.at];
            let own = if brace { bracket.any } else { bracket.direct };
            broken[bracket.at] = own || broken.get(before).copied().unwrap_or(false);
            if broken[bracket.at] {
                let mut at = before;
                while at != usize::MAX && !broken[at] {
                    broken[at] = true;
                    at = previous_block[at];
                }
            }
            if let Some(level) = open.last_mut() {
                level.any |= bracket.any || broken[bracket.at];
            }
        }
    }
    for (index, broken) in broken.into_iter().enumerate() {
        if broken {
            break_ends(elements, index);
        }
    }
}

/// Puts the content and the closing bracket on new lines; returns whether a break was added.
pub(crate) fn break_ends(elements: &mut [FormatElement], open: usize) -> bool {
    let close = elements[open].mate as usize;
    if close <= open + 1 || elements[open].is_token(Tok::LaunchOpen) {
        return false;
    }
    let mut first = open + 1;
    while first < close && elements[first].kind == ElementKind::LineComment && elements[first].breaks == 0 {
        first += 1;
    }
    let new = elements[first].breaks == 0 || elements[close].breaks == 0;
    elements[first].breaks = 1;
    elements[close].breaks = 1;
    new
}

/// Iterates over the elements directly in a bracket; nested brackets are represented by their opening bracket.
pub(crate) fn inside(elements: &[FormatElement], open: usize) -> impl Iterator<Item = usize> + '_ {
    let close = elements[open].mate as usize;
    let mut at = open + 1;
    std::iter::from_fn(move || {
        let index = at;
        let element = elements.get(index).filter(|_| index < close)?;
        at = if element.opens { element.mate as usize + 1 } else { index + 1 };
        Some(index)
    })
}

/// Adds a comma after the last element if the closing bracket begins a line, else removes it.
pub(crate) fn trailing_comma(elements: &mut [FormatElement], open: usize) {
    let FormatElement { role, mate, .. } = elements[open];
    let close = mate as usize;
    if role == TokenRole::Block || elements[open].is_token(Tok::LaunchOpen) {
        return;
    }
    let mut commas = 0;
    let mut has_semicolon = false;
    let mut last = None;
    for index in inside(elements, open) {
        match elements[index].tok() {
            Some(Tok::Comma) if !elements[index].deleted => commas += 1,
            Some(Tok::Semi) => has_semicolon = true,
            _ => {}
        }
        // A comma after documentation would become a part of the documentation.
        if !elements[index].is_comment() && !elements[index].deleted && !elements[index].is_token(Tok::Doc) {
            last = Some(index);
        }
    }
    let Some(last) = last else { return };
    let ends_with_comma = elements[last].is_token(Tok::Comma);
    if elements[close].breaks > 0 {
        // If the brackets contain no comma, adding one could create a tuple or be invalid.
        let list = commas > 0 || role == TokenRole::Fields && !has_semicolon;
        if list && !ends_with_comma {
            let end = if elements[last].opens { elements[last].mate as usize } else { last };
            elements[end].comma = true;
        }
        if role == TokenRole::Fields {
            separate_fields(elements, open);
        }
    } else if ends_with_comma && (commas > 1 || !(elements[open].is_token(Tok::LParen) && role == TokenRole::Open)) {
        elements[last].deleted = true;
    }
}

/// Adds commas between struct fields that only line ends separate.
fn separate_fields(elements: &mut [FormatElement], open: usize) {
    let starts: Vec<usize> = inside(elements, open).filter(|&i| elements[i].boundary).collect();
    for start in starts {
        let before = (open + 1..start).rev().find(|&i| !elements[i].is_comment());
        if let Some(before) = before.map(|i| &mut elements[i])
            && !matches!(before.tok(), Some(Tok::Comma | Tok::Doc | Tok::Semi))
        {
            before.comma = true;
        }
    }
}

/// Puts the `{` of a header (`kernel`, `if`, …) that spans lines on a separate line.
pub(crate) fn headers(elements: &mut [FormatElement], from: usize, to: usize) {
    // For each open bracket, the state of the statement in it: `None` outside headers, else whether the header spans
    // lines.
    let mut levels: Vec<Option<bool>> = vec![None];
    for (index, element) in elements.iter_mut().enumerate().take(to).skip(from) {
        let Some(level) = levels.last_mut() else { return };
        if element.boundary || element.is_token(Tok::Semi) {
            *level = None;
        }
        let brace = element.is_token(Tok::LBrace);
        if element.breaks > 0 && !element.closes && !brace {
            *level = level.map(|_| true);
        }
        if begins_header(element) && !(element.is_token(Tok::If) && level.is_some()) {
            *level = Some(false);
        }
        if brace && element.role == TokenRole::Block {
            if *level == Some(true) && element.mate as usize != index + 1 {
                element.breaks = 1;
            }
            *level = None;
        }
        if element.opens {
            levels.push(None);
        } else if element.closes {
            levels.pop();
            if levels.is_empty() {
                levels.push(None);
            }
        }
    }
}

fn begins_header(element: &FormatElement) -> bool {
    use Tok::*;
    matches!(element.tok(), Some(Kernel | Fn | Test | Bench | If | For | While))
}

/// Returns whether an element after a block continues the statement that contains the block.
pub(crate) fn continues(element: &FormatElement) -> bool {
    matches!(element.role, TokenRole::Binary(_) | TokenRole::Word) || element.tok().is_some_and(Tok::continues_line)
}
