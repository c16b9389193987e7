//! Exact sums and products (totals) of integers. A result that overflows its type is an error.
//!
//! As in NumPy, totals of 8- and 16-bit integers have the type `i64` or `u64`.

use crate::array::Array;
use crate::graph::ExecContext;
use crate::ops::operand;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::Scalar;
use clk_scalar::ops::BinaryOp;
use clk_scalar::with_integer;

/// Returns the default type of a total of integers of a type.
pub(crate) fn total_type(of: Scalar) -> Scalar {
    match of {
        Scalar::I8 | Scalar::I16 => Scalar::I64,
        Scalar::U8 | Scalar::U16 => Scalar::U64,
        other => other,
    }
}

/// Splits 64-bit integers into upper and lower halves of 32 bits, as `i64`. A number is `(first << 32) + second`, where
/// `second` is not negative.
pub(crate) fn halves(exec: &ExecContext, array: &Array, scalar: Scalar) -> HostResult<[Array; 2]> {
    let value = HostValue::Array(array.clone());
    let number = |n: i64| HostValue::Scalar(clk_scalar::ScalarValue::of(n).to_type(scalar));
    let high = super::binary(exec, BinaryOp::Shr, &value, &number(32))?;
    let low = super::binary(exec, BinaryOp::BitAnd, &value, &number(0xffff_ffff))?;
    let half = |value: HostValue| {
        super::convert(exec, Scalar::I64, &value).and_then(|half| operand::array(&half, "a sum").cloned())
    };
    Ok([half(high)?, half(low)?])
}

/// Reconstructs a product of integers from its low 64 bits and its `f64` approximation, which has a relative error of
/// at most 2^-20. `None` if the product is much larger than 64 bits.
pub(crate) fn product_of(bits: i64, about: f64) -> Option<i128> {
    const FAR: f64 = (1u128 << 80) as f64;
    // If a factor is 0, the approximation is 0, or NaN if the other factors overflow.
    if about == 0.0 || about.is_nan() {
        return Some(0);
    }
    if about.abs() > FAR {
        return None;
    }
    // The result is the number with these low bits that is closest to the approximation.
    let (near, bits) = (about as i128, i128::from(bits));
    let span = 1i128 << 64;
    Some(bits + ((near - bits + span / 2).div_euclid(span)) * span)
}

/// Converts totals to an array of the type `to`; an error if one does not fit.
pub(crate) fn fitted(
    what: &str,
    of: &Array,
    numbers: &[Option<i128>],
    shape: &[usize],
    to: Scalar,
) -> HostResult<Array> {
    let bits =
        |number: &Option<i128>| number.and_then(|n| clk_scalar::ScalarValue::from_integer(to, n)).map(|v| v.bits);
    if let Some(wrong) = stop::polled(numbers).find(|number| bits(number).is_none()) {
        return Err(too_large(what, *wrong, to));
    }
    let element = of.element().with_scalar(to);
    let build = |scalar| {
        with_integer!(scalar, R => Some(Array::build(element.clone(), shape, |result: &mut [R]| {
            for (place, number) in stop::polled(result.iter_mut().zip(numbers)) {
                *place = clk_scalar::ScalarType::from_raw(bits(number).unwrap_or(0));
            }
        })), _ => None)
    };
    build(to).unwrap_or_else(|| Err(too_large(what, None, to)))
}

pub(crate) fn too_large(what: &str, total: Option<i128>, to: Scalar) -> RuntimeError {
    let title = match total {
        Some(total) => format!("`{what}` gives {total}, which is no `{to}`"),
        None => format!("`{what}` gives a number that is far too large for an `{to}`"),
    };
    let problem = RuntimeError::new("E0546", title);
    match to {
        Scalar::I64 | Scalar::U64 => problem.help("take floats: `f64(x)`"),
        _ => {
            let wider = if to.is_signed() { Scalar::I64 } else { Scalar::U64 };
            problem.help(format!("take a wider type: `{wider}(x)`"))
        }
    }
}
