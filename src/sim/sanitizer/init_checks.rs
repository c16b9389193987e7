//! Initialization checks of arrays on which threads cannot conflict. The only possible fault is a read of an unwritten
//! element.

use super::checked_access::{CheckedAccess, Finding};
use super::checker::WorkerChecker;
use super::element_checks::access_pattern_of;
use super::element_names::component_name;
use super::shadow::PrivateInitMap;
use crate::events::AccessKind;
use crate::group::ThreadGroup;
use crate::memory;
use clk_ir::variance::Variance;
use clk_runtime::FaultKind;

impl WorkerChecker<'_> {
    /// Checks an access to an array on which threads cannot conflict.
    ///
    /// # Safety
    /// The event's access site belongs to the group's code.
    pub(super) unsafe fn check_init(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>, written: &PrivateInitMap) {
        // SAFETY: C4: the event's access site belongs to the code. The pattern is within the initialization map, and
        // other threads do not write its elements.
        unsafe {
            let pattern = if e.site.variance == Variance::Varying { None } else { access_pattern_of(g, e) };
            let Some(pattern) = pattern else { return self.check_init_by_lane(g, e, written) };
            if !pattern.for_each_row(|cell, step, count| written.record_row(e, cell, step, count)) {
                self.check_init_by_lane(g, e, written);
            }
        }
    }

    /// Checks the access of each active lane separately, and reports faults.
    unsafe fn check_init_by_lane(&mut self, g: &ThreadGroup, e: &CheckedAccess<'_>, written: &PrivateInitMap) {
        for lane in g.active() {
            // SAFETY: C5: the event's access belongs to the code; active lanes exist (G2).
            let Some(addr) = (unsafe { memory::address(g, e.access, lane) }) else { continue };
            for component in 0..e.word_components() {
                let cell = e.cell_of(addr) + component * e.word_pitch();
                if cell >= written.len {
                    continue;
                }
                // SAFETY: the cell is in bounds, and other threads only read it.
                if unsafe { written.record_row(e, cell, 1, 1) } {
                    continue;
                }
                match &mut self.finding {
                    Some(first) => first.others += 1,
                    None => {
                        let place = component_name(g, e, addr, component);
                        let space = if e.is_global { "out" } else { "shared" };
                        let kind = FaultKind::Unwritten { place, space };
                        self.finding = Some(Finding { kind, lane, others: 0, is_benign: false });
                    }
                }
            }
        }
    }
}

impl PrivateInitMap {
    /// Checks and records an access to a row. Returns false if one of its elements may be unwritten or is out of
    /// bounds.
    #[inline(always)]
    pub(super) unsafe fn record_row(&self, e: &CheckedAccess<'_>, cell: usize, step: isize, count: usize) -> bool {
        let last = cell as isize + step * (count as isize - 1);
        if last < 0 || (last as usize).max(cell) >= self.len {
            return false;
        }
        // SAFETY: the row is within the initialization map, and other threads only read its elements.
        unsafe {
            match e.site.kind == AccessKind::Store || e.site.traits.ignores_old_value {
                true => self.mark_row(cell, step, count),
                false => self.is_marked(cell, step, count),
            }
        }
    }

    /// Marks the elements of a row as written. Always returns true.
    #[inline(always)]
    unsafe fn mark_row(&self, cell: usize, step: isize, count: usize) -> bool {
        // SAFETY: the caller's row is within the initialization map, and no other thread accesses its elements.
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
        // SAFETY: the caller's row is within the initialization map, and no other thread accesses its elements.
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
