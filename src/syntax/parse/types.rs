//! Types, generic parameters and parameters.

use super::expressions::{above_comparison, expression};
use super::primitive::*;
use crate::ast::{Access, Generic, GenericKind, Name, Param, Type, TypeKind};
use crate::token::Tok;
use chumsky::primitive::custom;
use chumsky::{IterParser, Parser};

/// Parses a type: `f32`, `[f32; N]`, `(A, B)`, `fn(A) -> B`, `[f32; N] @gpu`.
pub(crate) fn ty(inp: &mut ParserInput<'_, '_>) -> ParseResult<Type> {
    enter(inp)?;
    let start = position(inp);
    let kind = match peek(inp) {
        Tok::Name => TypeKind::Name(path(inp)?),
        Tok::LBracket => array(inp)?,
        Tok::LParen => TypeKind::Tuple(inp.parse(list(Tok::LParen, ty, Tok::RParen))?),
        Tok::Fn => function(inp)?,
        _ => return fail_expecting(inp, ExpectedConstruct::Type),
    };
    let plain = Type { kind, span: span_from(inp, start) };
    let placed = match peek(inp) {
        Tok::At => {
            bump(inp);
            let place = name(inp)?;
            let span = span_from(inp, start);
            Type { kind: TypeKind::Placed { ty: Box::new(plain), place }, span }
        }
        _ => plain,
    };
    leave(inp);
    Ok(placed)
}

/// Parses a path of names: `a.b.c`.
pub(crate) fn path(inp: &mut ParserInput<'_, '_>) -> ParseResult<Vec<Name>> {
    inp.parse(custom(name).separated_by(tok(Tok::Dot)).at_least(1).collect())
}

fn array(inp: &mut ParserInput<'_, '_>) -> ParseResult<TypeKind> {
    let dims = custom(expression).separated_by(tok(Tok::Comma)).allow_trailing().at_least(1).collect();
    let inside = custom(ty).then_ignore(tok(Tok::Semi)).then(dims);
    let (element, dims) = inp.parse(inside.delimited_by(tok(Tok::LBracket), tok(Tok::RBracket)))?;
    Ok(TypeKind::Array { element: Box::new(element), dims })
}

fn function(inp: &mut ParserInput<'_, '_>) -> ParseResult<TypeKind> {
    let params = inp.parse(tok(Tok::Fn).ignore_then(list(Tok::LParen, ty, Tok::RParen)))?;
    let result = result(inp)?.map(Box::new);
    Ok(TypeKind::Fn { params, result })
}

/// Parses an optional `-> type`.
pub(crate) fn result(inp: &mut ParserInput<'_, '_>) -> ParseResult<Option<Type>> {
    match eat(inp, Tok::Arrow) {
        Some(_) => Ok(Some(ty(inp)?)),
        None => Ok(None),
    }
}

/// Parses an optional `: type`.
pub(crate) fn annotation(inp: &mut ParserInput<'_, '_>) -> ParseResult<Option<Type>> {
    match eat(inp, Tok::Colon) {
        Some(_) => Ok(Some(ty(inp)?)),
        None => Ok(None),
    }
}

/// Parses an optional `<T: Float, const N: i32 = 4>`.
pub(crate) fn generics(inp: &mut ParserInput<'_, '_>) -> ParseResult<Vec<Generic>> {
    match peek(inp) {
        Tok::Lt => inp.parse(list(Tok::Lt, generic, Tok::Gt)),
        _ => {
            eat(inp, Tok::Lt);
            Ok(Vec::new())
        }
    }
}

fn generic(inp: &mut ParserInput<'_, '_>) -> ParseResult<Generic> {
    let start = position(inp);
    let constant = eat(inp, Tok::Const).is_some();
    let name = name(inp)?;
    let kind = if constant {
        expect(inp, Tok::Colon)?;
        GenericKind::Const { ty: ty(inp)?, default: default(inp)? }
    } else if eat(inp, Tok::Colon).is_none() {
        GenericKind::Type { bound: None }
    } else if peek(inp) == Tok::Fn {
        GenericKind::Fn { ty: ty(inp)?, default: default(inp)? }
    } else {
        GenericKind::Type { bound: Some(super::primitive::name(inp)?) }
    };
    Ok(Generic { name, kind, span: span_from(inp, start) })
}

/// Parses an optional `= value`. Comparisons need parentheses here, because `>` closes the list.
fn default(inp: &mut ParserInput<'_, '_>) -> ParseResult<Option<crate::ast::Expr>> {
    match eat(inp, Tok::Assign) {
        Some(_) => Ok(Some(above_comparison(inp)?)),
        None => Ok(None),
    }
}

/// Parses `(x: f32, k: f32 = 2.0, out r: [f32; N])`.
pub(crate) fn params(inp: &mut ParserInput<'_, '_>) -> ParseResult<Vec<Param>> {
    inp.parse(list(Tok::LParen, param, Tok::RParen))
}

fn param(inp: &mut ParserInput<'_, '_>) -> ParseResult<Param> {
    let start = position(inp);
    let access = match peek(inp) {
        Tok::Out => Access::Out,
        Tok::InOut => Access::InOut,
        _ => Access::In,
    };
    if access != Access::In {
        bump(inp);
    }
    let (name, ty) = inp.parse(custom(name).then_ignore(tok(Tok::Colon)).then(custom(ty)))?;
    let default = match eat(inp, Tok::Assign) {
        Some(_) => Some(expression(inp)?),
        None => None,
    };
    Ok(Param { access, name, ty, default, span: span_from(inp, start) })
}
