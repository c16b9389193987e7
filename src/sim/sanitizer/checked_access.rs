//! A checked access: the data that the race rules need, and functions that update an element's shadow words.

use std::ops::Range;

use super::race_rules::{CurrentAccess, RowFn, RowLoopVariant, ShadowRow, read_row_fn, thread_set_kind, write_row_fn};
use super::shadow::{Planes, PrivateInitMap};
use super::shadow_word::{GRID, KIND, KIND_SHIFT, LANE_SHIFT, ONE};
use crate::code::{AccessOperands, TrackedMemory};
use crate::events::{AccessKind, AccessSite};
use clk_runtime::FaultKind;
use clk_runtime::Isa;

/// An access that is being checked.
pub(super) struct CheckedAccess<'e> {
    pub site: &'e AccessSite,
    pub access: &'e AccessOperands,
    pub tracked: &'e TrackedMemory,
    pub planes: Planes,
    /// The initialization map, if the memory has such a map instead of shadow words.
    pub init_map: Option<PrivateInitMap>,
    pub current: CurrentAccess,
    /// The address at which the memory starts.
    pub start: *mut u8,
    pub is_global: bool,
    /// Set if other workers may access the shadow words concurrently.
    pub needs_lock: bool,
    pub has_warp_ops: bool,
    /// The time of the memory's allocation, in the format of a shadow word. Accesses recorded at this time are ordered
    /// before all others.
    pub allocation_time: u64,
}

impl CheckedAccess<'_> {
    pub(super) fn cell_of(&self, addr: *const u8) -> usize {
        self.cell_at_offset(addr as usize - self.start as usize)
    }

    /// Returns the cell (the index of a shadow word) for a byte offset in the memory.
    #[inline(always)]
    pub(super) fn cell_at_offset(&self, offset: usize) -> usize {
        let unit = self.tracked.unit;
        if unit.is_power_of_two() { offset >> unit.trailing_zeros() } else { offset / unit }
    }

    /// Returns the distance between the shadow words of adjacent components.
    pub(super) fn word_pitch(&self) -> usize {
        self.site.pitch / self.tracked.unit
    }

    /// Returns the number of accessed components that have separate shadow words.
    pub(super) fn word_components(&self) -> usize {
        if self.tracked.is_single_word { 1 } else { self.site.components.max(1) as usize }
    }

    /// Returns the components that the shadow word of a lane's access covers.
    pub(super) fn covered_components(&self, p: &LaneAccess) -> Range<usize> {
        if self.tracked.is_single_word { 0..self.site.components.max(1) as usize } else { p.component..p.component + 1 }
    }

    /// Returns the byte offset of a component in the memory.
    pub(super) fn value_offset(&self, p: &LaneAccess, component: usize) -> usize {
        p.cell * self.tracked.unit + if self.tracked.is_single_word { component * self.access.scalar.size() } else { 0 }
    }

    /// Returns whether the loops over rows of elements can check and record the access.
    pub(super) fn supports_rows(&self) -> bool {
        match self.site.kind {
            AccessKind::Load => true,
            // The row loops do not handle the shadow words of atomic loads.
            AccessKind::Store => self.planes.atomic_loads.is_null(),
            AccessKind::AtomicRmw | AccessKind::AtomicLoad => false,
        }
    }

    /// Returns the loop that checks and records rows of this access. `mask` is true if some lanes are inactive.
    pub(super) fn row_fn(&self, isa: Isa, mask: bool) -> RowFn {
        let (reads, atomics) = (!self.planes.reads.is_null(), !self.planes.atomics.is_null());
        let variant = RowLoopVariant { reads, atomics, warps: self.has_warp_ops, mask };
        if self.site.kind == AccessKind::Load { read_row_fn(isa, variant) } else { write_row_fn(isa, variant) }
    }
}

/// A fault of an access: the first lane with the fault, and the number of other lanes with the same fault.
pub(crate) struct Finding {
    pub kind: FaultKind,
    pub lane: usize,
    pub others: u64,
    pub is_benign: bool,
}

/// The access of one lane to one component of an element.
pub(crate) struct LaneAccess {
    pub lane: usize,
    pub cell: usize,
    pub component: usize,
    pub addr: *mut u8,
}

/// The other thread of a race, and the site of its access.
#[derive(Clone, Copy)]
pub(crate) struct OtherThread {
    pub group: u64,
    pub lane: usize,
    /// The index of its access site among the sites of the memory.
    pub site: u32,
}

/// An earlier access that conflicts with the current one.
#[derive(Clone, Copy)]
pub(crate) struct ConflictingAccess {
    pub other: OtherThread,
    pub access_kind: AccessKind,
}

/// Sets a row's pointers to the shadow words of its first element.
#[inline(always)]
pub(super) fn point_row(row: &mut ShadowRow, planes: &Planes, cell: usize) {
    let word = |plane: *mut u64| if plane.is_null() { plane } else { plane.wrapping_add(cell) };
    (row.w, row.r, row.a) = (word(planes.writes), word(planes.reads), word(planes.atomics));
}

