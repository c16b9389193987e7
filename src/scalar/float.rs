//! The correctly rounded operations on `f32` and `f64`. The approximated functions are in `math32`, `trig32` and
//! `math64`.

use super::half_convert::f32_to_tf32;
use super::{Convert, Float, NumericScalar, Scalar, ScalarType, fused, math32, math64, trig32};
use crate::functions::math_functions;

/// Defines the methods of the family `Approximations` in the table of mathematical functions, for `f32` or for `f64`.
macro_rules! by_module {
    ([$ty:ident] $numbers:ident $_n:tt $floats:ident $_f:tt $tests:ident $_t:tt Approximations { $(
        $variant:ident $name:literal ($first:ident $(, $more:ident)*) $method:ident {$f32:path, $f64:path} $cost:literal $cuda:tt $doc:literal;
    )* } $($other:tt)*) => {
        $(
            #[inline(always)]
            fn $method(self $(, $more: Self)*) -> Self {
                by_module!($ty $f32, $f64)(self $(, $more)*)
            }
        )*
    };
    (f32 $f32:path, $f64:path) => { $f32 };
    (f64 $f32:path, $f64:path) => { $f64 };
}

macro_rules! float {
    ($ty:ident, $signed:ident, $scalar:ident, $from:ident, $pow:path, $tf32:path, $fma:path) => {
        impl ScalarType for $ty {
            const SCALAR: Scalar = Scalar::$scalar;

            #[inline(always)]
            fn to_raw(self) -> u64 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn from_raw(raw: u64) -> Self {
                $ty::from_bits(raw as _)
            }

            #[inline(always)]
            fn to<T: ScalarType>(self) -> T {
                <T as Convert>::$from(self)
            }

            #[inline(always)]
            fn op_eq(self, other: Self) -> bool {
                self == other
            }
        }

        impl NumericScalar for $ty {
            #[inline(always)]
            fn op_add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn op_sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn op_mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn op_neg(self) -> Self {
                -self
            }

            #[inline(always)]
            fn op_div(self, other: Self) -> Self {
                self / other
            }

            #[inline(always)]
            fn op_rem(self, other: Self) -> Self {
                self % other
            }

            #[inline(always)]
            fn op_pow(self, exponent: Self) -> Self {
                $pow(self, exponent)
            }

            #[inline(always)]
            fn op_lt(self, other: Self) -> bool {
                self < other
            }

            #[inline(always)]
            fn op_le(self, other: Self) -> bool {
                self <= other
            }

            #[inline(always)]
            fn op_min(self, other: Self) -> Self {
                let negative = (self.to_bits() as $signed) < 0;
                let is_self = (self < other) | (other != other) | ((self == other) & negative);
                if is_self { self } else { other }
            }

            #[inline(always)]
            fn op_max(self, other: Self) -> Self {
                let positive = (self.to_bits() as $signed) >= 0;
                let is_self = (self > other) | (other != other) | ((self == other) & positive);
                if is_self { self } else { other }
            }

            #[inline(always)]
            fn op_abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn op_sign(self) -> Self {
                let unit = (1.0 as $ty).copysign(self);
                if (self == 0.0) | (self != self) { self } else { unit }
            }
        }

        impl Float for $ty {
            #[inline(always)]
            fn op_sqrt(self) -> Self {
                self.sqrt()
            }

            #[inline(always)]
            fn op_fma(self, factor: Self, addend: Self) -> Self {
                $fma(self, factor, addend)
            }

            #[inline(always)]
            fn op_floor(self) -> Self {
                self.floor()
            }

            #[inline(always)]
            fn op_ceil(self) -> Self {
                self.ceil()
            }

            #[inline(always)]
            fn op_round(self) -> Self {
                self.round_ties_even()
            }

            #[inline(always)]
            fn op_trunc(self) -> Self {
                self.trunc()
            }

            #[inline(always)]
            fn op_copysign(self, sign: Self) -> Self {
                self.copysign(sign)
            }

            #[inline(always)]
            fn op_isnan(self) -> bool {
                self.is_nan()
            }

            #[inline(always)]
            fn op_isinf(self) -> bool {
                self.is_infinite()
            }

            #[inline(always)]
            fn op_isfinite(self) -> bool {
                self.is_finite()
            }

            #[inline(always)]
            fn op_tf32(self) -> Self {
                $tf32(self)
            }

            math_functions!(by_module $ty);
        }
    };
}

float!(f32, i32, F32, from_f32, math32::pow, f32_to_tf32, fused::fma32);
float!(f64, i64, F64, from_f64, libm::pow, std::convert::identity, f64::mul_add);
