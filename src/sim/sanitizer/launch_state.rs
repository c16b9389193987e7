//! Checker state that the workers of one launch share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::exact_state::ExactState;
use super::shadow::GlobalShadow;
use super::shadow_word::WINDOW;
use super::trace::Trace;
use crate::code::{KernelTables, MemoryKind};
use crate::fault;
use crate::geometry::GroupGeometry;
use crate::memory::MemoryRt;
use crate::memory::layout::BoundParam;
use clk_base::stop;
use clk_runtime::{Control, Fault, FaultKind, LargerDimensions, LaunchExtents, LockAcquisition, ThreadId};

pub(crate) struct SharedCheckState<'a> {
    pub global_shadow: GlobalShadow,
    /// The state of the exact check, which replaces shadow words.
    pub(super) exact: Option<Mutex<ExactState>>,
    /// Number of changes that blocks have published so far. Polling loops of other blocks may wait for these changes.
    pub(super) changes: AtomicU64,
    /// Set if loads may be recorded [coarsely](super::shared_access_log), because the launch can be repeated.
    pub(super) allows_coarse_loads: bool,
    /// Set if the checker could not decide whether there is a race, because loads were recorded coarsely.
    pub(super) inconclusive: AtomicBool,
    code: &'a KernelTables,
    geometry: &'a GroupGeometry,
    extents: &'a LaunchExtents,
    warnings: Arc<Mutex<Vec<Fault>>>,
    worst_accesses: Arc<Mutex<Vec<Fault>>>,
}

/// Maximum number of unwritten elements that a warning names.
const MAX_NAMED_ELEMENTS: usize = 4;

/// Records a warning. Warnings of the same kind for the same source location are merged; the merged warning names the
/// first of their threads.
pub(crate) fn add_warning(warnings: &mut Vec<Fault>, warning: Fault) {
    let kind = std::mem::discriminant(&warning.kind);
    match warnings.iter_mut().find(|w| w.span == warning.span && std::mem::discriminant(&w.kind) == kind) {
        Some(old) => {
            let others = old.others + warning.others + 1;
            if (warning.block, warning.thread, &warning.index) < (old.block, old.thread, &old.index) {
                *old = warning;
            }
            old.others = others;
        }
        None => warnings.push(warning),
    }
}

/// Records the cost of an access for a warp, unless a warp with a higher cost is recorded for the same source location.
fn add_cost(costs: &mut Vec<Fault>, new: Fault) {
    let cost_of = |fault: &Fault| fault.access_cost().map(|cost| (cost.shared, cost.count));
    let Some((shared, count)) = cost_of(&new) else { return };
    match costs.iter_mut().find(|old| old.span == new.span && cost_of(old).is_some_and(|old| old.0 == shared)) {
        Some(old) if cost_of(old) < Some((shared, count)) => *old = new,
        Some(_) => {}
        None => costs.push(new),
    }
}

impl<'a> SharedCheckState<'a> {
    pub(crate) fn new(
        code: &'a KernelTables,
        geometry: &'a GroupGeometry,
        extents: &'a LaunchExtents,
        bindings: &[BoundParam],
        workers: usize,
        is_exact: bool,
        allows_coarse_loads: bool,
        control: &Control,
    ) -> Self {
        SharedCheckState {
            global_shadow: GlobalShadow::new(code, geometry, bindings, workers, !is_exact),
            exact: is_exact.then(|| Mutex::new(ExactState::new(code, geometry, bindings))),
            changes: AtomicU64::new(0),
            allows_coarse_loads,
            inconclusive: AtomicBool::new(false),
            code,
            geometry,
            extents,
            warnings: control.warnings.clone(),
            worst_accesses: control.worst_accesses.clone(),
        }
    }

    /// Returns whether the launch was inconclusive, so that it must be repeated without coarse records.
    pub fn is_inconclusive(&self) -> bool {
        self.inconclusive.load(Ordering::Relaxed)
    }

    /// Returns whether no two threads conflict on elements of a global memory.
    pub(super) fn is_race_free(&self, memory: usize) -> bool {
        let watched = self.code.events.tracked[memory].as_ref();
        watched.is_some_and(|watched| self.geometry.is_race_free(watched, &self.code.properties))
    }

    /// Returns whether fences and atomics have ordered accesses that would otherwise race. If so, these accesses may
    /// race in another order of blocks.
    pub fn order_mattered(&self) -> bool {
        self.exact.as_ref().is_some_and(|exact| exact.lock().unwrap_or_else(|e| e.into_inner()).order_mattered)
    }

    /// Returns a fault for a lock-order inversion if there is one. It is reported for the last of the threads in the
    /// cycle.
    pub fn lock_inversion(&self) -> Option<Box<Fault>> {
        let exact = self.exact.as_ref()?.lock().unwrap_or_else(|e| e.into_inner());
        let mut parts = exact.locks.find_cycle()?.into_iter().map(|part| {
            let thread = self.thread_id(part.step.group, part.step.lane);
            LockAcquisition {
                thread_id: thread,
                span: self.code.source.location(part.step.span).0,
                held_lock: part.held_lock,
                acquired_lock: part.acquired_lock,
            }
        });
        let last = parts.next()?;
        let span = last.span;
        let fault = FaultKind::LockOrder(Box::new(last), parts.collect()).into_launch_fault(span);
        Some(fault)
    }

