//! The values that threads of the stepper compute.

use clk_ir::def::Ty;
use clk_scalar::ScalarValue;

/// A value of a thread: a scalar, or the components of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadValue {
    pub ty: Ty,
    pub lanes: [u64; 4],
}

impl ThreadValue {
    pub fn zero(ty: Ty) -> ThreadValue {
        ThreadValue { ty, lanes: [0; 4] }
    }

    pub fn scalar(value: ScalarValue) -> ThreadValue {
        ThreadValue { ty: Ty::Scalar(value.ty), lanes: [value.bits, 0, 0, 0] }
    }

    pub(super) fn i32(value: i32) -> ThreadValue {
        ThreadValue::scalar(ScalarValue::of(value))
    }

    pub(super) fn bool(value: bool) -> ThreadValue {
        ThreadValue::scalar(ScalarValue::of(value))
    }

    pub fn lane(&self, lane: usize) -> ScalarValue {
        ScalarValue { ty: self.ty.scalar(), bits: self.lanes[lane] }
    }

    pub fn values(&self) -> impl Iterator<Item = ScalarValue> + '_ {
        (0..self.ty.lanes() as usize).map(|lane| self.lane(lane))
    }

    pub fn from_values(ty: Ty, values: impl IntoIterator<Item = ScalarValue>) -> ThreadValue {
        let mut val = ThreadValue::zero(ty);
        val.lanes.iter_mut().zip(values).for_each(|(lane, value)| *lane = value.bits);
        val
    }

    pub(super) fn is_true(&self) -> bool {
        self.lane(0).is_true()
    }

    /// Returns the value as an integer.
    ///
    /// # Panics
    /// Panics if the value is not an integer, which the verifier prevents.
    pub(super) fn integer(&self) -> i128 {
        self.lane(0).as_integer().expect("an integer")
    }
}
