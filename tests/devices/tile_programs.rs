//! Tests tile programs (kernels as steps on whole tiles): which kernels are recognized as such, whether the steps of
//! random ones compute the same bits as the kernel, and whether NVRTC, if installed, compiles their text for tensor
//! cores.

use std::sync::Arc;

use clk_compile::{NoFiles, Session, default_instance};
use clk_cuda::text::{CodegenOptions, OperandStaging, cuda_text};
use clk_ir::PreparedKernel;
use clk_ir::text::{parse, parse_tiles, print, print_tiles};
use clk_ir::tiles::{TileGemmOperand, TileProgram, TileStep};
use clk_lang::libraries::nvrtc_places;
use clk_runtime::{Control, Device, FaultKind, LaunchConfig, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::Simulator;
use clk_testing::nvrtc::nvrtc;
use clk_testing::random::Random;
use clk_testing::setting;
use clk_testing::tensor_text::{complaint, complaint_of, prepared};
use clk_testing::tile_steps;
use clk_testing::tile_steps::{Arguments, Array, launch_arguments};

/// Attention, with placeholders.
const TEMPLATE: &str = "kernel tiled(q: [bf16; N, W], k: [bf16; N, W], v: [bf16; N, W], scale: f32, out o: [f32; N, W])
    grid(ceil_div(N, ROWS), ceil_div(W, HEAD)) block(64) {
    let i = ROWS * block_idx.x
    let h = HEAD * block_idx.y
    shared acc: [f32; ROWS, HEAD]
    shared scores: [f32; ROWS, KEYS]
    shared weights: [bf16; ROWS, KEYS]
    shared top: [f32; ROWS]
    shared total: [f32; ROWS]
    shared shrink: [f32; ROWS]
    acc = 0.0
    total = 0.0
    top = -1e30
    for j in 0..N step KEYS {
        scores = 0.0
        scores = mma(scores, q[i..i + ROWS, h..h + HEAD], transpose(k[j..j + KEYS, h..h + HEAD]))
        scores = select(arange(KEYS) < N - j, scores, -1e30)
        shrink = top
        top = max(top, max(scores, axis = 1))
        shrink = exp2(scale * (shrink - top))
        scores = exp2(scale * (scores - reshape(top, ROWS, 1)))
        total = total * shrink + sum(scores, axis = 1)
        weights = bf16(scores)
        acc = acc * reshape(shrink, ROWS, 1)
        acc = mma(acc, weights, v[j..j + KEYS, h..h + HEAD])
    }
    o[i..i + ROWS, h..h + HEAD] = acc / reshape(total, ROWS, 1)
}
";

fn sized(rows: u32, head: u32, keys: u32) -> String {
    let sizes = [("ROWS", rows), ("HEAD", head), ("KEYS", keys)];
    sizes.iter().fold(TEMPLATE.to_string(), |text, (name, n)| text.replace(name, &n.to_string()))
}

fn attention() -> String {
    sized(64, 32, 48)
}

fn is_found(source: &str) -> bool {
    prepared(source).module.kernel.tile_program.is_some()
}

#[test]
fn attention_is_a_tile_program_with_both_products_in_its_loop() {
    let kernel = prepared(&attention());
    let tiles = kernel.module.kernel.tile_program.as_ref().expect("it is one");
    assert_eq!((tiles.rows, tiles.counters.len()), (64, 1));
    let body = tiles.steps.iter().find_map(|step| match step {
        TileStep::Repeat { body, step: 48, .. } => Some(body),
        _ => None,
    });
    let products = body.expect("a loop").iter().filter_map(|step| match step {
        TileStep::Mma { terms, a, b, .. } => Some((*terms, matches!(a, TileGemmOperand::Tile(_)), b.transposed)),
        _ => None,
    });
    assert_eq!(products.collect::<Vec<_>>(), [(32, false, true), (48, true, false)]);
}

#[test]
fn unsupported_statements_are_not_tile_programs() {
    assert!(is_found(&attention()));
    let scaled = "acc = acc * reshape(shrink, 64, 1)";
    let cases = [
        ("values before they are there", "    acc = 0.0\n", ""),
        ("a row's value for a column", scaled, "acc = acc * reshape(sum(scores, axis = 0)[0..32], 1, 32)"),
        ("elements of other places", scaled, "scores = transpose(reshape(scores, 48, 64))"),
        ("parts of tiles", scaled, "acc[0..32, 0..32] = 0.0"),
        ("one number for the block", scaled, "let s = sum(acc)\n        acc = acc * s"),
        ("statements of threads", scaled, "acc[0, thread_idx.x] = 1.0"),
        (
            "numbers that change from iteration to iteration",
            "for j in 0..N step 48 {",
            "var s = 1.0\n    for j in 0..N step 48 {\n        s = 2.0 * s\n        acc = acc * s",
        ),
        (
            "numbers that change in operands",
            scaled,
            "var s = 1.0\n        acc = acc * { s = 2.0; s }\n        acc = acc * s",
        ),
        (
            "numbers that change in a branch",
            scaled,
            "var s = 1.0\n        if j > h { s = 2.0\n acc = acc + s }\n        acc = acc * s",
        ),
        ("a loop that ends", scaled, "if j > h { break }"),
        ("stored values are read", scaled, "acc = acc + o[i..i + 64, h..h + 32]"),
        ("the blocks of the launch", scaled, "acc = acc * f32(grid_dim.x)"),
        ("another order", "for j in 0..N step 48", "for j in N..0 step -48"),
        ("prints", scaled, "print(\"{j}\")"),
    ];
    for (what, from, to) in cases {
        let source = attention().replace(from, to);
        assert!(source != attention(), "{from}");
        let mut session = Session::default();
        if session.add("main.clk", &source, &NoFiles).failed() {
            continue;
        }
        let (id, _) = session.program.kernels.iter().find(|(_, kernel)| kernel.name == "tiled").expect("a kernel");
        let instance = default_instance(&session.program, id).expect("no compile-time arguments");
        let Ok(module) = clk_lower::lower(&session.program, &instance) else { continue };
        assert!(module.kernel.tile_program.is_none(), "{what}:\n{source}");
    }
    for (what, [rows, head, keys]) in
        [("rows", [56, 32, 48]), ("too many rows", [256, 32, 48]), ("columns", [64, 36, 48]), ("terms", [64, 32, 40])]
    {
        assert!(!is_found(&sized(rows, head, keys)), "{what}");
    }
}

// Bits

/// Returns a random element of an operand; some elements are far smaller or larger than others.
fn element(random: &mut Random, scalar: Scalar) -> u32 {
    let x = (random.next_below(2001) as f32 - 1000.0) / 500.0 * [1.0, 1.0, 1e-3, 30.0][random.next_below(4)];
    match scalar {
        Scalar::Bf16 => x.to_bits() >> 16,
        Scalar::F16 => ScalarValue { ty: Scalar::F32, bits: x.to_bits().into() }.to_type(Scalar::F16).bits as u32,
        _ => x.to_bits(),
    }
}

/// Returns a random expression whose value is a tile of `[64, 24]` elements or, if `of_rows`, one value per row.
fn expression(r: &mut Random, of_rows: bool, depth: u32) -> String {
    if depth == 0 || r.next_below(4) == 0 {
        return match of_rows {
            true => r.pick(&["low", "high", "1.5", "each[i..i + 64]", "f32(i)", "max(t, axis = 1)"]).into(),
            false => r
                .pick(&[
                    "t",
                    "u",
                    "reshape(low, 64, 1)",
                    "bias[j..j + 24]",
                    "rest[i..i + 64, j..j + 24]",
                    "f32(arange(24))",
                    "-0.25",
                ])
                .into(),
        };
    }
    let (a, b) = (expression(r, of_rows, depth - 1), expression(r, of_rows, depth - 1));
    match r.next_below(7) {
        0 => format!("({a} + {b})"),
        1 => format!("({a} - {b})"),
        2 => format!("max(min({a} * {b}, 9.0), -9.0)"),
        3 => format!("min({a}, {b})"),
        4 if of_rows => format!("sum({}, axis = 1)", whole(r, false, depth - 1)),
        4 => format!("select(j + arange(24) < reshape(arange(64), 64, 1), {a}, {b})"),
        5 if of_rows => format!("max({}, axis = 1)", whole(r, false, depth - 1)),
        _ => format!("abs({a})"),
    }
}

fn whole(r: &mut Random, of_rows: bool, depth: u32) -> String {
    // Adds a term with the required shape, since the expression alone may have another shape.
    let shape = if of_rows { "0.0 * low" } else { "0.0 * t" };
    format!("{shape} + {}", expression(r, of_rows, depth))
}

fn statement(r: &mut Random, level: u32) -> String {
    match r.next_below(if level > 0 { 9 } else { 7 }) {
        0 => format!("t = {}", whole(r, false, 3)),
        1 => format!("u = {}", whole(r, false, 2)),
        2 => format!("low = {}", whole(r, true, 2)),
        3 => format!("high {} {}", r.pick(&["+=", "-=", "="]), whole(r, true, 3)),
        4 => format!("f = bf16({})\nt = mma(t, f, b[j..j + 32, 3..27])", r.pick(&["wide", "0.5 * wide + reshape(low, 64, 1)"])),
        5 => format!("{} = mma(t, a[i..i + 64, j..j + 16], {})", "t", r.pick(&["b[0..16, j..j + 24]", "transpose(c[j..j + 24, i..i + 16])"])),
        6 => "u = 0.0\nu = mma(u, a[i..i + 64, 0..48], transpose(c[5..29, 0..48]))\nwide = 0.0\nwide = mma(wide, bf16(wide), b[1..33, 0..32])".into(),
        7 => {
            let [then, other] = [0; 2].map(|_| statement(r, level - 1));
            let scaled = format!("var s = 0.5 * f32(j)\nfor q in 0..min(j, 3) {{ if q + i > 1 {{ s = s - 1.0 }} }}\nu = s * ({})", whole(r, false, 1));
            format!("if (j + i) % {} == 0 {{\n{scaled}\n{then}\n}} else {{\n{other}\n}}", 2 + r.next_below(2))
        }
        _ => {
            let body: Vec<String> = (0..=r.next_below(4)).map(|_| statement(r, level - 1)).collect();
            let name = if level == 2 { "m" } else { "n" };
            format!("for {name} in {}..{} step {} {{\nlet j = 8 * {name} - 8\n{}\n}}", r.next_below(2), r.next_below(4), 1 + r.next_below(2), body.join("\n"))
        }
    }
}

/// The shape and the elements of an array.
type Shaped = (&'static [u32], Scalar);

/// Batched products, grouped products and convolutions: kernels with their arrays (the last array is the output) and
/// their grids.
const OF_MORE_AXES: [(&str, &[Shaped], [u32; 3]); 5] = [
    (
        "kernel tiled(a: [bf16; Z, M, K], b: [bf16; Z, K, N], out c: [f32; Z, M, N]) grid(ceil_div(N, 16), ceil_div(M, 64), Z) block(32) {
    let (i, j) = (64 * block_idx.y, 16 * block_idx.x)
    let z = block_idx.z
    shared acc: [f32; 64, 16]
    acc = 0.0
    for k in 0..K step 32 { acc = mma(acc, a[z, i..i + 64, k..k + 32], b[z, k..k + 32, j..j + 16]) }
    c[z, i..i + 64, j..j + 16] = acc
}",
        &[(&[2, 70, 40], Scalar::Bf16), (&[2, 40, 24], Scalar::Bf16), (&[2, 70, 24], Scalar::F32)],
        [2, 2, 2],
    ),
    (
        "kernel tiled(x: [bf16; T, K], w: [bf16; G, N, K], first: [i32; G], count: [i32; G], out y: [f32; T, N])
    grid(ceil_div(N, 16), ceil_div(T, 64), G) block(32) {
    let (g, j) = (block_idx.z, 16 * block_idx.x)
    let (i, end) = (first[g] + 64 * block_idx.y, first[g] + count[g])
    shared acc: [f32; 64, 16]
    if i < end {
        acc = 0.0
        for k in 0..K step 16 { acc = mma(acc, x[i..i + 64, k..k + 16], transpose(w[g, j..j + 16, k..k + 16])) }
        y[i..min(i + 64, end), j..j + 16] = acc
    }
}",
        &[(&[90, 24], Scalar::Bf16), (&[3, 20, 24], Scalar::Bf16), (&[3], Scalar::I32), (&[3], Scalar::I32), (&[90, 20], Scalar::F32)],
        [2, 2, 3],
    ),
    (
        "kernel tiled(x: [bf16; B, H, W, C], w: [bf16; R, S, C, F], bias: [f32; F], out o: [f32; B, P, Q, F])
    grid(ceil_div(F, 16), ceil_div(P, 8) * ceil_div(Q, 8), B) block(32) {
    let (n, f) = (block_idx.z, 16 * block_idx.x)
    let (p, q) = (8 * (block_idx.y / ceil_div(Q, 8)), 8 * (block_idx.y % ceil_div(Q, 8)))
    shared acc: [f32; 64, 16]
    acc = 0.0
    for r in 0..R {
        for s in 0..S {
            let (y, x0) = (p + r - R / 2, q + s - S / 2)
            for k in 0..C step 16 {
                acc = mma(acc, reshape(x[n, y..y + 8, x0..x0 + 8, k..k + 16], 64, 16), w[r, s, k..k + 16, f..f + 16])
            }
        }
    }
    o[n, p..p + 8, q..q + 8, f..f + 16] = max(reshape(acc, 8, 8, 16) + bias[f..f + 16], 0.0)
}",
        &[(&[2, 9, 11, 24], Scalar::Bf16), (&[3, 3, 24, 17], Scalar::Bf16), (&[17], Scalar::F32), (&[2, 9, 11, 17], Scalar::F32)],
        [2, 4, 2],
    ),
    (
        // A convolution with stride 2 and padding 1. The output channel is the first axis of the filters, and sums
        // begin at 1.
        "kernel tiled(x: [f16; B, H, W, C], w: [f16; F, R, S, C], out o: [f16; B, P, Q, F])
    grid(ceil_div(F, 16), ceil_div(Q, 8), B) block(32) {
    let (f, q) = (16 * block_idx.x, 8 * block_idx.y)
    let n = block_idx.z
    shared acc: [f32; 64, 16]
    for p in 0..P step 8 {
        acc = 1.0
        for r in 0..R {
            for s in 0..S {
                let (y, x0) = (2 * p + r - 1, 2 * q + s - 1)
                acc = mma(acc, reshape(x[n, y..y + 16 step 2, x0..x0 + 16 step 2, 0..32], 64, 32), transpose(w[f..f + 16, r, s, 0..32]))
            }
        }
        o[n, p..p + 8, q..q + 8, f..f + 16] = f16(reshape(acc, 8, 8, 16))
    }
}",
        &[(&[2, 19, 13, 32], Scalar::F16), (&[20, 3, 3, 32], Scalar::F16), (&[2, 10, 7, 20], Scalar::F16)],
        [2, 1, 2],
    ),
    (
        "kernel tiled(a: [bf16; M, H, K], b: [bf16; N, K], out c: [f32; M, N]) grid(ceil_div(M, 64), 2) block(32) {
    let i = 64 * block_idx.x
    shared acc: [f32; 64, 24]
    shared top: [f32; 64]
    acc = 0.0
    top = 0.0
    for h in 0..H {
        if (h + block_idx.y) % 2 == 0 {
            acc = mma(acc, a[i..i + 64, h, 0..32], transpose(b[0..24, 0..32]))
            top = max(acc, axis = 1)
        } else {
            acc = acc - reshape(top, 64, 1)
        }
    }
    if block_idx.y == 1 { c[i..i + 64, 0..24] = acc }
}",
        &[(&[70, 5, 32], Scalar::Bf16), (&[23, 32], Scalar::Bf16), (&[70, 23], Scalar::F32)],
        [2, 2, 1],
    ),
];

