//! The operations of [`crate::ops`] for values that may be traced.

use super::apply::apply;
use super::tape::not_differentiable;
use super::tape_op::TapeOp;
use super::trace_value::{is_traced, primal};
use super::value_shape::ValueShape;
use crate::array::{Array, ElementType, SliceSpec};
use crate::graph::ExecContext;
use crate::ops::{self, GatherIndex, ReduceKind, SortOrder};
use crate::problem::HostResult;
use crate::value::HostValue;
use clk_base::alloc;
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

pub(crate) fn unary(exec: &ExecContext, op: UnaryOp, x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { apply(exec, &TapeOp::Unary(op), vec![x.clone()]) } else { ops::unary(exec, op, x) }
}

pub(crate) fn binary(exec: &ExecContext, op: BinaryOp, x: &HostValue, y: &HostValue) -> HostResult<HostValue> {
    match is_traced(x) || is_traced(y) {
        true if matches!((x, y), (HostValue::Tuple(_) | HostValue::Record(_), _)) => {
            ops::binary(exec, op, &primal(x), &primal(y))
        }
        true => apply(exec, &TapeOp::Binary(op), vec![x.clone(), y.clone()]),
        false => ops::binary(exec, op, x, y),
    }
}

pub(crate) fn math(exec: &ExecContext, function: MathFn, args: &[HostValue]) -> HostResult<HostValue> {
    if args.iter().any(is_traced) {
        apply(exec, &TapeOp::Math(function), args.to_vec())
    } else {
        ops::math(exec, function, args)
    }
}

pub(crate) fn select(
    exec: &ExecContext,
    cond: &HostValue,
    then: &HostValue,
    other: &HostValue,
) -> HostResult<HostValue> {
    match is_traced(then) || is_traced(other) {
        true => apply(exec, &TapeOp::Select, vec![cond.clone(), then.clone(), other.clone()]),
        false => ops::select(exec, cond, then, other),
    }
}

pub(crate) fn convert(exec: &ExecContext, to: Scalar, x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { apply(exec, &TapeOp::Convert(to), vec![x.clone()]) } else { ops::convert(exec, to, x) }
}

pub(crate) fn bitcast(to: Scalar, x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { Err(not_differentiable("bits have no derivative")) } else { ops::bitcast(to, x) }
}

pub(crate) fn compose(exec: &ExecContext, ty: Scalar, lanes: u8, parts: &[HostValue]) -> HostResult<HostValue> {
    match parts.iter().any(is_traced) {
        true => apply(exec, &TapeOp::Compose(ty, lanes), parts.to_vec()),
        false => ops::compose(ty, lanes, parts),
    }
}

pub(crate) fn swizzle(exec: &ExecContext, x: &HostValue, lanes: &[u8]) -> HostResult<HostValue> {
    if is_traced(x) {
        apply(exec, &TapeOp::Swizzle(lanes.to_vec()), vec![x.clone()])
    } else {
        ops::swizzle(exec, x, lanes)
    }
}

pub(crate) fn named_field(exec: &ExecContext, x: &HostValue, name: &str) -> HostResult<HostValue> {
    match (x, ops::lanes_of(name)) {
        (HostValue::Traced(_), Some(lanes)) => swizzle(exec, x, &lanes),
        (HostValue::Traced(_), None) => {
            ops::named_field(exec, &primal(x), name).and(Err(not_differentiable("a column is taken")))
        }
        _ => ops::named_field(exec, x, name),
    }
}

pub(crate) fn index(exec: &ExecContext, x: &HostValue, specs: &[SliceSpec]) -> HostResult<HostValue> {
    match (x, ValueShape::for_value(x), specs) {
        (HostValue::Traced(_), Some(ValueShape { shape: None, lanes, .. }), [SliceSpec::At(at)]) => {
            match u8::try_from(*at).ok().filter(|lane| usize::from(*lane) < lanes) {
                Some(lane) => swizzle(exec, x, &[lane]),
                None => ops::index(exec, &primal(x), specs),
            }
        }
        (HostValue::Traced(_), ..) => apply(exec, &TapeOp::Index(specs.to_vec()), vec![x.clone()]),
        _ => ops::index(exec, x, specs),
    }
}

