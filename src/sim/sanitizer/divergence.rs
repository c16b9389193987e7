//! Records the source spans at which lanes diverged, for reports of threads that miss a barrier. Also detects polling
//! loops that never end.

use std::sync::atomic::{AtomicU64, Ordering};

use super::checked_access::CheckedAccess;
use crate::code::{MaskId, PollingLoopDef, Reg};
use crate::events::AccessKind;
use crate::group::ThreadGroup;
use crate::group_registers::CHUNK;
use crate::lanes::slow::read_value;
use crate::memory;
use clk_scalar::Scalar;

/// For each lane, 1 plus the span at which it last diverged or exited; 0 if it did neither.
pub(crate) struct DivergenceRecords {
    spans: Vec<u32>,
    /// Set if some lane has a record.
    has_records: bool,
}

impl DivergenceRecords {
    pub fn new(lanes: usize) -> DivergenceRecords {
        DivergenceRecords { spans: vec![0; lanes.next_multiple_of(CHUNK)], has_records: false }
    }

    pub fn reset(&mut self) {
        if std::mem::take(&mut self.has_records) {
            self.spans.fill(0);
        }
    }

    pub fn on_divergence(&mut self, g: &ThreadGroup, from: MaskId, span: u32, first: bool) {
        if g.mask.full {
            return;
        }
        let info = g.masks[from as usize];
        for chunk in info.lo as usize..info.hi as usize {
            let (members, active) = (g.mask_lanes(from, chunk), g.active_lanes(chunk));
            let Some(at) = self.spans.get_mut(chunk * CHUNK..(chunk + 1) * CHUNK) else { break };
            let mut gone = false;
            for i in 0..CHUNK {
                let parts = members[i] != 0 && active[i] == 0 && !(first && at[i] != 0);
                at[i] = if parts { span + 1 } else { at[i] };
                gone |= parts;
            }
            self.has_records |= gone;
        }
    }

    pub fn on_exit(&mut self, g: &ThreadGroup, span: u32) {
        g.active().for_each(|lane| self.spans[lane] = span + 1);
        self.has_records = true;
    }

    pub fn on_loop_entry(&mut self, g: &ThreadGroup) {
        if !self.has_records {
            return;
        }
        if g.mask.full {
            self.spans.fill(0);
            self.has_records = false;
            return;
        }
        g.active().for_each(|lane| self.spans[lane] = 0);
    }

    pub fn span_of(&self, lane: usize) -> Option<u32> {
        self.spans.get(lane).copied().filter(|&at| at > 0).map(|at| at - 1)
    }
}

/// Number of iterations without any change after which a polling loop is considered endless. Kernels with such loops
/// are checked on one worker, so another block cannot change memory concurrently.
const MAX_IDENTICAL_ITERATIONS: u32 = 100_000;
/// Like [`MAX_IDENTICAL_ITERATIONS`], for a loop in which only counters change that cannot end the loop by themselves.
const MAX_IDLE_ITERATIONS: u32 = 10_000_000;
/// Number of iterations without a change after which a loop is reported as waiting if the launch is stopped for another
/// reason.
const MIN_WAIT_ITERATIONS: u32 = 1_000;

/// The polling state of a block.
#[derive(Default)]
pub(crate) struct PollingTracker {
    /// Indexed by warp split of the block.
    splits: Vec<PollingState>,
    /// Number of changes that this block has made, and its value when they were last published to other blocks
    /// (`published_changes`).
    changes: u64,
    published_changes: u64,
    /// The published number of changes of all blocks when this block last checked it.
    seen_changes: u64,
}

/// The polling state of a warp split.
#[derive(Default)]
struct PollingState {
    /// The last atomic operation: its address and the old value.
    last_atomic: Option<(usize, u64)>,
    text: String,
    loops: Vec<PollingLoop>,
    /// Number of iterations of all loops since the last change.
    iterations: u32,
    /// The mask of the lanes that entered the polling loop.
    entered: MaskId,
}

/// The state of a polling loop.
struct PollingLoop {
    span: u32,
    /// Hashes of the values that the loop has read in the current iteration and in the previous one.
    reads_hash: u64,
    previous_reads_hash: u64,
    /// Hash of the local variables whose change alone can make the exit condition true, and hash of those whose change
    /// suffices only together with other conditions (`weak_hash`).
    progress_hash: u64,
    weak_hash: u64,
    /// Number of consecutive iterations in which at most `weak_hash` changed, and in which nothing changed
    /// (`identical_iterations`).
    idle_iterations: u32,
    identical_iterations: u32,
}

