//! Tests the parser: texts that it accepts, and their syntax trees.

use clk_base::source::FileId;
use clk_syntax::{dump, parse};

#[track_caller]
fn tree(text: &str) -> String {
    let (file, diagnostics) = parse(FileId(0), text);
    assert!(diagnostics.is_empty(), "{text}\n{diagnostics:#?}");
    dump(&file)
}

/// Compares the tree of a text with the expected lines, ignoring their common indentation.
#[track_caller]
fn check(text: &str, expected: &str) {
    let lines: Vec<&str> = expected.lines().filter(|l| !l.trim().is_empty()).collect();
    let indent = lines.iter().map(|l| l.len() - l.trim_start().len()).min().unwrap_or(0);
    let expected: String = lines.iter().map(|l| format!("{}\n", l[indent..].trim_end())).collect();
    assert_eq!(tree(text), expected, "the tree of {text}");
}

const REFERENCE: &[&str] = &[
    r#"
const EPS: f32 = 1e-6
struct Body { pos: f32x3, mass: f32 }

/// Callable from kernels and from the host alike.
fn sigmoid<T: Float>(x: T) -> T { 1 / (1 + exp(-x)) }

import std.linalg                    // linalg.matmul(a, b)
import std.nn.{softmax, relu}
import "./shapes.clk" as shapes
"#,
    r#"
/// r = alpha·x + y
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = alpha * x[i] + y[i]
}

kernel matmul<const T: i32 = 16>(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N])
    grid(ceil_div(N, T), ceil_div(M, T)) block(T, T)
{
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
}
"#,
    r#"
let x = linspace(0.0, 1.0, 1 << 20)
let a = random(1024, 512, seed = 7)          // Philox: the same numbers on every device
let m = load("input.npy")                    // .npy .npz .safetensors .csv .png
let y = relu(a @ b + bias)                   // array expressions are fused into as few launches as they need
print(y[0..4, ..])
save("out.npz", y = y, m = m)
image("fractal.png", img)                    // and plot(x, y, "curve.png"), or in the terminal without a file name

on gpu(0) { let z = 1 }
batch { step(u, v); step(v, u) }             // captured once, replayed as one graph on the GPU
let t = time { matmul(a, b) }                // median and spread, device time
let g = grad(loss)(w, x)                     // reverse mode, through functions and kernels

test "saxpy on a short vector" { assert(saxpy(2.0, [1.0, 2.0], [3.0, 4.0]) == [5.0, 8.0]) }
bench "saxpy" { saxpy(2.5, x, y) }
bench "saxpy" bytes = 12 * N, flops = 2 * N { saxpy(2.5, x, y) }
"#,
    "let r = saxpy(2.0, x, y)\nsaxpy<<<grid, block>>>(2.0, x, y, r)\nsaxpy<<<(4, 2), 256>>>(2.0, x, y)\nmandelbrot(H = 1024, W = 1024)",
    "fn f(op: i32) -> i32 {\n  var acc: [f32; 8, 8] = 0.0\n  #unroll\n  for i in 0..4 { acc[i, 0] += 1.0 }\n  #unroll(4)\n  for v in [1, 2, 4] { continue }\n  #nounroll\n  while true { break }\n  loop { return 3 }\n}",
    "fn g<op: fn(f32, f32) -> f32 = add, T>(a: (f32, i32), y: [f32; N] @gpu) -> (f32, f32) { (a.0, y[0]) }",
    "atomic_add(hist[b], 1)\nlet old = atomic_compare_exchange(p[0], 1, 2)\nlet c = cached(x[i])\nlet z = zeros(3, type = i32)\nlet u = bitcast(u32, x)",
    "kernel sum<T: Num>(x: [T; N], out partial: [T; ceil_div(N, 256)]) grid(ceil_div(N, 256)) block(256) { shared s: f32\n s = 1.0 }",
    "let step = 3\nlet time = step\nlet on = time + batch\nlet threads = grid(block)\nfor i in 0..step step step { print(as) }",
    "let b = Body { pos: f32x3(0.0, 1.0, 2.0),\n mass: 1.0\n}\nlet c = shapes.Circle { r: 1.0 }\nif (Body { pos: p, mass: 1.0 }).mass > 1.0 { }",
    "let x = a\n    + b\n    .c(d)\n    && e\nlet y = (a\n - b)\n-c",
    "#!/usr/bin/env clk\n/* a /* nested */ comment */ let x = 0xff_u8 + 0b1010 + 7u32 + 1f16 + 2.5f64 + 1_000",
];

