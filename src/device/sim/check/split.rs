//! Where threads went another way, for those who wait for them; and threads that wait for what nobody will do.

use super::touch::Event;
use crate::device::FaultKind;
use crate::device::sim::code::MaskId;
use crate::device::sim::fault::stop_at;
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::listen::Touch;
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

    /// # Safety
    /// `from` is a mask of the group's code.
    pub unsafe fn parted(&mut self, g: &Group, from: MaskId, span: u32, first: bool) {
        let info = g.masks[from as usize];
        // SAFETY: masks are registers of the code with room for all lanes.
        let lanes: *const u32 = unsafe { g.slot(g.code().masks[from as usize]).ptr.cast() };
        for lane in info.lo as usize * CHUNK..(info.hi as usize * CHUNK).min(g.lanes) {
            let was = info.full || unsafe { *lanes.add(lane) != 0 };
            if was && !g.is_active(lane) && !(first && self.at[lane] != 0) {
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

/// What a loop polls.
#[derive(Default)]
pub struct Polls {
    /// Of the last atomic operation: the place and what it held before.
    seen: Option<(usize, u64)>,
    text: String,
    quiet: u32,
}

impl Polls {
    /// An access of the group: a store is progress, and so is an atomic operation elsewhere or on another value than before.
    pub(super) fn saw(&mut self, g: &Group, e: &Event<'_>) {
        match e.note.touch {
            Touch::Load => {}
            Touch::Store => self.quiet = 0,
            Touch::Atomic => {
                let Some(lane) = g.active().next() else { return };
                // SAFETY: the access is one of the group's code; the element has the scalar's size.
                let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { return };
                let value = super::race::in_memory(addr, e.access.scalar).bits;
                if self.seen != Some((addr as usize, value)) {
                    (self.seen, self.quiet) = (Some((addr as usize, value)), 0);
                } else if self.quiet + 1 == PATIENCE {
                    let place = super::race::place_text(g, e, addr, 0);
                    self.text = format!("`{place}` stays {}", super::race::in_memory(addr, e.access.scalar));
                }
            }
        }
    }

    /// Another turn of a loop with atomics.
    pub fn turn(&mut self, g: &mut Group, span: u32) {
        self.quiet += 1;
        if self.quiet < PATIENCE || self.text.is_empty() {
            return;
        }
        let lane = g.active().next().unwrap_or(0);
        let others = g.active_count().saturating_sub(1) as u64;
        stop_at(g, FaultKind::Deadlock { detail: self.text.clone() }, span, lane, others);
    }
}
