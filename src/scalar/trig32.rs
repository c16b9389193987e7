//! The trigonometric functions of `f32` and their inverses, computed like those of `math32`.
//!
//! Angles are reduced by multiples of pi/2. For angles up to 2^26, the reduction represents pi/2 as the sum of two
//! numbers (Cody-Waite). For greater angles, it multiplies integers, with as many digits of 2/pi as the exponent
//! requires (Payne-Hanek). Both reductions are computed, and one of the results is selected.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use super::math32::{ROUNDER, polynomial, select};

/// An angle, represented as `quarters * pi/2 + rest` with `|rest| <= pi/4`. Only the last two bits of `quarters` are
/// used.
#[derive(Clone, Copy)]
struct ReducedAngle {
    quarters: u32,
    rest: f64,
}

/// Returns whether an angle is small enough for [`reduce_small`].
#[inline(always)]
fn in_range(x: f32) -> bool {
    x.abs() < 67108864.0
}

/// Reduces an angle that is [`in_range`].
#[inline(always)]
fn reduce_small(x: f32) -> ReducedAngle {
    // pi/2 is the sum of `HIGH` and a remainder. `HIGH` has only 27 bits, so that its products with integers up to 2^26
    // are exact.
    const HIGH: f64 = 1.570796325802803;
    const LOW: f64 = 9.920935796805404e-10;
    let x = x as f64;
    let rounded = x * FRAC_2_PI + ROUNDER;
    let n = rounded - ROUNDER;
    ReducedAngle { quarters: rounded.to_bits() as u32, rest: (x - n * HIGH) - n * LOW }
}

/// Reduces an angle that is not [`in_range`]. `rest` is NaN if the angle is infinite or NaN.
#[inline(always)]
fn reduce_large(x: f32) -> ReducedAngle {
    /// The binary digits of 2/pi after the point.
    const DIGITS: [u32; 7] =
        [0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];
    let bits = x.to_bits();
    let mantissa = (bits & 0x007f_ffff | 0x0080_0000) as u64;
    // x is mantissa * 2^exponent. Digits of 2/pi whose product with x is a multiple of 4 are skipped, because they only
    // add full turns.
    let exponent = (bits >> 23 & 0xff).wrapping_sub(150);
    let skipped = exponent.wrapping_sub(2);
    let (word, shift) = (skipped >> 5, skipped & 31);
    let pick = |i: usize| {
        let low = if word & 1 == 0 { DIGITS[i] } else { DIGITS[i + 1] };
        let high = if word & 1 == 0 { DIGITS[i + 2] } else { DIGITS[i + 3] };
        (if word & 2 == 0 { low } else { high }) as u64
    };
    let (a, b, c, d) = (pick(0), pick(1), pick(2), pick(3));
    let window = |high: u64, low: u64| ((high << 32 | low) << shift) >> 32;
    let (first, second, third) = (window(a, b), window(b, c), window(c, d));
    // The angle in quarter turns modulo 4, with 62 fraction bits.
    let iterations = (mantissa.wrapping_mul(first) << 32)
        .wrapping_add(mantissa.wrapping_mul(second))
        .wrapping_add(mantissa.wrapping_mul(third) >> 32);
    let quarters = iterations.wrapping_add(1 << 61) >> 62;
    let fraction = iterations.wrapping_sub(quarters << 62);
    let high = (fraction >> 32) as i32 as f64;
    let low = fraction as u32 as f64;
    let rest = (high * 4294967296.0 + low) * (FRAC_PI_2 / 4611686018427387904.0);
    let negative = bits >> 31 != 0;
    ReducedAngle {
        quarters: if negative { 0u32.wrapping_sub(quarters as u32) } else { quarters as u32 },
        rest: select(x.is_finite(), select(negative, -rest, rest), f64::NAN),
    }
}

#[inline(always)]
fn reduce(x: f32) -> ReducedAngle {
    let (small, large) = (reduce_small(x), reduce_large(x));
    if in_range(x) { small } else { large }
}

/// `sin(r)` for `|r| <= pi/4`.
#[inline(always)]
fn sin_core(r: f64) -> f64 {
    let coefficients =
        [0.9999999999956297, -0.1666666663131027, 0.00833332875517132, -0.00019839193964485497, 2.717269367045458e-06];
    r * polynomial(r * r, coefficients)
}

/// `cos(r)` for `|r| <= pi/4`.
#[inline(always)]
fn cos_core(r: f64) -> f64 {
    let coefficients = [
        0.9999999999999437,
        -0.4999999999934461,
        0.04166666654292815,
        -0.0013888880342838477,
        2.479891815008481e-05,
        -2.7172666562783097e-07,
    ];
    polynomial(r * r, coefficients)
}

