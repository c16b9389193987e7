//! Triton. Its names have the prefix of their module, because most have another meaning without it.

use super::row::{ClkEquivalent, ForeignName, NameOrigin};

const fn name(names: &'static str, clk: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Triton, names, ClkEquivalent::Name(clk))
}

const fn code(names: &'static str, clk: &'static str, note: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Triton, names, ClkEquivalent::Code { clk, note })
}

const fn absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Triton, names, ClkEquivalent::Absent { reason, alternative })
}

pub(super) const ROWS: &[ForeignName] = &[
    absent(
        "tl triton",
        "tiles are parts of arrays, not of pointers",
        "`x[i..i + 64]` is a tile, and `block_idx.x` is `tl.program_id(0)`",
    ),
    code("tl.program_id program_id", "block_idx.x", "for axis 0"),
    code("tl.num_programs num_programs", "grid_dim.x", "for axis 0"),
    code("tl.arange", "x[i..i + 64]", "this is a tile; the index of a single thread is `global_idx.x`"),
    code("tl.load", "x[i..i + 64]", "a tile is 0 beyond the edge; for one element, `if i < N { x[i] } else { 0.0 }`"),
    code(
        "tl.store",
        "r[i..i + 64] = y[i..i + 64]",
        "stores beyond the edge are dropped; for one element, `if i < N { r[i] = v }`",
    ),
    code("store", "r[i] = v", "a mask is an `if`: `if i < N { r[i] = v }`").common(),
    name("tl.trans", "transpose"),
    name("tl.where", "select"),
    code(
        "tl.dot",
        "acc = mma(acc, a[i..i + 16, k..k + 16], b[k..k + 16, j..j + 16])",
        "for tiles; for whole arrays in a script, `a @ b`",
    ),
    code("tl.sum", "sum(x[i..i + 64])", "for tiles; `warp_reduce_add(v)` adds up a warp"),
    code("tl.max", "max(x[i..i + 64])", "for tiles; `warp_reduce_max(v)` takes the maximum of a warp"),
    code("tl.min", "min(x[i..i + 64])", "for tiles; `warp_reduce_min(v)` takes the minimum of a warp"),
    absent(
        "tl.argmax tl.argmin",
        "tiles have no positions of extremes",
        "use `argmax(x, axis = 1)` in the script, or a loop that keeps the best index",
    ),
    absent(
        "tl.cumsum tl.associative_scan",
        "tiles have no scans",
        "`import std.scan` has `scan.inclusive(x)` for scripts",
    ),
    absent("tl.sort", "tiles have no sort", "use `sort(x)` in the script"),
    code("tl.zeros", "shared acc: [f32; 16, 16]", "then `acc = 0.0` sets all elements"),
    code("tl.full", "shared acc: [f32; 16, 16]", "then `acc = v` sets all elements"),
    code("tl.broadcast_to", "x[i..i + 64] + reshape(y[0..4], 4, 1)", "operators broadcast tiles"),
    code(
        "tl.constexpr",
        "kernel f<const BLOCK: i32 = 128>(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] }",
        "",
    ),
    code("tl.atomic_add", "atomic_add(total[i], 1)", "each thread updates one element"),
    code("tl.atomic_max", "atomic_max(total[i], 1)", "each thread updates one element"),
    code("tl.atomic_min", "atomic_min(total[i], 1)", "each thread updates one element"),
    code("tl.atomic_xchg", "atomic_exchange(total[i], 1)", "each thread updates one element"),
    code("tl.atomic_cas", "atomic_compare_exchange(total[i], 0, 1)", "each thread updates one element"),
    code("tl.make_block_ptr tl.advance", "a[i..i + 16, j..j + 16]", "a tile needs no pointer: change `i` and `j`"),
    name("tl.debug_barrier", "barrier"),
    code("tl.static_range", "for j in 0..4 { print(j) }", "`#unroll` before the loop unrolls it"),
    code(
        "tl.rand",
        "random.uniform(rng)",
        "the numbers of thread `i` start with `var rng = random.stream(seed, u32(i))`",
    ),
    code(
        "tl.randn",
        "random.normal(rng)",
        "the numbers of thread `i` start with `var rng = random.stream(seed, u32(i))`",
    ),
    code("tl.sigmoid", "nn.sigmoid(v)", ""),
    code("tl.softmax", "nn.softmax(a)", "in a script; it takes the rows of a matrix"),
    name("tl.float16", "f16"),
    name("tl.bfloat16", "bf16"),
    name("tl.float32", "f32"),
    name("tl.float64", "f64"),
    name("tl.int32", "i32"),
    name("tl.int64", "i64"),
    code("tl.device_print", "print(\"v = {v}\")", ""),
    code("tl.device_assert tl.static_assert", "assert(v > 0.0)", ""),
    code("triton.jit", "kernel f(x: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = x[i] }", ""),
    absent(
        "triton.autotune triton.Config",
        "the kernel's head lists the values to try",
        "write `tune BM in [64, 128]` after the geometry; `clk tune` measures them",
    ),
    code("triton.next_power_of_2 next_power_of_2", "1 << (32 - clz(n - 1))", "for `n` above 1"),
    code("triton.testing.do_bench do_bench", "bench \"f\" { f(y) }", "`clk bench` runs it"),
];
