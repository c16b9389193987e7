//! The fused multiply-add `a * b + c` of `f32`, with a single rounding. It is an instruction, or is computed in `f64`
//! on WebAssembly, which has no such instruction.

#[cfg(not(target_family = "wasm"))]
#[inline(always)]
pub(super) fn fma32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

#[cfg(target_family = "wasm")]
pub(super) use in_f64 as fma32;

/// Computes the FMA in `f64`, without calls and branches. The product is exact in `f64`. The sum is rounded to odd: if
/// it is inexact, its last bit is set. The second rounding, to the 24 bits of an `f32`, is then correct.
#[cfg(any(target_family = "wasm", test))]
#[inline(always)]
pub(super) fn in_f64(a: f32, b: f32, c: f32) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    let rest = sum - product;
    // The exact rounding error of the sum (Knuth's 2Sum); NaN if the sum is infinite.
    let error = (product - (sum - rest)) + (addend - rest);
    let bits = sum.to_bits();
    let is_even = bits & 1 == 0 && error.abs() > 0.0;
    let step = if (error > 0.0) == (sum > 0.0) { 1u64 } else { u64::MAX };
    f64::from_bits(if is_even { bits.wrapping_add(step) } else { bits }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_of_f64_rounds_once() {
        let same = |a: f32, b: f32, c: f32| {
            let (computed, expected) = (in_f64(a, b, c), a.mul_add(b, c));
            assert!(
                computed.to_bits() == expected.to_bits() || computed.is_nan() && expected.is_nan(),
                "{a:e} * {b:e} + {c:e}: {computed:e}"
            );
        };
        let special = [
            0.0,
            1.0,
            1.0000001,
            0.99999994,
            1.5,
            3.0,
            1e-45,
            1.1754942e-38,
            1.1754944e-38,
            3.4028235e38,
            1.7e38,
            4097.0,
            16777217.0,
            2e-20,
            1e-30,
            f32::INFINITY,
            f32::NAN,
        ];
        let signed = || special.into_iter().flat_map(|x| [x, -x]);
        for (a, b) in signed().flat_map(|a| signed().map(move |b| (a, b))) {
            signed().for_each(|c| same(a, b, c));
            // Addends that cancel the product, or that differ from it so much that one is about half an ULP of the
            // other.
            let near = -(a * b);
            [near, f32::from_bits(near.to_bits() ^ 1), near * 16777216.0, near / 16777216.0]
                .into_iter()
                .for_each(|c| same(a, b, c));
        }
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        for round in 0..2_000_000 {
            let [a, b, c] = [next(), next(), next()].map(f32::from_bits);
            same(a, b, c);
            // Operands with similar exponents and few significant bits. Many of their results are midpoints between two
            // `f32` numbers.
            let part = |x: u32, bits: u32| f32::from_bits((x & 0x007f_ffff | 0x3f80_0000) & (u32::MAX << bits));
            let [a, b] = [part(next(), round % 20), part(next(), round % 13)];
            same(
                a,
                b,
                part(next(), 0)
                    * f32::from_bits((127 + round % 50 - 25) << 23)
                    * if round & 1 == 0 { 1.0 } else { -1.0 },
            );
        }
    }
}
