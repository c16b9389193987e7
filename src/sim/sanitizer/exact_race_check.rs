//! The exact check: compares every access individually with all recorded accesses to its element
//! ([`trace`](super::trace)).
//!
//! It checks kernels whose threads synchronize by fences and atomics ([`happens_before`](super::happens_before)). If
//! the fast path has found a race, it also checks the launch again, on one worker. It then identifies both threads and
//! their source lines, which shadow words do not always determine.

use super::checked_access::{CheckedAccess, ConflictingAccess, Finding, LaneAccess, OtherThread};
use super::checker::WorkerChecker;
use super::element_names::component_name;
use super::exact_state::{AtomicResults, ExactState};
use super::happens_before::CurrentBlockOrder;
use super::lock_order::{LockGraph, NestedAcquisition};
use super::trace::{AtomicRecord, StoredValues, Trace, WarpAccess};
use crate::events::AccessKind;
use crate::group::ThreadGroup;
use crate::group_registers::{CHUNK, GroupRegisters};
use crate::lanes::slow::read_value;
use crate::memory;
use clk_ir::variance::Variance;
use clk_runtime::FaultKind;
use clk_scalar::dynamic;

/// State of the check during one access by all active lanes.
struct RaceCheck<'w> {
    trace: &'w mut Trace,
    results: &'w mut AtomicResults,
}

