//! Accesses of machine code as they happen: of some lanes, to elements in a row or anywhere.
//!
//! Input: an access of the active lanes of a few vectors, with their addresses. Output: whether it is known to be correct; if so, it is
//! recorded in shadow words. The idea: what follows one another is compared as rows, as the interpreter's accesses are, and what does not,
//! element by element. Nothing is decided here: where the words do not say that an access is correct, machine code leaves.

use super::checker::Checker;
use super::event::Event;
use super::pattern::{Axis, NO_AXIS, Pattern};
use super::quick::Deed;
use super::rows::Row;
use crate::device::sim::events::Touch;
use crate::device::sim::group::{Apart, Group, Places, Told};

/// Vectors of a batch, and lanes of one, at most.
const VECTORS: usize = 4;
const LANES: usize = 64;

/// Lanes of one vector, or of several, whose elements are evenly apart.
struct Stretch {
    /// The address of the first lane's element.
    addr: *mut u8,
    /// Bytes from each lane's element to the next.
    step: isize,
    lane: usize,
    count: usize,
    /// The lanes that take part, if not all do; the first and the last one do.
    active: Option<u64>,
}

impl Checker<'_> {
    /// Checks and records an access.
    ///
    /// # Safety
    /// The note is one of the group's code, not of a local array, and the elements of the active lanes are inside.
    pub(super) unsafe fn touched_at(&mut self, g: &Group, places: &Places<'_>) -> Told {
        if self.careful {
            return Told::Doubtful;
        }
        let code = self.code;
        // SAFETY: C4: the note is one of the code's.
        let Some(e) = (unsafe { self.event(g, &code.notes[places.note as usize]) }) else { return Told::Clean };
        if e.written.is_some() {
            return Told::Doubtful;
        }
        if !e.global {
            let quick = &mut self.quick[e.access.memory as usize];
            if quick.is_open(&e.now, e.born) {
                if places.only_loads && self.watch.rough && e.note.touch == Touch::Load {
                    let all = (0, e.planes.len as isize - 1);
                    let told = if quick.bears_any(all, all) {
                        Told::Settled
                    } else if quick.bears_any(places.hull(&e), all) {
                        Told::Clean
                    } else {
                        Told::Doubtful
                    };
                    if told != Told::Doubtful {
                        quick.keep_any(&Deed::of(&e), all);
                        return told;
                    }
                }
                // SAFETY: the planes are those of the memory.
                unsafe { quick.write_out(&e.planes, &e.now, self.isa, e.warps) };
            }
        }
        // SAFETY: the caller's elements are inside.
        let clean = unsafe {
            match places.apart {
                Apart::Step(0) => self.in_one(&e, places),
                Apart::Step(step) => self.in_rows(&e, places, step),
                Apart::Lanes(offsets) => self.anywhere(&e, places, offsets),
            }
        };
        if clean { Told::Clean } else { Told::Doubtful }
    }

    /// Checks an access of all lanes of a vector to one element.
    unsafe fn in_one(&mut self, e: &Event<'_>, places: &Places<'_>) -> bool {
        let vectors = (0..VECTORS).filter_map(|number| places.vector(number));
        let mut vectors = vectors.peekable();
        while let Some((addr, lane, active)) = vectors.next() {
            let first = lane + active.trailing_zeros() as usize;
            let mut last = lane + active.ilog2() as usize;
            while let Some((_, lane, active)) = vectors.next_if(|next| next.0 == addr) {
                last = lane + active.ilog2() as usize;
            }
            // SAFETY: `one_element` looks whether the cell is in the planes.
            if !unsafe { self.one_element(e, addr, first, last - first) } {
                return false;
            }
        }
        true
    }

    /// Checks an access of lanes from a first one up to the one that is `spread` behind it.
    unsafe fn one_element(&mut self, e: &Event<'_>, addr: *mut u8, lane: usize, spread: usize) -> bool {
        if e.note.touch == Touch::Store && spread > 0 {
            return false;
        }
        let cell = e.cell(addr);
        // SAFETY: `cell` looks whether the cell is in the planes.
        let clean = (0..e.components()).all(|k| unsafe { self.cell(e, cell + k * e.pitch(), lane, spread) });
        if clean && e.note.touch == Touch::Store && !e.global {
            self.learn(e, cell, 1, 1);
        }
        clean
    }

    /// Checks rows of elements, vector by vector, and those of several vectors at once where they follow one another.
    unsafe fn in_rows(&mut self, e: &Event<'_>, places: &Places<'_>, step: usize) -> bool {
        let mut open: Option<Stretch> = None;
        for (addr, lane, active) in (0..VECTORS).filter_map(|number| places.vector(number)) {
            let next = Stretch::of(addr, step as isize, lane, active);
            match &mut open {
                Some(last) if last.is_followed_by(&next) => last.count += next.count,
                _ => {
                    let last = open.replace(next);
                    // SAFETY: the caller's elements are inside.
                    if !last.is_none_or(|last| unsafe { self.stretch(e, &last) }) {
                        return false;
                    }
                }
            }
        }
        // SAFETY: as above.
        open.is_none_or(|last| unsafe { self.stretch(e, &last) })
    }

    /// Checks an access whose lanes have offsets.
    unsafe fn anywhere(&mut self, e: &Event<'_>, places: &Places<'_>, offsets: &[i32; LANES]) -> bool {
        let unit = e.watched.unit as isize;
        for number in 0..VECTORS {
            let Some((base, lane, active)) = places.vector(number) else { continue };
            let (first, last) = (active.trailing_zeros() as usize, active.ilog2() as usize);
            let of = &offsets[number * places.width..][..places.width];
            let step = if first < last { of[first + 1].wrapping_sub(of[first]) as isize } else { unit };
            let evenly = || (first..last).all(|k| of[k + 1].wrapping_sub(of[k]) as isize == step);
            let all = active.count_ones() as usize == last + 1 - first;
            // SAFETY: the caller's elements are inside.
            let clean = unsafe {
                if all && step != 0 && step % unit == 0 && evenly() {
                    let addr = base.wrapping_offset(of[first] as isize);
                    self.stretch(e, &Stretch { addr, step, lane: lane + first, count: last + 1 - first, active: None })
                } else if all && step == 0 && evenly() {
                    self.one_element(e, base.wrapping_offset(of[first] as isize), lane + first, last - first)
                } else {
                    (first..=last).filter(|k| active >> k & 1 != 0).all(|k| {
                        let addr = base.wrapping_offset(of[k] as isize);
                        self.one_element(e, addr, lane + k, 0)
                    })
                }
            };
            if !clean {
                return false;
            }
        }
        true
    }

    unsafe fn stretch(&mut self, e: &Event<'_>, s: &Stretch) -> bool {
        let (unit, first) = (e.watched.unit as isize, e.cell(s.addr));
        let each = s.active.unwrap_or(u64::MAX);
        if !e.goes_by_rows() || s.step % unit != 0 {
            return (0..s.count).filter(|k| each >> k & 1 != 0).all(|k| {
                // SAFETY: the caller's elements are inside.
                unsafe { self.one_element(e, s.addr.wrapping_offset(k as isize * s.step), s.lane + k, 0) }
            });
        }
        let mut mask = [0u32; LANES];
        if s.active.is_some() {
            (0..s.count).for_each(|k| mask[k] = if each >> k & 1 != 0 { u32::MAX } else { 0 });
        }
        // Rows look at the mask of their lanes, from lane 0 on.
        let mask = s.active.map_or(std::ptr::null(), |_| mask.as_ptr().wrapping_sub(s.lane));
        let f = e.row_fn(self.isa, s.active.is_some());
        let [w, r, a] = [std::ptr::null_mut(); 3];
        let row = Row { w, r, a, step: s.step / unit, count: s.count, lane: s.lane, lane_step: 1, spread: 0, mask };
        for k in 0..e.components() {
            // SAFETY: `row` looks whether the cells are in the planes; the mask has the lanes of the row.
            if !unsafe { self.row(e, row, first + k * e.pitch(), |row| f(&e.now, row)) } {
                return false;
            }
        }
        if e.note.touch == Touch::Store && !e.global {
            let step = s.step / unit;
            match s.active {
                None => self.learn(e, first, step, s.count),
                Some(mut left) => {
                    // Lanes side by side at once.
                    while left != 0 {
                        let from = left.trailing_zeros();
                        let count = (left >> from).trailing_ones();
                        let at = (first as isize + from as isize * step) as usize;
                        self.learn(e, at, step, count as usize);
                        left &= !(((1u64 << count) - 1) << from);
                    }
                }
            }
        }
        true
    }

    /// Notes that elements of a shared array have been written: patterns of later accesses want to know.
    fn learn(&mut self, e: &Event<'_>, first: usize, step: isize, count: usize) {
        let quick = &mut self.quick[e.access.memory as usize];
        if e.components() == 1 && (step == 1 || count == 1) {
            return quick.learn_row(first, count);
        }
        let mut axes = [NO_AXIS; 5];
        if count > 1 {
            axes[0] = Axis { count, step, lanes: 1 };
        }
        if e.components() > 1 {
            axes[1] = Axis { count: e.components(), step: e.pitch() as isize, lanes: 0 };
        }
        quick.learn(&Pattern { first, lane: 0, spread: 0, axes });
    }
}

