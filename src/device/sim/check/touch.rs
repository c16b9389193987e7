//! From an access to its elements: single ones, rows, or lane by lane.

use super::race::Party;
use super::rows::{Now, Row, Variant, company, reader, writer};
use super::shadow::{PAGE_SHIFT, Planes};
use super::word::{GRID, KIND, KIND_SHIFT, LANE_SHIFT, ONE};
use super::{Checker, race};
use crate::device::sim::code::{Access, MemoryKind, Watched};
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::listen::{Form, Note, Touch};
use crate::device::sim::memory::{self, Run};

/// An access on its way.
pub(super) struct Event<'e> {
    pub note: &'e Note,
    pub access: &'e Access,
    pub watched: &'e Watched,
    pub planes: Planes,
    pub now: Now,
    /// Of the memory.
    pub start: *mut u8,
    pub global: bool,
    /// Other workers write the words at the same time.
    pub locked: bool,
    pub warps: bool,
    /// The time at which the memory came to be, as a word; what is noted at it is ordered before all else.
    pub born: u64,
}

impl Event<'_> {
    fn cell(&self, addr: *const u8) -> usize {
        self.cell_at(addr as usize - self.start as usize)
    }

    /// Of a byte of the memory.
    #[inline(always)]
    fn cell_at(&self, offset: usize) -> usize {
        let unit = self.watched.unit;
        if unit.is_power_of_two() { offset >> unit.trailing_zeros() } else { offset / unit }
    }

    /// Words from component to component.
    fn pitch(&self) -> usize {
        self.note.pitch / self.watched.unit
    }

    /// How many components have words of their own.
    fn components(&self) -> usize {
        if self.watched.whole { 1 } else { self.note.components.max(1) as usize }
    }
}

