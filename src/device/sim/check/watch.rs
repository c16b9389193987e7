//! What the checkers of one launch share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::order::Releases;
use super::shadow::Globals;
use crate::base::stop;
use crate::device::sim::code::{Code, MemoryKind};
use crate::device::sim::fault;
use crate::device::sim::frame::Binding;
use crate::device::sim::geometry::Geometry;
use crate::device::sim::memory::MemoryRt;
use crate::device::{Extents, Fault, FaultKind, Larger, Who};

pub struct Watch<'a> {
    pub globals: Globals,
    pub(super) releases: Mutex<Releases>,
    /// Counts what blocks changed that others may wait for.
    pub(super) changes: AtomicU64,
    code: &'a Code,
    geometry: &'a Geometry,
    extents: &'a Extents,
    warnings: Arc<Mutex<Vec<Fault>>>,
}

/// Unwritten elements that a warning names.
const NAMED: usize = 4;

impl<'a> Watch<'a> {
    pub fn new(
        code: &'a Code,
        geometry: &'a Geometry,
        extents: &'a Extents,
        bindings: &[Binding],
        workers: usize,
        warnings: Arc<Mutex<Vec<Fault>>>,
    ) -> Self {
        Watch {
            globals: Globals::new(code, geometry, bindings, workers),
            releases: Mutex::new(Releases::default()),
            changes: AtomicU64::new(0),
            code,
            geometry,
            extents,
            warnings,
        }
    }

    pub(super) fn extents(&self) -> &Extents {
        self.extents
    }

    /// The thread in this lane of this group.
    pub(super) fn who(&self, group: u64, lane: usize) -> Who {
        let unit = self.geometry.unit(group);
        let [x, y, z, _] = unit.shape.map(|n| n.max(1));
        let at = [lane % x, lane / x % y, lane / x / y % z].map(|c| c as u32);
        let (block, thread, index) = fault::terms(self.code, self.extents, unit.block, unit.first_index, at, 0);
        Who { block, thread, index }
    }

    /// Keeps a warning; of those for one place in the source the first thread's.
    pub(super) fn warn(&self, warning: Fault) {
        let mut kept = self.warnings.lock().unwrap_or_else(|e| e.into_inner());
        let kind = std::mem::discriminant(&warning.kind);
        match kept.iter_mut().find(|w| w.span == warning.span && std::mem::discriminant(&w.kind) == kind) {
            Some(old) => {
                let others = old.others + warning.others + 1;
                if (warning.block, warning.thread, &warning.index) < (old.block, old.thread, &old.index) {
                    *old = warning;
                }
                old.others = others;
            }
            None => kept.push(warning),
        }
    }

    /// Says what a launch of this size cannot show, where there are larger ones.
    fn admit(&self, larger: Larger) {
        let &Extents::Grid { grid, block } = self.extents else { return };
        let count = |extents: [u32; 3]| extents.iter().map(|&n| u64::from(n)).product::<u64>();
        let unseen = &self.code.unseen;
        let blocks = unseen.blocks.iter().filter(|_| larger.grid && count(grid) == 1).map(|reason| (false, reason));
        let warps = unseen.warps.iter().filter(|_| larger.block && count(block) <= 32).map(|reason| (true, reason));
        for (warps, reason) in blocks.chain(warps) {
            self.warn(*FaultKind::Unseen { warps, reason: reason.clone() }.of_launch(self.code.place));
        }
    }

    /// The kernel has ended: warns of elements of `out` arrays that nobody wrote.
    pub fn finish(&self, bindings: &[Binding], larger: Option<Larger>) {
        if let Some(larger) = larger {
            self.admit(larger);
        }
        for (number, watched) in self.code.watched.iter().enumerate() {
            let def = &self.code.memories[number];
            let (MemoryKind::Global(param), Some(watched)) = (def.kind, watched) else { continue };
            if !watched.fresh {
                continue;
            }
            let Some(Binding::Array { len, shape, .. }) = bindings.get(param as usize) else { continue };
            let cells = watched.cells(&def.layout);
            let unwritten = |offset: usize| {
                cells.iter().any(|&(within, _)| self.globals.is_unwritten(number, (offset + within) / watched.unit))
            };
            let size = def.layout.size.max(1);
            let missing = stop::polled(0..*len / size).filter(|&i| unwritten(i * size));
            let axes = MemoryRt::axes(shape, size);
            let (mut places, mut count) = (vec![], 0);
            for element in missing {
                if places.len() < NAMED {
                    places.push(super::race::element_text(&def.name, &axes, element * size));
                }
                count += 1;
            }
            if count > 0 {
                let kind =
                    FaultKind::Incomplete { array: def.name.clone(), places, count, total: (*len / size) as u64 };
                self.warn(Fault {
                    kind,
                    span: def.span,
                    trace: vec![],
                    block: [0; 3],
                    thread: [0; 3],
                    index: None,
                    others: 0,
                    output: String::new(),
                });
            }
        }
    }
}
