//! `a @ b` and `dot`: their operands are checked here; [`product`] computes them and defines the order of sums.

use crate::host::array::broadcast::{broadcast_to, common_shape};
use crate::host::array::{Array, shape_text};
use crate::host::graph::Operand;
use crate::host::graph::integers::narrowed;
use crate::host::graph::product::{self, Product, Sizes};
use crate::host::ops::operand::{array, undefined};
use crate::host::ops::reduce::{Reduce, reduce};
use crate::host::ops::totals::{self, total_type};
use crate::host::problem::{Outcome, Problem};
use crate::host::shard::{self, lift};
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::Scalar;

/// Returns the product of matrices, the last two axes of arrays whose other axes are broadcast, and of vectors (1-d).
pub fn matmul(left: &Value, right: &Value) -> Outcome<Value> {
    let (a, b) = (array(left, "`@`")?, array(right, "`@`")?);
    let scalar = common(a, b, left, right)?;
    for (side, array) in [("left", a), ("right", b)] {
        if array.rank() == 0 {
            return Err(without_axes(array, side));
        }
    }
    let inner = a.shape().last().copied().unwrap_or(1);
    let depth = b.shape().iter().rev().nth(usize::from(b.rank() > 1)).copied().unwrap_or(1);
    if inner != depth {
        return Err(inner_mismatch(a, b, inner, depth));
    }
    if let Some(product) = in_parts(a, b)? {
        return Ok(Value::Array(product));
    }
    let (found, shape) = match (a.rank(), b.rank()) {
        (_, 1) => {
            let outer = a.shape()[..a.rank() - 1].to_vec();
            (dots((a, a.shape()), (b, b.shape()), a.shape(), a.rank() - 1, &outer)?, outer)
        }
        (1, rank) => {
            let mut outer = b.shape().to_vec();
            outer.remove(rank - 2);
            (dots((a, &[inner, 1]), (b, b.shape()), b.shape(), rank - 2, &outer)?, outer)
        }
        _ => matrices(a, b)?,
    };
    finished("@", a, found, &shape, scalar)
}

/// Multiplies by the parts of a left side that is cut along rows, or of a right side that is cut along columns; all of the other side
/// goes to each.
fn in_parts(a: &Array, b: &Array) -> Outcome<Option<Array>> {
    let whole = |array: &Array| shard::of(array).map_or_else(|| Ok(array.clone()), |sharded| sharded.whole());
    let multiply = |a: &Array, b: &Array| match matmul(&Value::Array(a.clone()), &Value::Array(b.clone()))? {
        Value::Array(product) => Ok(product),
        value => Array::full(&value, &[]),
    };
    let exact = a.scalar().is_some_and(Scalar::is_int);
    if let Some(left) = shard::of(a).filter(|left| left.layout().axis + 1 < a.rank() && b.rank() <= 2) {
        let b = whole(b)?;
        let axis = left.layout().axis;
        let sites = &left.team().sites;
        return lift::rows(&left, axis, exact, |p, part| multiply(part, &shard::replica(&b, &sites[p])?)).map(Some);
    }
    if let Some(right) = shard::of(b).filter(|right| b.rank() == 2 && right.layout().axis == 1 && a.rank() <= 2) {
        let a = whole(a)?;
        let sites = &right.team().sites;
        return lift::rows(&right, a.rank() - 1, exact, |p, part| multiply(&shard::replica(&a, &sites[p])?, part))
            .map(Some);
    }
    Ok(None)
}

fn dots(
    (a, of_a): (&Array, &[usize]),
    (b, of_b): (&Array, &[usize]),
    shape: &[usize],
    axis: usize,
    outer: &[usize],
) -> Outcome<Product> {
    let operand = |array: &Array, shape: &[usize]| Operand::Array(array.clone(), shape.to_vec());
    product::dots(operand(a, of_a), operand(b, of_b), shape, axis, outer)
}

