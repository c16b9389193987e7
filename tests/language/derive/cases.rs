//! The kernels that `tests/language/derive.rs` differentiates. Each is written with `f32`, and runs with `f64`. If
//! differentiation must refuse a kernel, a comment `//!` marks the line of the error.

use clk_runtime::LaunchExtents;

use super::Case;
use super::harness::Spec::{self, *};

pub(super) const fn threads(n: [u32; 3]) -> LaunchExtents {
    LaunchExtents::Threads(n)
}

pub const fn blocks(grid: u32, block: u32) -> LaunchExtents {
    LaunchExtents::Grid { grid: [grid, 1, 1], block: [block, 1, 1] }
}

pub(super) const fn right(
    name: &'static str,
    extents: LaunchExtents,
    arguments: &'static [Spec],
    text: &'static str,
) -> Case {
    Case { name, text, extents, arguments, range: (-1.5, 1.5), refused: None }
}

const fn positive(name: &'static str, extents: LaunchExtents, arguments: &'static [Spec], text: &'static str) -> Case {
    Case { range: (0.4, 1.6), ..right(name, extents, arguments, text) }
}

const fn refused(
    name: &'static str,
    extents: LaunchExtents,
    arguments: &'static [Spec],
    label: &'static str,
    text: &'static str,
) -> Case {
    Case { refused: Some(label), ..right(name, extents, arguments, text) }
}

