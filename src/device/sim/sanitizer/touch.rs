//! From an access to its elements: single elements, rows, or lane by lane.

use super::checker::Checker;
use super::event::{ATOMIC, Event, LOAD, LOOK, Party, STORE, note_cell, noted, row_at};
use super::pattern::{Axis, NO_AXIS, Pattern};
use super::quick::{Deed, NO_CELL};
use super::rows::{Row, company};
use super::shadow::PAGE_SHIFT;
use super::word::{LANE_SHIFT, ONE};
use crate::device::FaultKind;
use crate::device::sim::code::{Access, MemoryKind};
use crate::device::sim::events::{Form, Note, Touch, Traits};
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::lanes::{Isa, is_wide};
use crate::device::sim::memory::{self, Run};

impl Deed {
    pub(super) fn of(e: &Event<'_>) -> Deed {
        Deed { own: e.now.own, ..Deed::at(e.note) }
    }

    /// Returns the access of a note to a shared array, at no time.
    pub(super) fn at(note: &Note) -> Deed {
        let Traits { own, overwrites, .. } = note.traits;
        Deed { touch: note.touch, own: note.site.into(), modest: own, overwrites }
    }
}

/// Returns the pattern of an access with the same or affine indices, if its active lanes are contiguous and it is in bounds.
#[inline(always)]
pub(super) unsafe fn pattern_of(g: &mut Group, e: &Event<'_>) -> Option<Pattern> {
    // SAFETY: C4, C5: note and access are the code's; a note of the same indices in all lanes is one of uniform indices, others
    // have affine ones.
    unsafe {
        let mut pattern = if e.note.form == Form::One {
            let addr = memory::uniform_address(g, e.access)?;
            let (first, last) = ends(g);
            if !(g.full || g.solid || first == last) {
                return None;
            }
            Pattern { first: e.cell(addr), lane: first, spread: last - first, axes: [NO_AXIS; 5] }
        } else {
            let run = memory::resolve(g, e.access, e.note.access)?;
            if !(g.full || (run.is_exact(g) && (g.solid || run.count[0] == 1))) {
                return None;
            }
            Pattern { first: e.cell(run.addr), ..Pattern::of(&run, e.watched.unit)? }
        };
        if e.components() > 1 {
            let free = pattern.axes.iter_mut().find(|a| a.count == 1)?;
            *free = Axis { count: e.components(), step: e.pitch() as isize, lanes: 0 };
        }
        let len = e.written.map_or(e.planes.len, |w| w.len);
        let (low, high) = pattern.hull();
        (low >= 0 && high < len as isize).then_some(pattern)
    }
}

