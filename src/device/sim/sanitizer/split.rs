//! Divergence records, for threads that wait at a barrier; and detection of polling loops that never end.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::Event;
use crate::device::sim::code::{MaskId, Reg, WaitDef};
use crate::device::sim::events::Touch;
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::lanes::slow::read_value;
use crate::device::sim::memory;
use crate::lang::scalar::Scalar;

/// By lane, the span at which it was last seen to leave, plus one; 0 for none.
pub(crate) struct Splits {
    at: Vec<u32>,
    /// Some lane has left.
    any: bool,
}

impl Splits {
    pub fn new(lanes: usize) -> Splits {
        Splits { at: vec![0; lanes.next_multiple_of(CHUNK)], any: false }
    }

    pub fn begin(&mut self) {
        if std::mem::take(&mut self.any) {
            self.at.fill(0);
        }
    }

    pub fn parted(&mut self, g: &Group, from: MaskId, span: u32, first: bool) {
        if g.full {
            return;
        }
        let info = g.masks[from as usize];
        for chunk in info.lo as usize..info.hi as usize {
            let (members, active) = (g.lanes_of(from, chunk), g.active_lanes(chunk));
            let Some(at) = self.at.get_mut(chunk * CHUNK..(chunk + 1) * CHUNK) else { break };
            let mut gone = false;
            for i in 0..CHUNK {
                let parts = members[i] != 0 && active[i] == 0 && !(first && at[i] != 0);
                at[i] = if parts { span + 1 } else { at[i] };
                gone |= parts;
            }
            self.any |= gone;
        }
    }

    pub fn left(&mut self, g: &Group, span: u32) {
        g.active().for_each(|lane| self.at[lane] = span + 1);
        self.any = true;
    }

    pub fn gathered(&mut self, g: &Group) {
        if !self.any {
            return;
        }
        if g.full {
            self.at.fill(0);
            self.any = false;
            return;
        }
        g.active().for_each(|lane| self.at[lane] = 0);
    }

    pub fn at(&self, lane: usize) -> Option<u32> {
        self.at.get(lane).copied().filter(|&at| at > 0).map(|at| at - 1)
    }
}

/// Iterations of a polling loop without any change, after which it is considered endless. Kernels with such loops are checked on
/// one worker, so that no concurrent change can be pending.
const PATIENCE: u32 = 100_000;
/// The same for a loop with a counter that takes part in its condition, but does not decide alone.
const COUNTING: u32 = 10_000_000;
/// The same before the loop is said to wait, when something else stops it.
const DOUBT: u32 = 1_000;

/// The polling state of a block.
#[derive(Default)]
pub(crate) struct Polls {
    /// By warp split of the block.
    parts: Vec<Polled>,
    /// Changes that this block has made, of which `told` are known to others.
    changes: u64,
    told: u64,
    /// The number of changes of all blocks when this one last asked.
    heard: u64,
}

/// The polling state of a warp split.
#[derive(Default)]
struct Polled {
    /// The last atomic operation: the address and the old value.
    seen: Option<(usize, u64)>,
    text: String,
    loops: Vec<Waiting>,
    /// Iterations of any loop since the last change.
    iterations: u32,
    /// The mask of the lanes that entered the loop.
    from: MaskId,
}

/// A polling loop.
struct Waiting {
    span: u32,
    /// Hashes of what it read in this iteration and in the one before.
    sights: u64,
    sights_before: u64,
    /// Hashes of the counters that end it alone, and of those that take part.
    counts: u64,
    weak: u64,
    /// Consecutive iterations equal to the previous one except for `weak`, and equal in every respect.
    quiet: u32,
    still: u32,
}