pub(crate) fn gather(exec: &ExecContext, x: &HostValue, picks: &[GatherIndex]) -> HostResult<HostValue> {
    if is_traced(x) {
        apply(exec, &TapeOp::Gather(picks.to_vec()), vec![x.clone()])
    } else {
        ops::gather(exec, x, picks)
    }
}

pub(crate) fn reduce_to(
    exec: &ExecContext,
    how: ReduceKind,
    x: &HostValue,
    axes: Option<&[i64]>,
    to: Option<Scalar>,
) -> HostResult<HostValue> {
    match is_traced(x) {
        true => apply(exec, &TapeOp::Reduce(how, axes.map(<[i64]>::to_vec)), vec![x.clone()]),
        false => ops::reduce_to(exec, how, x, axes, to),
    }
}

pub(crate) fn cumsum_to(
    exec: &ExecContext,
    x: &HostValue,
    axis: Option<i64>,
    to: Option<Scalar>,
) -> HostResult<HostValue> {
    if is_traced(x) { apply(exec, &TapeOp::Cumsum(axis), vec![x.clone()]) } else { ops::cumsum_to(exec, x, axis, to) }
}

/// Evaluates `dot(a, b)`: the sum of the products of the lanes for vectors, or `a @ b` for arrays.
pub(crate) fn dot_to(exec: &ExecContext, a: &HostValue, b: &HostValue, to: Option<Scalar>) -> HostResult<HostValue> {
    if !is_traced(a) && !is_traced(b) {
        return ops::dot_to(exec, a, b, to);
    }
    let form = |x: &HostValue| ValueShape::for_value(x).ok_or_else(|| ops::operand::undefined("`dot`", &[&primal(x)]));
    let (of_a, of_b) = (form(a)?, form(b)?);
    if of_a.shape.is_some() && of_a.lanes == 1 && of_a.shape().len() == 1 && of_a == of_b {
        return apply(exec, &TapeOp::Binary(BinaryOp::MatMul), vec![a.clone(), b.clone()]);
    }
    // The call returns the usual error for unsupported operands.
    ops::dot_to(exec, &primal(a), &primal(b), to)?;
    let product = binary(exec, BinaryOp::Mul, a, b)?;
    if of_a.lanes == 1 {
        return reduce_to(exec, ReduceKind::Sum, &product, None, to);
    }
    let mut sum = swizzle(exec, &product, &[0])?;
    for lane in 1..of_a.lanes {
        sum = binary(exec, BinaryOp::Add, &sum, &swizzle(exec, &product, &[lane as u8])?)?;
    }
    Ok(sum)
}

pub(crate) fn length(exec: &ExecContext, v: &HostValue) -> HostResult<HostValue> {
    if !is_traced(v) {
        return ops::length(exec, v);
    }
    let square = dot_to(exec, v, v, None)?;
    let root = math(exec, MathFn::Sqrt, std::slice::from_ref(&square))?;
    // The length is not differentiable at 0; its derivative there is defined as 0.
    let zero =
        ValueShape::for_value(&square).ok_or_else(|| ops::operand::undefined("`length`", &[&primal(v)]))?.number(0.0);
    let is_zero = binary(exec, BinaryOp::Eq, &square, &zero)?;
    apply(exec, &TapeOp::Select, vec![is_zero, zero, root])
}

pub(crate) fn normalize(exec: &ExecContext, v: &HostValue) -> HostResult<HostValue> {
    if is_traced(v) { binary(exec, BinaryOp::Div, v, &length(exec, v)?) } else { ops::normalize(exec, v) }
}

