//! Initialization checks of local arrays: which elements have been written.

use crate::base::room;
use crate::device::sim::code::{Code, MemoryKind};
use crate::device::sim::group::Group;
use crate::device::sim::memory;

/// By local array, 4-byte column of its elements and lane: 0 or 1.
pub(crate) struct Locals {
    pub(super) written: Vec<Vec<u8>>,
    pub(super) lanes: usize,
}

impl Locals {
    pub fn new(code: &Code, lanes: usize) -> Locals {
        let columns = |k: usize| match (code.memories[k].kind, &code.watched[k]) {
            (MemoryKind::Local, Some(_)) => memory::layout::local_columns(&code.memories[k]),
            _ => 0,
        };
        Locals { written: (0..code.memories.len()).map(|k| room::zeros(columns(k) * lanes)).collect(), lanes }
    }

    pub fn begin(&mut self) {
        // Filling nothing at the address of an empty vector, which is not mapped, may take longer than all else at the start of a
        // block: masked stores to such addresses trap into microcode.
        self.written.iter_mut().filter(|w| !w.is_empty()).for_each(|w| w.fill(0));
    }

    pub fn declared(&mut self, g: &Group, memory: usize) {
        let written = &mut self.written[memory];
        if g.full {
            return written.fill(0);
        }
        for column in written.chunks_mut(self.lanes.max(1)) {
            g.active().for_each(|lane| column[lane] = 0);
        }
    }
}
