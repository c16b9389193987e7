//! Accesses of a block to a shared array since its last barrier, kept as patterns instead of shadow words.
//!
//! Most accesses are rows of an array, and most epochs (from one `barrier()` to the next) have a few accesses that cannot race
//! with each other: they only read, or access disjoint parts, or every thread accesses only its own elements. For these, one
//! comparison of patterns replaces those of all elements, and no word is written: at the barrier the log is dropped, except for
//! which elements have been written. When that does not suffice, the patterns are **written out** to shadow words, as if these
//! had been used all along, and words are used until the next barrier.
//!
//! Loads of machine code may be kept **roughly**, in a run that can be repeated: some lanes load some elements, where all of these have
//! been written and nothing since the barrier could conflict with any such load. Mostly the next barrier comes before something could.
//! If it does not, words cannot tell, and the launch is repeated without rough records.

use std::cell::Cell;

use super::event::{row_at, update_cell};
use super::pattern::Pattern;
use super::rows::{Now, Variant, reader, writer};
use super::shadow::Planes;
use super::word::LANE_SHIFT;
use crate::device::sim::events::Touch;
use crate::device::sim::lanes::Isa;

/// An access, or several of one location in the source.
#[derive(Clone, Copy)]
struct Entry {
    touch: Touch,
    /// The shadow word without the lane, and [`Now::modest`].
    own: u64,
    modest: bool,
    what: What,
    /// The smallest and the largest element.
    hull: (isize, isize),
}

#[derive(Clone, Copy)]
enum What {
    Pattern(Pattern),
    /// A range of [`Quick::cells`]: the element of each lane, from lane 0 on.
    Cells(usize, usize),
    /// Some lanes access some elements.
    Any,
}

/// The element of an inactive lane.
pub(super) const NO_CELL: u32 = u32::MAX;

/// Limits on entries and cells between two barriers.
const MOST: usize = 32;
const MOST_CELLS: usize = 1 << 15;

/// The log of one shared array, see the module documentation.
#[derive(Default)]
pub(super) struct Quick {
    born: u64,
    base: u64,
    /// Words are used until the next barrier.
    out: bool,
    log: Vec<Entry>,
    pub cells: Vec<u32>,
    known: Known,
    /// Some elements that are known to be written are not marked in the words.
    behind: bool,
    /// Words lack accesses that were kept roughly: what they say is no verdict.
    pub doubtful: bool,
}

/// The access that is to be kept.
pub(super) struct Deed {
    pub touch: Touch,
    pub own: u64,
    pub modest: bool,
    /// It does not require that the element has been written, but writes it.
    pub overwrites: bool,
}

/// Accesses to one array that are kept together, and do not conflict with one another.
pub(super) struct Part {
    /// As in the log, without times.
    entries: Vec<Entry>,
    /// The smallest and the largest element of all.
    hull: (isize, isize),
    /// They only store, to all elements between the smallest and the largest of an access.
    fills: bool,
}

impl Part {
    pub fn of(deed: &Deed, pattern: &Pattern, hull: (isize, isize)) -> Part {
        let mut part = Part { entries: vec![], hull, fills: true };
        part.add(deed, pattern, hull);
        part
    }

    pub fn add(&mut self, deed: &Deed, pattern: &Pattern, hull: (isize, isize)) {
        self.hull = (self.hull.0.min(hull.0), self.hull.1.max(hull.1));
        self.fills &= deed.touch == Touch::Store && pattern.is_dense();
        let what = What::Pattern(*pattern);
        self.entries.push(Entry { touch: deed.touch, own: deed.own, modest: deed.modest, what, hull });
    }
}

impl Quick {
    /// Returns whether nothing has to be compared for accesses that do not conflict with one another: there are no others since the
    /// last barrier, and the elements have been written, or are now.
    #[inline]
    pub fn takes(&self, part: &Part) -> bool {
        self.log.is_empty() && part.entries.len() <= MOST && (self.known.covers(part.hull) || part.fills)
    }

    /// Keeps accesses that it [takes](Quick::takes), at the time of a shadow word.
    pub fn take(&mut self, part: &Part, time: u64) {
        if !self.known.covers(part.hull) {
            self.behind = true;
            part.entries.iter().for_each(|entry| self.known.fill(entry.hull));
        }
        self.log.extend(part.entries.iter().map(|entry| Entry { own: entry.own | time, ..*entry }));
    }

