//! The differentiation rules of the operators and mathematical functions.
//!
//! A rule takes an operation, its operands and its result, and returns the partial derivative with respect to one
//! operand. A [`TermAlgebra`] builds the terms of the derivative: kernel expressions, host arrays, or numbers. Kernels
//! and scripts therefore share the rules and the values at points where a function is not differentiable:
//!
//! - `max` and `min`: 1/2 for both operands if they are equal
//! - `abs` and `sign`: 0 at 0
//! - step functions (`floor`, `round`, …): 0 everywhere
//! - `hypot(0, 0)`: 0
//! - `sqrt` and `cbrt`: infinity at 0

use std::f64::consts::{LN_2, LN_10, PI};

use super::ops::{BinaryOp, MathFn, UnaryOp};

/// Builds the terms of a derivative. All operands are floats of the same type. If they are arrays, the operands of an
/// operation can have different shapes that broadcast.
pub trait TermAlgebra {
    type Value: Clone;
    type Error;

    /// Builds a constant with the type of `like`.
    fn number(&mut self, like: &Self::Value, number: f64) -> Result<Self::Value, Self::Error>;
    fn unary(&mut self, op: UnaryOp, value: &Self::Value) -> Result<Self::Value, Self::Error>;
    fn binary(&mut self, op: BinaryOp, left: &Self::Value, right: &Self::Value) -> Result<Self::Value, Self::Error>;
    fn math(&mut self, function: MathFn, args: &[Self::Value]) -> Result<Self::Value, Self::Error>;
    /// Builds `then` if a comparison is true, else `other`.
    fn select(
        &mut self,
        cond: &Self::Value,
        then: &Self::Value,
        other: &Self::Value,
    ) -> Result<Self::Value, Self::Error>;
}

/// A partial derivative: the factor by which the tangent of an operand is multiplied to obtain its contribution to the
/// tangent of the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Partial<V> {
    Zero,
    One,
    MinusOne,
    Times(V),
}

type PartialResult<T> = Result<Option<Partial<<T as TermAlgebra>::Value>>, <T as TermAlgebra>::Error>;
type TermResult<T> = Result<<T as TermAlgebra>::Value, <T as TermAlgebra>::Error>;

/// Returns the partial derivative of an operator with respect to its left (0) or right (1) operand; `None` if the
/// operator is not differentiable.
pub fn binary_partial<T: TermAlgebra>(
    terms: &mut T,
    op: BinaryOp,
    left: &T::Value,
    right: &T::Value,
    result: &T::Value,
    operand: usize,
) -> PartialResult<T> {
    let partial = match (op, operand) {
        (BinaryOp::Add, _) | (BinaryOp::Sub | BinaryOp::Rem, 0) => Partial::One,
        (BinaryOp::Sub, _) => Partial::MinusOne,
        (BinaryOp::Mul, 0) => Partial::Times(right.clone()),
        (BinaryOp::Mul, _) => Partial::Times(left.clone()),
        (BinaryOp::Div, 0) => Partial::Times(reciprocal(terms, right)?),
        (BinaryOp::Div, _) => {
            let quotient = terms.binary(BinaryOp::Div, result, right)?;
            Partial::Times(terms.unary(UnaryOp::Neg, &quotient)?)
        }
        (BinaryOp::Rem, _) => {
            // `left / right` could be rounded up to the next integer. `left - result` is an exact multiple of `right`,
            // so divide that instead.
            let multiple = terms.binary(BinaryOp::Sub, left, result)?;
            let quotient = terms.binary(BinaryOp::Div, &multiple, right)?;
            let whole = terms.math(MathFn::Round, &[quotient])?;
            Partial::Times(terms.unary(UnaryOp::Neg, &whole)?)
        }
        (BinaryOp::Pow, _) => return power(terms, left, right, result, operand).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(partial))
}

