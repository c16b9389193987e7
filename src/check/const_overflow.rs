//! Evaluates constant integer expressions in the arithmetic of their types, to report overflow at compile time.

use crate::const_eval;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_scalar::Scalar;
use clk_scalar::exact::{exact, is_representable};
use clk_scalar::fault_help::overflow_help;
use clk_scalar::ops::{BinaryOp, UnaryOp};

/// Evaluates an expression of literals and constants. Returns `None` for other expressions and for values out of range.
fn value(program: &Program, e: &Expr) -> Option<i128> {
    let Type::Scalar(ty) = e.ty else { return None };
    if ty.is_int() { const_eval::constant(program, e).filter(|value| is_representable(ty, *value)) } else { None }
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
            (!is_representable(ty, -a)).then(|| too_large(e, &format!("-({a})"), Some(-a), ty))
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
            let result = exact(*op, a, b);
            let is_checked =
                matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow);
            // Division by zero has its own diagnostic.
            if !is_checked
                || (*op == BinaryOp::Div && b == 0)
                || result.is_some_and(|result| is_representable(ty, result))
            {
                return None;
            }
            let in_parentheses = |n: i128| if n < 0 { format!("({n})") } else { n.to_string() };
            if *op == BinaryOp::Pow && b < 0 {
                return Some(fractional_power(e, left, a, b, ty));
            }
            Some(too_large(e, &format!("{} {} {}", in_parentheses(a), op.symbol(), in_parentheses(b)), result, ty))
        }
        _ => None,
    }
}

/// Returns the diagnostic for an integer power with a negative exponent.
fn fractional_power(e: &Expr, base: &Expr, a: i128, b: i128, ty: Scalar) -> Diagnostic {
    let shown = if a < 0 { format!("({a})") } else { a.to_string() };
    let d = Diagnostic::error("E0328", format!("{shown} ** ({b}) is a fraction, which `{ty}` cannot represent"))
        .at(e.span, "a power of integers is an integer");
    match base.kind {
        ExprKind::Int(_) if a >= 0 => {
            d.fix(format!("write `{a}.0`"), base.span, format!("{a}.0"), Applicability::MaybeIncorrect)
        }
        _ => d.help("compute it with floats: `f32(x) ** -1.0`"),
    }
}

fn too_large(e: &Expr, operation: &str, result: Option<i128>, ty: Scalar) -> Diagnostic {
    let label = match result {
        Some(result) => format!("this is {result}"),
        None => format!("no integer of any type is {operation}"),
    };
    Diagnostic::error("E0328", format!("{operation} does not fit `{ty}`"))
        .at(e.span, label)
        .help(overflow_help(operation, ty))
}