/// Kernels with tf32 operands: loaded operands, contiguous along the summed axis or across it, and computed operands.
const ROUNDED: [(&str, &[Shaped], [u32; 3]); 2] = [
    (
        "kernel tiled(q: [f32; B, N, 32], k: [f32; B, N, 32], v: [f32; B, N, 24], out o: [f32; B, N, 24]) grid(ceil_div(N, 64), B) block(32) {
    let (i, z) = (64 * block_idx.x, block_idx.y)
    shared acc: [f32; 64, 24]
    shared scores: [f32; 64, 48]
    shared top: [f32; 64]
    acc = 0.0
    for j in 0..N step 48 {
        scores = 0.0
        scores = mma(scores, tf32(q[z, i..i + 64, ..]), transpose(tf32(k[z, j..j + 48, ..])))
        top = max(scores, axis = 1)
        scores = select(j + arange(48) < N, scores - reshape(top, 64, 1), 0.0)
        acc = mma(acc, tf32(scores), tf32(v[z, j..j + 48, ..]))
    }
    o[z, i..i + 64, ..] = acc
}",
        &[
            (&[2, 70, 32], Scalar::F32),
            (&[2, 70, 32], Scalar::F32),
            (&[2, 70, 24], Scalar::F32),
            (&[2, 70, 24], Scalar::F32),
        ],
        [2, 2, 1],
    ),
    (
        "kernel tiled(a: [f32; K, M], b: [f32; K, N], out c: [f32; M, N]) grid(ceil_div(M, 128)) block(32) {
    let i = 128 * block_idx.x
    shared acc: [f32; 128, 40]
    acc = 0.0
    for k in 0..K step 48 {
        acc = mma(acc, tf32(transpose(a[k..k + 48, i..i + 128])), tf32(b[k..k + 48, 0..40]))
    }
    c[i..i + 128, 0..40] = acc - reshape(max(acc, axis = 1), 128, 1)
}",
        &[(&[52, 132], Scalar::F32), (&[52, 36], Scalar::F32), (&[132, 36], Scalar::F32)],
        [2, 1, 1],
    ),
];

