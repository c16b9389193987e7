//! Traces: for each element, every access that a later access may conflict with, for the exact check.
//!
//! A [shadow word](super::shadow_word) records only one thread for several, and has few bits for time and site. An
//! entry of a trace lists each thread of a warp, with more bits for time and site, and an element may have a list of
//! entries. A write does not replace the accesses that are ordered before it: a later write may race with both, and
//! only the race with the write may be harmless. `docs/internals/race-checks.md` shows which accesses suffice.

use clk_base::alloc;
use clk_scalar::{Scalar, ScalarValue};

/// An entry of a trace: the threads of a warp that accessed an element at one logical time, from one location in the
/// source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarpAccess {
    pub time: u64,
    pub group: u64,
    pub warp: usize,
    /// The lanes of the warp, as a bit mask.
    pub mask: u32,
    /// The index of the access site among the sites of its memory.
    pub site: u32,
}

impl WarpAccess {
    /// Returns the first lane of `mask`, as a lane number in the block.
    pub fn first_lane(&self, mask: u32) -> usize {
        self.warp * 32 + mask.trailing_zeros() as usize
    }
}

/// An entry in 16 bytes. All bytes are zero if there is no entry. If [`LIST_FLAG`] is set, it contains the index of a
/// list of entries instead.
type TraceWord = [u32; 4];

const LIST_FLAG: u32 = 1 << 31;
const MAX_SITE: u32 = 0xffff;
const WARP_SHIFT: u32 = 16;
const TIME_SHIFT: u32 = 21;

fn pack(e: &WarpAccess) -> TraceWord {
    let high = (e.time >> 32) as u32;
    [e.time as u32, e.group as u32, e.mask, e.site.min(MAX_SITE) | (e.warp as u32) << WARP_SHIFT | high << TIME_SHIFT]
}

fn unpack([time, group, mask, rest]: TraceWord) -> WarpAccess {
    WarpAccess {
        time: u64::from(time) | u64::from(rest >> TIME_SHIFT & 0x3ff) << 32,
        group: group.into(),
        warp: (rest >> WARP_SHIFT & 31) as usize,
        mask,
        site: rest & MAX_SITE,
    }
}

/// A recorded atomic operation, and the version of its synchronization variable that it created. The version is 0 if
/// the operation released nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicRecord {
    pub entry: WarpAccess,
    pub variable: u64,
    pub version: u64,
}

/// The entries of all elements for one access kind.
#[derive(Default)]
struct Plane {
    words: Vec<TraceWord>,
    lists: Vec<Vec<TraceWord>>,
    free: Vec<u32>,
}

impl Plane {
    fn words(&self, cell: usize) -> &[TraceWord] {
        match self.words.get(cell) {
            Some(word) if word[3] & LIST_FLAG != 0 => &self.lists[word[1] as usize],
            Some(word) if word[2] != 0 => std::slice::from_ref(word),
            _ => &[],
        }
    }

    fn set(&mut self, cell: usize, word: TraceWord) {
        let Some(old) = self.words.get_mut(cell) else { return };
        if old[3] & LIST_FLAG != 0 {
            self.lists[old[1] as usize].clear();
            self.free.push(old[1]);
        }
        *old = word;
    }

    /// Returns the entries of an element as a list, to which entries can be added.
    fn list(&mut self, cell: usize) -> &mut Vec<TraceWord> {
        let old = self.words[cell];
        if old[3] & LIST_FLAG == 0 {
            let number = self.free.pop().unwrap_or(self.lists.len() as u32);
            if number as usize == self.lists.len() {
                self.lists.push(vec![]);
            }
            self.lists[number as usize].extend((old[2] != 0).then_some(old));
            self.words[cell] = [0, number, !0, LIST_FLAG];
        }
        &mut self.lists[self.words[cell][1] as usize]
    }

    /// Adds an entry to an element. Searches the end of the list for an entry of the same warp, because the entries of
    /// the running block are usually there.
    fn add(&mut self, cell: usize, entry: &WarpAccess) {
        let new = pack(entry);
        if self.words(cell).is_empty() {
            return self.set(cell, new);
        }
        let list = self.list(cell);
        let near = list.len().saturating_sub(SEARCHED_ENTRIES);
        for word in &mut list[near..] {
            let old = unpack(*word);
            if (old.group, old.warp) != (entry.group, entry.warp) {
                continue;
            }
            if (old.time, old.site) == (entry.time, entry.site) {
                word[2] |= entry.mask;
                return;
            }
            // A later access of a thread replaces its earlier ones.
            word[2] &= !entry.mask;
            if word[2] == 0 {
                *word = new;
                return;
            }
        }
        list.push(new);
    }

