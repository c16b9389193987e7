//! Compile-time evaluation of integers: dimensions, literal arguments, indices.

use crate::check::cx::Cx;
use crate::check::typed::*;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::exact;

/// Values of the names that an evaluation may refer to, besides the program's constants.
pub(crate) struct Scope<'s> {
    pub program: &'s Program,
    pub dim: &'s dyn std::ops::Fn(u32) -> Option<i64>,
    pub const_param: &'s dyn std::ops::Fn(u32) -> Option<i64>,
    pub local: &'s dyn std::ops::Fn(LocalId) -> Option<i64>,
    pub global: &'s dyn std::ops::Fn(GlobalId) -> Option<i64>,
}

/// Evaluates an expression of a body, if its integer value is known.
pub(crate) fn int(cx: &Cx<'_>, e: &Expr) -> Option<i64> {
    let first = cx.program.globals.len();
    let scope = Scope {
        program: cx.program,
        dim: &|_| None,
        const_param: &|_| None,
        local: &|id| cx.info.get(id.index())?.known,
        global: &|id| cx.global_info.get(id.index().checked_sub(first)?)?.known,
    };
    eval(&scope, e, 0)
}

/// Evaluates the expression of a constant from the constants it uses whose values are already known.
pub(crate) fn constant(program: &Program, e: &Expr) -> Option<i64> {
    let scope = Scope { program, dim: &|_| None, const_param: &|_| None, local: &|_| None, global: &|_| None };
    eval(&scope, e, 0)
}

pub(crate) fn eval(scope: &Scope<'_>, e: &Expr, depth: u32) -> Option<i64> {
    if depth > 100 {
        return None;
    }
    let sub = |e: &Expr| eval(scope, e, depth + 1);
    match &e.kind {
        ExprKind::Int(v) => i64::try_from(*v).ok(),
        ExprKind::Const(id) => scope.program.consts.get(*id)?.known,
        ExprKind::ConstParam(i) => (scope.const_param)(*i),
        ExprKind::Dim(i) => (scope.dim)(*i),
        ExprKind::Local(id) => (scope.local)(*id),
        ExprKind::Global(id) => (scope.global)(*id),
        ExprKind::Unary { op: UnaryOp::Neg, expr } => sub(expr)?.checked_neg(),
        ExprKind::Binary { op, left, right } => binary(*op, sub(left)?, sub(right)?).filter(|&n| in_range(e, n)),
        ExprKind::Builtin { builtin, args, .. } => {
            let values: Option<Vec<i64>> = args.iter().map(sub).collect();
            builtin_value(*builtin, &values?)
        }
        ExprKind::Convert { to, expr } if to.is_int() => i64::try_from(exact::wrapped(*to, sub(expr)?.into())).ok(),
        _ => None,
    }
}

/// Whether the result fits the expression's type, so that it equals the run-time result.
fn in_range(e: &Expr, n: i64) -> bool {
    match e.ty {
        Type::Scalar(ty) if ty.is_int() => exact::holds(ty, n.into()),
        _ => true,
    }
}

fn binary(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::Pow => a.checked_pow(u32::try_from(b).ok()?),
        BinaryOp::Shl => (0..63).contains(&b).then(|| a.checked_mul(1i64 << b)).flatten(),
        BinaryOp::Shr => (0..63).contains(&b).then(|| a >> b),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitOr => Some(a | b),
        BinaryOp::BitXor => Some(a ^ b),
        _ => None,
    }
}

fn builtin_value(builtin: Builtin, v: &[i64]) -> Option<i64> {
    match (builtin, v) {
        (Builtin::CeilDiv, [a, b]) if *b > 0 => Some(a.div_euclid(*b) + i64::from(a.rem_euclid(*b) != 0)),
        (Builtin::Math(MathFn::Min), [a, b]) => Some(*a.min(b)),
        (Builtin::Math(MathFn::Max), [a, b]) => Some(*a.max(b)),
        (Builtin::Math(MathFn::Abs), [a]) => a.checked_abs(),
        _ => None,
    }
}
