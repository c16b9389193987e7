//! Tile kernels that are matrix products: tests that they are recognized, and compiles their tensor-core text with
//! NVRTC if it is installed.

use std::sync::Arc;

use clk_compile::{NoFiles, Session, default_instance};
use clk_cuda::text::{CodegenOptions, OperandStaging, cuda_text};
use clk_ir::PreparedKernel;
use clk_ir::def::Kernel;
use clk_lang::libraries::nvrtc_places;
use clk_runtime::{Control, Device, LaunchConfig, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::Simulator;
use clk_testing::nvrtc::nvrtc;
use clk_testing::random::Random;
use clk_testing::tensor_text::{complaint, complaint_of, lowered, prepared};
use clk_testing::tile_steps::{self, Arguments, Array, launch_arguments};

/// The source of a matrix product kernel in replaceable parts.
struct Parts<'a> {
    params: &'a str,
    origin: &'a str,
    zero: &'a str,
    terms: &'a str,
    before_sum: &'a str,
    a: &'a str,
    b: &'a str,
    after: &'a str,
}

const USUAL: Parts<'static> = Parts {
    params: "a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]",
    origin: "16 * block_idx.y",
    zero: "acc = 0.0",
    terms: "0..K step 32",
    before_sum: "",
    a: "a[i..i + 16, k..k + 32]",
    b: "b[k..k + 32, j..j + 32]",
    after: "c[i..i + 16, j..j + 32] = acc",
};

/// Products with tf32 operands in all layouts. The tensor core instruction requires both operands to be contiguous
/// along the summed axis, as they are in the first product.
const ROUNDED: [Parts<'static>; 4] = [
    Parts {
        params: "a: [f32; M, K], b: [f32; N, K], out c: [f32; M, N]",
        a: "tf32(a[i..i + 16, k..k + 32])",
        b: "transpose(tf32(b[j..j + 32, k..k + 32]))",
        ..USUAL
    },
    Parts {
        params: "a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N]",
        a: "tf32(a[i..i + 16, k..k + 32])",
        b: "tf32(b[k..k + 32, j..j + 32])",
        ..USUAL
    },
    Parts {
        params: "a: [f32; K, M], b: [f32; K, N], out c: [f32; M, N]",
        a: "tf32(transpose(a[k..k + 32, i..i + 16]))",
        b: "tf32(b[k..k + 32, j..j + 32])",
        ..USUAL
    },
    Parts {
        params: "a: [f32; K, M], b: [f32; N, K], out c: [f32; M, N]",
        a: "transpose(tf32(a[k..k + 32, i..i + 16]))",
        b: "transpose(tf32(b[j..j + 32, k..k + 32]))",
        ..USUAL
    },
];

fn source(parts: &Parts<'_>) -> String {
    let Parts { params, origin, zero, terms, before_sum, a, b, after } = parts;
    format!(
        "import std.nn.{{gelu}}
kernel product({params}) grid(ceil_div(N, 32), ceil_div(M, 16)) block(64) {{
    let i = {origin}
    let j = 32 * block_idx.x
    shared acc: [f32; 16, 32]
    {zero}
    for k in {terms} {{ {before_sum}acc = mma(acc, {a}, {b}) }}
    {after}
}}
"
    )
}

#[track_caller]
fn is_product(parts: &Parts<'_>) -> bool {
    prepared(&source(parts)).module.kernel.gemm.is_some()
}

/// A random kernel that is a matrix product.
struct RandomProduct {
    source: String,
    /// The same kernel, but it only stores the product to `c`.
    plain: String,
    of: Scalar,
    tile: [u32; 2],
    transposed: [bool; 2],
}

