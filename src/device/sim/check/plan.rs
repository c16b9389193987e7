//! The accesses of an entry into machine code, which are kept for the next one. Input: patterns. Output: whether they conflict with one
//! another.

use super::pattern::Pattern;
use crate::device::sim::events::Touch;

/// The accesses of an entry.
#[derive(Default)]
pub(super) struct Plan {
    /// What the accesses follow from.
    pub words: Vec<u64>,
    pub steps: Vec<Step>,
    /// No two of them can conflict, as far as they are to shared arrays.
    pub agrees: bool,
}

/// An access.
pub(super) struct Step {
    pub note: u32,
    /// Of a shared array: its number.
    pub shared: Option<usize>,
    pub touch: Touch,
    pub pattern: Pattern,
    pub hull: (isize, isize),
    /// An earlier one of the same entry writes these elements.
    pub written: bool,
}

/// Returns whether accesses to shared arrays do not conflict with one another.
pub(super) fn agree(steps: &[Step]) -> bool {
    let conflict = |a: &Step, b: &Step| {
        let (p, q) = (a.hull, b.hull);
        a.shared == b.shared
            && a.shared.is_some()
            && a.touch.conflicts(b.touch)
            && p.0 <= q.1
            && q.0 <= p.1
            && !a.pattern.agrees(&b.pattern)
    };
    (0..steps.len()).all(|at| !steps[..at].iter().any(|earlier| conflict(earlier, &steps[at])))
}
