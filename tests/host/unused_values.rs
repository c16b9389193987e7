//! Tests statements with an unused value in kernels, in functions and in scripts. A program that the checker accepts
//! must run, and no program may cause an internal error.

use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_runtime::Control;
use clk_sim::Simulator;
use clk_testing::world::CapturedOutput;

const ITEMS: &str = "struct P { a: i32, v: f32x2 }
const C: i32 = 3
const CV: i32x2 = i32x2(1, 2)
fn nothing() { }
fn one(a: i32) -> i32 { a + 1 }
fn two(a: i32) -> (i32, i32) { (a, a) }
fn first(a: [f32; K]) -> f32 { a[0] }
fn takes(a: [f32; K]) { }
fn back(a: [f32; K]) -> [f32; K] { a }
fn both(a: [f32; K]) -> ([f32; K], i32) { (a, 1) }
fn pair(a: ([f32; K], i32)) -> i32 { a.1 }
kernel other(out y: [f32; N]) threads(t: N) { y[t] = 1.0 }
";

const VARIABLES: &str = "var w: [i32; 3] = [1, 2, 3]
var p = P { a: 1, v: f32x2(1.0, 2.0) }
var v = f32x2(1.0, 2.0)
var tup = (1, 2.0)
";

/// Expressions that are used as statements: names, literals, operators and calls.
const VALUES: &[&str] = &[
    "x",
    "(x)",
    "(((x)))",
    "m",
    "w",
    "w[0]",
    "m[0]",
    "m[0, 0]",
    "m[0..1]",
    "m[.., 0]",
    "m[.., ..]",
    "x[0]",
    "x[n]",
    "x[0..2]",
    "x[..]",
    "x[n..]",
    "x[..n]",
    "x[0..4 step 2]",
    "w[0..2]",
    "p",
    "p.a",
    "p.v",
    "p.v.x",
    "v",
    "v.xy",
    "v.x",
    "tup",
    "tup.0",
    "n",
    "N",
    "C",
    "CV",
    "CV.x",
    "1",
    "1.5",
    "true",
    "()",
    "\"text\"",
    "\"a{n}b\"",
    "\"{x}\"",
    "0..3",
    "0..=3",
    "0..n",
    "nothing",
    "one",
    "other",
    "sin",
    "P",
    "f32",
    "i32x2",
    "_",
    "(1, 2)",
    "(x, 1)",
    "(1, x)",
    "(x, m)",
    "((x, 1), w)",
    "(x, 1).1",
    "[1, 2]",
    "[x[0], 1.0]",
    "[[1, 2], [3, 4]]",
    "[x, x]",
    "[one(1), one(2)]",
    "(one(1), first(x))",
    "P { a: one(1), v: v }",
    "P { a: 1, v: f32x2(0.0, 0.0) }",
    "i32x2(1, 2)",
    "-n",
    "!true",
    "n + 1",
    "x + x",
    "x + 1.0",
    "x == x",
    "p == p",
    "tup == tup",
    "v == v",
    "n as f32",
    "f32(n)",
    "f32(x)",
    "bitcast(u32, n)",
    "len(x)",
    "len(w)",
    "shape(x)",
    "shape(x, 0)",
    "sum(x)",
    "sum(w)",
    "sin(1.0)",
    "sin(x)",
    "abs(v)",
    "dot(v, v)",
    "min(n, 1)",
    "select(true, n, 1)",
    "select(true, x, x)",
    "zeros(3)",
    "cached(x[0])",
    "cached(x)",
    "nothing()",
    "one(1)",
    "two(1)",
    "first(x)",
    "first(x[0..2])",
    "takes(x)",
    "back(x)",
    "both(x)",
    "both(x).0",
    "both(x).1",
    "pair((x, 1))",
    "first(back(x))",
    "other(N = 4)",
    "thread_idx",
    "thread_idx.x",
    "block_dim",
    "global_idx.x",
    "lane_idx",
    "barrier()",
    "fence()",
    "random(5)",
    "print(x)",
    "print(w)",
    "print(p)",
    "print(tup)",
    "print((x, 1))",
    "print(\"{x}\")",
    "print(\"{w}{tup}{v}\")",
    "print()",
    "assert(true)",
    "assert(true, \"{x}\")",
    "assert(true, \"{w}\")",
];

