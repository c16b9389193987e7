//! The shape and the element type of a float, a vector or an array. A derivative has the same shape and type as its
//! value.

use crate::array::{Array, ElementType};
use crate::problem::HostResult;
use crate::value::{HostValue, Vector};
use clk_scalar::Scalar;

/// The shape and element type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ValueShape {
    /// The extents of an array; `None` for a float or a vector.
    pub shape: Option<Vec<usize>>,
    pub scalar: Scalar,
    pub lanes: usize,
}

impl ValueShape {
    /// Returns the shape of a float, a vector or an array of them; `None` for all other values.
    pub fn for_value(value: &HostValue) -> Option<ValueShape> {
        let (shape, scalar, lanes) = match value {
            HostValue::Traced(traced) => return ValueShape::for_value(traced.primal()),
            HostValue::Scalar(number) => (None, number.ty, 1),
            HostValue::Vector(vector) => (None, vector.ty(), vector.lanes()),
            HostValue::Array(array) => (Some(array.shape().to_vec()), array.scalar()?, array.element().lanes()),
            _ => return None,
        };
        scalar.is_float().then_some(ValueShape { shape, scalar, lanes })
    }

    pub fn shape(&self) -> &[usize] {
        self.shape.as_deref().unwrap_or_default()
    }

    /// Returns a value of the element type all of whose components are this number.
    pub fn number(&self, number: f64) -> HostValue {
        let one = clk_scalar::ScalarValue::of(number).to_type(self.scalar);
        match self.lanes {
            1 => HostValue::Scalar(one),
            lanes => HostValue::Vector(Vector::new(self.scalar, (0..lanes).map(|_| one.bits))),
        }
    }

    /// Returns zeros of this shape. An array is not shared, and its memory is allocated on first use.
    pub fn zeros(&self) -> HostResult<HostValue> {
        match &self.shape {
            None => Ok(self.number(0.0)),
            Some(shape) => {
                let element = match self.lanes {
                    1 => ElementType::Scalar(self.scalar),
                    lanes => ElementType::Vector(self.scalar, lanes as u8),
                };
                Array::unplaced(element, shape).map(HostValue::Array)
            }
        }
    }
}