fn random_product(seed: u64) -> RandomProduct {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let extents = [1, 2, 3, 8, 16, 17, 64, 128];
    let [rows, columns] = [0; 2].map(|_| extents[random.next_below(extents.len())]);
    let terms = [16, 32, 48, 64][random.next_below(4)];
    let of = random.pick(&["f16", "bf16", "f32"]);
    let transposed = [0; 2].map(|_| random.next_below(2) == 0);
    let operand = |name: &str, transposed: bool, ranges: [String; 2]| {
        let [first, second] = ranges;
        let window =
            if transposed { format!("{name}[{second}, {first}]") } else { format!("{name}[{first}, {second}]") };
        match (transposed, of) {
            (false, "f32") => format!("tf32({window})"),
            (true, "f32") => format!("transpose(tf32({window}))"),
            (true, _) => format!("transpose({window})"),
            (false, _) => window,
        }
    };
    let [down, across, along] = [("i", rows), ("j", columns), ("k", terms)].map(|(at, n)| format!("{at}..{at} + {n}"));
    let a = operand("a", transposed[0], [down.clone(), along.clone()]);
    let b = operand("b", transposed[1], [along, across.clone()]);
    let shape = |transposed: bool, [first, second]: [&str; 2]| {
        if transposed { format!("{second}, {first}") } else { format!("{first}, {second}") }
    };
    let (a_shape, b_shape) = (shape(transposed[0], ["M", "K"]), shape(transposed[1], ["K", "N"]));
    let origin = |n: u32, axis: &str, after: bool| match (n, after) {
        (1, _) => format!("block_idx.{axis}"),
        (_, true) => format!("block_idx.{axis} * {n}"),
        (_, false) => format!("{n} * block_idx.{axis}"),
    };
    let (i, j) = (origin(rows, "y", random.next_below(2) == 0), origin(columns, "x", random.next_below(2) == 0));
    let target = format!("c[{down}, {across}]");
    let rest = format!("rest[{down}, {across}]");
    let mut after = vec![];
    for _ in 0..random.next_below(4) {
        after.push(match random.next_below(8) {
            0 => "acc = acc * alpha".to_string(),
            1 => format!("acc += bias[{across}]"),
            2 => format!("other = select(acc > 0.0, acc, {rest})\n    acc = other + 1.0"),
            3 => "half = f16(acc)\n    acc = f32(half) + 0.5".to_string(),
            4 => "let beta = alpha * 0.5\n    acc = acc * beta".to_string(),
            5 => format!("acc = acc + reshape(f32(arange({rows})), {rows}, 1) * f32(i)"),
            6 => format!("acc = max(acc, transpose(turned[{across}, {down}]))"),
            _ => format!("d[{down}, {across}] = bf16(acc)"),
        });
    }
    let stores_twice = after.iter().filter(|stmt| stmt.starts_with("d[")).count() > 1;
    after.retain(|stmt| !stores_twice || !stmt.starts_with("d["));
    after.push(match random.next_below(3) {
        0 => format!("{target} += acc"),
        1 => format!("{target} = acc * bias[{across}]"),
        _ => format!("{target} = acc"),
    });
    let kernel = |after: &str| {
        format!(
        "kernel product(a: [{of}; {a_shape}], b: [{of}; {b_shape}], bias: [f32; N], rest: [f32; M, N], turned: [f32; N, M],
    alphas: [f32; 1], out d: [bf16; M, N], inout c: [f32; M, N]) grid(ceil_div(N, {columns}), ceil_div(M, {rows})) block(64) {{
    let i = {i}
    let j = {j}
    let alpha = alphas[0]
    shared acc: [f32; {rows}, {columns}]
    shared other: [f32; {rows}, {columns}]
    shared half: [f16; {rows}, {columns}]
    acc = 0.0
    for k in 0..K step {terms} {{ acc = mma(acc, {a}, {b}) }}
    {after}
}}
"
    )
    };
    RandomProduct {
        source: kernel(&after.join("\n    ")),
        plain: kernel(&format!("{target} = acc")),
        of: [Scalar::F16, Scalar::Bf16, Scalar::F32].into_iter().find(|scalar| scalar.name() == of).expect("a type"),
        tile: [rows, columns],
        transposed,
    }
}

/// Launches a kernel on the simulator.
fn launch(kernel: PreparedKernel, arguments: &mut Arguments, grid: [u32; 3]) {
    let executable = Simulator::default().load(Arc::new(kernel), None);
    let extents = LaunchExtents::Grid { grid, block: [64, 1, 1] };
    let control = Control::default();
    executable
        .launch(&LaunchConfig::from(extents).synchronous(), &mut launch_arguments(arguments), &control)
        .expect("no fault");
}

