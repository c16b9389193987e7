//! The operator `a @ b` and the function `dot`: checks the operands. [`graph::matmul`](mod@crate::graph::matmul)
//! computes the products and defines the order of sums.

use crate::array::broadcast::{broadcast_to, common_shape};
use crate::array::{Array, shape_text};
use crate::graph::integer_range::narrow_exactly;
use crate::graph::matmul::{self, GemmSizes, MatmulResult};
use crate::graph::{ExecContext, NodeOperand};
use crate::ops::operand::{array, undefined};
use crate::ops::reduce::{ReduceKind, reduce};
use crate::ops::totals::{self, total_type};
use crate::problem::{HostResult, RuntimeError};
use crate::shard::{self, lift};
use crate::value::HostValue;
use clk_scalar::Scalar;
use clk_scalar::ops::BinaryOp;

/// Evaluates `left @ right`: the product of matrices or vectors (1-d arrays). The last two axes of an array are
/// matrices; the other axes are broadcast.
pub fn matmul(exec: &ExecContext, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
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
    if let Some(product) = matmul_by_shards(exec, a, b)? {
        return Ok(HostValue::Array(product));
    }
    let (found, shape) = match (a.rank(), b.rank()) {
        (_, 1) => {
            let outer = a.shape()[..a.rank() - 1].to_vec();
            (dots(exec, a, a.shape(), b, b.shape(), a.shape(), a.rank() - 1, &outer)?, outer)
        }
        (1, rank) => {
            let mut outer = b.shape().to_vec();
            outer.remove(rank - 2);
            (dots(exec, a, &[inner, 1], b, b.shape(), b.shape(), rank - 2, &outer)?, outer)
        }
        _ => batched_matmul(exec, a, b)?,
    };
    convert_result(exec, "@", a, found, &shape, scalar)
}

/// Multiplies sharded operands: the left one may be sharded along rows, or the right one along columns. The other
/// operand is replicated.
fn matmul_by_shards(exec: &ExecContext, a: &Array, b: &Array) -> HostResult<Option<Array>> {
    let whole =
        |array: &Array| shard::as_sharded(array).map_or_else(|| Ok(array.clone()), |sharded| sharded.gather_all());
    let multiply = |exec: &ExecContext, a: &Array, b: &Array| match matmul(
        exec,
        &HostValue::Array(a.clone()),
        &HostValue::Array(b.clone()),
    )? {
        HostValue::Array(product) => Ok(product),
        value => Array::full(&value, &[]),
    };
    let exact = a.scalar().is_some_and(Scalar::is_int);
    if let Some(left) = shard::as_sharded(a).filter(|left| left.layout().axis + 1 < a.rank() && b.rank() <= 2) {
        let b = whole(b)?;
        let axis = left.layout().axis;
        return lift::lift_rows(exec, &left, axis, exact, |exec, _, part| {
            multiply(exec, part, &shard::replicate(&b, exec)?)
        })
        .map(Some);
    }
    if let Some(right) = shard::as_sharded(b).filter(|right| b.rank() == 2 && right.layout().axis == 1 && a.rank() <= 2)
    {
        let a = whole(a)?;
        return lift::lift_rows(exec, &right, a.rank() - 1, exact, |exec, _, part| {
            multiply(exec, &shard::replicate(&a, exec)?, part)
        })
        .map(Some);
    }
    Ok(None)
}

fn dots(
    exec: &ExecContext,
    a: &Array,
    a_shape: &[usize],
    b: &Array,
    b_shape: &[usize],
    shape: &[usize],
    axis: usize,
    outer: &[usize],
) -> HostResult<MatmulResult> {
    let operand = |array: &Array, shape: &[usize]| NodeOperand::Array(array.clone(), shape.to_vec());
    matmul::dot_products(exec, operand(a, a_shape), operand(b, b_shape), shape, axis, outer)
}

fn batched_matmul(exec: &ExecContext, a: &Array, b: &Array) -> HostResult<(MatmulResult, Vec<usize>)> {
    let ((batch_a, own_a), (batch_b, own_b)) = (a.shape().split_at(a.rank() - 2), b.shape().split_at(b.rank() - 2));
    let batch = common_shape(&[("the left side", batch_a), ("the right side", batch_b)])?;
    // A single matrix needs no copies, because all products share it. Other broadcast operands are copied.
    let spread = |array: &Array, own: &[usize]| match array.count() == own.iter().product::<usize>() {
        true => Ok(array.clone()),
        false => broadcast_to(array, &[&batch, own].concat()).unwrap_or_else(|| Ok(array.clone())),
    };
    let (a, b) = (spread(a, own_a)?, spread(b, own_b)?);
    let (rows, inner, columns) = (own_a[0], own_a[1], own_b[1]);
    let shape = [batch.as_slice(), &[rows, columns]].concat();
    let sizes = GemmSizes { batch: batch.iter().product(), rows, inner, columns };
    Ok((matmul::matmul(exec, &a, &b, sizes, &shape)?, shape))
}

