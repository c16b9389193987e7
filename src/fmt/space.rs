//! Decides whether there is a blank between two adjacent elements of a line.

use super::elements::{Element, Kind, Role};
use super::roles::ends_value;
use crate::syntax::token::Tok;

pub(crate) fn between(before: &Element, next: &Element) -> bool {
    let (Kind::Token(a), Kind::Token(b)) = (before.kind, next.kind) else {
        // There is a blank next to a comment, except inside of a bracket.
        return !matches!(before.kind, Kind::Token(Tok::LParen | Tok::LBracket))
            && !matches!(next.kind, Kind::Token(Tok::RParen | Tok::RBracket | Tok::Comma | Tok::Semi));
    };
    use Tok::*;
    if before.role == Role::Prefix || before.role == Role::Placed {
        return false;
    }
    match (a, b) {
        (LBrace, RBrace) => false,
        (_, Dot) if next.role == Role::Apart => true,
        (_, RParen | RBracket | Comma | Semi | Colon) => false,
        (LParen | LBracket | LaunchOpen | Dot, _) => false,
        (_, Dot | LaunchOpen | LaunchClose) => false,
        (LBrace, _) => before.role != Role::Names,
        (_, RBrace) => next.role != Role::Names,
        (Lt, _) if before.role == Role::Open => false,
        (_, Lt) if next.role == Role::Open => false,
        (_, Gt) if next.closes => false,
        (_, LParen | LBracket) if next.role == Role::Call => false,
        (LaunchClose, _) => false,
        (DotDot, Name) if next.role == Role::Word => true,
        (DotDot | DotDotEq, _) => false,
        (_, DotDot | DotDotEq) => !ends_value(before),
        _ => true,
    }
}

/// Returns the width in characters of the elements from `start` (inclusive) to `end` (exclusive), without trailing comments.
pub fn width(elements: &[Element], start: usize, end: usize) -> usize {
    let mut total = 0;
    let mut neighbour: Option<usize> = None;
    let end = (start..end).rev().find(|&i| elements[i].kind != Kind::LineComment).map_or(start, |last| last + 1);
    for index in start..end {
        let element = &elements[index];
        if element.deleted {
            continue;
        }
        let blank = neighbour.is_some_and(|n| space_between(elements, n, index));
        total += element.width as usize + usize::from(blank) + usize::from(element.comma);
        neighbour = Some(index);
    }
    total
}

/// Whether there is a blank between two elements of a line.
pub(crate) fn space_between(elements: &[Element], before: usize, next: usize) -> bool {
    // An inserted comma is followed by a blank.
    elements[before].comma && !elements[next].closes || between(&elements[before], &elements[next])
}