/// Runs a kernel on the simulator, and the steps of its tile program one by one, with the same random arrays; returns
/// both results.
fn both_ways(source: &str, arrays: &[(&[u32], Scalar)], grid: [u32; 3], seed: u64) -> [Vec<u32>; 2] {
    let kernel = prepared(source);
    let tiles = kernel.module.kernel.tile_program.clone().unwrap_or_else(|| panic!("no program of tiles:\n{source}"));
    let mut r = Random::from_seed(seed);
    let mut arguments: Arguments = vec![];
    for (k, (shape, scalar)) in arrays.iter().enumerate() {
        let written = k + 1 == arrays.len();
        let count = shape.iter().product::<u32>();
        let array = match (written, scalar) {
            (true, _) => Array::zeros(shape, *scalar),
            // One `i32` array has the first row of each group, and another has the number of rows of each group.
            (_, Scalar::I32) => Array::new(shape, *scalar, if k == 2 { [0, 3, 3] } else { [3, 0, 87] }),
            _ => Array::new(shape, *scalar, (0..count).map(|_| element(&mut r, *scalar)).collect::<Vec<_>>()),
        };
        arguments.push((array, written));
    }
    let mut expected = arguments.clone();
    tile_steps::run(&tiles, &mut arguments, grid);
    let executable = Simulator::default().load(Arc::new(kernel), None);
    let control = Control::default();
    let extents = LaunchExtents::Grid { grid, block: [32, 1, 1] };
    executable
        .launch(&LaunchConfig::from(extents).synchronous(), &mut launch_arguments(&mut expected), &control)
        .expect("no fault");
    [arguments, expected].map(|arguments| arguments.last().map(|(array, _)| array.elements()).unwrap_or_default())
}

