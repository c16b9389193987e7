//! `a @ b` and `dot`.
//!
//! Every element of a product sums its terms in the order of the inner axis, with one rounding each, like a naive loop. Only
//! which elements are computed together is optimized. (`f16` and `bf16` accumulate in `f32`.)

use crate::base::room;
use crate::base::stop::{self, PART, Ticks};
use crate::host::array::{Array, Item, shape_text};
use crate::host::ops::operand::{array, undefined};
use crate::host::ops::reduce::{Reduce, reduce};
use crate::host::ops::totals::{self, total_type};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::exact::holds;
use crate::lang::scalar::{Integer, Number, Scalar};
use crate::{with_integer, with_number};

/// Returns the product of matrices (2-d) and vectors (1-d).
pub fn matmul(left: &Value, right: &Value) -> Outcome<Value> {
    let (a, b) = (array(left, "`@`")?, array(right, "`@`")?);
    let scalar = common(a, b, left, right)?;
    let (rows, inner) = match a.shape() {
        [k] => (1, *k),
        [m, k] => (*m, *k),
        _ => return Err(wrong_rank(a, "left")),
    };
    let (depth, columns) = match b.shape() {
        [k] => (*k, 1),
        [k, n] => (*k, *n),
        _ => return Err(wrong_rank(b, "right")),
    };
    if inner != depth {
        return Err(inner_mismatch(a, b, inner, depth));
    }
    let mut shape = vec![];
    shape.extend((a.rank() == 2).then_some(rows));
    shape.extend((b.rank() == 2).then_some(columns));
    let size = Size { inner, columns };
    let result = match scalar {
        Scalar::F16 | Scalar::Bf16 => {
            let wide = super::convert(Scalar::F32, left).and_then(|a| Ok((a, super::convert(Scalar::F32, right)?)))?;
            let product = product::<f32>(array(&wide.0, "`@`")?, array(&wide.1, "`@`")?, &shape, size)?;
            array(&super::convert(scalar, &Value::Array(product))?, "`@`").cloned()
        }
        _ if scalar.is_int() => with_integer!(scalar, T => match exact_product::<T>(a, b, &shape, size)? {
            Some(exact) => Ok(exact),
            None => product::<T>(a, b, &shape, size),
        }, _ => return Err(undefined("`@`", &[left, right]))),
        _ => {
            with_number!(scalar, T => product::<T>(a, b, &shape, size), bool => return Err(undefined("`@`", &[left, right])))
        }
    }?;
    Ok(match result.item(0)? {
        Some(item) if shape.is_empty() => item,
        _ => Value::Array(result),
    })
}

fn common(a: &Array, b: &Array, left: &Value, right: &Value) -> Outcome<Scalar> {
    if a.element() != b.element() {
        let title = format!("`@` needs arrays of one element type, not {} and {}", a.element(), b.element());
        return Err(Problem::new("E0504", title).help("convert one of them: `f32(x)`"));
    }
    match a.scalar() {
        Some(scalar) if a.element().lanes() == 1 => Ok(scalar),
        _ => Err(undefined("`@`", &[left, right])),
    }
}

fn wrong_rank(array: &Array, side: &str) -> Problem {
    let title = format!("`@` takes arrays of 1 or 2 axes, and its {side} side has {}", array.rank());
    Problem::new("E0503", title).label(format!("its type is {}", array.type_name()))
}

fn inner_mismatch(a: &Array, b: &Array, inner: usize, depth: usize) -> Problem {
    let (left, right) = (shape_text(a.shape()), shape_text(b.shape()));
    let problem = Problem::new("E0501", format!("arrays of shape {left} and {right} have no product"))
        .label(format!("the last axis of the left side is {inner} long, the first axis of the right side {depth}"));
    let last = b.shape().last().copied();
    match b.rank() == 2 && last == Some(inner) {
        true => problem.help("transpose the right side: `a @ transpose(b)`"),
        false => problem,
    }
}

#[derive(Clone, Copy)]
struct Size {
    inner: usize,
    columns: usize,
}

/// Rows and columns of a register tile.
const TILE_ROWS: usize = 4;
const TILE_COLUMNS: usize = 8;
/// Number of columns of the right side that are packed together.
const PANEL: usize = TILE_COLUMNS;

fn product<T: Item + Number>(a: &Array, b: &Array, shape: &[usize], size: Size) -> Outcome<Array> {
    let (left, right) = (a.items::<T>()?, b.items::<T>()?);
    Array::build(T::SCALAR.into(), shape, |result: &mut [T]| match size.columns {
        1 => {
            let ticks = Ticks::default();
            for (place, row) in result.iter_mut().zip(left.chunks_exact(size.inner.max(1))) {
                ticks.pass(size.inner);
                let terms = stop::parts(row).zip(right.chunks(PART));
                *place = terms.fold(T::default(), |sum, ((_, row), right)| {
                    row.iter().zip(right).fold(sum, |sum, (&x, &y)| sum.op_add(x.op_mul(y)))
                });
            }
        }
        // An empty result needs no packing, however long the other axes are.
        _ if result.is_empty() => {}
        _ => panels(left, right, result, size),
    })
}

