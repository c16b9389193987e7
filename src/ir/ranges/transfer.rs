//! The transfer functions of range analysis: operations on intervals.

use super::value_bounds::ValueBounds;
use crate::def::{BinOp, ExprId, ExprKind, Function};
use clk_scalar::Scalar;
use clk_scalar::exact::limits;
use clk_scalar::ops::MathFn;

/// Returns the bounds of the mathematical result of an operation, which may exceed the type's range; `None` if nothing
/// is known about it.
pub(crate) fn binary(op: BinOp, a: &ValueBounds, b: &ValueBounds, scalar: Scalar) -> Option<ValueBounds> {
    use BinOp::*;
    Some(match op {
        Add => sum(a, b),
        Sub => difference(a, b),
        Mul => product(a, b),
        Div => quotient(a, b)?,
        Rem => remainder(a, b)?,
        And => and(a, b)?,
        Or | Xor if a.low >= 0 && b.low >= 0 => ValueBounds::new(0, ones(a.high.max(b.high))),
        Shl => left_shift(a, b, scalar)?,
        Shr => right_shift(a, b, scalar)?,
        Or | Xor | Pow | Eq | Ne | Lt | Le | Gt | Ge => return None,
    })
}

fn sum(a: &ValueBounds, b: &ValueBounds) -> ValueBounds {
    let mut fact = ValueBounds::new(a.low + b.low, a.high + b.high);
    a.upper_bounds.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus + b.high));
    b.upper_bounds.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus + a.high));
    fact
}

fn difference(a: &ValueBounds, b: &ValueBounds) -> ValueBounds {
    let mut fact = ValueBounds::new(a.low - b.high, a.high - b.low);
    a.upper_bounds.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus - b.low));
    fact
}

fn product(a: &ValueBounds, b: &ValueBounds) -> ValueBounds {
    let corners = [a.low, a.high].map(|x| [b.low, b.high].map(|y| x.saturating_mul(y)));
    let all = corners.as_flattened();
    let (low, high) = all.iter().fold((all[0], all[0]), |(low, high), &x| (low.min(x), high.max(x)));
    let mut fact = ValueBounds::new(low, high);
    fact.nonzero |= a.nonzero && b.nonzero && low >= i128::from(i32::MIN) && high <= i128::from(i32::MAX);
    if (b.low, b.high) == (1, 1) {
        fact.upper_bounds = a.upper_bounds.clone();
    }
    fact
}

/// Returns the bounds of a nonnegative divisor without zero; `None` if it may be negative.
fn positive(b: &ValueBounds) -> Option<ValueBounds> {
    (b.low >= 0 && b.high > 0).then(|| ValueBounds { low: b.low.max(1), ..b.clone() })
}

fn quotient(a: &ValueBounds, b: &ValueBounds) -> Option<ValueBounds> {
    let b = &positive(b)?;
    let low = if a.low >= 0 { a.low / b.high } else { a.low / b.low };
    let high = if a.high >= 0 { a.high / b.low } else { a.high / b.high };
    let mut fact = ValueBounds::new(low, high);
    if a.low >= 0 {
        fact.upper_bounds = a.upper_bounds.clone();
    }
    Some(fact)
}

fn remainder(a: &ValueBounds, b: &ValueBounds) -> Option<ValueBounds> {
    let b = &positive(b)?;
    let low = if a.low >= 0 { 0 } else { (1 - b.high).max(a.low) };
    let mut fact = ValueBounds::new(low, (b.high - 1).min(a.high.max(0)));
    b.upper_bounds.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus - 1));
    if a.low >= 0 {
        a.upper_bounds.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus));
    }
    Some(fact)
}

fn and(a: &ValueBounds, b: &ValueBounds) -> Option<ValueBounds> {
    let mut fact = match (a.low >= 0, b.low >= 0) {
        (true, true) => ValueBounds::new(0, a.high.min(b.high)),
        (true, false) => ValueBounds::new(0, a.high),
        (false, true) => ValueBounds::new(0, b.high),
        (false, false) => return None,
    };
    for side in [a, b].into_iter().filter(|side| side.low >= 0) {
        side.upper_bounds.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus));
    }
    Some(fact)
}

/// Returns the smallest number of the form 2^k - 1 that is at least `n`.
fn ones(n: i128) -> i128 {
    ((n + 1) as u128).next_power_of_two() as i128 - 1
}

