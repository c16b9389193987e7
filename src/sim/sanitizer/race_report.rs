//! Reports of violated race rules, with the two threads, their source locations, and the values that they wrote.

use super::checked_access::{CheckedAccess, ConflictingAccess, Finding, LaneAccess, OtherThread, apply_rules};
use super::checker::WorkerChecker;
use super::element_names::{component_name, element_path, read_element};
use super::race_rules::CurrentAccess;
use super::shadow::ShadowWords;
use super::shadow_word::{self, KIND, LANE_SHIFT, ONE};
use crate::code::AccessOperands;
use crate::events::AccessKind;
use crate::fault::{self, GroupStop};
use crate::group::ThreadGroup;
use crate::lanes::slow::read_value;
use crate::memory::{self};
use clk_runtime::{FaultKind, Race};
use clk_scalar::ScalarValue;

impl WorkerChecker<'_> {
    /// Called for an element for which the fast path found a violation: reports the fault.
    pub(super) unsafe fn report_violation(&mut self, g: &ThreadGroup, e: &CheckedAccess<'_>, p: &LaneAccess) {
        let own_word = e.current.word | (p.lane as u64) << LANE_SHIFT;
        // SAFETY: the caller's cell is in the planes.
        let words = unsafe { e.planes.words(p.cell) };
        if e.site.kind != AccessKind::Store && words.writes < e.current.init_time {
            let place = component_name(g, e, p.addr, p.component);
            let space = if e.is_global { "out" } else { "shared" };
            let kind = FaultKind::Unwritten { place, space };
            return self.add_finding(Finding { kind, lane: p.lane, others: 0, is_benign: false });
        }
        let mut benign = None;
        for (word, kind) in self.conflicting_words(e, p, own_word, words).into_iter().flatten() {
            let finding = self.race_with_word(g, e, p, word, kind);
            if !finding.is_benign {
                return self.add_finding(finding);
            }
            benign = Some((word, finding));
        }
        match benign {
            Some((word, finding)) => {
                // SAFETY: the cell belongs to an element of the event, and is below the number of words of its planes.
                unsafe { *e.planes.writes.add(p.cell) = e.current.joined_write(word, own_word) };
                self.add_finding(finding);
            }
            None => {
                // The conflict was with another lane of this access, and the shadow words have been updated since, so
                // apply the rules again.
                // SAFETY: the cell belongs to an element of the event, and is below the number of words of its planes.
                unsafe { apply_rules(e, p.cell, own_word, p.lane, ONE) };
            }
        }
    }

    /// Returns the shadow words of accesses that conflict with the current access and are not ordered before it.
    fn conflicting_words(
        &self,
        e: &CheckedAccess<'_>,
        p: &LaneAccess,
        own_word: u64,
        words: ShadowWords,
    ) -> [Option<(u64, AccessKind)>; 4] {
        let current: &CurrentAccess = &e.current;
        let broken = |word: u64, kind: AccessKind| {
            let same = (word ^ own_word) & (current.thread_mask | KIND) == 0;
            let ordered = match e.has_warp_ops {
                true => current.is_ordered::<true>(word, own_word, p.lane, ONE),
                false => current.is_ordered::<false>(word, own_word, p.lane, ONE),
            };
            (!same && !ordered).then_some((word, kind))
        };
        let ShadowWords { writes, reads, atomics } = words;
        let writes = broken(writes, AccessKind::Store);
        match e.site.kind {
            AccessKind::Load => [writes, broken(atomics, AccessKind::AtomicRmw), None, None],
            AccessKind::Store => {
                // SAFETY: the cell belongs to an element of the event, and is below the number of words of its planes.
                let atomic_loads = unsafe { e.planes.atomic_load_word(p.cell) };
                [
                    writes,
                    broken(reads, AccessKind::Load),
                    broken(atomics, AccessKind::AtomicRmw),
                    broken(atomic_loads, AccessKind::AtomicLoad),
                ]
            }
            AccessKind::AtomicLoad => [writes, None, None, None],
            AccessKind::AtomicRmw => [writes, broken(reads, AccessKind::Load), None, None],
        }
    }

    /// Describes the race with the access that a shadow word records. The value that a write stored is read from
    /// memory; an atomic operation may have changed the value since.
    fn race_with_word(
        &self,
        g: &ThreadGroup,
        e: &CheckedAccess<'_>,
        p: &LaneAccess,
        word: u64,
        kind: AccessKind,
    ) -> Finding {
        let (other, scalar) = (self.thread_of_word(e, p, word), e.access.scalar);
        let by_other = other.group == self.group_number && is_pending_write(g, e, p, other.lane);
        let left = |k: usize| match e.site.values.get(k) {
            Some(&reg) if by_other => Some(read_value(&g.registers, reg, scalar, other.lane)),
            _ => Some(read_element(p.addr.wrapping_add(k * scalar.size()), scalar)),
        };
        self.describe_race(g, e, p, ConflictingAccess { other, access_kind: kind }, &left)
    }

    /// Returns the thread that a shadow word records. If the word represents several threads, it records the last of
    /// them. If that is the current thread, returns the adjacent thread as a guess; only the exact check determines the
    /// other thread.
    fn thread_of_word(&self, e: &CheckedAccess<'_>, p: &LaneAccess, word: u64) -> OtherThread {
        let window = shadow_word::GROUP >> shadow_word::GROUP_SHIFT;
        let group =
            if e.is_global { self.group_number & !window | shadow_word::group(word) } else { self.group_number };
        let mut lane = shadow_word::lane(word);
        if lane == p.lane && group == self.group_number {
            lane = if lane == 0 { 1 } else { lane - 1 };
        }
        OtherThread { group, lane, site: shadow_word::site(word) as u32 }
    }

    /// Describes a race with another access. If that access is a write, `left` returns the value that it stored to a
    /// component.
    pub(super) fn describe_race(
        &self,
        g: &ThreadGroup,
        e: &CheckedAccess<'_>,
        p: &LaneAccess,
        conflict: ConflictingAccess,
        left: &dyn Fn(usize) -> Option<ScalarValue>,
    ) -> Finding {
        let ConflictingAccess { other, access_kind: other_access_kind } = conflict;
        let same_group = other.group == self.group_number;
        let site = e.tracked.site_ids.get(other.site as usize).map(|&n| &self.code.events.access_sites[n as usize]);
        let other_access = site.map(|n| &self.code.accesses[n.access as usize]);
        let span = other_access.map_or(e.access.span, |a| a.span);
        let scalar = e.access.scalar;
        // For component `k`: the value that this thread writes, and the value that the other thread wrote.
        let values = |k: usize| {
            let value = match e.site.kind {
                AccessKind::Store => e.site.values.get(k).map(|&reg| read_value(&g.registers, reg, scalar, p.lane)),
                AccessKind::Load => Some(read_element(p.addr.wrapping_add(k * scalar.size()), scalar)),
                AccessKind::AtomicRmw | AccessKind::AtomicLoad => None,
            };
            (value, if other_access_kind == AccessKind::Store { left(k) } else { None })
        };
        // A shadow word may cover all components of a vector. The written values are equal only if all their components
        // are equal.
        let first = e.covered_components(p).start;
        let both = e.site.kind == AccessKind::Store && other_access_kind == AccessKind::Store;
        let differs = |k: usize| {
            let (value, other_value) = values(k);
            !are_equal(value, other_value)
        };
        let component = e.covered_components(p).find(|&k| both && differs(k)).unwrap_or(first);
        let (value, other_value) = values(component);
        let race = Race {
            place: element_path(
                g,
                e,
                p.addr,
                component,
                e.site.components == 1 || !e.tracked.is_single_word || component > 0,
            ),
            shared: !e.is_global,
            access_kind: e.site.kind,
            value,
            other: self.shared_state.thread_id(other.group, other.lane),
            other_access_kind,
            other_value,
            other_span: self.code.source.location(span).0,
            same_block: same_group && self.code.properties.threads.is_none(),
            same_warp: same_group && other.lane / 32 == p.lane / 32 && self.code.properties.threads.is_none(),
        };
        let benign = race.is_benign();
        Finding { kind: FaultKind::Race(Box::new(race)), lane: p.lane, others: 0, is_benign: benign }
    }

    /// Stops the group with the fault that was found, or records a warning if the fault is a benign race.
    pub(super) fn report_finding(&mut self, g: &mut ThreadGroup, access: &AccessOperands) {
        let Some(Finding { kind, lane, others, is_benign: benign }) = self.finding.take() else { return };
        if benign {
            let stop = GroupStop { kind, span: access.span, lane, others };
            self.shared_state.warn(fault::group_fault(g, stop, self.shared_state.extents()));
        } else {
            g.results.stop_at(kind, access.span, lane, others);
        }
    }
}

/// Returns whether lane `other` writes the same element in the current access, before this lane. Its value is not in
/// memory yet.
fn is_pending_write(g: &ThreadGroup, e: &CheckedAccess<'_>, p: &LaneAccess, other: usize) -> bool {
    if e.site.kind != AccessKind::Store || other >= p.lane || !g.is_active(other) {
        return false;
    }
    // SAFETY: C5: the access belongs to the code, and the lane exists.
    let addr = unsafe { memory::address(g, e.access, other) };
    addr.is_some_and(|addr| e.cell_of(addr) == e.cell_of(p.addr))
}

/// Returns whether both values are known and equal.
fn are_equal(value: Option<ScalarValue>, other: Option<ScalarValue>) -> bool {
    value.is_some_and(|v| other.is_some_and(|o| v.ty == o.ty && v.bits == o.bits))
}
