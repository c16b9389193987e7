//! Variables of one call.

use std::sync::Arc;

use crate::check::typed::{Body, LocalId};
use crate::host::value::Value;
use crate::lower::Argument;

/// An activation of a body: its locals, and the values of its signature's names.
pub(crate) struct Frame {
    pub locals: Vec<Option<Value>>,
    /// By index in `sig.generics`.
    pub generics: Arc<[Argument]>,
    /// By index in `sig.dims`; `None` where a dimension is not bound yet.
    pub dims: Vec<Option<i64>>,
    /// The body of the function, which has the declared types of locals.
    pub body: Option<Arc<Body>>,
}

impl Frame {
    /// Creates a frame for a body without a signature.
    pub fn of_body(body: &Body) -> Frame {
        Frame { locals: vec![None; body.locals.len()], generics: Arc::new([]), dims: Vec::new(), body: None }
    }

    /// Creates a frame for constants; blocks in them add variables on demand.
    pub fn empty() -> Frame {
        Frame { locals: Vec::new(), generics: Arc::new([]), dims: Vec::new(), body: None }
    }

    pub fn set(&mut self, local: LocalId, value: Value) {
        *self.slot(local) = Some(value);
    }

    /// Returns the slot of a variable, created if necessary.
    pub fn slot(&mut self, local: LocalId) -> &mut Option<Value> {
        let at = local.index();
        if at >= self.locals.len() {
            self.locals.resize(at + 1, None);
        }
        &mut self.locals[at]
    }

    pub fn get(&self, local: LocalId) -> Option<&Value> {
        self.locals.get(local.index())?.as_ref()
    }
}