/// Handles only shift amounts that are less than the width of the type. Larger amounts are reduced modulo the width; no
/// bounds are computed for them.
fn left_shift(a: &ValueBounds, b: &ValueBounds, scalar: Scalar) -> Option<ValueBounds> {
    let is_in_range = b.low >= 0 && b.high < i128::from(scalar.bits());
    let by = |n: i128| ValueBounds::new(1 << n, 1 << n);
    is_in_range.then(|| product(a, &by(b.low).join(&by(b.high))))
}

fn right_shift(a: &ValueBounds, b: &ValueBounds, scalar: Scalar) -> Option<ValueBounds> {
    let is_in_range = b.low >= 0 && b.high < i128::from(scalar.bits());
    if !is_in_range {
        return (a.low >= 0).then(|| ValueBounds { nonzero: false, ..ValueBounds::new(0, a.high) });
    }
    let low = if a.low >= 0 { a.low >> b.high } else { a.low >> b.low };
    let high = if a.high >= 0 { a.high >> b.low } else { a.high >> b.high };
    let mut fact = ValueBounds::new(low, high);
    if a.low >= 0 {
        fact.upper_bounds = a.upper_bounds.clone();
    }
    Some(fact)
}

pub(crate) fn math(function: MathFn, args: &[ValueBounds], scalar: Scalar) -> Option<ValueBounds> {
    let bits = i128::from(scalar.bits());
    Some(match (function, args) {
        (MathFn::Min, [a, b]) => min(a, b),
        (MathFn::Max, [a, b]) => max(a, b),
        (MathFn::Clamp, [x, low, high]) => min(&max(x, low), high),
        (MathFn::Abs, [x]) if x.low > limits(scalar).0 || !scalar.is_signed() => {
            let high = x.high.max(-x.low);
            ValueBounds::new(if x.low > 0 { x.low } else { 0.max(-x.high) }, high)
        }
        (MathFn::Sign, [x]) => ValueBounds::new(x.low.signum(), x.high.signum()),
        (MathFn::Popcount | MathFn::Clz | MathFn::Ctz, _) => ValueBounds::new(0, bits),
        (MathFn::WrappingAdd, [a, b]) => binary(BinOp::Add, a, b, scalar)?,
        (MathFn::WrappingSub, [a, b]) => binary(BinOp::Sub, a, b, scalar)?,
        (MathFn::WrappingMul, [a, b]) => binary(BinOp::Mul, a, b, scalar)?,
        _ => return None,
    })
}

fn min(a: &ValueBounds, b: &ValueBounds) -> ValueBounds {
    let mut fact = ValueBounds::new(a.low.min(b.low), a.high.min(b.high));
    for &(symbol, plus) in a.upper_bounds.iter().chain(&b.upper_bounds) {
        fact = fact.with(symbol, plus);
    }
    fact.nonzero |= a.nonzero && b.nonzero;
    fact
}

fn max(a: &ValueBounds, b: &ValueBounds) -> ValueBounds {
    let joined = a.join(b);
    ValueBounds { low: a.low.max(b.low), ..joined }.intersect(&ValueBounds::new(a.low.max(b.low), a.high.max(b.high)))
}

/// Matches `ceil_div(value, by)` with a positive `by`: a quotient, plus one if the division has a remainder.
pub(crate) fn match_ceil_div(function: &Function, op: BinOp, quotient: ExprId, rest: ExprId) -> Option<(ExprId, i128)> {
    use ExprKind::{Binary, Const, Convert};
    let kind = |id: ExprId| &function.exprs[id].kind;
    let number = |id: ExprId| if let Const(bits) = kind(id) { Some(i128::from(*bits)) } else { None };
    let (value, by) = match (op, kind(quotient)) {
        (BinOp::Add, Binary { op: BinOp::Div, left, right }) => (*left, number(*right)?),
        (BinOp::Add, Binary { op: BinOp::Shr, left, right }) => (*left, 1 << number(*right).filter(|&by| by < 31)?),
        _ => return None,
    };
    let Convert(differs) = kind(rest) else { return None };
    let Binary { op: BinOp::Ne, left: back, right } = kind(*differs) else { return None };
    let Binary { op: BinOp::Mul, left, right: times } = kind(*back) else { return None };
    let matches_quotient = *left == quotient && number(*times) == Some(by) && *right == value;
    (matches_quotient && (1..1 << 31).contains(&by)).then_some((value, by))
}

/// Returns the bounds of `ceil_div(value, by)`. For negative values, the bounds are coarse.
pub(super) fn ceil_div(value: &ValueBounds, by: i128) -> ValueBounds {
    match value.low {
        low if low >= 0 => ValueBounds::new((low + by - 1) / by, (value.high + by - 1) / by),
        _ => ValueBounds::new(value.low, value.high.max(0) / by + 1),
    }
}
