//! Types, generic parameters and parameters.

use super::expressions::{above_comparison, expression};
use super::primitive::*;
use crate::syntax::ast::{Access, Generic, GenericKind, Name, Param, Type, TypeKind};
use crate::syntax::token::Tok;
use chumsky::primitive::custom;
use chumsky::{IterParser, Parser};

/// Parses `f32`, `[f32; N]`, `(A, B)`, `fn(A) -> B`, `[f32; N] @gpu`.
pub(crate) fn ty(inp: &mut Input<'_, '_>) -> Parsed<Type> {
    enter(inp)?;
    let start = here(inp);
    let kind = match peek(inp) {
        Tok::Name => TypeKind::Name(path(inp)?),
        Tok::LBracket => array(inp)?,
        Tok::LParen => TypeKind::Tuple(inp.parse(list(Tok::LParen, ty, Tok::RParen))?),
        Tok::Fn => function(inp)?,
        _ => return missing(inp, Label::Type),
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

/// Parses `a.b.c`.
pub(crate) fn path(inp: &mut Input<'_, '_>) -> Parsed<Vec<Name>> {
    inp.parse(custom(name).separated_by(tok(Tok::Dot)).at_least(1).collect())
}

fn array(inp: &mut Input<'_, '_>) -> Parsed<TypeKind> {
    let dims = custom(expression).separated_by(tok(Tok::Comma)).allow_trailing().at_least(1).collect();
    let inside = custom(ty).then_ignore(tok(Tok::Semi)).then(dims);
    let (element, dims) = inp.parse(inside.delimited_by(tok(Tok::LBracket), tok(Tok::RBracket)))?;
    Ok(TypeKind::Array { element: Box::new(element), dims })
}

fn function(inp: &mut Input<'_, '_>) -> Parsed<TypeKind> {
    let params = inp.parse(tok(Tok::Fn).ignore_then(list(Tok::LParen, ty, Tok::RParen)))?;
    let result = result(inp)?.map(Box::new);
    Ok(TypeKind::Fn { params, result })
}

/// Parses an optional `-> type`.
pub(crate) fn result(inp: &mut Input<'_, '_>) -> Parsed<Option<Type>> {
    match eat(inp, Tok::Arrow) {
        Some(_) => Ok(Some(ty(inp)?)),
        None => Ok(None),
    }
}

/// Parses an optional `: type`.
pub(crate) fn annotation(inp: &mut Input<'_, '_>) -> Parsed<Option<Type>> {
    match eat(inp, Tok::Colon) {
        Some(_) => Ok(Some(ty(inp)?)),
        None => Ok(None),
    }
}

/// Parses an optional `<T: Float, const N: i32 = 4>`.
pub(crate) fn generics(inp: &mut Input<'_, '_>) -> Parsed<Vec<Generic>> {
    match peek(inp) {
        Tok::Lt => inp.parse(list(Tok::Lt, generic, Tok::Gt)),
        _ => {
            eat(inp, Tok::Lt);
            Ok(Vec::new())
        }
    }
}

fn generic(inp: &mut Input<'_, '_>) -> Parsed<Generic> {
    let start = here(inp);
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

/// Parses an optional `= value`; comparisons need parentheses here because `>` closes the list.
fn default(inp: &mut Input<'_, '_>) -> Parsed<Option<crate::syntax::ast::Expr>> {
    match eat(inp, Tok::Assign) {
        Some(_) => Ok(Some(above_comparison(inp)?)),
        None => Ok(None),
    }
}

/// Parses `(x: f32, k: f32 = 2.0, out r: [f32; N])`.
pub(crate) fn params(inp: &mut Input<'_, '_>) -> Parsed<Vec<Param>> {
    inp.parse(list(Tok::LParen, param, Tok::RParen))
}

fn param(inp: &mut Input<'_, '_>) -> Parsed<Param> {
    let start = here(inp);
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
