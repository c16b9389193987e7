//! Tests the accuracy of the `f32` functions against the `f64` functions of `libm`, whose results have 29 more bits.

use clk_scalar::{Float, NumericScalar, math64};
use clk_testing::random::Random;

type Function = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);

fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// Each entry: the name, the function under test, the accurate function, and the error bound in ULPs.
const FUNCTIONS: &[Function] = &[
    ("rsqrt", Float::op_rsqrt, rsqrt, 0.501),
    ("cbrt", Float::op_cbrt, libm::cbrt, 0.501),
    ("exp", Float::op_exp, libm::exp, 0.501),
    ("exp2", Float::op_exp2, libm::exp2, 0.501),
    ("exp10", Float::op_exp10, libm::exp10, 0.501),
    ("expm1", Float::op_expm1, libm::expm1, 0.501),
    ("log", Float::op_log, libm::log, 0.501),
    ("log2", Float::op_log2, libm::log2, 0.501),
    ("log10", Float::op_log10, libm::log10, 0.501),
    ("log1p", Float::op_log1p, libm::log1p, 0.501),
    ("sin", Float::op_sin, libm::sin, 0.501),
    ("cos", Float::op_cos, libm::cos, 0.501),
    ("tan", Float::op_tan, libm::tan, 0.501),
    ("asin", Float::op_asin, libm::asin, 0.501),
    ("acos", Float::op_acos, libm::acos, 0.501),
    ("atan", Float::op_atan, libm::atan, 0.501),
    ("sinh", Float::op_sinh, libm::sinh, 0.501),
    ("cosh", Float::op_cosh, libm::cosh, 0.501),
    ("tanh", Float::op_tanh, libm::tanh, 0.501),
    ("asinh", Float::op_asinh, libm::asinh, 0.501),
    ("acosh", Float::op_acosh, math64::acosh, 0.501),
    ("atanh", Float::op_atanh, libm::atanh, 0.501),
    ("erf", Float::op_erf, libm::erf, 0.501),
    ("erfc", Float::op_erfc, libm::erfc, 0.501),
    ("lgamma", Float::op_lgamma, libm::lgamma, 0.501),
    ("tgamma", Float::op_tgamma, libm::tgamma, 0.501),
];

/// Returns the distance between two results, in ULPs of `exact` as an `f32`. It is infinite if only one of them is NaN
/// or infinite.
fn ulps(ours: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if ours.to_bits() == rounded.to_bits() || ours.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    if ours.is_nan() || rounded.is_nan() || ours == 0.0 && rounded == 0.0 {
        return f64::INFINITY;
    }
    let place = |x: f32| (f32::from_bits(x.abs().min(3.4e38).to_bits() + 1) - x.abs().min(3.4e38)) as f64;
    let unit = place(rounded);
    // Replaces infinities by 2^128, which would be the number after the largest f32.
    let number =
        |x: f64| x.clamp(-340282366920938463463374607431768211456.0, 340282366920938463463374607431768211456.0);
    (number(ours as f64) - number(exact)).abs() / unit
}

/// Returns the worst error of a function on `inputs`, and the input.
fn worst(function: &Function, inputs: impl Iterator<Item = u32>) -> (f64, f32) {
    let (_, ours, exact, _) = function;
    inputs.map(f32::from_bits).fold((0.0, 0.0), |worst, x| {
        let distance = ulps(ours(x), exact(x as f64));
        if distance > worst.0 { (distance, x) } else { worst }
    })
}

fn check(stride: usize) {
    let specials = [0.0f32, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-45, -1e-45, f32::MAX, f32::MIN, f32::NAN];
    let infinite = [f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 67108864.0, 67108860.0, -67108864.0];
    let mut failures = vec![];
    for function in FUNCTIONS {
        let specials = specials.iter().chain(&infinite).map(|x| x.to_bits());
        let near = specials.flat_map(|bits| (0..64).map(move |d| bits.wrapping_add(d).wrapping_sub(32)));
        let (distance, x) = worst(function, near.chain((0..=u32::MAX).step_by(stride)));
        println!("{:8} {distance:.4} ULP at {x:e} ({:#010x})", function.0, x.to_bits());
        if distance > function.3 {
            let (ours, exact) = (function.1(x), function.2(x as f64));
            failures.push(format!("{}({x:e}) is {ours:e}, exactly {exact:e}: {distance} ULP", function.0));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn unary_functions_stay_within_error_bounds() {
    check(2039);
}

#[test]
#[ignore = "all 2^32 inputs of every function take hours"]
fn unary_functions_stay_within_error_bounds_for_all_inputs() {
    check(1);
}

#[test]
fn binary_functions_stay_within_error_bounds() {
    let mut random = Random(1);
    let mut next = move || (random.word() >> 32) as u32;
    let specials = [0.0f32, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e30, -1e30, f32::NAN, 1e-45, 2e7, -2e7];
    let limits = [f32::INFINITY, f32::NEG_INFINITY, 16777215.0, -16777217.0, f32::MAX];
    let all: Vec<f32> = specials.into_iter().chain(limits).collect();
    let mut pairs: Vec<(f32, f32)> = all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).collect();
    for _ in 0..200_000 {
        pairs.push((f32::from_bits(next()), f32::from_bits(next())));
        // Chooses a base and an exponent whose power neither overflows nor underflows.
        let (a, b) = (next() as f32 / 4e7, (next() as f32 - 2e9) / 1e8);
        pairs.push((a, b));
        pairs.push((1.0 + a * 1e-5, b * 1e4));
    }
    type BinaryFunction = (&'static str, fn(f32, f32) -> f32, fn(f64, f64) -> f64);
    let functions: [BinaryFunction; 3] = [
        ("pow", NumericScalar::op_pow, libm::pow),
        ("atan2", Float::op_atan2, libm::atan2),
        ("hypot", Float::op_hypot, libm::hypot),
    ];
    for (name, ours, exact) in functions {
        for &(x, y) in &pairs {
            let (a, b) = (ours(x, y), exact(x as f64, y as f64));
            let distance = ulps(a, b);
            assert!(distance <= 0.501, "{name}({x:e}, {y:e}) is {a:e}, exactly {b:e}: {distance} ULP");
        }
    }
}
