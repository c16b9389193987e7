//! The time of a block: what orders its threads makes it go on.

use super::rows::Now;
use super::word::*;

/// Warps of a group, at most.
const WARPS: usize = 32;

pub struct Clock {
    pub time: u64,
    shift: u32,
    last: u64,
    /// The group's bits of words, 0 for shared memory.
    group: u64,
    /// Which bits tell groups apart.
    group_mask: u64,
    pub born: u64,
    base: u64,
    block_base: u64,
    warp_bases: [u64; WARPS],
}

impl Clock {
    pub fn of_shared() -> Clock {
        Clock {
            time: 1,
            shift: SHARED_TIME_SHIFT,
            last: u64::MAX >> SHARED_TIME_SHIFT,
            group: 0,
            group_mask: 0,
            born: 0,
            base: 0,
            block_base: 0,
            warp_bases: [0; WARPS],
        }
    }

    /// Of global memory, from a launch's first time on.
    pub fn of_global(start: u64) -> Clock {
        let (shift, at) = (GLOBAL_TIME_SHIFT, start << GLOBAL_TIME_SHIFT);
        let next = (start + 1) << shift;
        Clock {
            time: start + 1,
            shift,
            last: LAST_GLOBAL_TIME,
            group: 0,
            group_mask: GROUP,
            born: at,
            base: next,
            block_base: next,
            warp_bases: [0; WARPS],
        }
    }

    /// A block begins whose shared memory nobody has written. What was written at `born` itself counts as ordered before all.
    pub fn begin_shared(&mut self) {
        self.tick();
        self.born = self.time << self.shift;
        self.tick();
        (self.base, self.block_base) = (self.time << self.shift, self.time << self.shift);
        self.warp_bases = [0; WARPS];
    }

    /// Block `group` begins. Its times are compared with its own only, so that they may begin anew.
    pub fn begin_global(&mut self, group: u64, start: u64) {
        self.group = (group << GROUP_SHIFT) & GROUP;
        self.time = start + 1;
        self.block_base = self.base;
        self.warp_bases = [0; WARPS];
    }

    /// Later than all so far.
    pub fn tick(&mut self) {
        self.time = (self.time + 1).min(self.last);
    }

    /// All threads of the block have met.
    pub fn block_met(&mut self) {
        self.tick();
        self.block_base = self.time << self.shift;
        if self.group_mask == 0 {
            self.base = self.block_base;
        }
    }

    pub fn warp_met(&mut self, warp: usize) {
        self.warp_bases[warp % WARPS] = self.time << self.shift;
    }

    /// All threads of the grid have met, at this time.
    pub fn grid_met(&mut self, time: u64) {
        self.time = time.min(self.last);
        (self.base, self.block_base) = (self.time << self.shift, self.time << self.shift);
    }

    pub fn now(&self, site: u8, listing: bool) -> Now {
        Now {
            own: self.time << self.shift | self.group | u64::from(site),
            base: self.base,
            block_base: self.block_base,
            born: self.born,
            thread: LANE | self.group_mask,
            warp: WARP_OF_LANE | self.group_mask,
            group: self.group_mask,
            warp_bases: self.warp_bases.as_ptr(),
            listing,
            modest: false,
        }
    }

    /// The bases of the block and of a warp, as times.
    pub fn bases(&self, lane: usize) -> (u64, u64) {
        (self.block_base >> self.shift, self.warp_bases[lane / 32 % WARPS] >> self.shift)
    }

    /// A word's time.
    pub fn time_of(&self, word: u64) -> u64 {
        word >> self.shift
    }
}