pub(crate) fn cross(exec: &ExecContext, a: &HostValue, b: &HostValue) -> HostResult<HostValue> {
    if !is_traced(a) && !is_traced(b) {
        return ops::cross(exec, a, b);
    }
    ops::cross(exec, &primal(a), &primal(b))?;
    let plus = binary(exec, BinaryOp::Mul, &swizzle(exec, a, &[1, 2, 0])?, &swizzle(exec, b, &[2, 0, 1])?)?;
    let minus = binary(exec, BinaryOp::Mul, &swizzle(exec, a, &[2, 0, 1])?, &swizzle(exec, b, &[1, 2, 0])?)?;
    binary(exec, BinaryOp::Sub, &plus, &minus)
}

pub(crate) fn reshape(exec: &ExecContext, x: &HostValue, dims: &[i64]) -> HostResult<HostValue> {
    if !is_traced(x) {
        return ops::reshape(x, dims);
    }
    let HostValue::Array(found) = ops::reshape(&primal(x), dims)? else {
        return Err(not_differentiable("this has no derivative"));
    };
    apply(exec, &TapeOp::Reshape(found.shape().to_vec()), vec![x.clone()])
}

/// Evaluates `transpose(x, axes = …)`; without `axes`, reverses the order of the axes.
pub(crate) fn transpose(exec: &ExecContext, x: &HostValue, axes: Option<&[i64]>) -> HostResult<HostValue> {
    if !is_traced(x) {
        return ops::transpose(exec, x, axes);
    }
    let rank = ops::operand::array(&primal(x), "`transpose`")?.rank();
    permute(exec, x, &ops::axis_order(rank, axes)?)
}

pub(super) fn permute(exec: &ExecContext, x: &HostValue, order: &[usize]) -> HostResult<HostValue> {
    if is_traced(x) {
        apply(exec, &TapeOp::Permute(order.to_vec()), vec![x.clone()])
    } else {
        ops::permute(exec, x, order)
    }
}

pub(crate) fn flip(exec: &ExecContext, x: &HostValue, axis: i64) -> HostResult<HostValue> {
    if is_traced(x) { apply(exec, &TapeOp::Flip(axis), vec![x.clone()]) } else { ops::flip(exec, x, axis) }
}

pub(crate) fn concat(exec: &ExecContext, parts: &[HostValue], axis: i64) -> HostResult<HostValue> {
    if parts.iter().any(is_traced) {
        apply(exec, &TapeOp::Concat(axis), parts.to_vec())
    } else {
        ops::concat(exec, parts, axis)
    }
}

pub(crate) fn stack(exec: &ExecContext, parts: &[HostValue], axis: i64) -> HostResult<HostValue> {
    if !parts.iter().any(is_traced) {
        return ops::stack(exec, parts, axis);
    }
    let stacked = apply(exec, &TapeOp::Stack, parts.to_vec())?;
    let rank = ops::operand::array(&primal(&stacked), "`stack`")?.rank();
    let axis = ops::operand::axis(axis, rank, "`stack`")?;
    permute(exec, &stacked, &ops::moved_axis(rank, 0, axis))
}

pub(crate) fn literal(exec: &ExecContext, parts: &[HostValue], element: Option<&ElementType>) -> HostResult<HostValue> {
    if parts.iter().any(is_traced) {
        apply(exec, &TapeOp::Literal, parts.to_vec())
    } else {
        ops::literal(exec, parts, element)
    }
}

pub(crate) fn full(exec: &ExecContext, dims: &[i64], value: &HostValue) -> HostResult<HostValue> {
    if is_traced(value) {
        apply(exec, &TapeOp::Full(dims.to_vec()), vec![value.clone()])
    } else {
        ops::full(dims, value)
    }
}