    /// Returns whether a tree of accesses by all threads, with barriers in between, needs no comparison: its first iteration reads and
    /// writes elements up to `last`, its other ones some of these.
    pub fn bears(&self, last: usize) -> bool {
        self.log.is_empty() && self.known.covers((0, last as isize))
    }

    /// Prepares for an event at this time; returns false if words are in use.
    #[inline]
    pub fn is_open(&mut self, now: &Now, born: u64) -> bool {
        if self.born != born {
            self.born = born;
            self.known.clear();
            self.behind = false;
        }
        if self.base != now.base {
            self.base = now.base;
            self.out = false;
            self.log.clear();
            self.cells.clear();
        }
        !self.out
    }

    /// Returns whether an access is known to be correct; `written` if its elements need not have been written before.
    pub fn agrees(&self, touch: Touch, pattern: &Pattern, hull: (isize, isize), written: bool) -> bool {
        let is_store = touch == Touch::Store;
        let needs = !is_store && !written;
        if (is_store && !pattern.is_single()) || (needs && !self.known.has(pattern, hull)) {
            return false;
        }
        let races = |e: &Entry| match &e.what {
            What::Pattern(p) => !p.agrees(pattern),
            What::Cells(..) | What::Any => true,
        };
        !self.log.iter().any(|e| e.meets(touch, hull) && races(e))
    }

    /// Keeps an access that is correct. Returns false if it was not kept, so that words have to decide.
    pub fn keep(&mut self, deed: &Deed, pattern: &Pattern) -> bool {
        let hull = pattern.hull();
        let known = !deed.overwrites || self.known.has(pattern, hull);
        known && self.agrees(deed.touch, pattern, hull, false) && self.add(deed, pattern, hull)
    }

    /// Keeps an access that [agrees](Quick::agrees). Returns false if there is no room.
    pub fn add(&mut self, deed: &Deed, pattern: &Pattern, hull: (isize, isize)) -> bool {
        if deed.touch == Touch::Store {
            self.known.add(pattern, hull);
            self.behind = true;
        }
        let same = |e: &&mut Entry| e.own == deed.own && e.touch == deed.touch;
        for e in self.log.iter_mut().filter(same) {
            if let What::Pattern(p) = &mut e.what
                && p.extend(pattern)
            {
                e.hull = p.hull();
                return true;
            }
        }
        self.push(deed, hull, What::Pattern(*pattern))
    }

    /// As [`Quick::keep`], for individual elements: those in `cells` from `from` on. Not for stores.
    pub fn keep_cells(&mut self, deed: &Deed, from: usize, len: usize) -> bool {
        let hull = (0, len as isize - 1);
        let written = |&cell: &u32| cell == NO_CELL || self.known.contains(cell as usize);
        let fits = self.cells.len() <= MOST_CELLS
            && (self.known.covers(hull) || self.cells[from..].iter().all(written))
            && !self.log.iter().any(|e| e.meets(deed.touch, hull));
        if !fits {
            self.cells.truncate(from);
            return false;
        }
        let to = self.cells.len();
        self.push(deed, hull, What::Cells(from, to))
    }

    /// Returns whether loads of elements in `hull` by any lanes are correct, also if these load others of `all`.
    #[inline]
    pub fn bears_any(&self, hull: (isize, isize), all: (isize, isize)) -> bool {
        self.known.covers(hull) && !self.log.iter().any(|e| e.meets(Touch::Load, all))
    }

    /// Keeps such loads roughly.
    #[inline]
    pub fn keep_any(&mut self, deed: &Deed, all: (isize, isize)) {
        if !self.log.iter().any(|e| matches!(e.what, What::Any)) {
            let (own, modest) = (deed.own, deed.modest);
            self.log.push(Entry { touch: Touch::Load, own, modest, what: What::Any, hull: all });
        }
    }

    fn push(&mut self, deed: &Deed, hull: (isize, isize), what: What) -> bool {
        if self.log.len() < MOST || matches!(what, What::Cells(..)) {
            self.log.push(Entry { touch: deed.touch, own: deed.own, modest: deed.modest, what, hull });
            return true;
        }
        false
    }

    /// Records that an access to these elements was found correct by words: they are written.
    pub fn learn(&mut self, pattern: &Pattern) {
        self.known.add(pattern, pattern.hull());
    }