/// Other statements.
const STATEMENTS: &[&str] = &[
    "let q = x",
    "let q = w",
    "let q = x\nq",
    "let q = (x, 1)",
    "let q = (w, 1)\nq.1",
    "let (q, r) = (x, 1)",
    "let (q, r) = tup",
    "let q = ()",
    "let q = m[0]\nq",
    "let q = 0..3",
    "let q = 0..3\nq",
    "let q = \"s\"\nq",
    "let q = one",
    "let q = { }",
    "let q = { x }",
    "let _ = x",
    "let _ = (x, 1)",
    "let _ = n",
    "let q = both(x)",
    "let q = back(x)",
    "let q = if n > 0 { x } else { x }",
    "let q = if n > 0 { (x, 1) } else { (x, 2) }",
    "var q = x",
    "var q = (x, 1)",
    "var q: [f32; 2]",
    "x = x",
    "w = w",
    "w = [4, 5, 6]",
    "p = p",
    "tup = tup",
    "v = v.yx",
    "p.v = p.v.yx",
    "tup = (2, 3.0)",
    "n = 1",
    "C = 1",
    "1 = 1",
    "x[0..2] = 1.0",
    "w[0..2] = 1",
    "{ }",
    "{ { } }",
    "{ x }",
    "{ { x } }",
    "{ let q = 1 }",
    "{ let q = x }",
    "{ nothing() }",
    "if n > 0 { }",
    "if n > 0 { } else { }",
    "if n > 0 { x }",
    "if n > 0 { x } else { x }",
    "if n > 0 { x } else { m }",
    "if n > 0 { (x, 1) } else { (x, 2) }",
    "if n > 0 { 1 } else { }",
    "if true { x } else { w }",
    "if n > 0 { x[0] } else { 1.0 }",
    "if n > 0 { if n > 1 { x } else { x } } else { x }",
    "for i in 0..n { }",
    "for i in 0..n { x }",
    "for i in 0..n { { } }",
    "for i in x { }",
    "for i in w { }",
    "for i in w { i }",
    "for i in (0..3) { w }",
    "while false { }",
    "while n > 5 { x }",
    "loop { break }",
    "loop { x\nbreak }",
    "if true { return }",
    "{ return }",
    "{ x\nreturn }",
    "batch { }",
    "batch { x }",
];

/// Contexts in which a statement is tested: a name, and a text in which `@` marks the place of the statement.
const PLACES: &[(&str, &str)] = &[
    (
        "a kernel over threads",
        "kernel k(n: i32, x: [f32; N], m: [f32; N, N], out y: [f32; N]) threads(t: N) {\nVARIABLES@\ny[t] = x[t]\n}
k(3, ones(4), ones(4, 4))",
    ),
    (
        "a kernel over a grid",
        "kernel k(n: i32, x: [f32; N], m: [f32; N, N], out y: [f32; N]) grid(1) block(4) {\nVARIABLES@\ny[thread_idx.x] = 1.0\n}
k(3, ones(4), ones(4, 4))",
    ),
    (
        "the end of a kernel",
        "kernel k(n: i32, x: [f32; N], m: [f32; N, N], out y: [f32; N]) threads(t: N) {\nVARIABLESy[t] = x[t]\n@\n}
k(3, ones(4), ones(4, 4))",
    ),
    (
        "a branch of a kernel",
        "kernel k(n: i32, x: [f32; N], m: [f32; N, N], out y: [f32; N]) threads(t: N) {\nVARIABLESif t % 2 == 0 {\n@\n}\ny[t] = x[t]\n}
k(3, ones(4), ones(4, 4))",
    ),
    (
        "a function of a kernel",
        "fn g(n: i32, x: [f32; N], m: [f32; N, N]) -> f32 {\nVARIABLES@\nx[0]\n}
kernel k(x: [f32; N], m: [f32; N, N], out y: [f32; N]) threads(t: N) { y[t] = g(3, x, m) }
k(ones(4), ones(4, 4))",
    ),
    (
        "a function without a result",
        "fn g(n: i32, x: [f32; N], m: [f32; N, N]) {\nVARIABLES@\n}
kernel k(x: [f32; N], m: [f32; N, N], out y: [f32; N]) threads(t: N) { g(3, x, m)\ny[t] = 1.0 }
k(ones(4), ones(4, 4))\ng(3, ones(4), ones(4, 4))",
    ),
    ("a function of a script", "fn g(n: i32, x: [f32; N], m: [f32; N, N]) -> f32 {\nVARIABLES@\nx[0]\n}\ng(3, ones(4), ones(4, 4))"),
    ("a script", "let n = 3\nlet N = 4\nlet x = ones(4)\nlet m = ones(4, 4)\nVARIABLES@"),
    ("a block of a script", "let n = 3\nlet N = 4\nlet x = ones(4)\nlet m = ones(4, 4)\nVARIABLES{\n@\n}"),
    ("a test", "test \"t\" {\nlet n = 3\nlet N = 4\nlet x = ones(4)\nlet m = ones(4, 4)\nVARIABLES@\n}"),
];