/// Random matrix products are recognized. Their epilogues, and the steps of their tile programs, compute the bits of
/// the kernels.
#[test]
fn random_matrix_products_match_the_bits_of_their_kernels() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (count, first) = (number("CLK_RANDOM_PROGRAMS", 20), number("CLK_RANDOM_SEED", 1));
    for seed in first..first + count {
        let RandomProduct { source, plain, of, tile, transposed } = random_product(seed);
        let kernel = prepared(&source);
        let gemm = kernel.module.kernel.gemm.clone().unwrap_or_else(|| panic!("seed {seed}: no product:\n{source}"));
        assert_eq!((gemm.tile, [gemm.a.transposed, gemm.b.transposed]), (tile, transposed), "{source}");
        assert_eq!([gemm.a.param, gemm.b.param], [0, 1], "{source}");
        let mut random = Random(seed);
        let [m, n, k] = [0; 3].map(|_| 1 + random.next_below(40) as u32);
        let turned = |transposed: bool, [x, y]: [u32; 2]| if transposed { [y, x] } else { [x, y] };
        let mut array = |shape: &[u32], scalar: Scalar| {
            let mut one =
                || ScalarValue::of((random.next_below(2001) as f32 - 1000.0) / 500.0).to_type(scalar).bits as u32;
            let len = shape.iter().product::<u32>();
            Array::new(shape, scalar, (0..len).map(|_| one()).collect::<Vec<_>>())
        };
        let arguments: Arguments = vec![
            (array(&turned(transposed[0], [m, k]), of), false),
            (array(&turned(transposed[1], [k, n]), of), false),
            (array(&[n], Scalar::F32), false),
            (array(&[m, n], Scalar::F32), false),
            (array(&[n, m], Scalar::F32), false),
            (array(&[1], Scalar::F32), false),
            (Array::zeros(&[m, n], Scalar::Bf16), true),
            (array(&[m, n], Scalar::F32), true),
        ];
        let grid = [n.div_ceil(tile[1]), m.div_ceil(tile[0]), 1];
        let [mut expected, mut sums, mut by_steps, mut by_elements] = [0; 4].map(|_| arguments.clone());
        launch(kernel, &mut expected, grid);
        launch(prepared(&plain), &mut sums, grid);
        let product = sums.last().expect("the product").0.clone();
        tile_steps::run_epilogue(&gemm.epilogue, &product, &mut by_elements);
        let program = lowered(&source).kernel.tile_program.expect("a tile program");
        tile_steps::run(&program, &mut by_steps, grid);
        for (at, (expected, _)) in expected.iter().enumerate() {
            for (what, actual) in [("epilogue", &by_elements), ("steps", &by_steps)] {
                assert!(
                    actual[at].0.elements() == expected.elements(),
                    "seed {seed}, {what}, argument {at}:\n{source}"
                );
            }
        }
    }
}

const HALVES: &str = "a: [f16; M, K], b: [f16; K, N], out c: [f16; M, N]";
const BIASED: &str =
    "a: [bf16; M, K], b: [bf16; K, N], bias: [f32; N], rest: [f32; M, N], alpha: f32, out c: [f32; M, N]";
const WITH_BIAS: &str = "c[i..i + 16, j..j + 32] = gelu(acc + bias[j..j + 32])";
const RESIDUAL: &str = "c[i..i + 16, j..j + 32] = alpha * acc + rest[i..i + 16, j..j + 32]";
const TWO_STEPS: &str = "shared t: [f32; 16, 32]
    t = acc * alpha
    let half = 0.5 * alpha
    t += bias[j..j + 32]
    c[i..i + 16, j..j + 32] = t * half";

/// Epilogues (computations on the finished product): the kernel's parameters, and the statements after the product.
const EPILOGUES: [(&str, &str); 5] = [
    (USUAL.params, USUAL.after),
    (HALVES, "c[i..i + 16, j..j + 32] = f16(acc)"),
    (BIASED, WITH_BIAS),
    (BIASED, RESIDUAL),
    (BIASED, TWO_STEPS),
];

#[test]
fn matrix_products_are_recognized() {
    for (params, after) in EPILOGUES {
        assert!(is_product(&Parts { params, after, ..USUAL }), "{after}");
    }
    let a = ("a: [bf16; K, M], b: [bf16; K, N], out c: [f32; M, N]", "transpose(a[k..k + 32, i..i + 16])");
    assert!(is_product(&Parts { params: a.0, a: a.1, ..USUAL }));
    let b = ("a: [bf16; M, K], b: [bf16; N, K], out c: [f32; M, N]", "transpose(b[j..j + 32, k..k + 32])");
    assert!(is_product(&Parts { params: b.0, b: b.1, ..USUAL }));
    assert!(ROUNDED.iter().all(is_product));
    let mixed = "a: [bf16; M, K], b: [bf16; K, N], inout c: [f32; M, N]";
    assert!(is_product(&Parts { params: mixed, after: "c[i..i + 16, j..j + 32] += acc", ..USUAL }));
    assert!(is_product(&Parts {
        params: mixed,
        after: "c[i..i + 16, j..j + 32] = acc + c[i..i + 16, j..j + 32]",
        ..USUAL
    }));
    let product =
        prepared(&source(&Parts { params: a.0, a: a.1, ..USUAL })).module.kernel.gemm.clone().expect("it is one");
    assert_eq!((product.tile, product.a.transposed, product.b.transposed), ([16, 32], true, false));
    assert_eq!((product.a.param, product.b.param), (0, 1));
}