/// Evaluates `sort`. A traced array is gathered in the order of `argsort`.
pub(crate) fn sort(exec: &ExecContext, x: &HostValue, order: SortOrder) -> HostResult<HostValue> {
    if !is_traced(x) {
        return ops::sort(exec, x, order);
    }
    let plain = primal(x);
    let shape = ops::operand::array(&plain, "`sort`")?.shape().to_vec();
    let axis = order.axis_of(shape.len(), "`sort`")?;
    gather_along(exec, x, &ops::argsort(exec, &plain, order)?, axis, &shape)
}

/// Returns the elements at these positions along an axis of an array with this shape. The positions have the same
/// shape.
fn gather_along(
    exec: &ExecContext,
    x: &HostValue,
    at: &HostValue,
    axis: usize,
    shape: &[usize],
) -> HostResult<HostValue> {
    let order = ops::moved_axis(shape.len(), axis, shape.len() - 1);
    let moved: Vec<i64> = order.iter().map(|&axis| shape[axis] as i64).collect();
    let (row, count) = (shape[axis] as i64, moved.iter().product::<i64>());
    let starts: Vec<i64> = alloc::collect((count / row.max(1)) as usize, (0..count).step_by(row.max(1) as usize));
    let starts = HostValue::Array(Array::from_shaped(&starts, &[starts.len(), 1])?);
    let at = ops::reshape(&ops::permute(exec, at, &order)?, &[-1, row.max(1)])?;
    let at = ops::binary(exec, BinaryOp::Add, &ops::convert(exec, Scalar::I64, &at)?, &starts)?;
    let picks = [GatherIndex::Array(ops::operand::array(&at, "`sort`")?.clone())];
    let picked = gather(exec, &reshape(exec, &permute(exec, x, &order)?, &[-1])?, &picks)?;
    permute(exec, &reshape(exec, &picked, &moved)?, &ops::inverse_order(&order))
}

/// Sorts keys, and reorders values in the same way. There is one value, or one row of values, for
/// each key.
pub(crate) fn sort_with(
    exec: &ExecContext,
    keys: &HostValue,
    values: &HostValue,
    descending: bool,
) -> HostResult<HostValue> {
    if !descending
        && !is_traced(keys)
        && !is_traced(values)
        && let Some(pair) = ops::sorted_pairs(exec, keys, values)?
    {
        return Ok(pair);
    }
    let order = [GatherIndex::Array(ops::order_of_rows(exec, &primal(keys), &primal(values), descending)?)];
    Ok(HostValue::Tuple(vec![gather(exec, keys, &order)?, gather(exec, values, &order)?]))
}

/// Executes an assignment to a slice of an array if the array or the value is traced. Returns false if neither is
/// traced.
pub(crate) fn assign(
    exec: &ExecContext,
    target: &mut HostValue,
    specs: &[SliceSpec],
    value: &HostValue,
) -> HostResult<bool> {
    write_traced(exec, target, TapeOp::Write(specs.to_vec()), value)
}

/// Like [`assign`], but assigns to the elements at these positions.
pub(crate) fn scatter(
    exec: &ExecContext,
    target: &mut HostValue,
    picks: &[GatherIndex],
    value: &HostValue,
) -> HostResult<bool> {
    write_traced(exec, target, TapeOp::Scatter(picks.to_vec()), value)
}

fn write_traced(exec: &ExecContext, target: &mut HostValue, op: TapeOp, value: &HostValue) -> HostResult<bool> {
    if !is_traced(target) && !is_traced(value) {
        return Ok(false);
    }
    let old = std::mem::replace(target, HostValue::Unit);
    *target = apply(exec, &op, vec![old, value.clone()])?;
    Ok(true)
}

/// Executes `v.xy = w`, for a vector or an array of vectors, if one of the values is traced. Returns false if neither
/// is traced.
pub(crate) fn set_lanes(
    exec: &ExecContext,
    target: &mut HostValue,
    lanes: &[u8],
    value: &HostValue,
) -> HostResult<bool> {
    write_traced(exec, target, TapeOp::SetLanes(lanes.to_vec()), value)
}
