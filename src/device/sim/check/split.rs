//! Where threads went another way, for those who wait for them; and threads that wait for what nobody will do.

use super::touch::Event;
use crate::device::sim::code::MaskId;
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::listen::{Polling, Touch};
use crate::device::sim::memory;

/// Per lane, one more than the span at which it was last seen to leave; 0 if it was not.
pub struct Splits {
    at: Vec<u32>,
}

impl Splits {
    pub fn new(lanes: usize) -> Splits {
        Splits { at: vec![0; lanes.next_multiple_of(CHUNK)] }
    }

    pub fn begin(&mut self) {
        self.at.fill(0);
    }

    pub fn parted(&mut self, g: &Group, from: MaskId, span: u32, first: bool) {
        let info = g.masks[from as usize];
        for lane in info.lo as usize * CHUNK..(info.hi as usize * CHUNK).min(g.lanes) {
            if g.has(from, lane) && !g.is_active(lane) && !(first && self.at[lane] != 0) {
                self.at[lane] = span + 1;
            }
        }
    }

    pub fn left(&mut self, g: &Group, span: u32) {
        g.active().for_each(|lane| self.at[lane] = span + 1);
    }

    pub fn gathered(&mut self, g: &Group) {
        g.active().for_each(|lane| self.at[lane] = 0);
    }

    pub fn at(&self, lane: usize) -> Option<u32> {
        self.at.get(lane).copied().filter(|&at| at > 0).map(|at| at - 1)
    }
}

/// Turns of a polling loop in which nothing has changed, before it is taken for endless. Kernels with such loops run on one
/// worker when they are checked, so that nobody else is about to change anything.
const PATIENCE: u32 = 100_000;
/// The same of a loop that also counts, and may end by that.
const COUNTING: u32 = 10_000_000;
/// Before it is said to wait when something else stops it.
const DOUBT: u32 = 1_000;

/// What the loops of a block poll.
#[derive(Default)]
pub struct Polls {
    /// By part of the block.
    parts: Vec<Polled>,
}

/// What a loop polls.
#[derive(Default)]
struct Polled {
    /// Of the last atomic operation: the place and what it held before.
    seen: Option<(usize, u64)>,
    /// What the loads of this turn and of the turn before saw, in one number.
    loads: u64,
    loads_before: u64,
    text: String,
    quiet: u32,
    /// The mask of the lanes that entered the loop.
    from: MaskId,
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
            return self.stir();
        }
        let Some(lane) = g.active().next() else { return };
        // SAFETY: the access is one of the group's code; the element has the scalar's size.
        let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { return };
        let value = super::race::in_memory(addr, e.access.scalar).bits;
        let part = self.part(g);
        if e.note.touch == Touch::Load {
            let mix = |h: u64, n: u64| (h.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            part.loads = mix(mix(part.loads, addr as u64), value);
        } else if part.seen != Some((addr as usize, value)) {
            part.seen = Some((addr as usize, value));
            self.stir();
        }
        let part = self.part(g);
        // Of a loop with both, the atomic operation is what it waits by.
        if part.quiet + 1 == DOUBT && (e.note.touch == Touch::Atomic || part.text.is_empty()) {
            let place = super::race::place_text(g, e, addr, 0);
            part.text = format!("`{place}` stays {}", super::race::in_memory(addr, e.access.scalar));
        }
    }

    /// Something has changed.
    fn stir(&mut self) {
        for part in &mut self.parts {
            part.quiet = 0;
            part.text.clear();
        }
    }

    /// Another turn of a loop; whether nothing has changed for so long that nothing will.
    pub fn turn(&mut self, g: &Group, from: MaskId, how: Polling) -> bool {
        let part = self.part(g);
        let loads = std::mem::take(&mut part.loads);
        if how == Polling::Idle && loads != part.loads_before {
            part.loads_before = loads;
            self.stir();
        }
        let part = self.part(g);
        part.from = from;
        part.quiet += 1;
        part.quiet >= if how == Polling::Counting { COUNTING } else { PATIENCE }
    }

    /// What the active lanes of this part wait for, if nothing has changed for a while.
    pub fn detail(&self, g: &Group) -> Option<String> {
        self.parts.get(g.part)?.detail(g)
    }
}

impl Polled {
    fn detail(&self, g: &Group) -> Option<String> {
        if self.quiet < DOUBT || self.text.is_empty() {
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
