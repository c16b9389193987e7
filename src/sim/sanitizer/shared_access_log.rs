//! Fast path for shared arrays: a log of the block's accesses to an array since the last barrier, as patterns instead
//! of shadow words.
//!
//! Most accesses are to rows of an array. Between two barriers, there are usually few accesses to an array, and these
//! cannot race: they only read, they access disjoint elements, or each thread accesses only its own elements. In these
//! cases, comparing two patterns replaces the comparison of all elements, and no shadow words are written. At the
//! barrier, the log is cleared; only the set of written elements is kept. If patterns do not prove an access correct,
//! the log is **written out**: shadow words are updated as if they had been used since the barrier. They are then used
//! until the next barrier.
//!
//! Loads of machine code may be logged **coarsely** ("some lanes load some elements") if the launch can be repeated.
//! This requires that all elements have been written, and that no access since the barrier conflicts with a load of any
//! element by any lane. If an access that may conflict follows before the next barrier, shadow words cannot decide
//! whether it does. The launch is then repeated without coarse records.

use std::cell::Cell;

use super::access_pattern::AccessPattern;
use super::checked_access::{point_row, record_atomic};
use super::race_rules::{CurrentAccess, RowLoopVariant, read_row_fn, write_row_fn};
use super::shadow::Planes;
use super::shadow_word::LANE_SHIFT;
use crate::events::AccessKind;
use clk_runtime::Isa;

/// A log entry: one access, or several accesses from one location in the source.
#[derive(Clone, Copy)]
struct SharedAccessEntry {
    kind: AccessKind,
    /// The shadow word of the access without the lane; and [`CurrentAccess::keeps_first_thread`].
    word: u64,
    keeps_first_thread: bool,
    elements: AccessedElements,
    /// The smallest and the largest element.
    hull: (isize, isize),
}

#[derive(Clone, Copy)]
enum AccessedElements {
    Pattern(AccessPattern),
    /// A range of [`SharedAccessLog::cells`]: the element of each lane, starting at lane 0.
    Cells(usize, usize),
    /// Some lanes access some elements (coarse).
    Any,
}

/// The value in place of an element for an inactive lane.
pub(super) const NO_CELL: u32 = u32::MAX;

/// Maximum number of log entries between two barriers, and maximum number of cells in them (`MAX_CELLS`).
const MAX_ENTRIES: usize = 32;
const MAX_CELLS: usize = 1 << 15;

/// The access log of one shared array; see the module documentation.
#[derive(Default)]
pub(super) struct SharedAccessLog {
    allocation_time: u64,
    base: u64,
    /// Set if shadow words are used until the next barrier, because the log has been written out.
    uses_words: bool,
    entries: Vec<SharedAccessEntry>,
    pub cells: Vec<u32>,
    written: WrittenElements,
    /// Set if some written elements are not marked as written in the shadow words yet.
    has_unmarked: bool,
    /// Set if the log was written out while it contained coarsely logged loads. Shadow words do not contain these, so
    /// they cannot decide whether there is a race.
    pub is_inconclusive: bool,
}

/// The data of an access that is to be logged.
pub(super) struct RecordedAccess {
    pub kind: AccessKind,
    pub word: u64,
    pub keeps_first_thread: bool,
    /// Set for an atomic operation that ignores the old value: the elements may be unwritten before it, and are written
    /// after it.
    pub overwrites: bool,
}

/// Accesses to one array that are logged together and do not conflict with each other.
pub(super) struct AccessSummary {
    /// Log entries without times.
    entries: Vec<SharedAccessEntry>,
    /// The smallest and the largest element of all the accesses.
    hull: (isize, isize),
    /// Set if all accesses are stores to contiguous elements.
    is_dense_store: bool,
}

impl AccessSummary {
    pub fn of(access: &RecordedAccess, pattern: &AccessPattern, hull: (isize, isize)) -> AccessSummary {
        let mut part = AccessSummary { entries: vec![], hull, is_dense_store: true };
        part.add(access, pattern, hull);
        part
    }

    pub fn add(&mut self, access: &RecordedAccess, pattern: &AccessPattern, hull: (isize, isize)) {
        self.hull = (self.hull.0.min(hull.0), self.hull.1.max(hull.1));
        self.is_dense_store &= access.kind == AccessKind::Store && pattern.is_dense();
        let contents = AccessedElements::Pattern(*pattern);
        self.entries.push(SharedAccessEntry {
            kind: access.kind,
            word: access.word,
            keeps_first_thread: access.keeps_first_thread,
            elements: contents,
            hull,
        });
    }
}

