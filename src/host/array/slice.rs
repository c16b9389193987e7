//! Indexing and slicing: which elements an index expression picks, and copying them out and in.

use crate::host::array::Array;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;

/// What is asked of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceSpec {
    /// One position; the axis goes away.
    At(i64),
    /// `a..b step s`; ends that are left out are the axis's own.
    Range { start: Option<i64>, end: Option<i64>, inclusive: bool, step: Option<i64> },
}

impl SliceSpec {
    /// `..`
    pub const ALL: SliceSpec = SliceSpec::Range { start: None, end: None, inclusive: false, step: None };
}

impl Array {
    /// The element at these indices, one per axis.
    pub fn get(&self, indices: &[i64]) -> Outcome<Value> {
        let _ = indices;
        Err(Problem::new("E0502", "not yet"))
    }
}
