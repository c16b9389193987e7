//! A scalar whose type is known only at run time.

use super::{Convert, Element, Scalar};
use crate::with_element;

/// A scalar value: its bits zero-extended to 64 (a `bool` is 0 or 1, an `i8` of -1 is 0xff).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    pub ty: Scalar,
    pub bits: u64,
}

impl Value {
    pub fn of<T: Element>(value: T) -> Value {
        Value { ty: T::SCALAR, bits: value.to_raw() }
    }

    /// Creates a value from the low bits of `bits`; the rest is ignored.
    pub fn from_bits(ty: Scalar, bits: u64) -> Value {
        with_element!(ty, T => Value::of(T::from_raw(bits)))
    }

    /// Returns `false` or zero.
    pub fn zero(ty: Scalar) -> Value {
        Value { ty, bits: 0 }
    }

    /// Returns `true` or one.
    pub fn one(ty: Scalar) -> Value {
        Value::of(true).to_type(ty)
    }

    /// Returns the value as a Rust type, if it has that type.
    pub fn get<T: Element>(self) -> Option<T> {
        (self.ty == T::SCALAR).then(|| T::from_raw(self.bits))
    }

    /// Converts to a Rust type by the language's rules.
    pub fn to<T: Element>(self) -> T {
        with_element!(self.ty, S => S::from_raw(self.bits).to::<T>())
    }

    /// Converts to a type by the language's rules.
    pub fn to_type(self, ty: Scalar) -> Value {
        with_element!(ty, T => Value::of(self.to::<T>()))
    }

    /// Returns the value of an integer; `None` for floats, 0 or 1 for `bool`.
    pub fn as_integer(self) -> Option<i128> {
        match self.ty {
            ty if ty.is_float() => None,
            ty if ty.is_signed() => Some(self.to::<i64>().into()),
            _ => Some(self.bits.into()),
        }
    }

    /// Converts an integer to any type: `None` if an integer type cannot represent it; floats round to nearest.
    pub fn from_integer(ty: Scalar, integer: i128) -> Option<Value> {
        let value = match i64::try_from(integer) {
            Ok(small) => Value::of(small).to_type(ty),
            Err(_) => match u64::try_from(integer) {
                Ok(large) => Value::of(large).to_type(ty),
                Err(_) if ty.is_float() => Value::of(f64::from_f64(integer as f64)).to_type(ty),
                Err(_) => return None,
            },
        };
        (ty.is_float() || value.as_integer() == Some(integer)).then_some(value)
    }

    /// Returns the value rounded to nearest as `f64`, for any type.
    pub fn as_f64(self) -> f64 {
        self.to()
    }

    /// Whether a `bool` is true or a number is nonzero.
    pub fn is_true(self) -> bool {
        self.to()
    }

    pub fn is_nan(self) -> bool {
        self.ty.is_float() && self.as_f64().is_nan()
    }

    /// Returns the value, or for a NaN the one that operations compute ([`Scalar::nan`]).
    pub fn with_defined_nan(self) -> Value {
        if self.is_nan() { Value { bits: self.ty.nan(), ..self } } else { self }
    }

    /// Returns the bytes in memory, little-endian; the first `ty.size()` are significant.
    pub fn to_bytes(self) -> [u8; 8] {
        self.bits.to_le_bytes()
    }

    /// Creates a value from `ty.size()` bytes of memory; missing ones are zero.
    pub fn from_bytes(ty: Scalar, bytes: &[u8]) -> Value {
        let mut raw = [0; 8];
        raw.iter_mut().zip(bytes.iter().take(ty.size())).for_each(|(to, from)| *to = *from);
        Value::from_bits(ty, u64::from_le_bytes(raw))
    }
}
