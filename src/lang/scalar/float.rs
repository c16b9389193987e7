//! `f32` and `f64`: the exact operations; the others are in `math32`, `trig32` and `math64`.

use super::{Convert, Element, Float, Number, Scalar, math32, math64, trig32};

macro_rules! by_module {
    ($($name:ident $(($other:ident))? => $function:path,)*) => {
        $(
            #[inline(always)]
            fn $name(self $(, $other: Self)?) -> Self {
                $function(self $(, $other)?)
            }
        )*
    };
}

macro_rules! float {
    ($ty:ident, $signed:ident, $scalar:ident, $from:ident, $pow:path, { $($functions:tt)* }) => {
        impl Element for $ty {
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
            fn to<T: Element>(self) -> T {
                <T as Convert>::$from(self)
            }

            #[inline(always)]
            fn op_eq(self, other: Self) -> bool {
                self == other
            }
        }

        impl Number for $ty {
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
                let take = (self < other) | (other != other) | ((self == other) & negative);
                if take { self } else { other }
            }

            #[inline(always)]
            fn op_max(self, other: Self) -> Self {
                let positive = (self.to_bits() as $signed) >= 0;
                let take = (self > other) | (other != other) | ((self == other) & positive);
                if take { self } else { other }
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
                self.mul_add(factor, addend)
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

            by_module! { $($functions)* }
        }
    };
}

float!(f32, i32, F32, from_f32, math32::pow, {
    op_rsqrt => math32::rsqrt,
    op_cbrt => math32::cbrt,
    op_exp => math32::exp,
    op_exp2 => math32::exp2,
    op_exp10 => math32::exp10,
    op_expm1 => math32::expm1,
    op_log => math32::log,
    op_log2 => math32::log2,
    op_log10 => math32::log10,
    op_log1p => math32::log1p,
    op_sin => trig32::sin,
    op_cos => trig32::cos,
    op_tan => trig32::tan,
    op_asin => trig32::asin,
    op_acos => trig32::acos,
    op_atan => trig32::atan,
    op_atan2(x) => trig32::atan2,
    op_sinh => math32::sinh,
    op_cosh => math32::cosh,
    op_tanh => math32::tanh,
    op_asinh => math32::asinh,
    op_acosh => math32::acosh,
    op_atanh => math32::atanh,
    op_hypot(other) => math32::hypot,
    op_erf => math32::erf,
    op_erfc => math32::erfc,
    op_lgamma => math32::lgamma,
    op_tgamma => math32::tgamma,
});

float!(f64, i64, F64, from_f64, libm::pow, {
    op_rsqrt => math64::rsqrt,
    op_cbrt => libm::cbrt,
    op_exp => libm::exp,
    op_exp2 => libm::exp2,
    op_exp10 => libm::exp10,
    op_expm1 => libm::expm1,
    op_log => libm::log,
    op_log2 => libm::log2,
    op_log10 => libm::log10,
    op_log1p => libm::log1p,
    op_sin => libm::sin,
    op_cos => libm::cos,
    op_tan => libm::tan,
    op_asin => libm::asin,
    op_acos => libm::acos,
    op_atan => libm::atan,
    op_atan2(x) => libm::atan2,
    op_sinh => libm::sinh,
    op_cosh => libm::cosh,
    op_tanh => libm::tanh,
    op_asinh => libm::asinh,
    op_acosh => math64::acosh,
    op_atanh => libm::atanh,
    op_hypot(other) => libm::hypot,
    op_erf => libm::erf,
    op_erfc => libm::erfc,
    op_lgamma => libm::lgamma,
    op_tgamma => libm::tgamma,
});
