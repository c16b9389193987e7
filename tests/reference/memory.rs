//! Arrays of the reference interpreter: one vector of bytes each.

use std::collections::HashMap;

use clk_lang::base::arena::Id;
use clk_lang::ir::def::{Function, Layout, Memory, Ty};
use clk_lang::lang::scalar::Value;

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

    pub fn i32(value: i32) -> Val {
        Val::scalar(Value::of(value))
    }

    pub fn bool(value: bool) -> Val {
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

    pub fn is_true(&self) -> bool {
        self.lane(0).is_true()
    }

    pub fn integer(&self) -> i128 {
        self.lane(0).as_integer().expect("an integer")
    }
}

/// The storage of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// The launch's argument at this position.
    Global(usize),
    /// A function's shared array; each block has one.
    Shared(Id<Function>, Id<Memory>),
    /// A thread's local array.
    Local(usize),
}

/// An array of a function, resolved to what the launch or the caller passed for it.
#[derive(Clone, Debug)]
pub struct Array<'m> {
    pub name: &'m str,
    pub store: Store,
    pub layout: &'m Layout,
    pub extents: Vec<u32>,
}

/// The arrays that one thread can access.
pub struct Arrays<'a> {
    pub global: &'a mut [Vec<u8>],
    pub shared: &'a mut HashMap<(Id<Function>, Id<Memory>), Vec<u8>>,
    pub local: &'a mut [Vec<u8>],
}

impl Arrays<'_> {
    fn bytes(&mut self, store: Store) -> &mut Vec<u8> {
        match store {
            Store::Global(param) => &mut self.global[param],
            Store::Shared(function, memory) => self.shared.get_mut(&(function, memory)).expect("shared array"),
            Store::Local(index) => &mut self.local[index],
        }
    }

    pub fn load(&mut self, store: Store, offset: usize, ty: Ty) -> Val {
        let size = ty.scalar().size();
        let bytes = self.bytes(store);
        let at = |lane: usize| Value::from_bytes(ty.scalar(), &bytes[offset + lane * size..][..size]);
        Val::from_values(ty, (0..ty.lanes() as usize).map(at))
    }

    pub fn store(&mut self, store: Store, offset: usize, val: Val) {
        let size = val.ty.scalar().size();
        for (lane, value) in val.values().enumerate() {
            self.bytes(store)[offset + lane * size..][..size].copy_from_slice(&value.to_bytes()[..size]);
        }
    }

    pub fn clear(&mut self, store: Store) {
        self.bytes(store).fill(0);
    }
}
