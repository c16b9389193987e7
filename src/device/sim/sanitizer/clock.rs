//! The logical clock of a block: advances at every synchronization of its threads.

use super::rows::Now;
use super::word::*;

/// The largest number of warps of a group.
const WARPS: usize = 32;

pub(crate) struct Clock {
    pub time: u64,
    shift: u32,
    last: u64,
    /// The group's bits in shadow words; 0 for shared memory.
    group: u64,
    /// The bits that distinguish groups.
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

    /// Creates a clock for global memory, which starts at a launch's first time.
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

    /// Starts a block whose shared memory is unwritten. Words of the time `born` itself count as ordered before everything.
    pub fn begin_shared(&mut self) {
        self.tick();
        self.born = self.time << self.shift;
        self.tick();
        (self.base, self.block_base) = (self.time << self.shift, self.time << self.shift);
        self.warp_bases = [0; WARPS];
    }

    /// Starts block `group`. Its times are only compared with its own, so that they may restart.
    pub fn begin_global(&mut self, group: u64, start: u64) {
        self.group = (group << GROUP_SHIFT) & GROUP;
        self.time = start + 1;
        self.block_base = self.base;
        self.warp_bases = [0; WARPS];
    }

    /// Advances to a time later than all so far.
    pub fn tick(&mut self) {
        self.time = (self.time + 1).min(self.last);
    }

    /// Synchronizes all threads of the block.
    pub fn block_met(&mut self) {
        self.tick();
        self.block_base = self.time << self.shift;
        if self.group_mask == 0 {
            self.base = self.block_base;
        }
    }

    /// Returns whether the clock is at its last time.
    pub fn ends(&self) -> bool {
        self.time + 1 >= self.last
    }

    /// Restarts the times of this block after an overflow, keeping only their order relative to the bases. Returns the
    /// translation of its shadow words.
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

    /// Synchronizes all threads of the grid, at this time.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn word(clock: &Clock, lane: u64) -> u64 {
        clock.now(7).own | lane << LANE_SHIFT
    }

    #[test]
    fn what_was_ordered_stays_so_when_times_begin_anew() {
        let mut clock = Clock::of_global(LAST_GLOBAL_TIME - 40);
        let other = Clock::of_global(LAST_GLOBAL_TIME - 40);
        clock.begin_global(9, LAST_GLOBAL_TIME - 40);
        let mut words = vec![word(&clock, 3), word(&other, 3), clock.born, 0];
        while !clock.ends() {
            clock.tick();
            words.push(word(&clock, 3));
            words.push(word(&clock, 40));
            match clock.time % 10 {
                2 => clock.block_met(),
                5 | 7 => {
                    clock.tick();
                    clock.warp_met(0);
                }
                _ => {}
            }
        }
        words.extend([word(&clock, 3), word(&clock, 40)]);
        let judge = |clock: &Clock, words: &[u64]| {
            let now = clock.now(1);
            let ask =
                |lane: usize| words.iter().map(move |&w| now.ordered::<true>(w, word(clock, lane as u64), lane, ONE));
            [ask(3), ask(40), ask(70)].map(|answers| answers.collect::<Vec<bool>>())
        };
        let before = judge(&clock, &words);
        let renewed = clock.renew();
        let after: Vec<u64> = words.iter().map(|&word| renewed(word)).collect();
        assert!(!clock.ends() && before == judge(&clock, &after));
        assert!(words.iter().zip(&after).all(|(a, b)| (a ^ b) & (GROUP | LANE | KIND | SITE) == 0));
    }

    #[test]
    fn blocks_of_another_window_are_other_blocks() {
        let mut clock = Clock::of_global(1);
        clock.begin_global(5, 1);
        let first = word(&clock, 0);
        clock.begin_global(5 + WINDOW, 1);
        let (now, me) = (clock.now(1), word(&clock, 0));
        assert!(now.write::<false, false, false>((first, 0, 0), me, 0), "words do not tell them apart");
        let marked = first | GRID << KIND_SHIFT;
        assert!(!now.write::<false, false, false>((marked, 0, 0), me, 0));
    }
}
