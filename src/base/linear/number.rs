//! The integer type of a simplex dictionary: `i64` for speed, `i128` after an overflow.
//!
//! Input: two numbers. Output: their sum, product or common divisor; `None` on overflow. Idea: almost all problems stay
//! within 64 bits, where a checked product costs one multiplication and one branch.

/// A signed integer with checked arithmetic.
pub(super) trait CheckedInt: Copy + Ord {
    const ZERO: Self;
    const ONE: Self;
    /// Converts from `i128`; `None` if it does not fit.
    fn from_wide(wide: i128) -> Option<Self>;
    /// Converts to `i128`.
    fn wide(self) -> i128;
    fn plus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    fn negated(self) -> Option<Self>;
    /// Returns the quotient, rounded toward zero. The divisor must be positive.
    fn quotient(self, divisor: Self) -> Self;
    /// Returns the remainder of [`quotient`](Self::quotient).
    fn remainder(self, divisor: Self) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        impl CheckedInt for $type {
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
            fn quotient(self, divisor: Self) -> Self {
                self / divisor
            }
            #[inline]
            fn remainder(self, divisor: Self) -> Self {
                self % divisor
            }
        }
    };
}

number!(i64);
number!(i128);

/// Returns the greatest common divisor of a positive number and any number.
pub(super) fn gcd<T: CheckedInt>(a: T, b: T) -> Option<T> {
    if a == T::ONE || b == T::ONE {
        return Some(T::ONE);
    }
    let (mut a, mut b) = (a, if b < T::ZERO { b.negated()? } else { b });
    while b != T::ZERO {
        (a, b) = (b, a.remainder(b));
    }
    Some(a)
}
