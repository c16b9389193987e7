//! Exact integer arithmetic, and the tests for faults such as overflow that a checked execution reports. Constant
//! folding uses the same tests: it does not fold an operation that a checked execution would report.

use super::{Scalar, ScalarValue};
use crate::ops::{BinaryOp, MathFn, UnaryOp};

/// Returns the result of an operation without wrapping; `None` if it is undefined or exceeds 128 bits.
pub fn exact(op: BinaryOp, a: i128, b: i128) -> Option<i128> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::Pow => power(a, b),
        _ => None,
    }
}

/// Returns a power. Negative exponents are defined only for the bases 1 and -1.
fn power(base: i128, exponent: i128) -> Option<i128> {
    match base {
        1 => Some(1),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        0 if exponent > 0 => Some(0),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

/// Returns the minimum and maximum of an integer type; 0 and 1 for `bool`.
pub fn limits(ty: Scalar) -> (i128, i128) {
    match ty {
        Scalar::Bool => (0, 1),
        _ if ty.is_signed() => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        _ => (0, (1 << ty.bits()) - 1),
    }
}

/// Returns the number of iterations of a `for` loop; `None` if the step is zero.
pub fn trip_count(start: i128, end: i128, step: i128, inclusive: bool) -> Option<i128> {
    let distance = if step > 0 { end - start } else { start - end } + i128::from(inclusive);
    match step {
        0 => None,
        _ if distance <= 0 => Some(0),
        _ => Some((distance - 1) / step.abs() + 1),
    }
}

/// Returns whether an integer type can represent a number.
pub fn is_representable(ty: Scalar, number: i128) -> bool {
    let (low, high) = limits(ty);
    (low..=high).contains(&number)
}

/// Reduces a number to the value that an integer type has after wrapping.
pub fn wrap(ty: Scalar, number: i128) -> i128 {
    let bits = ty.bits();
    let low = number & ((1 << bits) - 1);
    if ty.is_signed() && low >> (bits - 1) != 0 { low - (1 << bits) } else { low }
}

/// Returns whether an operation on numbers of a signed type overflows. Division by zero is a different fault, not an
/// overflow.
pub fn overflows(op: BinaryOp, ty: Scalar, a: i128, b: i128) -> bool {
    match op {
        // The remainder would be 0, but processors compute it together with the quotient, which overflows.
        BinaryOp::Div | BinaryOp::Rem => b == -1 && a == limits(ty).0,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow => {
            exact(op, a, b).is_none_or(|result| !is_representable(ty, result))
        }
        _ => false,
    }
}

/// Returns whether a float is NaN or outside the range of an integer type.
pub fn is_out_of_range(ty: Scalar, x: f64) -> bool {
    let (low, high) = limits(ty);
    x.is_nan() || x.trunc() < low as f64 || x.trunc() > high as f64 || x.trunc() as i128 > high
}

/// Returns whether a checked execution reports `left op right`, because of a signed overflow or because a shift amount
/// is negative or at least the number of bits.
pub fn is_reported(op: BinaryOp, left: ScalarValue, right: ScalarValue) -> bool {
    let ty = left.ty;
    let (Some(a), Some(b), true) = (left.as_integer(), right.as_integer(), ty.is_int()) else { return false };
    match op {
        BinaryOp::Shl | BinaryOp::Shr => !(0..i128::from(ty.bits())).contains(&b),
        _ => ty.is_signed() && overflows(op, ty, a, b),
    }
}

/// Like [`is_reported`], but for `-x`.
pub fn is_reported_unary(op: UnaryOp, value: ScalarValue) -> bool {
    op == UnaryOp::Neg && is_reported(BinaryOp::Sub, ScalarValue::zero(value.ty), value)
}

/// Like [`is_reported`], but for a mathematical function.
pub fn is_reported_math(function: MathFn, args: &[ScalarValue]) -> bool {
    match (function, args) {
        (MathFn::Pow, &[base, exponent]) => is_reported(BinaryOp::Pow, base, exponent),
        (MathFn::Abs, &[x]) => is_reported_unary(UnaryOp::Neg, x),
        _ => false,
    }
}

/// Like [`is_reported`], but for a conversion.
pub fn is_reported_conversion(to: Scalar, value: ScalarValue) -> bool {
    to.is_int() && value.ty.is_float() && is_out_of_range(to, value.as_f64())
}

/// Returns whether `result` is a NaN or infinity computed from finite operands, which `--trap-nan` reports.
pub fn is_first_nonfinite(operands: &[ScalarValue], result: ScalarValue) -> bool {
    let is_finite = |value: &ScalarValue| !value.ty.is_float() || value.as_f64().is_finite();
    !is_finite(&result) && operands.iter().all(is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_limits() {
        assert_eq!(exact(BinaryOp::Pow, 2, 10), Some(1024));
        assert_eq!(exact(BinaryOp::Pow, 2, -1), None);
        assert_eq!(exact(BinaryOp::Pow, -1, -3), Some(-1));
        assert_eq!(exact(BinaryOp::Pow, 0, 1 << 40), Some(0));
        assert_eq!(exact(BinaryOp::Pow, 7, 1 << 40), None);
        assert_eq!(limits(Scalar::I8), (-128, 127));
        assert_eq!(limits(Scalar::U64), (0, u64::MAX.into()));
        assert_eq!((wrap(Scalar::I8, 200), wrap(Scalar::U8, -1)), (-56, 255));
        assert!(is_representable(Scalar::I64, i64::MIN.into()) && !is_representable(Scalar::I64, 1 << 63));
    }

    #[test]
    fn checks_report_overflow_and_nonfinite_results() {
        let least = ScalarValue::of(i32::MIN);
        assert!(is_reported(BinaryOp::Mul, ScalarValue::of(70_000), ScalarValue::of(70_000)));
        assert!(!is_reported(BinaryOp::Mul, ScalarValue::of(70_000_u32), ScalarValue::of(70_000_u32)));
        assert!(
            is_reported(BinaryOp::Div, least, ScalarValue::of(-1))
                && !is_reported(BinaryOp::Div, least, ScalarValue::of(0))
        );
        assert!(is_reported(BinaryOp::Shl, ScalarValue::of(1_u8), ScalarValue::of(8)));
        assert!(is_reported_unary(UnaryOp::Neg, least) && !is_reported_unary(UnaryOp::Not, least));
        assert!(is_reported_math(MathFn::Abs, &[least]) && !is_reported_math(MathFn::WrappingNeg, &[least]));
        assert!(is_reported_math(MathFn::Pow, &[ScalarValue::of(2), ScalarValue::of(-1)]));
        assert!(is_reported_conversion(Scalar::U8, ScalarValue::of(256.0)));
        assert!(!is_reported_conversion(Scalar::U8, ScalarValue::of(255.5)));
        assert!(is_reported_conversion(Scalar::I64, ScalarValue::of(f32::NAN)));
        let (zero, infinity) = (ScalarValue::of(0_f32), ScalarValue::of(f32::INFINITY));
        assert!(
            is_first_nonfinite(&[zero, zero], ScalarValue::of(f32::NAN))
                && is_first_nonfinite(&[ScalarValue::of(1)], infinity)
        );
        assert!(
            !is_first_nonfinite(&[zero, infinity], ScalarValue::of(f32::NAN)) && !is_first_nonfinite(&[zero], zero)
        );
    }
}
