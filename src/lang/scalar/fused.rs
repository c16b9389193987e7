//! `a * b + c` of `f32`, rounded once: by an instruction, or by arithmetic of `f64` on WebAssembly, which has none.

#[cfg(not(target_family = "wasm"))]
#[inline(always)]
pub(super) fn fma32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

#[cfg(target_family = "wasm")]
pub(super) use in_f64 as fma32;

/// Computes it in `f64`, without calls and branches. The product is exact there. The sum is rounded to odd: where it is not exact, its
/// last bit is set, by which the second rounding, to the 24 bits of an `f32`, sees what the first one has left out.
#[cfg(any(target_family = "wasm", test))]
#[inline(always)]
pub(super) fn in_f64(a: f32, b: f32, c: f32) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    let rest = sum - product;
    // What the sum has left out, exactly; NaN if the sum is infinite.
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
            let (here, there) = (in_f64(a, b, c), a.mul_add(b, c));
            assert!(
                here.to_bits() == there.to_bits() || here.is_nan() && there.is_nan(),
                "{a:e} * {b:e} + {c:e}: {here:e}"
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
            // Half of a unit more or less than what is next to it.
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
            // Exponents that lie near each other, and products with few bits, of which many are in the middle of two numbers.
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