pub const PLAIN: &[Case] = &[
    right("elementwise", threads([7, 1, 1]), &[Floats(&[7]), Number(0.7), Floats(&[7])], "
kernel k(x: [f32; N], s: f32, out y: [f32; N]) threads(i: N) {
    y[i] = sin(x[i] * s) + x[i] * x[i] * exp(-x[i]) + s
}"),
    right("stencil", threads([5, 6, 1]), &[Floats(&[5, 6]), Floats(&[3, 3]), Floats(&[5, 6])], "
kernel k(x: [f32; H, W], w: [f32; 3, 3], out y: [f32; H, W]) threads(i: H, j: W) {
    var sum = 0.0
    for a in 0..3 {
        for b in 0..3 {
            let r = i + a - 1
            let c = j + b - 1
            if r >= 0 && r < H && c >= 0 && c < W { sum += x[r, c] * w[a, b] * x[i, j] }
        }
    }
    y[i, j] = tanh(sum)
}"),
    positive("functions", threads([6, 1, 1]), &[Floats(&[6]), Floats(&[6]), Floats(&[6])], "
kernel k(x: [f32; N], y: [f32; N], out z: [f32; N]) threads(i: N) {
    let a = x[i]
    let b = y[i]
    z[i] = log(a) / sqrt(b) + a ** b + atan2(a, b) + hypot(a, b) + cbrt(a) + erf(a) + fma(a, b, a) + tan(a) * asinh(b) + a % b
}"),
    right("kinks", threads([9, 1, 1]), &[Floats(&[9]), Floats(&[9]), Floats(&[9])], "
kernel k(x: [f32; N], y: [f32; N], out z: [f32; N]) threads(i: N) {
    z[i] = clamp(x[i] * 2.0, -1.0, 1.0) + abs(y[i]) + max(x[i], y[i]) * min(x[i], y[i]) + floor(x[i]) * y[i]
}"),
    right("vectors", threads([4, 1, 1]), &[Floats(&[4]), Floats(&[4]), Floats(&[4])], "
kernel k(x: [f32x3; N], m: [f32; N], out y: [f32x3; N]) threads(i: N) {
    let a = x[i]
    let d = dot(a, a) + 0.5
    var b = a * m[i]
    b.y = a.x * a.z
    y[i] = b / sqrt(d) + f32x3(m[i], 1.0, d)
}"),
    right("structs", threads([4, 1, 1]), &[Floats(&[4]), Floats(&[4]), Number(0.3)], "
struct P { pos: f32x2, m: f32 }
kernel k(x: [P; N], out y: [P; N], s: f32) threads(i: N) {
    let p = x[i]
    y[i] = P { pos: p.pos * p.m * s, m: p.m * p.m }
}"),
    right("gather", threads([5, 1, 1]), &[Floats(&[4]), Ints(&[3, 1, 1, 0, 3]), Floats(&[5])], "
kernel k(x: [f32; M], at: [i32; N], out y: [f32; N]) threads(i: N) {
    y[i] = x[at[i]] * x[at[i]] * f32(i)
}"),
    right("scatter", threads([4, 1, 1]), &[Floats(&[4]), Ints(&[3, 1, 4, 0]), Floats(&[5])], "
kernel k(x: [f32; N], at: [i32; N], inout y: [f32; M]) threads(i: N) {
    y[at[i]] = x[i] * y[at[i]]
}"),
    right("histogram", threads([8, 1, 1]), &[Floats(&[8]), Ints(&[0, 2, 1, 2, 2, 0, 1, 2]), Floats(&[3])], "
kernel k(x: [f32; N], bin: [i32; N], inout y: [f32; M]) threads(i: N) {
    atomic_add(y[bin[i]], x[i] * x[i])
}"),
    right("early return", threads([8, 1, 1]), &[Floats(&[8]), Floats(&[8])], "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = x[i]
    if x[i] < 0.0 { return }
    let s = x[i] * x[i]
    if s > 1.0 {
        y[i] = s * x[i]
        return
    }
    y[i] = sqrt(s + 1.0)
}"),
    right("in place", threads([6, 1, 1]), &[Floats(&[6]), Number(1.3)], "
kernel k(inout x: [f32; N], s: f32) threads(i: N) {
    x[i] *= x[i] + s
    x[i] = x[i] / (x[i] * x[i] + s)
    x[i] -= sin(x[i])
}"),
    right("scratch output", threads([6, 1, 1]), &[Floats(&[6]), Floats(&[6]), Floats(&[6])], "
kernel k(x: [f32; N], out t: [f32; N], out y: [f32; N]) threads(i: N) {
    t[i] = x[i] * x[i]
    y[i] = t[i] * x[i]
    t[i] = t[i] * y[i]
}"),
    right("functions of the program", threads([6, 1, 1]), &[Floats(&[6]), Floats(&[6])], "
fn relu(x: f32) -> f32 { if x > 0.0 { x } else { 0.0 } }
fn power(x: f32, n: i32) -> f32 {
    var r = 1.0
    for _ in 0..n { r *= x }
    return r
}
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = relu(x[i]) * power(x[i], i) }"),
];

pub const LOOPS: &[Case] = &[
    right(
        "matmul",
        threads([3, 4, 1]),
        &[Floats(&[3, 5]), Floats(&[5, 4]), Floats(&[3, 4])],
        "
kernel k(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N]) threads(i: M, j: N) {
    var total = 0.0
    for k in 0..K { total += a[i, k] * b[k, j] }
    c[i, j] = total
}",
    ),
    right(
        "softmax row",
        threads([3, 1, 1]),
        &[Floats(&[3, 5]), Floats(&[3, 5])],
        "
kernel k(x: [f32; M, N], out y: [f32; M, N]) threads(i: M) {
    var most = x[i, 0]
    for j in 1..N { most = max(most, x[i, j]) }
    var total = 0.0
    for j in 0..N { total += exp(x[i, j] - most) }
    for j in 0..N { y[i, j] = exp(x[i, j] - most) / total }
}",
    ),
    right(
        "n-body",
        threads([5, 1, 1]),
        &[Floats(&[5]), Floats(&[5])],
        "
kernel k(x: [f32x3; N], out a: [f32x3; N]) threads(i: N) {
    var sum = f32x3(0.0)
    for j in 0..N {
        if j != i {
            let d = x[j] - x[i]
            let r = dot(d, d) + 0.1
            sum += d / (r * sqrt(r))
        }
    }
    a[i] = sum
}",
    ),
    right(
        "product",
        threads([3, 1, 1]),
        &[Floats(&[3, 6]), Floats(&[3])],
        "
kernel k(x: [f32; M, N], out y: [f32; M]) threads(i: M) {
    var p = 1.0
    for j in 0..N { p *= x[i, j] }
    y[i] = p
}",
    ),
    right(
        "nested products",
        threads([3, 1, 1]),
        &[Floats(&[3, 4]), Ints(&[2, 0, 3]), Floats(&[3])],
        "
kernel k(x: [f32; M, N], n: [i32; M], out y: [f32; M]) threads(i: M) {
    var p = 1.0
    for j in 0..N {
        var q = 0.5
        for l in 0..n[i] {
            q *= x[i, (j + l) % N] + p
            p += 0.1 * q
        }
        p *= x[i, j] + q
    }
    y[i] = p
}",
    ),
    right(
        "while with break",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[4])],
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    var v = x[i]
    var n = 0
    while true {
        v = v * v * 0.5 + x[i]
        if v > 2.0 { break }
        n += 1
        if n > 5 + i { break }
        if n % 2 == 0 { continue }
        v = sin(v) + 0.3
    }
    y[i] = v * x[i]
}",
    ),
    right(
        "newton",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[4])],
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let a = x[i] * x[i] + 1.0
    var r = a
    for n in 0..20 {
        let next = 0.5 * (r + a / r)
        if abs(next - r) < 0.001 { break }
        r = next
    }
    y[i] = r
}",
    ),
    right(
        "steps and directions",
        threads([3, 1, 1]),
        &[Floats(&[12]), Ints(&[9, 4, 1]), Floats(&[3])],
        "
kernel k(x: [f32; N], n: [i32; M], out y: [f32; M]) threads(i: M) {
    var p = 1.0
    for j in 0..n[i] step 2 { p *= x[j] * f32(j + 1) }
    for j in n[i]..0 step -3 { p = p * x[j] + 0.5 }
    for j in 0..=n[i] step i + 1 { p = sin(p) * x[j] + 0.5 }
    y[i] = p
}",
    ),
    right(
        "scan",
        threads([2, 1, 1]),
        &[Floats(&[2, 6]), Floats(&[2, 6])],
        "
kernel k(x: [f32; M, N], out y: [f32; M, N]) threads(i: M) {
    var sum = 0.0
    for j in 0..N {
        sum = sum * 0.5 + x[i, j] * sum + x[i, j]
        y[i, j] = sum
    }
}",
    ),
    right(
        "recurrence in an array",
        threads([2, 1, 1]),
        &[Floats(&[2, 6])],
        "
kernel k(inout x: [f32; M, N]) threads(i: M) {
    for j in 2..N { x[i, j] = x[i, j - 1] * x[i, j - 2] + sin(x[i, j]) }
}",
    ),
    right(
        "local array",
        threads([3, 1, 1]),
        &[Floats(&[3, 8]), Ints(&[5, 7, 2]), Floats(&[3])],
        "
kernel k(x: [f32; M, N], n: [i32; M], out y: [f32; M]) threads(i: M) {
    var t: [f32; 4] = 0.5
    for j in 0..n[i] { t[j % 4] = t[j % 4] * x[i, j] + t[(j + 1) % 4] }
    for j in 0..n[i] {
        var w: [f32; 3] = x[i, j]
        w[j % 3] *= t[j % 4]
        t[j % 4] = w[0] * w[1] + w[2]
    }
    y[i] = t[0] * t[1] + t[2] * t[3]
}",
    ),
    right(
        "found in a loop",
        threads([3, 1, 1]),
        &[Floats(&[3, 6]), Floats(&[3])],
        "
fn first(x: [f32; M, N], i: i32) -> f32 {
    var p = 1.0
    for j in 0..N {
        p *= x[i, j]
        for l in 0..j {
            p += x[i, l] * p
            if p > 1.0 { return p * x[i, l] }
        }
        if p < -0.5 { return p * p }
    }
    return p
}
kernel k(x: [f32; M, N], out y: [f32; M]) threads(i: M) { y[i] = first(x, i) * x[i, 0] }",
    ),
    right(
        "smallest distance",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[5]), Floats(&[4])],
        "
kernel k(x: [f32; N], c: [f32; K], out y: [f32; N]) threads(i: N) {
    var least = 1.0e30
    var best = 0
    for j in 0..K {
        let d = (x[i] - c[j]) * (x[i] - c[j])
        if d < least {
            least = d
            best = j
        }
    }
    y[i] = least * c[best]
}",
    ),
];

pub const BLOCKS: &[Case] = &[
    right(
        "guarded blocks",
        blocks(2, 4),
        &[Floats(&[7]), Floats(&[7])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(2) block(4) {
    let i = global_idx.x
    if i < N { y[i] = x[i] * sin(x[i]) }
}",
    ),
    right(
        "tiled matmul",
        LaunchExtents::Grid { grid: [2, 2, 1], block: [4, 4, 1] },
        &[Floats(&[5, 6]), Floats(&[6, 7]), Floats(&[5, 7])],
        "
const T: i32 = 4
kernel k(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N]) grid(ceil_div(N, T), ceil_div(M, T)) block(T, T) {
    shared ta: [f32; T, T]
    shared tb: [f32; T, T]
    let row = global_idx.y
    let col = global_idx.x
    let ty = thread_idx.y
    let tx = thread_idx.x
    var acc = 0.0
    for k0 in 0..K step T {
        ta[ty, tx] = if row < M && k0 + tx < K { a[row, k0 + tx] } else { 0.0 }
        tb[ty, tx] = if k0 + ty < K && col < N { b[k0 + ty, col] } else { 0.0 }
        barrier()
        for k in 0..T { acc += ta[ty, k] * tb[k, tx] }
        barrier()
    }
    if row < M && col < N { c[row, col] = acc }
}",
    ),
    right(
        "reduction tree",
        blocks(2, 8),
        &[Floats(&[16]), Floats(&[2])],
        "
kernel k(x: [f32; N], out y: [f32; M]) grid(2) block(8) {
    shared s: [f32; 8]
    let t = thread_idx.x
    s[t] = x[global_idx.x] * x[global_idx.x]
    barrier()
    var d = 4
    while d > 0 {
        if t < d { s[t] = s[t] + s[t + d] * s[t] }
        barrier()
        d /= 2
    }
    if t == 0 { y[block_idx.x] = s[0] }
}",
    ),
    right(
        "shuffles",
        blocks(1, 32),
        &[Floats(&[32]), Floats(&[32])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(1) block(32) {
    let v = x[thread_idx.x]
    let a = shuffle_xor(v * v, 5)
    let b = shuffle_up(v, 3)
    let c = shuffle_down(v, 7)
    let d = shuffle(v, 11)
    y[thread_idx.x] = a * b + c * v + d * d + warp_reduce_add(v * v) * v + warp_reduce_max(v * b)
}",
    ),
    right(
        "shuffles of a part of a warp",
        blocks(1, 20),
        &[Floats(&[20]), Floats(&[20])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(1) block(20) {
    let v = x[thread_idx.x]
    let a = shuffle_xor(v * v, 17)
    let b = shuffle_up(v, 3)
    let c = shuffle_down(v, 7)
    let d = shuffle(v, 11) + shuffle(v, 0)
    y[thread_idx.x] = a * b + c * v + d * d + warp_reduce_add(v * v) * v
}",
    ),
    right(
        "block softmax",
        blocks(3, 8),
        &[Floats(&[3, 20]), Floats(&[3, 20])],
        "
kernel k(x: [f32; M, N], out y: [f32; M, N]) grid(M) block(8) {
    shared s: [f32; 8]
    let t = thread_idx.x
    let row = block_idx.x
    var most = -1.0e30
    for j in t..N step 8 { most = max(most, x[row, j]) }
    s[t] = most
    barrier()
    for j in 0..8 { most = max(most, s[j]) }
    barrier()
    var sum = 0.0
    for j in t..N step 8 { sum += exp(x[row, j] - most) }
    s[t] = sum
    barrier()
    var total = 0.0
    for j in 0..8 { total += s[j] }
    for j in t..N step 8 { y[row, j] = exp(x[row, j] - most) / total }
}",
    ),
    right(
        "block scan",
        blocks(1, 8),
        &[Floats(&[8]), Floats(&[8])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(1) block(8) {
    shared s: [f32; 8]
    let t = thread_idx.x
    s[t] = x[t]
    barrier()
    for p in 0..3 {
        let d = 1 << p
        let add = if t >= d { s[t - d] * s[t] } else { 0.0 }
        barrier()
        s[t] += add
        barrier()
    }
    y[t] = s[t]
}",
    ),
    right(
        "shared atomics",
        blocks(2, 8),
        &[Floats(&[16]), Floats(&[3])],
        "
kernel k(x: [f32; N], inout y: [f32; M]) grid(2) block(8) {
    shared s: [f32; 3]
    let t = thread_idx.x
    if t < 3 { s[t] = 0.0 }
    barrier()
    atomic_add(s[t % 3], x[global_idx.x] * x[global_idx.x])
    barrier()
    if t < 3 { atomic_add(y[t], s[t] * s[t]) }
}",
    ),
];

/// Kernels whose second derivatives were once wrong.
pub const TWICE: &[Case] = &[
    // A condition selects the number of iterations. A proof once assumed that all threads take the branch that one
    // thread takes.
    right(
        "turns that depend on the thread",
        blocks(1, 4),
        &[Floats(&[4]), Floats(&[1, 4]), Floats(&[1, 64]), Floats(&[4]), Floats(&[3]), Number(0.5)],
        "
fn chain(a: f32, b: f32, n: i32) -> f32 {
    var r = a
    return r
}
fn wave(a: f32, b: f32, n: i32) -> f32 {
    return sin(a) * b
}
fn bent(a: f32, b: f32, n: i32) -> f32 {
    var r = b
    for k in 0..4 {
        if k > n { return r * a }
        r = tanh(r + a * b)
    }
    return r
}
kernel k(x: [f32; N], r: [f32; M, 4], inout y: [f32; M, 64], inout z: [f32; L], inout c: [f32; 3], s: f32) grid(1) block(4) {
    shared s9: [f32; 2]
    shared s7: [f32; 2]
    let (t, b, g) = (thread_idx.x, block_idx.x, global_idx.x)
    let e = if g < N { x[g] } else { 0.5 }
    let v1 = sin((abs((s * r[b, (g) & 3]))))
    var a2: [f32; 3] = ((v1 - 0.4f32)) / (1.0 + abs(((v1 - 0.4f32))))
    let v3 = a2[abs((0) % 3)] * a2[0]
    let v4 = warp_reduce_min(clamp((cos(cos(r[b, (g) & 3]))), -1.5, 1.5))
    let v5 = tanh((((1.5 + tanh(r[b, (t + b) & 3])) ** 1.5 * bent(r[b, (3) & 3], e, 0 & 3))))
    var v6 = ((select((z[g] - v5) < 0.4f32, e, e) - (v3 * e))) / (1.0 + abs(((select((z[g] - v5) < 0.4f32, e, e) - (v3 * e)))))
    if t < 2 { s7[t] = 0.0 }
    barrier()
    barrier()
    barrier()
    if t < 2 { s9[t] = 0.0 }
    barrier()
    atomic_add(s9[(t + b) & 1], (v6) / (1.0 + abs((v6))))
    barrier()
    let v10 = tanh(s9[(g) & 1])
    barrier()
    v6 *= sin((select(sqrt(1.5 + (v5) * (v5)) < 1.5f32, (abs(1.8f32) - (1.5 + tanh(v6)) ** 1.5), tanh(bent(1.3f32, e, g & 3)))))
    y[b, t] = hypot((v4 * v6), 1.5 + hypot(s, 1.5 + v10 * v10) * hypot(s, 1.5 + v10 * v10))
}",
    ),
];

/// Kernels in which each element is accessed by one thread, and kernels in which several threads access an element.
pub const MEETING: &[Case] = &[
    // Several threads store the same value to each element.
    right(
        "one value by several threads",
        LaunchExtents::Grid { grid: [2, 1, 1], block: [4, 3, 1] },
        &[Floats(&[8]), Floats(&[8])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(2) block(4, 3) {
    shared s: [f32; 4]
    let t = thread_idx.x
    s[t] = x[global_idx.x] * x[global_idx.x]
    barrier()
    if thread_idx.y == 1 { y[global_idx.x] = s[t] * s[3 - t] }
}",
    ),
    right(
        "one value by all",
        blocks(2, 8),
        &[Floats(&[16]), Floats(&[2]), Floats(&[2])],
        "
kernel k(x: [f32x2; N], m: [f32; M], out y: [f32x2; M]) grid(2) block(8) {
    shared s: [f32x2; 1]
    if thread_idx.x == 3 { s[0] = x[block_idx.x * 4] * m[block_idx.x] }
    barrier()
    y[block_idx.x] = s[0] * s[0].y
}",
    ),
    right(
        "other elements in other epochs",
        blocks(1, 8),
        &[Floats(&[8]), Floats(&[8])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(1) block(8) {
    let t = thread_idx.x
    let a = x[t]
    barrier()
    let b = x[(t + 1) % 8]
    barrier()
    y[t] = a * b * b
}",
    ),
    right(
        "neighbors",
        threads([6, 1, 1]),
        &[Floats(&[7]), Floats(&[6])],
        "
kernel k(x: [f32; N + 1], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i + 1] }",
    ),
    right(
        "turns of a loop over blocks",
        blocks(2, 4),
        &[Floats(&[19]), Floats(&[19])],
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(2) block(4) {
    for i in global_idx.x..N step grid_dim.x * block_dim.x {
        if x[i] > 1.2 { break }
        y[i] = x[i] * x[i]
    }
}",
    ),
    right(
        "halves",
        threads([3, 1, 1]),
        &[Floats(&[6]), Floats(&[6])],
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N / 2) {
    y[2 * i] = x[i] * x[i + N / 2]
    y[2 * i + 1] = x[N - 1 - i]
}",
    ),
];

/// Programs from the issue trackers of Warp (#1350, #1294, #1293, #1736), Taichi (#8802, #8356, #3003) and Slang
/// (#9267, #8530).
pub const MISTAKES: &[Case] = &[
    right(
        "ternary",
        threads([5, 1, 1]),
        &[Floats(&[5]), Floats(&[5])],
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let v = if x[i] > 0.0 { x[i] * 2.0 } else { x[i] * x[i] }
    y[i] = v * x[i]
}",
    ),
    right(
        "in-place mul and div",
        threads([5, 1, 1]),
        &[Floats(&[5]), Floats(&[5]), Floats(&[5])],
        "
kernel k(x: [f32; N], z: [f32; N], inout y: [f32; N]) threads(i: N) {
    y[i] *= x[i]
    y[i] /= z[i] * z[i] + 1.0
    y[i] *= y[i]
}",
    ),
    right(
        "overwritten array",
        threads([5, 1, 1]),
        &[Floats(&[5]), Floats(&[5])],
        "
kernel k(inout x: [f32; N], inout y: [f32; N]) threads(i: N) {
    let a = x[i]
    x[i] = a * a
    y[i] = x[i] * a
    x[i] = y[i] * x[i]
    y[i] = 1.0
}",
    ),
    right(
        "nested dynamic loops",
        threads([2, 1, 1]),
        &[Floats(&[2, 3]), Ints(&[3, 2]), Floats(&[2])],
        "
kernel k(x: [f32; M, N], n: [i32; M], out y: [f32; M]) threads(i: M) {
    var sum = 0.0
    for a in 0..n[i] {
        for b in 0..n[i] { sum = sum + x[i, a] * x[i, b] * sum + x[i, a] }
    }
    y[i] = sum
}",
    ),
    right(
        "norm in a loop",
        threads([2, 1, 1]),
        &[Floats(&[2, 4]), Floats(&[2])],
        "
kernel k(x: [f32; M, N], out y: [f32; M]) threads(i: M) {
    var s = 0.0
    for j in 0..N { s += x[i, j] * x[i, j] }
    y[i] = sqrt(s)
}",
    ),
    right(
        "loop-carried read after write",
        threads([2, 1, 1]),
        &[Floats(&[2, 7]), Floats(&[2])],
        "
kernel k(inout x: [f32; M, N], out y: [f32; M]) threads(i: M) {
    for j in 1..N {
        x[i, j] += 0.2 * x[i, j - 1] * x[i, j - 1]
        x[i, j - 1] = 0.7 * x[i, j]
    }
    y[i] = x[i, N - 1] * x[i, 0]
}",
    ),
    right(
        "max in a loop",
        threads([2, 1, 1]),
        &[Floats(&[2, 6]), Floats(&[2])],
        "
kernel k(x: [f32; M, N], out y: [f32; M]) threads(i: M) {
    var m = -10.0
    for j in 0..N { m = max(m, x[i, j] * x[i, j]) }
    y[i] = m
}",
    ),
    right(
        "empty loops",
        threads([3, 1, 1]),
        &[Floats(&[3]), Ints(&[0, 2, -3]), Floats(&[3])],
        "
kernel k(x: [f32; N], n: [i32; N], out y: [f32; N]) threads(i: N) {
    var p = x[i]
    for _ in 0..n[i] { p *= x[i] }
    for _ in 0..0 { p *= 3.0 }
    y[i] = p
}",
    ),
    right(
        "local overwritten in a branch of a loop",
        threads([3, 1, 1]),
        &[Floats(&[3, 6]), Floats(&[3])],
        "
kernel k(x: [f32; M, N], out y: [f32; M]) threads(i: M) {
    var a = 1.0
    var b = x[i, 0]
    for j in 0..N {
        if x[i, j] > 0.0 {
            let t = a
            a = b * x[i, j]
            b = t + a * a
        } else {
            a *= b
        }
    }
    y[i] = a * b
}",
    ),
];

pub const REFUSED: &[Case] = &[
    refused(
        "sums of other threads",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[1]), Floats(&[4])],
        "order of other threads' atomic operations",
        "
kernel k(x: [f32; N], inout s: [f32; 1], out y: [f32; N]) threads(i: N) {
    atomic_add(s[0], x[i])
    y[i] = s[0] * x[i] //!
}",
    ),
    refused(
        "conversion",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[4])],
        "conversion to `i32`",
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let n = i32(x[i] * 3.0) //!
    y[i] = f32(n) * x[i]
}",
    ),
    refused(
        "atomic max",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[1])],
        "only sums",
        "
kernel k(x: [f32; N], inout y: [f32; 1]) threads(i: N) {
    atomic_max(y[0], x[i]) //!
}",
    ),
    refused(
        "slots",
        threads([4, 1, 1]),
        &[Floats(&[4]), Ints(&[0]), Floats(&[4])],
        "order of the threads",
        "
kernel k(x: [f32; N], inout n: [i32; 1], inout y: [f32; N]) threads(i: N) {
    let at = atomic_add(n[0], 1) //!
    y[at] = x[i] * 2.0
}",
    ),
    refused(
        "gamma",
        threads([4, 1, 1]),
        &[Floats(&[4]), Floats(&[4])],
        "no derivative of this operation",
        "
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = lgamma(x[i]) //!
}",
    ),
    refused(
        "shuffle by a variable amount",
        blocks(1, 32),
        &[Floats(&[32]), Floats(&[32])],
        "not a constant",
        "
kernel k(x: [f32; N], out y: [f32; N]) grid(1) block(32) {
    y[thread_idx.x] = shuffle(x[thread_idx.x], 31 - thread_idx.x) //!
}",
    ),
];
