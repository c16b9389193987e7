//! Evaluates constant integer expressions in the arithmetic of their types, to report overflow at compile time.

use crate::base::diag::Diagnostic;
use crate::check::eval;
use crate::check::typed::*;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::lang::scalar::exact::{exact, holds};

/// Evaluates an expression of literals and constants; none for anything else, and for values out of range.
fn value(program: &Program, e: &Expr) -> Option<i128> {
    let Type::Scalar(ty) = e.ty else { return None };
    if ty.is_int() { eval::constant(program, e).filter(|value| holds(ty, *value)) } else { None }
}

/// Returns the diagnostic for an operation on constants whose result does not fit its type.
pub(crate) fn overflow(program: &Program, e: &Expr) -> Option<Diagnostic> {
    let Type::Scalar(ty) = e.ty else { return None };
    if !ty.is_int() || !ty.is_signed() && !matches!(e.kind, ExprKind::Binary { op: BinaryOp::Shl | BinaryOp::Shr, .. })
    {
        return None;
    }
    match &e.kind {
        ExprKind::Unary { op: UnaryOp::Neg, expr } => {
            let a = value(program, expr)?;
            (!holds(ty, -a)).then(|| too_large(e, &format!("-({a})"), Some(-a), ty))
        }
        ExprKind::Binary { op: BinaryOp::Shl | BinaryOp::Shr, right, .. } => {
            let amount = value(program, right)?;
            (!(0..i128::from(ty.bits())).contains(&amount)).then(|| {
                Diagnostic::error("E0328", format!("a shift of `{ty}` by {amount}"))
                    .at(e.span, format!("`{ty}` has {} bits", ty.bits()))
                    .note(format!("the amount counts modulo {}", ty.bits()))
            })
        }
        ExprKind::Binary { op, left, right } => {
            let (a, b) = (value(program, left)?, value(program, right)?);
            let found = exact(*op, a, b);
            let known = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow);
            // Division by zero has its own diagnostic.
            if !known || (*op == BinaryOp::Div && b == 0) || found.is_some_and(|found| holds(ty, found)) {
                return None;
            }
            let shown = |n: i128| if n < 0 { format!("({n})") } else { n.to_string() };
            Some(too_large(e, &format!("{} {} {}", shown(a), op.symbol(), shown(b)), found, ty))
        }
        _ => None,
    }
}

fn too_large(e: &Expr, operation: &str, found: Option<i128>, ty: Scalar) -> Diagnostic {
    let label = match found {
        Some(found) => format!("this is {found}"),
        None => format!("no integer of any type is {operation}"),
    };
    Diagnostic::error("E0328", format!("{operation} does not fit `{ty}`"))
        .at(e.span, label)
        .help("compute in a type that is wide enough, `i64` or `f64`: a suffix on one of the numbers says so")
        .note("where wrapping is meant, `wrapping_add` and its kin say so")
}