#[test]
fn tile_programs_match_the_bits_of_their_kernels() {
    for (source, arrays, grid) in OF_MORE_AXES.into_iter().chain(ROUNDED) {
        let [actual, expected] = both_ways(source, arrays, grid, 7);
        assert!(expected.iter().filter(|&&bits| bits != 0).count() * 3 > expected.len(), "{source}");
        assert_eq!(actual.iter().zip(&expected).position(|(x, y)| x != y), None, "{source}");
    }
}

fn random_program(seed: u64) -> String {
    let mut r = Random::from_seed(seed ^ 0x5DEECE66D);
    let body: Vec<String> = (0..5).map(|_| statement(&mut r, 2)).collect();
    format!(
        "kernel tiled(a: [bf16; M, K], b: [bf16; K, N], c: [bf16; N, K], bias: [f32; N], each: [f32; M], rest: [f32; M, N], out o: [f32; M, N],
    out s: [f32; M]) grid(1, ceil_div(M, 64)) block(32) {{
    let i = 64 * block_idx.y
    let j = 16 * block_idx.x
    shared t: [f32; 64, 24]
    shared u: [f32; 64, 24]
    shared wide: [f32; 64, 32]
    shared f: [bf16; 64, 32]
    shared low: [f32; 64]
    shared high: [f32; 64]
    low = each[i..i + 64]
    high = 0.5
    t = rest[i..i + 64, 0..24]
    u = 1.0
    wide = reshape(low, 64, 1) + f32(arange(32))
    t = mma(t, a[i..i + 64, 0..32], b[0..32, 0..24])
    {}
    o[i..i + 64, 0..24] = t + u * reshape(low, 64, 1) + 0.0 * sum_of(high)
    s[i..i + 64] = high + sum(wide, axis = 1)
}}
",
        body.join("\n    ")
    )
    .replace(" + 0.0 * sum_of(high)", "")
}