impl Places<'_> {
    /// Returns the smallest and the largest cell that is accessed, or more.
    fn hull(&self, e: &Event<'_>) -> (isize, isize) {
        let mut hull = (isize::MAX, isize::MIN);
        let behind = ((e.components() - 1) * e.pitch()) as isize;
        let mut add = |addr: *mut u8| {
            let cell = e.cell(addr) as isize;
            hull = (hull.0.min(cell), hull.1.max(cell + behind));
        };
        for number in 0..VECTORS {
            let Some((base, _, active)) = self.vector(number) else { continue };
            let (first, last) = (active.trailing_zeros() as usize, active.ilog2() as usize);
            match self.apart {
                Apart::Step(step) => [first, last].into_iter().for_each(|k| add(base.wrapping_add(k * step))),
                Apart::Lanes(offsets) => {
                    let of = &offsets[number * self.width..];
                    let active = (first..=last).filter(|k| active >> k & 1 != 0).map(|k| of[k] as isize);
                    let (low, high) = active.fold((isize::MAX, isize::MIN), |(l, h), o| (l.min(o), h.max(o)));
                    [low, high].into_iter().for_each(|offset| add(base.wrapping_offset(offset)));
                }
            }
        }
        hull
    }

    /// Returns a vector's base, its first lane, and a bit for each of its lanes that takes part, if there is one.
    fn vector(&self, number: usize) -> Option<(*mut u8, usize, u64)> {
        let first = number * self.width;
        let active = self.active.checked_shr(first as u32)? & (u64::MAX >> (LANES - self.width));
        (active != 0).then_some((self.bases[number], self.lane + first, active))
    }
}

impl Stretch {
    /// Returns the lanes of a vector from the first to the last one that takes part.
    fn of(addr: *mut u8, step: isize, lane: usize, active: u64) -> Stretch {
        let (first, last) = (active.trailing_zeros() as usize, active.ilog2() as usize);
        let (count, rest) = (last + 1 - first, active >> first);
        let all = rest.count_ones() as usize == count;
        let addr = addr.wrapping_offset(first as isize * step);
        Stretch { addr, step, lane: lane + first, count, active: (!all).then_some(rest) }
    }

    fn is_followed_by(&self, next: &Stretch) -> bool {
        self.active.is_none()
            && next.active.is_none()
            && self.lane + self.count == next.lane
            && self.addr.wrapping_offset(self.count as isize * self.step) == next.addr
    }
}