/// Returns the kernels of a file that are matrix products: name, tile, and whether the operands are transposed.
fn products_in(file: &str) -> Vec<(String, [u32; 2], [bool; 2])> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut session = Session::default();
    assert!(!session.add(file, &source, &NoFiles).failed(), "{file}");
    let instances = session.program.kernels.iter().filter_map(|(id, _)| default_instance(&session.program, id));
    let modules = instances.filter_map(|instance| clk_lower::lower(&session.program, &instance).ok());
    let kernels = modules.map(|module| clk_pass::prepare(module).expect("it is sound").module.kernel.clone());
    let product = |kernel: Kernel| {
        let gemm = kernel.gemm.as_ref()?;
        Some((kernel.name.clone(), gemm.tile, [gemm.a.transposed, gemm.b.transposed]))
    };
    kernels.filter_map(product).collect()
}

#[test]
fn matrix_products_of_files_are_recognized() {
    let letter = |transposed: bool| if transposed { 't' } else { 'n' };
    let mut expected = vec![];
    for of in ["bf16", "f16", "f32"] {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            let [a, b] = transposed.map(letter);
            expected.push((format!("{of}_{a}{b}"), [32, 64], transposed));
        }
    }
    assert_eq!(products_in("tests/gpu/products.clk"), expected);
    for file in ["tests/gpu/tiles.clk", "tests/peers/attention.clk", "examples/grouped_products.clk"] {
        assert_eq!(products_in(file), vec![], "{file}");
    }
}

