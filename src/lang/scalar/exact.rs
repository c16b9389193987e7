//! Exact integer arithmetic, without the width of a type.

use super::Scalar;
use crate::lang::ops::BinaryOp;

/// Returns the exact result of an operation; `None` if it is undefined or exceeds 128 bits.
pub(crate) fn exact(op: BinaryOp, a: i128, b: i128) -> Option<i128> {
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
pub(crate) fn limits(ty: Scalar) -> (i128, i128) {
    match ty.is_signed() {
        true => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        false => (0, (1 << ty.bits()) - 1),
    }
}

/// Whether an integer type can represent a number.
pub(crate) fn holds(ty: Scalar, number: i128) -> bool {
    let (low, high) = limits(ty);
    (low..=high).contains(&number)
}

/// Wraps a number to an integer type.
pub(crate) fn wrapped(ty: Scalar, number: i128) -> i128 {
    let bits = ty.bits();
    let low = number & ((1 << bits) - 1);
    if ty.is_signed() && low >> (bits - 1) != 0 { low - (1 << bits) } else { low }
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
}
