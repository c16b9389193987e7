//! Constructors and predicates for small trees and message fragments, shared by the modules of the checker.

use crate::typed::{Expr, ExprKind, Type};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::ops::UnaryOp;
use clk_syntax::ast::{self, ExprKind as Ast};

pub(crate) const BOOL: Type = Type::Scalar(Scalar::Bool);
pub(crate) const I32: Type = Type::Scalar(Scalar::I32);
pub(crate) const F32: Type = Type::Scalar(Scalar::F32);

pub(crate) fn make(kind: ExprKind, ty: Type, span: Span) -> Expr {
    Expr { kind, ty, span }
}

pub(crate) use clk_syntax::ast::bare;

/// Returns whether an expression is a number without a suffix, possibly negated. The context determines the type of
/// such a number.
pub(crate) fn is_literal(e: &ast::Expr) -> bool {
    match &bare(e).kind {
        Ast::Int { suffix, .. } | Ast::Float { suffix, .. } => suffix.is_none(),
        Ast::Unary { op: UnaryOp::Neg, expr, .. } => is_literal(expr),
        _ => false,
    }
}

/// Returns whether a type is a string or an array of strings.
pub(crate) fn is_text(ty: &Type) -> bool {
    matches!(ty, Type::Str | Type::Strings)
}

/// Formats a count with its noun: `1 index`, `2 indices`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
