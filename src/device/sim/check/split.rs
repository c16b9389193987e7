//! Where threads went another way, for those who wait for them; and threads that wait for what nobody will do.

use std::sync::atomic::{AtomicU64, Ordering};

use super::touch::Event;
use crate::device::sim::code::{MaskId, Reg, WaitDef};
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::lanes::slow::read_value;
use crate::device::sim::listen::Touch;
use crate::device::sim::memory;
use crate::lang::scalar::Scalar;

/// Per lane, one more than the span at which it was last seen to leave; 0 if it was not.
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
        let info = g.masks[from as usize];
        for lane in info.lo as usize * CHUNK..(info.hi as usize * CHUNK).min(g.lanes) {
            if g.has(from, lane) && !g.is_active(lane) && !(first && self.at[lane] != 0) {
                self.at[lane] = span + 1;
                self.any = true;
            }
        }
    }

    pub fn left(&mut self, g: &Group, span: u32) {
        g.active().for_each(|lane| self.at[lane] = span + 1);
        self.any = true;
    }

    pub fn gathered(&mut self, g: &Group) {
        if self.any {
            g.active().for_each(|lane| self.at[lane] = 0);
        }
    }

    pub fn at(&self, lane: usize) -> Option<u32> {
        self.at.get(lane).copied().filter(|&at| at > 0).map(|at| at - 1)
    }
}

/// Iterations of a polling loop in which nothing has changed, before it is taken for endless. Kernels with such loops run on one
/// worker when they are checked, so that nobody else is about to change anything.
const PATIENCE: u32 = 100_000;
/// The same of a loop whose own count has a say in when it ends, but does not decide alone.
const COUNTING: u32 = 10_000_000;
/// Before it is said to wait when something else stops it.
const DOUBT: u32 = 1_000;

/// What the loops of a block poll.
#[derive(Default)]
pub(crate) struct Polls {
    /// By part of the block.
    parts: Vec<Polled>,
    /// Changes that this block has made, of which others know `told`.
    changes: u64,
    told: u64,
    /// What all blocks had told when this one last asked.
    heard: u64,
}

/// What a part of a block polls.
#[derive(Default)]
struct Polled {
    /// Of the last atomic operation: the place and what it held before.
    seen: Option<(usize, u64)>,
    text: String,
    loops: Vec<Waiting>,
    /// Iterations of any loop since something changed.
    turns: u32,
    /// The mask of the lanes that entered the loop.
    from: MaskId,
}

/// A loop that polls.
struct Waiting {
    span: u32,
    /// What it saw in this iteration and in the one before, in one number.
    sights: u64,
    sights_before: u64,
    /// The values by which it ends on its own, and those that have a say in it.
    counts: u64,
    weak: u64,
    /// Iterations that were like the one before but for the latter, and that were like it in every way.
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

    /// An access of the group: a store is progress, and so is an atomic operation elsewhere or on another value than before.
    pub(super) fn saw(&mut self, g: &Group, e: &Event<'_>) {
        if e.note.touch == Touch::Store {
            self.stir(None);
            return;
        }
        let Some(lane) = g.active().next() else { return };
        // SAFETY: the access is one of the group's code; the element has the scalar's size.
        let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { return };
        let value = super::race::in_memory(addr, e.access.scalar).bits;
        let part = self.part(g);
        let sight = mix(addr as u64, value);
        part.loops.iter_mut().for_each(|l| l.sights = mix(l.sights, sight));
        let atomic = e.note.touch.is_atomic();
        let other = atomic && part.seen != Some((addr as usize, value));
        // Of a loop with both, the atomic operation is what it waits by.
        if part.turns + 1 == DOUBT && (atomic || part.text.is_empty()) {
            let place = super::race::place_text(g, e, addr, 0);
            part.text = format!("`{place}` stays {}", super::race::in_memory(addr, e.access.scalar));
        }
        if other {
            part.seen = Some((addr as usize, value));
            self.stir(Some(g.part));
        }
    }

    /// Something has changed, for all parts but one: what that one sees, its own iterations tell.
    fn stir(&mut self, but: Option<usize>) {
        self.changes += 1;
        let others = self.parts.iter_mut().enumerate().filter(|&(number, _)| Some(number) != but);
        others.for_each(|(_, part)| part.stir());
    }

    /// Blocks that run at the same time tell each other of changes, each at its own iterations.
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

    /// Another iteration of a loop; whether nothing has changed for so long that nothing will. `changes` are those of all blocks.
    ///
    /// A loop that ends by its own count ends as long as it counts; and others may wait for what comes behind it.
    pub fn turn(&mut self, g: &Group, wait: &WaitDef, changes: &AtomicU64) -> bool {
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
        part.turns += 1;
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
        // Loops inside of this one may take many iterations in each of its own.
        let endless = (waiting.still >= DOUBT && part.turns >= PATIENCE) || waiting.quiet >= COUNTING;
        if looked {
            part.turns = 0;
            part.text.clear();
        }
        if counted {
            self.stir(Some(number));
        }
        endless
    }

    /// What the active lanes of this part wait for, if nothing has changed for a while.
    pub fn detail(&self, g: &Group) -> Option<String> {
        self.parts.get(g.part)?.detail(g)
    }
}

impl Polled {
    fn stir(&mut self) {
        self.loops.iter_mut().for_each(|l| (l.quiet, l.still) = (0, 0));
        self.turns = 0;
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