#[test]
fn other_kernels_are_not_matrix_products() {
    let inout = "a: [bf16; M, K], b: [bf16; K, N], inout c: [f32; M, N]";
    let two = "a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N], inout d: [f32; M, N]";
    let long = "a: [bf16; M, K], b: [bf16; K, N], rest: [f32; L], out c: [f32; M, N]";
    let divided = "a: [bf16; M, K], b: [bf16; K, N], d: i32, out c: [f32; M, N]";
    let square = "shared t: [f32; 16]
    t = 2.0
    c[i..i + 16, j..j + 32] = acc * reshape(t, 16, 1)";
    let cases = [
        (
            "groups of terms",
            Parts { terms: "0..K step 24", a: "a[i..i + 16, k..k + 24]", b: "b[k..k + 24, j..j + 32]", ..USUAL },
        ),
        ("the start", Parts { zero: "acc = 1.0", ..USUAL }),
        (
            "a division, and no result",
            Parts { params: divided, zero: "let _q = 10 / d\n    acc = 0.0", after: "", ..USUAL },
        ),
        ("a division in the loop", Parts { params: divided, before_sum: "let _q = 10 / d\n        ", ..USUAL }),
        ("an element in the loop", Parts { params: long, before_sum: "let _q = rest[k]\n        ", ..USUAL }),
        ("two starts", Parts { zero: "acc = 0.0\n    acc = 0.0", ..USUAL }),
        ("not from 0", Parts { terms: "32..K step 32", ..USUAL }),
        ("the end", Parts { terms: "0..64 step 32", ..USUAL }),
        ("another end", Parts { params: long, terms: "0..L step 32", ..USUAL }),
        ("overlapping steps", Parts { terms: "0..K step 16", ..USUAL }),
        ("other rows", Parts { origin: "16 * block_idx.y + 1", ..USUAL }),
        ("rows apart", Parts { origin: "32 * block_idx.y", ..USUAL }),
        ("columns for rows", Parts { origin: "16 * block_idx.x", ..USUAL }),
        ("a row's sum", Parts { after: "c[i..i + 16, j..j + 32] = acc * reshape(sum(acc, axis = 1), 16, 1)", ..USUAL }),
        ("a sum", Parts { after: "let s = sum(acc)\n    c[i..i + 16, j..j + 32] = acc * s", ..USUAL }),
        (
            "what is written",
            Parts {
                params: two,
                after: "c[i..i + 16, j..j + 32] = acc + d[i..i + 16, j..j + 32]\n    d[i..i + 16, j..j + 32] = acc",
                ..USUAL
            },
        ),
        (
            "written twice",
            Parts {
                after: "c[i..i + 16, j..j + 32] = acc\n    let r = i + 1\n    c[r..r + 16, j..j + 32] = acc",
                ..USUAL
            },
        ),
        (
            "other rows of the result",
            Parts { params: inout, after: "c[i..i + 16, j..j + 32] = acc + c[i + 1..i + 17, j..j + 32]", ..USUAL },
        ),
        ("a row of the block", Parts { after: square, ..USUAL }),
        ("the blocks", Parts { after: "let t = f32(grid_dim.x)\n    c[i..i + 16, j..j + 32] = acc * t", ..USUAL }),
        (
            "what changes",
            Parts {
                zero: "acc = 0.0\n    var t = 1.0",
                before_sum: "t = 2.0 * t\n        ",
                after: "c[i..i + 16, j..j + 32] = acc * t",
                ..USUAL
            },
        ),
        (
            "two products",
            Parts {
                after: "acc = mma(acc, a[i..i + 16, 0..32], b[0..32, j..j + 32])\n    c[i..i + 16, j..j + 32] = acc",
                ..USUAL
            },
        ),
        ("a written factor", Parts { params: "inout a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]", ..USUAL }),
    ];
    for (what, parts) in cases {
        assert!(!is_product(&parts), "{what}:\n{}", source(&parts));
    }
    let transposed = "kernel square(a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]) grid(ceil_div(N, 16), ceil_div(M, 16)) block(64) {
    let i = 16 * block_idx.y
    let j = 16 * block_idx.x
    shared acc: [f32; 16, 16]
    acc = 0.0
    for k in 0..K step 32 { acc = mma(acc, a[i..i + 16, k..k + 32], b[k..k + 32, j..j + 16]) }
    c[i..i + 16, j..j + 16] = AFTER
}
";
    assert!(prepared(&transposed.replace("AFTER", "acc")).module.kernel.gemm.is_some());
    assert!(prepared(&transposed.replace("AFTER", "transpose(acc)")).module.kernel.gemm.is_none());
}

/// Words in a compiler log that indicate a problem.
const SIGNS: [&str; 3] = ["warning", "serializ", "setmaxnreg"];

#[test]
fn texts_for_tensor_cores_compile_without_spills() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let mut wrong = String::new();
    let mut check = |parts: &Parts<'_>| {
        let kernel = prepared(&source(parts));
        for copies in [OperandStaging::Boxes, OperandStaging::Elements] {
            if let Some(log) = complaint(&nvrtc, &kernel, copies, &SIGNS) {
                wrong.push_str(&format!("{copies:?} {}\n{log}\n", source(parts)));
            }
        }
    };
    for (params, after) in EPILOGUES {
        check(&Parts { params, after, ..USUAL });
    }
    let (down, across) = ("transpose(a[k..k + 32, i..i + 16])", "transpose(b[j..j + 32, k..k + 32])");
    check(&Parts { params: "a: [bf16; K, M], b: [bf16; K, N], out c: [f32; M, N]", a: down, ..USUAL });
    check(&Parts { params: "a: [f16; M, K], b: [f16; N, K], out c: [f32; M, N]", b: across, ..USUAL });
    check(&Parts { params: "a: [bf16; K, M], b: [bf16; N, K], out c: [f32; M, N]", a: down, b: across, ..USUAL });
    ROUNDED.iter().for_each(&mut check);
    // A product with one array as both operands.
    let twice =
        Parts { params: "a: [bf16; M, K], out c: [f32; M, M]", b: "transpose(a[j..j + 32, k..k + 32])", ..USUAL };
    let kernel = prepared(&source(&twice).replace("ceil_div(N, 32)", "ceil_div(M, 32)"));
    wrong.extend(complaint(&nvrtc, &kernel, OperandStaging::Boxes, &SIGNS));
    assert!(wrong.is_empty(), "{wrong}");
}

