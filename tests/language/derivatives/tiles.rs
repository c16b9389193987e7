//! Compares derivatives of tile kernels with `mma` with derivatives of array products and with finite differences in
//! `f64`.

use clk_compile::{NoFiles, Session, default_instance};
use clk_ir::def::{CollectiveLoop, StmtKind};
use clk_ir::visit::each_stmt;

use super::gradcheck::checked;

/// The kernels of docs/tiles.md, and others with all kinds of operands.
const KERNELS: &str = "
kernel product(a: [bf16; M, K], b: [bf16; K, N], bias: [f32; N], out c: [f32; M, N])
    grid(ceil_div(N, 16), ceil_div(M, 8)) block(32) {
    let (i, j) = (8 * block_idx.y, 16 * block_idx.x)
    shared acc: [f32; 8, 16]
    acc = 0.0
    for k in 0..K step 8 { acc = mma(acc, a[i..i + 8, k..k + 8], b[k..k + 8, j..j + 16]) }
    c[i..i + 8, j..j + 16] = tanh(acc + bias[j..j + 16])
}
fn product_by_tiles(a: [f32; M, K], b: [f32; K, N], bias: [f32; N], w: [f32; M, N]) -> f32 {
    sum(w * product(bf16(a), bf16(b), bias))
}
kernel rounded(a: [f32; M, K], b: [f32; N, K], out c: [f32; M, N]) grid(ceil_div(N, 16), ceil_div(M, 8)) block(32) {
    let (i, j) = (8 * block_idx.y, 16 * block_idx.x)
    shared acc: [f32; 8, 16]
    acc = 0.0
    for k in 0..K step 8 { acc = mma(acc, tf32(a[i..i + 8, k..k + 8]), transpose(tf32(b[j..j + 16, k..k + 8]))) }
    c[i..i + 8, j..j + 16] = acc
}
fn rounded_by_tiles(a: [f32; M, K], b: [f32; K, N], w: [f32; M, N]) -> f32 { sum(w * tanh(rounded(a, transpose(b)))) }
fn rounded_by_arrays(a: [f32; M, K], b: [f32; K, N], w: [f32; M, N]) -> f32 { sum(w * tanh(tf32(a) @ tf32(b))) }

fn product_by_arrays(a: [f32; M, K], b: [f32; K, N], bias: [f32; N], w: [f32; M, N]) -> f32 {
    sum(w * tanh(f32(bf16(a)) @ f32(bf16(b)) + bias))
}

kernel attention(q: [bf16; N, 16], k: [bf16; N, 16], v: [bf16; N, 16], out o: [f32; N, 16]) grid(ceil_div(N, 8)) block(32) {
    let i = 8 * block_idx.x
    shared acc: [f32; 8, 16]
    shared scores: [f32; 8, 8]
    shared weights: [bf16; 8, 8]
    shared top: [f32; 8]
    shared total: [f32; 8]
    shared shrink: [f32; 8]
    acc = 0.0
    total = 0.0
    top = -1e30
    for j in 0..i + 8 step 8 {
        scores = 0.0
        scores = mma(scores, q[i..i + 8, ..], transpose(k[j..j + 8, ..]))
        scores = select(i + reshape(arange(8), 8, 1) >= j + arange(8), 0.25 * scores, -1e30)
        shrink = top
        top = max(top, max(scores, axis = 1))
        shrink = exp(shrink - top)
        scores = exp(scores - reshape(top, 8, 1))
        total = total * shrink + sum(scores, axis = 1)
        weights = bf16(scores)
        acc = acc * reshape(shrink, 8, 1)
        acc = mma(acc, weights, v[j..j + 8, ..])
    }
    o[i..i + 8, ..] = acc / reshape(total, 8, 1)
}
fn attention_by_tiles(q: [f32; N, 16], k: [f32; N, 16], v: [f32; N, 16], w: [f32; N, 16]) -> f32 {
    sum(w * attention(bf16(q), bf16(k), bf16(v)))
}
fn attention_by_arrays(q: [f32; N, 16], k: [f32; N, 16], v: [f32; N, 16], w: [f32; N, 16]) -> f32 {
    let n = N
    let scores = select(reshape(arange(n), n, 1) >= arange(n), 0.25 * q @ transpose(k), -1e30)
    let weights = exp(scores - reshape(max(scores, axis = 1), n, 1))
    sum(w * (weights @ v / reshape(sum(weights, axis = 1), n, 1)))
}

