//! Line breaks required by the rules, based on those in the source.

use super::elements::{Element, Kind, Role};
use super::roles;
use crate::syntax::token::Tok;

/// Determines the line breaks, and the commas and semicolons next to them.
pub(crate) fn settle(text: &str, elements: &mut Vec<Element>) {
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
/// Refuses if `move_breaks` would remove the break again, and if it would end a statement.
pub(crate) fn add(elements: &mut [Element], index: usize) -> bool {
    let new = index > 0
        && elements.get(index).is_some_and(|e| e.breaks == 0)
        && !refuses_break(elements, index)
        && !ends_statement(elements, index);
    if new {
        elements[index].breaks = 1;
    }
    new
}

/// Whether a break before this element would end a statement by the newline rule of the lexer where none ends now.
fn ends_statement(elements: &[Element], index: usize) -> bool {
    let Some(next) = elements[index..].iter().find(|e| !e.is_comment()) else { return false };
    let Some(before) = elements[..index].iter().rev().find(|e| !e.is_comment()) else { return false };
    let bracketed = elements.get(next.within as usize).is_some_and(|open| !open.is(Tok::LBrace));
    let body = next.is(Tok::LBrace) && next.role == Role::Block && opens_body(before);
    let (ends, goes_on) = (before.tok().is_some_and(Tok::can_end_line), next.tok().is_some_and(Tok::continues_line));
    let closes = next.is(Tok::RBrace);
    let clause = matches!(next.role, Role::Geometry | Role::Clause);
    !next.boundary && !bracketed && !closes && !body && !clause && ends && !goes_on
}

/// Whether no line may begin with this element (unless a statement does).
fn refuses_break(elements: &[Element], index: usize) -> bool {
    let Element { kind, role, boundary, .. } = elements[index];
    let Some(before) = index.checked_sub(1).map(|i| elements[i]) else { return true };
    let Kind::Token(tok) = kind else { return false };
    if boundary || before.is_comment() || before.is(Tok::Doc) {
        return false;
    }
    match tok {
        Tok::Comma | Tok::Semi | Tok::LaunchOpen => true,
        Tok::Else => before.is(Tok::RBrace),
        Tok::LBrace => opens_body(&before),
        Tok::LParen | Tok::LBracket if role == Role::Call => true,
        Tok::Lt if role == Role::Open => true,
        _ => before.is(Tok::Dot) || before.role == Role::Prefix || closes_empty(elements, index),
    }
}

/// Moves or removes breaks on the wrong side of a token.
fn move_breaks(elements: &mut [Element]) {
    for index in 0..elements.len() {
        let Element { kind, breaks, .. } = elements[index];
        if kind == Kind::Token(Tok::Doc) {
            elements[index].breaks = breaks.max(1);
            if let Some(next) = elements.get_mut(index + 1) {
                next.breaks = next.breaks.max(1);
            }
        } else if breaks > 0 && index > 0 && refuses_break(elements, index) {
            elements[index].breaks = 0;
            let separates = matches!(kind, Kind::Token(Tok::Comma | Tok::Semi));
            if let Some(next) = elements.get_mut(index + 1).filter(|_| separates) {
                next.breaks = next.breaks.max(breaks);
            }
        }
    }
}

/// Whether this is a closing bracket directly after its opening one.
fn closes_empty(elements: &[Element], index: usize) -> bool {
    elements[index].closes && elements[index].mate as usize + 1 == index
}

/// Whether a `{` after this token is a body (or the fields of a struct) rather than a value.
fn opens_body(before: &Element) -> bool {
    roles::ends_value(before) || before.is(Tok::Else) || before.is(Tok::Loop) || before.role == Role::Word
}

/// Removes semicolons at line ends; returns whether there were any. One after an expression is kept, since it suppresses the value.
fn semicolons(elements: &mut [Element]) -> bool {
    let mut any = false;
    // For each enclosing statement: whether it is more than an expression.
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

/// Deletes a semicolon; the line break before it and the end of the statement are passed to the next element.
fn delete(elements: &mut [Element], index: usize) {
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

/// Whether there is no statement that the semicolon could end. (Before documentation it is kept: it can determine what the
/// documentation belongs to.)
fn is_alone(elements: &[Element], index: usize) -> bool {
    if elements.get(index + 1).is_some_and(|next| next.is(Tok::Doc)) {
        return false;
    }
    let before = elements[..index].iter().rev().find(|e| !e.is_comment());
    elements[index].boundary || before.is_none_or(|e| e.is(Tok::Semi) || e.is(Tok::LBrace))
}

/// Whether only comments and semicolons follow on the line.
fn ends_line(elements: &[Element], index: usize) -> bool {
    let behind = elements.iter().skip(index + 1).find(|e| !e.is_comment() && !e.is(Tok::Semi) || e.breaks > 0);
    behind.is_none_or(|e| e.breaks > 0 || e.closes)
}

/// An open bracket.
struct Open {
    at: usize,
    /// Whether it contains a line break outside of nested brackets.
    direct: bool,
    /// Whether it contains any line break.
    any: bool,
    /// The block before `else`, to which the next block belongs.
    chain: Option<usize>,
}

/// Brackets that contain a line break get one at both ends; so do all blocks of an `if` chain with one such.
fn brackets(elements: &mut [Element]) {
    let top = || Open { at: usize::MAX, direct: false, any: false, chain: None };
    let mut open: Vec<Open> = vec![top()];
    let mut broken = vec![false; elements.len()];
    // The previous block in the chain of `if` and `else`.
    let mut earlier: Vec<usize> = vec![usize::MAX; elements.len()];
    for index in 0..elements.len() {
        let element = elements[index];
        let Some(level) = open.last_mut() else { return };
        if element.breaks > 0 {
            (level.direct, level.any) = (true, true);
        }
        if element.is(Tok::Else) && index > 0 && elements[index - 1].role == Role::Block {
            level.chain = Some(elements[index - 1].mate as usize);
        }
        if element.opens {
            if element.role == Role::Block
                && let Some(before) = level.chain.take()
            {
                earlier[index] = before;
            }
            open.push(Open { at: index, ..top() });
        } else if element.closes
            && let Some(done) = open.pop()
        {
            let brace = element.is(Tok::RBrace);
            let before = earlier[done.at];
            let own = if brace { done.any } else { done.direct };
            broken[done.at] = own || broken.get(before).copied().unwrap_or(false);
            if broken[done.at] {
                let mut at = before;
                while at != usize::MAX && !broken[at] {
                    broken[at] = true;
                    at = earlier[at];
                }
            }
            if let Some(level) = open.last_mut() {
                level.any |= done.any || broken[done.at];
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
pub(crate) fn break_ends(elements: &mut [Element], open: usize) -> bool {
    let close = elements[open].mate as usize;
    if close <= open + 1 || elements[open].is(Tok::LaunchOpen) {
        return false;
    }
    let mut first = open + 1;
    while first < close && elements[first].kind == Kind::LineComment && elements[first].breaks == 0 {
        first += 1;
    }
    let new = elements[first].breaks == 0 || elements[close].breaks == 0;
    elements[first].breaks = 1;
    elements[close].breaks = 1;
    new
}

/// Iterates over the elements directly in a bracket; nested brackets are represented by their opening bracket.
pub(crate) fn inside(elements: &[Element], open: usize) -> impl Iterator<Item = usize> + '_ {
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
pub(crate) fn trailing_comma(elements: &mut [Element], open: usize) {
    let Element { role, mate, .. } = elements[open];
    let close = mate as usize;
    if role == Role::Block || elements[open].is(Tok::LaunchOpen) {
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
        // After documentation, a comma would become part of it.
        if !elements[index].is_comment() && !elements[index].deleted && !elements[index].is(Tok::Doc) {
            last = Some(index);
        }
    }
    let Some(last) = last else { return };
    let ends_with_comma = elements[last].is(Tok::Comma);
    if elements[close].breaks > 0 {
        // Where there is no comma yet, adding one could create a tuple or be invalid.
        let list = commas > 0 || role == Role::Fields && !has_semicolon;
        if list && !ends_with_comma {
            let end = if elements[last].opens { elements[last].mate as usize } else { last };
            elements[end].comma = true;
        }
        if role == Role::Fields {
            separate_fields(elements, open);
        }
    } else if ends_with_comma && (commas > 1 || !(elements[open].is(Tok::LParen) && role == Role::Open)) {
        elements[last].deleted = true;
    }
}

/// Adds commas between struct fields that are separated by line ends only.
fn separate_fields(elements: &mut [Element], open: usize) {
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
pub(crate) fn headers(elements: &mut [Element], from: usize, to: usize) {
    // For each open bracket: `None`, or for a header whether it was broken.
    let mut levels: Vec<Option<bool>> = vec![None];
    for (index, element) in elements.iter_mut().enumerate().take(to).skip(from) {
        let Some(level) = levels.last_mut() else { return };
        if element.boundary || element.is(Tok::Semi) {
            *level = None;
        }
        let brace = element.is(Tok::LBrace);
        if element.breaks > 0 && !element.closes && !brace {
            *level = level.map(|_| true);
        }
        if begins_header(element) && !(element.is(Tok::If) && level.is_some()) {
            *level = Some(false);
        }
        if brace && element.role == Role::Block {
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

fn begins_header(element: &Element) -> bool {
    use Tok::*;
    matches!(element.tok(), Some(Kernel | Fn | Test | Bench | If | For | While))
}

/// Whether an element continues a statement after a block.
pub(crate) fn continues(element: &Element) -> bool {
    matches!(element.role, Role::Binary(_) | Role::Word) || element.tok().is_some_and(Tok::continues_line)
}
