//! Applies the race rules to the elements of an access: to a single element, to rows of elements, or for each lane
//! separately.

use super::access_pattern::{AccessPattern, NO_AXIS, PatternAxis};
use super::checked_access::{
    ATOMIC, ATOMIC_LOAD, CheckedAccess, LOAD, LaneAccess, STORE, apply_rules, apply_rules_for, point_row,
};
use super::checker::WorkerChecker;
use super::race_rules::{ShadowRow, thread_set_kind};
use super::shadow::PAGE_SHIFT;
use super::shadow_word::{LANE_SHIFT, ONE};
use super::shared_access_log::{NO_CELL, RecordedAccess};
use crate::code::{AccessOperands, MemoryKind};
use crate::events::{AccessKind, AccessSite, AccessTraits};
use crate::group::ThreadGroup;
use crate::group_registers::CHUNK;
use crate::lanes::is_wide;
use crate::memory::{self, AddressRun};
use clk_ir::variance::Variance;
use clk_runtime::FaultKind;
use clk_runtime::Isa;

impl RecordedAccess {
    pub(super) fn from_access(e: &CheckedAccess<'_>) -> RecordedAccess {
        RecordedAccess { word: e.current.word, ..RecordedAccess::from_site(e.site) }
    }

    /// Returns the data to log for an access site of a shared array; its word contains no time yet.
    pub(super) fn from_site(site: &AccessSite) -> RecordedAccess {
        let AccessTraits { reads_own_store: own, ignores_old_value: overwrites, .. } = site.traits;
        RecordedAccess { kind: site.kind, word: site.shadow_id.into(), keeps_first_thread: own, overwrites }
    }
}

/// Returns the pattern of an access with uniform or affine indices. `None` if the active lanes are not contiguous or
/// some element is out of bounds.
#[inline(always)]
pub(super) unsafe fn access_pattern_of(g: &mut ThreadGroup, e: &CheckedAccess<'_>) -> Option<AccessPattern> {
    // SAFETY: C4, C5: access site and access belong to the code. A site marked as uniform has uniform indices, others
    // have affine ones.
    unsafe {
        let mut pattern = if e.site.variance == Variance::Uniform {
            let addr = memory::uniform_address(g, e.access)?;
            let (first, last) = active_bounds(g);
            if !(g.mask.full || g.mask.is_contiguous || first == last) {
                return None;
            }
            AccessPattern { first: e.cell_of(addr), lane: first, spread: last - first, axes: [NO_AXIS; 5] }
        } else {
            let run = memory::resolve_affine(g, e.access, e.site.access)?;
            if !(g.mask.full || (run.is_exact(&g.mask) && (g.mask.is_contiguous || run.count[0] == 1))) {
                return None;
            }
            AccessPattern { first: e.cell_of(run.addr), ..AccessPattern::from_run(&run, e.tracked.unit)? }
        };
        if e.word_components() > 1 {
            let free = pattern.axes.iter_mut().find(|a| a.count == 1)?;
            *free = PatternAxis { count: e.word_components(), step: e.word_pitch() as isize, lanes: 0 };
        }
        let len = e.init_map.map_or(e.planes.len, |w| w.len);
        let (low, high) = pattern.bounds();
        (low >= 0 && high < len as isize).then_some(pattern)
    }
}

