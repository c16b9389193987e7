//! Functions of `f64` that `libm` lacks or computes incorrectly. All other functions of `f64` are those of `libm`,
//! which are portable and mostly have errors below 1 ULP.

/// `1 / sqrt(x)`, with an error below 1 ULP.
#[inline(always)]
pub(crate) fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// The inverse of `cosh`. NaN for arguments below 1, for which `libm` returns numbers.
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}
