//! Decides when a group that runs a polling loop yields to other groups.

use super::group::{Op, Pause, PollSnapshot, ThreadGroup, WARP};

/// Number of iterations of a polling loop in a time slice.
pub(crate) const POLLS_PER_SLICE: u32 = 16;
/// Number of consecutive time slices in which only some warps poll, after which the block is split into two groups of
/// warps.
const MAX_PARTIAL_SLICES: u32 = 16;
/// Number of time slices with polling after which the block is split although all its warps poll.
const MAX_FULL_SLICES: u32 = 4096;
/// Number of consecutive pauses in the same state after which a group is recorded as waiting for other threads.
const PAUSES_BEFORE_STALL: u32 = 64;
/// Number of blocks at either end of a launch in reverse order whose warps run separately from the start.
pub(crate) const SPLIT_BLOCKS_AT_ENDS: u64 = 4;

/// Returns a bit mask of all warps of a group with this many lanes.
pub(crate) fn all_warps(lanes: usize) -> u32 {
    u32::MAX.checked_shr(32 - lanes.div_ceil(WARP).min(32) as u32).unwrap_or(0)
}

/// Returns a bit mask of the warps that have active lanes.
pub(crate) fn active_warps(g: &ThreadGroup) -> u32 {
    g.active().fold(0, |warps, lane| warps | 1 << (lane / WARP))
}

/// Ends a time slice, after an iteration of a polling loop whose mask is the current one. Returns the op to continue
/// with, or null if the group yields.
#[cold]
pub(crate) fn yield_or_continue<const WAITS: bool>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    let next = op.wrapping_add(1);
    let polling = active_warps(g);
    if polling == 0 {
        return next;
    }
    g.polling.slices += 1;
    record_pause::<WAITS>(g, op);
    g.polling.partial_slices = if polling != g.split.warps { g.polling.partial_slices + 1 } else { 0 };
    let is_split = g.polling.partial_slices >= MAX_PARTIAL_SLICES
        || (g.polling.slices >= MAX_FULL_SLICES && g.split.warps.count_ones() > 1);
    if !is_split && !g.split.is_split && !g.yields_to_blocks {
        return next;
    }
    g.pause.pause_after(op, if is_split { Pause::Fork } else { Pause::Iteration })
}

/// Records whether the group is still waiting: since the previous pause, it has stayed in the same loop and no lane has
/// left the loop. If the group had left the loop and entered it again, the iterations of the outer loop would change
/// `iterations_since`.
fn record_pause<const WAITS: bool>(g: &mut ThreadGroup, op: *const Op) {
    // SAFETY: G5: the worker's record outlives the execution of its groups.
    let Some(worker) = (unsafe { g.polling.worker.as_ref() }) else { return };
    let iterations = g.budget.iterations();
    let (before, lanes) = (g.polling.snapshot, g.active_count());
    let iterations_since = iterations.wrapping_sub(before.iterations);
    let is_same = WAITS && (op, lanes, iterations_since) == (before.op, before.lanes, before.iterations_since);
    let repeats = if is_same { before.repeats.saturating_add(1) } else { 0 };
    g.polling.snapshot = PollSnapshot { op, lanes, iterations, iterations_since, repeats };
    if !is_same {
        worker.record_progress();
    } else if repeats >= PAUSES_BEFORE_STALL {
        // SAFETY: C3: `op` is an op of the code.
        worker.record_wait(g.code().source.location(unsafe { (*op).y }).0);
    }
}
