//! Checks of single accesses in machine code: the active lanes of a few vectors access rows of elements, or elements at
//! arbitrary addresses.
//!
//! Input: the addresses of an access by the active lanes of a few vectors. Output: whether the access is known to be
//! correct; if so, it is recorded. The shadow words of contiguous elements are compared as rows, others individually.
//! This module reports no faults: if the shadow words do not prove an access correct, machine code exits to the
//! interpreter, which checks it again.

use super::access_pattern::{AccessPattern, NO_AXIS, PatternAxis};
use super::checked_access::CheckedAccess;
use super::checker::WorkerChecker;
use super::race_rules::ShadowRow;
use super::shared_access_log::RecordedAccess;
use crate::events::AccessKind;
use crate::group::{AccessFacts, LaneAddresses, LaneOffsets, ThreadGroup};

/// Maximum number of vectors in a batch, and maximum number of lanes in a batch (`LANES`).
const VECTORS: usize = 4;
const LANES: usize = 64;

/// Consecutive lanes of one or several vectors that access elements at a constant distance.
struct LaneStretch {
    /// The address of the first lane's element.
    addr: *mut u8,
    /// Distance in bytes from each lane's element to the next lane's element.
    step: isize,
    lane: usize,
    count: usize,
    /// The active lanes as a bit mask; `None` if all lanes are active. The first and the last lane are always active.
    active: Option<u64>,
}

