//! The exact checker's record of an element: every access that a later access may conflict with.
//!
//! The words of [`word`](super::word) have one thread where there were several, and short counters. Here an entry lists the
//! threads of a warp individually, with an unbounded time and site, and elements with more than one entry have a list.
//!
//! A write does not subsume the accesses that are ordered before it: the race of a later write with it may be harmless because both
//! write the same value, while the race with an earlier access is not. So an element has its last writes, which store one value,
//! the writes of the value before it, and all reads and atomic operations. `docs/internals/race-checks.md` shows why these suffice.

use crate::base::room;
use crate::lang::scalar::{Scalar, Value};

/// Threads of a warp that accessed an element at one time, from one location in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub time: u64,
    pub group: u64,
    pub warp: usize,
    /// Its lanes, one bit each.
    pub mask: u32,
    /// The number of the access among those of its memory.
    pub site: u32,
}

impl Entry {
    /// Returns the first of some of its lanes, as a lane of the block.
    pub fn lane(&self, mask: u32) -> usize {
        self.warp * 32 + mask.trailing_zeros() as usize
    }
}

/// An entry in 16 bytes; all zero for none. With [`MANY`], the number of a list.
type Word = [u32; 4];

const MANY: u32 = 1 << 31;
const SITES: u32 = 0xffff;
const WARP_SHIFT: u32 = 16;
const TIME_SHIFT: u32 = 21;

fn pack(e: &Entry) -> Word {
    let high = (e.time >> 32) as u32;
    [e.time as u32, e.group as u32, e.mask, e.site.min(SITES) | (e.warp as u32) << WARP_SHIFT | high << TIME_SHIFT]
}

fn unpack([time, group, mask, rest]: Word) -> Entry {
    Entry {
        time: u64::from(time) | u64::from(rest >> TIME_SHIFT & 0x3ff) << 32,
        group: group.into(),
        warp: (rest >> WARP_SHIFT & 31) as usize,
        mask,
        site: rest & SITES,
    }
}

/// An atomic operation, and the version of its variable that it created; 0 if it released nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub entry: Entry,
    pub variable: u64,
    pub version: u64,
}

/// The entries of each element, for one kind of access.
#[derive(Default)]
struct Plane {
    words: Vec<Word>,
    lists: Vec<Vec<Word>>,
    free: Vec<u32>,
}

impl Plane {
    fn words(&self, cell: usize) -> &[Word] {
        match self.words.get(cell) {
            Some(word) if word[3] & MANY != 0 => &self.lists[word[1] as usize],
            Some(word) if word[2] != 0 => std::slice::from_ref(word),
            _ => &[],
        }
    }

    fn set(&mut self, cell: usize, word: Word) {
        let Some(old) = self.words.get_mut(cell) else { return };
        if old[3] & MANY != 0 {
            self.lists[old[1] as usize].clear();
            self.free.push(old[1]);
        }
        *old = word;
    }

    /// Returns the words of an element as a list, to be extended.
    fn list(&mut self, cell: usize) -> &mut Vec<Word> {
        let old = self.words[cell];
        if old[3] & MANY == 0 {
            let number = self.free.pop().unwrap_or(self.lists.len() as u32);
            if number as usize == self.lists.len() {
                self.lists.push(vec![]);
            }
            self.lists[number as usize].extend((old[2] != 0).then_some(old));
            self.words[cell] = [0, number, !0, MANY];
        }
        &mut self.lists[self.words[cell][1] as usize]
    }

    /// Adds an entry. Those of the same block are usually at the end.
    fn add(&mut self, cell: usize, entry: &Entry) {
        let new = pack(entry);
        if self.words(cell).is_empty() {
            return self.set(cell, new);
        }
        let list = self.list(cell);
        let near = list.len().saturating_sub(NEAR);
        for word in &mut list[near..] {
            let old = unpack(*word);
            if (old.group, old.warp) != (entry.group, entry.warp) {
                continue;
            }
            if (old.time, old.site) == (entry.time, entry.site) {
                word[2] |= entry.mask;
                return;
            }
            // A later access of a thread subsumes its earlier ones.
            word[2] &= !entry.mask;
            if word[2] == 0 {
                *word = new;
                return;
            }
        }
        list.push(new);
    }

    /// Adds an entry; with `all`, it replaces all others.
    fn see(&mut self, cell: usize, entry: &Entry, all: bool) {
        if cell >= self.words.len() {
        } else if all {
            self.set(cell, pack(entry));
        } else {
            self.add(cell, entry);
        }
    }

    /// Removes the entries that are not `relevant`.
    fn retain(&mut self, cell: usize, relevant: impl Fn(&Entry) -> bool) {
        let Some(&word) = self.words.get(cell) else { return };
        if word[3] & MANY == 0 {
            if word[2] != 0 && !relevant(&unpack(word)) {
                self.words[cell] = [0; 4];
            }
            return;
        }
        let list = &mut self.lists[word[1] as usize];
        list.retain(|&word| relevant(&unpack(word)));
        if list.is_empty() {
            self.set(cell, [0; 4]);
        }
    }

