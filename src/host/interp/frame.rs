//! The variables of one call.

use std::sync::Arc;

use crate::check::typed::{Body, LocalId};
use crate::host::value::Value;
use crate::lower::Argument;

/// One activation of a body: its locals, and what its signature's names stand for.
pub(crate) struct Frame {
    pub locals: Vec<Option<Value>>,
    /// By position in `sig.generics`.
    pub generics: Arc<[Argument]>,
    /// By position in `sig.dims`; `None` where a dimension is not known yet.
    pub dims: Vec<Option<i64>>,
    /// The function's body, whose locals have declared types.
    pub body: Option<Arc<Body>>,
}

impl Frame {
    /// A frame for a body without a signature.
    pub fn of_body(body: &Body) -> Frame {
        Frame { locals: vec![None; body.locals.len()], generics: Arc::new([]), dims: Vec::new(), body: None }
    }

    /// A frame for constants, which name nothing of a body; blocks in them declare variables as they are reached.
    pub fn empty() -> Frame {
        Frame { locals: Vec::new(), generics: Arc::new([]), dims: Vec::new(), body: None }
    }

    pub fn set(&mut self, local: LocalId, value: Value) {
        *self.slot(local) = Some(value);
    }

    /// The place of a variable, made where there is none yet.
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
