//! The form of a float, a vector or an array: what a derivative of it looks like.

use crate::host::array::{Array, Element};
use crate::host::problem::Outcome;
use crate::host::value::{Value, Vector};
use crate::lang::scalar::{self, Scalar};

/// What a value looks like, without its contents.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    /// None for a single value.
    pub shape: Option<Vec<usize>>,
    pub scalar: Scalar,
    pub lanes: usize,
}

impl Form {
    /// Returns the form of a float, a vector or an array of them; none of all other values.
    pub fn of(value: &Value) -> Option<Form> {
        let (shape, scalar, lanes) = match value {
            Value::Traced(traced) => return Form::of(traced.primal()),
            Value::Scalar(number) => (None, number.ty, 1),
            Value::Vector(vector) => (None, vector.ty(), vector.lanes()),
            Value::Array(array) => (Some(array.shape().to_vec()), array.scalar()?, array.element().lanes()),
            _ => return None,
        };
        scalar.is_float().then_some(Form { shape, scalar, lanes })
    }

    pub fn shape(&self) -> &[usize] {
        self.shape.as_deref().unwrap_or_default()
    }

    /// Returns one element that repeats a number.
    pub fn number(&self, number: f64) -> Value {
        let one = scalar::Value::of(number).to_type(self.scalar);
        match self.lanes {
            1 => Value::Scalar(one),
            lanes => Value::Vector(Vector::new(self.scalar, (0..lanes).map(|_| one.bits))),
        }
    }

    /// Returns zeros of this form, which nothing else shares; an array is allocated where it is used first.
    pub fn zeros(&self) -> Outcome<Value> {
        match &self.shape {
            None => Ok(self.number(0.0)),
            Some(shape) => {
                let element = match self.lanes {
                    1 => Element::Scalar(self.scalar),
                    lanes => Element::Vector(self.scalar, lanes as u8),
                };
                Array::unplaced(element, shape).map(Value::Array)
            }
        }
    }
}