    /// Moves the entries of an element here from another plane.
    fn take_from(&mut self, other: &mut Plane, cell: usize) {
        if self.words.is_empty() {
            self.words = room::zeros(other.words.len());
        }
        self.set(cell, [0; 4]);
        match other.words(cell) {
            [] => {}
            [word] => self.words[cell] = *word,
            words => self.list(cell).extend_from_slice(words),
        }
        other.set(cell, [0; 4]);
    }

    fn clear(&mut self) {
        self.words.fill([0; 4]);
        self.lists.iter_mut().for_each(Vec::clear);
        self.free = (0..self.lists.len() as u32).collect();
    }
}

/// The number of entries at the end of a list that are searched for the same warp.
const NEAR: usize = 64;

/// The kinds of accesses that others can conflict with, and that are therefore recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub writes: bool,
    pub reads: bool,
    pub looks: bool,
    pub updates: bool,
}

/// All records of a memory.
#[derive(Default)]
pub(crate) struct Trace {
    /// The writes of the element's last value: two of them that are not ordered race, harmlessly.
    writes: Plane,
    /// The writes of the value before the last one, all of them ordered before a write of the last one.
    replaced: Plane,
    reads: Plane,
    /// Atomic loads.
    looks: Plane,
    /// By element, the number of a list plus one.
    updates: Vec<u32>,
    lists: Vec<Vec<Update>>,
    /// The bytes of the memory as `writes` and `replaced` have left them: atomic operations change only the memory itself.
    pub stored: Values,
    pub replaced_values: Values,
    pub len: usize,
    /// The block that the shared array belongs to.
    pub group: Option<u64>,
}

/// The values that plain writes have stored in a memory.
#[derive(Default)]
pub(crate) struct Values(Vec<u8>);

impl Values {
    /// Returns the value at this byte.
    pub fn get(&self, at: usize, scalar: Scalar) -> Option<Value> {
        Some(Value::from_bytes(scalar, self.0.get(at..at + scalar.size())?))
    }

    pub fn set(&mut self, at: usize, value: Value) {
        let size = value.ty.size();
        if self.0.len() < at + size {
            self.0.resize(at + size, 0);
        }
        self.0[at..at + size].copy_from_slice(&value.to_bytes()[..size]);
    }
}

impl Trace {
    /// Creates the trace of this many elements.
    pub fn new(len: usize, kinds: Room) -> Trace {
        let plane = |wanted: bool| Plane { words: room::zeros(if wanted { len } else { 0 }), ..Plane::default() };
        let (writes, reads, looks) = (plane(kinds.writes), plane(kinds.reads), plane(kinds.looks));
        let updates = room::zeros(if kinds.updates { len } else { 0 });
        Trace { writes, reads, looks, updates, len, ..Trace::default() }
    }

    /// Clears the trace for the next block's shared memory.
    pub fn clear(&mut self, group: u64) {
        self.group = Some(group);
        self.writes.clear();
        self.replaced.clear();
        self.reads.clear();
        self.looks.clear();
        self.updates.fill(0);
        self.lists.clear();
    }

    /// Returns whether every element has been written.
    pub fn is_all_written(&self) -> bool {
        self.writes.words.iter().all(|word| word[2] != 0)
    }

    pub fn is_unwritten(&self, cell: usize) -> bool {
        self.writes.words(cell).is_empty()
    }

    pub fn writes(&self, cell: usize) -> impl Iterator<Item = Entry> + '_ {
        self.writes.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn replaced(&self, cell: usize) -> impl Iterator<Item = Entry> + '_ {
        self.replaced.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn reads(&self, cell: usize) -> impl Iterator<Item = Entry> + '_ {
        self.reads.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn looks(&self, cell: usize) -> impl Iterator<Item = Entry> + '_ {
        self.looks.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn updates(&self, cell: usize) -> &[Update] {
        match self.updates.get(cell) {
            Some(&list) if list > 0 => &self.lists[list as usize - 1],
            _ => &[],
        }
    }

    /// Records a read. With `all`, everything before is ordered before it, so that it subsumes all reads.
    pub fn read(&mut self, cell: usize, entry: &Entry, all: bool) {
        self.reads.see(cell, entry, all);
    }

    /// Records an atomic load, as [`Trace::read`].
    pub fn look(&mut self, cell: usize, entry: &Entry, all: bool) {
        self.looks.see(cell, entry, all);
    }