#[test]
fn random_tile_programs_match_the_bits_of_their_kernels() {
    let count = setting("CLK_RANDOM_PROGRAMS", 6_u64);
    let first = setting("CLK_RANDOM_SEED", 1_u64);
    let mut stored = 0;
    for seed in first..first + count {
        let source = random_program(seed);
        let kernel = prepared(&source);
        let tiles =
            kernel.module.kernel.tile_program.clone().unwrap_or_else(|| panic!("no program of tiles:\n{source}"));
        let mut r = Random::from_seed(seed);
        let (m, k, n) = (61, 47, 26);
        let array = |r: &mut Random, shape: &[u32], scalar: Scalar| {
            let count = shape.iter().product::<u32>();
            Array::new(shape, scalar, (0..count).map(|_| element(r, scalar)).collect::<Vec<_>>())
        };
        let mut arguments: Arguments = vec![
            (array(&mut r, &[m, k], Scalar::Bf16), false),
            (array(&mut r, &[k, n], Scalar::Bf16), false),
            (array(&mut r, &[n, k], Scalar::Bf16), false),
            (array(&mut r, &[n], Scalar::F32), false),
            (array(&mut r, &[m], Scalar::F32), false),
            (array(&mut r, &[m, n], Scalar::F32), false),
            (Array::zeros(&[m, n], Scalar::F32), true),
            (Array::zeros(&[m], Scalar::F32), true),
        ];
        let mut expected = arguments.clone();
        let grid = [1, m.div_ceil(64), 1];
        tile_steps::run(&tiles, &mut arguments, grid);
        let executable = Simulator::default().load(Arc::new(kernel), None);
        let control = Control::default();
        let extents = LaunchExtents::Grid { grid, block: [32, 1, 1] };
        executable
            .launch(&LaunchConfig::from(extents).synchronous(), &mut launch_arguments(&mut expected), &control)
            .expect("no fault");
        for at in [6, 7] {
            let [actual, expected_elements] = [&arguments, &expected].map(|arguments| arguments[at].0.elements());
            let same = |(&x, &y): (&u32, &u32)| x == y || f32::from_bits(x).is_nan() && f32::from_bits(y).is_nan();
            let differs = actual.iter().zip(&expected_elements).position(|pair| !same(pair));
            assert_eq!(
                differs.map(|k| (k, f32::from_bits(actual[k]), f32::from_bits(expected_elements[k]))),
                None,
                "seed {seed}:\n{source}"
            );
            stored += u64::from(expected_elements.iter().any(|&bits| bits != 0));
        }
    }
    assert!(stored > count, "most programs store something");
}

