//! The choices that a kernel's `tune` clause leaves: values of compile-time constants that meet the conditions of `assume`.
//!
//! Input is a checked kernel, output lists of values in the order of the clause. Conditions that depend on sizes or parameters are
//! left to the launch.

use crate::check::eval::{self, Scope};
use crate::check::typed::*;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::promise;
use crate::lang::scalar::{Scalar, Value};

/// A value for each constant of a `tune` clause, in its order.
pub type Choice = Vec<Value>;

/// How many combinations of values a clause may have.
pub(crate) const MOST: usize = 512;

/// Returns the number of combinations.
pub(crate) fn count(tunes: &[Tunable]) -> usize {
    tunes.iter().fold(1, |count: usize, tunable| count.saturating_mul(tunable.values.len()))
}

/// Returns the combinations that no condition of compile-time constants alone excludes; the last constant varies fastest.
pub fn admissible(program: &Program, kernel: &Kernel) -> Vec<Choice> {
    meeting(program, &kernel.tunes, &kernel.assumes)
}

/// As [`admissible`], for a kernel that is still being checked.
pub(super) fn meeting(program: &Program, tunes: &[Tunable], assumes: &[Assume]) -> Vec<Choice> {
    if tunes.is_empty() || count(tunes) > MOST {
        return vec![];
    }
    let mut all: Vec<Choice> = vec![vec![]];
    for tunable in tunes {
        let longer = |choice: &Choice| {
            let choice = choice.clone();
            tunable.values.iter().map(move |value| choice.iter().copied().chain([*value]).collect())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|choice| broken(program, tunes, assumes, choice).is_none());
    all
}

/// Returns the first condition that does not hold with a choice, whatever the sizes.
pub(super) fn broken<'a>(
    program: &Program,
    tunes: &[Tunable],
    assumes: &'a [Assume],
    choice: &[Value],
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
pub(super) fn default_of(program: &Program, sig: &Signature, param: u32) -> Option<Value> {
    match &sig.generics.get(param as usize)?.kind {
        GenericKind::Const { ty: Type::Scalar(ty), default: Some(default) } => value(program, default, *ty),
        _ => None,
    }
}

/// Evaluates a constant expression of an integer type or of `bool`.
pub(super) fn value(program: &Program, e: &Expr, ty: Scalar) -> Option<Value> {
    match &e.kind {
        ExprKind::Bool(truth) => Some(Value::of(*truth)),
        ExprKind::Const(id) if ty == Scalar::Bool => value(program, &program.consts.get(*id)?.value, ty),
        _ => Value::from_integer(ty, eval::constant(program, e)?),
    }
}

/// Returns whether a condition holds, if the constants alone decide it.
fn holds(program: &Program, e: &Expr, given: &dyn std::ops::Fn(u32) -> Option<Value>) -> Option<bool> {
    let sub = |e: &Expr| holds(program, e, given);
    match &e.kind {
        ExprKind::Bool(truth) => Some(*truth),
        ExprKind::ConstParam(i) => given(*i).map(Value::is_true),
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
            let scope = Scope {
                program,
                dim: &|_| None,
                const_param: &|i| i64::try_from(given(i)?.as_integer()?).ok(),
                local: &|_| None,
                global: &|_| None,
            };
            let side = |e: &Expr| eval::eval(&scope, e, 0);
            Some(promise::compares(*op, side(left)?, side(right)?))
        }
        _ => None,
    }
}

/// Writes a value as in a program, without a suffix.
pub fn text(value: Value) -> String {
    match value.as_integer() {
        Some(integer) if value.ty != Scalar::Bool => integer.to_string(),
        _ => value.is_true().to_string(),
    }
}