    /// Called at a grid barrier. Returns the time at which blocks continue.
    pub fn on_grid_barrier(&self, time: u64) -> u64 {
        match &self.exact {
            Some(exact) => {
                exact.lock().unwrap_or_else(|e| e.into_inner()).on_grid_barrier();
                time
            }
            None => self.global_shadow.on_grid_barrier(time),
        }
    }

    /// Returns the number of blocks that may run before [`SharedCheckState::next_window`] must be called.
    pub fn blocks_per_window(&self) -> u64 {
        if self.exact.is_some() { u64::MAX } else { WINDOW }
    }

    pub fn next_window(&self) {
        self.global_shadow.next_window();
    }

    pub(super) fn extents(&self) -> &LaunchExtents {
        self.extents
    }

    /// Records the most expensive accesses that a worker has found.
    pub(super) fn add_costs(&self, worst_accesses: &mut Vec<Option<Fault>>) {
        let mut costs = self.worst_accesses.lock().unwrap_or_else(|e| e.into_inner());
        worst_accesses.drain(..).flatten().for_each(|new| add_cost(&mut costs, new));
    }

    /// Returns the thread that runs in a lane of a group.
    pub(super) fn thread_id(&self, group: u64, lane: usize) -> ThreadId {
        let unit = self.geometry.group(group);
        let [x, y, z, _] = unit.extents.map(|n| n.max(1));
        let at = [lane % x, lane / x % y, lane / x / y % z].map(|c| c as u32);
        let (block, thread, index) = fault::launch_position(&self.code.properties, self.extents, unit.position, at, 0);
        ThreadId { block, thread, index }
    }

    pub(super) fn warn(&self, warning: Fault) {
        add_warning(&mut self.warnings.lock().unwrap_or_else(|e| e.into_inner()), warning);
    }

    /// Warns about hazards that occur only in larger launches, if larger launches are possible.
    fn warn_about_gaps(&self, larger: LargerDimensions) {
        let &LaunchExtents::Grid { grid, block } = self.extents else { return };
        let count = |extents: [u32; 3]| extents.iter().map(|&n| u64::from(n)).product::<u64>();
        let unseen = &self.code.events.coverage_gaps;
        let blocks = unseen.blocks.iter().filter(|_| larger.grid && count(grid) == 1).map(|reason| (false, reason));
        let warps = unseen.warps.iter().filter(|_| larger.block && count(block) <= 32).map(|reason| (true, reason));
        for (warps, reason) in blocks.chain(warps) {
            self.warn(
                *FaultKind::CoverageGaps { warps, reason: reason.clone() }
                    .into_launch_fault(self.code.source.kernel_span()),
            );
        }
    }

    /// Finishes a launch: warns about unwritten elements of `out` arrays.
    pub fn finish(&self, bindings: &[BoundParam], larger: Option<LargerDimensions>) {
        if let Some(larger) = larger {
            self.warn_about_gaps(larger);
        }
        let exact = self.exact.as_ref().map(|exact| exact.lock().unwrap_or_else(|e| e.into_inner()));
        for (number, watched) in self.code.events.tracked.iter().enumerate() {
            let def = &self.code.memories[number];
            let (MemoryKind::Global(param), Some(watched)) = (def.kind, watched) else { continue };
            if !watched.starts_unwritten {
                continue;
            }
            let Some(BoundParam::Array { len, shape, .. }) = bindings.get(param as usize) else { continue };
            let cells = watched.cells(&def.layout);
            let size = def.layout.size.max(1);
            let axes = MemoryRt::axes(shape, size);
            let trace = exact.as_ref().and_then(|exact| exact.trace(number));
            if trace.map_or_else(|| self.global_shadow.is_all_written(number), Trace::is_all_written) {
                continue;
            }
            let (mut places, mut first, mut count) = (vec![], vec![], 0);
            for element in stop::polled(0..*len / size).map(|i| i * size) {
                let unwritten = |&&(within, _): &&(usize, usize)| {
                    let cell = (element + within) / watched.unit;
                    match trace {
                        Some(trace) => cell < trace.len && trace.is_unwritten(cell),
                        None => self.global_shadow.is_unwritten(number, cell),
                    }
                };
                let Some(&(within, _)) = cells.iter().find(unwritten) else { continue };
                if count == 0 {
                    first = super::element_names::element_indices(&axes, element).map(|index| index as u32).collect();
                }
                count += 1;
                if places.len() < MAX_NAMED_ELEMENTS {
                    let place = super::element_names::element_name(&def.name, &axes, element);
                    // If an element is only partly written, name an unwritten component.
                    let part = match cells.iter().all(|cell| unwritten(&cell)) {
                        true => String::new(),
                        false => super::element_names::field_path(&def.layout, within, true),
                    };
                    places.push(place + &part);
                }
            }
            if count > 0 {
                let (array, shape, first) = (def.name.clone(), shape.to_vec().into(), first.into());
                let kind = FaultKind::Incomplete { array, shape, first, places, count, total: (*len / size) as u64 };
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