/// Compiles the texts for GPUs from sm_80 on, with operands of 16-bit types and tf32 in all layouts. They must not
/// spill registers.
#[test]
fn texts_for_all_tensor_cores_compile_without_spills() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let mut wrong = String::new();
    let mut check = |architecture: u32, parts: &Parts<'_>, packed: [bool; 2]| {
        let kernel = prepared(&source(parts));
        let copies = OperandStaging::Pieces { packed };
        if let Some(log) = complaint_of(&nvrtc, architecture, &kernel, copies, &["warning"]) {
            wrong.push_str(&format!("sm_{architecture} {packed:?} {}\n{log}\n", source(parts)));
        }
    };
    let (down, across) = ("transpose(a[k..k + 32, i..i + 16])", "transpose(b[j..j + 32, k..k + 32])");
    let tall = "a: [bf16; K, M], b: [bf16; K, N], out c: [f32; M, N]";
    let both = "a: [f16; K, M], b: [f16; N, K], out c: [f32; M, N]";
    let rounded_down = "transpose(tf32(a[k..k + 32, i..i + 16]))";
    let directions = [
        (Parts { ..USUAL }, false),
        (Parts { params: tall, a: down, ..USUAL }, false),
        (Parts { params: both, a: down, b: across, ..USUAL }, false),
        (Parts { params: ROUNDED[0].params, a: ROUNDED[0].a, b: ROUNDED[0].b, ..USUAL }, true),
        (
            Parts {
                params: "a: [f32; K, M], b: [f32; K, N], out c: [f32; M, N]",
                a: rounded_down,
                b: "tf32(b[k..k + 32, j..j + 32])",
                ..USUAL
            },
            true,
        ),
    ];
    let supported = nvrtc.architectures();
    for architecture in [80, 86, 89, 90, 120].into_iter().filter(|architecture| supported.contains(architecture)) {
        for (parts, rounded) in &directions {
            check(architecture, parts, [*rounded; 2]);
        }
    }
    check(80, &Parts { params: BIASED, after: WITH_BIAS, ..USUAL }, [false; 2]);
    check(86, &Parts { params: BIASED, after: TWO_STEPS, ..USUAL }, [true, false]);
    check(89, &Parts { params: HALVES, after: "c[i..i + 16, j..j + 32] = f16(acc)", ..USUAL }, [true; 2]);
    assert!(wrong.is_empty(), "{wrong}");
}

/// The generated function for an element returns the value to store, without a branch around the computation. Loads
/// that need a bounds check stay conditional.
#[test]
fn tensor_core_stores_are_bounded() {
    let options = CodegenOptions { product: Some(OperandStaging::Boxes), ..CodegenOptions::default() };
    let text = |params, after| {
        let text = cuda_text(&prepared(&source(&Parts { params, after, ..USUAL })), &options, None).text;
        text[text.find("struct Left").expect("the type of the result")..].to_string()
    };
    let plain = text(USUAL.params, USUAL.after);
    assert!(plain.contains("left.c.put(") && !plain.contains("if (") && !plain.contains("] = "), "{plain}");
    let biased = text(BIASED, WITH_BIAS);
    assert_eq!((biased.matches("left.c.put(").count(), biased.matches("if (").count()), (1, 1), "{biased}");
    let added = "a: [bf16; M, K], b: [bf16; K, N], inout c: [f32; M, N]";
    let added = text(added, "c[i..i + 16, j..j + 32] += acc");
    assert!(added.contains("if (t") && added.contains(" = c[") && !added.contains("\n        c["), "{added}");
    let two = "a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N], out d: [bf16; M, N]";
    let two = text(two, "c[i..i + 16, j..j + 32] = acc\n    d[i..i + 16, j..j + 32] = bf16(acc)");
    assert_eq!((two.matches("put(").count(), two.matches("tensor_cores::write(").count()), (2, 2), "{two}");
}

#[test]
fn texts_with_fault_reports_do_not_use_tensor_cores() {
    let params = "a: [bf16; M, K], b: [bf16; K, N], at: [i32; 1], rest: [f32; L], out c: [f32; M, N]";
    let parts = Parts { params, after: "let r = rest[at[0]]\n    c[i..i + 16, j..j + 32] = acc * r", ..USUAL };
    let kernel = prepared(&source(&parts));
    assert!(kernel.module.kernel.gemm.is_some());
    let options = CodegenOptions { product: Some(OperandStaging::Boxes), ..CodegenOptions::default() };
    assert_eq!(cuda_text(&kernel, &options, None).options.product, None);
}
