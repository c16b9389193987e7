//! Frames: the registers of one activation of host code.

use std::sync::{Arc, LazyLock};

use crate::value::HostValue;
use clk_check::typed::{Body, LocalId};
use clk_lower::GenericArgument;

use super::code::HostCode;

/// Activation record of a function or other body: its variables, temporaries, compile-time arguments and dimensions.
pub(crate) struct HostFrame {
    /// The code that runs in this frame. It assigns variables to slots or locals. Without code, all variables are
    /// locals.
    pub code: Option<Arc<HostCode>>,
    pub slots: Vec<u64>,
    pub locals: Vec<Option<HostValue>>,
    /// Values over which the enclosing `for` loops iterate, outermost first.
    pub loop_values: Vec<HostValue>,
    /// Result of the code. The instruction that ends the code takes it.
    pub result: HostValue,
    /// Compile-time arguments, by index in `sig.generics`.
    pub generics: Arc<[GenericArgument]>,
    /// Values of the dimensions, by index in `sig.dims`. `None` if a dimension is not bound yet.
    pub dims: Vec<Option<i64>>,
}

static NO_GENERICS: LazyLock<Arc<[GenericArgument]>> = LazyLock::new(|| Arc::new([]));

impl HostFrame {
    /// Creates a frame with the given compile-time arguments and dimensions, and without code or variables.
    pub fn new(generics: Arc<[GenericArgument]>, dims: Vec<Option<i64>>) -> HostFrame {
        HostFrame {
            code: None,
            slots: Vec::new(),
            locals: Vec::new(),
            loop_values: Vec::new(),
            result: HostValue::Unit,
            generics,
            dims,
        }
    }

    /// Creates a frame without compile-time arguments and dimensions.
    pub fn empty() -> HostFrame {
        HostFrame::new(NO_GENERICS.clone(), Vec::new())
    }

    /// Prepares the frame to run `code`: resizes the register files and sets the constants.
    pub fn prepare(&mut self, code: &Arc<HostCode>) {
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

    /// Drops all values, so that the frame can be reused.
    pub fn clear(&mut self) {
        if !self.generics.is_empty() {
            self.generics = NO_GENERICS.clone();
        }
        self.locals.clear();
        self.loop_values.clear();
        self.dims.clear();
        self.result = HostValue::Unit;
    }

    /// Returns the body that is running, which has the declarations of its local variables.
    pub fn body(&self) -> Option<&Body> {
        self.code.as_ref()?.body.as_deref()
    }

    /// Returns the value of a variable.
    pub fn get(&self, local: LocalId) -> Option<HostValue> {
        match self.code.as_ref().and_then(|code| code.scalar(local)) {
            Some(ty) => Some(HostValue::Scalar(clk_scalar::ScalarValue { ty, bits: *self.slots.get(local.index())? })),
            None => self.local(local).cloned(),
        }
    }

    /// Returns the value of a variable that is not kept in a slot.
    pub fn local(&self, local: LocalId) -> Option<&HostValue> {
        self.locals.get(local.index())?.as_ref()
    }

    /// Returns a mutable reference to a variable that is not kept in a slot. Extends `locals` if necessary.
    pub fn local_mut(&mut self, local: LocalId) -> &mut Option<HostValue> {
        let at = local.index();
        if at >= self.locals.len() {
            self.locals.resize(at + 1, None);
        }
        &mut self.locals[at]
    }

    /// Sets a variable. Returns false if the variable is in a slot and the value has another type.
    #[must_use]
    pub fn set(&mut self, local: LocalId, value: HostValue) -> bool {
        let Some(ty) = self.code.as_ref().and_then(|code| code.scalar(local)) else {
            *self.local_mut(local) = Some(value);
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
