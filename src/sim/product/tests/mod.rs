//! Tests of matrix products on the simulator: their bits equal those of the definition, for random sizes and strides.

use super::*;

mod tile_gemm;

/// Computes the product by its definition: each run of terms is a chain of `fma` operations that starts with 0, and the
/// results of the runs are added in order.
fn expected(a: &MatrixBatch<'_, f32>, b: &MatrixBatch<'_, f32>, sizes: GemmSizes) -> Vec<f32> {
    let at = |factor: &MatrixBatch<'_, f32>, index: [usize; 3]| {
        let strides = factor.strides.iter().zip(index).map(|(stride, n)| stride * n as isize);
        factor.elements[(factor.offset as isize + strides.sum::<isize>()) as usize]
    };
    let mut result = Vec::new();
    for z in 0..sizes.batch {
        for i in 0..sizes.rows {
            for j in 0..sizes.columns {
                let run = |first: usize| {
                    let terms = first..sizes.inner.min(first + RUN_TERMS);
                    terms.fold(0.0f32, |sum, k| at(a, [z, i, k]).mul_add(at(b, [z, k, j]), sum))
                };
                result.push((0..sizes.inner).step_by(RUN_TERMS).fold(0.0, |sum, first| sum + run(first)));
            }
        }
    }
    result
}

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[track_caller]
fn check(sizes: GemmSizes, a: &MatrixBatch<'_, f32>, b: &MatrixBatch<'_, f32>) {
    let bits = |result: &[f32]| result.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let expected = bits(&expected(a, b, sizes));
    for &isa in Isa::ALL {
        for workers in [1, 3] {
            // The product overwrites the previous contents.
            let mut result = vec![f32::NAN; sizes.batch * sizes.rows * sizes.columns];
            match multiply_matrices(isa, workers, a, b, sizes, &mut result) {
                Some(()) => assert!(bits(&result) == expected, "{sizes:?} by {isa} on {workers} workers"),
                None => assert!(isa == Isa::Base || !isa.is_supported(), "{isa} has tiles"),
            }
        }
    }
}

#[test]
fn products_match_the_definition() {
    let extents = [1, 2, 7, 13, 14, 15, 16, 31, 32, 33, 100];
    let inner = [1, 8, 100, 511, 512, 513, 1030];
    let mut seed = 0;
    for (n, &rows) in extents.iter().enumerate() {
        for (m, &columns) in extents.iter().enumerate() {
            let (inner, batch) = (inner[(n + 3 * m) % inner.len()], 1 + (n + m) % 3);
            let sizes = GemmSizes { batch, rows, inner, columns };
            seed += 2;
            let (a, b) = (numbers(batch * rows * inner, seed), numbers(batch * inner * columns, seed + 1));
            let matrix = |z: usize, m: usize, n: usize, turned: bool| {
                let (row, column) = if turned { (1, m as isize) } else { (n as isize, 1) };
                [if z == 0 { 0 } else { (m * n) as isize }, row, column]
            };
            let shared = seed % 3;
            let a = MatrixBatch {
                elements: &a,
                offset: 0,
                strides: matrix(usize::from(shared != 1), rows, inner, seed % 4 < 2),
            };
            let b = MatrixBatch {
                elements: &b,
                offset: 0,
                strides: matrix(usize::from(shared != 2), inner, columns, seed % 8 < 4),
            };
            check(sizes, &a, &b);
        }
    }
}

#[test]
fn operands_may_have_any_strides() {
    let sizes = GemmSizes { batch: 2, rows: 30, inner: 40, columns: 50 };
    let (a, b) = (numbers(2 * 30 * 40 * 3, 5), numbers(2 * 40 * 50, 6));
    // The rows of `a` are reversed and only every third column is used; the columns of `b` are reversed.
    let a = MatrixBatch { elements: &a, offset: 29 * 120, strides: [3600, -120, 3] };
    let b = MatrixBatch { elements: &b, offset: 2000 + 49, strides: [-2000, 50, -1] };
    check(sizes, &a, &b);
}

#[test]
fn zeros_are_positive_and_nonfinite_values_stay_in_their_row() {
    let sizes = GemmSizes { batch: 1, rows: 15, inner: 9, columns: 33 };
    let (mut a, b) = (vec![-0.0f32; 15 * 9], vec![1.0f32; 9 * 33]);
    a[14 * 9] = f32::INFINITY;
    a[3 * 9 + 2] = f32::NAN;
    let matrix = |elements, columns| MatrixBatch { elements, offset: 0, strides: [0, columns, 1] };
    let mut result = vec![7.0f32; 15 * 33];
    if multiply_matrices(Isa::detect(), 1, &matrix(&a, 9), &matrix(&b, 33), sizes, &mut result).is_some() {
        for (i, row) in result.chunks(33).enumerate() {
            let right = |&x: &f32| match i {
                14 => x == f32::INFINITY,
                3 => x.is_nan(),
                _ => x.to_bits() == 0,
            };
            assert!(row.iter().all(right), "row {i}");
        }
    }
}

#[test]
fn f64_products_match_the_definition() {
    let (a, b): (Vec<f64>, Vec<f64>) = ((0..19 * 600).map(f64::from).collect(), (0..600 * 21).map(f64::from).collect());
    let sizes = GemmSizes { batch: 1, rows: 19, inner: 600, columns: 21 };
    let matrix = |elements, columns| MatrixBatch { elements, offset: 0, strides: [0, columns, 1] };
    for &isa in Isa::ALL {
        let mut result = vec![0.0; 19 * 21];
        if multiply_matrices(isa, 2, &matrix(&a, 600), &matrix(&b, 21), sizes, &mut result).is_some() {
            let dot = |i: usize, j: usize| (0..600).map(|k| (i * 600 + k) as f64 * (k * 21 + j) as f64).sum::<f64>();
            // All intermediate results are integers below 2^53, so they are exact.
            assert!((0..19 * 21).all(|at| result[at] == dot(at / 21, at % 21)), "{isa}");
        }
    }
}