impl SharedAccessLog {
    /// Returns whether these accesses, which do not conflict with each other, are known to be correct: there were no
    /// other accesses since the last barrier, and their elements have been written before or are written now.
    #[inline]
    pub fn needs_no_check(&self, part: &AccessSummary) -> bool {
        self.entries.is_empty()
            && part.entries.len() <= MAX_ENTRIES
            && (self.written.covers(part.hull) || part.is_dense_store)
    }

    /// Logs accesses for which [`SharedAccessLog::needs_no_check`] is true, with a time in the format of a shadow word.
    pub fn append(&mut self, part: &AccessSummary, time: u64) {
        if !self.written.covers(part.hull) {
            self.has_unmarked = true;
            part.entries.iter().for_each(|entry| self.written.fill(entry.hull));
        }
        self.entries.extend(part.entries.iter().map(|entry| SharedAccessEntry { word: entry.word | time, ..*entry }));
    }

    /// Returns whether a tree reduction of elements up to `last` by all threads is known to be correct. A barrier
    /// separates its iterations.
    pub fn allows_tree(&self, last: usize) -> bool {
        self.entries.is_empty() && self.written.covers((0, last as isize))
    }

    /// Clears the log if a barrier or a new block separates the current access from the log's entries. Returns false if
    /// shadow words are used until the next barrier.
    #[inline]
    pub fn is_open(&mut self, current: &CurrentAccess, allocation_time: u64) -> bool {
        if self.allocation_time != allocation_time {
            self.allocation_time = allocation_time;
            self.written.clear();
            self.has_unmarked = false;
        }
        if self.base != current.base {
            self.base = current.base;
            self.uses_words = false;
            self.entries.clear();
            self.cells.clear();
        }
        !self.uses_words
    }

    /// Returns whether patterns prove an access correct. If `written` is true, the elements need not be in the set of
    /// written elements.
    pub fn is_correct(&self, touch: AccessKind, pattern: &AccessPattern, hull: (isize, isize), written: bool) -> bool {
        let is_store = touch == AccessKind::Store;
        let needs = !is_store && !written;
        if (is_store && !pattern.is_single()) || (needs && !self.written.has(pattern, hull)) {
            return false;
        }
        let races = |e: &SharedAccessEntry| match &e.elements {
            AccessedElements::Pattern(p) => !p.has_same_lanes(pattern),
            AccessedElements::Cells(..) | AccessedElements::Any => true,
        };
        !self.entries.iter().any(|e| e.may_race(touch, hull) && races(e))
    }

    /// Logs an access if patterns prove it correct. Returns false if it was not logged, so that shadow words have to be
    /// compared.
    pub fn try_log(&mut self, access: &RecordedAccess, pattern: &AccessPattern) -> bool {
        let hull = pattern.bounds();
        let is_written = !access.overwrites || self.written.has(pattern, hull);
        is_written && self.is_correct(access.kind, pattern, hull, false) && self.log_access(access, pattern, hull)
    }

    /// Logs an access for which [`SharedAccessLog::is_correct`] is true. Returns false if the log is full.
    pub fn log_access(&mut self, access: &RecordedAccess, pattern: &AccessPattern, hull: (isize, isize)) -> bool {
        if access.kind == AccessKind::Store {
            self.written.add(pattern, hull);
            self.has_unmarked = true;
        }
        let same = |e: &&mut SharedAccessEntry| e.word == access.word && e.kind == access.kind;
        for e in self.entries.iter_mut().filter(same) {
            if let AccessedElements::Pattern(p) = &mut e.elements
                && p.merge_iteration(pattern)
            {
                e.hull = p.bounds();
                return true;
            }
        }
        self.push(access, hull, AccessedElements::Pattern(*pattern))
    }

    /// Like [`SharedAccessLog::try_log`], for a load or an atomic operation on individual elements: those in `cells`
    /// from index `from` on.
    pub fn try_log_cells(&mut self, access: &RecordedAccess, from: usize, len: usize) -> bool {
        let hull = (0, len as isize - 1);
        let written = |&cell: &u32| cell == NO_CELL || self.written.contains(cell as usize);
        let can_log = self.cells.len() <= MAX_CELLS
            && (self.written.covers(hull) || self.cells[from..].iter().all(written))
            && !self.entries.iter().any(|e| e.may_race(access.kind, hull));
        if !can_log {
            self.cells.truncate(from);
            return false;
        }
        let to = self.cells.len();
        self.push(access, hull, AccessedElements::Cells(from, to))
    }

