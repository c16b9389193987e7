//! Suballocation of GPU memory owned by the keeper process. Memory is allocated by the keeper in large arenas, each of which a
//! worker maps once; allocations within them are managed here, in the program, without communication.
//!
//! A freed allocation can be reused at once: all operations on it are ordered by one stream.

use std::collections::BTreeMap;

use super::super::driver::Address;

/// The alignment of allocations, as that of the driver's own.
const ALIGNMENT: u64 = 512;
/// The size of an arena for small allocations.
const SHARED: u64 = 32 << 20;
/// Allocations of at least this size have arenas of their own.
const LARGE: u64 = 8 << 20;
/// The size of arenas is a multiple of this: the page size of GPU memory.
const PAGE: u64 = 2 << 20;

/// Number of address bits for the offset within an arena; the bits above are the arena's number, from 2 on. Number 1 is the
/// control page of the segment.
const WITHIN: u32 = 44;

/// Returns the address of an arena's first byte.
pub(crate) fn first(arena: u32) -> Address {
    Address(u64::from(arena) << WITHIN)
}

/// Returns the arena of an address, and the offset in it.
pub(crate) fn split(address: Address) -> (u32, u64) {
    ((address.0 >> WITHIN) as u32, address.0 & ((1 << WITHIN) - 1))
}

/// The arena number of the control page.
pub(crate) const CONTROL: u32 = 1;

#[derive(Debug, Default)]
pub(crate) struct Arenas {
    arenas: BTreeMap<u32, Arena>,
    next: u32,
}

#[derive(Debug)]
struct Arena {
    bytes: u64,
    /// For allocations smaller than [`LARGE`].
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

    /// Frees an allocation and merges adjacent free ranges; returns its length.
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
    /// Allocates from existing arenas, best fit.
    pub fn allocate(&mut self, bytes: u64) -> Option<Address> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let shared = bytes < LARGE;
        let fits = self.arenas.iter().filter(|(_, arena)| arena.shared == shared);
        let extents = fits.flat_map(|(&number, arena)| arena.free.iter().map(move |(&o, &n)| (n, number, o)));
        let (_, number, offset) = extents.filter(|(length, ..)| *length >= bytes).min()?;
        self.arenas.get_mut(&number)?.take(offset, bytes);
        Some(Address(first(number).0 + offset))
    }

    /// Frees an allocation; returns its length.
    pub fn free(&mut self, address: Address) -> u64 {
        let (number, offset) = split(address);
        self.arenas.get_mut(&number).map_or(0, |arena| arena.give(offset))
    }

    /// Returns the size of a new arena for an allocation of this many bytes.
    pub fn wanted(bytes: u64) -> u64 {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(bytes);
        match bytes.saturating_add(PAGE - 1) / PAGE * PAGE {
            _ if bytes < LARGE => SHARED,
            // The size distinguishes arenas for small allocations, so a dedicated arena must not have it.
            SHARED => SHARED + PAGE,
            whole => whole,
        }
    }

    /// Returns the number of the next arena.
    pub fn number(&self) -> u32 {
        self.next + CONTROL + 1
    }

    /// Adds the arena with the next number.
    pub fn add(&mut self, bytes: u64) {
        let arena = Arena { bytes, shared: bytes == SHARED, free: BTreeMap::from([(0, bytes)]), used: BTreeMap::new() };
        self.arenas.insert(self.number(), arena);
        self.next += 1;
    }

    /// Removes and returns the arenas without allocations.
    pub fn take_unused(&mut self) -> Vec<u32> {
        let unused: Vec<u32> = self.arenas.iter().filter(|(_, a)| a.used.is_empty()).map(|(&n, _)| n).collect();
        for number in &unused {
            self.arenas.remove(number);
        }
        unused
    }

    /// Returns the number of free bytes in the arenas.
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