impl Checker<'_> {
    /// # Safety
    /// The note is one of the group's code.
    pub(super) unsafe fn touched(&mut self, g: &mut Group, note: &Note) {
        let code = self.code;
        let access = &code.accesses[note.access as usize];
        let number = access.memory as usize;
        unsafe {
            if code.memories[number].kind == MemoryKind::Local {
                return self.touched_local(g, note, access);
            }
            let Some(watched) = &code.watched[number] else { return };
            let (planes, global) = self.planes(g, number, watched);
            if planes.w.is_null() {
                return;
            }
            let listing = global && code.fences;
            let born = (if global { &self.global } else { &self.shared }).born;
            let mut now = (if global { &self.global } else { &self.shared }).now(note.site, listing);
            if !watched.fresh || note.overwrites {
                now.born = 0;
            }
            now.modest = note.own;
            let start = (*g.memories.add(number)).ptr;
            let locked = global && self.watch.globals.shared;
            let warps = code.warp_ops;
            let event = Event { note, access, watched, planes, now, start, global, locked, warps, born };
            let clean = match note.form {
                // Fences order single threads: each is looked at by itself.
                _ if listing => false,
                Form::One => self.one(g, &event),
                Form::Rows => self.rows(g, &event),
                Form::Lanes => self.lanes(g, &event),
            };
            if !clean {
                self.lane_by_lane(g, &event);
            }
            if global && code.fences && note.touch == Touch::Atomic {
                self.synchronised(g, &event);
            }
            if code.polls {
                self.polls.saw(g, &event);
            }
        }
        self.report(g, access);
    }

    /// All active lanes touch one element.
    unsafe fn one(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        unsafe {
            let Some(addr) = memory::uniform_address(g, e.access) else { return true };
            let (first, last) = ends(g);
            self.single(e, addr, first, last)
        }
    }

    /// One element (all its components), touched by lanes between two.
    unsafe fn single(&mut self, e: &Event<'_>, addr: *mut u8, first: usize, last: usize) -> bool {
        if e.note.touch == Touch::Store && first != last {
            return false;
        }
        let cell = e.cell(addr);
        (0..e.components()).all(|k| unsafe { self.cell(e, cell + k * e.pitch(), first, last - first) })
    }

    /// One word; false if a rule is broken.
    #[inline(always)]
    unsafe fn cell(&self, e: &Event<'_>, cell: usize, lane: usize, spread: usize) -> bool {
        if cell >= e.planes.len {
            return true;
        }
        let me = e.now.own | (lane as u64) << LANE_SHIFT;
        let kind = company(lane, spread);
        // SAFETY: the cell is in the planes.
        let note = || unsafe { note_cell(e, cell, me, lane, kind) };
        if e.locked { self.watch.globals.with_page(cell, note) } else { note() }
    }

    /// Rows of elements at fixed strides; false if a rule is broken or they are no rows.
    unsafe fn rows(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        unsafe {
            if e.note.touch == Touch::Atomic {
                return false;
            }
            let Some(run) = memory::resolve(g, e.access, e.note.access) else { return false };
            let mask = if g.full { std::ptr::null() } else { g.mask };
            let Some(plan) = Walk::of(&run, e, g.full, mask) else { return false };
            let variant = Variant {
                reads: !e.planes.r.is_null(),
                atomics: !e.planes.a.is_null(),
                warps: e.warps,
                mask: !plan.row.mask.is_null(),
            };
            let row = if e.note.touch == Touch::Load { reader(self.isa, variant) } else { writer(self.isa, variant) };
            for k in 0..e.components() {
                let clean =
                    plan.each(e.cell(run.addr) + k * e.pitch(), |r, cell| self.row(e, r, cell, |r| row(&e.now, r)));
                if !clean {
                    return false;
                }
            }
            true
        }
    }

    /// A row under the locks of its pages.
    #[inline(always)]
    unsafe fn row(&self, e: &Event<'_>, mut row: Row, cell: usize, f: impl Fn(&Row) -> bool) -> bool {
        let at = |row: &mut Row, cell: usize| {
            let word = |plane: *mut u64| if plane.is_null() { plane } else { plane.wrapping_add(cell) };
            (row.w, row.r, row.a) = (word(e.planes.w), word(e.planes.r), word(e.planes.a));
        };
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
            // As many as lie in this page.
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

    /// An index of its own in each lane: chunk by chunk; false if a rule is broken.
    unsafe fn lanes(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
        unsafe {
            match (e.note.touch, e.warps) {
                (Touch::Load, false) => self.lanes_of::<LOAD, false>(g, e),
                (Touch::Load, true) => self.lanes_of::<LOAD, true>(g, e),
                (Touch::Store, false) => self.lanes_of::<STORE, false>(g, e),
                (Touch::Store, true) => self.lanes_of::<STORE, true>(g, e),
                (Touch::Atomic, false) => self.lanes_of::<ATOMIC, false>(g, e),
                (Touch::Atomic, true) => self.lanes_of::<ATOMIC, true>(g, e),
            }
        }
    }

    unsafe fn lanes_of<const TOUCH: u8, const WARPS: bool>(&mut self, g: &mut Group, e: &Event<'_>) -> bool {
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

    /// A loop that combines a shared array by a tree, all its turns at once: the first one is noted, and behind it all turns
    /// touch what it touched, with barriers in between. `distance` elements and lanes take part in it. False if a rule is
    /// broken.
    ///
    /// # Safety
    /// The notes are of the group's code, of one array of one axis, and twice the distance fits it.
    pub(super) unsafe fn touched_by_tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool {
        let code = self.code;
        if notes.iter().filter(|n| n.touch == Touch::Load && n.own).count() != 1 {
            return false;
        }
        for note in notes {
            let access = &code.accesses[note.access as usize];
            let number = access.memory as usize;
            let Some(watched) = &code.watched[number] else { return false };
            let (planes, global) = self.planes(g, number, watched);
            if planes.w.is_null() || global || 2 * distance > planes.len {
                return false;
            }
            let mut now = self.shared.now(note.site, false);
            now.modest = note.own;
            let variant =
                Variant { reads: !planes.r.is_null(), atomics: !planes.a.is_null(), warps: code.warp_ops, mask: false };
            let row = if note.touch == Touch::Load { reader(self.isa, variant) } else { writer(self.isa, variant) };
            // The load that is not of the thread's own element is the far one.
            let first = if note.touch == Touch::Load && !note.own { distance } else { 0 };
            let at = |plane: *mut u64| if plane.is_null() { plane } else { plane.wrapping_add(first) };
            let (w, r, a) = (at(planes.w), at(planes.r), at(planes.a));
            let whole =
                Row { w, r, a, step: 1, count: distance, lane: 0, lane_step: 1, spread: 0, mask: std::ptr::null() };
            // SAFETY: the elements are in the planes.
            if !unsafe { row(&now, &whole) } {
                return false;
            }
        }
        self.shared.block_met();
        self.global.block_met();
        self.seen();
        true
    }

    /// The turns of a loop that only reads, all at once: an access in its first turn, and the bytes from turn to turn. False
    /// if a rule is broken; what is noted here may be noted again.
    ///
    /// # Safety
    /// The note is one of the group's code, of a load; all elements are inside.
    pub(super) unsafe fn touched_over(
        &mut self,
        g: &mut Group,
        note: &Note,
        run: &Run,
        turns: usize,
        turn: isize,
    ) -> bool {
        let code = self.code;
        let access = &code.accesses[note.access as usize];
        let number = access.memory as usize;
        unsafe {
            let Some(watched) = &code.watched[number] else { return true };
            let (planes, global) = self.planes(g, number, watched);
            if planes.w.is_null() {
                return true;
            }
            if planes.r.is_null() || (global && code.fences) || code.memories[number].kind == MemoryKind::Local {
                return false;
            }
            let clock = if global { &self.global } else { &self.shared };
            let mut now = clock.now(note.site, false);
            let born = clock.born;
            if !watched.fresh {
                now.born = 0;
            }
            now.modest = note.own;
            let start = (*g.memories.add(number)).ptr;
            let locked = global && self.watch.globals.shared;
            let warps = code.warp_ops;
            let e = Event { note, access, watched, planes, now, start, global, locked, warps, born };
            let Some(walk) = Walk::over(run, &e, turns, turn) else { return false };
            let variant = Variant { reads: true, atomics: !planes.a.is_null(), warps: e.warps, mask: false };
            let row = reader(self.isa, variant);
            walk.each(e.cell(run.addr), |r, cell| self.row(&e, r, cell, |r| row(&e.now, r)))
        }
    }

    /// Each active lane by itself. Says what is wrong, if something is.
    unsafe fn lane_by_lane(&mut self, g: &mut Group, e: &Event<'_>) {
        unsafe {
            let mut written: race::Written = race::Written::default();
            for lane in g.lo * CHUNK..(g.hi * CHUNK).min(g.lanes) {
                if !g.is_active(lane) {
                    continue;
                }
                let Some(addr) = memory::address(g, e.access, lane) else { continue };
                for k in 0..e.components() {
                    let cell = e.cell(addr) + k * e.pitch();
                    if cell >= e.planes.len || (!e.now.listing && self.cell(e, cell, lane, 0)) {
                        continue;
                    }
                    self.doubtful(g, e, &Party { lane, cell, component: k, addr }, &mut written);
                }
                if e.note.touch == Touch::Store && !e.now.listing {
                    written.note(e.cell(addr), lane);
                }
            }
        }
    }
}

const LOAD: u8 = 0;
const STORE: u8 = 1;
const ATOMIC: u8 = 2;

/// Applies the rules to one word of each kind and writes what is new; false if one is broken.
#[inline(always)]
pub(super) unsafe fn note_cell(e: &Event<'_>, cell: usize, me: u64, lane: usize, kind: u64) -> bool {
    unsafe {
        match (e.note.touch, e.warps) {
            (Touch::Load, false) => noted::<LOAD, false>(e, cell, me, lane, kind),
            (Touch::Load, true) => noted::<LOAD, true>(e, cell, me, lane, kind),
            (Touch::Store, false) => noted::<STORE, false>(e, cell, me, lane, kind),
            (Touch::Store, true) => noted::<STORE, true>(e, cell, me, lane, kind),
            (Touch::Atomic, false) => noted::<ATOMIC, false>(e, cell, me, lane, kind),
            (Touch::Atomic, true) => noted::<ATOMIC, true>(e, cell, me, lane, kind),
        }
    }
}

#[inline(always)]
unsafe fn noted<const TOUCH: u8, const WARPS: bool>(
    e: &Event<'_>,
    cell: usize,
    me: u64,
    lane: usize,
    kind: u64,
) -> bool {
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
                let ok = kind == ONE && e.now.write::<true, true, WARPS>(words, me, lane);
                if ok {
                    *e.planes.w.add(cell) = me;
                }
                ok
            }
            _ => {
                let (ok, joined) = e.now.update::<true, WARPS>(words, me, lane, kind);
                if ok && !e.planes.a.is_null() {
                    *e.planes.a.add(cell) = joined;
                }
                if ok && e.note.overwrites && words.0 < e.born {
                    *e.planes.w.add(cell) = e.born | (me & !(u64::MAX << 20));
                }
                ok
            }
        }
    }
}

