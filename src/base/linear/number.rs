//! The integers of a dictionary: narrow ones first, for speed, and wide ones where those overflow.
//!
//! Input: two numbers. Output: their sum, product or common divisor, or nothing where it does not fit.
//! Idea: almost all problems stay within 64 bits, where a checked product is one instruction and a jump.

/// A signed integer with checked arithmetic.
pub(super) trait Number: Copy + Ord {
    const ZERO: Self;
    const ONE: Self;
    /// The number, where it fits.
    fn from_wide(wide: i128) -> Option<Self>;
    /// The number as a wide one.
    fn wide(self) -> i128;
    fn plus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    fn negated(self) -> Option<Self>;
    /// The quotient, rounded to zero; the divisor is positive.
    fn over(self, divisor: Self) -> Self;
    /// The remainder of `over`.
    fn rest(self, divisor: Self) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline]
            fn from_wide(wide: i128) -> Option<Self> {
                Self::try_from(wide).ok()
            }
            #[inline]
            fn wide(self) -> i128 {
                i128::from(self)
            }
            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            #[inline]
            fn times(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            #[inline]
            fn negated(self) -> Option<Self> {
                self.checked_neg()
            }
            #[inline]
            fn over(self, divisor: Self) -> Self {
                self / divisor
            }
            #[inline]
            fn rest(self, divisor: Self) -> Self {
                self % divisor
            }
        }
    };
}

number!(i64);
number!(i128);

/// The positive common divisor of a positive number and another.
pub(super) fn gcd<T: Number>(a: T, b: T) -> Option<T> {
    if a == T::ONE || b == T::ONE {
        return Some(T::ONE);
    }
    let (mut a, mut b) = (a, if b < T::ZERO { b.negated()? } else { b });
    while b != T::ZERO {
        (a, b) = (b, a.rest(b));
    }
    Some(a)
}
