//! `f16` and `bf16`. Every operation computes in `f32` and rounds the result to nearest even.
//!
//! For `+ - * /` and `sqrt`, this equals a single rounding, because an `f32` has more than twice as many significand
//! bits. The conversions (in `half_convert`) are branch-free, so that loops over them are vectorized. NaNs become
//! quiet.

use super::half_convert::f64_to_odd_f32;
pub use super::half_convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::{Convert, Float, NumericScalar, Scalar, ScalarType, bf16, f16};
use crate::functions::math_functions;

/// Returns the sum rounded to odd. It must not overflow.
#[inline(always)]
fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    let bits = sum.to_bits();
    // If the error and the sum have different signs, the exact sum lies between `sum` and zero: truncate.
    let towards_zero = if (error < 0.0) != (sum < 0.0) { bits.wrapping_sub(1) } else { bits };
    f64::from_bits(if error != 0.0 && sum.is_finite() { towards_zero | 1 } else { bits })
}

/// Returns `a * b + c` of widened half floats, rounded to odd. The product is exact in `f64`.
#[inline(always)]
fn fma_to_odd(a: f32, b: f32, c: f32) -> f32 {
    f64_to_odd_f32(add_to_odd(a as f64 * b as f64, c as f64))
}

macro_rules! by_f32 {
    ($widen:path, $round:path; $($name:ident $(($other:ident))?,)*) => {
        $(
            #[inline(always)]
            fn $name(self $(, $other: Self)?) -> Self {
                $round($widen(self).$name($($widen($other))?))
            }
        )*
    };
}

/// Defines the methods of the family `Approximations` in the table of mathematical functions.
macro_rules! approximations {
    ([$widen:path, $round:path] $numbers:ident $_n:tt $floats:ident $_f:tt $tests:ident $_t:tt Approximations { $(
        $variant:ident $name:literal ($first:ident $(, $more:ident)*) $method:ident $by:tt $cost:literal $cuda:tt $doc:literal;
    )* } $($other:tt)*) => {
        by_f32! { $widen, $round; $($method $(($more))*,)* }
    };
}

macro_rules! half_float {
    ($ty:ident, $scalar:ident, $widen:path, $round:path, $from:ident, $infinity:literal) => {
        impl ScalarType for $ty {
            const SCALAR: Scalar = Scalar::$scalar;

            #[inline(always)]
            fn to_raw(self) -> u64 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn from_raw(raw: u64) -> Self {
                $ty::from_bits(raw as u16)
            }

            #[inline(always)]
            fn to<T: ScalarType>(self) -> T {
                <T as Convert>::$from(self)
            }

            #[inline(always)]
            fn op_eq(self, other: Self) -> bool {
                $widen(self) == $widen(other)
            }
        }

        impl NumericScalar for $ty {
            by_f32! { $widen, $round;
                op_add(other), op_sub(other), op_mul(other), op_div(other), op_rem(other), op_pow(other),
                op_min(other), op_max(other), op_sign,
            }

            #[inline(always)]
            fn op_neg(self) -> Self {
                $ty::from_bits(self.to_bits() ^ 0x8000)
            }

            #[inline(always)]
            fn op_abs(self) -> Self {
                $ty::from_bits(self.to_bits() & 0x7fff)
            }

            #[inline(always)]
            fn op_lt(self, other: Self) -> bool {
                $widen(self) < $widen(other)
            }

            #[inline(always)]
            fn op_le(self, other: Self) -> bool {
                $widen(self) <= $widen(other)
            }
        }

        impl Float for $ty {
            by_f32! { $widen, $round; op_sqrt, op_floor, op_ceil, op_round, op_trunc, op_fract, op_tf32, }

            math_functions!(approximations $widen, $round);

            #[inline(always)]
            fn op_fma(self, factor: Self, addend: Self) -> Self {
                $round(fma_to_odd($widen(self), $widen(factor), $widen(addend)))
            }

            #[inline(always)]
            fn op_copysign(self, sign: Self) -> Self {
                $ty::from_bits(self.to_bits() & 0x7fff | sign.to_bits() & 0x8000)
            }

            #[inline(always)]
            fn op_isnan(self) -> bool {
                self.to_bits() & 0x7fff > $infinity
            }

            #[inline(always)]
            fn op_isinf(self) -> bool {
                self.to_bits() & 0x7fff == $infinity
            }

            #[inline(always)]
            fn op_isfinite(self) -> bool {
                self.to_bits() & 0x7fff < $infinity
            }
        }
    };
}

half_float!(f16, F16, f16_to_f32, f32_to_f16, from_f16, 0x7c00);
half_float!(bf16, Bf16, bf16_to_f32, f32_to_bf16, from_bf16, 0x7f80);
