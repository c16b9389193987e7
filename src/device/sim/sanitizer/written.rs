//! Global arrays whose elements are private to threads: the only possible fault is a read of an unwritten element.

use super::checker::Checker;
use super::event::{Event, Finding};
use super::shadow::Written;
use super::text::place_text;
use super::touch::pattern_of;
use crate::device::FaultKind;
use crate::device::sim::events::Touch;
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
            let Some(pattern) = pattern_of(g, e) else { return self.own_by_lane(g, e, written) };
            let clean = pattern.walk(std::ptr::null()).each(pattern.first, |row, cell| match e.note.touch {
                Touch::Store => written.mark_row(cell, row.step, row.count),
                _ => e.note.traits.overwrites || written.is_marked(cell, row.step, row.count),
            });
            if e.note.traits.overwrites {
                pattern.rows(|cell, step, count| written.mark_row(cell, step, count));
            }
            if !clean {
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
                // SAFETY: the cell is in bounds, and no other thread accesses it.
                let byte = unsafe { &mut *written.bytes.add(cell) };
                if e.note.touch == Touch::Store || e.note.traits.overwrites {
                    *byte = written.mark;
                } else if *byte != written.mark {
                    match &mut self.finding {
                        Some(first) => first.others += 1,
                        None => {
                            let place = place_text(g, e, addr, component);
                            let kind = FaultKind::Unwritten { place, space: "out" };
                            self.finding = Some(Finding { kind, lane, others: 0, benign: false });
                        }
                    }
                }
            }
        }
    }
}

impl Written {
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
