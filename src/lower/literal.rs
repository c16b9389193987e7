//! Numbers as written.

use crate::lang::scalar::{Scalar, Value};

/// A number literal.
#[derive(Clone, Copy)]
pub(crate) enum Literal {
    Int(i128),
    Float(f64),
}

impl Literal {
    /// Converts the literal to a value of type `ty`; an integer wraps, since the checker has range-checked it.
    pub fn of(self, ty: Scalar) -> Value {
        match self {
            Literal::Int(number) if ty.is_float() => Value::of(number as f64).to_type(ty),
            Literal::Int(number) if ty == Scalar::Bool => Value::of(number != 0),
            Literal::Int(number) => Value::from_bits(ty, number as u64),
            Literal::Float(number) => Value::of(number).to_type(ty),
        }
    }
}
