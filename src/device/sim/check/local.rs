//! Initialization checks of local arrays: which elements have been written.

use super::Checker;
use crate::base::room;
use crate::device::FaultKind;
use crate::device::sim::code::{Access, Code, MemoryKind};
use crate::device::sim::events::{Form, Note, Touch};
use crate::device::sim::group::Group;
use crate::device::sim::lanes::is_wide;
use crate::device::sim::memory;

/// By local array, 4-byte column of its elements and lane: 0 or 1.
pub(crate) struct Locals {
    written: Vec<Vec<u8>>,
    lanes: usize,
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
        self.written.iter_mut().for_each(|w| w.fill(0));
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

impl Checker<'_> {
    /// # Safety
    /// The access is one of the group's code.
    pub(super) unsafe fn touched_local(&mut self, g: &mut Group, note: &Note, access: &Access) {
        let number = access.memory as usize;
        if self.code.watched[number].is_none() {
            return;
        }
        let lanes = self.locals.lanes;
        let columns = if is_wide(access.scalar) { 2 } else { 1 };
        // SAFETY: there is one for each memory of the code.
        let (start, unit) = unsafe { ((*g.memories.add(number)).ptr as usize, (*g.memories.add(number)).unit) };
        let column = |addr: *mut u8, k: usize| (addr as usize - start) / unit.max(1) + k * columns;
        let written = &mut self.locals.written[number];
        let mut missing = None;
        for k in 0..note.components as usize {
            if note.form == Form::One && g.full {
                let Some(addr) = (unsafe { memory::uniform_address(g, access) }) else { return };
                let at = column(addr, k) * lanes;
                let Some(flags) = written.get_mut(at..at + g.lanes) else { return };
                match note.touch {
                    Touch::Load => missing = missing.or(flags.iter().position(|&w| w == 0).map(|lane| (lane, k))),
                    _ => flags.fill(1),
                }
                continue;
            }
            for lane in g.active() {
                let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
                match (written.get_mut(column(addr, k) * lanes + lane), note.touch) {
                    (Some(0), Touch::Load) => missing = missing.or(Some((lane, k))),
                    (Some(flag), Touch::Store) => *flag = 1,
                    _ => {}
                }
            }
        }
        if let Some((lane, k)) = missing {
            let unwritten = |lane: &usize| {
                let addr = unsafe { memory::address(g, access, *lane) };
                addr.is_some_and(|addr| self.locals.written[number].get(column(addr, k) * lanes + lane) == Some(&0))
            };
            let others = (g.active().filter(unwritten).count() as u64).saturating_sub(1);
            // If all components of a vector are unwritten, the report names the element.
            let is_missing = |k: usize| {
                let addr = unsafe { memory::address(g, access, lane) };
                addr.is_some_and(|addr| self.locals.written[number].get(column(addr, k) * lanes + lane) == Some(&0))
            };
            let whole = note.components > 1 && (0..note.components as usize).all(is_missing);
            let place = super::race::local_text(g, access, lane, (!whole).then_some(k));
            let kind = FaultKind::Unwritten { place, space: "local" };
            crate::device::sim::fault::stop_at(g, kind, access.span, lane, others);
        }
    }
}