// Texts

/// Returns tile programs with all kinds of steps and operands.
fn programs() -> Vec<String> {
    let wide = sized(128, 128, 128);
    let rounded = ROUNDED[0].0.replace(" 24", " 64").replace("48", "64").replace("64 * block_idx", "128 * block_idx");
    let rounded = rounded.replace("i + 64", "i + 128").replace("[f32; 64", "[f32; 128").replace("top, 64", "top, 128");
    let causal = wide
        .replace("0..N step", "0..i + 128 step")
        .replace("select(arange(128) < N - j", "select(i + reshape(arange(128), 128, 1) >= j + arange(128)");
    let halves = attention().replace("bf16", "f16");
    let mut sources = vec![attention(), rounded, wide, causal, halves, random_program(1), random_program(4)];
    sources.extend(OF_MORE_AXES.into_iter().chain(ROUNDED).map(|(source, ..)| source.to_string()));
    sources
}

#[test]
fn tile_program_texts_compile_without_spills() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    for source in programs().into_iter().chain([sized(192, 128, 80)]) {
        let complaint =
            |source: &str| complaint(&nvrtc, &prepared(source), OperandStaging::Boxes, &["serializ", "setmaxnreg"]);
        // Operands that are copied in boxes must begin at a multiple of 16 bytes.
        let whole = source.replace("3..27]", "8..32]");
        assert_eq!(complaint(&whole), None, "{whole}");
        if whole != source {
            assert_eq!(complaint(&source).as_deref(), Some("it has the usual text"), "{source}");
        }
    }
}