kernel powers(x: [f16; N, N], s: f32, n: i32, out y: [f32; N, N]) grid(1) block(8) {
    shared t: [f16; 5, 5]
    shared acc: [f32; 5, 5]
    t = x[0..5, 0..5] * f16(s)
    acc = f32(t)
    for k in 0..n {
        if k % 2 == 0 { acc = 0.5 * mma(transpose(acc) * 0.25, t, transpose(t)) }
        if k % 3 == 1 { t = f16(0.5 * acc) + t }
    }
    y[0..5, 0..5] = mma(f32(t), t, t) + acc
}
fn powers_of(x: [f32; N, N], s: f32, n: i32) -> f32 { sum(sin(powers(f16(x), s, n))) }
";

#[track_caller]
fn holds(script: &str) {
    let (error, warnings) = checked(&format!("{KERNELS}{script}"));
    assert!(error.is_none(), "{script}\n{error:?}");
    // A warning would say, for example, that the function has no `f64` shadow with which to compare it.
    assert!(warnings.is_empty(), "{script}\n{warnings:?}");
}

const FACTORS: &str = "
let (a, b) = (random_normal(13, 11, seed = 1), random_normal(11, 21, seed = 2))
let (bias, w) = (random_normal(21, seed = 3), random_normal(13, 21, seed = 4))
";

const QUERIES: &str = "
let n = 21
let (q, k, v, w) = (random_normal(n, 16, seed = 1), random_normal(n, 16, seed = 2), random_normal(n, 16, seed = 3), random_normal(n, 16, seed = 4))
";

#[test]
fn tile_product_gradients_match_array_products() {
    holds(&format!(
        "{FACTORS}
        let (da, db, dbias) = grad(product_by_tiles, wrt = (a, b, bias))(a, b, bias, w)
        let (ea, eb, ebias) = grad(product_by_arrays, wrt = (a, b, bias))(a, b, bias, w)
        assert(close(da, ea, rtol = 1e-2, atol = 1e-4))
        assert(close(db, eb, rtol = 1e-2, atol = 1e-4))
        assert(close(dbias, ebias, rtol = 1e-4, atol = 1e-5))"
    ));
}

#[test]
fn product_gradients_match_finite_differences() {
    holds(&format!("{FACTORS}gradcheck(product_by_tiles, a, b, bias, w, wrt = (a, b, bias))"));
    holds(&format!("{FACTORS}gradcheck(product_by_tiles, a, b, bias, w, wrt = b)"));
}

#[test]
fn tf32_product_gradients_use_rounded_operands() {
    holds(&format!(
        "{FACTORS}
        let (da, db) = grad(rounded_by_tiles, wrt = (a, b))(a, b, w)
        let (ea, eb) = grad(rounded_by_arrays, wrt = (a, b))(a, b, w)
        assert(close(da, ea, rtol = 1e-4, atol = 1e-5))
        assert(close(db, eb, rtol = 1e-4, atol = 1e-5))
        gradcheck(rounded_by_tiles, a, b, w, wrt = (a, b))
        gradcheck(rounded_by_arrays, a, b, w, wrt = (a, b))"
    ));
}

#[test]
fn attention_gradients_match_array_attention() {
    holds(&format!(
        "{QUERIES}
        let (dq, dk, dv) = grad(attention_by_tiles, wrt = (q, k, v))(q, k, v, w)
        let (eq, ek, ev) = grad(attention_by_arrays, wrt = (q, k, v))(q, k, v, w)
        assert(close(dq, eq, atol = 0.03))
        assert(close(dk, ek, atol = 0.03))
        assert(close(dv, ev, atol = 0.03))"
    ));
}