pub(super) const LOAD: u8 = 0;
pub(super) const STORE: u8 = 1;
pub(super) const ATOMIC: u8 = 2;
pub(super) const ATOMIC_LOAD: u8 = 3;

/// Applies the race rules to the shadow words of an element and updates the words. Returns false if a rule is violated.
#[inline(always)]
pub(super) unsafe fn apply_rules(e: &CheckedAccess<'_>, cell: usize, own_word: u64, lane: usize, kind: u64) -> bool {
    // SAFETY: the caller's cell is in the planes.
    unsafe {
        match (e.site.kind, e.has_warp_ops) {
            (AccessKind::Load, false) => apply_rules_for::<LOAD, false>(e, cell, own_word, lane, kind),
            (AccessKind::Load, true) => apply_rules_for::<LOAD, true>(e, cell, own_word, lane, kind),
            (AccessKind::Store, false) => apply_rules_for::<STORE, false>(e, cell, own_word, lane, kind),
            (AccessKind::Store, true) => apply_rules_for::<STORE, true>(e, cell, own_word, lane, kind),
            (AccessKind::AtomicRmw, false) => apply_rules_for::<ATOMIC, false>(e, cell, own_word, lane, kind),
            (AccessKind::AtomicRmw, true) => apply_rules_for::<ATOMIC, true>(e, cell, own_word, lane, kind),
            (AccessKind::AtomicLoad, false) => apply_rules_for::<ATOMIC_LOAD, false>(e, cell, own_word, lane, kind),
            (AccessKind::AtomicLoad, true) => apply_rules_for::<ATOMIC_LOAD, true>(e, cell, own_word, lane, kind),
        }
    }
}

/// Records an atomic operation (of kind `touch`) that is known to be correct.
///
/// # Safety
/// The cell is in the planes.
pub(super) unsafe fn record_atomic(
    planes: &Planes,
    current: &CurrentAccess,
    touch: AccessKind,
    cell: usize,
    lane: usize,
    spread: usize,
    warps: bool,
) {
    // SAFETY: the caller's cell is in the planes. There is a plane for each access kind of the memory's access sites;
    // other planes are null. Words that several workers write are locked.
    unsafe {
        let (own_word, words) = (current.word | (lane as u64) << LANE_SHIFT, planes.words(cell));
        let (kind, atomic_loads) = (thread_set_kind(lane, spread), planes.atomic_load_word(cell));
        let (_, joined) = match (touch, warps) {
            (AccessKind::AtomicLoad, true) => {
                current.check_atomic_load::<true>(words.writes, atomic_loads, own_word, lane, kind)
            }
            (AccessKind::AtomicLoad, false) => {
                current.check_atomic_load::<false>(words.writes, atomic_loads, own_word, lane, kind)
            }
            (_, true) => current.check_update::<true, true>(words, own_word, lane, kind),
            (_, false) => current.check_update::<true, false>(words, own_word, lane, kind),
        };
        let plane = if touch == AccessKind::AtomicLoad { planes.atomic_loads } else { planes.atomics };
        if !plane.is_null() {
            *plane.add(cell) = joined;
        }
    }
}

#[inline(always)]
pub(super) unsafe fn apply_rules_for<const TOUCH: u8, const WARPS: bool>(
    e: &CheckedAccess<'_>,
    cell: usize,
    own_word: u64,
    lane: usize,
    kind: u64,
) -> bool {
    // SAFETY: the caller's cell is in the planes. There is a plane for each access kind of the memory's access sites;
    // other planes are null. Words that several workers write are locked.
    unsafe {
        let words = e.planes.words(cell);
        match TOUCH {
            LOAD => {
                let (ok, joined) = e.current.check_read::<true, WARPS>(words, own_word, lane, kind);
                if !e.planes.reads.is_null() && (ok || joined & KIND != GRID << KIND_SHIFT) {
                    *e.planes.reads.add(cell) = joined;
                }
                ok
            }
            STORE => {
                let is_ordered = kind == ONE && e.current.check_write::<true, true, WARPS>(words, own_word, lane);
                let ok = is_ordered
                    && (e.planes.atomic_loads.is_null()
                        || e.current.allows_write::<WARPS>(e.planes.atomic_load_word(cell), own_word, lane));
                if ok {
                    *e.planes.writes.add(cell) = own_word;
                }
                ok
            }
            ATOMIC_LOAD => {
                let (ok, joined) = e.current.check_atomic_load::<WARPS>(
                    words.writes,
                    e.planes.atomic_load_word(cell),
                    own_word,
                    lane,
                    kind,
                );
                if ok && !e.planes.atomic_loads.is_null() {
                    *e.planes.atomic_loads.add(cell) = joined;
                }
                ok
            }
            _ => {
                let (ok, joined) = e.current.check_update::<true, WARPS>(words, own_word, lane, kind);
                if ok && !e.planes.atomics.is_null() {
                    *e.planes.atomics.add(cell) = joined;
                }
                if ok && e.site.traits.ignores_old_value && words.writes < e.allocation_time {
                    *e.planes.writes.add(cell) = e.allocation_time | (own_word & !(u64::MAX << 20));
                }
                ok
            }
        }
    }
}
