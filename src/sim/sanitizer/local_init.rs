//! Initialization checks of local arrays.

use crate::code::{KernelTables, MemoryKind};
use crate::group::ThreadGroup;
use crate::memory;
use clk_base::alloc;

/// For each local array, 4-byte column and lane: 1 if it has been written, otherwise 0.
pub(crate) struct LocalInitMap {
    pub(super) written: Vec<Vec<u8>>,
    pub(super) lanes: usize,
}

impl LocalInitMap {
    pub fn new(code: &KernelTables, lanes: usize) -> LocalInitMap {
        let columns = |k: usize| match (code.memories[k].kind, &code.events.tracked[k]) {
            (MemoryKind::Local, Some(_)) => memory::layout::local_columns(&code.memories[k]),
            _ => 0,
        };
        LocalInitMap { written: (0..code.memories.len()).map(|k| alloc::zeros(columns(k) * lanes)).collect(), lanes }
    }

    pub fn reset(&mut self) {
        // Skip empty vectors. Filling one would execute a masked store at its dangling, unmapped address. Such a store
        // traps into microcode, and can take longer than all other work at the start of a block.
        self.written.iter_mut().filter(|w| !w.is_empty()).for_each(|w| w.fill(0));
    }

    pub fn on_declaration(&mut self, g: &ThreadGroup, memory: usize) {
        let written = &mut self.written[memory];
        if g.mask.full {
            return written.fill(0);
        }
        for column in written.chunks_mut(self.lanes.max(1)) {
            g.active().for_each(|lane| column[lane] = 0);
        }
    }
}
