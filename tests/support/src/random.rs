//! Deterministic pseudo-random numbers for fuzzing.

/// The generator xorshift64*. Its state is not zero.
pub struct Random(pub u64);

impl Random {
    /// Returns a generator for a seed. Similar seeds give unrelated numbers.
    pub fn from_seed(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 to `n` - 1.
    pub fn next_below(&mut self, n: usize) -> usize {
        (self.word() >> 33) as usize % n.max(1)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn range(&mut self, low: i128, high: i128) -> i128 {
        low + (self.word() as i128).rem_euclid(high - low + 1)
    }

    /// Returns true with this probability in percent.
    pub fn chance(&mut self, percent: i128) -> bool {
        self.range(0, 99) < percent
    }

    /// Returns one of several items.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.next_below(items.len())].clone()
    }
}