/// The first and the last active lane.
fn ends(g: &mut Group) -> (usize, usize) {
    if g.full {
        return (0, g.lanes - 1);
    }
    g.find_ends();
    (g.first_lane, g.last_lane)
}

/// How to walk over the elements of a run: rows, each element with the lanes that share it.
struct Walk {
    row: Row,
    /// Around the rows: elements and lanes from one to the next.
    outer: [Axis; 4],
}

/// Elements along one axis of a run: how many, how far apart, and how many lanes further.
#[derive(Clone, Copy)]
struct Axis {
    count: usize,
    step: isize,
    lanes: usize,
}

const NO_AXIS: Axis = Axis { count: 1, step: 0, lanes: 0 };

impl Walk {
    fn of(run: &Run, e: &Event<'_>, full: bool, mask: *const u32) -> Option<Walk> {
        let (mut axes, used, spread) = Walk::axes(run, e)?;
        // Several lanes write one element: a matter for the careful way. Inactive lanes in boxes, too.
        let row = run.count[1..] == [1; 3];
        if spread > 0 && (e.note.touch == Touch::Store || !(full || row && used == 0)) {
            return None;
        }
        let mask = if used == 0 { std::ptr::null() } else { mask };
        Some(Walk::with(&mut axes, run.lane, spread, mask))
    }