/// Compiles the texts for GPUs from sm_80 on, each with its limit of shared memory.
#[test]
fn tile_program_texts_for_all_tensor_cores_compile_without_spills() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let supported = nvrtc.architectures();
    let pieces = OperandStaging::Pieces { packed: [false; 2] };
    for architecture in [80, 86, 89, 90, 120].into_iter().filter(|architecture| supported.contains(architecture)) {
        for source in programs().into_iter().chain([sized(192, 64, 80)]) {
            let complaint = complaint_of(&nvrtc, architecture, &prepared(&source), pieces, &["ptxas warning"]);
            assert_eq!(complaint, None, "sm_{architecture} {source}");
        }
    }
}

/// Returns the tile programs in a file of the repository.
fn programs_in(file: &str) -> Vec<PreparedKernel> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut session = Session::default();
    assert!(!session.add(file, &source, &NoFiles).failed(), "{file}");
    let instances = session.program.kernels.iter().filter_map(|(id, _)| default_instance(&session.program, id));
    let modules = instances.filter_map(|instance| clk_lower::lower(&session.program, &instance).ok());
    modules
        .filter(|module| module.kernel.tile_program.is_some())
        .filter_map(|module| clk_pass::prepare(module).ok())
        .collect()
}

/// Compiles the tile programs of several files, each of them for one GPU architecture.
#[test]
fn tile_program_texts_of_files_compile_without_spills() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let supported = nvrtc.architectures();
    let architectures: Vec<u32> = [80, 86, 89, 90, 120].into_iter().filter(|a| supported.contains(a)).collect();
    let files = [
        ("tests/gpu/tiles.clk", 21),
        ("tests/peers/attention.clk", 2),
        ("examples/batched_products.clk", 1),
        ("examples/grouped_products.clk", 1),
        ("examples/convolution.clk", 1),
    ];
    let pieces = OperandStaging::Pieces { packed: [false; 2] };
    let mut turns = architectures.iter().cycle();
    for (file, count) in files {
        let programs = programs_in(file);
        assert_eq!(programs.len(), count, "{file}");
        for (program, &architecture) in programs.iter().zip(&mut turns) {
            let complaint = complaint_of(&nvrtc, architecture, program, pieces, &["ptxas warning"]);
            assert_eq!(complaint, None, "sm_{architecture} {file} {}", program.module.kernel.name);
        }
    }
}

/// Checks that the text of a tile program reads back to the same program, without spans and with canonical numbers of
/// expressions.
#[track_caller]
fn round_trips(program: &TileProgram) {
    let shown = print_tiles(program);
    let mut expected = program.clone();
    expected.each_module_mut(&mut |element| *element = parse(&print(element)).expect("a printed kernel"));
    let parsed = parse_tiles(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    assert!(parsed == expected, "{shown}");
    assert_eq!(print_tiles(&parsed), shown);
}

#[test]
fn tile_programs_of_files_round_trip() {
    let examples =
        std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).expect("examples");
    let names = examples.map(|entry| entry.expect("a file").file_name().into_string().expect("a name"));
    let mut files: Vec<String> =
        names.filter(|name| name.ends_with(".clk")).map(|name| format!("examples/{name}")).collect();
    files.extend(["tests/gpu/tiles.clk", "tests/peers/attention.clk"].map(String::from));
    let mut count = 0;
    for file in files {
        for kernel in programs_in(&file) {
            round_trips(kernel.module.kernel.tile_program.as_ref().expect("it is one"));
            count += 1;
        }
    }
    assert!(count >= 26, "{count} programs");
}

#[test]
fn random_tile_programs_round_trip() {
    for seed in 1..9 {
        let kernel = prepared(&random_program(seed));
        round_trips(kernel.module.kernel.tile_program.as_ref().expect("it is one"));
    }
}

fn text(source: &str) -> String {
    let options = CodegenOptions { product: Some(OperandStaging::Boxes), ..CodegenOptions::default() };
    cuda_text(&prepared(source), &options, None).text
}

