//! The approximated functions of `f32`, except the trigonometric ones.
//!
//! Each function computes in `f64` with a polynomial accurate to about 35 bits and rounds once. Results are within 0.6
//! ULP. Special cases follow from the arithmetic, and subnormals need no special handling. The functions use only `+`,
//! `-`, `*`, `/`, `sqrt`, shifts and selects. Loops over them are therefore vectorized, and every machine gives the
//! same bits. Only `lgamma` and `tgamma` call `libm`.

/// Evaluates the polynomial with these coefficients, lowest degree first.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + coefficients[i];
    }
    sum
}

/// If this number is added to an `f64` of magnitude below 2^51, the low bits of the sum are the nearest integer.
pub const ROUNDER: f64 = 6755399441055744.0;
pub const LOG2_E: f64 = std::f64::consts::LOG2_E;
pub const LN_2: f64 = std::f64::consts::LN_2;
/// ln 2 is the sum of [`LN_2_HIGH`] and [`LN_2_LOW`]. The first has only 40 bits, so that its products with small
/// integers are exact.
pub const LN_2_HIGH: f64 = 0.6931471805592082;
pub const LN_2_LOW: f64 = 7.371002565167799e-13;

#[inline(always)]
pub(super) fn select(condition: bool, then: f64, other: f64) -> f64 {
    if condition { then } else { other }
}

/// Coefficients of a polynomial for `(exp(r) - 1) / r` with `|r| <= ln(2) / 2`.
pub const EXPM1: [f64; 8] = [
    1.0,
    0.4999999999995475,
    0.16666666787028753,
    0.04166666678698556,
    0.008333283339034426,
    0.0013888838910996056,
    0.00019907702175735054,
    2.4868002978056962e-05,
];
/// Magnitude of exponents beyond which powers of 2 and e overflow or underflow in `f32`.
pub const MAX_EXPONENT: f64 = 300.0;

/// `exp(r) - 1` for `|r| <= ln(2) / 2`.
#[inline(always)]
fn expm1_core(r: f64) -> f64 {
    r * polynomial(r, EXPM1)
}

/// 2^n for the integer `n` that [`ROUNDER`] left in the low bits of `rounded`.
#[inline(always)]
fn power_of_two(rounded: f64) -> f64 {
    f64::from_bits((rounded.to_bits() << 52).wrapping_add(1.0f64.to_bits()))
}

/// Clamps `x` to limits beyond which every `f32` result overflows or underflows; NaN is unchanged.
#[inline(always)]
fn clamp(x: f64, limit: f64) -> f64 {
    let x = select(x > limit, limit, x);
    select(x < -limit, -limit, x)
}

/// Returns `(s, t)` with `exp(x) = s + t`, where `s` is a power of two, for `|x| < 700`.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let rounded = x * LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let s = power_of_two(rounded);
    (s, s * expm1_core(r))
}

/// Returns `exp(x)` of an `f64`, accurate to 37 bits.
#[inline(always)]
fn exp64(x: f64) -> f64 {
    let (s, t) = exp_parts(clamp(x, MAX_EXPONENT));
    s + t
}

/// Returns `exp(x) - 1` of an `f64`, accurate to 37 bits.
#[inline(always)]
fn expm1_64(x: f64) -> f64 {
    let (s, t) = exp_parts(clamp(x, MAX_EXPONENT));
    (s - 1.0) + t
}

/// Returns 2 to the power of an `f64`, accurate to 37 bits.
#[inline(always)]
fn exp2_64(x: f64) -> f64 {
    let x = clamp(x, MAX_EXPONENT);
    let rounded = x + ROUNDER;
    let s = power_of_two(rounded);
    s + s * expm1_core((x - (rounded - ROUNDER)) * LN_2)
}

/// The bits of `sqrt(1/2)`.
pub const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
/// Coefficients of a polynomial in `s * s` for `log((1 + s) / (1 - s)) / s`.
pub const LOG: [f64; 6] = [
    1.999999999999947,
    0.6666666667964496,
    0.3999999487097937,
    0.2857216841420338,
    0.22174150798053732,
    0.19609592365158407,
];

