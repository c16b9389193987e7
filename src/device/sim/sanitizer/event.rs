//! Accesses under examination: the data that the rules need of one, and how it updates the shadow words of an element.

use std::ops::Range;

use super::rows::{Now, Row, RowFn, Variant, company, reader, writer};
use super::shadow::{Planes, Written};
use super::word::{GRID, KIND, KIND_SHIFT, LANE_SHIFT, ONE};
use crate::device::sim::code::{Access, Watched};
use crate::device::sim::events::{Note, Touch};
use crate::device::sim::lanes::Isa;
use crate::device::{Deed, FaultKind};

/// An access being checked.
pub(super) struct Event<'e> {
    pub note: &'e Note,
    pub access: &'e Access,
    pub watched: &'e Watched,
    pub planes: Planes,
    /// In place of planes.
    pub written: Option<Written>,
    pub now: Now,
    /// The address of the memory.
    pub start: *mut u8,
    pub global: bool,
    /// Other workers access the words concurrently.
    pub locked: bool,
    pub warps: bool,
    /// The time of the memory's allocation, as a word; accesses recorded at it are ordered before everything else.
    pub born: u64,
}

impl Event<'_> {
    pub(super) fn cell(&self, addr: *const u8) -> usize {
        self.cell_at(addr as usize - self.start as usize)
    }

    /// Returns the cell of a byte offset in the memory.
    #[inline(always)]
    pub(super) fn cell_at(&self, offset: usize) -> usize {
        let unit = self.watched.unit;
        if unit.is_power_of_two() { offset >> unit.trailing_zeros() } else { offset / unit }
    }

    /// Returns the distance in words from component to component.
    pub(super) fn pitch(&self) -> usize {
        self.note.pitch / self.watched.unit
    }

    /// Returns how many components have words of their own.
    pub(super) fn components(&self) -> usize {
        if self.watched.whole { 1 } else { self.note.components.max(1) as usize }
    }

    /// Returns the components that the cell of a party has.
    pub(super) fn parts(&self, p: &Party) -> Range<usize> {
        if self.watched.whole { 0..self.note.components.max(1) as usize } else { p.component..p.component + 1 }
    }

    /// Returns the byte of the memory at which one of these components begins.
    pub(super) fn value_at(&self, p: &Party, component: usize) -> usize {
        p.cell * self.watched.unit + if self.watched.whole { component * self.access.scalar.size() } else { 0 }
    }

    /// Returns whether it can be recorded row by row.
    pub(super) fn goes_by_rows(&self) -> bool {
        match self.note.touch {
            Touch::Load => true,
            // The row loops do not handle words of atomic loads.
            Touch::Store => self.planes.l.is_null(),
            Touch::Atomic | Touch::Look => false,
        }
    }

    /// Returns the function that records its rows; with `mask`, some lanes are inactive.
    pub(super) fn row_fn(&self, isa: Isa, mask: bool) -> RowFn {
        let (reads, atomics) = (!self.planes.r.is_null(), !self.planes.a.is_null());
        let variant = Variant { reads, atomics, warps: self.warps, mask };
        if self.note.touch == Touch::Load { reader(isa, variant) } else { writer(isa, variant) }
    }
}

/// A fault of an access: the first thread's, with the number of others.
pub(crate) struct Finding {
    pub kind: FaultKind,
    pub lane: usize,
    pub others: u64,
    pub benign: bool,
}

/// One lane's part of an access.
pub(crate) struct Party {
    pub lane: usize,
    pub cell: usize,
    pub component: usize,
    pub addr: *mut u8,
}

/// A thread that accessed an element.
#[derive(Clone, Copy)]
pub(crate) struct Other {
    pub group: u64,
    pub lane: usize,
    /// The number of its access among those of the memory.
    pub site: u32,
}

/// The conflicting access.
#[derive(Clone, Copy)]
pub(crate) struct Clash {
    pub other: Other,
    pub deed: Deed,
}

/// Points a row at the shadow words of its first element.
#[inline(always)]
pub(super) fn row_at(row: &mut Row, planes: &Planes, cell: usize) {
    let word = |plane: *mut u64| if plane.is_null() { plane } else { plane.wrapping_add(cell) };
    (row.w, row.r, row.a) = (word(planes.w), word(planes.r), word(planes.a));
}