fn mix(h: u64, n: u64) -> u64 {
    (h.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl PollingTracker {
    fn split_state(&mut self, number: usize) -> &mut PollingState {
        if self.splits.len() <= number {
            self.splits.resize_with(number + 1, PollingState::default);
        }
        &mut self.splits[number]
    }

    /// Called for an access of the group. A store is treated as progress. An atomic operation is treated as progress if
    /// its address or its old value differs from that of the previous atomic operation.
    pub(super) fn on_access(&mut self, g: &ThreadGroup, e: &CheckedAccess<'_>) {
        if e.site.kind == AccessKind::Store {
            self.on_change(None);
            return;
        }
        let Some(lane) = g.active().next() else { return };
        // SAFETY: C5: the access belongs to the code; the element is in bounds and has the scalar's size.
        let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { return };
        let value = super::element_names::read_element(addr, e.access.scalar).bits;
        let split = self.split_state(g.split.number);
        let read = mix(addr as u64, value);
        split.loops.iter_mut().for_each(|l| l.reads_hash = mix(l.reads_hash, read));
        let atomic = e.site.kind.is_atomic();
        let other = atomic && split.last_atomic != Some((addr as usize, value));
        // If a loop has both plain loads and atomic operations, the report names the element of the atomic operation.
        if split.iterations + 1 == MIN_WAIT_ITERATIONS && (atomic || split.text.is_empty()) {
            let place = super::element_names::component_name(g, e, addr, 0);
            split.text = format!("`{place}` stays {}", super::element_names::read_element(addr, e.access.scalar));
        }
        if other {
            split.last_atomic = Some((addr as usize, value));
            self.on_change(Some(g.split.number));
        }
    }

    /// Records a change: resets the iteration counts of all warp splits except `but`. The iterations of split `but`
    /// detect the change themselves.
    fn on_change(&mut self, but: Option<usize>) {
        self.changes += 1;
        let others = self.splits.iter_mut().enumerate().filter(|&(number, _)| Some(number) != but);
        others.for_each(|(_, split)| split.reset());
    }

    /// Publishes this block's changes, and reacts to changes of concurrent blocks. Called in each iteration of a
    /// polling loop.
    fn exchange(&mut self, changes: &AtomicU64) {
        let total = changes.load(Ordering::Relaxed);
        if total != self.seen_changes {
            self.splits.iter_mut().for_each(PollingState::reset);
        }
        self.seen_changes = total;
        if self.published_changes != self.changes {
            self.published_changes = self.changes;
            self.seen_changes = changes.fetch_add(1, Ordering::Relaxed) + 1;
        }
    }

    /// Called when a polling loop starts another iteration. Returns whether the loop is considered endless because
    /// nothing has changed for many iterations. `changes` counts the published changes of all blocks.
    ///
    /// A change of a local variable that can end the loop by itself is progress for all warp splits, because other
    /// threads may wait for the code after the loop.
    pub fn on_iteration(&mut self, g: &ThreadGroup, wait: &PollingLoopDef, changes: &AtomicU64) -> bool {
        self.exchange(changes);
        let values = |regs: &[(Reg, Scalar)]| {
            let lane = |h: u64, lane: usize| {
                regs.iter().fold(mix(h, lane as u64), |h, &(reg, scalar)| {
                    mix(h, read_value(&g.registers, reg, scalar, lane).bits)
                })
            };
            if regs.is_empty() { 0 } else { g.active().fold(0, lane) }
        };
        let (counts, weak) = (values(&wait.progress_locals), values(&wait.weak_locals));
        let number = g.split.number;
        let split = self.split_state(g.split.number);
        split.entered = wait.entered;
        split.iterations += 1;
        let at = match split.loops.iter().position(|l| l.span == wait.span) {
            Some(at) => at,
            None => {
                split.loops.push(PollingLoop {
                    span: wait.span,
                    reads_hash: 0,
                    previous_reads_hash: 0,
                    progress_hash: counts,
                    weak_hash: weak,
                    idle_iterations: 0,
                    identical_iterations: 0,
                });
                split.loops.len() - 1
            }
        };
        let waiting = &mut split.loops[at];
        let has_read_change = waiting.reads_hash != waiting.previous_reads_hash;
        let has_progress = waiting.progress_hash != counts;
        waiting.previous_reads_hash = std::mem::take(&mut waiting.reads_hash);
        waiting.idle_iterations = if has_read_change || has_progress { 0 } else { waiting.idle_iterations + 1 };
        waiting.identical_iterations = if waiting.idle_iterations == 0 || waiting.weak_hash != weak {
            0
        } else {
            waiting.identical_iterations + 1
        };
        (waiting.progress_hash, waiting.weak_hash) = (counts, weak);
        // `iterations` also counts the iterations of inner loops, so it alone does not show that this loop is endless.
        let endless = (waiting.identical_iterations >= MIN_WAIT_ITERATIONS
            && split.iterations >= MAX_IDENTICAL_ITERATIONS)
            || waiting.idle_iterations >= MAX_IDLE_ITERATIONS;
        if has_read_change {
            split.iterations = 0;
            split.text.clear();
        }
        if has_progress {
            self.on_change(Some(number));
        }
        endless
    }

    /// Describes the condition that the active lanes of this warp split wait for, if nothing has changed for a while.
    pub fn describe_wait(&self, g: &ThreadGroup) -> Option<String> {
        self.splits.get(g.split.number)?.describe_split_wait(g)
    }
}

impl PollingState {
    fn reset(&mut self) {
        self.loops.iter_mut().for_each(|l| (l.idle_iterations, l.identical_iterations) = (0, 0));
        self.iterations = 0;
        self.text.clear();
    }

    fn describe_split_wait(&self, g: &ThreadGroup) -> Option<String> {
        if self.loops.iter().all(|l| l.identical_iterations < MIN_WAIT_ITERATIONS) || self.text.is_empty() {
            return None;
        }
        let warp = g.active().next()? / 32;
        let lanes = warp * 32..(warp * 32 + 32).min(g.shape.lanes);
        let past = lanes.filter(|&lane| !g.is_active(lane) && g.mask_contains(self.entered, lane)).count();
        let others = match past {
            0 => return Some(self.text.clone()),
            1 => "1 thread of their warp has left this loop and waits".to_string(),
            n => format!("{n} threads of their warp have left this loop and wait"),
        };
        Some(format!("{}; {others} for them", self.text))
    }
}
