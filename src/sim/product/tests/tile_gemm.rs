//! Tests of tile products against their definitions, for random numbers of all kinds.

use crate::product::TileGemm;
use clk_ir::def::MmaPrecision;
use clk_runtime::Isa;
use clk_scalar::{Scalar, bf16, f16};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 20) % n
    }
}

/// Returns the format of an `f16`, a `bf16`, or an `f32` that is rounded to TF32: the number of fraction bits, the
/// number of low fraction bits that are always zero, and the number of exponent bits.
fn fields(scalar: Scalar) -> (u32, u32, u32) {
    match scalar {
        Scalar::F16 => (10, 0, 5),
        Scalar::Bf16 => (7, 0, 8),
        _ => (23, 13, 8),
    }
}

/// Returns the bits of a random number. `kind` selects the distribution: arbitrary bits, moderate numbers, tiny
/// numbers, a wide range of numbers, or zeros of both signs.
fn bits(random: &mut Random, scalar: Scalar, kind: u64) -> u32 {
    let (fraction, zeros, exponent) = fields(scalar);
    let any = (random.next() >> 8) as u32 >> (31 - fraction - exponent) >> zeros << zeros;
    let with = |field: u32| any & !(((1 << exponent) - 1) << fraction) | field << fraction;
    let bias = (1 << (exponent - 1)) - 1;
    match kind {
        0 => any,
        1 => with(bias - 2 + random.below(5) as u32),
        2 => with(random.below(3) as u32),
        3 => with(random.below(2 * u64::from(bias)) as u32),
        _ => any & 1 << (fraction + exponent),
    }
}

fn number(scalar: Scalar, bits: u32) -> f32 {
    match scalar {
        Scalar::F16 => f16::from_bits(bits as u16).to_f32(),
        Scalar::Bf16 => bf16::from_bits(bits as u16).to_f32(),
        _ => f32::from_bits(bits),
    }
}

fn bytes(scalar: Scalar, bits: &[u32]) -> Vec<u8> {
    bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(scalar.size())).collect()
}

/// Adds groups of terms to `first` with the arithmetic of `clk_lower::mma_emulation`.
fn cut(scalar: Scalar, group: usize, first: f32, terms: &[(f32, f32)]) -> f32 {
    let exponent = |x: f32, least: i32| match x {
        0.0 => -1000,
        x => ((x.to_bits() >> 23 & 255) as i32 - 127).max(least),
    };
    let least = if scalar == Scalar::F16 { -14 } else { -126 };
    terms.chunks(group).fold(first, |sum, group| {
        let exponents = group.iter().map(|&(a, b)| exponent(a, least) + exponent(b, least));
        let largest = exponents.chain([exponent(sum, -126), -300]).max().unwrap_or(0);
        let on_grid = |x: f64| (x * 2f64.powi(25 - largest)).trunc();
        let terms: f64 = group.iter().map(|&(a, b)| on_grid(f64::from(a) * f64::from(b))).sum();
        let exact = (on_grid(f64::from(sum)) + terms + 0.0) * 2f64.powi(largest - 25);
        let near = exact as f32;
        let beyond = f64::from(near).abs() > exact.abs() && exact.abs() < 2f64.powi(128);
        f32::from_bits(if exact.is_nan() { 0x7fff_ffff } else { near.to_bits() - u32::from(beyond) })
    })
}

#[test]
fn tile_products_match_the_definition() {
    let mut random = Random(88_172_645_463_325_252);
    let isas: Vec<Isa> = Isa::ALL.iter().copied().filter(|isa| *isa != Isa::Base && isa.is_supported()).collect();
    if isas.is_empty() {
        println!("skipped: this machine has no vectors for products of tiles");
    }
    for case in 0..240 {
        let scalar = [Scalar::F16, Scalar::Bf16, Scalar::F32][case % 3];
        let [rows, columns, mut inner] = [20, 40, 80].map(|most| 1 + random.below(most) as usize);
        if case == 9 {
            inner = 1100;
        }
        let kind = random.below(4);
        let mut random_elements = |count: usize| -> Vec<u32> {
            let one = |random: &mut Random| {
                let kind = if random.below(50) == 0 { random.below(5) } else { kind };
                bits(random, scalar, kind)
            };
            (0..count).map(|_| one(&mut random)).collect()
        };
        let (a, b) = (random_elements(rows * inner), random_elements(inner * columns));
        let start = |random: &mut Random| match random.below(6) {
            0 => 0,
            1 => 1 << 31,
            2 => random.next() as u32,
            3 => random.next() as u32 & 0x80ff_ffff,
            _ => random.next() as u32 & 0x807f_ffff | (120 + random.below(15) as u32) << 23,
        };
        let sums: Vec<f32> = (0..rows * columns).map(|_| f32::from_bits(start(&mut random))).collect();
        for sums_kind in [MmaPrecision::default(), MmaPrecision::Sequential] {
            let gemm = TileGemm { rows, columns, inner, scalar, sums: sums_kind };
            for &isa in &isas {
                let mut result = sums.clone();
                let (left, right) = (bytes(scalar, &a), bytes(scalar, &b));
                assert!(gemm.is_covered(isa));
                // SAFETY: the product is covered, and the matrices have these extents.
                assert!(unsafe { gemm.add_product(isa, result.as_mut_ptr(), left.as_ptr(), right.as_ptr()) });
                for (at, (&result, &first)) in result.iter().zip(&sums).enumerate() {
                    let (row, column) = (at / columns, at % columns);
                    let term = |k| (number(scalar, a[row * inner + k]), number(scalar, b[k * columns + column]));
                    let mut terms: Vec<(f32, f32)> = (0..inner).map(term).collect();
                    if inner > gemm.terms_per_group() {
                        // Pad the last group with zeros, as the generated loop does.
                        terms.resize(inner.next_multiple_of(gemm.terms_per_group()), (0.0, 0.0));
                    }
                    let want = match sums_kind {
                        MmaPrecision::TensorCore(_) => cut(scalar, gemm.terms_per_group(), first, &terms),
                        MmaPrecision::Sequential => terms.iter().fold(first, |sum, (a, b)| a.mul_add(*b, sum)),
                    };
                    // If a sum is NaN, its bits may differ between processors, so compare only that both are NaN.
                    let same = want.to_bits() == result.to_bits()
                        || sums_kind == MmaPrecision::Sequential && want.is_nan() && result.is_nan();
                    assert!(same, "{gemm:?} ({isa}) at {at}: {result:e}, not {want:e}, from {first:e}");
                }
            }
        }
    }
}
