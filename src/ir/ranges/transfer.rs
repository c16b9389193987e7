//! Transfer functions: operations on intervals.

use super::fact::{Fact, type_range};
use crate::ir::def::{BinOp, ExprId, ExprKind, Function};
use crate::lang::ops::MathFn;
use crate::lang::scalar::Scalar;

/// Returns the exact result of an operation before it wraps; `None` where only the type's range is known.
pub(crate) fn binary(op: BinOp, a: &Fact, b: &Fact, scalar: Scalar) -> Option<Fact> {
    use BinOp::*;
    Some(match op {
        Add => sum(a, b),
        Sub => difference(a, b),
        Mul => product(a, b),
        Div => quotient(a, b)?,
        Rem => remainder(a, b)?,
        And => and(a, b)?,
        Or | Xor if a.low >= 0 && b.low >= 0 => Fact::of(0, ones(a.high.max(b.high))),
        Shl => left_shift(a, b, scalar)?,
        Shr => right_shift(a, b, scalar)?,
        Or | Xor | Pow | Eq | Ne | Lt | Le | Gt | Ge => return None,
    })
}

fn sum(a: &Fact, b: &Fact) -> Fact {
    let mut fact = Fact::of(a.low + b.low, a.high + b.high);
    a.below.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus + b.high));
    b.below.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus + a.high));
    fact
}

fn difference(a: &Fact, b: &Fact) -> Fact {
    let mut fact = Fact::of(a.low - b.high, a.high - b.low);
    a.below.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus - b.low));
    fact
}

fn product(a: &Fact, b: &Fact) -> Fact {
    let corners = [a.low, a.high].map(|x| [b.low, b.high].map(|y| x.saturating_mul(y)));
    let all = corners.as_flattened();
    let (low, high) = all.iter().fold((all[0], all[0]), |(low, high), &x| (low.min(x), high.max(x)));
    let mut fact = Fact::of(low, high);
    fact.nonzero |= a.nonzero && b.nonzero && low >= i128::from(i32::MIN) && high <= i128::from(i32::MAX);
    if (b.low, b.high) == (1, 1) {
        fact.below = a.below.clone();
    }
    fact
}

/// Returns a divisor that is not negative, without zero.
fn positive(b: &Fact) -> Option<Fact> {
    (b.low >= 0 && b.high > 0).then(|| Fact { low: b.low.max(1), ..b.clone() })
}

fn quotient(a: &Fact, b: &Fact) -> Option<Fact> {
    let b = &positive(b)?;
    let low = if a.low >= 0 { a.low / b.high } else { a.low / b.low };
    let high = if a.high >= 0 { a.high / b.low } else { a.high / b.high };
    let mut fact = Fact::of(low, high);
    if a.low >= 0 {
        fact.below = a.below.clone();
    }
    Some(fact)
}

fn remainder(a: &Fact, b: &Fact) -> Option<Fact> {
    let b = &positive(b)?;
    let low = if a.low >= 0 { 0 } else { (1 - b.high).max(a.low) };
    let mut fact = Fact::of(low, (b.high - 1).min(a.high.max(0)));
    b.below.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus - 1));
    if a.low >= 0 {
        a.below.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus));
    }
    Some(fact)
}

fn and(a: &Fact, b: &Fact) -> Option<Fact> {
    let mut fact = match (a.low >= 0, b.low >= 0) {
        (true, true) => Fact::of(0, a.high.min(b.high)),
        (true, false) => Fact::of(0, a.high),
        (false, true) => Fact::of(0, b.high),
        (false, false) => return None,
    };
    for side in [a, b].into_iter().filter(|side| side.low >= 0) {
        side.below.iter().for_each(|&(symbol, plus)| fact = fact.clone().with(symbol, plus));
    }
    Some(fact)
}

/// Returns the smallest number of the form 2^k - 1 that is at least `n`.
fn ones(n: i128) -> i128 {
    ((n + 1) as u128).next_power_of_two() as i128 - 1
}

/// Handles amounts within the width only: others are taken modulo it.
fn left_shift(a: &Fact, b: &Fact, scalar: Scalar) -> Option<Fact> {
    let fits = b.low >= 0 && b.high < i128::from(scalar.bits());
    let by = |n: i128| Fact::of(1 << n, 1 << n);
    fits.then(|| product(a, &by(b.low).join(&by(b.high))))
}

fn right_shift(a: &Fact, b: &Fact, scalar: Scalar) -> Option<Fact> {
    let fits = b.low >= 0 && b.high < i128::from(scalar.bits());
    if !fits {
        return (a.low >= 0).then(|| Fact { nonzero: false, ..Fact::of(0, a.high) });
    }
    let low = if a.low >= 0 { a.low >> b.high } else { a.low >> b.low };
    let high = if a.high >= 0 { a.high >> b.low } else { a.high >> b.high };
    let mut fact = Fact::of(low, high);
    if a.low >= 0 {
        fact.below = a.below.clone();
    }
    Some(fact)
}

pub(crate) fn math(function: MathFn, args: &[Fact], scalar: Scalar) -> Option<Fact> {
    let bits = i128::from(scalar.bits());
    Some(match (function, args) {
        (MathFn::Min, [a, b]) => min(a, b),
        (MathFn::Max, [a, b]) => max(a, b),
        (MathFn::Clamp, [x, low, high]) => min(&max(x, low), high),
        (MathFn::Abs, [x]) if x.low > type_range(scalar).0 || !scalar.is_signed() => {
            let high = x.high.max(-x.low);
            Fact::of(if x.low > 0 { x.low } else { 0.max(-x.high) }, high)
        }
        (MathFn::Sign, [x]) => Fact::of(x.low.signum(), x.high.signum()),
        (MathFn::Popcount | MathFn::Clz | MathFn::Ctz, _) => Fact::of(0, bits),
        (MathFn::WrappingAdd, [a, b]) => binary(BinOp::Add, a, b, scalar)?,
        (MathFn::WrappingSub, [a, b]) => binary(BinOp::Sub, a, b, scalar)?,
        (MathFn::WrappingMul, [a, b]) => binary(BinOp::Mul, a, b, scalar)?,
        _ => return None,
    })
}

fn min(a: &Fact, b: &Fact) -> Fact {
    let mut fact = Fact::of(a.low.min(b.low), a.high.min(b.high));
    for &(symbol, plus) in a.below.iter().chain(&b.below) {
        fact = fact.with(symbol, plus);
    }
    fact.nonzero |= a.nonzero && b.nonzero;
    fact
}

fn max(a: &Fact, b: &Fact) -> Fact {
    let joined = a.join(b);
    Fact { low: a.low.max(b.low), ..joined }.meet(&Fact::of(a.low.max(b.low), a.high.max(b.high)))
}

/// Recognizes `ceil_div(value, by)`: a quotient, and one more where it is not exact. `by` is positive.
pub(crate) fn rounded_up(function: &Function, op: BinOp, quotient: ExprId, rest: ExprId) -> Option<(ExprId, i128)> {
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
    let is_own = *left == quotient && number(*times) == Some(by) && *right == value;
    (is_own && (1..1 << 31).contains(&by)).then_some((value, by))
}

/// Returns the fact about a number divided and rounded up; what is negative is not looked at.
pub(super) fn divided_up(value: &Fact, by: i128) -> Fact {
    match value.low {
        low if low >= 0 => Fact::of((low + by - 1) / by, (value.high + by - 1) / by),
        _ => Fact::of(value.low, value.high.max(0) / by + 1),
    }
}
