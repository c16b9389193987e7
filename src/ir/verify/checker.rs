//! The state of the verifier during the walk over a function.

use rustc_hash::{FxHashMap, FxHashSet};

use super::words::Violation;
use crate::ir::def::*;

/// The visibility of an expression during the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Visible,
    OutOfScope,
}

/// The state of the walk over a function.
pub(super) struct Checker<'a> {
    pub module: &'a Module,
    pub id: FunctionId,
    pub function: &'a Function,
    pub out: &'a mut Vec<Violation>,
    pub states: Vec<State>,
    /// Free expressions whose type has been checked.
    pub checked: FxHashSet<ExprId>,
    /// Enclosing labels; true for loops.
    pub labels: Vec<(Label, bool)>,
    pub used_labels: FxHashSet<Label>,
    /// The number of enclosing `For`s by local.
    pub counters: FxHashMap<LocalId, usize>,
    pub depth: usize,
}