/// Packs a panel of columns for sequential access and multiplies all rows by it.
fn panels<T: Item + Number>(left: &[T], right: &[T], result: &mut [T], size: Size) {
    let mut panel = room::filled([T::default(); PANEL], size.inner);
    let ticks = Ticks::default();
    for first in (0..size.columns).step_by(PANEL) {
        for (packed, row) in stop::polled(panel.iter_mut().zip(right.chunks_exact(size.columns))) {
            let row = row.get(first..).unwrap_or(&[]);
            packed.iter_mut().zip(row).for_each(|(place, &x)| *place = x);
        }
        let blocks = result.chunks_mut(size.columns * TILE_ROWS);
        for (out, rows) in blocks.zip(left.chunks((size.inner * TILE_ROWS).max(1))) {
            ticks.pass(size.inner * TILE_ROWS * PANEL);
            let tile = tile(rows, &panel, size.inner);
            for (row, sums) in out.chunks_mut(size.columns).zip(tile) {
                let places = row.get_mut(first..).unwrap_or(&mut []);
                places.iter_mut().zip(sums).for_each(|(place, sum)| *place = sum);
            }
        }
    }
}

/// Returns the products of up to four rows with a panel.
fn tile<T: Item + Number>(rows: &[T], panel: &[[T; PANEL]], inner: usize) -> [[T; TILE_COLUMNS]; TILE_ROWS] {
    let mut sums = [[T::default(); TILE_COLUMNS]; TILE_ROWS];
    let row = |i: usize| rows.get(i * inner..(i + 1) * inner);
    if let (Some(a), Some(b), Some(c), Some(d)) = (row(0), row(1), row(2), row(3)) {
        for ((((p, &a), &b), &c), &d) in panel.iter().zip(a).zip(b).zip(c).zip(d) {
            for (sums, x) in sums.iter_mut().zip([a, b, c, d]) {
                sums.iter_mut().zip(p).for_each(|(sum, &y)| *sum = sum.op_add(x.op_mul(y)));
            }
        }
        return sums;
    }
    for (sums, row) in sums.iter_mut().zip(rows.chunks_exact(inner.max(1))) {
        for (p, &x) in panel.iter().zip(row) {
            sums.iter_mut().zip(p).for_each(|(sum, &y)| *sum = sum.op_add(x.op_mul(y)));
        }
    }
    sums
}

fn exact_dot<T: Item + Integer>(x: &Array, y: &Array, to: Scalar) -> Outcome<Value> {
    let (left, right) = (x.items::<T>()?, y.items::<T>()?);
    let total = totals::fitted("dot", x, &[inner(left.iter().zip(right))], &[], to)?;
    Ok(total.item(0)?.unwrap_or(Value::Unit))
}

/// Returns the exact sum of products; `None` beyond 128 bits.
fn inner<'a, T: Item + Integer>(pairs: impl Iterator<Item = (&'a T, &'a T)>) -> Option<i128> {
    pairs.into_iter().try_fold(0i128, |sum, (&a, &b)| sum.checked_add(totals::wide(a).checked_mul(totals::wide(b))?))
}

/// Recomputes integer products exactly if their sums might overflow the type; `None` if they cannot.
fn exact_product<T: Item + Integer>(a: &Array, b: &Array, shape: &[usize], size: Size) -> Outcome<Option<Array>> {
    let (left, right) = (a.items::<T>()?, b.items::<T>()?);
    let largest = |items: &[T]| items.iter().map(|&x| totals::wide(x).abs()).max().unwrap_or(0);
    let bound = largest(left).checked_mul(largest(right)).and_then(|n| n.checked_mul(size.inner as i128));
    if bound.is_some_and(|bound| holds(T::SCALAR, bound)) {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(shape.iter().product());
    for row in left.chunks_exact(size.inner.max(1)) {
        for column in 0..size.columns {
            found.push(inner(row.iter().zip(right.iter().skip(column).step_by(size.columns.max(1)))));
        }
    }
    totals::fitted("@", a, &found, shape, T::SCALAR).map(Some)
}

/// Returns the sum of products of the lanes of two vectors, in order, or of the elements of two 1-d arrays.
pub fn dot(a: &Value, b: &Value) -> Outcome<Value> {
    dot_to(a, b, None)
}

/// As [`dot`]; for arrays of integers the sum is exact, and of type `to` if given.
pub(crate) fn dot_to(a: &Value, b: &Value, to: Option<Scalar>) -> Outcome<Value> {
    if let (Value::Array(x), Value::Array(y)) = (a, b)
        && let Some(scalar) = x.scalar().filter(|s| s.is_int() && x.element() == y.element())
        && x.element().lanes() == 1
        && x.rank() == 1
        && x.shape() == y.shape()
    {
        let to = to.unwrap_or(total_type(scalar));
        return with_integer!(scalar, T => exact_dot::<T>(x, y, to), _ => Err(undefined("`dot`", &[a, b])));
    }
    let product = super::binary(BinaryOp::Mul, a, b)?;
    match (&product, a, b) {
        (Value::Vector(lanes), Value::Vector(_), Value::Vector(_)) => {
            let mut lanes = lanes.values().map(Value::Scalar);
            let first = lanes.next().ok_or_else(|| undefined("`dot`", &[a, b]))?;
            lanes.try_fold(first, |sum, lane| super::binary(BinaryOp::Add, &sum, &lane))
        }
        (Value::Array(array), Value::Array(x), Value::Array(y)) if array.rank() == 1 && x.shape() == y.shape() => {
            reduce(Reduce::Sum, &product, None)
        }
        _ => Err(undefined("`dot`", &[a, b])),
    }
}
