//! The traits of Rust types that represent Clk's scalars.
//!
//! Every function is named `op_…` to avoid confusion with the standard library's (`f32::exp` is platform-dependent). All are
//! total, straight-line unless documented otherwise, and inlined, so that loops over lanes are vectorized.

use std::fmt::Debug;

use super::{Convert, Scalar};
use crate::lang::functions::math_functions;

/// A scalar.
pub trait Element: Convert + Copy + Default + PartialEq + Debug + Send + Sync + 'static {
    const SCALAR: Scalar;

    /// Returns the bits, zero-extended.
    fn to_raw(self) -> u64;
    /// Creates a value from the low bits of `raw`; a `bool` is true unless the low byte is 0.
    fn from_raw(raw: u64) -> Self;
    /// Converts by the rules of [`Convert`].
    fn to<T: Element>(self) -> T;
    /// Equality: false for NaN, true for zeros of different sign.
    fn op_eq(self, other: Self) -> bool;

    /// Negation of [`Element::op_eq`].
    #[inline(always)]
    fn op_ne(self, other: Self) -> bool {
        !self.op_eq(other)
    }
}

/// `bool` and the integers.
pub trait Logic: Element {
    fn op_and(self, other: Self) -> Self;
    fn op_or(self, other: Self) -> Self;
    fn op_xor(self, other: Self) -> Self;
    /// Logical on `bool`, bitwise on integers.
    fn op_not(self) -> Self;
}

/// The integers and the floats.
pub trait Number: Element {
    /// Integers wrap, also below.
    fn op_add(self, other: Self) -> Self;
    fn op_sub(self, other: Self) -> Self;
    fn op_mul(self, other: Self) -> Self;
    fn op_neg(self) -> Self;
    /// Truncates for integers. An integer divided by zero gives 0 (callers check before), and the smallest one divided by -1 wraps.
    fn op_div(self, other: Self) -> Self;
    /// The remainder of the truncating division; `fmod` for floats. An integer by zero gives 0 (callers check before).
    fn op_rem(self, other: Self) -> Self;
    /// Integers by wrapping multiplication; a negative exponent gives the truncated reciprocal (0 for base 0).
    fn op_pow(self, exponent: Self) -> Self;
    fn op_lt(self, other: Self) -> bool;
    fn op_le(self, other: Self) -> bool;
    /// The smaller one; -0 is below +0, and a NaN loses to a number.
    fn op_min(self, other: Self) -> Self;
    /// The larger one; -0 is below +0, and a NaN loses to a number.
    fn op_max(self, other: Self) -> Self;
    /// Wraps for the smallest signed integer.
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
pub trait Integer: Number + Logic {
    const BITS: u32;

    /// Returns `None` for a zero divisor.
    #[inline(always)]
    fn checked_div(self, other: Self) -> Option<Self> {
        if other == Self::default() { None } else { Some(self.op_div(other)) }
    }

    /// Returns `None` for a zero divisor.
    #[inline(always)]
    fn checked_rem(self, other: Self) -> Option<Self> {
        if other == Self::default() { None } else { Some(self.op_rem(other)) }
    }

