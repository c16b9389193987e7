//! The logical clock of a block, which advances whenever threads of the block synchronize.

use super::race_rules::CurrentAccess;
use super::shadow_word::*;

/// Maximum number of warps of a group.
const WARPS: usize = 32;

pub(crate) struct Clock {
    pub time: u64,
    shift: u32,
    last: u64,
    /// The group's bits in shadow words; 0 for shared memory.
    group: u64,
    /// The mask of the bits of a shadow word that distinguish groups; 0 for shared memory.
    group_mask: u64,
    pub allocation_time: u64,
    base: u64,
    block_base: u64,
    warp_bases: [u64; WARPS],
}

impl Clock {
    pub fn for_shared() -> Clock {
        Clock {
            time: 1,
            shift: SHARED_TIME_SHIFT,
            last: u64::MAX >> SHARED_TIME_SHIFT,
            group: 0,
            group_mask: 0,
            allocation_time: 0,
            base: 0,
            block_base: 0,
            warp_bases: [0; WARPS],
        }
    }

    /// Creates a clock for global memory that starts at the first time of a launch.
    pub fn for_global(start: u64) -> Clock {
        let (shift, at) = (GLOBAL_TIME_SHIFT, start << GLOBAL_TIME_SHIFT);
        let next = (start + 1) << shift;
        Clock {
            time: start + 1,
            shift,
            last: LAST_GLOBAL_TIME,
            group: 0,
            group_mask: GROUP,
            allocation_time: at,
            base: next,
            block_base: next,
            warp_bases: [0; WARPS],
        }
    }

    /// Starts a block whose shared memory is uninitialized. Shadow words with time `allocation_time` are treated as
    /// ordered before all accesses of the block.
    pub fn begin_shared(&mut self) {
        self.tick();
        self.allocation_time = self.time << self.shift;
        self.tick();
        (self.base, self.block_base) = (self.time << self.shift, self.time << self.shift);
        self.warp_bases = [0; WARPS];
    }

    /// Starts block `group`. Its times restart at the launch's first time, because times of different blocks are not
    /// compared.
    pub fn begin_global(&mut self, group: u64, start: u64) {
        self.group = (group << GROUP_SHIFT) & GROUP;
        self.time = start + 1;
        self.block_base = self.base;
        self.warp_bases = [0; WARPS];
    }

    /// Advances the time by 1.
    pub fn tick(&mut self) {
        self.time = (self.time + 1).min(self.last);
    }

    /// Called at a block barrier, when all threads of the block have arrived.
    pub fn on_block_barrier(&mut self) {
        self.tick();
        self.block_base = self.time << self.shift;
        if self.group_mask == 0 {
            self.base = self.block_base;
        }
    }

    /// Returns whether the clock has reached the largest time that a shadow word can represent.
    pub fn is_at_end(&self) -> bool {
        self.time + 1 >= self.last
    }

    /// Restarts the times of this block before they overflow. Only the order of accesses relative to the last barrier
    /// and the last warp synchronization is kept. Returns the function that translates the block's shadow words.
    pub fn restart_times(&mut self) -> impl Fn(u64) -> u64 + use<> {
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
                _ if word < warps[super::shadow_word::lane(word) / 32 % WARPS] => 1,
                _ => 2,
            };
            word & !(u64::MAX << shift) | (first + step) << shift
        }
    }

    pub fn on_warp_barrier(&mut self, warp: usize) {
        self.warp_bases[warp % WARPS] = self.time << self.shift;
    }

    /// Called when all threads of the grid have synchronized, with the time of the barrier.
    pub fn on_grid_barrier(&mut self, time: u64) {
        self.time = time.min(self.last);
        (self.base, self.block_base) = (self.time << self.shift, self.time << self.shift);
    }

    pub fn current_access(&self, site: u8) -> CurrentAccess {
        CurrentAccess {
            word: self.time << self.shift | self.group | u64::from(site),
            base: self.base,
            block_base: self.block_base,
            init_time: self.allocation_time,
            thread_mask: LANE | self.group_mask,
            warp_mask: WARP_OF_LANE | self.group_mask,
            group_mask: self.group_mask,
            warp_bases: self.warp_bases.as_ptr(),
            keeps_first_thread: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shadow::ShadowWords;
    use super::*;

    fn word(clock: &Clock, lane: u64) -> u64 {
        clock.current_access(7).word | lane << LANE_SHIFT
    }

    #[test]
    fn restarting_times_keeps_the_order() {
        let mut clock = Clock::for_global(LAST_GLOBAL_TIME - 40);
        let other = Clock::for_global(LAST_GLOBAL_TIME - 40);
        clock.begin_global(9, LAST_GLOBAL_TIME - 40);
        let mut words = vec![word(&clock, 3), word(&other, 3), clock.allocation_time, 0];
        while !clock.is_at_end() {
            clock.tick();
            words.push(word(&clock, 3));
            words.push(word(&clock, 40));
            match clock.time % 10 {
                2 => clock.on_block_barrier(),
                5 | 7 => {
                    clock.tick();
                    clock.on_warp_barrier(0);
                }
                _ => {}
            }
        }
        words.extend([word(&clock, 3), word(&clock, 40)]);
        let ordered_words = |clock: &Clock, words: &[u64]| {
            let current = clock.current_access(1);
            let ask = |lane: usize| {
                words.iter().map(move |&w| current.is_ordered::<true>(w, word(clock, lane as u64), lane, ONE))
            };
            [ask(3), ask(40), ask(70)].map(|answers| answers.collect::<Vec<bool>>())
        };
        let before = ordered_words(&clock, &words);
        let renewed = clock.restart_times();
        let after: Vec<u64> = words.iter().map(|&word| renewed(word)).collect();
        assert!(!clock.is_at_end() && before == ordered_words(&clock, &after));
        assert!(words.iter().zip(&after).all(|(a, b)| (a ^ b) & (GROUP | LANE | KIND | SITE) == 0));
    }

    #[test]
    fn windows_separate_blocks_with_equal_bits() {
        let mut clock = Clock::for_global(1);
        clock.begin_global(5, 1);
        let first = word(&clock, 0);
        clock.begin_global(5 + WINDOW, 1);
        let (current, own_word) = (clock.current_access(1), word(&clock, 0));
        let words = |writes: u64| ShadowWords { writes, reads: 0, atomics: 0 };
        assert!(current.check_write::<false, false, false>(words(first), own_word, 0), "words do not tell them apart");
        let marked = first | GRID << KIND_SHIFT;
        assert!(!current.check_write::<false, false, false>(words(marked), own_word, 0));
    }
}