    /// As [`Quick::learn`], for elements that follow one another.
    #[inline]
    pub fn learn_row(&mut self, first: usize, count: usize) {
        let hull = (first as isize, (first + count) as isize - 1);
        if !self.known.covers(hull) {
            self.known.fill(hull);
        }
    }

    /// Returns whether there are entries that words do not have.
    pub fn holds(&self, now: &Now) -> bool {
        self.base == now.base && !self.log.is_empty()
    }

    /// Writes the entries to words, which are used until the next barrier.
    ///
    /// # Safety
    /// The planes are those of the memory whose events were kept.
    pub unsafe fn write_out(&mut self, planes: &Planes, now: &Now, isa: Isa, warps: bool) {
        self.out = true;
        // SAFETY: the planes are those of the memory, whose kept elements and those known to be written are inside.
        unsafe {
            if std::mem::take(&mut self.behind) {
                let born = self.born;
                self.known.each(|cell| {
                    let word = planes.w.add(cell);
                    *word = (*word).max(born);
                });
            }
            for entry in self.log.drain(..) {
                let now = Now { own: entry.own, modest: entry.modest, born: 0, ..*now };
                match &entry.what {
                    What::Pattern(pattern) => replay(planes, &now, entry.touch, pattern, isa, warps),
                    What::Any => self.doubtful = true,
                    What::Cells(from, to) => {
                        replay_cells(planes, &now, entry.touch, &self.cells[*from..*to], warps);
                    }
                }
            }
        }
        self.cells.clear();
    }
}

impl Entry {
    /// Returns whether an access of this kind between these elements may race with the entry.
    #[inline]
    fn meets(&self, touch: Touch, hull: (isize, isize)) -> bool {
        touch.conflicts(self.touch) && self.hull.0 <= hull.1 && hull.0 <= self.hull.1
    }
}

unsafe fn replay(planes: &Planes, now: &Now, touch: Touch, pattern: &Pattern, isa: Isa, warps: bool) {
    let variant = Variant { reads: !planes.r.is_null(), atomics: !planes.a.is_null(), warps, mask: false };
    let f = if touch == Touch::Load { reader(isa, variant) } else { writer(isa, variant) };
    pattern.walk(std::ptr::null()).each(pattern.first, |mut row, cell| {
        row_at(&mut row, planes, cell);
        // SAFETY: patterns are kept only if they are inside.
        unsafe {
            if !touch.is_atomic() {
                return f(now, &row);
            }
            for i in 0..row.count {
                let (lane, cell) = (row.lane + i * row.lane_step, cell as isize + i as isize * row.step);
                update_cell(planes, now, touch, cell as usize, lane, row.spread, warps);
            }
        }
        true
    });
}

unsafe fn replay_cells(planes: &Planes, now: &Now, touch: Touch, cells: &[u32], warps: bool) {
    for (lane, &cell) in cells.iter().enumerate().filter(|(_, c)| **c != NO_CELL) {
        let cell = cell as usize;
        // SAFETY: cells are kept only if they are inside; there is one for each kind of access that the memory's notes have
        unsafe {
            match touch {
                Touch::Atomic | Touch::Look => update_cell(planes, now, touch, cell, lane, 0, warps),
                _ => {
                    let me = now.own | (lane as u64) << LANE_SHIFT;
                    let words = planes.words(cell);
                    let joined = if warps {
                        now.read::<true, true>(words, me, lane, super::word::ONE).1
                    } else {
                        now.read::<true, false>(words, me, lane, super::word::ONE).1
                    };
                    *planes.r.add(cell) = joined;
                }
            }
        }
    }
}

/// Returns the bits of a word that are those of elements from a first to a last one.
fn part(word: usize, first: usize, last: usize) -> u64 {
    let from = if word == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
    from & if word == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX }
}

/// Elements that are known to have been written: a bit set, and a range of them (the first and the last) for a fast test.
struct Known {
    bits: Vec<u64>,
    range: Cell<(isize, isize)>,
}

impl Default for Known {
    fn default() -> Known {
        Known { bits: vec![], range: Cell::new((0, -1)) }
    }
}

impl Known {
    fn clear(&mut self) {
        self.bits.clear();
        self.range.set((0, -1));
    }

    #[inline]
    fn covers(&self, hull: (isize, isize)) -> bool {
        let range = self.range.get();
        range.0 <= hull.0 && hull.1 <= range.1 || self.finds(hull)
    }