    /// The amount is taken modulo the width; an amount of another integer type is first converted to `u32`.
    fn op_shl(self, amount: u32) -> Self;
    /// Arithmetic for signed types; the amount is taken modulo the width.
    fn op_shr(self, amount: u32) -> Self;
    fn op_popcount(self) -> Self;
    fn op_clz(self) -> Self;
    fn op_ctz(self) -> Self;
    fn op_reverse_bits(self) -> Self;
    /// The high half of the product.
    fn op_mul_hi(self, other: Self) -> Self;
    fn op_saturating_add(self, other: Self) -> Self;
    fn op_saturating_sub(self, other: Self) -> Self;
}

/// Declares the methods of the approximations of the table.
macro_rules! approximations {
    ([] $numbers:ident $_n:tt $floats:ident $_f:tt $tests:ident $_t:tt Approximations { $(
        $variant:ident $name:literal ($first:ident $(, $more:ident)*) $method:ident $by:tt $cost:literal $cuda:tt $doc:literal;
    )* } $($other:tt)*) => {
        $(#[doc = $doc] fn $method(self $(, $more: Self)*) -> Self;)*
    };
}

/// The floats. The accuracy of each function is documented in `math32` and `math64`; `f16` and `bf16` round the `f32` result.
pub trait Float: Number {
    fn op_sqrt(self) -> Self;
    /// Rounds once.
    fn op_fma(self, factor: Self, addend: Self) -> Self;
    fn op_floor(self) -> Self;
    fn op_ceil(self) -> Self;
    /// Rounds half to even.
    fn op_round(self) -> Self;
    fn op_trunc(self) -> Self;
    fn op_copysign(self, sign: Self) -> Self;
    fn op_isnan(self) -> bool;
    fn op_isinf(self) -> bool;
    fn op_isfinite(self) -> bool;
    /// Rounds to the grid of tf32, half to even. An `f64`, which stands for an exact number, stays.
    fn op_tf32(self) -> Self;

    #[inline(always)]
    fn op_fract(self) -> Self {
        self.op_sub(self.op_floor())
    }

    math_functions!(approximations);
}

/// `with_element!(scalar, T => body)`: evaluates the body with `T` as an alias of the Rust type of a [`Scalar`].
#[macro_export]
macro_rules! with_element {
    ($scalar:expr, $T:ident => $body:expr) => {
        $crate::with_number!($scalar, $T => $body, bool => { type $T = bool; $body })
    };
}

/// `with_number!(scalar, T => body, bool => other)`: as [`with_element!`], with another expression for `bool`.
#[macro_export]
macro_rules! with_number {
    ($scalar:expr, $T:ident => $body:expr, bool => $other:expr) => {
        match $scalar {
            scalar => $crate::with_float!(scalar, $T => $body,
                _ => $crate::with_integer!(scalar, $T => $body, _ => $other)),
        }
    };
}

/// `with_integer!(scalar, T => body, _ => other)`: as [`with_element!`] for the integers.
#[macro_export]
macro_rules! with_integer {
    ($scalar:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $scalar {
            $crate::lang::scalar::Scalar::I8 => {
                type $T = i8;
                $body
            }
            $crate::lang::scalar::Scalar::I16 => {
                type $T = i16;
                $body
            }
            $crate::lang::scalar::Scalar::I32 => {
                type $T = i32;
                $body
            }
            $crate::lang::scalar::Scalar::I64 => {
                type $T = i64;
                $body
            }
            $crate::lang::scalar::Scalar::U8 => {
                type $T = u8;
                $body
            }
            $crate::lang::scalar::Scalar::U16 => {
                type $T = u16;
                $body
            }
            $crate::lang::scalar::Scalar::U32 => {
                type $T = u32;
                $body
            }
            $crate::lang::scalar::Scalar::U64 => {
                type $T = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// `with_logic!(scalar, T => body, _ => other)`: as [`with_element!`] for `bool` and the integers.
#[macro_export]
macro_rules! with_logic {
    ($scalar:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $scalar {
            $crate::lang::scalar::Scalar::Bool => { type $T = bool; $body }
            scalar => $crate::with_integer!(scalar, $T => $body, _ => $other),
        }
    };
}

/// `with_float!(scalar, T => body, _ => other)`: as [`with_element!`] for the floats.
#[macro_export]
macro_rules! with_float {
    ($scalar:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $scalar {
            $crate::lang::scalar::Scalar::F16 => {
                type $T = $crate::lang::scalar::f16;
                $body
            }
            $crate::lang::scalar::Scalar::Bf16 => {
                type $T = $crate::lang::scalar::bf16;
                $body
            }
            $crate::lang::scalar::Scalar::F32 => {
                type $T = f32;
                $body
            }
            $crate::lang::scalar::Scalar::F64 => {
                type $T = f64;
                $body
            }
            _ => $other,
        }
    };
}