/// Appends the elements of the lanes of an access with separate indices; returns false if some are out of bounds.
unsafe fn list_cells(isa: Isa, g: &Group, e: &Event<'_>, cells: &mut Vec<u32>) -> bool {
    if e.components() > 1 || e.planes.len >= NO_CELL as usize || !e.watched.unit.is_power_of_two() {
        return false;
    }
    cells.extend(std::iter::repeat_n(NO_CELL, g.lo * CHUNK));
    let list: unsafe fn(&Group, &Event<'_>, &mut Vec<u32>) -> bool = match isa {
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx2 => list_avx2,
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx512 => list_avx512,
        _ => list_chunks,
    };
    // SAFETY: C5: the caller's event is of an access of the code, of lanes. G6: the machine has the instructions of `isa`.
    unsafe { list(g, e, cells) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn list_avx2(g: &Group, e: &Event<'_>, cells: &mut Vec<u32>) -> bool {
    // SAFETY: the caller's event suits [`list_chunks`]. G6: the machine has these instructions.
    unsafe { list_chunks(g, e, cells) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn list_avx512(g: &Group, e: &Event<'_>, cells: &mut Vec<u32>) -> bool {
    // SAFETY: the caller's event suits [`list_chunks`]. G6: the machine has these instructions.
    unsafe { list_chunks(g, e, cells) }
}

#[inline(always)]
unsafe fn list_chunks(g: &Group, e: &Event<'_>, cells: &mut Vec<u32>) -> bool {
    // SAFETY: C5: the access is one of lanes, whose memory exists (G3); the mask has its chunks (G2).
    unsafe {
        let memory = &*g.memories.add(e.access.memory as usize);
        let shift = e.watched.unit.trailing_zeros();
        for chunk in g.lo..g.hi {
            let (offsets, inside) = memory::offsets(g, e.access, memory, chunk);
            if !inside {
                return false;
            }
            let mask = g.mask.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned();
            let mut listed = [NO_CELL; CHUNK];
            for i in 0..CHUNK {
                listed[i] = (offsets[i] >> shift) as u32 | !mask[i];
            }
            cells.extend_from_slice(&listed);
        }
        true
    }
}

impl<'a> Checker<'a> {
    /// Returns the data for checking an access, if it can be wrong.
    ///
    /// # Safety
    /// The note is one of the group's code, not of a local array.
    #[inline(always)]
    pub(super) unsafe fn event<'e>(&mut self, g: &Group, note: &'e Note) -> Option<Event<'e>>
    where
        'a: 'e,
    {
        let code = self.code;
        let access = &code.accesses[note.access as usize];
        let number = access.memory as usize;
        let watched = code.watched[number].as_ref()?;
        let (planes, global) = self.planes(g, number, watched);
        // SAFETY: G4: there is one for each memory of the code.
        let size = unsafe { (*g.memories.add(number)).len };
        let own = if planes.w.is_null() { self.written(number, size) } else { None };
        if planes.w.is_null() && own.is_none() && !self.careful {
            return None;
        }
        let clock = if global { &self.global } else { &self.shared };
        let born = clock.born;
        let mut now = clock.now(note.site);
        if !watched.fresh || note.traits.overwrites {
            now.born = 0;
        }
        now.modest = note.traits.own;
        // SAFETY: G4: there is one for each memory of the code.
        let start = unsafe { (*g.memories.add(number)).ptr };
        let locked = global && self.watch.globals.shared;
        let (written, warps) = (own, code.warp_ops);
        Some(Event { note, access, watched, planes, written, now, start, global, locked, warps, born })
    }

    /// # Safety
    /// The note is one of the group's code.
    pub(super) unsafe fn touched(&mut self, g: &mut Group, note: &Note) {
        let code = self.code;
        let access = &code.accesses[note.access as usize];
        // SAFETY: C4, C5: note and access are the code's, and so is the memory.
        unsafe {
            if code.memories[access.memory as usize].kind == MemoryKind::Local {
                return self.touched_local(g, note, access);
            }
            if code.counted.is_some() {
                self.crowded(g, note);
            }
            let Some(event) = self.event(g, note) else { return };
            if let Some(written) = event.written {
                self.own(g, &event, &written);
            } else if self.careful {
                self.traced(g, &event);
            } else if event.global || !self.kept(g, &event) {
                self.looked_at(g, &event);
            }
            if code.polls {
                self.polls.saw(g, &event);
            }
        }
        self.report(g, access);
    }

    /// Compares an access with the shadow words of its elements.
    unsafe fn looked_at(&mut self, g: &mut Group, e: &Event<'_>) {
        // SAFETY: C4: the event is of a note of the code.
        unsafe {
            let clean = match e.note.form {
                Form::One => self.one(g, e),
                Form::Rows => self.rows(g, e),
                Form::Lanes => self.lanes(g, e),
            };
            if !clean {
                self.lane_by_lane(g, e);
            }
        }
    }

    /// Keeps an access to a shared array as a pattern, if that proves it correct. Returns whether the access has been checked.
    #[inline(always)]
    unsafe fn kept(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        // SAFETY: C4: the event is of a note of the code; the planes are those of its memory.
        unsafe {
            let deed = Deed::of(e);
            let (isa, quick) = (self.isa, &mut self.quick[e.access.memory as usize]);
            let open = quick.is_open(&e.now, e.born);
            if e.note.form == Form::Lanes {
                if open && e.note.touch != Touch::Store {
                    let from = quick.cells.len();
                    if list_cells(isa, g, e, &mut quick.cells) && quick.keep_cells(&deed, from, e.planes.len) {
                        return true;
                    }
                    quick.cells.truncate(from);
                }
            } else if let Some(pattern) = pattern_of(g, e) {
                if open && quick.keep(&deed, &pattern) {
                    return true;
                }
                if open {
                    quick.write_out(&e.planes, &e.now, isa, e.warps);
                }
                self.looked_at(g, e);
                if self.finding.is_none() {
                    self.quick[e.access.memory as usize].learn(&pattern);
                }
                return true;
            }
            if open {
                quick.write_out(&e.planes, &e.now, isa, e.warps);
            }
            false
        }
    }

    /// Checks an access of all active lanes to one element.
    unsafe fn one(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        // SAFETY: C5: the note is of an access with uniform indices, whose element is in bounds.
        unsafe {
            let Some(addr) = memory::uniform_address(g, e.access) else { return true };
            let (first, last) = ends(g);
            self.single(e, addr, first, last)
        }
    }

    /// Checks one element (all its components), accessed by lanes from `first` to `last`.
    unsafe fn single(&mut self, e: &Event<'_>, addr: *mut u8, first: usize, last: usize) -> bool {
        if e.note.touch == Touch::Store && first != last {
            return false;
        }
        let cell = e.cell(addr);
        // SAFETY: `cell` looks whether the cell is in the planes.
        (0..e.components()).all(|k| unsafe { self.cell(e, cell + k * e.pitch(), first, last - first) })
    }

    /// Checks one cell; returns false if a rule is violated.
    #[inline(always)]
    pub(super) unsafe fn cell(&self, e: &Event<'_>, cell: usize, lane: usize, spread: usize) -> bool {
        if cell >= e.planes.len {
            return true;
        }
        let me = e.now.own | (lane as u64) << LANE_SHIFT;
        let kind = company(lane, spread);
        // SAFETY: the cell is in the planes.
        let note = || unsafe { note_cell(e, cell, me, lane, kind) };
        if e.locked { self.watch.globals.with_page(cell, note) } else { note() }
    }

    /// Checks rows of elements at fixed strides; returns false if a rule is violated or they are no rows.
    unsafe fn rows(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        // SAFETY: C5: the note is of an access with affine indices. `row` looks whether its cells are in the planes; the lanes of
        // the row are in the chunks of the mask.
        unsafe {
            if !e.goes_by_rows() {
                return false;
            }
            let Some(run) = memory::resolve(g, e.access, e.note.access) else { return false };
            let mask = if g.full { std::ptr::null() } else { g.mask };
            let Some(mut pattern) = Pattern::of(&run, e.watched.unit) else { return false };
            pattern.first = e.cell(run.addr);
            let is_row = run.is_exact(g);
            let inside = run.lane >= g.lo * CHUNK && run.lane + run.count.iter().product::<usize>() <= g.hi * CHUNK;
            if !(g.full || inside) {
                return false;
            }
            // Several lanes that store to one element are checked lane by lane, as are boxes with inactive lanes.
            if pattern.spread > 0 && (e.note.touch == Touch::Store || !(g.full || is_row && pattern.is_point())) {
                return false;
            }
            let walk = pattern.walk(if pattern.is_point() { std::ptr::null() } else { mask });
            let row = e.row_fn(self.isa, !walk.row.mask.is_null());
            for k in 0..e.components() {
                let clean =
                    walk.each(pattern.first + k * e.pitch(), |r, cell| self.row(e, r, cell, |r| row(&e.now, r)));
                if !clean {
                    return false;
                }
            }
            true
        }
    }

    /// Checks a row under the locks of its pages.
    #[inline(always)]
    pub(super) unsafe fn row(&self, e: &Event<'_>, mut row: Row, cell: usize, f: impl Fn(&Row) -> bool) -> bool {
        let at = |row: &mut Row, cell: usize| row_at(row, &e.planes, cell);
        let last = cell as isize + row.step * (row.count as isize - 1);
        if last < 0 || (last as usize).max(cell) >= e.planes.len {
            return false;
        }
        if !e.locked {
            at(&mut row, cell);
            return f(&row);
        }
        if cell >> PAGE_SHIFT == last as usize >> PAGE_SHIFT {
            at(&mut row, cell);
            return self.watch.globals.with_page(cell, || f(&row));
        }
        let (all, mut done) = (row.count, 0);
        while done < all {
            let first = (cell as isize + done as isize * row.step) as usize;
            // The part of the row in this page.
            let room = (1usize << PAGE_SHIFT) - first % (1 << PAGE_SHIFT);
            let count = if row.step == 1 { room.min(all - done) } else { 1 };
            let mut piece = Row { count, lane: row.lane + done * row.lane_step, ..row };
            at(&mut piece, first);
            if !self.watch.globals.with_page(first, || f(&piece)) {
                return false;
            }
            done += count;
        }
        true
    }

    /// Checks an access with separate indices, chunk by chunk; returns false if a rule is violated.
    unsafe fn lanes(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        // SAFETY: C5: the note is of an access with indices of lanes.
        unsafe {
            match (e.note.touch, e.warps) {
                (Touch::Load, false) => self.lanes_of::<LOAD, false>(g, e),
                (Touch::Load, true) => self.lanes_of::<LOAD, true>(g, e),
                (Touch::Store, false) => self.lanes_of::<STORE, false>(g, e),
                (Touch::Store, true) => self.lanes_of::<STORE, true>(g, e),
                (Touch::Atomic, false) => self.lanes_of::<ATOMIC, false>(g, e),
                (Touch::Atomic, true) => self.lanes_of::<ATOMIC, true>(g, e),
                (Touch::Look, false) => self.lanes_of::<LOOK, false>(g, e),
                (Touch::Look, true) => self.lanes_of::<LOOK, true>(g, e),
            }
        }
    }

    unsafe fn lanes_of<const TOUCH: u8, const WARPS: bool>(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        // SAFETY: C5: the access's memory exists (G3), and the mask has its chunks (G2). Cells are below the number of words.
        unsafe {
            let memory = &*g.memories.add(e.access.memory as usize);
            let (parts, pitch, len) = (e.components(), e.pitch(), e.planes.len);
            for chunk in g.lo..g.hi {
                let (offsets, inside) = memory::offsets(g, e.access, memory, chunk);
                if !inside {
                    return false;
                }
                let first_lane = chunk * CHUNK;
                for (k, offset) in offsets.into_iter().take(g.lanes - first_lane).enumerate() {
                    let lane = first_lane + k;
                    if !g.full && *g.mask.add(lane) == 0 {
                        continue;
                    }
                    let me = e.now.own | (lane as u64) << LANE_SHIFT;
                    let first = e.cell_at(offset as usize);
                    for cell in (0..parts).map(|part| first + part * pitch).filter(|&cell| cell < len) {
                        let note = || noted::<TOUCH, WARPS>(e, cell, me, lane, ONE);
                        let clean = if e.locked { self.watch.globals.with_page(cell, note) } else { note() };
                        if !clean {
                            return false;
                        }
                    }
                }
            }
            true
        }
    }

    /// Checks a loop that reduces a shared array by a tree, all its iterations at once: the first one is recorded, and all others
    /// access a subset of its elements, with barriers in between. `distance` elements and lanes take part in it. Returns false if
    /// a rule is violated.
    ///
    /// # Safety
    /// The notes are of the group's code, of one array of one axis, and twice the distance fits it.
    pub(super) unsafe fn touched_by_tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool {
        let own = notes.iter().filter(|n| n.touch == Touch::Load && n.traits.own).count();
        if self.careful || own != 1 && !notes.is_empty() {
            return false;
        }
        // The load of an element that is not the thread's own is the distant one.
        let first = |note: &Note| if note.touch == Touch::Load && !note.traits.own { distance } else { 0 };
        let is_open = notes.is_empty() || self.bears(notes, distance);
        // SAFETY: the elements are in the planes.
        let mut each = |note: &Note| unsafe { self.touched_by_branch(g, note, first(note), distance) };
        if !is_open && !notes.iter().all(&mut each) {
            return false;
        }
        self.shared.block_met();
        self.global.block_met();
        self.seen();
        true
    }

    /// Returns whether the array of a tree has no accesses since the last barrier, and all elements that take part have been written:
    /// those of the tree's own do not conflict with one another.
    fn bears(&mut self, notes: &[Note], distance: usize) -> bool {
        let memory = self.code.accesses[notes[0].access as usize].memory as usize;
        let stores = notes.iter().filter(|note| note.touch == Touch::Store).count();
        let (now, born, quick) = (self.shared.now(0), self.shared.born, &mut self.quick[memory]);
        stores == 1 && notes.len() == 3 && quick.is_open(&now, born) && quick.bears(2 * distance - 1)
    }

    /// Checks one access of a tree's first iteration, to `count` elements from `first` on.
    unsafe fn touched_by_branch(&mut self, g: &mut Group, note: &Note, first: usize, count: usize) -> bool {
        // SAFETY: C4: the note is one of the code's; the elements are in the planes.
        unsafe {
            let Some(e) = self.event(g, note) else { return false };
            if let (Some(written), false) = (&e.written, e.global) {
                return written.takes(&e, first, 1, count);
            }
            if e.global || first + count > e.planes.len {
                return false;
            }
            let axes = [Axis { count, step: 1, lanes: 1 }, NO_AXIS, NO_AXIS, NO_AXIS, NO_AXIS];
            let pattern = Pattern { first, lane: 0, spread: 0, axes };
            self.noted_as(&e, &pattern)
        }
    }

    /// Records a pattern, which is in bounds, in the log or in words; returns false if a rule is violated.
    #[inline(always)]
    pub(super) unsafe fn noted_as(&mut self, e: &Event<'_>, pattern: &Pattern) -> bool {
        // SAFETY: the caller's pattern is in the planes, which are those of the memory; `row` looks at it again.
        unsafe {
            if !e.global {
                let quick = &mut self.quick[e.access.memory as usize];
                if quick.is_open(&e.now, e.born) {
                    if quick.keep(&Deed::of(e), pattern) {
                        return true;
                    }
                    quick.write_out(&e.planes, &e.now, self.isa, e.warps);
                }
            }
            if !e.goes_by_rows() {
                return false;
            }
            let f = e.row_fn(self.isa, false);
            pattern.walk(std::ptr::null()).each(pattern.first, |r, cell| self.row(e, r, cell, |r| f(&e.now, r)))
        }
    }

    /// Checks all iterations of a loop that only reads: an access in its first iteration, and the bytes from iteration to
    /// iteration. Returns false if a rule is violated; accesses recorded here may be recorded again.
    ///
    /// # Safety
    /// The note is one of the group's code, of a load; all elements are inside.
    pub(super) unsafe fn touched_over(
        &mut self,
        g: &mut Group,
        note: &Note,
        run: &Run,
        iterations: usize,
        iteration: isize,
    ) -> bool {
        if self.code.memories[self.code.accesses[note.access as usize].memory as usize].kind == MemoryKind::Local {
            return false;
        }
        // SAFETY: C4: the note is one of the code's; the caller's elements are inside, and so in the planes.
        unsafe {
            let Some(e) = self.event(g, note) else { return true };
            let Some(mut pattern) = Pattern::over(run, e.watched.unit, iterations, iteration) else { return false };
            pattern.first = e.cell(run.addr);
            match &e.written {
                Some(written) => e.components() == 1 && pattern.rows(|cell, step, n| written.takes(&e, cell, step, n)),
                None => !e.planes.r.is_null() && self.noted_as(&e, &pattern),
            }
        }
    }

    /// Checks each active lane individually; reports what is wrong.
    unsafe fn lane_by_lane(&mut self, g: &mut Group, e: &Event<'_>) {
        // SAFETY: C5: the access is one of the code's; active lanes exist (G2). Cells are below the number of words.
        unsafe {
            for lane in g.lo * CHUNK..(g.hi * CHUNK).min(g.lanes) {
                if !g.is_active(lane) {
                    continue;
                }
                let Some(addr) = memory::address(g, e.access, lane) else { continue };
                for k in 0..e.components() {
                    let cell = e.cell(addr) + k * e.pitch();
                    if cell >= e.planes.len || self.cell(e, cell, lane, 0) {
                        continue;
                    }
                    self.doubtful(g, e, &Party { lane, cell, component: k, addr });
                }
            }
        }
    }
}

impl Checker<'_> {
    /// # Safety
    /// The access is one of the group's code.
    pub(super) unsafe fn touched_local(&mut self, g: &mut Group, note: &Note, access: &Access) {
        let number = access.memory as usize;
        if self.code.watched[number].is_none() {
            return;
        }
        let lanes = self.locals.lanes;
        let columns = if is_wide(access.scalar) { 2 } else { 1 };
        // SAFETY: G4: there is one for each memory of the code.
        let (start, unit) = unsafe { ((*g.memories.add(number)).ptr as usize, (*g.memories.add(number)).unit) };
        let column = |addr: *mut u8, k: usize| (addr as usize - start) / unit.max(1) + k * columns;
        let written = &mut self.locals.written[number];
        let mut missing = None;
        for k in 0..note.components as usize {
            if note.form == Form::One && g.full {
                // SAFETY: C5: the access is one of the code's, with uniform indices, as the note says.
                let Some(addr) = (unsafe { memory::uniform_address(g, access) }) else { return };
                let at = column(addr, k) * lanes;
                let Some(flags) = written.get_mut(at..at + g.lanes) else { return };
                match note.touch {
                    Touch::Load => missing = missing.or(flags.iter().position(|&w| w == 0).map(|lane| (lane, k))),
                    _ => flags.fill(1),
                }
                continue;
            }
            for lane in g.active() {
                // SAFETY: C5: the access is one of the code's; active lanes exist (G2).
                let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
                match (written.get_mut(column(addr, k) * lanes + lane), note.touch) {
                    (Some(0), Touch::Load) => missing = missing.or(Some((lane, k))),
                    (Some(flag), Touch::Store) => *flag = 1,
                    _ => {}
                }
            }
        }
        if let Some((lane, k)) = missing {
            let unwritten = |lane: &usize| {
                // SAFETY: C5: as above.
                let addr = unsafe { memory::address(g, access, *lane) };
                addr.is_some_and(|addr| self.locals.written[number].get(column(addr, k) * lanes + lane) == Some(&0))
            };
            let others = (g.active().filter(unwritten).count() as u64).saturating_sub(1);
            // If all components of a vector are unwritten, the report names the element.
            let is_missing = |k: usize| {
                // SAFETY: C5: as above.
                let addr = unsafe { memory::address(g, access, lane) };
                addr.is_some_and(|addr| self.locals.written[number].get(column(addr, k) * lanes + lane) == Some(&0))
            };
            let whole = note.components > 1 && (0..note.components as usize).all(is_missing);
            let place = super::text::local_text(g, access, lane, (!whole).then_some(k));
            let kind = FaultKind::Unwritten { place, space: "local" };
            crate::device::sim::fault::stop_at(g, kind, access.span, lane, others);
        }
    }
}

/// Returns the first and the last active lane.
fn ends(g: &mut Group) -> (usize, usize) {
    if g.full {
        return (0, g.lanes - 1);
    }
    g.find_ends();
    (g.first_lane, g.last_lane)
}
