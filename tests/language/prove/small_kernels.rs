//! Tests the verdicts on small kernels.

use std::fmt::Write;

use super::{letters, report};

/// Expected verdicts, each with a kernel.
#[test]
fn small_kernels() {
    let kernels = [
        // Strides given by a parameter, and indices with remainders.
        (
            "ppppp",
            "(step: i32, x: [i32; N], inout y: [i32; M]) threads(i: N) assume step > 0, N * step <= M { y[i * step] = x[i] }",
        ),
        (
            "ppppp",
            "(w: i32, first: i32, x: [i32; N], inout y: [i32; M]) grid(ceil_div(N, 64)) block(64)
            assume w > 0, first >= 0, first + N * w <= M {
            let i = global_idx.x
            if i < N { y[first + i * w] = x[i] }
        }",
        ),
        (
            "rrppp",
            "(step: i32, inout y: [i32; M]) threads(i: 4) assume step >= -9, step < 9 { if i * step >= 0 && i * step <= M { y[i * step] = i } }",
        ),
        (
            "ppppp",
            "(k: i32, x: [i32; N], out y: [i32; N]) threads(i: N) assume k >= 0, k < N { y[(i + k) % N] = x[i] }",
        ),
        (
            "ppppp",
            "(k: i32, x: [i32; N], out y: [i32; N]) threads(i: N) assume k >= 0, k <= N { y[(i - k + N) % N] = x[i] }",
        ),
        ("ppppp", "(x: [i32; N], out y: [i32; N]) threads(i: N) { y[(i + 1) % N] = x[i] }"),
        ("pprpp", "(x: [i32; N], out y: [i32; N]) threads(i: N) { if i > 0 { y[(i + 1) % N] = x[i] } }"),
        // The grid is rounded up, so some elements are written twice.
        (
            "prppp",
            "(k: i32, x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 64)) block(64) assume k >= 0, k < N {
            y[(global_idx.x + k) % N] = global_idx.x
        }",
        ),
        // The grid is rounded up, and the threads without an element return.
        (
            "ppppp",
            "(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
            let i = global_idx.x
            if i >= N { return }
            y[i] = x[i]
        }",
        ),
        // One element too far.
        (
            "rpppp",
            "(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
            let i = global_idx.x
            if i <= N { y[i] = x[i] }
        }",
        ),
        // A `return` in a loop leaves elements unwritten.
        (
            "pprpp",
            "(x: [f32; N], out y: [f32; N]) threads(i: N) {
            for k in 0..3 { if x[i] == 0.0 { return } }
            y[i] = 1.0
        }",
        ),
        // Constants whose product wraps.
        (
            ".pppr",
            "<const K: i32 = 50000>(inout y: [i32; N]) threads(i: N) {
            if K * K > 0 { y[i] = 1 } else { y[i - N] = 1 }
        }",
        ),
        // One element of four.
        ("pprpp", "(out y: [i32; 4]) threads(i: 1) { y[3] = 1 }"),
        ("pprpp", "(n: i32, out y: [i32; N, 4]) threads(i: N) { y[i, 3] = 1 }"),
        ("ppppp", "(out y: [i32; N, 1]) threads(i: N) { y[i, 0] = 1 }"),
        // All of `y` is written: in both branches, before an early return, and at the border.
        ("ppppp", "(x: [i32; N], out y: [i32; N]) threads(i: N) { if x[i] > 0 { y[i] = 1 } else { y[i] = 2 } }"),
        (
            "pprpp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) { if x[i] > 0 { y[i] = 1 } else if x[i] < 0 { y[i] = 2 } }",
        ),
        (
            "ppppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            if x[i] > 0 {
                y[i] = 1
                return
            }
            y[i] = 2
        }",
        ),
        ("ppppp", "(out y: [i32; N]) threads(i: N) { if i == 0 { y[0] = 1 } else { y[i] = 2 } }"),
        ("pprpp", "(out y: [i32; N]) threads(i: N) { if i == 1 { y[0] = 1 } else if i > 0 { y[i] = 2 } }"),
        // Backward.
        ("ppppp", "(out y: [i32; N]) threads(i: N) { y[N - 1 - i] = i }"),
        // After the loop, the counter may have a value that it has in no iteration.
        (
            ".rrpp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var n = 0
            while n < N - 1 && x[n] > 0 { n += 1 }
            y[n] = 1
        }",
        ),
        (
            "ppppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var n = 0
            while n < N - 1 && x[n] > 0 { n += 1 }
            y[i] = n
        }",
        ),
        // `best` may contain an earlier value of the loop variable.
        (
            "ppppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var best = -1
            for k in 0..N { if x[k] > x[i] { best = k } }
            y[i] = if best < 0 { 0 } else { x[best] }
        }",
        ),
        (
            "rpppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var best = -1
            for k in 0..N { if x[k] > x[i] { best = k + 1 } }
            y[i] = if best < 0 { 0 } else { x[best] }
        }",
        ),
        // `best` may have the value of an earlier iteration.
        (
            "rpppp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var best = -1
            var sum = 0
            for k in 0..N {
                if x[k] > x[i] { best = k }
                if best >= 0 { sum = x[best + 1] }
            }
            y[i] = sum
        }",
        ),
        // The step is positive because `clamp` bounds the size of the grid.
        (
            "pp.pp",
            "(x: [i32; N], inout y: [i32; N]) grid(clamp(N / 64, 1, 8)) block(64) {
            for i in global_idx.x..N step grid_dim.x * 64 { y[i] = x[i] }
        }",
        ),
        // Writes at constant offsets that cover a row, or that leave out an element.
        (
            "ppppp",
            "(out y: [i32; N, 3]) threads(i: N) {
            y[i, 0] = 0
            y[i, 1] = 1
            y[i, 2] = 2
        }",
        ),
        (
            "pprpp",
            "(out y: [i32; N, 3]) threads(i: N) {
            y[i, 0] = 0
            y[i, 2] = 2
        }",
        ),
        (
            "ppppp",
            "(out y: [i32; N]) grid(1) block(32) {
            assert(N <= 128)
            for k in 0..4 { if k * 32 + thread_idx.x < N { y[k * 32 + thread_idx.x] = k } }
        }",
        ),
        (
            "pprpp",
            "(out y: [i32; N]) grid(1) block(32) {
            assert(N <= 129)
            for k in 0..4 { if k * 32 + thread_idx.x < N { y[k * 32 + thread_idx.x] = k } }
        }",
        ),
        // The assertion is after the write that it would prove to cover the array.
        (
            "pp.pp",
            "(out y: [i32; N]) grid(1) block(32) {
            if thread_idx.x < N { y[thread_idx.x] = 1 }
            assert(N <= 32)
        }",
        ),
        // Quotients and remainders.
        (
            "ppppp",
            "(out y: [i32; M]) grid(ceil_div(M, 8)) block(256) {
            let row = block_idx.x * 8 + warp_idx
            if row < M && lane_idx == 0 { y[row] = 1 }
        }",
        ),
        (
            "pprpp",
            "(out y: [i32; M]) grid(ceil_div(M, 8)) block(128) {
            let row = block_idx.x * 8 + warp_idx
            if row < M && lane_idx == 0 { y[row] = 1 }
        }",
        ),
        ("ppppp", "(out y: [i32; A, B]) threads(k: A * B) { y[k / B, k % B] = k }"),
        ("pprpp", "(out y: [i32; A, B]) threads(k: A * B) { if k % B > 0 { y[k / B, k % B] = k } }"),
        ("pprpp", "(out y: [i32; A, B + 1]) threads(k: A * B) { y[k / B, k % B] = k }"),
        // The threads of a block write the rows of a tile cyclically. They are as many as a row has elements, more, or
        // a number that does not divide a row.
        (
            "ppppp",
            "(out y: [f32; M, 128]) grid(ceil_div(M, 64)) block(128) {
            for n in thread_idx.x..8192 step 128 {
                let r = 64 * block_idx.x + n / 128
                if r < M { y[r, n % 128] = 1.0 }
            }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, N]) grid(ceil_div(N, 128), ceil_div(M, 64)) block(256) {
            for n in thread_idx.x..8192 step 256 {
                let (r, c) = (64 * block_idx.y + n / 128, 128 * block_idx.x + n % 128)
                if r < M && c < N { y[r, c] = 1.0 }
            }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, 128]) grid(ceil_div(M, 64)) block(96) {
            for n in thread_idx.x..8192 step 96 {
                let r = 64 * block_idx.x + n / 128
                if r < M { y[r, n % 128] = 1.0 }
            }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, 80]) grid(ceil_div(M, 64)) block(32, 4) {
            for n in thread_idx.x + 32 * thread_idx.y..5120 step 128 {
                let r = 64 * block_idx.x + n / 80
                if r < M { y[r, n % 80] = 1.0 }
            }
        }",
        ),
        // One element less.
        (
            "pprpp",
            "(out y: [f32; M, 128]) grid(ceil_div(M, 64)) block(96) {
            for n in thread_idx.x..8191 step 96 {
                let r = 64 * block_idx.x + n / 128
                if r < M { y[r, n % 128] = 1.0 }
            }
        }",
        ),
        // The rows have one element more than the loop writes.
        (
            "pprpp",
            "(out y: [f32; M, 81]) grid(ceil_div(M, 64)) block(32, 4) {
            for n in thread_idx.x + 32 * thread_idx.y..5120 step 128 {
                let r = 64 * block_idx.x + n / 80
                if r < M { y[r, n % 80] = 1.0 }
            }
        }",
        ),
        // The threads of all blocks share one linear index over the elements of a matrix.
        (
            "ppppp",
            "(out y: [f32; M, N]) grid(ceil_div(M * N, 256)) block(256) {
            let k = global_idx.x
            if k < M * N { y[k / N, k % N] = 1.0 }
        }",
        ),
        // Each block of a one-dimensional grid writes a tile. In the second kernel the last row of each tile is
        // missing, and in the third one a loop writes the elements of a tile.
        (
            "ppppp",
            "(out y: [f32; M, N]) grid(ceil_div(M, 8) * ceil_div(N, 8)) block(8, 8) {
            let across = ceil_div(N, 8)
            let (r, c) = (8 * (block_idx.x / across) + thread_idx.y, 8 * (block_idx.x % across) + thread_idx.x)
            if r < M && c < N { y[r, c] = 1.0 }
        }",
        ),
        (
            "pprpp",
            "(out y: [f32; M, N]) grid(ceil_div(M, 8) * ceil_div(N, 8)) block(8, 7) {
            let across = ceil_div(N, 8)
            let (r, c) = (8 * (block_idx.x / across) + thread_idx.y, 8 * (block_idx.x % across) + thread_idx.x)
            if r < M && c < N { y[r, c] = 1.0 }
        }",
        ),
        (
            "ppppp",
            "(out y: [f32; M, N]) grid(ceil_div(M, 8) * ceil_div(N, 8)) block(8, 8) {
            let across = ceil_div(N, 8)
            for n in thread_idx.x + 8 * thread_idx.y..64 step 64 {
                let (r, c) = (8 * (block_idx.x / across) + n / 8, 8 * (block_idx.x % across) + n % 8)
                if r < M && c < N { y[r, c] = 1.0 }
            }
        }",
        ),
        // The number of threads is not a multiple of the row length of the tile.
        (
            "ppppp",
            "(x: [f32; M, N], out y: [f32; M, N]) grid(ceil_div(N, 80), ceil_div(M, 64)) block(96) {
            let (i, j) = (64 * block_idx.y, 80 * block_idx.x)
            shared t: [f32; 64, 80]
            t = x[i..i + 64, j..j + 80]
            y[i..i + 64, j..j + 80] = t + 1.0
        }",
        ),
        // A loop that may have no iterations leaves elements unwritten.
        (
            "pprpp",
            "(n: i32, out y: [f32; N]) threads(i: N) {
            for k in 0..n { y[i] = 1.0 }
        }",
        ),
        // If the sign of a loop's step is unknown, the loop may have no iterations.
        (
            "pp.pp",
            "(s: i32, out y: [i32; N]) threads(i: N) {
            for _k in 0..1 step s { y[i] = 1 }
        }",
        ),
        // The prover must not treat a large left shift as a right shift.
        (
            "r..pp",
            "(x: [i32; N], out y: [i32; N]) threads(i: N) {
            let k = i64(i + 1) << 50
            if k > 1000i64 { y[i + 1] = x[i] } else { y[i] = 0 }
        }",
        ),
        // The inner loop has a different trip count in each iteration of the outer loop.
        (
            "prppp",
            "(x: [i32; M], out y: [i32; 64]) grid(1) block(64) {
            shared s: [i32; 64]
            let t = thread_idx.x
            s[t] = 0
            barrier()
            var a = 0
            for k in 0..M {
                a += s[63 - t]
                barrier()
                for j in 0..k + 1 {
                    barrier()
                    s[t] = a + j
                }
            }
            y[t] = a
        }",
        ),
        // Blocks leave a loop with a grid barrier one by one.
        (
            "p.prp",
            "(x: [i32; M], out y: [i32; 4]) grid(4) block(1) {
            for k in 0..M {
                grid_barrier()
                if block_idx.x == k { break }
            }
            y[block_idx.x] = 1
        }",
        ),
        // The divisor is positive only because the block has 64 threads.
        (
            "pprpp",
            "(x: [i32; N], out y: [i32; N]) grid(1) block(64) {
            let t = thread_idx.x
            if t < N { if 1000 / (64 - t) > 20 { y[t] = x[t] } else { y[t] = 2 } }
        }",
        ),
        // A race determines which threads leave the loop.
        (
            "prp.p",
            "(x: [i32; M], out y: [i32; 64]) grid(1) block(64) {
            shared s: [i32; 1]
            let t = thread_idx.x
            y[t] = 0
            for _k in 0..M {
                if t == 63 { s[0] = 1 }
                if s[0] == 1 { break }
                barrier()
            }
        }",
        ),
        // The prover does not support these expressions, so they may overflow.
        (
            "pppp.",
            "(x: [i32; N], p: i32, out y: [i32; N]) threads(i: N) {
            y[i] = if p ** 3 > 5 { x[i] } else { 0 }
        }",
        ),
        (
            "pppp.",
            "(x: [i32x2; N], p: i32x2, out y: [i32; N]) threads(i: N) {
            let v = p + p
            y[i] = if v.x > 5 { x[i].x } else { 0 }
        }",
        ),
        // The iterations of all threads together cover the array.
        (
            "ppppp",
            "(out y: [f32; N]) grid(1) block(64) {
            for i in thread_idx.x..N step 64 { y[i] = 1.0 }
        }",
        ),
        // The array is not covered if a thread may leave the loop by `break`.
        (
            "pprpp",
            "(x: [f32; N], out y: [f32; N]) grid(1) block(64) {
            for i in thread_idx.x..N step 64 {
                if x[i] == 0.0 { break }
                y[i] = 1.0
            }
        }",
        ),
        // With two alternating tiles, one barrier per iteration suffices.
        (
            "pp.pp",
            "(x: [f32; N], inout y: [f32; N]) grid(1) block(32) {
            shared s: [f32; 2, 32]
            let t = thread_idx.x
            for k in 0..N / 32 {
                s[k % 2, t] = x[k * 32 + t]
                barrier()
                y[k * 32 + t] = s[k % 2, 31 - t]
            }
        }",
        ),
        // With only one tile, one barrier per iteration does not suffice.
        (
            "pr.pp",
            "(x: [f32; N], inout y: [f32; N]) grid(1) block(64) {
            shared s: [f32; 64]
            let t = thread_idx.x
            for k in 0..N / 64 {
                s[t] = x[k * 64 + t]
                barrier()
                y[k * 64 + t] = s[63 - t]
            }
        }",
        ),
        // A tree reduction in a loop, with a barrier after each step.
        (
            "ppppp",
            "(x: [f32; N], out y: [f32; ceil_div(N, 128)]) grid(ceil_div(N, 128)) block(128) {
            shared s: [f32; 128]
            let t = thread_idx.x
            s[t] = if global_idx.x < N { x[global_idx.x] } else { 0.0 }
            barrier()
            var k = 64
            while k > 0 {
                if t < k { s[t] += s[t + k] }
                barrier()
                k /= 2
            }
            if t == 0 { y[block_idx.x] = s[0] }
        }",
        ),
        // Tree reductions with steps from a list, with other lengths, and with a missing step, so that threads
        // conflict.
        (
            "ppppp",
            "(x: [f32; N], out y: [f32; ceil_div(N, 128)]) grid(ceil_div(N, 128)) block(128) {
            shared s: [f32; 128]
            let t = thread_idx.x
            s[t] = if global_idx.x < N { x[global_idx.x] } else { 0.0 }
            barrier()
            for k in [64, 32, 16, 8, 4, 2, 1] {
                if t < k { s[t] += s[t + k] }
                barrier()
            }
            if t == 0 { y[block_idx.x] = s[0] }
        }",
        ),
        (
            "pp.pp",
            "(x: [f32; N], inout y: [f32; ceil_div(N, 96)]) grid(ceil_div(N, 96)) block(96) {
            shared s: [f32; 96]
            let t = thread_idx.x
            s[t] = if global_idx.x < N { x[global_idx.x] } else { 0.0 }
            barrier()
            for k in [48, 24, 12, 6, 3] {
                if t < k { s[t] += s[t + k] }
                barrier()
            }
            if t == 0 { y[block_idx.x] = s[0] + s[1] + s[2] }
        }",
        ),
        (
            "r..pp",
            "(x: [f32; N], inout y: [f32; ceil_div(N, 64)]) grid(ceil_div(N, 64)) block(64) {
            shared s: [f32; 64]
            let t = thread_idx.x
            s[t] = 1.0
            barrier()
            for k in [32, 40] {
                if t < k { s[t] += s[t + k] }
                barrier()
            }
            y[block_idx.x] = s[0]
        }",
        ),
        // Arrays of constants. The prover uses the elements of short ones, and the bounds and the order of long ones.
        (
            "ppppp",
            "(x: [f32; N, 9], out y: [f32; N]) threads(i: N) {
            let order = [4, 0, 8, 2, 6, 1, 3, 5, 7]
            var sum = 0.0
            for k in 0..9 { sum += x[i, order[k]] }
            y[i] = sum
        }",
        ),
        (
            "rpppp",
            "(x: [f32; N, 8], out y: [f32; N]) threads(i: N) {
            let order = [4, 0, 8, 2, 6, 1, 3, 5, 7]
            var sum = 0.0
            for k in 0..9 { sum += x[i, order[k]] }
            y[i] = sum
        }",
        ),
        (
            "ppppp",
            "(x: [f32; N, 40], out y: [f32; N]) threads(i: N) {
            let steps = [0, 1, 2, 3, 5, 8, 9, 12, 13, 15, 16, 18, 20, 21, 24, 26, 27, 30, 33, 39]
            y[i] = x[i, steps[i % 20]]
        }",
        ),
        (
            "rpppp",
            "(x: [f32; N, 39], out y: [f32; N]) threads(i: N) {
            let steps = [0, 1, 2, 3, 5, 8, 9, 12, 13, 15, 16, 18, 20, 21, 24, 26, 27, 30, 33, 39]
            y[i] = x[i, steps[i % 20]]
        }",
        ),
        (
            "pp.pp",
            "(inout y: [f32; 40]) threads(i: 20) {
            let steps = [0, 1, 2, 3, 5, 8, 9, 12, 13, 15, 16, 18, 20, 21, 24, 26, 27, 30, 33, 39]
            y[steps[i]] = 1.0
        }",
        ),
        (
            "pr.pp",
            "(inout y: [f32; 40]) threads(i: 20) {
            let steps = [0, 1, 2, 3, 5, 8, 9, 12, 13, 15, 16, 18, 20, 21, 24, 26, 27, 30, 33, 33]
            y[steps[i]] = 1.0
        }",
        ),
        // Reading outside of a constant array gives an arbitrary number.
        (
            "r..pp",
            "(inout y: [f32; 4]) threads(i: 4) {
            let at = [0, 1, 2]
            y[at[i]] = 1.0
        }",
        ),
        // A race in blocks of 128 threads. A search of small sizes does not find the race, since their grids are empty.
        (
            "prppp",
            "(x: [f32; N], out y: [f32; N / 128]) grid(N / 128) block(128) {
            shared s: [f32; 128]
            let t = thread_idx.x
            s[t] = x[global_idx.x]
            let v = s[(t + 1) % 128]
            if t == 0 { y[block_idx.x] = v }
        }",
        ),
        (
            "pr.pp",
            "(x: [f32; M, N], inout y: [f32; M, N]) grid(N / 16, M / 64) block(16, 64) {
            shared s: [f32; 64, 16]
            let (t, u) = (thread_idx.x, thread_idx.y)
            s[u, t] = x[global_idx.y, global_idx.x]
            y[global_idx.y, global_idx.x] = s[63 - u, t]
        }",
        ),
        // Each block writes a window that has fewer elements than the block has threads, or more.
        (
            "ppppp",
            "(x: [f32; M], out y: [f32; M]) grid(ceil_div(M, 24)) block(128) {
            let i = 24 * block_idx.x
            y[i..i + 24] = 2.0 * x[i..i + 24]
        }",
        ),
        (
            "ppppp",
            "(x: [f32; M], out y: [f32; M]) grid(ceil_div(M, 256)) block(128) {
            let i = 256 * block_idx.x
            y[i..i + 256] = 2.0 * x[i..i + 256]
        }",
        ),
        // The windows leave out every 32nd element.
        (
            "pprpp",
            "(x: [f32; M], out y: [f32; M]) grid(ceil_div(M, 32)) block(64) {
            let i = 32 * block_idx.x
            y[i..i + 31] = 2.0 * x[i..i + 31]
        }",
        ),
        // Each thread executes at most one iteration of the loop.
        (
            "ppppp",
            "(out y: [f32; N]) grid(ceil_div(N, 32)) block(64) {
            for e in thread_idx.x..32 step 64 {
                if 32 * block_idx.x + e < N { y[32 * block_idx.x + e] = 1.0 }
            }
        }",
        ),
        (
            "pprpp",
            "(out y: [f32; N]) grid(ceil_div(N, 32)) block(16) {
            for e in thread_idx.x..32 step 64 {
                if 32 * block_idx.x + e < N { y[32 * block_idx.x + e] = 1.0 }
            }
        }",
        ),
        // Rows of a flat array: complete, by loops, by blocks, in reverse, in three dimensions, and with a missing
        // element.
        ("ppppp", "(x: [f32; H, W], out y: [f32; H * W]) threads(r: H, c: W) { y[r * W + c] = x[r, c] }"),
        ("ppppp", "(x: [f32; H, W], out y: [f32; H * W]) threads(r: H, c: W) { y[c * H + r] = x[r, c] }"),
        ("pprpp", "(x: [f32; H, W], out y: [f32; H * W]) threads(r: H, c: W) { if c > 0 { y[r * W + c] = x[r, c] } }"),
        ("prrpp", "(x: [f32; H, W + 1], out y: [f32; H * W]) threads(r: H, c: W) { y[r * (W - 1) + c] = x[r, c] }"),
        (
            "ppppp",
            "(x: [f32; H, W], out y: [f32; H * W]) threads(r: H) {
            for c in 0..W { y[r * W + c] = x[r, c] }
        }",
        ),
        (
            "ppppp",
            "(x: [f32; H, W], out y: [f32; H * W]) grid(ceil_div(W, 16), ceil_div(H, 8)) block(16, 8) {
            let (r, c) = (global_idx.y, global_idx.x)
            if r < H && c < W { y[r * W + c] = x[r, c] }
        }",
        ),
        (
            "pprpp",
            "(x: [f32; H, W], out y: [f32; H * W]) grid(ceil_div(W, 16), ceil_div(H, 9)) block(16, 8) {
            let (r, c) = (global_idx.y, global_idx.x)
            if r < H && c < W { y[r * W + c] = x[r, c] }
        }",
        ),
        (
            "ppppp",
            "(x: [f32; N], h: i32, w: i32, out y: [f32; N]) threads(r: h, c: w)
            assume h >= 0, w >= 0, h * w == N
        { y[r * w + c] = x[r * w + c] }",
        ),
        // The rows of a matrix are written one after another to a flat array.
        (
            "pp.pp",
            "(x: [f32; H, W], inout y: [f32; L]) threads(i: H, j: W) {
            let at = i * W + j
            if at < L { y[at] = x[i, j] }
        }",
        ),
        // A race of an atomic operation with a plain store.
        (
            "pr.pp",
            "(x: [i32; N], inout n: [i32; 1]) threads(i: N) {
            atomic_add(n[0], 1)
            if i == 0 { n[0] = 0 }
        }",
        ),
        // Only atomics.
        ("pp.pp", "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { atomic_add(n[0], 1) }"),
        // An index from memory.
        (
            "rrppp",
            "(x: [f32; N], at: [i32; N], inout y: [f32; N], out z: [f32; N]) threads(i: N) {
            y[at[i]] = x[i]
            z[i] = 0.0
        }",
        ),
        // A barrier that some threads do not reach.
        (
            "p.prp",
            "(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
            if global_idx.x < N {
                barrier()
                y[global_idx.x] = x[global_idx.x]
            }
        }",
        ),
    ];
    let mut wrong = String::new();
    for (verdicts, kernel) in kernels {
        let report = report(&format!("kernel k{kernel}"));
        let actual = letters(&report)[..5].replace('P', "p");
        // Compares the verdict on unwritten elements only for kernels with `out` and without `inout` arrays.
        let expected = if kernel.contains("out ") && !kernel.contains("inout") {
            verdicts.into()
        } else {
            format!("{}{}{}", &verdicts[..2], &actual[2..3], &verdicts[3..])
        };
        if actual != expected {
            let _ = writeln!(wrong, "{expected} expected, {actual} found: {kernel}\n{:?}", report.verdicts);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