/// Returns whether a function is piecewise constant, so its derivative is 0.
pub fn is_step(function: MathFn) -> bool {
    matches!(function, MathFn::Floor | MathFn::Ceil | MathFn::Round | MathFn::Trunc | MathFn::Sign)
}

/// Returns the partial derivative of a function with respect to an argument; `None` if the function is not
/// differentiable or Clk does not have its derivative.
pub fn math_partial<T: TermAlgebra>(
    terms: &mut T,
    function: MathFn,
    args: &[T::Value],
    result: &T::Value,
    operand: usize,
) -> PartialResult<T> {
    use MathFn::*;
    let x = &args[0];
    if is_step(function) {
        return Ok(Some(Partial::Zero));
    }
    let factor = match function {
        Fract | Tf32 => return Ok(Some(Partial::One)),
        Min | Max => extreme(terms, function, &args[0], &args[1], operand)?,
        Clamp => return clamped(terms, args, operand).map(Some),
        Abs => terms.math(Sign, std::slice::from_ref(x))?,
        Copysign if operand == 1 => return Ok(Some(Partial::Zero)),
        Copysign => {
            let one = terms.number(x, 1.0)?;
            let (a, b) =
                (terms.math(Copysign, &[one.clone(), x.clone()])?, terms.math(Copysign, &[one, args[1].clone()])?);
            terms.binary(BinaryOp::Mul, &a, &b)?
        }
        Fma if operand == 2 => return Ok(Some(Partial::One)),
        Fma => args[1 - operand].clone(),
        Pow => return power(terms, x, &args[1], result, operand).map(Some),
        Sqrt | Rsqrt | Cbrt => root(terms, function, x, result)?,
        Exp | Exp2 | Exp10 => exponential(terms, function, result)?,
        // `result + 1` would lose digits by cancellation if `x` is negative.
        Expm1 => terms.math(Exp, std::slice::from_ref(x))?,
        Log | Log2 | Log10 | Log1p => logarithm(terms, function, x)?,
        Sin | Cos | Tan | Asin | Acos | Atan => circular(terms, function, x, result)?,
        Sinh | Cosh | Tanh | Asinh | Acosh | Atanh => hyperbolic(terms, function, x, result)?,
        Atan2 => {
            let radius = terms.math(Hypot, args)?;
            let (num, ratio) =
                (&args[1 - operand], |terms: &mut T, a: &T::Value| terms.binary(BinaryOp::Div, a, &radius));
            let cosine = ratio(terms, num)?;
            let factor = ratio(terms, &cosine)?;
            if operand == 0 { factor } else { terms.unary(UnaryOp::Neg, &factor)? }
        }
        Hypot => {
            let zero = terms.number(result, 0.0)?;
            let at_zero = terms.binary(BinaryOp::Eq, result, &zero)?;
            let ratio = terms.binary(BinaryOp::Div, &args[operand], result)?;
            terms.select(&at_zero, &zero, &ratio)?
        }
        Erf | Erfc => {
            let square = terms.binary(BinaryOp::Mul, x, x)?;
            let exponent = terms.unary(UnaryOp::Neg, &square)?;
            let bell = terms.math(Exp, &[exponent])?;
            times(terms, &bell, if function == Erf { 2.0 } else { -2.0 } / PI.sqrt())?
        }
        Floor | Ceil | Round | Trunc | Sign | Lgamma | Tgamma | IsNan | IsInf | IsFinite | Popcount | Clz | Ctz
        | ReverseBits | MulHi | WrappingAdd | WrappingSub | WrappingMul | WrappingNeg | SaturatingAdd
        | SaturatingSub => return Ok(None),
    };
    Ok(Some(Partial::Times(factor)))
}

fn times<T: TermAlgebra>(terms: &mut T, value: &T::Value, by: f64) -> TermResult<T> {
    let factor = terms.number(value, by)?;
    terms.binary(BinaryOp::Mul, value, &factor)
}

