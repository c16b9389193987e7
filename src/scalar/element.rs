//! Traits for the Rust types that represent Clk's scalar types.
//!
//! The names of the methods begin with `op_` to avoid confusion with the methods of the standard library, some of which
//! have platform-dependent results (`f32::exp`). All methods are defined for all operands. They are inlined and, unless
//! documented otherwise, without branches, so that loops over lanes are vectorized.

use std::fmt::Debug;

use super::{Convert, Scalar};
use crate::functions::math_functions;

/// A Rust type that represents a scalar type.
pub trait ScalarType: Convert + Copy + Default + PartialEq + Debug + Send + Sync + 'static {
    const SCALAR: Scalar;

    /// Returns the bits, zero-extended.
    fn to_raw(self) -> u64;
    /// Creates a value from the low bits of `raw`; a `bool` is true unless the low byte is 0.
    fn from_raw(raw: u64) -> Self;
    /// Converts by the rules of [`Convert`].
    fn to<T: ScalarType>(self) -> T;
    /// Equality: false for NaN, true for zeros of different sign.
    fn op_eq(self, other: Self) -> bool;

    /// Negation of [`ScalarType::op_eq`].
    #[inline(always)]
    fn op_ne(self, other: Self) -> bool {
        !self.op_eq(other)
    }
}

/// `bool` and the integers.
pub trait Logic: ScalarType {
    fn op_and(self, other: Self) -> Self;
    fn op_or(self, other: Self) -> Self;
    fn op_xor(self, other: Self) -> Self;
    /// Logical on `bool`, bitwise on integers.
    fn op_not(self) -> Self;
}

/// The integers and the floats.
pub trait NumericScalar: ScalarType {
    /// The sum. Integers wrap in this and in the following methods.
    fn op_add(self, other: Self) -> Self;
    fn op_sub(self, other: Self) -> Self;
    fn op_mul(self, other: Self) -> Self;
    fn op_neg(self) -> Self;
    /// The quotient, truncated for integers. An integer divided by zero is 0, but callers check for a zero divisor
    /// first. The smallest integer divided by -1 wraps.
    fn op_div(self, other: Self) -> Self;
    /// The remainder of the truncating division; `fmod` for floats. For a zero integer divisor it is 0, but callers
    /// check for a zero divisor first.
    fn op_rem(self, other: Self) -> Self;
    /// The power. Integers wrap. For a negative integer exponent, it is the truncated reciprocal of the power (0 for
    /// base 0).
    fn op_pow(self, exponent: Self) -> Self;
    fn op_lt(self, other: Self) -> bool;
    fn op_le(self, other: Self) -> bool;
    /// The smaller value. -0 is below +0. If one value is NaN, the result is the other.
    fn op_min(self, other: Self) -> Self;
    /// The larger value. -0 is below +0. If one value is NaN, the result is the other.
    fn op_max(self, other: Self) -> Self;
    /// The absolute value; wraps for the smallest signed integer.
    fn op_abs(self) -> Self;
    /// -1, 0 or 1; NaN and signed zeros are returned unchanged.
    fn op_sign(self) -> Self;

    #[inline(always)]
    fn op_gt(self, other: Self) -> bool {
        other.op_lt(self)
    }

    #[inline(always)]
    fn op_ge(self, other: Self) -> bool {
        other.op_le(self)
    }

    #[inline(always)]
    fn op_clamp(self, low: Self, high: Self) -> Self {
        self.op_max(low).op_min(high)
    }
}

/// The integers.
pub trait Integer: NumericScalar + Logic {
    const BITS: u32;

    /// Returns the quotient; `None` for a zero divisor.
    #[inline(always)]
    fn checked_div(self, other: Self) -> Option<Self> {
        if other == Self::default() { None } else { Some(self.op_div(other)) }
    }

    /// Returns the remainder; `None` for a zero divisor.
    #[inline(always)]
    fn checked_rem(self, other: Self) -> Option<Self> {
        if other == Self::default() { None } else { Some(self.op_rem(other)) }
    }

    /// Shifts left by `amount` modulo the number of bits. Callers first convert an amount of another integer type to
    /// `u32`.
    fn op_shl(self, amount: u32) -> Self;
    /// Shifts right by `amount` modulo the number of bits. The shift is arithmetic for signed types.
    fn op_shr(self, amount: u32) -> Self;
    fn op_popcount(self) -> Self;
    fn op_clz(self) -> Self;
    fn op_ctz(self) -> Self;
    fn op_reverse_bits(self) -> Self;
    /// The high half of the double-width product.
    fn op_mul_hi(self, other: Self) -> Self;
    fn op_saturating_add(self, other: Self) -> Self;
    fn op_saturating_sub(self, other: Self) -> Self;
}