/// Returns `(e, l)` with `log(x) = e * ln(2) + l`, for positive normal finite `x`; accurate relative to the sum to 44
/// bits.
#[inline(always)]
fn log_parts(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    // The biased exponent of x / sqrt(1/2).
    let biased = bits.wrapping_add(1.0f64.to_bits() - SQRT_HALF) >> 52;
    let e = f64::from_bits(0x4330_0000_0000_0000 | biased) - (4503599627370496.0 + 1023.0);
    let m = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(1023) << 52));
    let f = m - 1.0;
    let s = f / (m + 1.0);
    (e, s * polynomial(s * s, LOG))
}

/// Returns `value`, the logarithm that [`log_parts`] computes, or the correct result if the argument is zero, negative,
/// infinite or NaN.
#[inline(always)]
fn log_special(x: f64, value: f64) -> f64 {
    // `x + x` turns a signaling NaN into a quiet one.
    let value = select(x < f64::INFINITY, value, x + x);
    let value = select(x == 0.0, f64::NEG_INFINITY, value);
    select(x < 0.0, f64::NAN, value)
}

#[inline(always)]
fn log64(x: f64) -> f64 {
    let (e, l) = log_parts(x);
    log_special(x, e * LN_2 + l)
}

/// `log(1 + x)`. The rounding error of the sum matters only near 0, where two terms of the series suffice.
#[inline(always)]
fn log1p_64(x: f64) -> f64 {
    let near = x - x * x * (0.5 - x * (1.0 / 3.0));
    select(x.abs() < 0.000244140625, near, log64(1.0 + x))
}

/// `1 / sqrt(x)`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    (1.0 / (x as f64).sqrt()) as f32
}

/// The cube root, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn cbrt(x: f32) -> f32 {
    let wide = x as f64;
    let a = wide.abs();
    // Dividing the upper 32 bits by three, which include the exponent, estimates the root within 5 percent. Each step
    // of Halley's method triples the number of correct digits.
    let third = (a.to_bits() >> 32) as u32 / 3;
    let mut t = f64::from_bits((third.wrapping_add(715094163) as u64) << 32);
    let mut iteration = 0;
    while iteration < 3 {
        let cube = t * t * t;
        t *= (a + a + cube) / (a + cube + cube);
        iteration += 1;
    }
    let special = (a == 0.0) | (a == f64::INFINITY) | a.is_nan();
    select(special, wide + wide, t.copysign(wide)) as f32
}

/// e to the power of x, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    exp64(x as f64) as f32
}

/// 2 to the power of x, with an error below 0.51 ULP; exact for integers.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    exp2_64(x as f64) as f32
}

/// 10 to the power of x, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn exp10(x: f32) -> f32 {
    exp64(x as f64 * std::f64::consts::LN_10) as f32
}

/// `exp(x) - 1`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    // A zero keeps its sign.
    select(x == 0.0, x as f64, expm1_64(x as f64)) as f32
}

/// The natural logarithm, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    log64(x as f64) as f32
}

/// The logarithm to base 2, with an error below 0.51 ULP; exact for powers of two.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    let x = x as f64;
    let (e, l) = log_parts(x);
    log_special(x, e + l * LOG2_E) as f32
}

/// The logarithm to base 10, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn log10(x: f32) -> f32 {
    let x = x as f64;
    let (e, l) = log_parts(x);
    log_special(x, e * std::f64::consts::LOG10_2 + l * std::f64::consts::LOG10_E) as f32
}

/// `log(1 + x)`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn log1p(x: f32) -> f32 {
    select(x == 0.0, x as f64, log1p_64(x as f64)) as f32
}

/// The hyperbolic sine, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn sinh(x: f32) -> f32 {
    let t = expm1_64((x as f64).abs());
    (0.5 * (t + t / (t + 1.0))).copysign(x as f64) as f32
}

/// The hyperbolic cosine, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn cosh(x: f32) -> f32 {
    let e = exp64((x as f64).abs());
    (0.5 * (e + 1.0 / e)) as f32
}

/// The hyperbolic tangent, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let t = expm1_64(2.0 * (x as f64).abs());
    (t / (t + 2.0)).copysign(x as f64) as f32
}

/// The inverse of `sinh`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn asinh(x: f32) -> f32 {
    let a = (x as f64).abs();
    let square = a * a;
    let near = log1p_64(a + square / (1.0 + (square + 1.0).sqrt()));
    select(a < f64::INFINITY, near, a).copysign(x as f64) as f32
}

/// The inverse of `cosh`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn acosh(x: f32) -> f32 {
    let d = x as f64 - 1.0;
    select(d < 0.0, f64::NAN, log1p_64(d + (d * (d + 2.0)).sqrt())) as f32
}

