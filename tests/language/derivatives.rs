//! Tests derivatives of host functions. For random functions, forward mode, reverse mode and finite differences must
//! agree, also for second derivatives. Other functions have a known derivative, or must be refused at a known place.
//!
//! `CLK_RANDOM_PROGRAMS=10000 CLK_RANDOM_SEED=7 cargo test --test language derivatives::` tries more, and other,
//! functions.

mod arrays;
mod custom_vjp;
mod deterministic;
mod gradcheck;
mod random;
mod tiles;

use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_host::value::HostValue;
use clk_runtime::Control;
use clk_sim::Simulator;
use clk_testing::setting;
use clk_testing::world::CapturedOutput;

/// Runs a script and returns its last value.
fn run(text: &str) -> Result<HostValue, Box<Diagnostic>> {
    run_with(text).0
}

/// Like [`run`], but also returns the warnings.
fn run_with(text: &str) -> (Result<HostValue, Box<Diagnostic>>, Vec<Diagnostic>) {
    let mut session = Session::default();
    let outcome = session.add("derivatives.clk", text, &NoFiles);
    assert!(!outcome.failed(), "the script is not accepted:\n{text}\n{:?}", outcome.diagnostics);
    let control = Control { workers: 1, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let (mut last, mut paper) = (HostValue::Unit, CapturedOutput::default());
    for chunk in outcome.chunks {
        match interpreter.run_chunk(&session, chunk, &mut paper) {
            Ok(value) => last = value.unwrap_or(last),
            Err(error) => return (Err(error), interpreter.take_warnings()),
        }
    }
    assert!(!paper.0.contains("never"), "a successful check prints nothing");
    (Ok(last), interpreter.take_warnings())
}

/// Returns the numbers that a script computes; `None` if it needs a derivative that is documented as unsupported.
fn numbers_unless_refused(text: &str) -> Option<Vec<f64>> {
    match run(text) {
        Err(error) if error.title == "the second derivative of a product with a factor 0 is not computed" => None,
        _ => Some(numbers(text)),
    }
}

fn numbers(text: &str) -> Vec<f64> {
    match run(text) {
        Ok(HostValue::Array(array)) => array.items::<f64>().expect("an array on the host").to_vec(),
        Ok(other) => panic!("no array but {other:?}:\n{text}"),
        Err(error) => panic!("{} {}\n{:?}\n{text}", error.code, error.title, error.labels),
    }
}

/// Computes the numbers that the test of random functions compares: values of a function `f`, its derivatives along a
/// direction `v` in forward and reverse mode, and difference quotients.
const COMPARE: &str = "
fn slope(x: [f64; 3, 4], v: [f64; 3, 4], h: f64) -> f64 { (f(x + h * v) - f(x - h * v)) / (2.0 * h) }
fn along(x: [f64; 3, 4], v: [f64; 3, 4]) -> f64 { sum(grad(f)(x) * v) }
let x = 2.0 * random(3, 4, seed = SEED, type = f64) - 1.0
let v = 2.0 * random(3, 4, seed = SEED + 1, type = f64) - 1.0
let (y, forward) = jvp(f)(x, tangent = v)
let backward = sum(grad(f)(x) * v)
let (same, pulled) = vjp(f)(x, cotangent = 2.0)
let (_, twice) = jvp(along)(x, v, tangent = v)
[f(x), y, same, forward, backward, sum(pulled * v) / 2.0, twice, sum(grad(along)(x, v) * v),
 slope(x, v, 1e-4), slope(x, v, 5e-5), slope(x, v, 1e-6), (along(x + 1e-5 * v, v) - along(x - 1e-5 * v, v)) / 2e-5]
";

fn close(a: f64, b: f64, within: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= within * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn random_functions_agree() {
    let (count, first) = (setting("CLK_RANDOM_PROGRAMS", 60), setting("CLK_RANDOM_SEED", 1));
    let (mut kinks, mut refused) = (0, 0);
    for seed in first..first + count {
        let function = random::function(seed);
        let text = format!("{function}{}", COMPARE.replace("SEED", &seed.to_string()));
        let Some(numbers) = numbers_unless_refused(&text) else {
            refused += 1;
            continue;
        };
        let [f, y, same, forward, backward, pulled, twice, back_twice, wide, narrow, least, second] = numbers[..]
        else {
            panic!("twelve numbers")
        };
        let failure = |what: &str| format!("{what} of function {seed}: {numbers:?}\n{function}");
        if f.is_nan() {
            kinks += 1;
            continue;
        }
        assert!(f == y && f == same, "{}", failure("the results"));
        assert!(close(forward, backward, 1e-9), "{}", failure("forward and backward"));
        assert!(close(forward, pulled, 1e-9), "{}", failure("forward and vjp"));
        assert!(close(twice, back_twice, 1e-8), "{}", failure("the second derivatives"));
        // If the difference quotients of two step sizes disagree, `f` has a kink between the points, or its values are
        // too large.
        if close(wide, narrow, 1e-4) && y.abs() < 1e6 {
            // The larger steps may span many jumps, so the quotient of the smallest step may agree instead.
            let agrees = close(forward, (4.0 * narrow - wide) / 3.0, 2e-5) || close(forward, least, 1e-4);
            assert!(agrees, "{}", failure("differences"));
        } else {
            kinks += 1;
        }
        if close(twice, second, 1e-3) {
            continue;
        }
        assert!(!close(wide, narrow, 1e-6) || twice.abs() > 1e5, "{}", failure("differences of the gradient"));
    }
    assert!(
        kinks * 4 <= count && refused * 10 <= count,
        "{count} functions: {kinks} have kinks here, {refused} are refused"
    );
    println!("{count} functions: {kinks} have kinks where they are looked at, {refused} are refused");
}

/// Bodies of functions of an array `x`, each with a value of `x` and the known gradient there.
const KNOWN: &[(&str, &str, &[f64])] = &[
    // A product in a loop in which each iteration overwrites values that the next iteration needs.
    ("var p = 1.0f64\n for i in 0..N { p *= x[i] }\n p", "[1.0f64, 2.0, 4.0]", &[8.0, 4.0, 2.0]),
    ("var p = 1.0f64\n for i in 0..N { p *= x[i] }\n p", "[0.0f64, 2.0, 0.0]", &[0.0, 0.0, 0.0]),
    ("prod(x)", "[0.0f64, 2.0, 4.0]", &[8.0, 0.0, 0.0]),
    ("prod(x)", "[0.0f64, 2.0, 0.0]", &[0.0, 0.0, 0.0]),
    // The number of iterations is known only at run time.
    ("var s = 0.0f64\n var i = 0\n while s < 2.5 { s += x[i]; i += 1 }\n s", "[1.0f64, 2.0, 4.0]", &[1.0, 1.0, 0.0]),
    (
        "var s = x[0]\n for i in 0..N { for j in i..N { s = s * x[j] } }\n s",
        "[1.0f64, 2.0, 4.0]",
        &[512.0, 256.0, 192.0],
    ),
    // Elements are overwritten.
    ("var y = x\n y[1] = y[0] * y[2]\n y[0..2] = y[1..3] * 2.0\n sum(y * y)", "[1.0f64, 2.0, 3.0]", &[72.0, 0.0, 54.0]),
    ("var y = x\n y[0] = 3.0\n sum(y * y)", "[1.0f64, 2.0, 4.0]", &[0.0, 4.0, 8.0]),
    ("var y = x\n y *= y\n y *= y\n sum(y)", "[1.0f64, 2.0, 4.0]", &[4.0, 32.0, 256.0]),
    ("var y = x\n y[[0, 0, 1]] = x * x\n sum(y)", "[1.0f64, 2.0, 4.0]", &[0.0, 4.0, 9.0]),
    // One element is used several times.
    ("let y = x[[0, 0, 2, 0]]\n sum(y * y)", "[1.0f64, 2.0, 4.0]", &[6.0, 0.0, 8.0]),
    ("sum(x[x > 1.5] * 3.0)", "[1.0f64, 2.0, 4.0]", &[0.0, 3.0, 3.0]),
    // Conventions at kinks.
    ("max(x)", "[4.0f64, 4.0, 1.0]", &[0.5, 0.5, 0.0]),
    ("sum(max(x, 2.0))", "[1.0f64, 2.0, 4.0]", &[0.0, 0.5, 1.0]),
    ("sum(abs(x))", "[-1.0f64, 0.0, 4.0]", &[-1.0, 0.0, 1.0]),
    ("sum(floor(x) * x)", "[1.5f64, 2.5, 4.5]", &[1.0, 2.0, 4.0]),
    ("sum(x ** 0.0 + x ** 1.0)", "[0.0f64, 2.0, -4.0]", &[1.0, 1.0, 1.0]),
    ("select(x[0] > 0.0, x[1] * x[1], 1.0 / x[0])", "[1.0f64, 2.0, 4.0]", &[0.0, 4.0, 0.0]),
    // Branches that are not taken, elements that are not selected, and elements that are overwritten do not contribute
    // to the gradient.
    ("sum(select(x > 1.0, sqrt(x - 1.0) * 2.0 + log(x - 1.0), 3.0 * x))", "[1.0f64, 2.0, 5.0]", &[3.0, 2.0, 0.75]),
    ("let y = sqrt(x - 1.0)\n sum(y[x > 1.0]) + y[1]", "[1.0f64, 2.0, 5.0]", &[0.0, 1.0, 0.25]),
    (
        "let y = -sqrt(x - 1.0)\n var s = 0.0f64\n for i in 1..N { s += y[i] }\n s",
        "[1.0f64, 2.0, 5.0]",
        &[0.0, -0.5, -0.25],
    ),
    ("var y = sqrt(x - 1.0)\n y[0] = 7.0\n y[[0, 0]] = [x[1], x[2]]\n sum(y)", "[1.0f64, 2.0, 5.0]", &[0.0, 0.5, 1.25]),
    ("sum(sides(x))", "[0.0f64, 1.0, 4.0]", &[-1.0, 4.5, 1.125]),
    // Selected elements contribute their derivative, even if it is infinite.
    ("sum(select(x >= 0.0, sqrt(x), 0.0))", "[0.0f64, 1.0, 4.0]", &[f64::INFINITY, 0.5, 0.25]),
    // A branch that is not taken does not contribute to the gradient, even if its value would be NaN.
    ("if x[0] > 0.0 { x[0] * 3.0 } else { sqrt(x[0] - 1.0) }", "[1.0f64, 2.0, 4.0]", &[3.0, 0.0, 0.0]),
    // The result does not depend on the argument, or treats one of its uses as a constant (`no_grad`).
    ("7.0f64 + 0.0 * f64(N)", "[1.0f64, 2.0, 4.0]", &[0.0, 0.0, 0.0]),
    ("sum(x * no_grad(x))", "[1.0f64, 2.0, 4.0]", &[1.0, 2.0, 4.0]),
    // A derivative of a derivative: d/dx of 2 x is 2.
    ("let g = grad(square)(x[0])\n g * x[1]", "[1.0f64, 2.0, 4.0]", &[4.0, 2.0, 0.0]),
    ("grad(square)(grad(square)(x[0]) + 0.0 * x[2])", "[1.0f64, 2.0, 4.0]", &[4.0, 0.0, 0.0]),
    // Nested derivatives do not confuse their perturbations: d/dx of x * d/dy (x + y) is 1.
    ("x[0] * grad(shifted, wrt = y)(x[0], x[1])", "[1.0f64, 2.0, 4.0]", &[1.0, 0.0, 0.0]),
    ("x[0] * jvp(shifted, wrt = y)(x[0], x[1], tangent = 1.0).1", "[1.0f64, 2.0, 4.0]", &[1.0, 0.0, 0.0]),
    ("sum(cumsum(x) * x)", "[1.0f64, 2.0, 4.0]", &[8.0, 9.0, 11.0]),
    ("let m = reshape(concat(x, x), 2, 3)\n sum(m @ transpose(m))", "[1.0f64, 2.0, 4.0]", &[8.0, 16.0, 32.0]),
    (
        "let v = f64x3(x[0], x[1], x[2])\n dot(v, v) + length(v) * length(v) + v.zx.y",
        "[1.0f64, 2.0, 4.0]",
        &[5.0, 8.0, 16.0],
    ),
    ("var v = f64x2(x[0], x[1])\n v.x = v.y * x[2]\n dot(v, v)", "[1.0f64, 2.0, 4.0]", &[0.0, 68.0, 32.0]),
    // Gradients through components of arrays of vectors, and through components of one vector at an index known only at
    // run time.
    ("var v = full(N, f64x3(0.0))\n v.x = x * x\n sum(v.x)", "[1.0f64, 2.0, 4.0]", &[2.0, 4.0, 8.0]),
    (
        "var v = full(N, f64x2(1.0))\n v.xy = v.yx\n v.y *= x\n v[2].x += x[0] * x[1]\n sum(v.x) + sum(v.y * v.y)",
        "[1.0f64, 2.0, 4.0]",
        &[4.0, 5.0, 8.0],
    ),
    (
        "var v = full(N, f64x2(1.0))\n v.y = x\n v.y[1] = 7.0\n v.y[..2] *= 2.0\n sum(v.y)",
        "[1.0f64, 2.0, 4.0]",
        &[2.0, 0.0, 1.0],
    ),
    ("var v = full(N, f64x2(1.0))\n halve(v.x, x)\n sum(v.x * v.y)", "[1.0f64, 2.0, 4.0]", &[0.5, 0.5, 0.5]),
    ("let g = grad(of_columns)(x)\n sum(g * g)", "[1.0f64, 2.0, 4.0]", &[8.0, 16.0, 32.0]),
    (
        "let v = f64x3(x[0], x[1], x[2])\n var s = 0.0f64\n for i in 0..2 { s += v[i] * v[i + 1] }\n s",
        "[1.0f64, 2.0, 4.0]",
        &[2.0, 5.0, 2.0],
    ),
    (
        "var v = f64x3(x[0], x[1], x[2])\n for i in 0..2 { v[i] = v[i + 1] * v[0] }\n v.x + v.y",
        "[1.0f64, 2.0, 4.0]",
        &[10.0, 5.0, 2.0],
    ),
    (
        "let t = (x, f64x2(x[0], x[1]))\n var u = t\n u.1.x *= u.0[2]\n u.0[1..] = [u.1.x, 1.0]\n sum(u.0) + u.1.y",
        "[1.0f64, 2.0, 4.0]",
        &[5.0, 1.0, 1.0],
    ),
    (
        "let y: [f64; 3] = reshape(x, 3)\n var z: [f64; 3] = y\n z[0] *= z[1]\n sum(z)",
        "[1.0f64, 2.0, 4.0]",
        &[2.0, 2.0, 1.0],
    ),
    // Library functions.
    ("sum(scan.inclusive(x) * x) + sum(scan.exclusive(x))", "[1.0f64, 2.0, 4.0]", &[10.0, 10.0, 11.0]),
    ("sum(reduce.segment_sums([0, 2, 2, 3], x) ** 2.0)", "[1.0f64, 2.0, 4.0]", &[6.0, 6.0, 8.0]),
    ("reduce.total(x) * linalg.inner(x, x) + reduce.maximum(x)", "[1.0f64, 2.0, 4.0]", &[35.0, 49.0, 78.0]),
    ("cross(f64x3(x[0], x[1], x[2]), f64x3(1.0, 0.0, 2.0)).y", "[1.0f64, 2.0, 4.0]", &[-2.0, 0.0, 1.0]),
    ("var s = 0.0f64\n for e in x { s += e * e }\n s", "[1.0f64, 2.0, 4.0]", &[2.0, 4.0, 8.0]),
    ("let (a, b) = (x[0], (x[1], x))\n a * b.0 + sum(b.1)", "[1.0f64, 2.0, 4.0]", &[3.0, 2.0, 1.0]),
    // Functions that launch kernels: with index spaces and with blocks, with loops that overwrite values, with arrays
    // changed in place, with scalar and struct parameters, and with several results.
    ("sum(squares(x) * x)", "[1.0f64, 2.0, 4.0]", &[3.0, 12.0, 48.0]),
    ("sum(powers(reshape(x, 1, N), x[1]))", "[1.0f64, 2.0, 4.0]", &[16.0, 16.0, 4.0]),
    ("sum(total(x))", "[1.0f64, 2.0, 4.0]", &[1.0, 1.0, 1.0]),
    ("var y = x\n bump(y, 3.0)\n bump(y, x[0])\n sum(y)", "[1.0f64, 2.0, 4.0]", &[36.0 + 2457.0, 288.0, 2304.0]),
    ("var y = x\n first(x, y)\n sum(y * y)", "[1.0f64, 2.0, 4.0]", &[18.0, 4.0, 8.0]),
    (
        "let (s, p) = both(x, Weights { a: x[0], b: 2.0 })\n sum(s) + sum(p * p)",
        "[1.0f64, 2.0, 4.0]",
        &[16.0, 17.0, 33.0],
    ),
    ("let g = grad(through)(x)\n sum(g * g)", "[1.0f64, 2.0, 4.0]", &[36.0, 288.0, 2304.0]),
    ("sum(positive(x - 2.0, x[1]))", "[1.0f64, 2.0, 4.0]", &[0.0, 2.0, 2.0]),
    // `no_grad` works in kernels and in functions that kernels call. The derivative of a step function is zero
    // everywhere.
    ("sum(held(x, P { a: x[0], b: 1.0 }))", "[1.0f64, 2.0, 4.0]", &[4.0, 2.0, 4.0]),
    ("let g = grad(held_twice)(x)\n sum(g * x)", "[1.0f64, 2.0, 4.0]", &[1.0, 2.0, 4.0]),
    ("sum(own(x))", "[1.0f64, 2.0, 4.0]", &[1.0, 2.0, 4.0]),
    ("f64(i32(floor(x[0])) + i32(round(sum(x)))) * x[1]", "[1.0f64, 2.0, 4.0]", &[0.0, 8.0, 0.0]),
    ("sum(positive(no_grad(x) - 2.0, x[1] * x[2]))", "[1.0f64, 2.0, 4.0]", &[0.0, 8.0, 4.0]),
    ("let g = grad(lifted)(x)\n sum(g)", "[1.0f64, 2.0, 4.0]", &[6.0, 12.0, 24.0]),
    ("sum(of_table(Table { w: x[0], c: x[..2] }, x))", "[1.0f64, 2.0, 4.0]", &[11.0, 2.5, 1.0]),
    ("f64(prod(f32(x) * f32(1e-25))) * 1e25", "[1.0f64, 2.0, 0.0]", &[0.0, 0.0, 0.0]),
    ("x[0] % x[1]", "[0.9f64, 0.1, 4.0]", &[1.0, -8.0, 0.0]),
    ("sum(gathered(x, [2, 0, 2, 2]))", "[1.0f64, 2.0, 4.0]", &[2.0, 0.0, 24.0]),
    ("f64(f32(x[0])) * x[1]", "[1.0f64, 2.0, 4.0]", &[2.0, 1.0, 0.0]),
    // Second derivatives of a kernel in which no two threads store to the same element.
    ("let g = grad(distinct)(x)\n sum(g * g)", "[1.0f64, 2.0, 4.0]", &[96.0, 3072.0, 98304.0]),
    // All lanes store the same sum, and one of them receives its adjoint. The derivative is launched with different
    // blocks than the kernel.
    ("summed(x)[0]", "[1.0f64, 2.0, 4.0]", &[2.0, 4.0, 8.0]),
    (
        "var y = x\n placed<<<1, (4, 2)>>>(x, y)\n placed<<<1, 4>>>(y, y)\n sum(y)",
        "[1.0f64, 2.0, 4.0]",
        &[4.0, 32.0, 256.0],
    ),
];

/// The kernels that the functions in [`KNOWN`] launch.
const KERNELS: &str = "
import std.linalg
import std.reduce
import std.scan
fn halve(inout a: [f64; N], b: [f64; N]) { a[..] *= 0.5 * b }
fn of_columns(x: [f64; N]) -> f64 {
    var v = full(N, f64x2(1.0))
    v.x = x
    v.y = v.x * x
    sum(v.y)
}
kernel squares(x: [f64; N], out y: [f64; N]) threads(i: N) { y[i] = x[i] * x[i] }
kernel powers(x: [f64; M, N], s: f64, out y: [f64; M]) threads(i: M) {
    var p = s
    for j in 0..N { p *= x[i, j] }
    y[i] = p
}
kernel total(x: [f64; N], out y: [f64; ceil_div(N, 32)]) grid(ceil_div(N, 32)) block(32) {
    shared s: [f64; 32]
    let t = thread_idx.x
    s[t] = if global_idx.x < N { x[global_idx.x] } else { 0.0 }
    barrier()
    for half in [16, 8, 4, 2, 1] {
        if t < half { s[t] += s[t + half] }
        barrier()
    }
    if t == 0 { y[block_idx.x] = s[0] }
}
kernel bump(inout x: [f64; N], by: f64) threads(i: N) { x[i] = x[i] * x[i] * by }
kernel first(x: [f64; N], out y: [f64; N]) threads(i: N) { if i == 0 { y[i] = 3.0 * x[i] } }
struct Weights { a: f64, b: f64 }
kernel both(x: [f64; N], w: Weights, out s: [f64; N], out p: [f64; N]) threads(i: N) {
    s[i] = w.a * x[i]
    p[i] = w.b * x[i]
}
kernel moved(x: [f64; N], at: [i32; N], out y: [f64; N]) threads(i: N) assume distinct(at) { y[at[i]] = x[i] * x[i] }
fn distinct(x: [f64; N]) -> f64 {
    let y = moved(x, (arange(N) + 1) % N)
    sum(y * y)
}
kernel summed(x: [f64; N], out y: [f64; 1]) grid(1) block(32) {
    let v = if thread_idx.x < N { x[thread_idx.x] } else { 0.0 }
    y[0] = warp_reduce_add(v * v)
}
kernel placed(x: [f64; N], inout y: [f64; N]) grid(1) block(32) {
    if thread_idx.x < N { y[thread_idx.x] = x[thread_idx.x] * x[thread_idx.x] }
}
struct P { a: f64, b: f64 }
fn own(t: f64) -> f64 { t * no_grad(t) }
kernel held(x: [f64; N], p: P, out y: [f64; N]) threads(i: N) {
    let q = no_grad(p)
    y[i] = own(x[i]) + q.a * p.b * f64(bitcast(u64, no_grad(x[i])) & 0) + f64(i32(no_grad(x[i]))) * 0.0 + p.a * q.b
}
fn held_twice(x: [f64; N]) -> f64 { sum(own(x)) }
kernel sides(x: [f64; N], out y: [f64; N]) threads(i: N) {
    let root = sqrt(x[i])
    let ratio = select(x[i] > 0.0, root * 4.0 + log(root) * root / root, 0.0)
    y[i] = select(x[i] < 100.0, ratio, 1.0 / (x[i] - x[i]))
    y[i] += select(x[i] > 0.0, select(x[i] > 1.0, 0.0, x[i] ** 2.0), 1.0 / (x[i] - 1.0))
}
kernel gathered(x: [f64; N], at: [i32; K], out y: [f64; K]) threads(k: K) { y[k] = x[at[k]] * x[at[k]] }
fn positive(t: f64, s: f64) -> f64 { if t > 0.0 { t * s } else { 0.0 } }
fn cube(t: f64) -> f64 { t * t * t }
fn lifted(x: [f64; N]) -> f64 { sum(cube(x)) }
struct Table { w: f64, c: [f64; 2] }
fn of_table(t: Table, x: f64) -> f64 { t.w * x + t.c[0] * t.c[1] * 0.5 }
fn through(x: [f64; N]) -> f64 { sum(squares(x) * x) + 0.0 * sum(total(x)) }
";

#[test]
fn known_gradients() {
    for (body, at, expected) in KNOWN {
        let text = format!(
            "{KERNELS}fn square(t: f64) -> f64 {{ t * t }}\nfn shifted(s: f64, y: f64) -> f64 {{ s + y }}\n\
             fn f(x: [f64; N]) -> f64 {{\n {body}\n}}\nlet x = {at}\nlet (_, t) = jvp(f)(x, tangent = [1.0, 10.0, 100.0])\n\
             concat(grad(f)(x), [t])"
        );
        let actual = numbers(&text);
        let forward = expected[0] + 10.0 * expected[1] + 100.0 * expected[2];
        let all: Vec<f64> = expected.iter().copied().chain([forward]).collect();
        assert!(actual.iter().zip(&all).all(|(a, b)| close(*a, *b, 1e-12)), "{actual:?}, not {all:?}:\n{text}");
    }
}

/// Functions of a number `x`, each with the position of a kink or pole, and the derivative that Clk defines there.
const KINKS: &[(&str, f64, f64)] = &[
    ("max(x, 0.0)", 0.0, 0.5),
    ("min(0.0, x)", 0.0, 0.5),
    ("max(x, x)", 2.0, 1.0),
    ("clamp(x, 0.0, 1.0)", 0.0, 0.5),
    ("clamp(x, 0.0, 1.0)", 1.0, 0.5),
    ("abs(x)", 0.0, 0.0),
    ("copysign(x, -1.0)", 0.0, -1.0),
    ("hypot(x, 0.0)", 0.0, 0.0),
    ("length(f64x2(x, 0.0))", 0.0, 0.0),
    ("length(f64x3(x, 2.0 * x, x)) * 3.0", 0.0, 0.0),
    ("sqrt(x)", 0.0, f64::INFINITY),
    ("cbrt(x)", 0.0, f64::INFINITY),
    ("rsqrt(x)", 0.0, f64::NEG_INFINITY),
    ("log(x)", 0.0, f64::INFINITY),
    ("floor(x)", 1.0, 0.0),
    ("ceil(x)", 1.0, 0.0),
    ("round(x)", 0.5, 0.0),
    ("trunc(x)", 0.0, 0.0),
    ("sign(x)", 0.0, 0.0),
    ("fract(x)", 1.0, 1.0),
    ("f64(tf32(f32(x)))", 1.0, 1.0),
    ("x % 1.0", 1.0, 1.0),
    ("x ** 0.0", 0.0, 0.0),
    ("x ** 1.0", 0.0, 1.0),
    ("x ** 2.0", 0.0, 0.0),
    ("0.0f64 ** x", 2.0, 0.0),
    ("select(x > 0.0, sqrt(x), 0.0)", 0.0, 0.0),
];

#[test]
fn kinks_have_the_derivatives_of_the_convention() {
    for (function, at, expected) in KINKS {
        let text = format!(
            "fn f(x: f64) -> f64 {{ {function} }}\nkernel k(x: [f64; N], out y: [f64; N]) threads(i: N) {{ let x = x[i]\n y[i] = \
             {function} }}\nfn g(x: [f64; N]) -> f64 {{ sum(k(x)) }}\nfn h(x: [f64; N]) -> f64 {{ sum(f(x)) }}\nlet x = {at}f64\n\
             [grad(f)(x), jvp(f)(x, tangent = 1.0f64).1, grad(g)([x])[0], jvp(g)([x], tangent = [1.0]).1, grad(h)([x])[0]]"
        );
        let actual = numbers(&text);
        assert!(actual.iter().all(|actual| actual == expected), "{function} at {at}: {actual:?}, not {expected}");
    }
}

/// Two threads store the same value in `y[0]`; reverse mode may pass the adjoint of `y[0]` to either of them.
#[test]
fn gradients_through_unproved_stores_have_forward_derivatives() {
    let text = "kernel put(x: [f64; N], at: [i32; N], inout y: [f64; N]) threads(i: N) {\n    \
                if i < 2 { y[at[i]] = x[0] ** 3.0 * x[2] } else { y[at[i]] = x[i] ** 4.0 }\n}\n\
                fn f(x: [f64; N], at: [i32; N]) -> f64 { var y = x\n put(x, at, y)\n sum(y * y) }\n\
                reshape(hessian(f)([1.0, 3.0, 2.0], [0, 0, 2]), 9)";
    let (a, c) = (1.0f64, 2.0f64);
    let expected = [
        30.0 * a.powi(4) * c * c,
        0.0,
        12.0 * a.powi(5) * c,
        0.0,
        2.0,
        0.0,
        12.0 * a.powi(5) * c,
        0.0,
        2.0 * a.powi(6) + 56.0 * c.powi(6),
    ];
    let actual = numbers(text);
    assert!(actual.iter().zip(&expected).all(|(a, b)| close(*a, *b, 1e-12)), "{actual:?}, not {expected:?}");
}

#[test]
fn products_beyond_the_range_of_their_type_have_derivatives() {
    let text = "fn f(x: [f32; N]) -> f32 { prod(x) }\nf64(concat(grad(f)([1e-25, 1e-25]), grad(f)([1e25, 1e25])))";
    let actual = numbers(text);
    assert!(actual.iter().zip([1e-25, 1e-25, 1e25, 1e25]).all(|(a, b)| close(a / b, 1.0, 1e-6)), "{actual:?}");
}

/// Function bodies whose derivative is refused at run time, each with the source text at which the error points.
const REFUSED: &[(&str, &str)] = &[
    ("f64(i32(x[0])) * x[1]", "i32(x[0])"),
    ("f64(bitcast(u64, x[0]) >> 3) * x[1]", "bitcast(u64, x[0])"),
    ("bitcast(f64, bitcast(u64, x[0])) * x[1]", "bitcast(u64, x[0])"),
    ("sum(bitcast(f64, bitcast(i64, x)))", "bitcast(i64, x)"),
    ("sum(masked(x))", "bitcast(u64, x[i])"),
    ("lgamma(x[0])", "lgamma(x[0])"),
    ("sum(linspace(0.0, x[0], 5))", "linspace(0.0, x[0], 5)"),
    ("save(\"never.npy\", x)\n x[0]", "save(\"never.npy\", x)"),
    ("sum(rounded(x))", "i32(x[i])"),
    ("var t = full(N, (0.0f64, 1.0f64))\n t.0 = x\n sum(t.0)", "t.0"),
    ("var t = full(N, (0.0f64, 1.0f64))\n t[1].0 += x[0]\n sum(t.0)", "t[1].0"),
    ("var t = full(N, (0.0f64, 1.0f64))\n t[1] = (x[0], x[1])\n sum(t.0)", "t[1]"),
    ("let t = full(3, (x[0], 1.0f64))\n sum(t.0)", "full(3, (x[0], 1.0f64))"),
    ("let t = [(x[0], 1.0f64), (x[1], 2.0f64)]\n sum(t.0)", "let t = [(x[0], 1.0f64), (x[1], 2.0f64)]"),
    ("sum(grad(anywhere)(x))", "y[at[i]]"),
    ("var n = full(100000, 1)\n n[0] = 20000\n sum(settled(full(100000, x[0]), n))", "for k in 0..n[i] { s = sin(s) }"),
    // The reverse sweep detects this error.
    ("let y = x * 2.0\n var z = y\n z[[0, 0]] = x[0]\n let s = sum(z)\n s * 3.0", "z[[0, 0]] = x[0]"),
];

#[test]
fn non_differentiable_operations_are_refused_at_their_place() {
    for (body, place) in REFUSED {
        let text = format!(
            "kernel moved(x: [f64; N], at: [i32; N], out y: [f64; N]) threads(i: N) {{ y[at[i]] = x[i] * x[i] }}\n\
             fn anywhere(x: [f64; N]) -> f64 {{ sum(moved(x, (arange(N) + 1) % N)) }}\n\
             kernel rounded(x: [f64; N], out y: [f64; N]) threads(i: N) {{ y[i] = 2.0 * f64(i32(x[i])) }}\n\
             kernel masked(x: [f64; N], out y: [f64; N]) threads(i: N) {{ y[i] = bitcast(f64, bitcast(u64, x[i]) >> 1) }}\n\
             kernel settled(x: [f64; N], n: [i32; N], out y: [f64; N]) threads(i: N) {{\n    var s = x[i]\n    \
             for k in 0..n[i] {{ s = sin(s) }}\n    y[i] = s\n}}\n\
             fn f(x: [f64; N]) -> f64 {{ {body} }}\ngrad(f)([1.0, 2.0, 4.0])"
        );
        let error = run(&text).expect_err(body);
        assert!(matches!(error.code, "E0720" | "E0723" | "E0491" | "E0715"), "{body}: {} {}", error.code, error.title);
        let span = error.labels.first().expect("a place").span;
        assert_eq!(&text[span.start as usize..span.end as usize], *place, "{body}: {}", error.title);
        assert!(!error.help.is_empty(), "{body}: a way out");
    }
}

/// In a kernel, a float that is converted to its bits and back keeps its derivative.
#[test]
fn derivatives_pass_through_bitcasts() {
    let text = "kernel through(x: [f64; N], out y: [f64; N]) threads(i: N) {
            var s = bitcast(f64, bitcast(u64, x[i])) * x[i]
            for k in 0..2 { s = s * bitcast(f64, bitcast(i64, s)) }
            y[i] = s
        }
        fn f(x: [f64; N]) -> f64 { sum(through(x)) }
        let (_, forward) = jvp(f)([2.0, -1.0], tangent = [1.0, 0.0])
        concat(grad(f)([2.0, -1.0]), [forward])";
    assert_eq!(numbers(text), [1024.0, -8.0, 1024.0]);
}
