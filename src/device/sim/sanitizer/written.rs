//! Arrays on which threads do not conflict: the only possible fault is a read of an unwritten element.

use super::checker::Checker;
use super::event::{Event, Finding};
use super::shadow::Written;
use super::text::place_text;
use super::touch::pattern_of;
use crate::device::FaultKind;
use crate::device::sim::events::{Form, Touch};
use crate::device::sim::group::Group;
use crate::device::sim::memory;

impl Checker<'_> {
    /// Checks an access to such an array.
    ///
    /// # Safety
    /// The event's note is one of the group's code.
    pub(super) unsafe fn own(&mut self, g: &mut Group, e: &Event<'_>, written: &Written) {
        // SAFETY: C4: the event is of a note of the code. A pattern that is found lies within the marks, and no other thread
        // accesses its elements.
        unsafe {
            let pattern = if e.note.form == Form::Lanes { None } else { pattern_of(g, e) };
            let Some(pattern) = pattern else { return self.own_by_lane(g, e, written) };
            if !pattern.rows(|cell, step, count| written.takes(e, cell, step, count)) {
                self.own_by_lane(g, e, written);
            }
        }
    }

    /// Checks an access lane by lane; reports what is wrong.
    unsafe fn own_by_lane(&mut self, g: &Group, e: &Event<'_>, written: &Written) {
        for lane in g.active() {
            // SAFETY: C5: the event's access is one of the code's; active lanes exist (G2).
            let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { continue };
            for component in 0..e.components() {
                let cell = e.cell(addr) + component * e.pitch();
                if cell >= written.len {
                    continue;
                }
                // SAFETY: the cell is in bounds, and no other thread accesses it but to read it.
                if unsafe { written.takes(e, cell, 1, 1) } {
                    continue;
                }
                match &mut self.finding {
                    Some(first) => first.others += 1,
                    None => {
                        let place = place_text(g, e, addr, component);
                        let space = if e.global { "out" } else { "shared" };
                        let kind = FaultKind::Unwritten { place, space };
                        self.finding = Some(Finding { kind, lane, others: 0, benign: false });
                    }
                }
            }
        }
    }
}

impl Written {
    /// Notes that an access is made to a row; returns false if an element of it may be unwritten, or is outside.
    #[inline(always)]
    pub(super) unsafe fn takes(&self, e: &Event<'_>, cell: usize, step: isize, count: usize) -> bool {
        let last = cell as isize + step * (count as isize - 1);
        if last < 0 || (last as usize).max(cell) >= self.len {
            return false;
        }
        // SAFETY: the row lies within the marks, and no other thread accesses its elements but to read them.
        unsafe {
            match e.note.touch == Touch::Store || e.note.traits.overwrites {
                true => self.mark_row(cell, step, count),
                false => self.is_marked(cell, step, count),
            }
        }
    }

    /// Marks a row as written; always returns true.
    #[inline(always)]
    unsafe fn mark_row(&self, cell: usize, step: isize, count: usize) -> bool {
        // SAFETY: the caller's row lies within the marks, and no other thread accesses its elements.
        unsafe {
            let first = self.bytes.add(cell);
            if step == 1 {
                first.write_bytes(self.mark, count);
            } else {
                (0..count as isize).for_each(|i| *first.offset(i * step) = self.mark);
            }
        }
        true
    }

    #[inline(always)]
    unsafe fn is_marked(&self, cell: usize, step: isize, count: usize) -> bool {
        // SAFETY: the caller's row lies within the marks, and no other thread accesses its elements.
        unsafe {
            let first = self.bytes.add(cell);
            if step == 1 {
                let row = std::slice::from_raw_parts(first, count);
                return row.iter().fold(0, |wrong, &byte| wrong | (byte ^ self.mark)) == 0;
            }
            (0..count as isize).all(|i| *first.offset(i * step) == self.mark)
        }
    }
}