    /// Returns whether loads of elements in the range `hull` by any lanes are correct. No logged access may conflict
    /// with a load of any element in the range `all`.
    #[inline]
    pub fn allows_any_load(&self, hull: (isize, isize), all: (isize, isize)) -> bool {
        self.written.covers(hull) && !self.entries.iter().any(|e| e.may_race(AccessKind::Load, all))
    }

    /// Logs loads of elements in the range `all` coarsely.
    #[inline]
    pub fn log_any_load(&mut self, access: &RecordedAccess, all: (isize, isize)) {
        if !self.entries.iter().any(|e| matches!(e.elements, AccessedElements::Any)) {
            let (word, keeps_first_thread) = (access.word, access.keeps_first_thread);
            self.entries.push(SharedAccessEntry {
                kind: AccessKind::Load,
                word,
                keeps_first_thread,
                elements: AccessedElements::Any,
                hull: all,
            });
        }
    }

    fn push(&mut self, access: &RecordedAccess, hull: (isize, isize), contents: AccessedElements) -> bool {
        if self.entries.len() < MAX_ENTRIES || matches!(contents, AccessedElements::Cells(..)) {
            self.entries.push(SharedAccessEntry {
                kind: access.kind,
                word: access.word,
                keeps_first_thread: access.keeps_first_thread,
                elements: contents,
                hull,
            });
            return true;
        }
        false
    }

    /// Records that elements have been written. Called after an access to them was checked by shadow words and found
    /// correct.
    pub fn mark_written(&mut self, pattern: &AccessPattern) {
        self.written.add(pattern, pattern.bounds());
    }

    /// Like [`SharedAccessLog::mark_written`], for contiguous elements.
    #[inline]
    pub fn mark_row_written(&mut self, first: usize, count: usize) {
        let hull = (first as isize, (first + count) as isize - 1);
        if !self.written.covers(hull) {
            self.written.fill(hull);
        }
    }

    /// Returns whether the log has entries since the last barrier.
    pub fn has_entries(&self, current: &CurrentAccess) -> bool {
        self.base == current.base && !self.entries.is_empty()
    }

    /// Writes the log entries to shadow words, which are then used until the next barrier.
    ///
    /// # Safety
    /// The planes belong to the memory whose events were logged.
    pub unsafe fn write_out(&mut self, planes: &Planes, current: &CurrentAccess, isa: Isa, warps: bool) {
        self.uses_words = true;
        // SAFETY: the planes belong to the memory, and the logged and written elements are in bounds.
        unsafe {
            if std::mem::take(&mut self.has_unmarked) {
                let allocation_time = self.allocation_time;
                self.written.each(|cell| {
                    let word = planes.writes.add(cell);
                    *word = (*word).max(allocation_time);
                });
            }
            for entry in self.entries.drain(..) {
                let current = CurrentAccess {
                    word: entry.word,
                    keeps_first_thread: entry.keeps_first_thread,
                    init_time: 0,
                    ..*current
                };
                match &entry.elements {
                    AccessedElements::Pattern(pattern) => replay(planes, &current, entry.kind, pattern, isa, warps),
                    AccessedElements::Any => self.is_inconclusive = true,
                    AccessedElements::Cells(from, to) => {
                        replay_cells(planes, &current, entry.kind, &self.cells[*from..*to], warps);
                    }
                }
            }
        }
        self.cells.clear();
    }
}

impl SharedAccessEntry {
    /// Returns whether an access of this kind to elements in this range may race with the accesses of the entry.
    #[inline]
    fn may_race(&self, touch: AccessKind, hull: (isize, isize)) -> bool {
        touch.conflicts_with(self.kind) && self.hull.0 <= hull.1 && hull.0 <= self.hull.1
    }
}