fn plus<T: TermAlgebra>(terms: &mut T, value: &T::Value, number: f64) -> TermResult<T> {
    let other = terms.number(value, number)?;
    terms.binary(BinaryOp::Add, value, &other)
}

fn reciprocal<T: TermAlgebra>(terms: &mut T, value: &T::Value) -> TermResult<T> {
    let one = terms.number(value, 1.0)?;
    terms.binary(BinaryOp::Div, &one, value)
}

/// Builds `1 - x * x` as `(1 - x) * (1 + x)`, which is more accurate near 1.
fn one_less_square<T: TermAlgebra>(terms: &mut T, x: &T::Value) -> TermResult<T> {
    let one = terms.number(x, 1.0)?;
    let (less, more) = (terms.binary(BinaryOp::Sub, &one, x)?, terms.binary(BinaryOp::Add, &one, x)?);
    terms.binary(BinaryOp::Mul, &less, &more)
}

/// Builds the derivative of `min` or `max` with respect to an operand: 1 if the operand is the result, 1/2 if both
/// operands are, else 0. If the other operand is NaN, this one is the result.
fn extreme<T: TermAlgebra>(
    terms: &mut T,
    function: MathFn,
    x: &T::Value,
    y: &T::Value,
    operand: usize,
) -> TermResult<T> {
    let (own, other) = if operand == 0 { (x, y) } else { (y, x) };
    let op = if function == MathFn::Max { BinaryOp::Gt } else { BinaryOp::Lt };
    let one = terms.number(own, 1.0)?;
    let (half, zero) = (terms.number(own, 0.5)?, terms.number(own, 0.0)?);
    let is_nan = terms.binary(BinaryOp::Ne, other, other)?;
    let is_same = terms.binary(BinaryOp::Eq, own, other)?;
    let wins = terms.binary(op, own, other)?;
    let unless = terms.select(&is_nan, &one, &zero)?;
    let tied = terms.select(&is_same, &half, &unless)?;
    terms.select(&wins, &one, &tied)
}

/// Differentiates `clamp(x, low, high)` as `min(max(x, low), high)`.
fn clamped<T: TermAlgebra>(terms: &mut T, args: &[T::Value], operand: usize) -> Result<Partial<T::Value>, T::Error> {
    let raised = terms.math(MathFn::Max, &args[..2])?;
    if operand == 2 {
        return Ok(Partial::Times(extreme(terms, MathFn::Min, &raised, &args[2], 1)?));
    }
    let outer = extreme(terms, MathFn::Min, &raised, &args[2], 0)?;
    let inner = extreme(terms, MathFn::Max, &args[0], &args[1], operand)?;
    Ok(Partial::Times(terms.binary(BinaryOp::Mul, &outer, &inner)?))
}

/// Builds the derivatives of `x ** y`. With respect to `x` it is `y * x ** (y - 1)`. With respect to `y` it is
/// `log(x) * x ** y`, or 0 if `x` is 0 and `y` is positive.
///
/// If only `y` is 0, the derivative with respect to `x` is 0. It must still be a term that depends on `y`, because the
/// derivative of this term with respect to `y` is `1 / x`. If `x` and `y` are both 0, neither the term nor its
/// derivatives may evaluate `0 ** -1`.
fn power<T: TermAlgebra>(
    terms: &mut T,
    x: &T::Value,
    y: &T::Value,
    result: &T::Value,
    operand: usize,
) -> Result<Partial<T::Value>, T::Error> {
    if operand == 0 {
        let (zero, one) = (terms.number(x, 0.0)?, terms.number(x, 1.0)?);
        let base = unless_both_zero(terms, x, y, &one, x)?;
        let less = plus(terms, y, -1.0)?;
        let lower = terms.math(MathFn::Pow, &[base, less])?;
        let factor = terms.binary(BinaryOp::Mul, y, &lower)?;
        return Ok(Partial::Times(unless_both_zero(terms, x, y, &zero, &factor)?));
    }
    let zero = terms.number(y, 0.0)?;
    let log = terms.math(MathFn::Log, std::slice::from_ref(x))?;
    let factor = terms.binary(BinaryOp::Mul, &log, result)?;
    let special = terms.binary(BinaryOp::Eq, result, &zero)?;
    Ok(Partial::Times(terms.select(&special, &zero, &factor)?))
}