#[test]
fn attention_gradients_match_finite_differences() {
    holds(&format!("{QUERIES}gradcheck(attention_by_tiles, q, k, v, w, wrt = (q, k, v))"));
}

#[test]
fn chained_products_have_f64_shadows() {
    let kernel = "kernel twice(a: [f16; 4, 4], out c: [f32; 4, 4]) grid(1) block(32) {
        shared acc: [f32; 4, 4]
        acc = 0.0
        c[0..4, 0..4] = sin(mma(mma(acc, a[0..4, 0..4], a[0..4, 0..4]), a[0..4, 0..4], a[0..4, 0..4]))
    }";
    holds(&format!(
        "{kernel}\nfn f(a: [f32; 4, 4]) -> f32 {{ sum(sin(twice(f16(a)))) }}\ngradcheck(f, 0.5 * ones(4, 4))"
    ));
}

/// The result of the inner product is the accumulator of the outer one, and the derivative computes it only once.
#[test]
fn chained_products_stay_two_products() {
    let kernel = "kernel twice(a: [f16; 4, 4], out c: [f32; 4, 4]) grid(1) block(32) {
        shared acc: [f32; 4, 4]
        acc = 0.0
        c[0..4, 0..4] = mma(mma(acc, a[0..4, 0..4], a[0..4, 0..4]), a[0..4, 0..4], a[0..4, 0..4])
    }";
    let mut session = Session::default();
    assert!(!session.add("twice.clk", kernel, &NoFiles).failed(), "accepted");
    let (id, _) = session.program.kernels.iter().next().expect("a kernel");
    let instance = default_instance(&session.program, id).expect("no compile-time arguments");
    let module = clk_lower::lower(&session.program, &instance).expect("lowered");
    let mut products = 0;
    each_stmt(&module.functions[module.kernel.body].body, &mut |stmt| {
        products += usize::from(matches!(stmt.kind, StmtKind::For { collective: Some(CollectiveLoop::Gemm(_)), .. }));
    });
    assert_eq!(products, 2);
}

#[test]
fn operands_computed_by_the_block_are_recorded() {
    for n in 0..6 {
        let check = format!("gradcheck(powers_of, 0.3 * random_normal(5, 5, seed = 1), 0.75, {n}, wrt = ");
        holds(&format!("{check}x)"));
        // In `f16`, the derivative with respect to `s` is a small sum of large terms. The check may report lost digits,
        // but must not report wrong rules.
        let (error, _) = checked(&format!("{KERNELS}{check}s)"));
        let is_right = |note: &String| note.starts_with("its rules are right: in `f64` both modes agree");
        assert!(error.as_ref().is_none_or(|error| error.notes.iter().any(is_right)), "{error:?}");
    }
}

#[test]
fn second_derivatives_of_products() {
    holds(
        "fn slope(x: [f32; N, N]) -> f32 { sum(grad(powers_of)(x, 0.75, 3) ** 2.0) }
        gradcheck(slope, 0.3 * random_normal(5, 5, seed = 1))",
    );
}

/// The adjoint of `x[0]` is a sum of 4096 ones. An `f16` accumulator would stop growing at 2048, and a `bf16`
/// accumulator at 256.
#[test]
fn adjoints_of_narrow_types_accumulate_in_f32() {
    for ty in ["f16", "bf16"] {
        holds(&format!(
            "kernel spread(x: [{ty}; N], s: {ty}, out y: [f32; 4096]) threads(i: 4096) {{ y[i] = f32(x[i % N] * s) }}
            fn total(x: [{ty}; N], s: {ty}) -> f32 {{ sum(spread(x, s)) }}
            assert(grad(total, wrt = (x, s))([1.0{ty}], 1.0{ty}) == ([4096.0{ty}], 4096.0{ty}))"
        ));
    }
}
