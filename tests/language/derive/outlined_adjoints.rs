//! Kernels whose derivatives compute some adjoints in separate kernels: those of elements that are read at constant
//! offsets from a thread's indices, and of elements that all threads read.

use super::Case;
use super::cases::{right, threads};
use super::harness::Spec::*;

pub const SUMMED: &[Case] = &[
    right(
        "weights",
        threads([5, 6, 1]),
        &[Floats(&[7, 8]), Floats(&[3, 3]), Floats(&[5, 6])],
        "
kernel k(x: [f32; H, W], w: [f32; 3, 3], out y: [f32; H - 2, W - 2]) threads(i: H - 2, j: W - 2) {
    var sum = 0.0
    #unroll
    for a in 0..3 {
        #unroll
        for b in 0..3 { sum += x[i + a, j + b] * sin(w[a, b]) * w[1, 1] }
    }
    y[i, j] = sum
}",
    ),
    right(
        "a number",
        threads([9, 1, 1]),
        &[Floats(&[9]), Number(0.3), Floats(&[9])],
        "
kernel k(x: [f32; N], s: f32, out y: [f32; N]) threads(i: N) {
    y[i] = exp(s * x[i])
    if x[i] > 0.0 { y[i] = y[i] * s }
}",
    ),
    right(
        "coefficients in a loop",
        threads([3, 4, 2]),
        &[Floats(&[3, 4, 2]), Floats(&[4]), Number(0.2), Floats(&[3, 4, 2])],
        "
kernel k(x: [f32; A, B, C], p: [f32; 4], s: f32, out y: [f32; A, B, C]) threads(i: A, j: B, k: C) {
    var v = x[i, j, k]
    for turn in 0..2 { v = p[0] + v * (p[1] + v * p[3]) * s }
    y[i, j, k] = v + p[2]
}",
    ),
    right(
        "a number for vectors",
        threads([4, 1, 1]),
        &[Number(0.3), Floats(&[4])],
        "
kernel k(s: f32, inout y: [f32x3; N]) threads(i: N) { y[i] = f32x3(0.5, s, 1.0) * sin(s) }",
    ),
];

pub const GATHERED: &[Case] = &[
    right(
        "valid convolution",
        threads([5, 6, 1]),
        &[Floats(&[7, 8]), Floats(&[3, 3]), Floats(&[5, 6])],
        "
kernel k(x: [f32; H, W], w: [f32; 3, 3], out y: [f32; H - 2, W - 2]) threads(i: H - 2, j: W - 2) {
    var sum = 0.0
    #unroll
    for a in 0..3 {
        #unroll
        for b in 0..3 { sum += x[i + a, j + b] * w[a, b] }
    }
    y[i, j] = sum
}",
    ),
    right(
        "neighbors of the inner elements",
        threads([9, 1, 1]),
        &[Floats(&[9]), Floats(&[9])],
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = x[i]
    if i > 0 && i < N - 1 { y[i] = x[i - 1] * x[i + 1] - 2.0 * x[i] * x[i] }
}",
    ),
    right(
        "turned",
        threads([4, 5, 1]),
        &[Floats(&[7, 6]), Floats(&[4, 5]), Floats(&[4, 5])],
        "
kernel k(x: [f32; A, B], z: [f32; H, W], out y: [f32; H, W]) threads(i: H, j: W) {
    y[i, j] = sin(x[j + 2, i]) * x[j, i + 2] + z[i, j] * x[j + 1, i + 1]
}",
    ),
    right(
        "two arrays and a number",
        threads([6, 1, 1]),
        &[Floats(&[8]), Floats(&[7]), Number(0.6), Floats(&[6])],
        "
kernel k(x: [f32; A], z: [f32; B], s: f32, out y: [f32; N]) threads(i: N) {
    let left = x[i] * z[i + 1]
    let right = x[i + 2] * z[i]
    y[i] = if left > right { left * s } else { right * tanh(s) }
}",
    ),
    right(
        "in space",
        threads([3, 4, 2]),
        &[Floats(&[5, 6, 4]), Floats(&[3, 4, 2])],
        "
kernel k(x: [f32; A, B, C], out y: [f32; H, W, D]) threads(i: H, j: W, k: D) {
    let c = x[i + 1, j + 1, k + 1]
    y[i, j, k] = c * (x[i, j + 1, k + 1] + x[i + 2, j + 1, k + 1] + x[i + 1, j, k + 1] + x[i + 1, j + 2, k + 1]
        + x[i + 1, j + 1, k] + x[i + 1, j + 1, k + 2]) - c * c
}",
    ),
    right(
        "results in both branches",
        threads([8, 1, 1]),
        &[Floats(&[9]), Floats(&[8])],
        "
kernel k(x: [f32; A], out y: [f32; N]) threads(i: N) {
    if x[i] > x[i + 1] { y[i] = x[i] * x[i + 1] } else { y[i] = x[i] - 3.0 * x[i + 1] }
}",
    ),
    right(
        "an output that is read",
        threads([6, 1, 1]),
        &[Floats(&[7]), Floats(&[6]), Floats(&[6])],
        "
kernel k(x: [f32; A], out y: [f32; N], out z: [f32; N]) threads(i: N) {
    y[i] = x[i] * x[i + 1]
    z[i] = x[i + 1] * x[i + 1]
}",
    ),
];