/// Checks and runs a text; returns the checker's diagnostics and the run-time error, if any.
fn outcome(text: &str) -> (Vec<Diagnostic>, Option<Diagnostic>) {
    let mut session = Session::default();
    let outcome = session.add("case.clk", text, &NoFiles);
    if outcome.failed() {
        return (outcome.diagnostics, None);
    }
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    for checks in [Checks::default(), checks] {
        let control = Control { workers: 1, checks, ..Control::default() };
        let device = Arc::new(Simulator::default());
        let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
        for chunk in outcome.chunks.clone() {
            if let Err(error) = interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()) {
                return (outcome.diagnostics, Some(*error));
            }
        }
    }
    (outcome.diagnostics, None)
}

/// Returns whether a run-time error is a fault of the program, such as an index out of bounds, and not an internal
/// error.
fn may_fail(diagnostic: &Diagnostic) -> bool {
    diagnostic.code.starts_with("E06")
}

#[test]
fn accepted_programs_run() {
    let statements = VALUES.iter().flat_map(|v| [v.to_string(), format!("{v};")]);
    let statements: Vec<String> = statements.chain(STATEMENTS.iter().map(|s| s.to_string())).collect();
    let (mut wrong, mut accepted, mut refused) = (vec![], 0, 0);
    for (place, around) in PLACES {
        for statement in &statements {
            let text = format!("{ITEMS}{}\n", around.replace("VARIABLES", VARIABLES).replace('@', statement));
            let (said, failed) = outcome(&text);
            let errors = said.iter().any(Diagnostic::is_error);
            (accepted, refused) = (accepted + usize::from(!errors), refused + usize::from(errors));
            if let Some(bad) = said.iter().find(|d| d.code == "E0999").or(failed.as_ref().filter(|d| !may_fail(d))) {
                wrong.push(format!("`{statement}` in {place}: {} {}", bad.code, bad.title));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
}

/// A statement that is only a name, a field or a literal has no effect and causes a warning, also in kernels and for
/// arrays.
#[test]
fn unused_values_are_warnings() {
    let statements = ["x", "w", "m", "x[0]", "p", "p.a", "v.x", "tup", "tup.0", "n + 1", "(1, 2)", "[1, 2]", "n"];
    for (place, around) in &PLACES[..2] {
        for statement in statements {
            let text = format!("{ITEMS}{}\n", around.replace("VARIABLES", VARIABLES).replace('@', statement));
            let (said, failed) = outcome(&text);
            let lint = said.iter().any(|d| d.code == "W0005");
            assert!(
                lint && failed.is_none(),
                "`{statement}` in {place}: {:?}",
                said.iter().map(|d| &d.title).collect::<Vec<_>>()
            );
        }
    }
}
