//! What `libm` does not have for `f64`, or has wrong. The rest is `libm` as it is: portable arithmetic, below 1 ULP for most functions.

/// `1 / sqrt(x)`, within 1 ULP.
#[inline(always)]
pub(crate) fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// The inverse of `cosh`; `libm`'s gives numbers below 1.
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}
