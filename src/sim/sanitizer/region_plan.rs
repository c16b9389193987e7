//! The accesses of a region of machine code, cached from one entry into the region to the next. Input: the patterns of
//! the accesses. Output: whether they conflict with each other, and their entries for the logs of shared arrays.

use super::access_pattern::AccessPattern;
use super::shared_access_log::AccessSummary;
use crate::events::AccessKind;
use crate::group::ThreadGroup;

/// The cached accesses of a region.
#[derive(Default)]
pub(super) struct CheckPlan {
    /// The values that, together with the active lanes, determine the accesses.
    words: Vec<u64>,
    lanes: Option<ActiveRange>,
    pub accesses: Vec<PlannedAccess>,
    /// The accesses to shared arrays, as pairs of a memory and the accesses to it.
    pub log_entries: Vec<(usize, AccessSummary)>,
    /// Set if the accesses to shared arrays do not conflict with each other.
    pub is_conflict_free: bool,
}

/// A contiguous range of active lanes. `epoch` identifies the shape of the group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ActiveRange {
    epoch: u32,
    first: usize,
    last: usize,
}

/// The pattern of one access in all iterations of its loops.
pub(super) struct PlannedAccess {
    pub site: u32,
    /// The index of the memory, if it is a shared array.
    pub shared: Option<usize>,
    pub kind: AccessKind,
    pub pattern: AccessPattern,
    pub hull: (isize, isize),
    /// Set if an earlier access of the region writes these elements.
    pub written: bool,
}

impl ActiveRange {
    /// Returns the range of active lanes; `None` if they may not be contiguous.
    pub fn of(g: &mut ThreadGroup) -> Option<ActiveRange> {
        let (first, last) = if g.mask.full { (0, g.shape.lanes.saturating_sub(1)) } else { g.mask.active_bounds() };
        (g.mask.full || g.mask.is_contiguous || first == last).then_some(ActiveRange {
            epoch: g.plans.epoch,
            first,
            last,
        })
    }
}

impl CheckPlan {
    /// Returns whether the plan contains the accesses for these values and lanes.
    pub fn matches(&self, words: &[u64], lanes: Option<ActiveRange>) -> bool {
        lanes.is_some() && self.lanes == lanes && self.words == words
    }

    /// Replaces the contents of the plan by the accesses for these values and lanes.
    pub fn replace(&mut self, words: &[u64], lanes: Option<ActiveRange>, steps: Vec<PlannedAccess>) {
        self.words.clear();
        self.words.extend_from_slice(words);
        (self.lanes, self.is_conflict_free, self.accesses) = (lanes, are_conflict_free(&steps), steps);
    }
}

/// Returns whether the accesses to shared arrays do not conflict with each other.
fn are_conflict_free(steps: &[PlannedAccess]) -> bool {
    let conflict = |a: &PlannedAccess, b: &PlannedAccess| {
        let (p, q) = (a.hull, b.hull);
        a.shared == b.shared
            && a.shared.is_some()
            && a.kind.conflicts_with(b.kind)
            && p.0 <= q.1
            && q.0 <= p.1
            && !a.pattern.has_same_lanes(&b.pattern)
    };
    // If several lanes store to the same element, the access conflicts with itself.
    let single =
        |step: &PlannedAccess| step.shared.is_none() || step.kind != AccessKind::Store || step.pattern.is_single();
    steps.iter().all(single)
        && (0..steps.len()).all(|at| !steps[..at].iter().any(|earlier| conflict(earlier, &steps[at])))
}
