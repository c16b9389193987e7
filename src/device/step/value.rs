//! Values of threads.

use crate::ir::def::Ty;
use crate::lang::scalar::Value;

/// A value of a thread: a scalar, or the components of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Val {
    pub ty: Ty,
    pub lanes: [u64; 4],
}

impl Val {
    pub fn zero(ty: Ty) -> Val {
        Val { ty, lanes: [0; 4] }
    }

    pub fn scalar(value: Value) -> Val {
        Val { ty: Ty::Scalar(value.ty), lanes: [value.bits, 0, 0, 0] }
    }

    pub(super) fn i32(value: i32) -> Val {
        Val::scalar(Value::of(value))
    }

    pub(super) fn bool(value: bool) -> Val {
        Val::scalar(Value::of(value))
    }

    pub fn lane(&self, lane: usize) -> Value {
        Value { ty: self.ty.scalar(), bits: self.lanes[lane] }
    }

    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.ty.lanes() as usize).map(|lane| self.lane(lane))
    }

    pub fn from_values(ty: Ty, values: impl IntoIterator<Item = Value>) -> Val {
        let mut val = Val::zero(ty);
        val.lanes.iter_mut().zip(values).for_each(|(lane, value)| *lane = value.bits);
        val
    }

    pub(super) fn is_true(&self) -> bool {
        self.lane(0).is_true()
    }

    /// # Panics
    /// if it is no integer: the verifier lets no such module pass.
    pub(super) fn integer(&self) -> i128 {
        self.lane(0).as_integer().expect("an integer")
    }
}