pub(super) const LOAD: u8 = 0;
pub(super) const STORE: u8 = 1;
pub(super) const ATOMIC: u8 = 2;
pub(super) const LOOK: u8 = 3;

/// Applies the rules to the words of an element and updates them; returns false if a rule is violated.
#[inline(always)]
pub(super) unsafe fn note_cell(e: &Event<'_>, cell: usize, me: u64, lane: usize, kind: u64) -> bool {
    // SAFETY: the caller's cell suits [`noted`].
    unsafe {
        match (e.note.touch, e.warps) {
            (Touch::Load, false) => noted::<LOAD, false>(e, cell, me, lane, kind),
            (Touch::Load, true) => noted::<LOAD, true>(e, cell, me, lane, kind),
            (Touch::Store, false) => noted::<STORE, false>(e, cell, me, lane, kind),
            (Touch::Store, true) => noted::<STORE, true>(e, cell, me, lane, kind),
            (Touch::Atomic, false) => noted::<ATOMIC, false>(e, cell, me, lane, kind),
            (Touch::Atomic, true) => noted::<ATOMIC, true>(e, cell, me, lane, kind),
            (Touch::Look, false) => noted::<LOOK, false>(e, cell, me, lane, kind),
            (Touch::Look, true) => noted::<LOOK, true>(e, cell, me, lane, kind),
        }
    }
}

/// Records a correct atomic operation of kind `touch`.
///
/// # Safety
/// The cell is in the planes.
pub(super) unsafe fn update_cell(
    planes: &Planes,
    now: &Now,
    touch: Touch,
    cell: usize,
    lane: usize,
    spread: usize,
    warps: bool,
) {
    // SAFETY: the caller's cell is in the planes, of which there is one for each kind of access that the memory's notes have;
    // others are null. What several workers write is locked.
    unsafe {
        let (me, words) = (now.own | (lane as u64) << LANE_SHIFT, planes.words(cell));
        let (kind, seen) = (company(lane, spread), (words.0, planes.look(cell)));
        let (_, joined) = match (touch, warps) {
            (Touch::Look, true) => now.look::<true>(seen, me, lane, kind),
            (Touch::Look, false) => now.look::<false>(seen, me, lane, kind),
            (_, true) => now.update::<true, true>(words, me, lane, kind),
            (_, false) => now.update::<true, false>(words, me, lane, kind),
        };
        let plane = if touch == Touch::Look { planes.l } else { planes.a };
        if !plane.is_null() {
            *plane.add(cell) = joined;
        }
    }
}

#[inline(always)]
pub(super) unsafe fn noted<const TOUCH: u8, const WARPS: bool>(
    e: &Event<'_>,
    cell: usize,
    me: u64,
    lane: usize,
    kind: u64,
) -> bool {
    // SAFETY: the caller's cell is in the planes, of which there is one for each kind of access that the memory's notes have;
    // others are null. What several workers write is locked.
    unsafe {
        let words = e.planes.words(cell);
        match TOUCH {
            LOAD => {
                let (ok, joined) = e.now.read::<true, WARPS>(words, me, lane, kind);
                if !e.planes.r.is_null() && (ok || joined & KIND != GRID << KIND_SHIFT) {
                    *e.planes.r.add(cell) = joined;
                }
                ok
            }
            STORE => {
                let alone = kind == ONE && e.now.write::<true, true, WARPS>(words, me, lane);
                let ok = alone && (e.planes.l.is_null() || e.now.follows::<WARPS>(e.planes.look(cell), me, lane));
                if ok {
                    *e.planes.w.add(cell) = me;
                }
                ok
            }
            LOOK => {
                let (ok, joined) = e.now.look::<WARPS>((words.0, e.planes.look(cell)), me, lane, kind);
                if ok && !e.planes.l.is_null() {
                    *e.planes.l.add(cell) = joined;
                }
                ok
            }
            _ => {
                let (ok, joined) = e.now.update::<true, WARPS>(words, me, lane, kind);
                if ok && !e.planes.a.is_null() {
                    *e.planes.a.add(cell) = joined;
                }
                if ok && e.note.traits.overwrites && words.0 < e.born {
                    *e.planes.w.add(cell) = e.born | (me & !(u64::MAX << 20));
                }
                ok
            }
        }
    }
}
