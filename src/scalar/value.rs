//! A scalar whose type is known only at run time.

use super::{Convert, Scalar, ScalarType};
use crate::with_element;

/// A scalar value: its bits zero-extended to 64 (a `bool` is 0 or 1, an `i8` of -1 is 0xff).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScalarValue {
    pub ty: Scalar,
    pub bits: u64,
}

impl ScalarValue {
    pub fn of<T: ScalarType>(value: T) -> ScalarValue {
        ScalarValue { ty: T::SCALAR, bits: value.to_raw() }
    }

    /// Creates a value of a type from the low bits of `bits`. Ignores the other bits.
    pub fn from_bits(ty: Scalar, bits: u64) -> ScalarValue {
        with_element!(ty, T => ScalarValue::of(T::from_raw(bits)))
    }

    /// Returns `false` for `bool`, zero for other types.
    pub fn zero(ty: Scalar) -> ScalarValue {
        ScalarValue { ty, bits: 0 }
    }

    /// Returns `true` for `bool`, one for other types.
    pub fn one(ty: Scalar) -> ScalarValue {
        ScalarValue::of(true).to_type(ty)
    }

    /// Returns the value as a `T`; `None` if its type is not the one that `T` represents.
    pub fn get<T: ScalarType>(self) -> Option<T> {
        (self.ty == T::SCALAR).then(|| T::from_raw(self.bits))
    }

    /// Converts to a Rust type by the language's rules.
    pub fn to<T: ScalarType>(self) -> T {
        with_element!(self.ty, S => S::from_raw(self.bits).to::<T>())
    }

    /// Converts to a type by the language's rules.
    pub fn to_type(self, ty: Scalar) -> ScalarValue {
        with_element!(ty, T => ScalarValue::of(self.to::<T>()))
    }

    /// Returns the value of an integer; `None` for floats, 0 or 1 for `bool`.
    pub fn as_integer(self) -> Option<i128> {
        match self.ty {
            ty if ty.is_float() => None,
            ty if ty.is_signed() => Some(self.to::<i64>().into()),
            _ => Some(self.bits.into()),
        }
    }

    /// Converts an integer to any type. Rounds to nearest for floats. Returns `None` if an integer type cannot
    /// represent it.
    pub fn from_integer(ty: Scalar, integer: i128) -> Option<ScalarValue> {
        let value = match i64::try_from(integer) {
            Ok(small) => ScalarValue::of(small).to_type(ty),
            Err(_) => match u64::try_from(integer) {
                Ok(large) => ScalarValue::of(large).to_type(ty),
                Err(_) if ty.is_float() => ScalarValue::of(f64::from_f64(integer as f64)).to_type(ty),
                Err(_) => return None,
            },
        };
        (ty.is_float() || value.as_integer() == Some(integer)).then_some(value)
    }

    /// Returns the value rounded to nearest as `f64`, for any type.
    pub fn as_f64(self) -> f64 {
        self.to()
    }

    /// Returns whether a `bool` is true or a number is nonzero.
    pub fn is_true(self) -> bool {
        self.to()
    }

    pub fn is_nan(self) -> bool {
        self.ty.is_float() && self.as_f64().is_nan()
    }

    /// Returns the value, or [`Scalar::canonical_nan`] if it is a NaN.
    pub fn with_canonical_nan(self) -> ScalarValue {
        if self.is_nan() { ScalarValue { bits: self.ty.canonical_nan(), ..self } } else { self }
    }

    /// Returns the bytes in memory, little-endian; the first `ty.size()` are significant.
    pub fn to_bytes(self) -> [u8; 8] {
        self.bits.to_le_bytes()
    }

    /// Creates a value from `ty.size()` bytes of memory; missing bytes are zero.
    pub fn from_bytes(ty: Scalar, bytes: &[u8]) -> ScalarValue {
        let mut raw = [0; 8];
        raw.iter_mut().zip(bytes.iter().take(ty.size())).for_each(|(to, from)| *to = *from);
        ScalarValue::from_bits(ty, u64::from_le_bytes(raw))
    }
}