impl WorkerChecker<'_> {
    /// Checks an access by all active lanes against the traces, and records it.
    ///
    /// # Safety
    /// The access site belongs to the group's code.
    pub(super) unsafe fn check_exactly(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) {
        let watch = self.shared_state;
        let Some(exact) = &watch.exact else { return };
        let mut exact = exact.lock().unwrap_or_else(|e| e.into_inner());
        let memory = e.access.memory as usize;
        let trace = if e.is_global { exact.traces[memory].take() } else { self.shared_trace(g, e) };
        let Some(mut trace) = trace else { return };
        let atomic = e.site.kind.is_atomic();
        let mut left = if atomic { std::mem::take(&mut self.atomic_results) } else { AtomicResults::default() };
        left.uniform = None;
        left.by_address.clear();
        let mut state = RaceCheck { trace: &mut trace, results: &mut left };
        let mut one = None;
        let (first, end) = (g.mask.lo * CHUNK, (g.mask.hi * CHUNK).min(g.shape.lanes));
        for k in first..end {
            let lane = if atomic && g.reverse_order { first + end - 1 - k } else { k };
            if !g.is_active(lane) {
                continue;
            }
            // SAFETY: C5: the access belongs to the code, and the lane exists.
            let Some(addr) = one.or_else(|| unsafe { memory::address(g, e.access, lane) }) else { continue };
            if e.site.variance == Variance::Uniform {
                one = Some(addr);
            }
            for component in 0..e.word_components() {
                let cell = e.cell_of(addr) + component * e.word_pitch();
                if cell < state.trace.len {
                    let p = LaneAccess { lane, cell, component, addr };
                    let right = self.check_lane(g, e, &p, &mut state);
                    let plain = e.site.kind == AccessKind::Store && exact.locks.may_be_in(e.access.memory);
                    if plain {
                        let element = self.lock_id(e, &p);
                        exact.locks.on_change(&mut self.held_locks, lane, element);
                    }
                    if atomic {
                        self.apply_atomic(g, e, &p, &mut state, &mut exact, right);
                    }
                }
            }
        }
        let place = if e.is_global { &mut exact.traces[memory] } else { &mut self.traces[memory] };
        *place = Some(trace);
        if atomic {
            self.atomic_results = left;
        }
        exact.order_mattered |= self.order.order_mattered.get();
    }

    /// Takes the trace of one of this block's shared arrays; creates or clears it if the block has just started.
    fn shared_trace(&mut self, g: &ThreadGroup, e: &CheckedAccess<'_>) -> Option<Box<Trace>> {
        let memory = e.access.memory as usize;
        // SAFETY: G4: each memory of the code has an entry.
        let bytes = unsafe { (*g.memories.add(memory)).len };
        let has_length = |trace: &Trace| trace.len == bytes / e.tracked.unit.max(1);
        let mut trace = match self.traces[memory].take() {
            Some(trace) if has_length(&trace) => trace,
            _ => Box::new(e.tracked.new_trace(bytes)),
        };
        if trace.group != Some(self.group_number) {
            trace.clear(self.group_number);
        }
        Some(trace)
    }

    /// Compares a lane's access with the trace, reports faults, and records the access. Returns false if the access is
    /// a load or an atomic operation that violates a rule.
    fn check_lane(
        &mut self,
        g: &ThreadGroup,
        e: &CheckedAccess<'_>,
        p: &LaneAccess,
        state: &mut RaceCheck<'_>,
    ) -> bool {
        let touch = e.site.kind;
        if touch == AccessKind::AtomicRmw && !e.tracked.has_mixed_accesses() && !e.tracked.starts_unwritten {
            return true;
        }
        let reads = touch != AccessKind::Store && !e.site.traits.ignores_old_value;
        if reads && e.tracked.starts_unwritten && state.trace.is_unwritten(p.cell) {
            let place = component_name(g, e, p.addr, p.component);
            let space = if e.is_global { "out" } else { "shared" };
            let kind = FaultKind::Unwritten { place, space };
            self.add_finding(Finding { kind, lane: p.lane, others: 0, is_benign: false });
            return false;
        }
        if touch == AccessKind::Store {
            self.check_store(g, e, p, state.trace);
            return true;
        }
        if let Some(clash) = find_conflict(&self.order, e, p, state.trace) {
            let values = &state.trace.stored;
            let finding = self.describe_race(g, e, p, clash, &|k| values.get(e.value_offset(p, k), e.access.scalar));
            self.add_finding(finding);
            return false;
        }
        match touch {
            AccessKind::Load => {
                let all = self.replaces_all(state.trace.reads(p.cell), p);
                state.trace.record_read(p.cell, &self.trace_entry(e, p.lane), all);
            }
            AccessKind::AtomicLoad => {
                let all = self.replaces_all(state.trace.atomic_loads(p.cell), p);
                state.trace.record_atomic_load(p.cell, &self.trace_entry(e, p.lane), all);
            }
            AccessKind::Store | AccessKind::AtomicRmw => {}
        }
        true
    }

    /// Compares a plain write with the trace, reports a race, and records the write. A race with a write of the same
    /// value is reported only if the write has no other conflict.
    fn check_store(&mut self, g: &ThreadGroup, e: &CheckedAccess<'_>, p: &LaneAccess, trace: &mut Trace) {
        let (order, scalar) = (&self.order, e.access.scalar);
        let value = |k: usize| e.site.values.get(k).map(|&reg| read_value(&g.registers, reg, scalar, p.lane));
        let stores = |values: &StoredValues| {
            e.covered_components(p).all(|k| values.get(e.value_offset(p, k), scalar) == value(k))
        };
        let is_same = stores(&trace.stored);
        let writer = || first_unordered(order, p, trace.writes(p.cell), AccessKind::Store);
        let replaced = || {
            first_unordered(order, p, trace.replaced(p.cell), AccessKind::Store)
                .filter(|_| !stores(&trace.replaced_values))
        };
        let conflict = if is_same { None } else { writer() }.or_else(|| find_conflict(order, e, p, trace));
        let (conflict, values) = match conflict {
            Some(conflict) => (Some(conflict), &trace.stored),
            None => match replaced() {
                Some(conflict) => (Some(conflict), &trace.replaced_values),
                None => (writer(), &trace.stored),
            },
        };
        let entry = self.trace_entry(e, p.lane);
        if let Some(conflict) = conflict {
            let report = self.describe_race(g, e, p, conflict, &|k| values.get(e.value_offset(p, k), scalar));
            if report.is_benign {
                trace.record_equal_write(p.cell, &entry);
            }
            return self.add_finding(report);
        }
        let (grid, block) = self.order.barrier_times();
        trace.record_write(p.cell, &entry, is_same, if e.is_global { grid } else { block });
        if !is_same {
            e.covered_components(p).for_each(|k| trace.store_value(e.value_offset(p, k), value(k)));
        }
    }

    /// Returns whether there are at most [`MAX_REPLACED_READERS`] earlier readers and all are ordered before this
    /// reader. The record of this reader then replaces theirs.
    fn replaces_all(&self, mut readers: impl Iterator<Item = WarpAccess>, p: &LaneAccess) -> bool {
        let decided = self.order.order_mattered.get();
        let few = readers
            .by_ref()
            .take(MAX_REPLACED_READERS)
            .all(|entry| self.order.first_unordered_lane(&entry, p.lane).is_none());
        let all = few && readers.next().is_none();
        // Reads do not conflict with each other, so this query must not set `order_mattered`.
        self.order.order_mattered.set(decided);
        all
    }

    fn trace_entry(&self, e: &CheckedAccess<'_>, lane: usize) -> WarpAccess {
        let mask = 1 << (lane % 32);
        WarpAccess {
            time: self.order.time,
            group: self.group_number,
            warp: lane / 32,
            mask,
            site: e.site.index_in_memory,
        }
    }

    /// Applies the synchronization (acquire and release) of a lane's atomic operation. Records the operation if it
    /// violates no rule (`right`).
    fn apply_atomic(
        &mut self,
        g: &ThreadGroup,
        e: &CheckedAccess<'_>,
        p: &LaneAccess,
        state: &mut RaceCheck<'_>,
        exact: &mut ExactState,
        right: bool,
    ) {
        let changes = self.changes_value(&g.registers, e, p, state);
        if changes && exact.locks.may_be_in(e.access.memory) {
            self.update_lock(g, e, p, &mut exact.locks);
        }
        let key = (e.access.memory, p.cell);
        let ExactState { variables, variable_count: ids, .. } = exact;
        let variable = if e.is_global { variables } else { &mut self.variables }.get(key, ids);
        if e.site.traits.influences_control {
            self.order.acquire(p.lane, variable);
        }
        let version = if changes && self.order.release(p.lane, variable) { variable.version } else { 0 };
        if !right || e.site.kind == AccessKind::AtomicLoad {
            return;
        }
        if e.site.traits.ignores_old_value && state.trace.is_unwritten(p.cell) {
            state.trace.initialize(p.cell);
        }
        if e.tracked.has_mixed_accesses() {
            let (id, order) = (variable.id, &self.order);
            let acquired = order.acquired_version(p.lane, id);
            let new = AtomicRecord { entry: self.trace_entry(e, p.lane), variable: id, version };
            state.trace.record_update(p.cell, new, |old| old.version > 0 && old.version <= acquired);
        }
    }

    /// Called when a lane changes an element that may be a lock by an atomic operation: records that the lane acquires
    /// or releases the lock.
    fn update_lock(&mut self, g: &ThreadGroup, e: &CheckedAccess<'_>, p: &LaneAccess, locks: &mut LockGraph) {
        let element = self.lock_id(e, p);
        if !e.site.traits.is_retried {
            return locks.on_change(&mut self.held_locks, p.lane, element);
        }
        let (phase, span) = (self.order.barrier_times(), e.access.span);
        let step = NestedAcquisition { group: self.group_number, lane: p.lane, phase, span };
        locks.acquire(&mut self.held_locks, step, element, || component_name(g, e, p.addr, p.component));
    }

    fn lock_id(&self, e: &CheckedAccess<'_>, p: &LaneAccess) -> super::lock_order::LockId {
        (e.access.memory, (!e.is_global).then_some(self.group_number), p.cell)
    }

    /// Returns whether a lane's atomic operation changes the element's value. An operation that does not change the
    /// value releases nothing.
    fn changes_value(
        &self,
        registers: &GroupRegisters,
        e: &CheckedAccess<'_>,
        p: &LaneAccess,
        state: &mut RaceCheck<'_>,
    ) -> bool {
        let Some(def) = self.code.atomics.get(e.site.atomic as usize) else { return true };
        let scalar = e.access.scalar;
        let left = match e.site.variance {
            Variance::Uniform => state.results.uniform,
            _ => state.results.by_address.get(&(p.addr as usize)).copied(),
        };
        let old = left.unwrap_or_else(|| super::element_names::read_element(p.addr, scalar));
        let value = read_value(registers, def.value, scalar, p.lane);
        let compare =
            (def.compare != super::super::code::NONE).then(|| read_value(registers, def.compare, scalar, p.lane));
        let new = dynamic::atomic(def.op, old, value, compare).unwrap_or(old);
        match e.site.variance {
            Variance::Uniform => state.results.uniform = Some(new),
            _ => {
                state.results.by_address.insert(p.addr as usize, new);
            }
        }
        new.bits != old.bits
    }

    /// Keeps the first finding of an access and counts further ones. A harmful race replaces a benign one.
    pub(super) fn add_finding(&mut self, finding: Finding) {
        match &mut self.finding {
            None => self.finding = Some(finding),
            Some(first) if first.is_benign && !finding.is_benign => *first = finding,
            Some(first) => first.others += u64::from(first.is_benign == finding.is_benign),
        }
    }
}

