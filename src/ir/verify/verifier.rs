//! The state of the verifier during the walk over a function.

use rustc_hash::{FxHashMap, FxHashSet};

use super::violation::Violation;
use crate::def::*;

/// The state of an expression at the current point of the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExprVisibility {
    Waiting,
    Visible,
    OutOfScope,
}

/// The state of the walk over a function.
pub(super) struct FunctionVerifier<'a> {
    pub module: &'a Module,
    pub id: FunctionId,
    pub function: &'a Function,
    pub out: &'a mut Vec<Violation>,
    pub states: Vec<ExprVisibility>,
    /// Free expressions whose type has been checked.
    pub checked: FxHashSet<ExprId>,
    /// The labels of the enclosing statements. The flag is set for loops.
    pub labels: Vec<(Label, bool)>,
    pub used_labels: FxHashSet<Label>,
    /// For each local, the number of enclosing `For` loops whose counter it is.
    pub counters: FxHashMap<LocalId, usize>,
    pub depth: usize,
}
