//! Functions of `f64` that `libm` lacks or has wrong. The others are `libm`'s: portable arithmetic, below 1 ULP for most functions.

/// `1 / sqrt(x)`, within 1 ULP.
#[inline(always)]
pub(crate) fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// The inverse of `cosh`; NaN for arguments below 1, for which `libm` returns numbers.
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}
