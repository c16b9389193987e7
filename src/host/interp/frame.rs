//! Registers of one activation of a body.

use std::sync::{Arc, LazyLock};

use crate::check::typed::{Body, LocalId};
use crate::host::value::Value;
use crate::lang::scalar;
use crate::lower::Argument;

use super::code::Code;

/// An activation of a body: its variables and temporaries, and the values of its signature's names.
pub(crate) struct Frame {
    /// The code that runs; variables are kept as it says. Without code all are locals.
    pub code: Option<Arc<Code>>,
    pub slots: Vec<u64>,
    pub locals: Vec<Option<Value>>,
    /// The values that loops go over.
    pub held: Vec<Value>,
    /// The result of the code, on its way out.
    pub result: Value,
    /// By index in `sig.generics`.
    pub generics: Arc<[Argument]>,
    /// By index in `sig.dims`; `None` where a dimension is not bound yet.
    pub dims: Vec<Option<i64>>,
}

static NO_GENERICS: LazyLock<Arc<[Argument]>> = LazyLock::new(|| Arc::new([]));

impl Frame {
    /// Creates a frame with the values of a signature's names.
    pub fn new(generics: Arc<[Argument]>, dims: Vec<Option<i64>>) -> Frame {
        Frame {
            code: None,
            slots: Vec::new(),
            locals: Vec::new(),
            held: Vec::new(),
            result: Value::Unit,
            generics,
            dims,
        }
    }

    /// Creates a frame for constants.
    pub fn empty() -> Frame {
        Frame::new(NO_GENERICS.clone(), Vec::new())
    }

    /// Makes room for code.
    pub fn prepare(&mut self, code: &Arc<Code>) {
        if self.slots.len() < code.slots {
            self.slots.resize(code.slots, 0);
        }
        if self.locals.len() < code.locals {
            self.locals.resize(code.locals, None);
        }
        let first = code.first_constant as usize;
        if let Some(slots) = self.slots.get_mut(first..first + code.constants.len()) {
            slots.copy_from_slice(&code.constants);
        }
        self.code = Some(code.clone());
    }

    /// Drops all values, so that the frame can be used again.
    pub fn clear(&mut self) {
        if !self.generics.is_empty() {
            self.generics = NO_GENERICS.clone();
        }
        self.locals.clear();
        self.held.clear();
        self.dims.clear();
        self.result = Value::Unit;
    }

    /// Returns the body of the function, which has the declared types of locals.
    pub fn body(&self) -> Option<&Body> {
        self.code.as_ref()?.body.as_deref()
    }

    /// Returns the value of a variable, as it is kept.
    pub fn get(&self, local: LocalId) -> Option<Value> {
        match self.code.as_ref().and_then(|code| code.scalar(local)) {
            Some(ty) => Some(Value::Scalar(scalar::Value { ty, bits: *self.slots.get(local.index())? })),
            None => self.local(local).cloned(),
        }
    }

    /// Returns a variable that is not kept in a slot.
    pub fn local(&self, local: LocalId) -> Option<&Value> {
        self.locals.get(local.index())?.as_ref()
    }

    /// Returns the place of a variable that is not kept in a slot; it is added if necessary.
    pub fn place(&mut self, local: LocalId) -> &mut Option<Value> {
        let at = local.index();
        if at >= self.locals.len() {
            self.locals.resize(at + 1, None);
        }
        &mut self.locals[at]
    }

    /// Sets a variable; false if it is kept in a slot and the value has another type.
    #[must_use]
    pub fn set(&mut self, local: LocalId, value: Value) -> bool {
        let Some(ty) = self.code.as_ref().and_then(|code| code.scalar(local)) else {
            *self.place(local) = Some(value);
            return true;
        };
        let number = value.adapt(ty).filter(|number| number.ty == ty);
        match (number, self.slots.get_mut(local.index())) {
            (Some(number), Some(slot)) => {
                *slot = number.bits;
                true
            }
            _ => false,
        }
    }
}
