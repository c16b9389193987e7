//! Which parts of the keeper's memory arrays have. Memory is taken from the keeper in large arenas, each of which a worker
//! maps once; the parts are given out here, in the program, without a word to anybody.
//!
//! A part that is given back can be given out again at once: all operations on it come one after the other in one stream.

use std::collections::BTreeMap;

use super::super::driver::Address;

/// Parts begin at multiples of it, as the driver's own allocations do.
const ALIGNMENT: u64 = 512;
/// An arena for small parts.
const SHARED: u64 = 32 << 20;
/// Parts at least this large have arenas of their own.
const LARGE: u64 = 8 << 20;
/// Arenas are multiples of it: the pages of the GPU's memory.
const PAGE: u64 = 2 << 20;

/// Address bits of a place within its arena; the bits above are the arena's number, from 2 on. Number 1 is the control page of
/// the segment.
const WITHIN: u32 = 44;

/// The address of an arena's first byte.
pub(crate) fn first(arena: u32) -> Address {
    Address(u64::from(arena) << WITHIN)
}

/// The arena that an address lies in, and how far.
pub(crate) fn split(address: Address) -> (u32, u64) {
    ((address.0 >> WITHIN) as u32, address.0 & ((1 << WITHIN) - 1))
}

/// The number of the control page.
pub(crate) const CONTROL: u32 = 1;

#[derive(Debug, Default)]
pub(crate) struct Arenas {
    arenas: BTreeMap<u32, Arena>,
    next: u32,
}

#[derive(Debug)]
struct Arena {
    bytes: u64,
    /// For parts smaller than [`LARGE`].
    shared: bool,
    /// Lengths by offset.
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl Arena {
    fn take(&mut self, offset: u64, bytes: u64) {
        if let Some(length) = self.free.remove(&offset)
            && length > bytes
        {
            self.free.insert(offset + bytes, length - bytes);
        }
        self.used.insert(offset, bytes);
    }

    /// Joins what lies side by side; returns how much was given.
    fn give(&mut self, offset: u64) -> u64 {
        let Some(given) = self.used.remove(&offset) else { return 0 };
        let mut bytes = given;
        if let Some(next) = self.free.remove(&(offset + bytes)) {
            bytes += next;
        }
        match self.free.range_mut(..offset).next_back() {
            Some((&start, length)) if start + *length == offset => *length += bytes,
            _ => drop(self.free.insert(offset, bytes)),
        }
        given
    }
}

impl Arenas {
    /// A part of what is there; the smallest that fits.
    pub fn allocate(&mut self, bytes: u64) -> Option<Address> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let shared = bytes < LARGE;
        let fits = self.arenas.iter().filter(|(_, arena)| arena.shared == shared);
        let extents = fits.flat_map(|(&number, arena)| arena.free.iter().map(move |(&o, &n)| (n, number, o)));
        let (_, number, offset) = extents.filter(|(length, ..)| *length >= bytes).min()?;
        self.arenas.get_mut(&number)?.take(offset, bytes);
        Some(Address(first(number).0 + offset))
    }

    /// Gives a part back; returns its length.
    pub fn free(&mut self, address: Address) -> u64 {
        let (number, offset) = split(address);
        self.arenas.get_mut(&number).map_or(0, |arena| arena.give(offset))
    }

    /// How large an arena has to be for so many bytes.
    pub fn wanted(bytes: u64) -> u64 {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(bytes);
        match bytes.saturating_add(PAGE - 1) / PAGE * PAGE {
            _ if bytes < LARGE => SHARED,
            // By its size an arena is known for one that small allocations share.
            SHARED => SHARED + PAGE,
            whole => whole,
        }
    }

    /// The number of the next arena.
    pub fn number(&self) -> u32 {
        self.next + CONTROL + 1
    }

    /// Notes that the arena of the next number is there.
    pub fn add(&mut self, bytes: u64) {
        let arena = Arena { bytes, shared: bytes == SHARED, free: BTreeMap::from([(0, bytes)]), used: BTreeMap::new() };
        self.arenas.insert(self.number(), arena);
        self.next += 1;
    }

    /// Takes the arenas out that nothing is in.
    pub fn take_unused(&mut self) -> Vec<u32> {
        let unused: Vec<u32> = self.arenas.iter().filter(|(_, a)| a.used.is_empty()).map(|(&n, _)| n).collect();
        for number in &unused {
            self.arenas.remove(number);
        }
        unused
    }

    /// Bytes that lie free in the arenas.
    pub fn idle(&self) -> u64 {
        self.arenas.values().map(|a| a.bytes - a.used.values().sum::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(arenas: &mut Arenas, bytes: u64) -> Address {
        arenas.allocate(bytes).unwrap_or_else(|| {
            arenas.add(Arenas::wanted(bytes));
            arenas.allocate(bytes).expect("a new arena has room")
        })
    }

    #[test]
    fn parts_never_overlap_and_all_comes_back() {
        let mut arenas = Arenas::default();
        let mut held: Vec<(Address, u64)> = Vec::new();
        let mut state = 12345u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let r = state >> 33;
            if r % 5 < 3 {
                let bytes = 1 + r % if r.is_multiple_of(7) { 40 << 20 } else { 100_000 };
                held.push((grown(&mut arenas, bytes), bytes));
            } else if !held.is_empty() {
                let (address, _) = held.swap_remove(r as usize % held.len());
                arenas.free(address);
            }
            if held.len() > 200 {
                held.drain(..100).for_each(|(address, bytes)| assert!(arenas.free(address) >= bytes));
            }
        }
        held.sort();
        for pair in held.windows(2) {
            assert!(pair[0].0.0 + pair[0].1 <= pair[1].0.0, "{pair:?}");
            assert_eq!(pair[0].0.0 % ALIGNMENT, 0);
        }
        held.iter().for_each(|(address, bytes)| assert!(arenas.free(*address) >= *bytes));
        let all = arenas.arenas.len();
        assert!(arenas.arenas.values().all(|a| a.free == BTreeMap::from([(0, a.bytes)])), "{arenas:?}");
        assert_eq!(arenas.take_unused().len(), all);
        assert_eq!(arenas.idle(), 0);
    }

    #[test]
    fn small_parts_leave_large_arenas_alone() {
        let mut arenas = Arenas::default();
        let large = grown(&mut arenas, 100 << 20);
        arenas.free(large);
        let small = grown(&mut arenas, 100);
        assert_ne!(split(small).0, split(large).0);
        assert_eq!(grown(&mut arenas, 100 << 20), large, "what was given back is used again");
        assert_eq!(split(Address(first(7).0 + 5)), (7, 5));
        assert_eq!(arenas.allocate(u64::MAX), None);
    }
}