/// Maximum number of recorded readers of an element that are compared with a new reader. If there are
/// more, the new reader replaces none of them.
const MAX_REPLACED_READERS: usize = 4;

/// Returns the first recorded access by a thread that is not ordered before the current thread.
fn first_unordered(
    order: &CurrentBlockOrder,
    p: &LaneAccess,
    mut entries: impl Iterator<Item = WarpAccess>,
    kind: AccessKind,
) -> Option<ConflictingAccess> {
    let unordered = |entry: WarpAccess| {
        let lane = order.first_unordered_lane(&entry, p.lane)?;
        Some(OtherThread { group: entry.group, lane, site: entry.site })
    };
    entries.find_map(unordered).map(|other| ConflictingAccess { other, access_kind: kind })
}

/// Returns a recorded access to the element that conflicts with the current access and is not ordered before it. If the
/// current access is a plain write, plain writes are not considered; the caller compares these.
fn find_conflict(
    order: &CurrentBlockOrder,
    e: &CheckedAccess<'_>,
    p: &LaneAccess,
    trace: &Trace,
) -> Option<ConflictingAccess> {
    let writers = || first_unordered(order, p, trace.writes(p.cell), AccessKind::Store);
    let readers = || first_unordered(order, p, trace.reads(p.cell), AccessKind::Load);
    let atomic_loaders = || first_unordered(order, p, trace.atomic_loads(p.cell), AccessKind::AtomicLoad);
    let updaters = || {
        let unknown = |u: &&AtomicRecord| {
            let is_acquired = u.version > 0 && order.acquired_version(p.lane, u.variable) >= u.version;
            if is_acquired {
                order.order_mattered.set(true);
            }
            !is_acquired
        };
        first_unordered(order, p, trace.updates(p.cell).iter().filter(unknown).map(|u| u.entry), AccessKind::AtomicRmw)
    };
    match e.site.kind {
        AccessKind::Load => writers().or_else(updaters),
        AccessKind::Store => readers().or_else(updaters).or_else(atomic_loaders),
        AccessKind::AtomicRmw => writers().or_else(readers),
        AccessKind::AtomicLoad => writers(),
    }
}
