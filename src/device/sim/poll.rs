//! Polling loops, which wait for other threads: when a group that runs one yields.

use super::group::{Group, Op, Pause, PollSnapshot, WARP};

/// Iterations of polling loops in a time slice.
pub(crate) const SLICE: u32 = 16;
/// Consecutive slices in which only some of the warps poll, before the block is split.
const LONELY: u32 = 16;
/// Slices of polling before warps that all poll are split.
const LONG: u32 = 4096;
/// Number of consecutive pauses with the same state after which a group counts as waiting.
const PATIENCE: u32 = 64;
/// In a backward launch, this many blocks at either end run each warp separately from the start.
pub(crate) const ENDS: u64 = 4;

/// Returns the warps of this many lanes, one bit each.
pub(crate) fn warps(lanes: usize) -> u32 {
    u32::MAX.checked_shr(32 - lanes.div_ceil(WARP).min(32) as u32).unwrap_or(0)
}

/// Returns the warps with active lanes.
pub(crate) fn polling(g: &Group) -> u32 {
    g.active().fold(0, |warps, lane| warps | 1 << (lane / WARP))
}

/// Called at `op`, the end of an iteration of a polling loop whose mask is the current one. Returns the op to continue with, or
/// null if the group yields.
#[cold]
pub(crate) fn pause<const WAITS: bool>(g: &mut Group, op: *const Op) -> *const Op {
    let next = op.wrapping_add(1);
    let polling = polling(g);
    if polling == 0 {
        return next;
    }
    g.looks += 1;
    record::<WAITS>(g, op);
    g.lonely = if polling != g.warps { g.lonely + 1 } else { 0 };
    let is_split = g.lonely >= LONELY || (g.looks >= LONG && g.warps.count_ones() > 1);
    if !is_split && !g.is_split && !g.shares {
        return next;
    }
    (g.resume, g.pause) = (next, if is_split { Pause::Fork } else { Pause::Iteration });
    std::ptr::null()
}

/// Records whether the group waits as before: in the same loop, which no lane has left. If a group left the loop and entered
/// it again, the number of iterations differs, since an outer loop has run.
fn record<const WAITS: bool>(g: &mut Group, op: *const Op) {
    // SAFETY: G5: the worker's record lives as long as its groups run.
    let Some(worker) = (unsafe { g.worker.as_ref() }) else { return };
    let iterations = g.steps + u64::from(g.granted - g.ticks);
    let (before, lanes) = (g.poll_snapshot, g.active_count());
    let passed = iterations.wrapping_sub(before.iterations);
    let is_same = WAITS && (op, lanes, passed) == (before.op, before.lanes, before.iterations_since);
    let same = if is_same { before.repeats.saturating_add(1) } else { 0 };
    g.poll_snapshot = PollSnapshot { op, lanes, iterations, iterations_since: passed, repeats: same };
    if !is_same {
        worker.record_progress();
    } else if same >= PATIENCE {
        // SAFETY: C3: `op` is one of the code's.
        worker.record_wait(g.code().place(unsafe { (*op).y }).0);
    }
}