/// Converts the result of a product to the result type; an error if an integer does not fit.
fn convert_result(
    exec: &ExecContext,
    what: &str,
    of: &Array,
    found: MatmulResult,
    shape: &[usize],
    to: Scalar,
) -> HostResult<HostValue> {
    let result = match found {
        MatmulResult::Done(found) if found.scalar() == Some(to) => found,
        MatmulResult::Done(found) | MatmulResult::Wide(found) => {
            narrow_exactly(exec, &found, to)?.map_err(|wrong| totals::too_large(what, Some(wrong), to))?
        }
        MatmulResult::Exact(numbers) => totals::fitted(what, of, &numbers, shape, to)?,
    };
    Ok(match shape.is_empty() {
        true => result.item(0)?.unwrap_or(HostValue::Unit),
        false => HostValue::Array(result),
    })
}

fn common(a: &Array, b: &Array, left: &HostValue, right: &HostValue) -> HostResult<Scalar> {
    if a.element() != b.element() {
        let title = format!("`@` needs arrays of one element type, not {} and {}", a.element(), b.element());
        return Err(RuntimeError::new("E0504", title).help("convert one of them: `f32(x)`"));
    }
    match a.scalar() {
        Some(scalar) if a.element().lanes() == 1 && scalar.is_num() => Ok(scalar),
        _ => Err(undefined("`@`", &[left, right])),
    }
}

fn without_axes(array: &Array, side: &str) -> RuntimeError {
    RuntimeError::new("E0503", format!("`@` takes arrays with axes, and its {side} side has none"))
        .label(format!("its type is {}", array.type_name()))
}

fn inner_mismatch(a: &Array, b: &Array, inner: usize, depth: usize) -> RuntimeError {
    let (left, right) = (shape_text(a.shape()), shape_text(b.shape()));
    let axis_name = if b.rank() > 2 { "last but one" } else { "first" };
    let problem = RuntimeError::new("E0501", format!("arrays of shape {left} and {right} have no product")).label(
        format!("the last axis of the left side is {inner} long, the {axis_name} axis of the right side {depth}"),
    );
    let last = b.shape().last().copied();
    match b.rank() == 2 && last == Some(inner) {
        true => problem.help("transpose the right side: `a @ transpose(b)`"),
        false => problem,
    }
}

/// Evaluates `dot(a, b)`: the sum of the products of the lanes of two vectors, in order, or of the elements of two 1-d
/// arrays.
pub fn dot(exec: &ExecContext, a: &HostValue, b: &HostValue) -> HostResult<HostValue> {
    dot_to(exec, a, b, None)
}

/// Like [`dot`], but with a result type: for arrays of integers, the sum is exact and has the type `to` if given. For
/// 1-d arrays of numbers, the result is `a @ b`.
pub(crate) fn dot_to(exec: &ExecContext, a: &HostValue, b: &HostValue, to: Option<Scalar>) -> HostResult<HostValue> {
    if let (HostValue::Array(x), HostValue::Array(y)) = (a, b)
        && let Some(scalar) = x.scalar().filter(|s| s.is_num() && x.element() == y.element())
        && x.element().lanes() == 1
        && x.rank() == 1
        && x.shape() == y.shape()
    {
        let found = dots(exec, x, x.shape(), y, y.shape(), x.shape(), 0, &[])?;
        return convert_result(exec, "dot", x, found, &[], to.unwrap_or(total_type(scalar)));
    }
    let product = super::binary(exec, BinaryOp::Mul, a, b)?;
    match (&product, a, b) {
        (HostValue::Vector(lanes), HostValue::Vector(_), HostValue::Vector(_)) => {
            let mut lanes = lanes.values().map(HostValue::Scalar);
            let first = lanes.next().ok_or_else(|| undefined("`dot`", &[a, b]))?;
            lanes.try_fold(first, |sum, lane| super::binary(exec, BinaryOp::Add, &sum, &lane))
        }
        (HostValue::Array(array), HostValue::Array(x), HostValue::Array(y))
            if array.rank() == 1 && x.shape() == y.shape() =>
        {
            reduce(exec, ReduceKind::Sum, &product, None)
        }
        _ => Err(undefined("`dot`", &[a, b])),
    }
}