/// Builds `instead` if `x` and `y` are both 0, else `value`.
fn unless_both_zero<T: TermAlgebra>(
    terms: &mut T,
    x: &T::Value,
    y: &T::Value,
    instead: &T::Value,
    value: &T::Value,
) -> TermResult<T> {
    let (no_base, no_exponent) = (terms.number(x, 0.0)?, terms.number(y, 0.0)?);
    let (base, exponent) = (terms.binary(BinaryOp::Eq, x, &no_base)?, terms.binary(BinaryOp::Eq, y, &no_exponent)?);
    let inner = terms.select(&exponent, instead, value)?;
    terms.select(&base, &inner, value)
}

fn root<T: TermAlgebra>(terms: &mut T, function: MathFn, x: &T::Value, result: &T::Value) -> TermResult<T> {
    match function {
        MathFn::Rsqrt => {
            let ratio = terms.binary(BinaryOp::Div, result, x)?;
            times(terms, &ratio, -0.5)
        }
        MathFn::Sqrt => {
            let half = terms.number(x, 0.5)?;
            terms.binary(BinaryOp::Div, &half, result)
        }
        _ => {
            let square = terms.binary(BinaryOp::Mul, result, result)?;
            let triple = times(terms, &square, 3.0)?;
            reciprocal(terms, &triple)
        }
    }
}

fn exponential<T: TermAlgebra>(terms: &mut T, function: MathFn, result: &T::Value) -> TermResult<T> {
    match function {
        MathFn::Exp2 => times(terms, result, LN_2),
        MathFn::Exp10 => times(terms, result, LN_10),
        _ => Ok(result.clone()),
    }
}

fn logarithm<T: TermAlgebra>(terms: &mut T, function: MathFn, x: &T::Value) -> TermResult<T> {
    let divisor = match function {
        MathFn::Log2 => times(terms, x, LN_2)?,
        MathFn::Log10 => times(terms, x, LN_10)?,
        MathFn::Log1p => plus(terms, x, 1.0)?,
        _ => x.clone(),
    };
    reciprocal(terms, &divisor)
}

fn circular<T: TermAlgebra>(terms: &mut T, function: MathFn, x: &T::Value, result: &T::Value) -> TermResult<T> {
    let own = std::slice::from_ref(x);
    match function {
        MathFn::Sin => terms.math(MathFn::Cos, own),
        MathFn::Cos => {
            let sine = terms.math(MathFn::Sin, own)?;
            terms.unary(UnaryOp::Neg, &sine)
        }
        MathFn::Tan | MathFn::Atan => {
            let base = if function == MathFn::Tan { result } else { x };
            let square = terms.binary(BinaryOp::Mul, base, base)?;
            let more = plus(terms, &square, 1.0)?;
            if function == MathFn::Tan { Ok(more) } else { reciprocal(terms, &more) }
        }
        _ => {
            let rest = one_less_square(terms, x)?;
            let root = terms.math(MathFn::Sqrt, &[rest])?;
            let factor = reciprocal(terms, &root)?;
            if function == MathFn::Asin { Ok(factor) } else { terms.unary(UnaryOp::Neg, &factor) }
        }
    }
}

