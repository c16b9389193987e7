//! `bool` and the integers.

use super::{Convert, Integer, Logic, NumericScalar, Scalar, ScalarType};

impl ScalarType for bool {
    const SCALAR: Scalar = Scalar::Bool;

    #[inline(always)]
    fn to_raw(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn from_raw(raw: u64) -> Self {
        raw as u8 != 0
    }

    #[inline(always)]
    fn to<T: ScalarType>(self) -> T {
        T::from_bool(self)
    }

    #[inline(always)]
    fn op_eq(self, other: Self) -> bool {
        self == other
    }
}

macro_rules! logic {
    ($ty:ident) => {
        impl Logic for $ty {
            #[inline(always)]
            fn op_and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn op_or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn op_xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn op_not(self) -> Self {
                !self
            }
        }
    };
}

logic!(bool);

macro_rules! integer {
    ($ty:ident, $unsigned:ident, $wide:ident, $from:ident, $scalar:ident, $abs:expr, $sign:expr, $reciprocal:expr) => {
        impl ScalarType for $ty {
            const SCALAR: Scalar = Scalar::$scalar;

            #[inline(always)]
            fn to_raw(self) -> u64 {
                self as $unsigned as u64
            }

            #[inline(always)]
            fn from_raw(raw: u64) -> Self {
                raw as $ty
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

        logic!($ty);

        impl NumericScalar for $ty {
            #[inline(always)]
            fn op_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn op_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn op_mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn op_neg(self) -> Self {
                self.wrapping_neg()
            }

            #[inline(always)]
            fn op_div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }

            #[inline(always)]
            fn op_rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }

            /// Computes the power by repeated squaring, with a loop over the bits of the exponent.
            #[inline]
            fn op_pow(self, exponent: Self) -> Self {
                if let Some(result) = $reciprocal(self, exponent) {
                    return result;
                }
                let (mut result, mut base, mut rest): ($ty, $ty, $ty) = (1, self, exponent);
                while rest != 0 {
                    if rest & 1 != 0 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    rest >>= 1;
                }
                result
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
                Ord::min(self, other)
            }

            #[inline(always)]
            fn op_max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline(always)]
            fn op_abs(self) -> Self {
                $abs(self)
            }

            #[inline(always)]
            fn op_sign(self) -> Self {
                $sign(self)
            }
        }

        impl Integer for $ty {
            const BITS: u32 = $ty::BITS;

            #[inline(always)]
            fn op_shl(self, amount: u32) -> Self {
                self.wrapping_shl(amount)
            }

            #[inline(always)]
            fn op_shr(self, amount: u32) -> Self {
                self.wrapping_shr(amount)
            }

            #[inline(always)]
            fn op_popcount(self) -> Self {
                self.count_ones() as $ty
            }

            #[inline(always)]
            fn op_clz(self) -> Self {
                self.leading_zeros() as $ty
            }

            #[inline(always)]
            fn op_ctz(self) -> Self {
                self.trailing_zeros() as $ty
            }

            #[inline(always)]
            fn op_reverse_bits(self) -> Self {
                self.reverse_bits()
            }

            #[inline(always)]
            fn op_mul_hi(self, other: Self) -> Self {
                ((self as $wide).wrapping_mul(other as $wide) >> $ty::BITS) as $ty
            }

            #[inline(always)]
            fn op_saturating_add(self, other: Self) -> Self {
                self.saturating_add(other)
            }

            #[inline(always)]
            fn op_saturating_sub(self, other: Self) -> Self {
                self.saturating_sub(other)
            }
        }
    };
}

macro_rules! signed {
    ($ty:ident, $unsigned:ident, $wide:ident, $from:ident, $scalar:ident) => {
        integer!(
            $ty,
            $unsigned,
            $wide,
            $from,
            $scalar,
            $ty::wrapping_abs,
            $ty::signum,
            // The truncated reciprocal is nonzero only for 1 and -1.
            |base: $ty, exponent: $ty| match base {
                _ if exponent >= 0 => None,
                1 => Some(1),
                -1 => Some(if exponent & 1 == 0 { 1 } else { -1 }),
                _ => Some(0),
            }
        );
    };
}

macro_rules! unsigned {
    ($ty:ident, $wide:ident, $from:ident, $scalar:ident) => {
        integer!(
            $ty,
            $ty,
            $wide,
            $from,
            $scalar,
            |value: $ty| value,
            |value: $ty| (value != 0) as $ty,
            |_: $ty, _: $ty| None
        );
    };
}

signed!(i8, u8, i16, from_i8, I8);
signed!(i16, u16, i32, from_i16, I16);
signed!(i32, u32, i64, from_i32, I32);
signed!(i64, u64, i128, from_i64, I64);
unsigned!(u8, u16, from_u8, U8);
unsigned!(u16, u32, from_u16, U16);
unsigned!(u32, u64, from_u32, U32);
unsigned!(u64, u128, from_u64, U64);