    /// Adds an entry to an element. If `all` is true, it replaces all other entries.
    fn record(&mut self, cell: usize, entry: &WarpAccess, all: bool) {
        if cell >= self.words.len() {
        } else if all {
            self.set(cell, pack(entry));
        } else {
            self.add(cell, entry);
        }
    }

    /// Removes the entries of an element for which `relevant` is false.
    fn retain(&mut self, cell: usize, relevant: impl Fn(&WarpAccess) -> bool) {
        let Some(&word) = self.words.get(cell) else { return };
        if word[3] & LIST_FLAG == 0 {
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

    /// Moves the entries of an element from another plane to this one.
    fn move_from(&mut self, other: &mut Plane, cell: usize) {
        if self.words.is_empty() {
            self.words = alloc::zeros(other.words.len());
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

/// Number of entries at the end of a list that are searched for an entry of the same warp.
const SEARCHED_ENTRIES: usize = 64;

/// The access kinds that have to be recorded, because later accesses can conflict with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedKinds {
    pub writes: bool,
    pub reads: bool,
    pub atomic_loads: bool,
    pub updates: bool,
}

/// The trace of a memory: its recorded accesses.
#[derive(Default)]
pub(crate) struct Trace {
    /// For each element, the writes of its last value. If two of them are not ordered, the race is harmless, because
    /// they write the same value.
    writes: Plane,
    /// For each element, the writes of its previous value. All of them are ordered before a write of the last value.
    replaced: Plane,
    reads: Plane,
    /// For each element, the atomic loads.
    atomic_loads: Plane,
    /// For each element, 1 plus the index of its list of atomic operations in `lists`; 0 if there is none.
    updates: Vec<u32>,
    lists: Vec<Vec<AtomicRecord>>,
    /// The values that the writes in `writes` have stored; and those that the writes in `replaced` have stored
    /// (`replaced_values`). Atomic operations do not change these values.
    pub stored: StoredValues,
    pub replaced_values: StoredValues,
    pub len: usize,
    /// For a shared array, the block to which the trace belongs.
    pub group: Option<u64>,
}

/// The values that plain writes have stored in a memory.
#[derive(Default)]
pub(crate) struct StoredValues(Vec<u8>);

impl StoredValues {
    /// Returns the value at a byte offset.
    pub fn get(&self, at: usize, scalar: Scalar) -> Option<ScalarValue> {
        Some(ScalarValue::from_bytes(scalar, self.0.get(at..at + scalar.size())?))
    }

    pub fn set(&mut self, at: usize, value: ScalarValue) {
        let size = value.ty.size();
        if self.0.len() < at + size {
            self.0.resize(at + size, 0);
        }
        self.0[at..at + size].copy_from_slice(&value.to_bytes()[..size]);
    }
}

impl Trace {
    /// Creates the trace of a memory with `len` elements.
    pub fn new(len: usize, kinds: RecordedKinds) -> Trace {
        let plane =
            |is_needed: bool| Plane { words: alloc::zeros(if is_needed { len } else { 0 }), ..Plane::default() };
        let (writes, reads, looks) = (plane(kinds.writes), plane(kinds.reads), plane(kinds.atomic_loads));
        let updates = alloc::zeros(if kinds.updates { len } else { 0 });
        Trace { writes, reads, atomic_loads: looks, updates, len, ..Trace::default() }
    }

    /// Clears the trace for the shared memory of the next block.
    pub fn clear(&mut self, group: u64) {
        self.group = Some(group);
        self.writes.clear();
        self.replaced.clear();
        self.reads.clear();
        self.atomic_loads.clear();
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

    pub fn writes(&self, cell: usize) -> impl Iterator<Item = WarpAccess> + '_ {
        self.writes.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn replaced(&self, cell: usize) -> impl Iterator<Item = WarpAccess> + '_ {
        self.replaced.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn reads(&self, cell: usize) -> impl Iterator<Item = WarpAccess> + '_ {
        self.reads.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn atomic_loads(&self, cell: usize) -> impl Iterator<Item = WarpAccess> + '_ {
        self.atomic_loads.words(cell).iter().map(|&word| unpack(word))
    }

    pub fn updates(&self, cell: usize) -> &[AtomicRecord] {
        match self.updates.get(cell) {
            Some(&list) if list > 0 => &self.lists[list as usize - 1],
            _ => &[],
        }
    }

    /// Records a read. If `all` is true, all earlier reads are ordered before it, and it replaces them.
    pub fn record_read(&mut self, cell: usize, entry: &WarpAccess, all: bool) {
        self.reads.record(cell, entry, all);
    }

    /// Like [`Trace::record_read`], for an atomic load.
    pub fn record_atomic_load(&mut self, cell: usize, entry: &WarpAccess, all: bool) {
        self.atomic_loads.record(cell, entry, all);
    }

    /// Records a write; all earlier accesses to the element are ordered before it. If `same` is true, it stores the
    /// element's last value again, and replaces the other writes of that value. Accesses before time `base` are
    /// dropped, because they are ordered before all later accesses.
    pub fn record_write(&mut self, cell: usize, entry: &WarpAccess, same: bool, base: u64) {
        if !same && !self.writes.words(cell).is_empty() {
            self.replaced.move_from(&mut self.writes, cell);
        }
        self.writes.set(cell, pack(entry));
        let relevant = |entry: &WarpAccess| entry.time >= base;
        self.reads.retain(cell, relevant);
        self.atomic_loads.retain(cell, relevant);
        if let Some(list) = self.updates.get(cell)
            && *list > 0
        {
            self.lists[*list as usize - 1].retain(|update| relevant(&update.entry));
        }
    }

    /// Records the value that a write has stored at a byte offset. The old last value becomes the previous value.
    pub fn store_value(&mut self, at: usize, value: Option<ScalarValue>) {
        let Some(value) = value else { return };
        if let Some(last) = self.stored.get(at, value.ty) {
            self.replaced_values.set(at, last);
        }
        self.stored.set(at, value);
    }

    /// Records another write of the element's last value, and keeps the other writes of that value.
    pub fn record_equal_write(&mut self, cell: usize, entry: &WarpAccess) {
        self.writes.add(cell, entry);
    }

    /// Records that the element was initialized by an access that is ordered before all others.
    pub fn initialize(&mut self, cell: usize) {
        self.writes.set(cell, pack(&WarpAccess { time: 0, group: 0, warp: 0, mask: 1, site: 0 }));
    }

    /// Records an atomic operation. It replaces the recorded operations for which `behind` is true, and earlier
    /// operations of the same thread.
    pub fn record_update(&mut self, cell: usize, new: AtomicRecord, behind: impl Fn(&AtomicRecord) -> bool) {
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
        for at in (list.len().saturating_sub(SEARCHED_ENTRIES)..list.len()).rev() {
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

    fn entry(time: u64, group: u64, lane: usize) -> WarpAccess {
        WarpAccess { time, group, warp: lane / 32, mask: 1 << (lane % 32), site: 300 }
    }

    #[test]
    fn entries_pack_and_unpack() {
        for time in [1, u64::from(u32::MAX), (1 << 42) - 1] {
            let e = WarpAccess { time, group: u64::from(u32::MAX), warp: 31, mask: 1 << 31, site: 0xffff };
            assert_eq!(unpack(pack(&e)), e);
        }
    }

    #[test]
    fn accesses_are_kept_until_ordered_before_all_later_ones() {
        let mut trace = Trace::new(4, RecordedKinds { writes: true, reads: true, atomic_loads: true, updates: true });
        for group in 0..3 {
            (0..64).for_each(|lane| trace.record_read(1, &entry(5, group, lane), false));
            trace.record_read(1, &entry(7, group, 40), false);
        }
        let readers: u32 = trace.reads(1).map(|e| e.mask.count_ones()).sum();
        assert_eq!(readers, 3 * 64);
        assert_eq!(trace.reads(1).filter(|e| e.time == 7).count(), 3);
        assert_eq!(trace.reads(0).count() + trace.reads(2).count(), 0);
        trace.record_write(1, &entry(9, 0, 0), false, 6);
        assert_eq!(trace.reads(1).map(|e| e.time).collect::<Vec<_>>(), [7, 7, 7], "later accesses may race with these");
        trace.record_write(1, &entry(9, 0, 0), true, 8);
        assert!(trace.reads(1).count() == 0 && trace.writes(1).eq([entry(9, 0, 0)]) && trace.replaced(1).count() == 0);
        trace.record_equal_write(1, &entry(9, 1, 0));
        assert_eq!(trace.writes(1).count(), 2);
        trace.record_write(1, &entry(10, 0, 0), false, 8);
        assert!(trace.replaced(1).count() == 2 && trace.writes(1).eq([entry(10, 0, 0)]));
        trace.record_read(2, &entry(1, 0, 0), false);
        trace.record_read(2, &entry(1, 5, 0), false);
        assert_eq!(trace.reads(2).count(), 2, "a list that was used before");
        trace.clear(1);
        assert!((0..4).all(|cell| trace.is_unwritten(cell) && trace.reads(cell).count() == 0));
    }
}
