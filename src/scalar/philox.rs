//! Philox 4x32-10, the counter-based random number generator of `random`. A random number depends only on the seed and
//! the number's position in the sequence, so results are the same on every device and for every number of threads.

use super::Float;

const ROUNDS: usize = 10;

/// Returns the four random 32-bit words for a counter and a key (Salmon, Moraes, Dror, Shaw: *Parallel Random Numbers:
/// As Easy as 1, 2, 3*, 2011).
#[inline]
pub(crate) fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut counter, mut key) = (counter, key);
    for _ in 0..ROUNDS {
        let [a, b, c, d] = counter;
        let first = a as u64 * 0xd251_1f53;
        let second = c as u64 * 0xcd9e_8d57;
        counter = [(second >> 32) as u32 ^ b ^ key[0], second as u32, (first >> 32) as u32 ^ d ^ key[1], first as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

/// A substream: one of the 2^64 sequences of random numbers for a seed. The upper half of the 128-bit counter is the
/// number of the substream, and the lower half is the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    substream: u64,
}

impl From<u64> for Philox {
    fn from(seed: u64) -> Philox {
        Philox::new(seed)
    }
}

impl Philox {
    /// Returns the substream 0 of a seed.
    pub fn new(seed: u64) -> Philox {
        Philox { seed, substream: 0 }
    }

    /// Returns the substream with this number of the same seed.
    pub fn substream(self, number: u64) -> Philox {
        Philox { substream: number, ..self }
    }

    /// Returns the four random words at a position.
    #[inline]
    pub fn block(self, position: u64) -> [u32; 4] {
        let halves = |x: u64| [x as u32, (x >> 32) as u32];
        let ([low, high], [substream_low, substream_high]) = (halves(position), halves(self.substream));
        philox4x32([low, high, substream_low, substream_high], halves(self.seed))
    }

    /// Returns the i-th 32-bit word of the substream.
    #[inline]
    pub fn word(self, i: u64) -> u32 {
        self.block(i / 4)[(i % 4) as usize]
    }

    /// Returns the i-th 64-bit word of the substream, a pair of 32-bit words.
    #[inline]
    pub fn word64(self, i: u64) -> u64 {
        let words = self.block(i / 2);
        let at = (i % 2 * 2) as usize;
        words[at] as u64 | (words[at + 1] as u64) << 32
    }

    /// Returns the i-th uniform `f64` in [0, 1), with 53 random bits.
    #[inline]
    pub fn uniform_f64(self, i: u64) -> f64 {
        uniform_f64(self.word64(i))
    }

    /// Returns the i-th normally distributed `f32` with mean 0 and standard deviation 1.
    #[inline]
    pub fn normal_f32(self, i: u64) -> f32 {
        let words = self.block(i / 4);
        let at = (i % 4 / 2 * 2) as usize;
        let pair = box_muller(1.0 - uniform_f32(words[at]), uniform_f32(words[at + 1]), std::f32::consts::TAU);
        if i.is_multiple_of(2) { pair.0 } else { pair.1 }
    }

    /// Returns the i-th normally distributed `f64` with mean 0 and standard deviation 1.
    #[inline]
    pub fn normal_f64(self, i: u64) -> f64 {
        let pair = i / 2 * 2;
        let radius = 1.0 - self.uniform_f64(pair);
        let pair = box_muller(radius, self.uniform_f64(pair + 1), std::f64::consts::TAU);
        if i.is_multiple_of(2) { pair.0 } else { pair.1 }
    }

    /// Returns the i-th uniform integer below `bound`, or 0 if `bound` is 0. It is the high half of the product of a
    /// random word and `bound`, so its bias is below `bound / 2^64`.
    #[inline]
    pub fn uniform_below(self, i: u64, bound: u64) -> u64 {
        ((self.word64(i) as u128 * bound as u128) >> 64) as u64
    }
}

/// Returns a uniform number in [0, 1) from the top 24 bits of a word.
#[inline]
pub fn uniform_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16777216.0)
}

/// Returns a uniform number in [0, 1) from the top 53 bits of a 64-bit word.
#[inline]
pub(crate) fn uniform_f64(long: u64) -> f64 {
    (long >> 11) as f64 * (1.0 / 9007199254740992.0)
}

/// Returns two normally distributed numbers from two uniform ones (Box-Muller). The first uniform number is in (0, 1].
#[inline]
fn box_muller<T: Float>(radius: T, angle: T, tau: T) -> (T, T) {
    let minus_two = T::from_i8(-2);
    let length = minus_two.op_mul(radius.op_log()).op_sqrt();
    let angle = angle.op_mul(tau);
    (length.op_mul(angle.op_cos()), length.op_mul(angle.op_sin()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are the test vectors of the authors' reference implementation.
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32([u32::MAX; 4], [u32::MAX; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(
            philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn substreams_differ_and_substream_0_is_the_default() {
        let seed = Philox::new(3);
        assert_eq!(seed.substream(0), seed);
        let first: Vec<u32> = (0..1000).map(|i| seed.word(i)).collect();
        for part in [1, 2, 1 << 32, u64::MAX] {
            assert!((0..1000).all(|i| !first.contains(&seed.substream(part).word(i))), "part {part}");
        }
    }

    #[test]
    fn moments() {
        let p = Philox::new(7);
        let n = 100_000;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(&|i| uniform_f32(p.word(i)).into()) - 0.5).abs() < 0.005);
        assert!((mean(&|i| p.uniform_f64(i)) - 0.5).abs() < 0.005);
        assert!(mean(&|i| p.normal_f32(i).into()).abs() < 0.01);
        assert!((mean(&|i| (p.normal_f32(i) as f64).powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&|i| p.normal_f64(i).powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&|i| p.uniform_below(i, 10) as f64) - 4.5).abs() < 0.05);
        assert!((0..n).all(|i| p.uniform_below(i, 10) < 10 && uniform_f32(p.word(i)) < 1.0));
    }
}