    /// Looks whether all elements from the first to the last one have been written, piece by piece; a range then says so.
    fn finds(&self, hull: (isize, isize)) -> bool {
        let all = hull.0 >= 0 && hull.0 <= hull.1 && self.has_row(hull.0 as usize, hull.1 as usize);
        if all {
            self.take_in(hull);
        }
        all
    }

    fn has_row(&self, first: usize, last: usize) -> bool {
        let full = |word: usize| {
            self.bits.get(word).is_some_and(|bits| bits & part(word, first, last) == part(word, first, last))
        };
        (first / 64..=last / 64).all(full)
    }

    /// Lets the range include elements that have been written, or be that of them if there are more.
    fn take_in(&self, hull: (isize, isize)) {
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
    fn has(&self, pattern: &Pattern, hull: (isize, isize)) -> bool {
        self.covers(hull)
            || pattern.rows(|first, step, count| match step {
                1 => self.has_row(first, first + count - 1),
                _ => (0..count as isize).all(|i| self.contains((first as isize + i * step) as usize)),
            })
    }

    fn add(&mut self, pattern: &Pattern, hull: (isize, isize)) {
        if self.covers(hull) {
            return;
        }
        let words = hull.1 as usize / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        if !pattern.is_dense() {
            pattern.rows(|first, step, count| {
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

    /// Adds all elements from the first to the last one.
    fn fill(&mut self, hull: (isize, isize)) {
        let words = hull.1 as usize / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        let (first, last) = (hull.0 as usize, hull.1 as usize);
        for word in first / 64..=last / 64 {
            self.bits[word] |= part(word, first, last);
        }
        self.take_in(hull);
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
    use super::super::clock::Clock;
    use super::super::pattern::tests::{Dice, touched};
    use super::super::pattern::{Axis, NO_AXIS};
    use super::*;

    const LEN: usize = 128;

    /// Returns whether two lanes access one element and conflict: not both read and not both update it.
    fn clash(a: &(Touch, Pattern), b: &(Touch, Pattern)) -> bool {
        let harmless = !a.0.conflicts(b.0);
        let (these, those) = (touched(&a.1), touched(&b.1));
        !harmless && these.iter().any(|&(cell, lane)| those.iter().any(|&(c, l)| c == cell && l != lane))
    }

    #[test]
    fn what_is_kept_breaks_no_rule() {
        let mut dice = Dice(17);
        let (mut kept, mut refused) = (0, 0);
        for _ in 0..5_000 {
            let mut clock = Clock::of_shared();
            clock.begin_shared();
            let mut quick = Quick::default();
            let mut written = [false; LEN];
            let mut epoch: Vec<(Touch, Pattern)> = vec![];
            for step in 0..12 {
                if dice.below(4) == 0 {
                    clock.block_met();
                    epoch.clear();
                }
                let now = clock.now(step);
                let touch =
                    [Touch::Load, Touch::Store, Touch::Store, Touch::Atomic, Touch::Look][dice.below(5) as usize];
                let event = (touch, dice.pattern());
                let deed = Deed { touch, own: now.own, modest: false, overwrites: false };
                if !quick.is_open(&now, clock.born) || !quick.keep(&deed, &event.1) {
                    refused += 1;
                    continue;
                }
                kept += 1;
                let cells = touched(&event.1);
                assert!(touch == Touch::Store || cells.iter().all(|&(cell, _)| written[cell]), "{event:?} {epoch:?}");
                assert!(!epoch.iter().any(|e| clash(e, &event)), "{event:?} {epoch:?}");
                assert!(touch != Touch::Store || !clash(&event, &event), "{event:?}");
                if touch == Touch::Store {
                    cells.iter().for_each(|&(cell, _)| written[cell] = true);
                }
                epoch.push(event);
            }
        }
        assert!(kept > 10_000 && refused > 1_000, "{kept} {refused}");
    }

    /// Loads that are kept roughly conflict with no other access, or the words are no verdict.
    #[test]
    fn what_is_kept_roughly_breaks_no_rule() {
        let mut dice = Dice(19);
        let (mut rough, mut doubted, mut refused) = (0, 0, 0);
        for round in 0..8_000 {
            let mut words = [vec![0u64; LEN], vec![0u64; LEN], vec![0u64; LEN]];
            let [w, r, a] = &mut words;
            let planes =
                Planes { w: w.as_mut_ptr(), r: r.as_mut_ptr(), a: a.as_mut_ptr(), l: std::ptr::null_mut(), len: LEN };
            let mut clock = Clock::of_shared();
            clock.begin_shared();
            let mut quick = Quick::default();
            let (mut written, mut some) = ([false; LEN], false);
            let all = (0, LEN as isize - 1);
            let mut epoch: Vec<(Touch, Pattern)> = vec![];
            if round % 2 == 0 {
                let axes = [Axis { count: LEN, step: 1, lanes: 1 }, NO_AXIS, NO_AXIS, NO_AXIS, NO_AXIS];
                let pattern = Pattern { first: 0, lane: 0, spread: 0, axes };
                let deed = Deed { touch: Touch::Store, own: clock.now(0).own, modest: false, overwrites: false };
                assert!(quick.is_open(&clock.now(0), clock.born) && quick.keep(&deed, &pattern));
                written = [true; LEN];
                clock.block_met();
            }
            for step in 0..10 {
                if dice.below(4) == 0 {
                    clock.block_met();
                    epoch.clear();
                    some = false;
                }
                let now = clock.now(step);
                if !quick.is_open(&now, clock.born) {
                    continue;
                }
                let (touch, pattern) = ([Touch::Load, Touch::Store][dice.below(2) as usize], dice.pattern());
                let deed = Deed { touch, own: now.own, modest: false, overwrites: false };
                if touch == Touch::Load && dice.below(3) == 0 {
                    if quick.bears_any(pattern.hull(), all) {
                        rough += 1;
                        assert!(touched(&pattern).iter().all(|&(cell, _)| written[cell]), "{pattern:?}");
                        assert!(!epoch.iter().any(|e| e.0 == Touch::Store), "{epoch:?}");
                        quick.keep_any(&deed, all);
                        some = true;
                    }
                } else if quick.keep(&deed, &pattern) {
                    assert!(!(some && touch == Touch::Store), "{pattern:?}");
                    if touch == Touch::Store {
                        touched(&pattern).iter().for_each(|&(cell, _)| written[cell] = true);
                    }
                    epoch.push((touch, pattern));
                } else {
                    refused += 1;
                    // SAFETY: the planes are as long as the patterns need.
                    unsafe { quick.write_out(&planes, &now, Isa::Base, false) };
                    assert!(!some || quick.doubtful, "{epoch:?}");
                    doubted += usize::from(std::mem::take(&mut quick.doubtful));
                }
            }
        }
        assert!(rough > 500 && doubted > 300 && refused > 5_000, "{rough} {doubted} {refused}");
    }

    #[test]
    fn words_tell_what_was_kept() {
        let mut words = [vec![0u64; LEN], vec![0u64; LEN], vec![0u64; LEN]];
        let [w, r, a] = &mut words;
        let planes =
            Planes { w: w.as_mut_ptr(), r: r.as_mut_ptr(), a: a.as_mut_ptr(), l: std::ptr::null_mut(), len: LEN };
        let mut clock = Clock::of_shared();
        clock.begin_shared();
        let row = |first: usize, count: usize| Pattern {
            first,
            lane: 0,
            spread: 0,
            axes: [Axis { count, step: 1, lanes: 1 }, NO_AXIS, NO_AXIS, NO_AXIS, NO_AXIS],
        };
        let mut quick = Quick::default();
        let store = |now: &Now| Deed { touch: Touch::Store, own: now.own, modest: false, overwrites: false };
        let now = clock.now(1);
        assert!(quick.is_open(&now, clock.born) && quick.keep(&store(&now), &row(0, 32)));
        clock.block_met();
        let now = clock.now(2);
        assert!(quick.is_open(&now, clock.born) && quick.keep(&store(&now), &row(32, 32)));
        let load = Deed { touch: Touch::Load, ..store(&now) };
        // Other threads have just written these.
        assert!(!quick.keep(&load, &row(16, 32)));
        // SAFETY: the planes are as long as the patterns need.
        unsafe { quick.write_out(&planes, &now, Isa::Base, false) };
        assert!(!quick.is_open(&now, clock.born));
        assert!(w[..32].iter().all(|&word| word >= clock.born && word < now.base), "written, and behind a barrier");
        assert!((32..64).all(|cell| w[cell] >= now.base && super::super::word::lane(w[cell]) == cell - 32));
        assert!(w[64..].iter().all(|&word| word < clock.born), "nobody has written these");
    }
}
