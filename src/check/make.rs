//! Constructors and predicates for small trees and message fragments, shared by the modules of the checker.

use crate::base::source::Span;
use crate::check::typed::{Expr, ExprKind, Type};
use crate::lang::ops::UnaryOp;
use crate::lang::scalar::Scalar;
use crate::syntax::ast::{self, ExprKind as Ast};

pub(crate) const BOOL: Type = Type::Scalar(Scalar::Bool);
pub(crate) const I32: Type = Type::Scalar(Scalar::I32);
pub(crate) const F32: Type = Type::Scalar(Scalar::F32);

pub(crate) fn make(kind: ExprKind, ty: Type, span: Span) -> Expr {
    Expr { kind, ty, span }
}

/// Strips parentheses from an expression.
pub(crate) fn bare(e: &ast::Expr) -> &ast::Expr {
    let mut e = e;
    while let Ast::Paren(inner) = &e.kind {
        e = inner;
    }
    e
}

/// Whether an expression is a number without a suffix, perhaps negated, so that its type is still open.
pub(crate) fn is_literal(e: &ast::Expr) -> bool {
    match &bare(e).kind {
        Ast::Int { suffix, .. } | Ast::Float { suffix, .. } => suffix.is_none(),
        Ast::Unary { op: UnaryOp::Neg, expr, .. } => is_literal(expr),
        _ => false,
    }
}

/// Whether a type is a string or an array of strings.
pub(crate) fn is_text(ty: &Type) -> bool {
    matches!(ty, Type::Str | Type::Strings)
}

/// Formats a count with its noun: `1 index`, `2 indices`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
