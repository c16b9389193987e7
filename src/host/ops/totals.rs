//! Sums and products of integers: computed exactly; an error if the result overflows its type.
//!
//! As in NumPy, totals of 8- and 16-bit integers are `i64` or `u64`.

use crate::base::stop;
use crate::host::array::Array;
use crate::host::ops::operand;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{self, Scalar};
use crate::with_integer;

/// Returns the default type of a total.
pub(crate) fn total_type(of: Scalar) -> Scalar {
    match of {
        Scalar::I8 | Scalar::I16 => Scalar::I64,
        Scalar::U8 | Scalar::U16 => Scalar::U64,
        other => other,
    }
}

/// Returns the upper and the lower 32 bits of integers of 64 bits as `i64`: the number is 2^32 times the first plus the second,
/// which is not negative.
pub(crate) fn halves(array: &Array, scalar: Scalar) -> Outcome<[Array; 2]> {
    let value = Value::Array(array.clone());
    let number = |n: i64| Value::Scalar(scalar::Value::of(n).to_type(scalar));
    let high = super::binary(BinaryOp::Shr, &value, &number(32))?;
    let low = super::binary(BinaryOp::BitAnd, &value, &number(0xffff_ffff))?;
    let half =
        |value: Value| super::convert(Scalar::I64, &value).and_then(|half| operand::array(&half, "a sum").cloned());
    Ok([half(high)?, half(low)?])
}

/// Returns a product of integers by its 64 lowest bits and the same product of floats, which is within 2^-20 of it; `None` if it is
/// far beyond 64 bits.
pub(crate) fn product_of(bits: i64, about: f64) -> Option<i128> {
    const FAR: f64 = (1u128 << 80) as f64;
    // A factor of zero makes it 0, and NaN if the others overflow.
    if about == 0.0 || about.is_nan() {
        return Some(0);
    }
    if about.abs() > FAR {
        return None;
    }
    // The number with these bits that is next to it.
    let (near, bits) = (about as i128, i128::from(bits));
    let span = 1i128 << 64;
    Some(bits + ((near - bits + span / 2).div_euclid(span)) * span)
}

/// Returns the totals as an array of type `to`; an error if one does not fit.
pub(crate) fn fitted(what: &str, of: &Array, numbers: &[Option<i128>], shape: &[usize], to: Scalar) -> Outcome<Array> {
    let bits = |number: &Option<i128>| number.and_then(|n| scalar::Value::from_integer(to, n)).map(|v| v.bits);
    if let Some(wrong) = stop::polled(numbers).find(|number| bits(number).is_none()) {
        return Err(too_large(what, *wrong, to));
    }
    let element = of.element().with_scalar(to);
    let build = |scalar| {
        with_integer!(scalar, R => Some(Array::build(element.clone(), shape, |result: &mut [R]| {
            for (place, number) in stop::polled(result.iter_mut().zip(numbers)) {
                *place = scalar::Element::from_raw(bits(number).unwrap_or(0));
            }
        })), _ => None)
    };
    build(to).unwrap_or_else(|| Err(too_large(what, None, to)))
}

pub(crate) fn too_large(what: &str, total: Option<i128>, to: Scalar) -> Problem {
    let title = match total {
        Some(total) => format!("`{what}` gives {total}, which is no `{to}`"),
        None => format!("`{what}` gives a number that is far too large for an `{to}`"),
    };
    let problem = Problem::new("E0546", title);
    match to {
        Scalar::I64 | Scalar::U64 => problem.help("take floats: `f64(x)`"),
        _ => {
            let wider = if to.is_signed() { Scalar::I64 } else { Scalar::U64 };
            problem.help(format!("take a wider type: `{wider}(x)`"))
        }
    }
}
