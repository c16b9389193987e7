//! Checker state that the workers of one launch share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::exact::Exact;
use super::shadow::Globals;
use super::trace::Trace;
use super::word::WINDOW;
use crate::base::stop;
use crate::device::sim::code::{Code, MemoryKind};
use crate::device::sim::fault;
use crate::device::sim::geometry::Geometry;
use crate::device::sim::memory::MemoryRt;
use crate::device::sim::memory::layout::Binding;
use crate::device::{Control, Extents, Fault, FaultKind, Larger, LockStep, Who};

pub(crate) struct Watch<'a> {
    pub globals: Globals,
    /// In place of shadow words, for exact checking.
    pub(super) exact: Option<Mutex<Exact>>,
    /// Counts changes that blocks made for which others may wait.
    pub(super) changes: AtomicU64,
    /// Loads may be recorded [roughly](super::quick), as the launch can be repeated.
    pub(super) rough: bool,
    /// Rough records have been in the way of a verdict.
    pub(super) doubtful: AtomicBool,
    code: &'a Code,
    geometry: &'a Geometry,
    extents: &'a Extents,
    warnings: Arc<Mutex<Vec<Fault>>>,
    crowds: Arc<Mutex<Vec<Fault>>>,
}

/// The largest number of unwritten elements that a warning names.
const NAMED: usize = 4;

/// Keeps a warning; of several for one location in the source, the first thread's.
pub(crate) fn keep(kept: &mut Vec<Fault>, warning: Fault) {
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

/// Keeps what a warp paid for an access, if no other one paid more there.
fn keep_worst(kept: &mut Vec<Fault>, new: Fault) {
    let paid = |fault: &Fault| fault.crowd().map(|crowd| (crowd.shared, crowd.count));
    let Some((shared, count)) = paid(&new) else { return };
    match kept.iter_mut().find(|old| old.span == new.span && paid(old).is_some_and(|old| old.0 == shared)) {
        Some(old) if paid(old) < Some((shared, count)) => *old = new,
        Some(_) => {}
        None => kept.push(new),
    }
}

impl<'a> Watch<'a> {
    pub fn new(
        code: &'a Code,
        geometry: &'a Geometry,
        extents: &'a Extents,
        bindings: &[Binding],
        workers: usize,
        (careful, rough): (bool, bool),
        control: &Control,
    ) -> Self {
        Watch {
            globals: Globals::new(code, geometry, bindings, workers, !careful),
            exact: careful.then(|| Mutex::new(Exact::new(code, geometry, bindings))),
            changes: AtomicU64::new(0),
            rough,
            doubtful: AtomicBool::new(false),
            code,
            geometry,
            extents,
            warnings: control.warnings.clone(),
            crowds: control.crowds.clone(),
        }
    }

    /// Returns whether the launch has to be repeated without rough records: what it found is no verdict.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Relaxed)
    }

    /// Returns whether each element of a global memory is accessed by one thread only.
    pub(super) fn is_owned(&self, memory: usize) -> bool {
        let watched = self.code.watched[memory].as_ref();
        watched.is_some_and(|watched| self.geometry.tells(watched, self.code))
    }

    /// Returns whether fences and atomics have ordered accesses that would otherwise race: another order of blocks may then have
    /// a race.
    pub fn decided(&self) -> bool {
        self.exact.as_ref().is_some_and(|exact| exact.lock().unwrap_or_else(|e| e.into_inner()).decided)
    }

    /// Returns a lock order inversion, reported for the last of its threads.
    pub fn lock_order(&self) -> Option<Box<Fault>> {
        let exact = self.exact.as_ref()?.lock().unwrap_or_else(|e| e.into_inner());
        let mut parts = exact.locks.circle()?.into_iter().map(|part| {
            let who = self.who(part.step.group, part.step.lane);
            LockStep { who, span: self.code.place(part.step.span).0, has: part.has, takes: part.takes }
        });
        let last = parts.next()?;
        let span = last.span;
        let fault = FaultKind::LockOrder(Box::new(last), parts.collect()).of_launch(span);
        Some(fault)
    }

    /// Handles a grid barrier at this time; returns the time to use.
    pub fn grid_met(&self, time: u64) -> u64 {
        match &self.exact {
            Some(exact) => {
                exact.lock().unwrap_or_else(|e| e.into_inner()).grid_met();
                time
            }
            None => self.globals.grid_met(time),
        }
    }

    /// Returns how many blocks may run before [`Watch::next_window`].
    pub fn window(&self) -> u64 {
        if self.exact.is_some() { u64::MAX } else { WINDOW }
    }

    pub fn next_window(&self) {
        self.globals.next_window();
    }

    pub(super) fn extents(&self) -> &Extents {
        self.extents
    }

    /// Keeps what a worker has counted.
    pub(super) fn count(&self, crowds: &mut Vec<Option<Fault>>) {
        let mut kept = self.crowds.lock().unwrap_or_else(|e| e.into_inner());
        crowds.drain(..).flatten().for_each(|new| keep_worst(&mut kept, new));
    }

    /// Returns the thread in this lane of this group.
    pub(super) fn who(&self, group: u64, lane: usize) -> Who {
        let unit = self.geometry.unit(group);
        let [x, y, z, _] = unit.shape.map(|n| n.max(1));
        let at = [lane % x, lane / x % y, lane / x / y % z].map(|c| c as u32);
        let (block, thread, index) = fault::terms(self.code, self.extents, unit.block, unit.first_index, at, 0);
        Who { block, thread, index }
    }

    pub(super) fn warn(&self, warning: Fault) {
        keep(&mut self.warnings.lock().unwrap_or_else(|e| e.into_inner()), warning);
    }

    /// Reports hazards that a launch of this size cannot show, where larger launches are possible.
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

    /// Finishes a launch: warns of elements of `out` arrays that were not written.
    pub fn finish(&self, bindings: &[Binding], larger: Option<Larger>) {
        if let Some(larger) = larger {
            self.admit(larger);
        }
        let exact = self.exact.as_ref().map(|exact| exact.lock().unwrap_or_else(|e| e.into_inner()));
        for (number, watched) in self.code.watched.iter().enumerate() {
            let def = &self.code.memories[number];
            let (MemoryKind::Global(param), Some(watched)) = (def.kind, watched) else { continue };
            if !watched.fresh {
                continue;
            }
            let Some(Binding::Array { len, shape, .. }) = bindings.get(param as usize) else { continue };
            let cells = watched.cells(&def.layout);
            let size = def.layout.size.max(1);
            let axes = MemoryRt::axes(shape, size);
            let trace = exact.as_ref().and_then(|exact| exact.trace(number));
            if trace.map_or_else(|| self.globals.is_all_written(number), Trace::is_all_written) {
                continue;
            }
            let (mut places, mut count) = (vec![], 0);
            for element in stop::polled(0..*len / size).map(|i| i * size) {
                let unwritten = |&&(within, _): &&(usize, usize)| {
                    let cell = (element + within) / watched.unit;
                    match trace {
                        Some(trace) => cell < trace.len && trace.is_unwritten(cell),
                        None => self.globals.is_unwritten(number, cell),
                    }
                };
                let Some(&(within, _)) = cells.iter().find(unwritten) else { continue };
                count += 1;
                if places.len() < NAMED {
                    let place = super::text::element_text(&def.name, &axes, element);
                    // For a partly written element, the unwritten component.
                    let part = match cells.iter().all(|cell| unwritten(&cell)) {
                        true => String::new(),
                        false => super::text::path_text(&def.layout, within, true),
                    };
                    places.push(place + &part);
                }
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
