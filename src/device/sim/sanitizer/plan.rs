//! The accesses of an entry into machine code, which are kept for the next one. Input: patterns. Output: whether they conflict with one
//! another, and what the logs of shared arrays get.

use super::pattern::Pattern;
use super::quick::Part;
use crate::device::sim::events::Touch;
use crate::device::sim::group::Group;

/// The accesses of an entry.
#[derive(Default)]
pub(super) struct Plan {
    /// What the accesses follow from, besides the lanes.
    words: Vec<u64>,
    lanes: Option<Lanes>,
    pub steps: Vec<Step>,
    /// Those to shared arrays, by array.
    pub parts: Vec<(usize, Part)>,
    /// No two of them can conflict, as far as they are to shared arrays.
    pub agrees: bool,
}

/// Active lanes without gaps, of groups with the same shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Lanes {
    epoch: u32,
    first: usize,
    last: usize,
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

impl Lanes {
    /// Returns the active lanes; `None` if there may be gaps.
    pub fn of(g: &mut Group) -> Option<Lanes> {
        let (first, last) = if g.full { (0, g.lanes.saturating_sub(1)) } else { g.ends() };
        (g.full || g.solid || first == last).then_some(Lanes { epoch: g.epoch, first, last })
    }
}

impl Plan {
    /// Returns whether it is that of these words and lanes.
    pub fn is_of(&self, words: &[u64], lanes: Option<Lanes>) -> bool {
        lanes.is_some() && self.lanes == lanes && self.words == words
    }

    /// Makes it that of these accesses.
    pub fn become_of(&mut self, words: &[u64], lanes: Option<Lanes>, steps: Vec<Step>) {
        self.words.clear();
        self.words.extend_from_slice(words);
        (self.lanes, self.agrees, self.steps) = (lanes, agree(&steps), steps);
    }
}

/// Returns whether accesses to shared arrays do not conflict with one another.
fn agree(steps: &[Step]) -> bool {
    let conflict = |a: &Step, b: &Step| {
        let (p, q) = (a.hull, b.hull);
        a.shared == b.shared
            && a.shared.is_some()
            && a.touch.conflicts(b.touch)
            && p.0 <= q.1
            && q.0 <= p.1
            && !a.pattern.agrees(&b.pattern)
    };
    // Lanes that store to one element conflict within one access.
    let single = |step: &Step| step.shared.is_none() || step.touch != Touch::Store || step.pattern.is_single();
    steps.iter().all(single)
        && (0..steps.len()).all(|at| !steps[..at].iter().any(|earlier| conflict(earlier, &steps[at])))
}
