//! Kernels whose loops read shared or local memory. If a value stays unchanged until the end of the kernel, the
//! backward pass reads it again. All other values are recorded on a tape.

use super::Case;
use super::cases::{blocks, right, threads};
use super::harness::Spec::*;

/// Kernels whose derivatives record nothing.
pub const UNRECORDED: &[Case] = &[
    right(
        "rows in shared memory",
        blocks(3, 8),
        &[Floats(&[3, 37]), Floats(&[3, 37])],
        "
kernel k(x: [f32; R, C], out y: [f32; R, C]) grid(R) block(8) {
    shared row: [f32; 64]
    shared part: [f32; 8]
    let (r, t) = (block_idx.x, thread_idx.x)
    var sum = 0.0
    for c in t..C step 8 {
        row[c] = sin(x[r, c])
        sum += row[c] * row[c]
    }
    part[t] = sum
    barrier()
    var all = 0.5
    for j in 0..8 { all += part[j] * part[j] }
    for c in t..C step 8 { y[r, c] = row[c] * row[C - 1 - c] / all }
}",
    ),
    right(
        "rows in arrays of a thread",
        threads([5, 1, 1]),
        &[Floats(&[5, 40]), Floats(&[5, 40])],
        "
kernel k(x: [f32; R, C], out y: [f32; R, C]) threads(r: R) {
    var row: [f32; 40]
    var sum = 0.5
    for c in 0..40 {
        row[c] = cos(x[r, c])
        sum += x[r, c]
    }
    for c in 0..40 { y[r, c] = row[c] * row[39 - c] / (sum * sum + 1.0) }
}",
    ),
];

/// Kernels that overwrite an element after reading it, in the same or in the next iteration of a loop.
pub const OVERWRITTEN: &[Case] = &[
    right(
        "a row that is used again",
        blocks(2, 8),
        &[Floats(&[2, 37]), Floats(&[2, 37])],
        "
kernel k(x: [f32; R, C], out y: [f32; R, C]) grid(R) block(8) {
    shared row: [f32; 64]
    let (r, t) = (block_idx.x, thread_idx.x)
    var sum = 0.0
    for c in t..C step 8 { row[c] = x[r, c] }
    barrier()
    for c in t..C step 8 { sum += sin(row[C - 1 - c]) * row[c] }
    barrier()
    for c in t..C step 8 { row[c] = sum * x[r, c] }
    barrier()
    for c in t..C step 8 { y[r, c] = row[c] * row[C - 1 - c] }
}",
    ),
    right(
        "a row of each turn",
        blocks(2, 8),
        &[Floats(&[2, 40]), Floats(&[2, 40])],
        "
kernel k(x: [f32; R, C], out y: [f32; R, C]) grid(R) block(8) {
    shared row: [f32; 8]
    let (r, t) = (block_idx.x, thread_idx.x)
    for turn in 0..C / 8 {
        row[t] = cos(x[r, 8 * turn + t])
        barrier()
        y[r, 8 * turn + t] = row[t] * row[7 - t]
        barrier()
    }
}",
    ),
    right(
        "an array that a turn changes",
        threads([5, 1, 1]),
        &[Floats(&[5, 3]), Floats(&[5, 3])],
        "
kernel k(x: [f32; R, C], out y: [f32; R, C]) threads(r: R) {
    var row: [f32; 3]
    for c in 0..3 { row[c] = x[r, c] }
    for turn in 0..40 {
        for c in 0..3 { row[c] = 0.9 * row[c] + 0.1 * row[c] * row[(c + 1) % 3] }
    }
    for c in 0..3 { y[r, c] = row[c] * row[2 - c] }
}",
    ),
];