fn matrices(a: &Array, b: &Array) -> Outcome<(Product, Vec<usize>)> {
    let ((batch_a, own_a), (batch_b, own_b)) = (a.shape().split_at(a.rank() - 2), b.shape().split_at(b.rank() - 2));
    let batch = common_shape(&[("the left side", batch_a), ("the right side", batch_b)])?;
    // A side of one matrix is shared; one that repeats in another way is copied.
    let spread = |array: &Array, own: &[usize]| match array.count() == own.iter().product::<usize>() {
        true => Ok(array.clone()),
        false => broadcast_to(array, &[&batch, own].concat()).unwrap_or_else(|| Ok(array.clone())),
    };
    let (a, b) = (spread(a, own_a)?, spread(b, own_b)?);
    let (rows, inner, columns) = (own_a[0], own_a[1], own_b[1]);
    let shape = [batch.as_slice(), &[rows, columns]].concat();
    let sizes = Sizes { batch: batch.iter().product(), rows, inner, columns };
    Ok((product::matrices(&a, &b, sizes, &shape)?, shape))
}

/// Returns a product as a value of this type.
fn finished(what: &str, of: &Array, found: Product, shape: &[usize], to: Scalar) -> Outcome<Value> {
    let result = match found {
        Product::Done(found) if found.scalar() == Some(to) => found,
        Product::Done(found) | Product::Wide(found) => {
            narrowed(&found, to)?.map_err(|wrong| totals::too_large(what, Some(wrong), to))?
        }
        Product::Exact(numbers) => totals::fitted(what, of, &numbers, shape, to)?,
    };
    Ok(match shape.is_empty() {
        true => result.item(0)?.unwrap_or(Value::Unit),
        false => Value::Array(result),
    })
}

fn common(a: &Array, b: &Array, left: &Value, right: &Value) -> Outcome<Scalar> {
    if a.element() != b.element() {
        let title = format!("`@` needs arrays of one element type, not {} and {}", a.element(), b.element());
        return Err(Problem::new("E0504", title).help("convert one of them: `f32(x)`"));
    }
    match a.scalar() {
        Some(scalar) if a.element().lanes() == 1 && scalar.is_num() => Ok(scalar),
        _ => Err(undefined("`@`", &[left, right])),
    }
}

fn without_axes(array: &Array, side: &str) -> Problem {
    Problem::new("E0503", format!("`@` takes arrays with axes, and its {side} side has none"))
        .label(format!("its type is {}", array.type_name()))
}

fn inner_mismatch(a: &Array, b: &Array, inner: usize, depth: usize) -> Problem {
    let (left, right) = (shape_text(a.shape()), shape_text(b.shape()));
    let which = if b.rank() > 2 { "last but one" } else { "first" };
    let problem = Problem::new("E0501", format!("arrays of shape {left} and {right} have no product"))
        .label(format!("the last axis of the left side is {inner} long, the {which} axis of the right side {depth}"));
    let last = b.shape().last().copied();
    match b.rank() == 2 && last == Some(inner) {
        true => problem.help("transpose the right side: `a @ transpose(b)`"),
        false => problem,
    }
}

/// Returns the sum of products of the lanes of two vectors, in order, or of the elements of two 1-d arrays.
pub fn dot(a: &Value, b: &Value) -> Outcome<Value> {
    dot_to(a, b, None)
}

/// As [`dot`]; for arrays of integers the sum is exact, and of type `to` if given. Of arrays of numbers it is `a @ b`.
pub(crate) fn dot_to(a: &Value, b: &Value, to: Option<Scalar>) -> Outcome<Value> {
    if let (Value::Array(x), Value::Array(y)) = (a, b)
        && let Some(scalar) = x.scalar().filter(|s| s.is_num() && x.element() == y.element())
        && x.element().lanes() == 1
        && x.rank() == 1
        && x.shape() == y.shape()
    {
        let found = dots((x, x.shape()), (y, y.shape()), x.shape(), 0, &[])?;
        return finished("dot", x, found, &[], to.unwrap_or(total_type(scalar)));
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
