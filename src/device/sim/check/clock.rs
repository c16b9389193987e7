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

    /// Whether there is no later time.
    pub fn ends(&self) -> bool {
        self.time + 1 >= self.last
    }

    /// Times of this block begin anew: of those so far only what is ordered before what matters. Returns what becomes of its words.
    pub fn renew(&mut self) -> impl Fn(u64) -> u64 + use<> {
        let (shift, base, block_base, warps) = (self.shift, self.base, self.block_base, self.warp_bases);
        let (group, mask) = (self.group, self.group_mask);
        let first = base >> shift;
        self.block_base = (first + 1) << shift;
        for warp in &mut self.warp_bases {
            *warp = if *warp > block_base { (first + 2) << shift } else { 0 };
        }
        self.time = first + 2;
        move |word| {
            if word < base || (word ^ group) & mask != 0 || word & KIND == GRID << KIND_SHIFT {
                return word;
            }
            let step = match word {
                _ if word < block_base => 0,
                _ if word < warps[super::word::lane(word) / 32 % WARPS] => 1,
                _ => 2,
            };
            word & !(u64::MAX << shift) | (first + step) << shift
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

    pub fn now(&self, site: u8) -> Now {
        Now {
            own: self.time << self.shift | self.group | u64::from(site),
            base: self.base,
            block_base: self.block_base,
            born: self.born,
            thread: LANE | self.group_mask,
            warp: WARP_OF_LANE | self.group_mask,
            group: self.group_mask,
            warp_bases: self.warp_bases.as_ptr(),
            modest: false,
        }
    }
}