fn hyperbolic<T: TermAlgebra>(terms: &mut T, function: MathFn, x: &T::Value, result: &T::Value) -> TermResult<T> {
    let own = std::slice::from_ref(x);
    match function {
        MathFn::Sinh => terms.math(MathFn::Cosh, own),
        MathFn::Cosh => terms.math(MathFn::Sinh, own),
        MathFn::Tanh => one_less_square(terms, result),
        MathFn::Asinh => {
            let one = terms.number(x, 1.0)?;
            let root = terms.math(MathFn::Hypot, &[x.clone(), one])?;
            reciprocal(terms, &root)
        }
        MathFn::Acosh => {
            let (less, more) = (plus(terms, x, -1.0)?, plus(terms, x, 1.0)?);
            let roots = [terms.math(MathFn::Sqrt, &[less])?, terms.math(MathFn::Sqrt, &[more])?];
            let root = terms.binary(BinaryOp::Mul, &roots[0], &roots[1])?;
            reciprocal(terms, &root)
        }
        _ => {
            let rest = one_less_square(terms, x)?;
            reciprocal(terms, &rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::ScalarValue;
    use crate::ops::MathFamily;

    /// A [`TermAlgebra`] that evaluates the terms as numbers.
    struct NumericTerms;

    impl TermAlgebra for NumericTerms {
        type Value = ScalarValue;
        type Error = Infallible;

        fn number(&mut self, _: &ScalarValue, number: f64) -> Result<ScalarValue, Infallible> {
            Ok(ScalarValue::of(number))
        }

        fn unary(&mut self, op: UnaryOp, value: &ScalarValue) -> Result<ScalarValue, Infallible> {
            Ok(crate::dynamic::unary(op, *value).expect("an operator of floats"))
        }

        fn binary(&mut self, op: BinaryOp, left: &ScalarValue, right: &ScalarValue) -> Result<ScalarValue, Infallible> {
            Ok(crate::dynamic::binary(op, *left, *right).expect("an operator of floats"))
        }

        fn math(&mut self, function: MathFn, args: &[ScalarValue]) -> Result<ScalarValue, Infallible> {
            Ok(crate::dynamic::math(function, args).expect("a function of floats"))
        }

        fn select(
            &mut self,
            cond: &ScalarValue,
            then: &ScalarValue,
            other: &ScalarValue,
        ) -> Result<ScalarValue, Infallible> {
            Ok(if cond.bits != 0 { *then } else { *other })
        }
    }

    fn factor(partial: Option<Partial<ScalarValue>>) -> f64 {
        match partial.expect("a derivative") {
            Partial::Zero => 0.0,
            Partial::One => 1.0,
            Partial::MinusOne => -1.0,
            Partial::Times(value) => value.to(),
        }
    }

    /// Compares a partial derivative with a difference quotient: the Richardson extrapolation of the quotients for two
    /// step sizes.
    fn compare(name: &str, at: &[f64], operand: usize, partial: f64, f: impl Fn(&[f64]) -> f64) {
        let slope = |h: f64| {
            let moved = |by: f64| {
                let mut point = at.to_vec();
                point[operand] += by;
                f(&point)
            };
            (moved(h) - moved(-h)) / (2.0 * h)
        };
        let (h, scale) = (1e-4, 1.0 + partial.abs());
        let difference = (4.0 * slope(h / 2.0) - slope(h)) / 3.0;
        assert!(
            (partial - difference).abs() <= 1e-8 * scale,
            "{name}{at:?}, operand {operand}: {partial}, expected {difference}"
        );
    }

    fn values(numbers: &[f64]) -> Vec<ScalarValue> {
        numbers.iter().map(|number| ScalarValue::of(*number)).collect()
    }

    /// Returns points in the domain of a function at which it is differentiable.
    fn points(function: MathFn) -> &'static [[f64; 3]] {
        use MathFn::*;
        match function {
            Acosh => &[[1.3, 0.0, 0.0], [2.5, 0.0, 0.0]],
            Log1p => &[[-0.6, 0.0, 0.0], [3.7, 0.0, 0.0]],
            Sqrt | Rsqrt | Log | Log2 | Log10 => &[[0.3, 0.0, 0.0], [2.7, 0.0, 0.0]],
            Pow => &[[0.4, 1.7, 0.0], [2.2, -0.6, 0.0]],
            Clamp => &[[0.3, -0.5, 0.9], [-0.7, -0.5, 0.9], [1.4, -0.5, 0.9]],
            _ => &[[0.37, -0.81, 1.3], [-0.64, 0.46, -2.1], [0.91, 0.22, 0.8]],
        }
    }

    #[test]
    fn rules_of_functions_agree_with_difference_quotients() {
        let mut without = vec![];
        for row in MathFn::TABLE {
            if matches!(row.family, MathFamily::Tests | MathFamily::Integers) {
                continue;
            }
            for point in points(row.function) {
                let at = &point[..row.arity];
                let f = |at: &[f64]| {
                    crate::dynamic::math(row.function, &values(at)).expect("a function of floats").to::<f64>()
                };
                for operand in 0..row.arity {
                    let result = ScalarValue::of(f(at));
                    let partial =
                        math_partial(&mut NumericTerms, row.function, &values(at), &result, operand).expect("no error");
                    match partial {
                        Some(_) => compare(row.name, at, operand, factor(partial), f),
                        None => without.push(row.name),
                    }
                }
            }
        }
        without.dedup();
        assert_eq!(without, ["lgamma", "tgamma"], "functions without a derivative");
    }

    #[test]
    fn rules_of_operators_agree_with_difference_quotients() {
        for op in [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Rem, BinaryOp::Pow] {
            for at in [[2.3, 0.7], [0.4, 1.9]] {
                let apply = |at: &[f64]| {
                    crate::dynamic::binary(op, ScalarValue::of(at[0]), ScalarValue::of(at[1]))
                        .expect("floats")
                        .to::<f64>()
                };
                for operand in 0..2 {
                    let (x, y) = (ScalarValue::of(at[0]), ScalarValue::of(at[1]));
                    let partial = binary_partial(&mut NumericTerms, op, &x, &y, &ScalarValue::of(apply(&at)), operand);
                    compare(op.symbol(), &at, operand, factor(partial.expect("no error")), apply);
                }
            }
        }
    }

    #[test]
    fn conventions_at_kinks() {
        let at = |function: MathFn, numbers: &[f64], operand: usize| {
            let args = values(numbers);
            let result = crate::dynamic::math(function, &args).expect("floats");
            factor(math_partial(&mut NumericTerms, function, &args, &result, operand).expect("no error"))
        };
        assert_eq!(at(MathFn::Max, &[2.0, 2.0], 0), 0.5);
        assert_eq!(at(MathFn::Min, &[2.0, 2.0], 1), 0.5);
        assert_eq!(at(MathFn::Max, &[2.0, f64::NAN], 0), 1.0);
        assert_eq!(at(MathFn::Max, &[f64::NAN, 2.0], 0), 0.0);
        assert_eq!(at(MathFn::Abs, &[0.0], 0), 0.0);
        assert_eq!(at(MathFn::Sqrt, &[0.0], 0), f64::INFINITY);
        assert_eq!(at(MathFn::Cbrt, &[0.0], 0), f64::INFINITY);
        assert_eq!(at(MathFn::Hypot, &[0.0, 0.0], 0), 0.0);
        assert_eq!(at(MathFn::Pow, &[0.0, 0.0], 0), 0.0);
        assert_eq!(at(MathFn::Pow, &[0.0, 1.0], 0), 1.0);
        assert_eq!(at(MathFn::Pow, &[0.0, 2.0], 1), 0.0);
        assert_eq!(at(MathFn::Pow, &[-2.0, 3.0], 0), 12.0);
        assert_eq!(at(MathFn::Floor, &[1.0], 0), 0.0);
        assert_eq!(at(MathFn::Clamp, &[5.0, 1.0, 5.0], 0), 0.5);
    }
}