    /// With the turns of a loop as one more axis. `None` if turns meet an element more than once, which the loop tells better.
    fn over(run: &Run, e: &Event<'_>, turns: usize, turn: isize) -> Option<Walk> {
        let (mut axes, used, spread) = Walk::axes(run, e)?;
        let unit = e.watched.unit as isize;
        if turn % unit != 0 || turns == 0 {
            return None;
        }
        if turn != 0 {
            axes[used] = Axis { count: turns, step: turn / unit, lanes: 0 };
        }
        Some(Walk::with(&mut axes, run.lane, spread, std::ptr::null()))
    }

    /// The axes along which elements differ, how many there are, and how far lanes of one element lie apart.
    fn axes(run: &Run, e: &Event<'_>) -> Option<([Axis; 5], usize, usize)> {
        let unit = e.watched.unit as isize;
        if run.stride.iter().zip(&run.count).any(|(s, &n)| n > 1 && s % unit != 0) {
            return None;
        }
        let mut lanes = 1;
        let mut axes = [NO_AXIS; 5];
        let (mut used, mut spread) = (0, 0);
        for d in 0..4 {
            let (count, step) = (run.count[d], run.stride[d] / unit);
            if count > 1 && step == 0 {
                spread += (count - 1) * lanes;
            } else if count > 1 {
                axes[used] = Axis { count, step, lanes };
                used += 1;
            }
            lanes *= count;
        }
        Some((axes, used, spread))
    }

    /// Elements beside each other make the rows, if there are such.
    fn with(axes: &mut [Axis; 5], lane: usize, spread: usize, mask: *const u32) -> Walk {
        if let Some(best) = axes.iter().position(|a| a.step == 1 && a.count > 1) {
            axes.swap(0, best);
        }
        let [w, r, a] = [std::ptr::null_mut(); 3];
        let [Axis { count, step, lanes: lane_step }, outer @ ..] = *axes;
        Walk { row: Row { w, r, a, step, count, lane, lane_step, spread, mask }, outer }
    }

    #[inline(always)]
    fn each(&self, cell: usize, mut f: impl FnMut(Row, usize) -> bool) -> bool {
        let [x, y, z, w] = self.outer;
        let at = |a: &Axis, i: usize| (i as isize * a.step, i * a.lanes);
        for l in 0..w.count {
            for k in 0..z.count {
                for j in 0..y.count {
                    for i in 0..x.count {
                        let places = [at(&x, i), at(&y, j), at(&z, k), at(&w, l)];
                        let step: isize = places.iter().map(|p| p.0).sum();
                        let lane = self.row.lane + places.iter().map(|p| p.1).sum::<usize>();
                        if !f(Row { lane, ..self.row }, (cell as isize + step) as usize) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }
}
