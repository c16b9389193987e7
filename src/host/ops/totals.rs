//! Sums and products of integers: computed exactly; an error if the result overflows its type.
//!
//! As in NumPy, totals of 8- and 16-bit integers are `i64` or `u64`.

use crate::base::room;
use crate::base::stop::{self, Ticks};
use crate::host::array::{Array, Item};
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::{self, Integer, Scalar};
use crate::with_integer;

use super::grid::Grid;

/// Returns the default type of a total.
pub(crate) fn total_type(of: Scalar) -> Scalar {
    match of {
        Scalar::I8 | Scalar::I16 => Scalar::I64,
        Scalar::U8 | Scalar::U16 => Scalar::U64,
        other => other,
    }
}

/// The kind of total.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Total {
    Sum,
    Product,
}

/// An exact total; `None` if it is beyond 128 bits.
type Exact = Option<i128>;

impl Total {
    pub fn name(self) -> &'static str {
        match self {
            Total::Sum => "sum",
            Total::Product => "prod",
        }
    }

    fn start(self) -> Exact {
        Some(if self == Total::Sum { 0 } else { 1 })
    }

    fn add(self, total: Exact, x: i128) -> Exact {
        match self {
            Total::Sum => total?.checked_add(x),
            // A factor of zero makes an overflowed product 0.
            Total::Product if x == 0 => Some(0),
            Total::Product => total?.checked_mul(x),
        }
    }
}

/// Computes the totals along the middle axis of a grid, as numbers of type `to`.
pub(crate) fn totals<T: Item + Integer>(
    how: Total,
    array: &Array,
    grid: Grid,
    shape: &[usize],
    to: Scalar,
) -> Outcome<Array> {
    let Grid { outer, len, inner } = grid;
    let items = array.items::<T>()?;
    let mut found = room::filled(how.start(), outer * inner);
    let blocks = found.chunks_exact_mut(inner.max(1)).zip(items.chunks_exact((len * inner).max(1)));
    for (totals, block) in stop::polled(blocks) {
        match totals {
            [total] if how == Total::Sum => *total = Some(sum(block)),
            totals => {
                let ticks = Ticks::default();
                for row in block.chunks_exact(inner.max(1)) {
                    ticks.pass(inner);
                    totals.iter_mut().zip(row).for_each(|(total, &x)| *total = how.add(*total, wide(x)));
                }
            }
        }
    }
    fitted(how.name(), array, &found, shape, to)
}

/// Computes cumulative sums, as numbers of type `to`.
pub(crate) fn running<T: Item + Integer>(array: &Array, lanes: usize, to: Scalar) -> Outcome<Array> {
    let mut sums = vec![0i128; lanes];
    let mut found = room::vec(array.count() * lanes);
    for row in stop::polled(array.items::<T>()?.chunks_exact(lanes.max(1))) {
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum += wide(x);
            found.push(Some(*sum));
        }
    }
    fitted("cumsum", array, &found, array.shape(), to)
}

pub(crate) fn wide<T: Item + Integer>(x: T) -> i128 {
    match T::SCALAR {
        Scalar::U64 => i128::from(x.to_raw()),
        _ => i128::from(scalar::Element::to::<i64>(x)),
    }
}

fn sum<T: Item + Integer>(run: &[T]) -> i128 {
    if T::BITS > 32 {
        return stop::polled(run).map(|&x| wide(x)).sum();
    }
    // The sum of a part of 32-bit numbers fits 64 bits.
    let total = |part: &[T]| i128::from(part.iter().map(|&x| scalar::Element::to::<i64>(x)).sum::<i64>());
    stop::parts(run).map(|(_, part)| total(part)).sum()
}

/// Returns the totals as an array of type `to`; an error if one does not fit.
pub(crate) fn fitted(what: &str, of: &Array, numbers: &[Exact], shape: &[usize], to: Scalar) -> Outcome<Array> {
    let bits = |number: &Exact| number.and_then(|n| scalar::Value::from_integer(to, n)).map(|v| v.bits);
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

pub(crate) fn too_large(what: &str, total: Exact, to: Scalar) -> Problem {
    let title = match total {
        Some(total) => format!("`{what}` gives {total}, which is no `{to}`"),
        None => format!("`{what}` gives a number of more than 128 bits, which is no `{to}`"),
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
