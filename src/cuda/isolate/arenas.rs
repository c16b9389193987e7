//! Suballocation of GPU memory. The memory owner process allocates large arenas, and the worker maps each arena once.
//! The program manages allocations in arenas without communication. A freed allocation can be reused immediately,
//! because one stream orders all operations on GPU memory.

use std::collections::BTreeMap;

use super::super::driver::DevicePtr;

/// The alignment of allocations in bytes, which is the same as the driver's.
const ALIGNMENT: u64 = 512;
/// Size in bytes of an arena for small allocations.
const SHARED: u64 = 32 << 20;
/// Allocations of at least this many bytes have their own arena.
const LARGE: u64 = 8 << 20;
/// The page size of GPU memory in bytes. Arena sizes are multiples of it.
const PAGE: u64 = 2 << 20;

/// Number of address bits for the offset within an arena. The higher bits are the arena's number. Arenas have numbers
/// from 2 on; number 1 is the control page of the shared memory segment.
const WITHIN: u32 = 44;

/// Returns the address of an arena's first byte.
pub(crate) fn first(arena: u32) -> DevicePtr {
    DevicePtr(u64::from(arena) << WITHIN)
}

/// Returns the number of the arena that contains an address, and the address's offset in the arena.
pub(crate) fn split(address: DevicePtr) -> (u32, u64) {
    ((address.0 >> WITHIN) as u32, address.0 & ((1 << WITHIN) - 1))
}

/// The arena number of the control page.
pub(crate) const CONTROL: u32 = 1;

#[derive(Debug, Default)]
pub(crate) struct Arenas {
    arenas: BTreeMap<u32, MemoryArena>,
    next: u32,
}

#[derive(Debug)]
struct MemoryArena {
    bytes: u64,
    /// Whether the arena is for allocations smaller than [`LARGE`].
    shared: bool,
    /// The free ranges: maps the offset of each range to its length.
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl MemoryArena {
    fn allocate_at(&mut self, offset: u64, bytes: u64) {
        if let Some(length) = self.free.remove(&offset)
            && length > bytes
        {
            self.free.insert(offset + bytes, length - bytes);
        }
        self.used.insert(offset, bytes);
    }

    /// Frees an allocation and merges adjacent free ranges. Returns the allocation's length.
    fn release(&mut self, offset: u64) -> u64 {
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
    /// Allocates from existing arenas, in the smallest free range that is large enough (best fit).
    pub fn allocate(&mut self, bytes: u64) -> Option<DevicePtr> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let shared = bytes < LARGE;
        let candidates = self.arenas.iter().filter(|(_, arena)| arena.shared == shared);
        let extents = candidates.flat_map(|(&number, arena)| arena.free.iter().map(move |(&o, &n)| (n, number, o)));
        let (_, number, offset) = extents.filter(|(length, ..)| *length >= bytes).min()?;
        self.arenas.get_mut(&number)?.allocate_at(offset, bytes);
        Some(DevicePtr(first(number).0 + offset))
    }

    /// Frees an allocation. Returns its length.
    pub fn free(&mut self, address: DevicePtr) -> u64 {
        let (number, offset) = split(address);
        self.arenas.get_mut(&number).map_or(0, |arena| arena.release(offset))
    }

    /// Returns the size in bytes of a new arena for an allocation of this many bytes.
    pub fn arena_size_for(bytes: u64) -> u64 {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(bytes);
        match bytes.saturating_add(PAGE - 1) / PAGE * PAGE {
            _ if bytes < LARGE => SHARED,
            // An arena of size `SHARED` is taken to be for small allocations, so the arena of a large allocation must
            // have a different size.
            SHARED => SHARED + PAGE,
            whole => whole,
        }
    }

    /// Returns the number that the next arena will have.
    pub fn number(&self) -> u32 {
        self.next + CONTROL + 1
    }

    /// Adds the arena with the next number.
    pub fn add(&mut self, bytes: u64) {
        let arena =
            MemoryArena { bytes, shared: bytes == SHARED, free: BTreeMap::from([(0, bytes)]), used: BTreeMap::new() };
        self.arenas.insert(self.number(), arena);
        self.next += 1;
    }

    /// Removes the arenas without allocations, and returns their numbers.
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

    fn grown(arenas: &mut Arenas, bytes: u64) -> DevicePtr {
        arenas.allocate(bytes).unwrap_or_else(|| {
            arenas.add(Arenas::arena_size_for(bytes));
            arenas.allocate(bytes).expect("a new arena has room")
        })
    }

    #[test]
    fn allocations_never_overlap_and_are_all_freed() {
        let mut arenas = Arenas::default();
        let mut allocations: Vec<(DevicePtr, u64)> = Vec::new();
        let mut state = 12345u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let r = state >> 33;
            if r % 5 < 3 {
                let bytes = 1 + r % if r.is_multiple_of(7) { 40 << 20 } else { 100_000 };
                allocations.push((grown(&mut arenas, bytes), bytes));
            } else if !allocations.is_empty() {
                let (address, _) = allocations.swap_remove(r as usize % allocations.len());
                arenas.free(address);
            }
            if allocations.len() > 200 {
                allocations.drain(..100).for_each(|(address, bytes)| assert!(arenas.free(address) >= bytes));
            }
        }
        allocations.sort();
        for pair in allocations.windows(2) {
            assert!(pair[0].0.0 + pair[0].1 <= pair[1].0.0, "{pair:?}");
            assert_eq!(pair[0].0.0 % ALIGNMENT, 0);
        }
        allocations.iter().for_each(|(address, bytes)| assert!(arenas.free(*address) >= *bytes));
        let all = arenas.arenas.len();
        assert!(arenas.arenas.values().all(|a| a.free == BTreeMap::from([(0, a.bytes)])), "{arenas:?}");
        assert_eq!(arenas.take_unused().len(), all);
        assert_eq!(arenas.idle(), 0);
    }

    #[test]
    fn small_allocations_avoid_large_arenas() {
        let mut arenas = Arenas::default();
        let large = grown(&mut arenas, 100 << 20);
        arenas.free(large);
        let small = grown(&mut arenas, 100);
        assert_ne!(split(small).0, split(large).0);
        assert_eq!(grown(&mut arenas, 100 << 20), large, "what was given back is used again");
        assert_eq!(split(DevicePtr(first(7).0 + 5)), (7, 5));
        assert_eq!(arenas.allocate(u64::MAX), None);
    }
}
