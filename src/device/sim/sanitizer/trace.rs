//! The exact checker's record of an element: every access that is not ordered before another recorded one.
//!
//! The words of [`word`](super::word) have one thread where there were several, and short counters. Here an entry lists the
//! threads of a warp individually, with an unbounded time and site, and elements with more than one entry have a list.

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
    writes: Plane,
    reads: Plane,
    /// Atomic loads.
    looks: Plane,
    /// By element, the number of a list plus one.
    updates: Vec<u32>,
    lists: Vec<Vec<Update>>,
    pub len: usize,
    /// The block that the shared array belongs to.
    pub group: Option<u64>,
}

impl Trace {
    /// Creates the trace of this many elements.
    pub fn new(len: usize, room: Room) -> Trace {
        let plane = |wanted: bool| Plane { words: vec![[0; 4]; if wanted { len } else { 0 }], ..Plane::default() };
        let (writes, reads, looks) = (plane(room.writes), plane(room.reads), plane(room.looks));
        let updates = vec![0; if room.updates { len } else { 0 }];
        Trace { writes, reads, looks, updates, len, ..Trace::default() }
    }

    /// Clears the trace for the next block's shared memory.
    pub fn clear(&mut self, group: u64) {
        self.group = Some(group);
        self.writes.clear();
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

    /// Records a write that everything before is ordered before, so that it subsumes all.
    pub fn write(&mut self, cell: usize, entry: &Entry) {
        self.writes.set(cell, pack(entry));
        self.reads.set(cell, [0; 4]);
        self.looks.set(cell, [0; 4]);
        if let Some(list) = self.updates.get(cell)
            && *list > 0
        {
            self.lists[*list as usize - 1].clear();
        }
    }

    /// Records a write beside others.
    pub fn write_too(&mut self, cell: usize, entry: &Entry) {
        self.writes.add(cell, entry);
    }

    /// Records that the element was initialized by an access that is ordered before everything else.
    pub fn begin(&mut self, cell: usize) {
        self.writes.set(cell, pack(&Entry { time: 0, group: 0, warp: 0, mask: 1, site: 0 }));
    }

    /// Records an atomic operation; it subsumes those for which `behind` is true.
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
    fn every_reader_is_remembered_until_a_write_stands_for_all() {
        let mut trace = Trace::new(4, Room { writes: true, reads: true, looks: true, updates: true });
        for group in 0..3 {
            (0..64).for_each(|lane| trace.read(1, &entry(5, group, lane), false));
            trace.read(1, &entry(7, group, 40), false);
        }
        let readers: u32 = trace.reads(1).map(|e| e.mask.count_ones()).sum();
        assert_eq!(readers, 3 * 64);
        assert_eq!(trace.reads(1).filter(|e| e.time == 7).count(), 3);
        assert_eq!(trace.reads(0).count() + trace.reads(2).count(), 0);
        trace.write(1, &entry(9, 0, 0));
        assert!(trace.reads(1).count() == 0 && trace.writes(1).eq([entry(9, 0, 0)]));
        trace.write_too(1, &entry(9, 1, 0));
        assert_eq!(trace.writes(1).count(), 2);
        trace.read(2, &entry(1, 0, 0), false);
        trace.read(2, &entry(1, 5, 0), false);
        assert_eq!(trace.reads(2).count(), 2, "a list that was used before");
        trace.clear(1);
        assert!((0..4).all(|cell| trace.is_unwritten(cell) && trace.reads(cell).count() == 0));
    }
}
