//! Shadow words: 64 bits each for an element's last write, its reads, its atomic updates and its atomic loads.
//!
//! ```text
//! shared:  time:44                    lane:10 kind:2 site:8
//! global:  time:22   group:22         lane:10 kind:2 site:8
//! ```
//!
//! - **Time** counts synchronizations within a block: barriers and warp operations. It never decreases, so a single
//!   comparison identifies the words of earlier blocks and launches, and words need not be cleared.
//! - **Group** is the number of the block (the group of lanes) in its window. If there are more blocks than group bits
//!   can distinguish, they run in consecutive windows
//!   ([`GlobalShadow::next_window`](super::shadow::GlobalShadow::next_window)).
//! - **Lane** is the number of the thread within its group.
//! - **Kind** is the set of threads that a word represents: one thread, or several threads of a warp, a block or the
//!   grid. It is precise enough to decide whether the word represents a thread other than the current one. A word for
//!   writes represents one thread, unless several threads wrote the same value.
//! - **Site** is the number of the access site, which determines the access in the source.

pub(crate) const KIND_SHIFT: u32 = 8;
pub(crate) const LANE_SHIFT: u32 = 10;
pub(crate) const GROUP_SHIFT: u32 = 20;
pub(crate) const GLOBAL_TIME_SHIFT: u32 = 42;
pub(crate) const SHARED_TIME_SHIFT: u32 = 20;

pub(crate) const SITE: u64 = 0xff;
pub(crate) const KIND: u64 = 3 << KIND_SHIFT;
pub(crate) const LANE: u64 = 0x3ff << LANE_SHIFT;
pub(crate) const GROUP: u64 = 0x3f_ffff << GROUP_SHIFT;
/// The bits of the lane in a shadow word that are the same for all lanes of a warp.
pub(crate) const WARP_OF_LANE: u64 = 0x3e0 << LANE_SHIFT;

/// The largest time in shadow words of global memory. When a block reaches it, the block restarts its times
/// ([`Clock::restart_times`](super::clock::Clock::restart_times)).
pub(crate) const LAST_GLOBAL_TIME: u64 = (1 << 22) - 1;

/// Kind of a word that represents one thread.
pub(crate) const ONE: u64 = 0;
/// Kind of a word that represents several threads of one warp.
pub(crate) const WARP: u64 = 1;
/// Kind of a word that represents threads of several warps of one block.
pub(crate) const BLOCK: u64 = 2;
/// Kind of a word that represents threads of several blocks.
pub(crate) const GRID: u64 = 3;

pub(crate) fn site(word: u64) -> usize {
    (word & SITE) as usize
}

pub(crate) fn lane(word: u64) -> usize {
    ((word & LANE) >> LANE_SHIFT) as usize
}

/// Number of blocks that shadow words can distinguish.
pub(crate) const WINDOW: u64 = 1 << 22;

/// Returns the group in a shadow word of global memory.
pub(crate) fn group(word: u64) -> u64 {
    (word & GROUP) >> GROUP_SHIFT
}