impl WorkerChecker<'_> {
    /// Checks an access by the active lanes of a batch, and records it if it is correct.
    ///
    /// # Safety
    /// The access site belongs to the group's code and is not one of a local array. The elements of the active lanes
    /// are in bounds.
    pub(super) unsafe fn check_batch_access(&mut self, g: &ThreadGroup, batch: &LaneAddresses<'_>) -> AccessFacts {
        if self.is_exact {
            return AccessFacts::Unknown;
        }
        let code = self.code;
        // SAFETY: C4: the access site belongs to the code.
        let Some(e) = (unsafe { self.checked_access(g, &code.events.access_sites[batch.site as usize]) }) else {
            return AccessFacts::Clean;
        };
        if e.init_map.is_some() {
            return AccessFacts::Unknown;
        }
        if !e.is_global {
            let log = &mut self.access_logs[e.access.memory as usize];
            if log.is_open(&e.current, e.allocation_time) {
                if batch.only_loads && self.shared_state.allows_coarse_loads && e.site.kind == AccessKind::Load {
                    let all = (0, e.planes.len as isize - 1);
                    let facts = if log.allows_any_load(all, all) {
                        AccessFacts::AllLoadsClean
                    } else if log.allows_any_load(batch.bounds(&e), all) {
                        AccessFacts::Clean
                    } else {
                        AccessFacts::Unknown
                    };
                    if facts != AccessFacts::Unknown {
                        log.log_any_load(&RecordedAccess::from_access(&e), all);
                        return facts;
                    }
                }
                // SAFETY: the planes belong to the memory of the log.
                unsafe { log.write_out(&e.planes, &e.current, self.isa, e.has_warp_ops) };
            }
        }
        // SAFETY: the caller's elements are in bounds.
        let clean = unsafe {
            match batch.offsets {
                LaneOffsets::Step(0) => self.check_uniform_vectors(&e, batch),
                LaneOffsets::Step(step) => self.check_batch_rows(&e, batch, step),
                LaneOffsets::Lanes(offsets) => self.check_offsets(&e, batch, offsets),
            }
        };
        if clean { AccessFacts::Clean } else { AccessFacts::Unknown }
    }

    /// Checks an access in which all active lanes of a vector access one element.
    unsafe fn check_uniform_vectors(&mut self, e: &CheckedAccess<'_>, batch: &LaneAddresses<'_>) -> bool {
        let vectors = (0..VECTORS).filter_map(|number| batch.vector(number));
        let mut vectors = vectors.peekable();
        while let Some((addr, lane, active)) = vectors.next() {
            let first = lane + active.trailing_zeros() as usize;
            let mut last = lane + active.ilog2() as usize;
            while let Some((_, lane, active)) = vectors.next_if(|next| next.0 == addr) {
                last = lane + active.ilog2() as usize;
            }
            // SAFETY: `check_one_element` checks that the cell is in the planes.
            if !unsafe { self.check_one_element(e, addr, first, last - first) } {
                return false;
            }
        }
        true
    }

    /// Checks an access to one element by lanes `lane` to `lane + spread`.
    unsafe fn check_one_element(&mut self, e: &CheckedAccess<'_>, addr: *mut u8, lane: usize, spread: usize) -> bool {
        if e.site.kind == AccessKind::Store && spread > 0 {
            return false;
        }
        let cell = e.cell_of(addr);
        // SAFETY: `cell` checks that the cell is in the planes.
        let clean =
            (0..e.word_components()).all(|k| unsafe { self.check_cell(e, cell + k * e.word_pitch(), lane, spread) });
        if clean && e.site.kind == AccessKind::Store && !e.is_global {
            self.mark_shared_written(e, cell, 1, 1);
        }
        clean
    }

    /// Checks an access in which each vector accesses a row of elements. Rows of several vectors that continue each
    /// other are checked together.
    unsafe fn check_batch_rows(&mut self, e: &CheckedAccess<'_>, batch: &LaneAddresses<'_>, step: usize) -> bool {
        let mut open: Option<LaneStretch> = None;
        for (addr, lane, active) in (0..VECTORS).filter_map(|number| batch.vector(number)) {
            let next = LaneStretch::from_vector(addr, step as isize, lane, active);
            match &mut open {
                Some(last) if last.is_followed_by(&next) => last.count += next.count,
                _ => {
                    let last = open.replace(next);
                    // SAFETY: the caller's elements are in bounds.
                    if !last.is_none_or(|last| unsafe { self.check_stretch(e, &last) }) {
                        return false;
                    }
                }
            }
        }
        // SAFETY: as above.
        open.is_none_or(|last| unsafe { self.check_stretch(e, &last) })
    }

    /// Checks an access in which each lane has a separate offset from the base address of its vector.
    unsafe fn check_offsets(
        &mut self,
        e: &CheckedAccess<'_>,
        batch: &LaneAddresses<'_>,
        offsets: &[i32; LANES],
    ) -> bool {
        let unit = e.tracked.unit as isize;
        for number in 0..VECTORS {
            let Some((base, lane, active)) = batch.vector(number) else { continue };
            let (first, last) = (active.trailing_zeros() as usize, active.ilog2() as usize);
            let vector_offsets = &offsets[number * batch.width..][..batch.width];
            let step = if first < last {
                vector_offsets[first + 1].wrapping_sub(vector_offsets[first]) as isize
            } else {
                unit
            };
            let evenly =
                || (first..last).all(|k| vector_offsets[k + 1].wrapping_sub(vector_offsets[k]) as isize == step);
            let all = active.count_ones() as usize == last + 1 - first;
            // SAFETY: the caller's elements are in bounds.
            let clean = unsafe {
                if all && step != 0 && step % unit == 0 && evenly() {
                    let addr = base.wrapping_offset(vector_offsets[first] as isize);
                    self.check_stretch(
                        e,
                        &LaneStretch { addr, step, lane: lane + first, count: last + 1 - first, active: None },
                    )
                } else if all && step == 0 && evenly() {
                    self.check_one_element(
                        e,
                        base.wrapping_offset(vector_offsets[first] as isize),
                        lane + first,
                        last - first,
                    )
                } else {
                    (first..=last).filter(|k| active >> k & 1 != 0).all(|k| {
                        let addr = base.wrapping_offset(vector_offsets[k] as isize);
                        self.check_one_element(e, addr, lane + k, 0)
                    })
                }
            };
            if !clean {
                return false;
            }
        }
        true
    }

    unsafe fn check_stretch(&mut self, e: &CheckedAccess<'_>, s: &LaneStretch) -> bool {
        let (unit, first) = (e.tracked.unit as isize, e.cell_of(s.addr));
        let each = s.active.unwrap_or(u64::MAX);
        if !e.supports_rows() || s.step % unit != 0 {
            return (0..s.count).filter(|k| each >> k & 1 != 0).all(|k| {
                // SAFETY: the caller's elements are in bounds.
                unsafe { self.check_one_element(e, s.addr.wrapping_offset(k as isize * s.step), s.lane + k, 0) }
            });
        }
        let mut mask = [0u32; LANES];
        if s.active.is_some() {
            (0..s.count).for_each(|k| mask[k] = if each >> k & 1 != 0 { u32::MAX } else { 0 });
        }
        // The row loops index the mask by lane number, so the pointer is moved back by `s.lane` lanes.
        let mask = s.active.map_or(std::ptr::null(), |_| mask.as_ptr().wrapping_sub(s.lane));
        let f = e.row_fn(self.isa, s.active.is_some());
        let [w, r, a] = [std::ptr::null_mut(); 3];
        let row =
            ShadowRow { w, r, a, step: s.step / unit, count: s.count, lane: s.lane, lane_step: 1, spread: 0, mask };
        for k in 0..e.word_components() {
            // SAFETY: `check_row` checks that the cells are in the planes; the mask contains the lanes of the row.
            if !unsafe { self.check_row(e, row, first + k * e.word_pitch(), |row| f(&e.current, row)) } {
                return false;
            }
        }
        if e.site.kind == AccessKind::Store && !e.is_global {
            let step = s.step / unit;
            match s.active {
                None => self.mark_shared_written(e, first, step, s.count),
                Some(mut left) => {
                    // Mark the elements of each range of adjacent active lanes together.
                    while left != 0 {
                        let from = left.trailing_zeros();
                        let count = (left >> from).trailing_ones();
                        let at = (first as isize + from as isize * step) as usize;
                        self.mark_shared_written(e, at, step, count as usize);
                        left &= !(((1u64 << count) - 1) << from);
                    }
                }
            }
        }
        true
    }

    /// Records in the access log of a shared array that elements have been written. Otherwise, later loads could not be
    /// checked by patterns.
    fn mark_shared_written(&mut self, e: &CheckedAccess<'_>, first: usize, step: isize, count: usize) {
        let log = &mut self.access_logs[e.access.memory as usize];
        if e.word_components() == 1 && (step == 1 || count == 1) {
            return log.mark_row_written(first, count);
        }
        let mut axes = [NO_AXIS; 5];
        if count > 1 {
            axes[0] = PatternAxis { count, step, lanes: 1 };
        }
        if e.word_components() > 1 {
            axes[1] = PatternAxis { count: e.word_components(), step: e.word_pitch() as isize, lanes: 0 };
        }
        log.mark_written(&AccessPattern { first, lane: 0, spread: 0, axes });
    }
}