/// Declares the methods of the family `Approximations` in the table of mathematical functions.
macro_rules! approximations {
    ([] $numbers:ident $_n:tt $floats:ident $_f:tt $tests:ident $_t:tt Approximations { $(
        $variant:ident $name:literal ($first:ident $(, $more:ident)*) $method:ident $by:tt $cost:literal $cuda:tt $doc:literal;
    )* } $($other:tt)*) => {
        $(#[doc = $doc] fn $method(self $(, $more: Self)*) -> Self;)*
    };
}

/// The floats. The accuracy of each function is documented in `math32` and `math64`; `f16` and `bf16` round the `f32`
/// result.
pub trait Float: NumericScalar {
    fn op_sqrt(self) -> Self;
    /// Multiplies and adds with a single rounding.
    fn op_fma(self, factor: Self, addend: Self) -> Self;
    fn op_floor(self) -> Self;
    fn op_ceil(self) -> Self;
    /// Rounds to the nearest integer, with ties to even.
    fn op_round(self) -> Self;
    fn op_trunc(self) -> Self;
    fn op_copysign(self, sign: Self) -> Self;
    fn op_isnan(self) -> bool;
    fn op_isinf(self) -> bool;
    fn op_isfinite(self) -> bool;
    /// Rounds to `tf32` precision, with ties to even. It is the identity for `f64`, for shadow programs, which compute
    /// with `f64` instead of `f32`.
    fn op_tf32(self) -> Self;

    #[inline(always)]
    fn op_fract(self) -> Self {
        self.op_sub(self.op_floor())
    }

    math_functions!(approximations);
}

/// `with_element!(scalar, T => body)` evaluates the body with `T` as an alias of the Rust type of a [`Scalar`].
#[macro_export]
macro_rules! with_element {
    ($scalar:expr, $T:ident => $body:expr) => {
        $crate::with_number!($scalar, $T => $body, bool => { type $T = bool; $body })
    };
}

/// `with_number!(scalar, T => body, bool => other)` is like [`with_element!`], but has another expression for `bool`.
#[macro_export]
macro_rules! with_number {
    ($scalar:expr, $T:ident => $body:expr, bool => $other:expr) => {
        match $scalar {
            scalar => $crate::with_float!(scalar, $T => $body,
                _ => $crate::with_integer!(scalar, $T => $body, _ => $other)),
        }
    };
}

/// `with_integer!(scalar, T => body, _ => other)` is like [`with_element!`], but has another expression for types that
/// are not integers.
#[macro_export]
macro_rules! with_integer {
    ($scalar:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $scalar {
            $crate::Scalar::I8 => {
                type $T = i8;
                $body
            }
            $crate::Scalar::I16 => {
                type $T = i16;
                $body
            }
            $crate::Scalar::I32 => {
                type $T = i32;
                $body
            }
            $crate::Scalar::I64 => {
                type $T = i64;
                $body
            }
            $crate::Scalar::U8 => {
                type $T = u8;
                $body
            }
            $crate::Scalar::U16 => {
                type $T = u16;
                $body
            }
            $crate::Scalar::U32 => {
                type $T = u32;
                $body
            }
            $crate::Scalar::U64 => {
                type $T = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// `with_logic!(scalar, T => body, _ => other)` is like [`with_element!`], but has another expression for floats.
#[macro_export]
macro_rules! with_logic {
    ($scalar:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $scalar {
            $crate::Scalar::Bool => { type $T = bool; $body }
            scalar => $crate::with_integer!(scalar, $T => $body, _ => $other),
        }
    };
}

/// `with_float!(scalar, T => body, _ => other)` is like [`with_element!`], but has another expression for types that
/// are not floats.
#[macro_export]
macro_rules! with_float {
    ($scalar:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $scalar {
            $crate::Scalar::F16 => {
                type $T = $crate::f16;
                $body
            }
            $crate::Scalar::Bf16 => {
                type $T = $crate::bf16;
                $body
            }
            $crate::Scalar::F32 => {
                type $T = f32;
                $body
            }
            $crate::Scalar::F64 => {
                type $T = f64;
                $body
            }
            _ => $other,
        }
    };
}