/// Returns the sine of the angle plus `quarter` quarter turns.
#[inline(always)]
fn sin_shifted(angle: ReducedAngle, quarter: u32) -> f32 {
    let quarters = angle.quarters.wrapping_add(quarter);
    let value = if quarters & 1 == 0 { sin_core(angle.rest) } else { cos_core(angle.rest) };
    select(quarters & 2 == 0, value, -value) as f32
}

#[inline(always)]
fn tan_reduced(angle: ReducedAngle) -> f32 {
    let (sin, cos) = (sin_core(angle.rest), cos_core(angle.rest));
    let even = angle.quarters & 1 == 0;
    (select(even, sin, -cos) / select(even, cos, sin)) as f32
}

/// The sine of an angle in radians, with an error below 0.6 ULP for any angle.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    sin_shifted(reduce(x), 0)
}

/// The cosine of an angle in radians, with an error below 0.6 ULP for any angle.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    sin_shifted(reduce(x), 1)
}

/// The tangent of an angle in radians, with an error below 0.6 ULP for any angle.
#[inline(always)]
pub(crate) fn tan(x: f32) -> f32 {
    tan_reduced(reduce(x))
}

/// `asin(s)` where `z` is `s * s`, for `0 <= s <= 1/2`.
#[inline(always)]
fn asin_core(s: f64, z: f64) -> f64 {
    let coefficients = [
        1.000000000000825,
        0.16666666613278705,
        0.07500005655821883,
        0.04464056469220037,
        0.03042811901907943,
        0.02185574259984348,
        0.02068132717169167,
        0.0019156113431105127,
        0.03295759470084881,
    ];
    s * polynomial(z, coefficients)
}

/// Returns `asin(a)` and `acos(a)` for `a >= 0`. Uses the half-angle formula for `a > 1/2`.
#[inline(always)]
fn asin_acos(a: f64) -> (f64, f64) {
    let beyond = a > 0.5;
    let z = select(beyond, (1.0 - a) * 0.5, a * a);
    let s = select(beyond, z.sqrt(), a);
    let p = asin_core(s, z);
    (select(beyond, FRAC_PI_2 - (p + p), p), select(beyond, p + p, FRAC_PI_2 - p))
}

/// The angle whose sine is `x`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn asin(x: f32) -> f32 {
    let x = x as f64;
    asin_acos(x.abs()).0.copysign(x) as f32
}

/// The angle whose cosine is `x`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn acos(x: f32) -> f32 {
    let x = x as f64;
    let angle = asin_acos(x.abs()).1;
    select(x < 0.0, PI - angle, angle) as f32
}

/// `atan(small / large)` for `0 <= small <= large`.
#[inline(always)]
fn atan_core(small: f64, large: f64) -> f64 {
    // If the quotient is above tan(pi/8), the angle is computed relative to pi/4.
    let is_rotated = small > large * 0.41421356237309503;
    let numerator = select(is_rotated, small - large, small);
    let denominator = select(is_rotated, small + large, large);
    let t = numerator / select(denominator == 0.0, 1.0, denominator);
    let coefficients = [
        0.9999999999992406,
        -0.3333333327665221,
        0.1999999302540986,
        -0.142853854666178,
        0.11103437092731207,
        -0.08992368875138163,
        0.06973355596975836,
        -0.03765005089998715,
    ];
    select(is_rotated, FRAC_PI_4, 0.0) + t * polynomial(t * t, coefficients)
}

/// The angle whose tangent is `x`, with an error below 0.51 ULP.
#[inline(always)]
pub(crate) fn atan(x: f32) -> f32 {
    let a = (x as f64).abs();
    let steep = a > 1.0;
    // An infinite argument is replaced by the largest finite one, whose reciprocal is negligible.
    let a = select(a == f64::INFINITY, f64::MAX, a);
    let angle = atan_core(select(steep, 1.0, a), select(steep, a, 1.0));
    select(steep, FRAC_PI_2 - angle, angle).copysign(x as f64) as f32
}

/// The angle of the point (x, y), from -pi to pi, with an error below 0.51 ULP. Results for signed zeros and infinities
/// are those of C.
#[inline(always)]
pub(crate) fn atan2(y: f32, x: f32) -> f32 {
    let (wide_y, wide_x) = (y as f64, x as f64);
    let (a, b) = (wide_y.abs(), wide_x.abs());
    // If both arguments are infinite, the angle is that of (1, 1). If one is infinite, the other one is treated as
    // zero.
    let infinite = (a == f64::INFINITY) | (b == f64::INFINITY);
    let a = select(infinite, select(a == f64::INFINITY, 1.0, 0.0), a);
    let b = select(infinite, select(b == f64::INFINITY, 1.0, 0.0), b);
    let steep = a > b;
    let angle = atan_core(select(steep, b, a), select(steep, a, b));
    let angle = select(steep, FRAC_PI_2 - angle, angle);
    let angle = select(x.to_bits() >> 31 != 0, PI - angle, angle).copysign(wide_y);
    select(x.is_nan() | y.is_nan(), f64::NAN, angle) as f32
}
