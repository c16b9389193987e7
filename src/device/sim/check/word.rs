//! What the checker remembers of an element: one 64-bit word for its last write, one for its reads, one for its atomics.
//!
//! ```text
//!  shared:  time:44                    lane:10 kind:2 site:8
//!  global:  time:22   group:22         lane:10 kind:2 site:8
//! ```
//! **Time** counts what orders threads, within a block: barriers, warp operations. It never runs backwards, so that words of
//! earlier blocks, epochs and launches are told by one comparison, and nothing has to be cleared. **Lane** is the thread
//! within its group. **Kind** says how many threads a word of reads or atomics stands for: it is exact in that it
//! tells for every thread whether another one is among them; of writes it is one, unless several wrote the same. **Site** is the
//! access in the source. Blocks that are told apart by more bits run one window after another: when one ends, all words become ones of
//! several blocks ([`Globals::next_window`](super::shadow::Globals::next_window)).

pub(crate) const KIND_SHIFT: u32 = 8;
pub(crate) const LANE_SHIFT: u32 = 10;
pub(crate) const GROUP_SHIFT: u32 = 20;
pub(crate) const GLOBAL_TIME_SHIFT: u32 = 42;
pub(crate) const SHARED_TIME_SHIFT: u32 = 20;

pub(crate) const SITE: u64 = 0xff;
pub(crate) const KIND: u64 = 3 << KIND_SHIFT;
pub(crate) const LANE: u64 = 0x3ff << LANE_SHIFT;
pub(crate) const GROUP: u64 = 0x3f_ffff << GROUP_SHIFT;
/// The lanes of a warp agree in these bits of the lane.
pub(crate) const WARP_OF_LANE: u64 = 0x3e0 << LANE_SHIFT;

/// The largest time of global memory; from there on a block begins anew ([`Clock::renew`](super::clock::Clock::renew)).
pub(crate) const LAST_GLOBAL_TIME: u64 = (1 << 22) - 1;

/// Kinds.
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

/// Blocks that words tell apart.
pub(crate) const WINDOW: u64 = 1 << 22;

/// Of a word of global memory.
pub(crate) fn group(word: u64) -> u64 {
    (word & GROUP) >> GROUP_SHIFT
}