fn mix(h: u64, n: u64) -> u64 {
    (h.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Polls {
    fn part(&mut self, g: &Group) -> &mut Polled {
        if self.parts.len() <= g.part {
            self.parts.resize_with(g.part + 1, Polled::default);
        }
        &mut self.parts[g.part]
    }

    /// Handles an access of the group: a store is progress, and so is an atomic operation on another address or value than
    /// before.
    pub(super) fn saw(&mut self, g: &Group, e: &Event<'_>) {
        if e.note.touch == Touch::Store {
            self.stir(None);
            return;
        }
        let Some(lane) = g.active().next() else { return };
        // SAFETY: C5: the access is one of the code's; the element, which is in bounds, has the scalar's size.
        let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { return };
        let value = super::text::in_memory(addr, e.access.scalar).bits;
        let part = self.part(g);
        let sight = mix(addr as u64, value);
        part.loops.iter_mut().for_each(|l| l.sights = mix(l.sights, sight));
        let atomic = e.note.touch.is_atomic();
        let other = atomic && part.seen != Some((addr as usize, value));
        // In a loop with both, the atomic operation is what it waits for.
        if part.iterations + 1 == DOUBT && (atomic || part.text.is_empty()) {
            let place = super::text::place_text(g, e, addr, 0);
            part.text = format!("`{place}` stays {}", super::text::in_memory(addr, e.access.scalar));
        }
        if other {
            part.seen = Some((addr as usize, value));
            self.stir(Some(g.part));
        }
    }

    /// Records a change for all warp splits but one, whose own iterations observe it.
    fn stir(&mut self, but: Option<usize>) {
        self.changes += 1;
        let others = self.parts.iter_mut().enumerate().filter(|&(number, _)| Some(number) != but);
        others.for_each(|(_, part)| part.stir());
    }

    /// Exchanges changes with concurrent blocks, in each of their iterations.
    fn exchange(&mut self, changes: &AtomicU64) {
        let now = changes.load(Ordering::Relaxed);
        if now != self.heard {
            self.parts.iter_mut().for_each(Polled::stir);
        }
        self.heard = now;
        if self.told != self.changes {
            self.told = self.changes;
            self.heard = changes.fetch_add(1, Ordering::Relaxed) + 1;
        }
    }

    /// Handles another iteration of a loop; returns whether nothing has changed for so long that nothing will. `changes` are
    /// those of all blocks.
    ///
    /// A loop that ends by its own counter makes progress while it counts; and others may wait for the code behind it.
    pub fn iteration(&mut self, g: &Group, wait: &WaitDef, changes: &AtomicU64) -> bool {
        self.exchange(changes);
        let values = |regs: &[(Reg, Scalar)]| {
            let lane = |h: u64, lane: usize| {
                regs.iter().fold(mix(h, lane as u64), |h, &(reg, scalar)| mix(h, read_value(g, reg, scalar, lane).bits))
            };
            if regs.is_empty() { 0 } else { g.active().fold(0, lane) }
        };
        let (counts, weak) = (values(&wait.counts), values(&wait.weak));
        let number = g.part;
        let part = self.part(g);
        part.from = wait.from;
        part.iterations += 1;
        let at = match part.loops.iter().position(|l| l.span == wait.span) {
            Some(at) => at,
            None => {
                part.loops.push(Waiting {
                    span: wait.span,
                    sights: 0,
                    sights_before: 0,
                    counts,
                    weak,
                    quiet: 0,
                    still: 0,
                });
                part.loops.len() - 1
            }
        };
        let waiting = &mut part.loops[at];
        let looked = waiting.sights != waiting.sights_before;
        let counted = waiting.counts != counts;
        waiting.sights_before = std::mem::take(&mut waiting.sights);
        waiting.quiet = if looked || counted { 0 } else { waiting.quiet + 1 };
        waiting.still = if waiting.quiet == 0 || waiting.weak != weak { 0 } else { waiting.still + 1 };
        (waiting.counts, waiting.weak) = (counts, weak);
        // Nested loops may take many iterations in each iteration of this one.
        let endless = (waiting.still >= DOUBT && part.iterations >= PATIENCE) || waiting.quiet >= COUNTING;
        if looked {
            part.iterations = 0;
            part.text.clear();
        }
        if counted {
            self.stir(Some(number));
        }
        endless
    }

    /// Describes what the active lanes of this warp split wait for, if nothing has changed for a while.
    pub fn detail(&self, g: &Group) -> Option<String> {
        self.parts.get(g.part)?.detail(g)
    }
}

impl Polled {
    fn stir(&mut self) {
        self.loops.iter_mut().for_each(|l| (l.quiet, l.still) = (0, 0));
        self.iterations = 0;
        self.text.clear();
    }

    fn detail(&self, g: &Group) -> Option<String> {
        if self.loops.iter().all(|l| l.still < DOUBT) || self.text.is_empty() {
            return None;
        }
        let warp = g.active().next()? / 32;
        let lanes = warp * 32..(warp * 32 + 32).min(g.lanes);
        let past = lanes.filter(|&lane| !g.is_active(lane) && g.has(self.from, lane)).count();
        let others = match past {
            0 => return Some(self.text.clone()),
            1 => "1 thread of their warp has left this loop and goes".to_string(),
            n => format!("{n} threads of their warp have left this loop and go"),
        };
        Some(format!("{}; {others} on only when they do", self.text))
    }
}
