//! Decides whether there is a blank between two adjacent elements of a line.

use super::elements::{ElementKind, FormatElement, TokenRole};
use super::roles::ends_value;
use clk_syntax::token::Tok;

/// Returns whether there is a blank between two elements of a line if no comma is inserted between them.
pub(crate) fn between(before: &FormatElement, next: &FormatElement) -> bool {
    let (ElementKind::Token(a), ElementKind::Token(b)) = (before.kind, next.kind) else {
        // There is a blank next to a comment, except directly inside a bracket.
        return !matches!(before.kind, ElementKind::Token(Tok::LParen | Tok::LBracket))
            && !matches!(next.kind, ElementKind::Token(Tok::RParen | Tok::RBracket | Tok::Comma | Tok::Semi));
    };
    use Tok::*;
    if before.role == TokenRole::Prefix || before.role == TokenRole::Placed {
        return false;
    }
    match (a, b) {
        (LBrace, RBrace) => false,
        (_, Dot) if next.role == TokenRole::SpacedDot => true,
        (_, RParen | RBracket | Comma | Semi | Colon) => false,
        (LParen | LBracket | LaunchOpen | Dot, _) => false,
        (_, Dot | LaunchOpen | LaunchClose) => false,
        (LBrace, _) => before.role != TokenRole::Names,
        (_, RBrace) => next.role != TokenRole::Names,
        (Lt, _) if before.role == TokenRole::Open => false,
        (_, Lt) if next.role == TokenRole::Open => false,
        (_, Gt) if next.closes => false,
        (_, LParen | LBracket) if next.role == TokenRole::Call => false,
        (LaunchClose, _) => false,
        (DotDot, Name) if next.role == TokenRole::Word => true,
        (DotDot | DotDotEq, _) => false,
        (_, DotDot | DotDotEq) => !ends_value(before),
        _ => true,
    }
}

/// Returns the width in characters of the elements from `start` (inclusive) to `end` (exclusive), without trailing
/// comments.
pub fn width(elements: &[FormatElement], start: usize, end: usize) -> usize {
    let mut total = 0;
    let mut neighbor: Option<usize> = None;
    let end = (start..end).rev().find(|&i| elements[i].kind != ElementKind::LineComment).map_or(start, |last| last + 1);
    for index in start..end {
        let element = &elements[index];
        if element.deleted {
            continue;
        }
        let blank = neighbor.is_some_and(|n| space_between(elements, n, index));
        total += element.width as usize + usize::from(blank) + usize::from(element.comma);
        neighbor = Some(index);
    }
    total
}

/// Returns whether there is a blank between two elements of a line, including the blank after an inserted comma.
pub(crate) fn space_between(elements: &[FormatElement], before: usize, next: usize) -> bool {
    elements[before].comma && !elements[next].closes || between(&elements[before], &elements[next])
}
