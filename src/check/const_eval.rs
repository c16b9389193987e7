//! Compile-time evaluation of integers: dimensions, literal arguments, indices.

use crate::context::Cx;
use crate::typed::*;
use clk_scalar::builtin::Builtin;
use clk_scalar::exact;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

/// Returns the number of integers from `start` (inclusive) to `stop` (exclusive) in steps of `step`; `None` if `step`
/// is 0.
pub(super) fn count(start: i64, stop: i64, step: i64) -> Option<i64> {
    let (start, stop, step) = (i128::from(start), i128::from(stop), i128::from(step));
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = (distance.max(0) + step.abs() - 1).checked_div(step.abs())?;
    i64::try_from(count).ok()
}

/// Values of the names that an evaluation may refer to, besides the program's constants.
pub(crate) struct EvalScope<'s> {
    pub program: &'s Program,
    pub dim: &'s dyn std::ops::Fn(u32) -> Option<i64>,
    pub const_param: &'s dyn std::ops::Fn(u32) -> Option<i64>,
    pub local: &'s dyn std::ops::Fn(LocalId) -> Option<i64>,
    pub global: &'s dyn std::ops::Fn(GlobalId) -> Option<i64>,
}

/// Evaluates an expression of a body, if its integer value is known.
pub(crate) fn int(cx: &Cx<'_>, e: &Expr) -> Option<i64> {
    let first = cx.program.globals.len();
    let scope = EvalScope {
        program: cx.program,
        dim: &|_| None,
        const_param: &|_| None,
        local: &|id| cx.info.get(id.index())?.const_value,
        global: &|id| cx.global_info.get(id.index().checked_sub(first)?)?.const_value,
    };
    eval(&scope, e, 0)?.try_into().ok()
}

/// Evaluates the expression of a constant. Takes the values of other constants from [`Const::const_value`].
pub(crate) fn constant(program: &Program, e: &Expr) -> Option<i128> {
    let scope = EvalScope { program, dim: &|_| None, const_param: &|_| None, local: &|_| None, global: &|_| None };
    eval(&scope, e, 0)
}

/// Evaluates an expression in the arithmetic of its type; `None` if the value is not known or does not fit the type.
pub(crate) fn eval(scope: &EvalScope<'_>, e: &Expr, depth: u32) -> Option<i128> {
    if depth > 100 {
        return None;
    }
    let sub = |e: &Expr| eval(scope, e, depth + 1);
    match &e.kind {
        ExprKind::Int(v) => Some(*v),
        ExprKind::Const(id) => scope.program.consts.get(*id)?.const_value,
        ExprKind::ConstParam(i) => (scope.const_param)(*i).map(i128::from),
        ExprKind::Dim(i) => (scope.dim)(*i).map(i128::from),
        ExprKind::Local(id) => (scope.local)(*id).map(i128::from),
        ExprKind::Global(id) => (scope.global)(*id).map(i128::from),
        ExprKind::Unary { op: UnaryOp::Neg, expr } => fitting(e, sub(expr)?.checked_neg()?),
        ExprKind::Binary { op, left, right } => fitting(e, binary(*op, sub(left)?, sub(right)?)?),
        ExprKind::Builtin { builtin, args, .. } => {
            let values: Option<Vec<i128>> = args.iter().map(sub).collect();
            fitting(e, builtin_value(*builtin, &values?)?)
        }
        ExprKind::Convert { to, expr } if to.is_int() => Some(exact::wrap(*to, sub(expr)?)),
        _ => None,
    }
}

/// Converts an exact result to the type of `e`. Wraps for unsigned types. Returns `None` if the result does not fit a
/// signed type.
fn fitting(e: &Expr, exact: i128) -> Option<i128> {
    match e.ty {
        Type::Scalar(ty) if ty.is_unsigned() => Some(exact::wrap(ty, exact)),
        Type::Scalar(ty) if ty.is_int() => exact::is_representable(ty, exact).then_some(exact),
        _ => Some(exact),
    }
}

fn binary(op: BinaryOp, a: i128, b: i128) -> Option<i128> {
    match op {
        BinaryOp::Shl => (0..63).contains(&b).then(|| a.checked_mul(1i128 << b)).flatten(),
        BinaryOp::Shr => (0..63).contains(&b).then(|| a >> b),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitOr => Some(a | b),
        BinaryOp::BitXor => Some(a ^ b),
        _ => exact::exact(op, a, b),
    }
}

fn builtin_value(builtin: Builtin, v: &[i128]) -> Option<i128> {
    match (builtin, v) {
        (Builtin::CeilDiv, [a, b]) if *b > 0 => Some(a.div_euclid(*b) + i128::from(a.rem_euclid(*b) != 0)),
        (Builtin::Math(MathFn::Min), [a, b]) => Some(*a.min(b)),
        (Builtin::Math(MathFn::Max), [a, b]) => Some(*a.max(b)),
        (Builtin::Math(MathFn::Abs), [a]) => a.checked_abs(),
        _ => None,
    }
}