#[test]
fn the_reference_parses() {
    for text in REFERENCE {
        tree(text);
        tree(&text.replace('\n', "\r\n"));
    }
}

#[test]
fn operators_bind_as_in_rust() {
    check("a + b * c - d", "do\n  -\n    +\n      a\n      *\n        b\n        c\n    d");
    check("-x ** 2", "do\n  -\n    **\n      x\n      2");
    check("2 ** -x ** 3", "do\n  **\n    2\n    -\n      **\n        x\n        3");
    check("a ** b ** c", "do\n  **\n    a\n    **\n      b\n      c");
    check(
        "!a.b && -c[0] < d | e",
        "
        do
          &&
            !
              .b
                a
            <
              -
                index
                  c
                  0
              |
                d
                e",
    );
    check("a @ b + c", "do\n  +\n    @\n      a\n      b\n    c");
    check(
        "x[a + 1 ..= b step 2, .., ..3]",
        "
        do
          index
            x
            ..=
              from
                +
                  a
                  1
              to
                b
              step
                2
            ..
            ..
              to
                3",
    );
}

#[test]
fn strings_have_values_inside() {
    check(
        r#"print("a\t{x:.3} {f("in{y}")} {{z}}")"#,
        r#"
        do
          call
            print
            string
              "a\t"
              value :.3
                x
              " "
              value
                call
                  f
                  string
                    "in"
                    value
                      y
              " {z}""#,
    );
}

#[test]
fn a_block_has_the_value_of_its_last_expression() {
    check(
        "fn f(x: f32) -> f32 {\n  let y = x;\n  y\n}",
        "
        fn f
          param x: f32
          result f32
          body
            let y
              x
            value
              y",
    );
    check("fn f() { g(); }", "fn f\n  body\n    do quietly\n      call\n        g");
}

#[test]
fn tuples_fields_and_launches() {
    check("t.0.1", "do\n  .1\n    .0\n      t");
    check("let (a, (b, _)) = f(x = 1,)", "let (a, (b, _))\n  call\n    f\n    x =\n      1");
    check("k<<<g, 32>>>(x)", "do\n  launch\n    k\n    grid\n      g\n    block\n      32\n    x");
    check("((), (1,), (1))", "do\n  tuple\n    tuple\n    tuple\n      1\n    paren\n      1");
}

#[test]
fn else_if_chains_and_blocks_over_lines() {
    check(
        "let x = if a { 1 } else if b { 2 } else { 3 }",
        "
        let x
          if
            a
            then
              value
                1
            else
              if
                b
                then
                  value
                    2
                else
                  block
                    value
                      3",
    );
    check(
        "if a { 1 } else { 2 }\n-3",
        "
        do
          if
            a
            then
              value
                1
            else
              block
                value
                  2
        do
          -
            3",
    );
}

#[test]
fn documentation_stays_with_its_item() {
    check(
        "/// The module.\n/// More.\n\n/// One.\nconst A = 1\n",
        "
        doc \"The module.\\nMore.\"
        doc \"One.\"
        const A
          1",
    );
    check("/// One.\nconst A = 1", "doc \"One.\"\nconst A\n  1");
}

#[test]
fn spans_cover_the_source_text() {
    let text = "let x = foo(1) + bar[2]";
    let (file, _) = parse(FileId(0), text);
    let span = file.items[0].span;
    assert_eq!(&text[span.range()], text);
}

#[test]
fn the_grammar_names_every_keyword_and_operator() {
    use clk_syntax::token::{CONTEXTUAL, KEYWORDS, OPERATORS};
    let grammar = include_str!("../../grammar/clk.ebnf");
    let words = KEYWORDS.iter().chain(OPERATORS).map(|(text, _)| *text);
    for word in words.chain(CONTEXTUAL.iter().copied()) {
        assert!(grammar.contains(&format!("\"{word}\"")), "{word} is not in grammar/clk.ebnf");
    }
}

#[test]
fn every_keyword_and_operator_is_a_token_of_its_own() {
    use clk_syntax::lex;
    use clk_syntax::token::{KEYWORDS, OPERATORS};
    for (text, kind) in KEYWORDS.iter().chain(OPERATORS).filter(|(text, _)| !"()[]{}".contains(text)) {
        let tokens = lex(FileId(0), text).tokens;
        assert_eq!(tokens.first().map(|t| t.kind), Some(*kind), "{text}");
        assert_eq!(kind.text(), Some(*text));
    }
}