impl LaneAddresses<'_> {
    /// Returns the smallest and the largest accessed cell.
    fn bounds(&self, e: &CheckedAccess<'_>) -> (isize, isize) {
        let mut hull = (isize::MAX, isize::MIN);
        let extra = ((e.word_components() - 1) * e.word_pitch()) as isize;
        let mut add = |addr: *mut u8| {
            let cell = e.cell_of(addr) as isize;
            hull = (hull.0.min(cell), hull.1.max(cell + extra));
        };
        for number in 0..VECTORS {
            let Some((base, _, active)) = self.vector(number) else { continue };
            let (first, last) = (active.trailing_zeros() as usize, active.ilog2() as usize);
            match self.offsets {
                LaneOffsets::Step(step) => [first, last].into_iter().for_each(|k| add(base.wrapping_add(k * step))),
                LaneOffsets::Lanes(offsets) => {
                    let vector_offsets = &offsets[number * self.width..];
                    let active = (first..=last).filter(|k| active >> k & 1 != 0).map(|k| vector_offsets[k] as isize);
                    let (low, high) = active.fold((isize::MAX, isize::MIN), |(l, h), o| (l.min(o), h.max(o)));
                    [low, high].into_iter().for_each(|offset| add(base.wrapping_offset(offset)));
                }
            }
        }
        hull
    }

    /// Returns a vector's base address, its first lane, and a bit mask of its active lanes. `None` if no lane of the
    /// vector is active.
    fn vector(&self, number: usize) -> Option<(*mut u8, usize, u64)> {
        let first = number * self.width;
        let active = self.active.checked_shr(first as u32)? & (u64::MAX >> (LANES - self.width));
        (active != 0).then_some((self.bases[number], self.lane + first, active))
    }
}

impl LaneStretch {
    /// Returns the lanes of a vector from the first to the last active one.
    fn from_vector(addr: *mut u8, step: isize, lane: usize, active: u64) -> LaneStretch {
        let (first, last) = (active.trailing_zeros() as usize, active.ilog2() as usize);
        let (count, rest) = (last + 1 - first, active >> first);
        let all = rest.count_ones() as usize == count;
        let addr = addr.wrapping_offset(first as isize * step);
        LaneStretch { addr, step, lane: lane + first, count, active: (!all).then_some(rest) }
    }

    fn is_followed_by(&self, next: &LaneStretch) -> bool {
        self.active.is_none()
            && next.active.is_none()
            && self.lane + self.count == next.lane
            && self.addr.wrapping_offset(self.count as isize * self.step) == next.addr
    }
}