unsafe fn replay(
    planes: &Planes,
    current: &CurrentAccess,
    touch: AccessKind,
    pattern: &AccessPattern,
    isa: Isa,
    warps: bool,
) {
    let variant =
        RowLoopVariant { reads: !planes.reads.is_null(), atomics: !planes.atomics.is_null(), warps, mask: false };
    let f = if touch == AccessKind::Load { read_row_fn(isa, variant) } else { write_row_fn(isa, variant) };
    pattern.to_rows(std::ptr::null()).for_each(pattern.first, |mut row, cell| {
        point_row(&mut row, planes, cell);
        // SAFETY: patterns are logged only if they are in bounds.
        unsafe {
            if !touch.is_atomic() {
                return f(current, &row);
            }
            for i in 0..row.count {
                let (lane, cell) = (row.lane + i * row.lane_step, cell as isize + i as isize * row.step);
                record_atomic(planes, current, touch, cell as usize, lane, row.spread, warps);
            }
        }
        true
    });
}

unsafe fn replay_cells(planes: &Planes, current: &CurrentAccess, touch: AccessKind, cells: &[u32], warps: bool) {
    for (lane, &cell) in cells.iter().enumerate().filter(|(_, c)| **c != NO_CELL) {
        let cell = cell as usize;
        // SAFETY: cells are logged only if they are in bounds; there is a plane for each access kind of the memory's
        // access sites.
        unsafe {
            match touch {
                AccessKind::AtomicRmw | AccessKind::AtomicLoad => {
                    record_atomic(planes, current, touch, cell, lane, 0, warps)
                }
                _ => {
                    let own_word = current.word | (lane as u64) << LANE_SHIFT;
                    let words = planes.words(cell);
                    let joined = if warps {
                        current.check_read::<true, true>(words, own_word, lane, super::shadow_word::ONE).1
                    } else {
                        current.check_read::<true, false>(words, own_word, lane, super::shadow_word::ONE).1
                    };
                    *planes.reads.add(cell) = joined;
                }
            }
        }
    }
}

/// Returns the bits of word `word` of a bit set that represent elements in `first..=last`.
fn word_bits(word: usize, first: usize, last: usize) -> u64 {
    let from = if word == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
    from & if word == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX }
}

/// The elements that are known to be written: a bit set, and an inclusive range of written elements for a fast test.
struct WrittenElements {
    bits: Vec<u64>,
    range: Cell<(isize, isize)>,
}

impl Default for WrittenElements {
    fn default() -> WrittenElements {
        WrittenElements { bits: vec![], range: Cell::new((0, -1)) }
    }
}

impl WrittenElements {
    fn clear(&mut self) {
        self.bits.clear();
        self.range.set((0, -1));
    }

    #[inline]
    fn covers(&self, hull: (isize, isize)) -> bool {
        let range = self.range.get();
        range.0 <= hull.0 && hull.1 <= range.1 || self.find_written(hull)
    }

    /// Returns whether all elements of an inclusive range are in the bit set. If so, updates `range`.
    fn find_written(&self, hull: (isize, isize)) -> bool {
        let all = hull.0 >= 0 && hull.0 <= hull.1 && self.has_row(hull.0 as usize, hull.1 as usize);
        if all {
            self.extend_range(hull);
        }
        all
    }

    fn has_row(&self, first: usize, last: usize) -> bool {
        let full = |word: usize| {
            self.bits.get(word).is_some_and(|bits| bits & word_bits(word, first, last) == word_bits(word, first, last))
        };
        (first / 64..=last / 64).all(full)
    }

    /// Extends `range` by a range of written elements that is adjacent to it or overlaps it. Otherwise replaces `range`
    /// if the new range is longer.
    fn extend_range(&self, hull: (isize, isize)) {
        let range = self.range.get();
        if hull.0 > range.1 + 1 || hull.1 + 1 < range.0 {
            if hull.1 - hull.0 > range.1 - range.0 {
                self.range.set(hull);
            }
        } else {
            self.range.set((range.0.min(hull.0), range.1.max(hull.1)));
        }
    }

    fn contains(&self, cell: usize) -> bool {
        self.bits.get(cell / 64).is_some_and(|word| word >> (cell % 64) & 1 != 0)
    }

    #[inline]
    fn has(&self, pattern: &AccessPattern, hull: (isize, isize)) -> bool {
        self.covers(hull)
            || pattern.for_each_row(|first, step, count| match step {
                1 => self.has_row(first, first + count - 1),
                _ => (0..count as isize).all(|i| self.contains((first as isize + i * step) as usize)),
            })
    }

    fn add(&mut self, pattern: &AccessPattern, hull: (isize, isize)) {
        if self.covers(hull) {
            return;
        }
        let words = hull.1 as usize / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        if !pattern.is_dense() {
            pattern.for_each_row(|first, step, count| {
                (0..count as isize).for_each(|i| {
                    let cell = (first as isize + i * step) as usize;
                    self.bits[cell / 64] |= 1 << (cell % 64);
                });
                true
            });
            return;
        }
        self.fill(hull);
    }

