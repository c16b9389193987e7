//! The configurations of a kernel with `tune` clauses. A configuration has a value for each tuned compile-time
//! constant, and the values satisfy the `assume` conditions.
//!
//! Input is a checked kernel, output lists of values in the order of the clause. Conditions that depend on array sizes
//! or parameters are tested at each launch.

use crate::const_eval::{self, EvalScope};
use crate::typed::*;
use clk_scalar::array_assumption;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

/// A value for each tuned constant, in the order of the `tune` clauses.
pub type TuneConfig = Vec<ScalarValue>;

/// The maximum number of combinations of the values of a kernel's tuned constants.
pub(crate) const MOST: usize = 512;

/// Returns the number of combinations.
pub(crate) fn count(tunes: &[Tunable]) -> usize {
    tunes.iter().fold(1, |count: usize, tunable| count.saturating_mul(tunable.values.len()))
}

/// Returns the combinations that satisfy all conditions which depend on compile-time constants only. The value of the
/// last constant changes fastest.
pub fn admissible(program: &Program, kernel: &Kernel) -> Vec<TuneConfig> {
    configs_meeting(program, &kernel.tunes, &kernel.assumes)
}

/// Like [`admissible`], for a kernel that is still being checked.
pub(super) fn configs_meeting(program: &Program, tunes: &[Tunable], assumes: &[Assume]) -> Vec<TuneConfig> {
    if tunes.is_empty() || count(tunes) > MOST {
        return vec![];
    }
    let mut all: Vec<TuneConfig> = vec![vec![]];
    for tunable in tunes {
        let longer = |choice: &TuneConfig| {
            let choice = choice.clone();
            tunable.values.iter().map(move |value| choice.iter().copied().chain([*value]).collect())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|choice| violated_assumption(program, tunes, assumes, choice).is_none());
    all
}

/// Returns the first condition that a configuration violates for all array sizes.
pub(super) fn violated_assumption<'a>(
    program: &Program,
    tunes: &[Tunable],
    assumes: &'a [Assume],
    choice: &[ScalarValue],
) -> Option<&'a Assume> {
    let value = |param: u32| {
        let at = tunes.iter().position(|tunable| tunable.param == param)?;
        choice.get(at).copied()
    };
    assumes.iter().find(|assume| match &assume.kind {
        AssumeKind::Condition(condition) => holds(program, condition, &value) == Some(false),
        AssumeKind::Array { .. } => false,
    })
}

/// Returns the default of a compile-time constant.
pub(super) fn default_of(program: &Program, sig: &Signature, param: u32) -> Option<ScalarValue> {
    match &sig.generics.get(param as usize)?.kind {
        GenericKind::Const { ty: Type::Scalar(ty), default: Some(default) } => value(program, default, *ty),
        _ => None,
    }
}

/// Evaluates a constant expression of an integer type or of `bool`.
pub(super) fn value(program: &Program, e: &Expr, ty: Scalar) -> Option<ScalarValue> {
    match &e.kind {
        ExprKind::Bool(truth) => Some(ScalarValue::of(*truth)),
        ExprKind::Const(id) if ty == Scalar::Bool => value(program, &program.consts.get(*id)?.value, ty),
        _ => ScalarValue::from_integer(ty, const_eval::constant(program, e)?),
    }
}

/// Evaluates a condition. Returns `None` if it depends on other values than compile-time constants.
fn holds(program: &Program, e: &Expr, given: &dyn std::ops::Fn(u32) -> Option<ScalarValue>) -> Option<bool> {
    let sub = |e: &Expr| holds(program, e, given);
    match &e.kind {
        ExprKind::Bool(truth) => Some(*truth),
        ExprKind::ConstParam(i) => given(*i).map(ScalarValue::is_true),
        ExprKind::Unary { op: UnaryOp::Not, expr } => sub(expr).map(|truth| !truth),
        ExprKind::Binary { op: BinaryOp::And, left, right } => match (sub(left), sub(right)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        ExprKind::Binary { op: BinaryOp::Or, left, right } => match (sub(left), sub(right)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        ExprKind::Binary { op, left, right } if op.is_comparison() => {
            let scope = EvalScope {
                program,
                dim: &|_| None,
                const_param: &|i| i64::try_from(given(i)?.as_integer()?).ok(),
                local: &|_| None,
                global: &|_| None,
            };
            let side = |e: &Expr| const_eval::eval(&scope, e, 0);
            Some(array_assumption::evaluate_comparison(*op, side(left)?, side(right)?))
        }
        _ => None,
    }
}

/// Formats a value as in a program, without a suffix.
pub fn text(value: ScalarValue) -> String {
    match value.as_integer() {
        Some(integer) if value.ty != Scalar::Bool => integer.to_string(),
        _ => value.is_true().to_string(),
    }
}