/// The inverse of `tanh`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn atanh(x: f32) -> f32 {
    let a = (x as f64).abs();
    (0.5 * log1p_64((a + a) / (1.0 - a))).copysign(x as f64) as f32
}

/// `sqrt(x*x + y*y)`, with an error below 0.51 ULP. It is infinite if either argument is infinite, even if the other
/// one is NaN.
#[inline(always)]
pub(crate) fn hypot(x: f32, y: f32) -> f32 {
    let (x, y) = ((x as f64).abs(), (y as f64).abs());
    let infinite = (x == f64::INFINITY) | (y == f64::INFINITY);
    select(infinite, f64::INFINITY, (x * x + y * y).sqrt()) as f32
}

/// `x` to the power of `y`, with an error below 0.51 ULP. Special cases are those of C.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let (base, exponent) = (x as f64, y as f64);
    let a = base.abs();
    let (e, l) = log_parts(a);
    let magnitude = exp2_64(exponent * log_special(a, e + l * LOG2_E));
    // Every finite `f32` of magnitude 2^24 or more is an even integer.
    let small = exponent.abs() < 16777216.0;
    let integer = !small | ((exponent + ROUNDER) - ROUNDER == exponent);
    let half = exponent * 0.5;
    let odd = small & integer & ((half + ROUNDER) - ROUNDER != half);
    let negative = x.to_bits() >> 31 != 0;
    let signed = select(negative & odd, -magnitude, magnitude);
    let undefined = (base < 0.0) & !integer & (a < f64::INFINITY);
    let result = select(undefined, f64::NAN, signed);
    // The result is 1 for 1 to any power, for any base to the power of 0 (even NaN), and for -1 to an infinite power.
    let one = (base == 1.0) | (exponent == 0.0) | ((a == 1.0) & (exponent.abs() == f64::INFINITY));
    select(one, 1.0, result) as f32
}

/// Returns `erfc(a)` for `a >= 0`, as `exp(-a²) / a` times a polynomial in `(a - 3) / (a + 3)`. It is accurate for `a
/// >= 1`.
#[inline(always)]
fn erfc_tail(a: f64) -> f64 {
    let t = (a - 3.0) / (a + 3.0);
    let coefficients = [
        0.5370034535437276,
        0.09530622695314778,
        -0.1465830478858226,
        0.13988054779223844,
        -0.09546975792007505,
        0.04635026814892124,
        -0.014019684947873267,
        0.0009106463183539309,
        0.0012417172094411622,
        -0.00041079118870542615,
        -8.021556602432099e-05,
        6.1778069058705e-05,
    ];
    exp64(-a * a) / a * polynomial(t, coefficients)
}

/// `erf(x)` for `|x| <= 1`.
#[inline(always)]
fn erf_near(x: f64) -> f64 {
    let coefficients = [
        1.1283791670946768,
        -0.3761263888963531,
        0.11283791308604582,
        -0.026866133235095593,
        0.005223783477189248,
        -0.0008542637997087229,
        0.0001195656256820733,
        -1.3909340021874599e-05,
        1.058938064107502e-06,
    ];
    x * polynomial(x * x, coefficients)
}

/// Clamps the magnitude of `x` to 11, beyond which `erfc` underflows. NaN is unchanged.
#[inline(always)]
fn erf_argument(x: f64) -> f64 {
    clamp(x, 11.0)
}

/// The error function, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let x = erf_argument(x as f64);
    let far = (1.0 - erfc_tail(x.abs())).copysign(x);
    select(x.abs() < 1.0, erf_near(x), far) as f32
}

/// `1 - erf(x)`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn erfc(x: f32) -> f32 {
    let x = erf_argument(x as f64);
    let tail = erfc_tail(x.abs());
    let far = select(x < 0.0, 2.0 - tail, tail);
    select(x.abs() < 1.0, 1.0 - erf_near(x), far) as f32
}

/// The logarithm of the absolute value of the gamma function: the `f64` result, rounded.
#[inline]
pub(crate) fn lgamma(x: f32) -> f32 {
    libm::lgamma(x as f64) as f32
}

/// The gamma function: the `f64` result, rounded.
#[inline]
pub(crate) fn tgamma(x: f32) -> f32 {
    libm::tgamma(x as f64) as f32
}