#[test]
fn conditions_are_omitted_for_full_tiles() {
    let mask = "select(arange(48) < N - j, scores, -1e30)";
    let cases = [
        (mask, Some("0, 0), 0, 47, "), "columns"),
        ("select(i + reshape(arange(64), 64, 1) >= j + arange(48), scores, -1e30)", Some("0, 0), 0, 47, "), "rows"),
        (
            "select(3 * arange(48) - reshape(arange(64), 64, 1) <= N, scores, -1e30)",
            Some("0, 0), -63, 141, "),
            "both axes",
        ),
        ("select(arange(48) * arange(48) < N, scores, -1e30)", None, "squares"),
        ("select(scores < 1.0, scores, -1e30)", None, "values"),
        ("select(arange(48) == N - j, scores, -1e30)", None, "equality"),
    ];
    for (condition, expected, what) in cases {
        let text = text(&attention().replace(mask, condition));
        let calls: Vec<&str> = text.lines().filter(|line| line.contains("tiles::ordered(")).collect();
        assert_eq!(!calls.is_empty(), expected.is_some(), "{what}");
        if let Some(expected) = expected {
            assert!(
                calls.iter().all(|call| call.contains("if (!tiles::ordered(") && call.contains(expected)),
                "{what}: {calls:#?}"
            );
        }
    }
    // If the statement also changes unmasked elements, both branches of the generated test compute elements.
    let text = text(&attention().replace(mask, "select(arange(48) < N - j, 2.0 * scores, -1e30)"));
    let calls = text.lines().filter(|line| line.contains("if (tiles::ordered(")).count();
    assert_eq!((calls > 0, text.contains("if (!tiles::ordered(")), (true, false));
}

#[test]
fn faulting_or_large_tile_programs_use_the_scalar_text() {
    let is_usual = |source: &str| {
        let kernel = prepared(source);
        assert!(kernel.module.kernel.tile_program.is_some(), "{source}");
        let options = CodegenOptions { product: Some(OperandStaging::Boxes), ..CodegenOptions::default() };
        cuda_text(&kernel, &options, None).options.product.is_none()
    };
    assert!(!is_usual(&attention()));
    let params = "scale: f32, at: [i32; 1], rest: [f32; L]";
    let faulty = attention().replace("scale: f32", params).replace("= acc / ", "= rest[at[0]] * acc / ");
    assert!(is_usual(&faulty));
    assert!(is_usual(&sized(192, 128, 128)));
}

// Memory

/// A kernel with four tiles of 64 KiB each.
const LARGE: &str = "kernel tiled(a: [bf16; M, 16], b: [bf16; 16, N], out o: [f32; M, N]) grid(1) block(128) {
    shared s: [f32; 64, 8]
    shared t: [f32; 64, 256]
    shared u: [f32; 64, 256]
    shared v: [f32; 64, 256]
    shared w: [f32; 64, 256]
    s = 0.0
    s = mma(s, a[0..64, ..], b[.., 0..8])
    t = reshape(sum(s, axis = 1), 64, 1) + f32(arange(256)) * 0.0
    u = t + 1.0
    v = u - t
    w = v
    o[0..64, 0..256] = w
}
";

#[test]
fn tile_programs_may_exceed_the_shared_memory_of_blocks() {
    let run = |source: &str| {
        let (m, n) = (3, 2);
        let array = |shape: &[u32]| (Array::zeros(shape, Scalar::Bf16), false);
        let mut arguments = vec![array(&[m, 16]), array(&[16, n]), (Array::zeros(&[m, n], Scalar::F32), true)];
        let executable = Simulator::default().load(Arc::new(prepared(source)), None);
        let control = Control::default();
        let extents = LaunchExtents::Grid { grid: [1; 3], block: [128, 1, 1] };
        let ran = executable.launch(
            &LaunchConfig::from(extents).synchronous(),
            &mut launch_arguments(&mut arguments),
            &control,
        );
        ran.map(|_| arguments[2].0.elements()).map_err(|fault| fault.kind)
    };
    assert_eq!(run(LARGE), Ok(vec![1_f32.to_bits(); 6]));
    let of_threads = LARGE.replace("    u = t", "    t[0, 0] = 0.0\n    u = t");
    let refused = run(&of_threads);
    assert!(
        matches!(refused, Err(FaultKind::SharedSize { bytes, limit: 232448 }) if bytes >= 4 * 65536),
        "{refused:?}"
    );
}
