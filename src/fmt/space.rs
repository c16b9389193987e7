//! Decides whether there is a blank between two adjacent elements of a line.

use super::elements::{Element, Kind};
use super::roles::{Role, ends_value};
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