    /// Records a write that all earlier accesses are ordered before. With `same`, it stores the element's last value again, and
    /// subsumes the other writes of it. Accesses before the time `base` are ordered before all that follow, and forgotten.
    pub fn write(&mut self, cell: usize, entry: &Entry, same: bool, base: u64) {
        if !same && !self.writes.words(cell).is_empty() {
            self.replaced.take_from(&mut self.writes, cell);
        }
        self.writes.set(cell, pack(entry));
        let relevant = |entry: &Entry| entry.time >= base;
        self.reads.retain(cell, relevant);
        self.looks.retain(cell, relevant);
        if let Some(list) = self.updates.get(cell)
            && *list > 0
        {
            self.lists[*list as usize - 1].retain(|update| relevant(&update.entry));
        }
    }

    /// Records the value that a write has left at this byte, in place of the last one.
    pub fn store(&mut self, at: usize, value: Option<Value>) {
        let Some(value) = value else { return };
        if let Some(last) = self.stored.get(at, value.ty) {
            self.replaced_values.set(at, last);
        }
        self.stored.set(at, value);
    }

    /// Records a write of the element's last value. It keeps the other writes of that value.
    pub fn write_too(&mut self, cell: usize, entry: &Entry) {
        self.writes.add(cell, entry);
    }

    /// Records that the element was initialized by an access that is ordered before everything else.
    pub fn begin(&mut self, cell: usize) {
        self.writes.set(cell, pack(&Entry { time: 0, group: 0, warp: 0, mask: 1, site: 0 }));
    }

    /// Records an atomic operation. It subsumes the operations for which `behind` is true, and the earlier ones of its thread.
    pub fn update(&mut self, cell: usize, new: Update, behind: impl Fn(&Update) -> bool) {
        let Some(number) = self.updates.get_mut(cell) else { return };
        if *number == 0 {
            self.lists.push(vec![]);
            *number = self.lists.len() as u32;
        }
        let list = &mut self.lists[*number as usize - 1];
        while list.last().is_some_and(&behind) {
            list.pop();
        }
        if let Some(last) = list.last_mut() {
            let (old, e) = (&mut last.entry, &new.entry);
            let same = (old.time, old.group, old.warp, old.site) == (e.time, e.group, e.warp, e.site);
            if same && last.version == 0 && new.version == 0 {
                old.mask |= e.mask;
                return;
            }
        }
        for at in (list.len().saturating_sub(NEAR)..list.len()).rev() {
            let old = &mut list[at].entry;
            if (old.group, old.warp) == (new.entry.group, new.entry.warp) {
                old.mask &= !new.entry.mask;
                if old.mask == 0 {
                    list.remove(at);
                }
            }
        }
        list.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time: u64, group: u64, lane: usize) -> Entry {
        Entry { time, group, warp: lane / 32, mask: 1 << (lane % 32), site: 300 }
    }

    #[test]
    fn entries_come_back_as_they_were() {
        for time in [1, u64::from(u32::MAX), (1 << 42) - 1] {
            let e = Entry { time, group: u64::from(u32::MAX), warp: 31, mask: 1 << 31, site: 0xffff };
            assert_eq!(unpack(pack(&e)), e);
        }
    }

    #[test]
    fn every_access_is_remembered_until_all_later_ones_are_ordered_after_it() {
        let mut trace = Trace::new(4, Room { writes: true, reads: true, looks: true, updates: true });
        for group in 0..3 {
            (0..64).for_each(|lane| trace.read(1, &entry(5, group, lane), false));
            trace.read(1, &entry(7, group, 40), false);
        }
        let readers: u32 = trace.reads(1).map(|e| e.mask.count_ones()).sum();
        assert_eq!(readers, 3 * 64);
        assert_eq!(trace.reads(1).filter(|e| e.time == 7).count(), 3);
        assert_eq!(trace.reads(0).count() + trace.reads(2).count(), 0);
        trace.write(1, &entry(9, 0, 0), false, 6);
        assert_eq!(trace.reads(1).map(|e| e.time).collect::<Vec<_>>(), [7, 7, 7], "later accesses may race with these");
        trace.write(1, &entry(9, 0, 0), true, 8);
        assert!(trace.reads(1).count() == 0 && trace.writes(1).eq([entry(9, 0, 0)]) && trace.replaced(1).count() == 0);
        trace.write_too(1, &entry(9, 1, 0));
        assert_eq!(trace.writes(1).count(), 2);
        trace.write(1, &entry(10, 0, 0), false, 8);
        assert!(trace.replaced(1).count() == 2 && trace.writes(1).eq([entry(10, 0, 0)]));
        trace.read(2, &entry(1, 0, 0), false);
        trace.read(2, &entry(1, 5, 0), false);
        assert_eq!(trace.reads(2).count(), 2, "a list that was used before");
        trace.clear(1);
        assert!((0..4).all(|cell| trace.is_unwritten(cell) && trace.reads(cell).count() == 0));
    }
}
