//! Exact integer arithmetic, without the width of a type, and what a checked run says of operations on known operands: constants
//! are only folded where it says nothing.

use super::{Scalar, Value};
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};

/// Returns the exact result of an operation; `None` if it is undefined or exceeds 128 bits.
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

/// Returns the minimum and maximum of an integer type.
pub fn limits(ty: Scalar) -> (i128, i128) {
    match ty.is_signed() {
        true => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        false => (0, (1 << ty.bits()) - 1),
    }
}

/// Whether an integer type can represent a number.
pub fn holds(ty: Scalar, number: i128) -> bool {
    let (low, high) = limits(ty);
    (low..=high).contains(&number)
}

/// Wraps a number to an integer type.
pub fn wrapped(ty: Scalar, number: i128) -> i128 {
    let bits = ty.bits();
    let low = number & ((1 << bits) - 1);
    if ty.is_signed() && low >> (bits - 1) != 0 { low - (1 << bits) } else { low }
}

/// Whether an operation on numbers of a signed type overflows. Division by zero does not; it is another fault.
pub fn overflows(op: BinaryOp, ty: Scalar, a: i128, b: i128) -> bool {
    match op {
        // The remainder is 0, but processors compute it with the quotient.
        BinaryOp::Div | BinaryOp::Rem => b == -1 && a == limits(ty).0,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow => {
            exact(op, a, b).is_none_or(|result| !holds(ty, result))
        }
        _ => false,
    }
}

/// Whether a float is outside of an integer type's range, NaN included.
pub fn outside(ty: Scalar, x: f64) -> bool {
    let (low, high) = limits(ty);
    x.is_nan() || x.trunc() < low as f64 || x.trunc() > high as f64 || x.trunc() as i128 > high
}

/// Whether a checked run reports `left op right`: signed overflow, or a shift by an amount outside of the width.
pub fn is_reported(op: BinaryOp, left: Value, right: Value) -> bool {
    let ty = left.ty;
    let (Some(a), Some(b), true) = (left.as_integer(), right.as_integer(), ty.is_int()) else { return false };
    match op {
        BinaryOp::Shl | BinaryOp::Shr => !(0..i128::from(ty.bits())).contains(&b),
        _ => ty.is_signed() && overflows(op, ty, a, b),
    }
}

/// As [`is_reported`], of `-x`.
pub fn is_reported_unary(op: UnaryOp, value: Value) -> bool {
    op == UnaryOp::Neg && is_reported(BinaryOp::Sub, Value::zero(value.ty), value)
}

/// As [`is_reported`], of a function.
pub fn is_reported_math(function: MathFn, args: &[Value]) -> bool {
    match (function, args) {
        (MathFn::Pow, &[base, exponent]) => is_reported(BinaryOp::Pow, base, exponent),
        (MathFn::Abs, &[x]) => is_reported_unary(UnaryOp::Neg, x),
        _ => false,
    }
}

/// As [`is_reported`], of a conversion.
pub fn is_reported_conversion(to: Scalar, value: Value) -> bool {
    to.is_int() && value.ty.is_float() && outside(to, value.as_f64())
}

/// Whether `result` is a NaN or an infinity that the operation computes from finite operands: what `--trap-nan` reports.
pub fn is_first_nonfinite(operands: &[Value], result: Value) -> bool {
    let is_finite = |value: &Value| !value.ty.is_float() || value.as_f64().is_finite();
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
        assert_eq!((wrapped(Scalar::I8, 200), wrapped(Scalar::U8, -1)), (-56, 255));
        assert!(holds(Scalar::I64, i64::MIN.into()) && !holds(Scalar::I64, 1 << 63));
    }

    #[test]
    fn what_checks_report() {
        let least = Value::of(i32::MIN);
        assert!(is_reported(BinaryOp::Mul, Value::of(70_000), Value::of(70_000)));
        assert!(!is_reported(BinaryOp::Mul, Value::of(70_000_u32), Value::of(70_000_u32)));
        assert!(is_reported(BinaryOp::Div, least, Value::of(-1)) && !is_reported(BinaryOp::Div, least, Value::of(0)));
        assert!(is_reported(BinaryOp::Shl, Value::of(1_u8), Value::of(8)));
        assert!(is_reported_unary(UnaryOp::Neg, least) && !is_reported_unary(UnaryOp::Not, least));
        assert!(is_reported_math(MathFn::Abs, &[least]) && !is_reported_math(MathFn::WrappingNeg, &[least]));
        assert!(is_reported_math(MathFn::Pow, &[Value::of(2), Value::of(-1)]));
        assert!(is_reported_conversion(Scalar::U8, Value::of(256.0)));
        assert!(!is_reported_conversion(Scalar::U8, Value::of(255.5)));
        assert!(is_reported_conversion(Scalar::I64, Value::of(f32::NAN)));
        let (zero, infinity) = (Value::of(0_f32), Value::of(f32::INFINITY));
        assert!(
            is_first_nonfinite(&[zero, zero], Value::of(f32::NAN)) && is_first_nonfinite(&[Value::of(1)], infinity)
        );
        assert!(!is_first_nonfinite(&[zero, infinity], Value::of(f32::NAN)) && !is_first_nonfinite(&[zero], zero));
    }
}