/// Appends the cell that each lane accesses to `cells`, for an access with a separate index in each lane. Returns false
/// if some element is out of bounds.
unsafe fn list_cells(isa: Isa, g: &ThreadGroup, e: &CheckedAccess<'_>, cells: &mut Vec<u32>) -> bool {
    if e.word_components() > 1 || e.planes.len >= NO_CELL as usize || !e.tracked.unit.is_power_of_two() {
        return false;
    }
    cells.extend(std::iter::repeat_n(NO_CELL, g.mask.lo * CHUNK));
    let list: unsafe fn(&ThreadGroup, &CheckedAccess<'_>, &mut Vec<u32>) -> bool = match isa {
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx2 => list_avx2,
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx512 => list_avx512,
        _ => list_chunks,
    };
    // SAFETY: C5: the caller's event belongs to an access of the code with lane indices. G6: the machine has the
    // instructions of `isa`.
    unsafe { list(g, e, cells) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn list_avx2(g: &ThreadGroup, e: &CheckedAccess<'_>, cells: &mut Vec<u32>) -> bool {
    // SAFETY: the caller's event is valid for [`list_chunks`]. G6: the machine has these instructions.
    unsafe { list_chunks(g, e, cells) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn list_avx512(g: &ThreadGroup, e: &CheckedAccess<'_>, cells: &mut Vec<u32>) -> bool {
    // SAFETY: the caller's event is valid for [`list_chunks`]. G6: the machine has these instructions.
    unsafe { list_chunks(g, e, cells) }
}

#[inline(always)]
unsafe fn list_chunks(g: &ThreadGroup, e: &CheckedAccess<'_>, cells: &mut Vec<u32>) -> bool {
    // SAFETY: C5: the access has lane indices, and its memory exists (G3); the mask has its chunks (G2).
    unsafe {
        let memory = &*g.memories.add(e.access.memory as usize);
        let shift = e.tracked.unit.trailing_zeros();
        for chunk in g.mask.chunks() {
            let (offsets, inside) = memory::chunk_offsets(&g.registers, e.access, memory, chunk);
            if !inside {
                return false;
            }
            let mask = g.mask.lanes.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned();
            let mut listed = [NO_CELL; CHUNK];
            for i in 0..CHUNK {
                listed[i] = (offsets[i] >> shift) as u32 | !mask[i];
            }
            cells.extend_from_slice(&listed);
        }
        true
    }
}

impl<'a> WorkerChecker<'a> {
    /// Returns the data for checking an access; `None` if the memory needs no checks.
    ///
    /// # Safety
    /// The access site belongs to the group's code, and not to a local array.
    #[inline(always)]
    pub(super) unsafe fn checked_access<'e>(
        &mut self,
        g: &ThreadGroup,
        site: &'e AccessSite,
    ) -> Option<CheckedAccess<'e>>
    where
        'a: 'e,
    {
        let code = self.code;
        let access = &code.accesses[site.access as usize];
        let number = access.memory as usize;
        let tracked = code.events.tracked[number].as_ref()?;
        let (planes, is_global) = self.planes(g, number, tracked);
        // SAFETY: G4: each memory of the code has an entry.
        let size = unsafe { (*g.memories.add(number)).len };
        let init_map = if planes.writes.is_null() { self.init_map(number, size) } else { None };
        if planes.writes.is_null() && init_map.is_none() && !self.is_exact {
            return None;
        }
        let clock = if is_global { &self.global_clock } else { &self.shared_clock };
        let allocation_time = clock.allocation_time;
        let mut current = clock.current_access(site.shadow_id);
        if !tracked.starts_unwritten || site.traits.ignores_old_value {
            current.init_time = 0;
        }
        current.keeps_first_thread = site.traits.reads_own_store;
        // SAFETY: G4: each memory of the code has an entry.
        let start = unsafe { (*g.memories.add(number)).ptr };
        let needs_lock = is_global && self.shared_state.global_shadow.has_several_workers;
        let has_warp_ops = code.properties.has_warp_ops;
        Some(CheckedAccess {
            site,
            access,
            tracked,
            planes,
            init_map,
            current,
            start,
            is_global,
            needs_lock,
            has_warp_ops,
            allocation_time,
        })
    }

    /// Checks and records an access of the active lanes.
    ///
    /// # Safety
    /// The access site belongs to the group's code.
    pub(super) unsafe fn check_access(&mut self, g: &mut ThreadGroup, site: &AccessSite) {
        let code = self.code;
        let access = &code.accesses[site.access as usize];
        // SAFETY: C4, C5: access site, access and memory belong to the code.
        unsafe {
            if code.memories[access.memory as usize].kind == MemoryKind::Local {
                return self.check_local(g, site, access);
            }
            if code.events.counted_warps.is_some() {
                self.count_cost(g, site);
            }
            let Some(event) = self.checked_access(g, site) else { return };
            if let Some(written) = event.init_map {
                self.check_init(g, &event, &written);
            } else if self.is_exact {
                self.check_exactly(g, &event);
            } else if event.is_global || !self.try_log(g, &event) {
                self.check_words(g, &event);
            }
            if code.properties.has_polling {
                self.polling.on_access(g, &event);
            }
        }
        self.report_finding(g, access);
    }

    /// Compares an access with the shadow words of its elements.
    unsafe fn check_words(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) {
        // SAFETY: C4: the event's access site belongs to the code.
        unsafe {
            let clean = match e.site.variance {
                Variance::Uniform => self.check_uniform(g, e),
                Variance::Affine => self.check_rows(g, e),
                Variance::Varying => self.check_lanes(g, e),
            };
            if !clean {
                self.check_lane_by_lane(g, e);
            }
        }
    }

    /// Checks an access to a shared array by comparing patterns, and logs it. If patterns do not prove it correct,
    /// checks it by shadow words, but only if it has a pattern. Returns whether the access has been checked.
    #[inline(always)]
    unsafe fn try_log(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) -> bool {
        // SAFETY: C4: the event's access site belongs to the code; the planes belong to its memory.
        unsafe {
            let access = RecordedAccess::from_access(e);
            let (isa, log) = (self.isa, &mut self.access_logs[e.access.memory as usize]);
            let open = log.is_open(&e.current, e.allocation_time);
            if e.site.variance == Variance::Varying {
                if open && e.site.kind != AccessKind::Store {
                    let from = log.cells.len();
                    if list_cells(isa, g, e, &mut log.cells) && log.try_log_cells(&access, from, e.planes.len) {
                        return true;
                    }
                    log.cells.truncate(from);
                }
            } else if let Some(pattern) = access_pattern_of(g, e) {
                if open && log.try_log(&access, &pattern) {
                    return true;
                }
                if open {
                    log.write_out(&e.planes, &e.current, isa, e.has_warp_ops);
                }
                self.check_words(g, e);
                if self.finding.is_none() {
                    self.access_logs[e.access.memory as usize].mark_written(&pattern);
                }
                return true;
            }
            if open {
                log.write_out(&e.planes, &e.current, isa, e.has_warp_ops);
            }
            false
        }
    }

    /// Checks an access of all active lanes to one element.
    unsafe fn check_uniform(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) -> bool {
        // SAFETY: C5: the access has uniform indices, and its element is in bounds.
        unsafe {
            let Some(addr) = memory::uniform_address(g, e.access) else { return true };
            let (first, last) = active_bounds(g);
            self.check_element(e, addr, first, last)
        }
    }

    /// Checks an access to all components of one element by lanes `first` to `last`.
    unsafe fn check_element(&mut self, e: &CheckedAccess<'_>, addr: *mut u8, first: usize, last: usize) -> bool {
        if e.site.kind == AccessKind::Store && first != last {
            return false;
        }
        let cell = e.cell_of(addr);
        // SAFETY: `cell` checks that the cell is in the planes.
        (0..e.word_components()).all(|k| unsafe { self.check_cell(e, cell + k * e.word_pitch(), first, last - first) })
    }

    /// Checks an access to one cell. Returns false if a race rule is violated.
    #[inline(always)]
    pub(super) unsafe fn check_cell(&self, e: &CheckedAccess<'_>, cell: usize, lane: usize, spread: usize) -> bool {
        if cell >= e.planes.len {
            return true;
        }
        let own_word = e.current.word | (lane as u64) << LANE_SHIFT;
        let kind = thread_set_kind(lane, spread);
        // SAFETY: the cell is in the planes.
        let apply = || unsafe { apply_rules(e, cell, own_word, lane, kind) };
        if e.needs_lock { self.shared_state.global_shadow.with_page(cell, apply) } else { apply() }
    }

    /// Checks an access with affine indices as rows of elements. Returns false if a race rule is violated, or if the
    /// access cannot be checked by rows.
    unsafe fn check_rows(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) -> bool {
        // SAFETY: C5: the access has affine indices. `check_row` checks that the cells are in the planes; the lanes of
        // the row are in the chunks of the mask.
        unsafe {
            if !e.supports_rows() {
                return false;
            }
            let Some(run) = memory::resolve_affine(g, e.access, e.site.access) else { return false };
            let mask = if g.mask.full { std::ptr::null() } else { g.mask.lanes };
            let Some(mut pattern) = AccessPattern::from_run(&run, e.tracked.unit) else { return false };
            pattern.first = e.cell_of(run.addr);
            let is_row = run.is_exact(&g.mask);
            let inside =
                run.lane >= g.mask.lo * CHUNK && run.lane + run.count.iter().product::<usize>() <= g.mask.hi * CHUNK;
            if !(g.mask.full || inside) {
                return false;
            }
            // If several lanes store to one element, or if the box of lanes contains inactive lanes, each lane is
            // checked separately.
            if pattern.spread > 0
                && (e.site.kind == AccessKind::Store || !(g.mask.full || is_row && pattern.is_point()))
            {
                return false;
            }
            let walk = pattern.to_rows(if pattern.is_point() { std::ptr::null() } else { mask });
            let row = e.row_fn(self.isa, !walk.row.mask.is_null());
            for k in 0..e.word_components() {
                let clean = walk.for_each(pattern.first + k * e.word_pitch(), |r, cell| {
                    self.check_row(e, r, cell, |r| row(&e.current, r))
                });
                if !clean {
                    return false;
                }
            }
            true
        }
    }

    /// Checks and records a row while holding the locks of the pages that contain its shadow words.
    #[inline(always)]
    pub(super) unsafe fn check_row(
        &self,
        e: &CheckedAccess<'_>,
        mut row: ShadowRow,
        cell: usize,
        f: impl Fn(&ShadowRow) -> bool,
    ) -> bool {
        let at = |row: &mut ShadowRow, cell: usize| point_row(row, &e.planes, cell);
        let last = cell as isize + row.step * (row.count as isize - 1);
        if last < 0 || (last as usize).max(cell) >= e.planes.len {
            return false;
        }
        if !e.needs_lock {
            at(&mut row, cell);
            return f(&row);
        }
        if cell >> PAGE_SHIFT == last as usize >> PAGE_SHIFT {
            at(&mut row, cell);
            return self.shared_state.global_shadow.with_page(cell, || f(&row));
        }
        let (all, mut done) = (row.count, 0);
        while done < all {
            let first = (cell as isize + done as isize * row.step) as usize;
            // The number of cells from `first` to the end of the page.
            let rest_of_page = (1usize << PAGE_SHIFT) - first % (1 << PAGE_SHIFT);
            let count = if row.step == 1 { rest_of_page.min(all - done) } else { 1 };
            let mut piece = ShadowRow { count, lane: row.lane + done * row.lane_step, ..row };
            at(&mut piece, first);
            if !self.shared_state.global_shadow.with_page(first, || f(&piece)) {
                return false;
            }
            done += count;
        }
        true
    }

    /// Checks an access with a separate index in each lane, one chunk of lanes at a time. Returns false if a race rule
    /// is violated.
    unsafe fn check_lanes(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) -> bool {
        // SAFETY: C5: the access has lane indices.
        unsafe {
            match (e.site.kind, e.has_warp_ops) {
                (AccessKind::Load, false) => self.check_lanes_for::<LOAD, false>(g, e),
                (AccessKind::Load, true) => self.check_lanes_for::<LOAD, true>(g, e),
                (AccessKind::Store, false) => self.check_lanes_for::<STORE, false>(g, e),
                (AccessKind::Store, true) => self.check_lanes_for::<STORE, true>(g, e),
                (AccessKind::AtomicRmw, false) => self.check_lanes_for::<ATOMIC, false>(g, e),
                (AccessKind::AtomicRmw, true) => self.check_lanes_for::<ATOMIC, true>(g, e),
                (AccessKind::AtomicLoad, false) => self.check_lanes_for::<ATOMIC_LOAD, false>(g, e),
                (AccessKind::AtomicLoad, true) => self.check_lanes_for::<ATOMIC_LOAD, true>(g, e),
            }
        }
    }

    unsafe fn check_lanes_for<const TOUCH: u8, const WARPS: bool>(
        &mut self,
        g: &mut ThreadGroup,
        e: &CheckedAccess<'_>,
    ) -> bool {
        // SAFETY: C5: the access's memory exists (G3), and the mask has its chunks (G2). Cells are below the number of
        // words.
        unsafe {
            let memory = &*g.memories.add(e.access.memory as usize);
            let (parts, pitch, len) = (e.word_components(), e.word_pitch(), e.planes.len);
            for chunk in g.mask.chunks() {
                let (offsets, inside) = memory::chunk_offsets(&g.registers, e.access, memory, chunk);
                if !inside {
                    return false;
                }
                let first_lane = chunk * CHUNK;
                for (k, offset) in offsets.into_iter().take(g.shape.lanes - first_lane).enumerate() {
                    let lane = first_lane + k;
                    if !g.mask.full && *g.mask.lanes.add(lane) == 0 {
                        continue;
                    }
                    let own_word = e.current.word | (lane as u64) << LANE_SHIFT;
                    let first = e.cell_at_offset(offset as usize);
                    for cell in (0..parts).map(|part| first + part * pitch).filter(|&cell| cell < len) {
                        let apply = || apply_rules_for::<TOUCH, WARPS>(e, cell, own_word, lane, ONE);
                        let clean =
                            if e.needs_lock { self.shared_state.global_shadow.with_page(cell, apply) } else { apply() };
                        if !clean {
                            return false;
                        }
                    }
                }
            }
            true
        }
    }

    /// Checks all iterations of a loop that reduces a shared array by a tree. Only the first iteration is recorded, in
    /// which `distance` lanes participate: further iterations access a subset of its elements, after a barrier. Returns
    /// false if a race rule is violated.
    ///
    /// # Safety
    /// The access sites belong to the group's code and to one array with one axis, which has at least `2 * distance`
    /// elements.
    pub(super) unsafe fn check_tree(&mut self, g: &mut ThreadGroup, sites: &[AccessSite], distance: usize) -> bool {
        let own = sites.iter().filter(|n| n.kind == AccessKind::Load && n.traits.reads_own_store).count();
        if self.is_exact || own != 1 && !sites.is_empty() {
            return false;
        }
        // The load of an element to which the thread does not store is the one whose index is larger by `distance`.
        let first = |site: &AccessSite| {
            if site.kind == AccessKind::Load && !site.traits.reads_own_store { distance } else { 0 }
        };
        let is_open = sites.is_empty() || self.is_simple_tree(sites, distance);
        // SAFETY: the elements are in the planes.
        let mut each = |site: &AccessSite| unsafe { self.check_tree_access(g, site, first(site), distance) };
        if !is_open && !sites.iter().all(&mut each) {
            return false;
        }
        self.shared_clock.on_block_barrier();
        self.global_clock.on_block_barrier();
        self.publish_time();
        true
    }

    /// Returns whether a tree reduction is known to be correct: its array has not been accessed since the last barrier,
    /// and all elements that it accesses have been written. The accesses of a tree reduction do not conflict with each
    /// other.
    fn is_simple_tree(&mut self, sites: &[AccessSite], distance: usize) -> bool {
        let memory = self.code.accesses[sites[0].access as usize].memory as usize;
        let stores = sites.iter().filter(|site| site.kind == AccessKind::Store).count();
        let (current, allocation_time, log) =
            (self.shared_clock.current_access(0), self.shared_clock.allocation_time, &mut self.access_logs[memory]);
        stores == 1 && sites.len() == 3 && log.is_open(&current, allocation_time) && log.allows_tree(2 * distance - 1)
    }

    /// Checks one access in the first iteration of a tree reduction, to `count` elements from element `first` on.
    unsafe fn check_tree_access(&mut self, g: &mut ThreadGroup, site: &AccessSite, first: usize, count: usize) -> bool {
        // SAFETY: C4: the access site belongs to the code; the elements are in the planes.
        unsafe {
            let Some(e) = self.checked_access(g, site) else { return false };
            if let (Some(written), false) = (&e.init_map, e.is_global) {
                return written.record_row(&e, first, 1, count);
            }
            if e.is_global || first + count > e.planes.len {
                return false;
            }
            let axes = [PatternAxis { count, step: 1, lanes: 1 }, NO_AXIS, NO_AXIS, NO_AXIS, NO_AXIS];
            let pattern = AccessPattern { first, lane: 0, spread: 0, axes };
            self.check_pattern(&e, &pattern)
        }
    }

    /// Checks and records an access with this pattern, in the log or in shadow words. Returns false if a race rule is
    /// violated.
    #[inline(always)]
    pub(super) unsafe fn check_pattern(&mut self, e: &CheckedAccess<'_>, pattern: &AccessPattern) -> bool {
        // SAFETY: the caller's pattern is in the planes, which belong to the memory; `check_row` checks it again.
        unsafe {
            if !e.is_global {
                let log = &mut self.access_logs[e.access.memory as usize];
                if log.is_open(&e.current, e.allocation_time) {
                    if log.try_log(&RecordedAccess::from_access(e), pattern) {
                        return true;
                    }
                    log.write_out(&e.planes, &e.current, self.isa, e.has_warp_ops);
                }
            }
            if !e.supports_rows() {
                return false;
            }
            let f = e.row_fn(self.isa, false);
            pattern
                .to_rows(std::ptr::null())
                .for_each(pattern.first, |r, cell| self.check_row(e, r, cell, |r| f(&e.current, r)))
        }
    }

    /// Checks a load in all iterations of a loop that only reads. `run` holds its addresses in the first iteration, and
    /// `iteration` is the distance in bytes from one iteration to the next. Returns false if a race rule is violated;
    /// loads that were recorded may then be recorded again.
    ///
    /// # Safety
    /// The access site belongs to the group's code and is a load; all elements are in bounds.
    pub(super) unsafe fn check_loop_loads(
        &mut self,
        g: &mut ThreadGroup,
        site: &AccessSite,
        run: &AddressRun,
        iterations: usize,
        iteration: isize,
    ) -> bool {
        if self.code.memories[self.code.accesses[site.access as usize].memory as usize].kind == MemoryKind::Local {
            return false;
        }
        // SAFETY: C4: the access site belongs to the code; the caller's elements are in bounds, and so in the planes.
        unsafe {
            let Some(e) = self.checked_access(g, site) else { return true };
            let Some(mut pattern) = AccessPattern::over_iterations(run, e.tracked.unit, iterations, iteration) else {
                return false;
            };
            pattern.first = e.cell_of(run.addr);
            match &e.init_map {
                Some(written) => {
                    e.word_components() == 1
                        && pattern.for_each_row(|cell, step, n| written.record_row(&e, cell, step, n))
                }
                None => !e.planes.reads.is_null() && self.check_pattern(&e, &pattern),
            }
        }
    }

    /// Checks the access of each active lane separately, and reports faults.
    unsafe fn check_lane_by_lane(&mut self, g: &mut ThreadGroup, e: &CheckedAccess<'_>) {
        // SAFETY: C5: the access belongs to the code; active lanes exist (G2). Cells are below the number of words.
        unsafe {
            for lane in g.mask.lo * CHUNK..(g.mask.hi * CHUNK).min(g.shape.lanes) {
                if !g.is_active(lane) {
                    continue;
                }
                let Some(addr) = memory::address(g, e.access, lane) else { continue };
                for k in 0..e.word_components() {
                    let cell = e.cell_of(addr) + k * e.word_pitch();
                    if cell >= e.planes.len || self.check_cell(e, cell, lane, 0) {
                        continue;
                    }
                    self.report_violation(g, e, &LaneAccess { lane, cell, component: k, addr });
                }
            }
        }
    }
}

impl WorkerChecker<'_> {
    /// Checks the initialization of a local array at an access.
    ///
    /// # Safety
    /// The access belongs to the group's code.
    pub(super) unsafe fn check_local(&mut self, g: &mut ThreadGroup, site: &AccessSite, access: &AccessOperands) {
        let number = access.memory as usize;
        if self.code.events.tracked[number].is_none() {
            return;
        }
        let lanes = self.local_init.lanes;
        let columns = if is_wide(access.scalar) { 2 } else { 1 };
        // SAFETY: G4: each memory of the code has an entry.
        let (start, unit) = unsafe { ((*g.memories.add(number)).ptr as usize, (*g.memories.add(number)).offset_unit) };
        let column = |addr: *mut u8, k: usize| (addr as usize - start) / unit.max(1) + k * columns;
        let written = &mut self.local_init.written[number];
        let mut missing = None;
        for k in 0..site.components as usize {
            if site.variance == Variance::Uniform && g.mask.full {
                // SAFETY: C5: the access belongs to the code and has uniform indices.
                let Some(addr) = (unsafe { memory::uniform_address(g, access) }) else { return };
                let at = column(addr, k) * lanes;
                let Some(flags) = written.get_mut(at..at + g.shape.lanes) else { return };
                match site.kind {
                    AccessKind::Load => missing = missing.or(flags.iter().position(|&w| w == 0).map(|lane| (lane, k))),
                    _ => flags.fill(1),
                }
                continue;
            }
            for lane in g.active() {
                // SAFETY: C5: the access belongs to the code; active lanes exist (G2).
                let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
                match (written.get_mut(column(addr, k) * lanes + lane), site.kind) {
                    (Some(0), AccessKind::Load) => missing = missing.or(Some((lane, k))),
                    (Some(flag), AccessKind::Store) => *flag = 1,
                    _ => {}
                }
            }
        }
        if let Some((lane, k)) = missing {
            let unwritten = |lane: &usize| {
                // SAFETY: C5: as above.
                let addr = unsafe { memory::address(g, access, *lane) };
                addr.is_some_and(|addr| self.local_init.written[number].get(column(addr, k) * lanes + lane) == Some(&0))
            };
            let others = (g.active().filter(unwritten).count() as u64).saturating_sub(1);
            // If all components of a vector are unwritten, the report names the element without a component.
            let is_missing = |k: usize| {
                // SAFETY: C5: as above.
                let addr = unsafe { memory::address(g, access, lane) };
                addr.is_some_and(|addr| self.local_init.written[number].get(column(addr, k) * lanes + lane) == Some(&0))
            };
            let whole = site.components > 1 && (0..site.components as usize).all(is_missing);
            let place = super::element_names::local_component_name(g, access, lane, (!whole).then_some(k));
            let kind = FaultKind::Unwritten { place, space: "local" };
            g.results.stop_at(kind, access.span, lane, others);
        }
    }
}

/// Returns the first and the last active lane.
fn active_bounds(g: &mut ThreadGroup) -> (usize, usize) {
    if g.mask.full {
        return (0, g.shape.lanes - 1);
    }
    g.mask.find_ends();
    (g.mask.first_lane, g.mask.last_lane)
}
