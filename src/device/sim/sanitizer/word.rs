//! The shadow words of an element: 64 bits each for its last write, its reads and its atomics.
//!
//! ```text
//!  shared:  time:44                    lane:10 kind:2 site:8
//!  global:  time:22   group:22         lane:10 kind:2 site:8
//! ```
//! **Time** counts synchronizations within a block: barriers, warp operations. It never decreases, so that one comparison
//! identifies words of earlier blocks, epochs and launches, and nothing has to be cleared. **Lane** is the thread within its
//! group. **Kind** says which set of threads a word of reads or atomics stands for: precisely enough to decide for every thread
//! whether another one is among them; for writes it is one thread, unless several wrote the same value. **Site** is the access in
//! the source. More blocks than the group bits can distinguish run in consecutive windows: at the end of one, all words become
//! words of several blocks ([`Globals::next_window`](super::shadow::Globals::next_window)).

pub(crate) const KIND_SHIFT: u32 = 8;
pub(crate) const LANE_SHIFT: u32 = 10;
pub(crate) const GROUP_SHIFT: u32 = 20;
pub(crate) const GLOBAL_TIME_SHIFT: u32 = 42;
pub(crate) const SHARED_TIME_SHIFT: u32 = 20;

pub(crate) const SITE: u64 = 0xff;
pub(crate) const KIND: u64 = 3 << KIND_SHIFT;
pub(crate) const LANE: u64 = 0x3ff << LANE_SHIFT;
pub(crate) const GROUP: u64 = 0x3f_ffff << GROUP_SHIFT;
/// The bits of the lane that are the same for all lanes of a warp.
pub(crate) const WARP_OF_LANE: u64 = 0x3e0 << LANE_SHIFT;

/// The largest time of global memory; there a block restarts its times ([`Clock::renew`](super::clock::Clock::renew)).
pub(crate) const LAST_GLOBAL_TIME: u64 = (1 << 22) - 1;

/// Kind: one thread.
pub(crate) const ONE: u64 = 0;
/// Several threads of one warp.
pub(crate) const WARP: u64 = 1;
/// Several warps of one block.
pub(crate) const BLOCK: u64 = 2;
/// Several blocks.
pub(crate) const GRID: u64 = 3;

pub(crate) fn site(word: u64) -> usize {
    (word & SITE) as usize
}

pub(crate) fn lane(word: u64) -> usize {
    ((word & LANE) >> LANE_SHIFT) as usize
}

/// The number of blocks that words distinguish.
pub(crate) const WINDOW: u64 = 1 << 22;

/// Returns the group of a word of global memory.
pub(crate) fn group(word: u64) -> u64 {
    (word & GROUP) >> GROUP_SHIFT
}
