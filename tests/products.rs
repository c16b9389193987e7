//! Kernels of tiles that are products of matrices: which of them are found, and their text for tensor cores, compiled by NVRTC if it is
//! installed.

#[path = "common/nvrtc.rs"]
mod opened;
#[path = "common/tensor_text.rs"]
mod tensor_text;

use clk_lang::device::cuda::text::{Copies, Options, cuda_text};
use opened::nvrtc;
use tensor_text::{complaint, complaint_of, prepared};

/// Parts of a kernel, each replaceable.
struct Parts<'a> {
    params: &'a str,
    origin: &'a str,
    zero: &'a str,
    terms: &'a str,
    a: &'a str,
    b: &'a str,
    after: &'a str,
}

const USUAL: Parts<'static> = Parts {
    params: "a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]",
    origin: "16 * block_idx.y",
    zero: "acc = 0.0",
    terms: "0..K step 32",
    a: "a[i..i + 16, k..k + 32]",
    b: "b[k..k + 32, j..j + 32]",
    after: "c[i..i + 16, j..j + 32] = acc",
};

/// Factors of tf32 in all directions: the instruction wants both along the terms, which the first ones are.
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
    let Parts { params, origin, zero, terms, a, b, after } = parts;
    format!(
        "import std.nn.{{gelu}}
kernel product({params}) grid(ceil_div(N, 32), ceil_div(M, 16)) block(64) {{
    let i = {origin}
    let j = 32 * block_idx.x
    shared acc: [f32; 16, 32]
    {zero}
    for k in {terms} {{ acc = mma(acc, {a}, {b}) }}
    {after}
}}
"
    )
}

#[track_caller]
fn is_product(parts: &Parts<'_>) -> bool {
    prepared(&source(parts)).module.kernel.product.is_some()
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

/// What is done with each element: parameters and statements.
const EPILOGUES: [(&str, &str); 5] = [
    (USUAL.params, USUAL.after),
    (HALVES, "c[i..i + 16, j..j + 32] = f16(acc)"),
    (BIASED, WITH_BIAS),
    (BIASED, RESIDUAL),
    (BIASED, TWO_STEPS),
];

#[test]
fn products_are_found() {
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
    let product =
        prepared(&source(&Parts { params: a.0, a: a.1, ..USUAL })).module.kernel.product.clone().expect("it is one");
    assert_eq!((product.tile, product.a.transposed, product.b.transposed), ([16, 32], true, false));
    assert_eq!((product.a.param, product.b.param), (0, 1));
}

#[test]
fn what_is_no_product_or_not_one_of_elements_is_none() {
    let inout = "a: [bf16; M, K], b: [bf16; K, N], inout c: [f32; M, N]";
    let two = "a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N], inout d: [f32; M, N]";
    let long = "a: [bf16; M, K], b: [bf16; K, N], rest: [f32; L], out c: [f32; M, N]";
    let square = "shared t: [f32; 16]
    t = 2.0
    c[i..i + 16, j..j + 32] = acc * reshape(t, 16, 1)";
    let cases = [
        (
            "groups of terms",
            Parts { terms: "0..K step 24", a: "a[i..i + 16, k..k + 24]", b: "b[k..k + 24, j..j + 32]", ..USUAL },
        ),
        ("the start", Parts { zero: "acc = 1.0", ..USUAL }),
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
            "its own rows",
            Parts { params: inout, after: "c[i..i + 16, j..j + 32] = acc + c[i..i + 16, j..j + 32]", ..USUAL },
        ),
        ("a row of the block", Parts { after: square, ..USUAL }),
        ("the blocks", Parts { after: "let t = f32(grid_dim.x)\n    c[i..i + 16, j..j + 32] = acc * t", ..USUAL }),
        ("what changes", Parts { after: "var t = 1.0\n    t = 2.0\n    c[i..i + 16, j..j + 32] = acc * t", ..USUAL }),
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
    assert!(prepared(&transposed.replace("AFTER", "acc")).module.kernel.product.is_some());
    assert!(prepared(&transposed.replace("AFTER", "transpose(acc)")).module.kernel.product.is_none());
}

/// Words of a log that is not what it should be.
const SIGNS: [&str; 3] = ["warning", "serializ", "setmaxnreg"];

#[test]
fn texts_for_tensor_cores_compile_without_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut wrong = String::new();
    let mut check = |parts: &Parts<'_>| {
        let kernel = prepared(&source(parts));
        for copies in [Copies::Boxes, Copies::Elements] {
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
    // One array twice.
    let twice =
        Parts { params: "a: [bf16; M, K], out c: [f32; M, M]", b: "transpose(a[j..j + 32, k..k + 32])", ..USUAL };
    let kernel = prepared(&source(&twice).replace("ceil_div(N, 32)", "ceil_div(M, 32)"));
    wrong.extend(complaint(&nvrtc, &kernel, Copies::Boxes, &SIGNS));
    assert!(wrong.is_empty(), "{wrong}");
}

/// The text that all GPUs from sm_80 on run, in all directions, of 16 bits and of tf32.
#[test]
fn texts_for_all_tensor_cores_compile_without_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut wrong = String::new();
    let mut check = |architecture: u32, parts: &Parts<'_>, packed: [bool; 2]| {
        let kernel = prepared(&source(parts));
        let copies = Copies::Pieces { packed };
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
    let known = nvrtc.architectures();
    for architecture in [80, 86, 89, 90, 120].into_iter().filter(|architecture| known.contains(architecture)) {
        for (parts, rounded) in &directions {
            check(architecture, parts, [*rounded; 2]);
        }
    }
    check(80, &Parts { params: BIASED, after: WITH_BIAS, ..USUAL }, [false; 2]);
    check(86, &Parts { params: BIASED, after: TWO_STEPS, ..USUAL }, [true, false]);
    check(89, &Parts { params: HALVES, after: "c[i..i + 16, j..j + 32] = f16(acc)", ..USUAL }, [true; 2]);
    assert!(wrong.is_empty(), "{wrong}");
}

/// What is written is left by the function of an element, without a branch around what is computed, and loads stay under their conditions.
#[test]
fn elements_leave_what_is_written() {
    let options = Options { product: Some(Copies::Boxes), ..Options::default() };
    let text = |params, after| {
        let text = cuda_text(&prepared(&source(&Parts { params, after, ..USUAL })), &options, None).text;
        text[text.find("struct Left").expect("the type of what is left")..].to_string()
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
fn a_text_that_may_report_a_fault_is_not_one_for_tensor_cores() {
    let params = "a: [bf16; M, K], b: [bf16; K, N], at: [i32; 1], rest: [f32; L], out c: [f32; M, N]";
    let parts = Parts { params, after: "let r = rest[at[0]]\n    c[i..i + 16, j..j + 32] = acc * r", ..USUAL };
    let kernel = prepared(&source(&parts));
    assert!(kernel.module.kernel.product.is_some());
    let options = Options { product: Some(Copies::Boxes), ..Options::default() };
    assert_eq!(cuda_text(&kernel, &options, None).options.product, None);
}