    /// Adds all elements of an inclusive range to the set.
    fn fill(&mut self, hull: (isize, isize)) {
        let words = hull.1 as usize / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        let (first, last) = (hull.0 as usize, hull.1 as usize);
        for word in first / 64..=last / 64 {
            self.bits[word] |= word_bits(word, first, last);
        }
        self.extend_range(hull);
    }

    fn each(&self, mut f: impl FnMut(usize)) {
        for (number, &word) in self.bits.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                f(number * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::access_pattern::tests::{PatternGenerator, elements_with_lanes};
    use super::super::access_pattern::{NO_AXIS, PatternAxis};
    use super::super::clock::Clock;
    use super::*;

    const LEN: usize = 128;

    /// Returns whether two lanes access the same element and conflict.
    fn conflicts(a: &(AccessKind, AccessPattern), b: &(AccessKind, AccessPattern)) -> bool {
        let harmless = !a.0.conflicts_with(b.0);
        let (these, those) = (elements_with_lanes(&a.1), elements_with_lanes(&b.1));
        !harmless && these.iter().any(|&(cell, lane)| those.iter().any(|&(c, l)| c == cell && l != lane))
    }

    #[test]
    fn logged_accesses_do_not_race() {
        let mut generator = PatternGenerator(17);
        let (mut logged, mut refused) = (0, 0);
        for _ in 0..5_000 {
            let mut clock = Clock::for_shared();
            clock.begin_shared();
            let mut quick = SharedAccessLog::default();
            let mut written = [false; LEN];
            let mut epoch: Vec<(AccessKind, AccessPattern)> = vec![];
            for step in 0..12 {
                if generator.below(4) == 0 {
                    clock.on_block_barrier();
                    epoch.clear();
                }
                let current = clock.current_access(step);
                let touch = [
                    AccessKind::Load,
                    AccessKind::Store,
                    AccessKind::Store,
                    AccessKind::AtomicRmw,
                    AccessKind::AtomicLoad,
                ][generator.below(5) as usize];
                let event = (touch, generator.pattern());
                let access =
                    RecordedAccess { kind: touch, word: current.word, keeps_first_thread: false, overwrites: false };
                if !quick.is_open(&current, clock.allocation_time) || !quick.try_log(&access, &event.1) {
                    refused += 1;
                    continue;
                }
                logged += 1;
                let cells = elements_with_lanes(&event.1);
                assert!(
                    touch == AccessKind::Store || cells.iter().all(|&(cell, _)| written[cell]),
                    "{event:?} {epoch:?}"
                );
                assert!(!epoch.iter().any(|e| conflicts(e, &event)), "{event:?} {epoch:?}");
                assert!(touch != AccessKind::Store || !conflicts(&event, &event), "{event:?}");
                if touch == AccessKind::Store {
                    cells.iter().for_each(|&(cell, _)| written[cell] = true);
                }
                epoch.push(event);
            }
        }
        assert!(logged > 10_000 && refused > 1_000, "{logged} {refused}");
    }

    /// Loads are logged coarsely only if they conflict with no other access since the barrier. If the log is written
    /// out afterwards, it becomes inconclusive.
    #[test]
    fn coarse_loads_do_not_race() {
        let mut generator = PatternGenerator(19);
        let (mut coarse, mut doubted, mut refused) = (0, 0, 0);
        for round in 0..8_000 {
            let mut words = [vec![0u64; LEN], vec![0u64; LEN], vec![0u64; LEN]];
            let [w, r, a] = &mut words;
            let planes = Planes {
                writes: w.as_mut_ptr(),
                reads: r.as_mut_ptr(),
                atomics: a.as_mut_ptr(),
                atomic_loads: std::ptr::null_mut(),
                len: LEN,
            };
            let mut clock = Clock::for_shared();
            clock.begin_shared();
            let mut quick = SharedAccessLog::default();
            let (mut written, mut some) = ([false; LEN], false);
            let all = (0, LEN as isize - 1);
            let mut epoch: Vec<(AccessKind, AccessPattern)> = vec![];
            if round % 2 == 0 {
                let axes = [PatternAxis { count: LEN, step: 1, lanes: 1 }, NO_AXIS, NO_AXIS, NO_AXIS, NO_AXIS];
                let pattern = AccessPattern { first: 0, lane: 0, spread: 0, axes };
                let access = RecordedAccess {
                    kind: AccessKind::Store,
                    word: clock.current_access(0).word,
                    keeps_first_thread: false,
                    overwrites: false,
                };
                assert!(
                    quick.is_open(&clock.current_access(0), clock.allocation_time) && quick.try_log(&access, &pattern)
                );
                written = [true; LEN];
                clock.on_block_barrier();
            }
            for step in 0..10 {
                if generator.below(4) == 0 {
                    clock.on_block_barrier();
                    epoch.clear();
                    some = false;
                }
                let current = clock.current_access(step);
                if !quick.is_open(&current, clock.allocation_time) {
                    continue;
                }
                let (touch, pattern) =
                    ([AccessKind::Load, AccessKind::Store][generator.below(2) as usize], generator.pattern());
                let access =
                    RecordedAccess { kind: touch, word: current.word, keeps_first_thread: false, overwrites: false };
                if touch == AccessKind::Load && generator.below(3) == 0 {
                    if quick.allows_any_load(pattern.bounds(), all) {
                        coarse += 1;
                        assert!(elements_with_lanes(&pattern).iter().all(|&(cell, _)| written[cell]), "{pattern:?}");
                        assert!(!epoch.iter().any(|e| e.0 == AccessKind::Store), "{epoch:?}");
                        quick.log_any_load(&access, all);
                        some = true;
                    }
                } else if quick.try_log(&access, &pattern) {
                    assert!(!(some && touch == AccessKind::Store), "{pattern:?}");
                    if touch == AccessKind::Store {
                        elements_with_lanes(&pattern).iter().for_each(|&(cell, _)| written[cell] = true);
                    }
                    epoch.push((touch, pattern));
                } else {
                    refused += 1;
                    // SAFETY: the planes are as long as the patterns need.
                    unsafe { quick.write_out(&planes, &current, Isa::Base, false) };
                    assert!(!some || quick.is_inconclusive, "{epoch:?}");
                    doubted += usize::from(std::mem::take(&mut quick.is_inconclusive));
                }
            }
        }
        assert!(coarse > 500 && doubted > 300 && refused > 5_000, "{coarse} {doubted} {refused}");
    }

    #[test]
    fn words_contain_logged_accesses() {
        let mut words = [vec![0u64; LEN], vec![0u64; LEN], vec![0u64; LEN]];
        let [w, r, a] = &mut words;
        let planes = Planes {
            writes: w.as_mut_ptr(),
            reads: r.as_mut_ptr(),
            atomics: a.as_mut_ptr(),
            atomic_loads: std::ptr::null_mut(),
            len: LEN,
        };
        let mut clock = Clock::for_shared();
        clock.begin_shared();
        let row = |first: usize, count: usize| AccessPattern {
            first,
            lane: 0,
            spread: 0,
            axes: [PatternAxis { count, step: 1, lanes: 1 }, NO_AXIS, NO_AXIS, NO_AXIS, NO_AXIS],
        };
        let mut quick = SharedAccessLog::default();
        let store = |current: &CurrentAccess| RecordedAccess {
            kind: AccessKind::Store,
            word: current.word,
            keeps_first_thread: false,
            overwrites: false,
        };
        let current = clock.current_access(1);
        assert!(quick.is_open(&current, clock.allocation_time) && quick.try_log(&store(&current), &row(0, 32)));
        clock.on_block_barrier();
        let current = clock.current_access(2);
        assert!(quick.is_open(&current, clock.allocation_time) && quick.try_log(&store(&current), &row(32, 32)));
        let load = RecordedAccess { kind: AccessKind::Load, ..store(&current) };
        // Other threads have written some of these elements since the barrier.
        assert!(!quick.try_log(&load, &row(16, 32)));
        // SAFETY: the planes are as long as the patterns need.
        unsafe { quick.write_out(&planes, &current, Isa::Base, false) };
        assert!(!quick.is_open(&current, clock.allocation_time));
        assert!(
            w[..32].iter().all(|&word| word >= clock.allocation_time && word < current.base),
            "written, and behind a barrier"
        );
        assert!((32..64).all(|cell| w[cell] >= current.base && super::super::shadow_word::lane(w[cell]) == cell - 32));
        assert!(w[64..].iter().all(|&word| word < clock.allocation_time), "nobody has written these");
    }
}
