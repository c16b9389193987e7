//! The operations of [`crate::ops`] for values that may be traced.

use super::apply::apply;
use super::tape::not_differentiable;
use super::tape_op::TapeOp;
use super::trace_value::{is_traced, primal};
use super::value_shape::ValueShape;
use crate::array::{ElementType, SliceSpec};
use crate::ops::{self, GatherIndex, ReduceKind};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

pub(crate) fn unary(op: UnaryOp, x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Unary(op), vec![x.clone()]) } else { ops::unary(op, x) }
}

pub(crate) fn binary(op: BinaryOp, x: &HostValue, y: &HostValue) -> HostResult<HostValue> {
    match is_traced(x) || is_traced(y) {
        true if matches!((x, y), (HostValue::Tuple(_) | HostValue::Record(_), _)) => {
            ops::binary(op, &primal(x), &primal(y))
        }
        true => apply(&TapeOp::Binary(op), vec![x.clone(), y.clone()]),
        false => ops::binary(op, x, y),
    }
}

pub(crate) fn math(function: MathFn, args: &[HostValue]) -> HostResult<HostValue> {
    if args.iter().any(is_traced) { apply(&TapeOp::Math(function), args.to_vec()) } else { ops::math(function, args) }
}

pub(crate) fn select(cond: &HostValue, then: &HostValue, other: &HostValue) -> HostResult<HostValue> {
    match is_traced(then) || is_traced(other) {
        true => apply(&TapeOp::Select, vec![cond.clone(), then.clone(), other.clone()]),
        false => ops::select(cond, then, other),
    }
}

pub(crate) fn convert(to: Scalar, x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Convert(to), vec![x.clone()]) } else { ops::convert(to, x) }
}

pub(crate) fn bitcast(to: Scalar, x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { Err(not_differentiable("bits have no derivative")) } else { ops::bitcast(to, x) }
}

pub(crate) fn compose(ty: Scalar, lanes: u8, parts: &[HostValue]) -> HostResult<HostValue> {
    match parts.iter().any(is_traced) {
        true => apply(&TapeOp::Compose(ty, lanes), parts.to_vec()),
        false => ops::compose(ty, lanes, parts),
    }
}

pub(crate) fn swizzle(x: &HostValue, lanes: &[u8]) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Swizzle(lanes.to_vec()), vec![x.clone()]) } else { ops::swizzle(x, lanes) }
}

pub(crate) fn named_field(x: &HostValue, name: &str) -> HostResult<HostValue> {
    match (x, ops::lanes_of(name)) {
        (HostValue::Traced(_), Some(lanes)) => swizzle(x, &lanes),
        (HostValue::Traced(_), None) => {
            ops::named_field(&primal(x), name).and(Err(not_differentiable("a column is taken")))
        }
        _ => ops::named_field(x, name),
    }
}

pub(crate) fn index(x: &HostValue, specs: &[SliceSpec]) -> HostResult<HostValue> {
    match (x, ValueShape::for_value(x), specs) {
        (HostValue::Traced(_), Some(ValueShape { shape: None, lanes, .. }), [SliceSpec::At(at)]) => {
            match u8::try_from(*at).ok().filter(|lane| usize::from(*lane) < lanes) {
                Some(lane) => swizzle(x, &[lane]),
                None => ops::index(&primal(x), specs),
            }
        }
        (HostValue::Traced(_), ..) => apply(&TapeOp::Index(specs.to_vec()), vec![x.clone()]),
        _ => ops::index(x, specs),
    }
}

pub(crate) fn gather(x: &HostValue, picks: &[GatherIndex]) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Gather(picks.to_vec()), vec![x.clone()]) } else { ops::gather(x, picks) }
}

pub(crate) fn reduce_to(
    how: ReduceKind,
    x: &HostValue,
    axes: Option<&[i64]>,
    to: Option<Scalar>,
) -> HostResult<HostValue> {
    match is_traced(x) {
        true => apply(&TapeOp::Reduce(how, axes.map(<[i64]>::to_vec)), vec![x.clone()]),
        false => ops::reduce_to(how, x, axes, to),
    }
}

pub(crate) fn cumsum_to(x: &HostValue, axis: Option<i64>, to: Option<Scalar>) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Cumsum(axis), vec![x.clone()]) } else { ops::cumsum_to(x, axis, to) }
}

/// Evaluates `dot(a, b)`: the sum of the products of the lanes for vectors, or `a @ b` for arrays.
pub(crate) fn dot_to(a: &HostValue, b: &HostValue, to: Option<Scalar>) -> HostResult<HostValue> {
    if !is_traced(a) && !is_traced(b) {
        return ops::dot_to(a, b, to);
    }
    let form = |x: &HostValue| ValueShape::for_value(x).ok_or_else(|| ops::operand::undefined("`dot`", &[&primal(x)]));
    let (of_a, of_b) = (form(a)?, form(b)?);
    if of_a.shape.is_some() && of_a.lanes == 1 && of_a.shape().len() == 1 && of_a == of_b {
        return apply(&TapeOp::Binary(BinaryOp::MatMul), vec![a.clone(), b.clone()]);
    }
    // The call returns the usual error for unsupported operands.
    ops::dot_to(&primal(a), &primal(b), to)?;
    let product = binary(BinaryOp::Mul, a, b)?;
    if of_a.lanes == 1 {
        return reduce_to(ReduceKind::Sum, &product, None, to);
    }
    let mut sum = swizzle(&product, &[0])?;
    for lane in 1..of_a.lanes {
        sum = binary(BinaryOp::Add, &sum, &swizzle(&product, &[lane as u8])?)?;
    }
    Ok(sum)
}

pub(crate) fn length(v: &HostValue) -> HostResult<HostValue> {
    if !is_traced(v) {
        return ops::length(v);
    }
    let square = dot_to(v, v, None)?;
    let root = math(MathFn::Sqrt, std::slice::from_ref(&square))?;
    // The length is not differentiable at 0; its derivative there is defined as 0.
    let zero =
        ValueShape::for_value(&square).ok_or_else(|| ops::operand::undefined("`length`", &[&primal(v)]))?.number(0.0);
    let is_zero = binary(BinaryOp::Eq, &square, &zero)?;
    apply(&TapeOp::Select, vec![is_zero, zero, root])
}

pub(crate) fn normalize(v: &HostValue) -> HostResult<HostValue> {
    if is_traced(v) { binary(BinaryOp::Div, v, &length(v)?) } else { ops::normalize(v) }
}

pub(crate) fn cross(a: &HostValue, b: &HostValue) -> HostResult<HostValue> {
    if !is_traced(a) && !is_traced(b) {
        return ops::cross(a, b);
    }
    ops::cross(&primal(a), &primal(b))?;
    let plus = binary(BinaryOp::Mul, &swizzle(a, &[1, 2, 0])?, &swizzle(b, &[2, 0, 1])?)?;
    let minus = binary(BinaryOp::Mul, &swizzle(a, &[2, 0, 1])?, &swizzle(b, &[1, 2, 0])?)?;
    binary(BinaryOp::Sub, &plus, &minus)
}

pub(crate) fn reshape(x: &HostValue, dims: &[i64]) -> HostResult<HostValue> {
    if !is_traced(x) {
        return ops::reshape(x, dims);
    }
    let HostValue::Array(found) = ops::reshape(&primal(x), dims)? else {
        return Err(not_differentiable("this has no derivative"));
    };
    apply(&TapeOp::Reshape(found.shape().to_vec()), vec![x.clone()])
}

pub(crate) fn transpose(x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Transpose, vec![x.clone()]) } else { ops::transpose(x) }
}

pub(crate) fn flip(x: &HostValue, axis: i64) -> HostResult<HostValue> {
    if is_traced(x) { apply(&TapeOp::Flip(axis), vec![x.clone()]) } else { ops::flip(x, axis) }
}

pub(crate) fn concat(parts: &[HostValue], axis: i64) -> HostResult<HostValue> {
    if parts.iter().any(is_traced) { apply(&TapeOp::Concat(axis), parts.to_vec()) } else { ops::concat(parts, axis) }
}

pub(crate) fn stack(parts: &[HostValue]) -> HostResult<HostValue> {
    if parts.iter().any(is_traced) { apply(&TapeOp::Stack, parts.to_vec()) } else { ops::stack(parts) }
}

pub(crate) fn literal(parts: &[HostValue], element: Option<&ElementType>) -> HostResult<HostValue> {
    if parts.iter().any(is_traced) { apply(&TapeOp::Literal, parts.to_vec()) } else { ops::literal(parts, element) }
}

pub(crate) fn full(dims: &[i64], value: &HostValue) -> HostResult<HostValue> {
    if is_traced(value) { apply(&TapeOp::Full(dims.to_vec()), vec![value.clone()]) } else { ops::full(dims, value) }
}

pub(crate) fn sort(x: &HostValue) -> HostResult<HostValue> {
    if is_traced(x) { Err(no_sort_derivative("take the elements in order: `x[argsort(x)]`")) } else { ops::sort(x) }
}

/// Sorts keys in ascending order, and reorders values in the same way. There is one value, or one row of values, for
/// each key.
pub(crate) fn sort_with(keys: &HostValue, values: &HostValue) -> HostResult<HostValue> {
    if is_traced(keys) {
        return Err(no_sort_derivative(
            "take both in the order of the keys: `let at = argsort(keys)`, `keys[at]`, `values[at]`",
        ));
    }
    if !is_traced(values)
        && let Some(pair) = ops::sorted_pairs(keys, values)?
    {
        return Ok(pair);
    }
    let order = [GatherIndex::Array(ops::order_of_rows(keys, &primal(values))?)];
    Ok(HostValue::Tuple(vec![gather(keys, &order)?, gather(values, &order)?]))
}

fn no_sort_derivative(help: &str) -> RuntimeError {
    let problem = RuntimeError::new("E0720", "the derivative of `sort` is not computed");
    problem.label("this depends on the differentiated parameters").help(help)
}

/// Executes an assignment to a slice of an array if the array or the value is traced. Returns false if neither is
/// traced.
pub(crate) fn assign(target: &mut HostValue, specs: &[SliceSpec], value: &HostValue) -> HostResult<bool> {
    write_traced(target, TapeOp::Write(specs.to_vec()), value)
}

/// Like [`assign`], but assigns to the elements at these positions.
pub(crate) fn scatter(target: &mut HostValue, picks: &[GatherIndex], value: &HostValue) -> HostResult<bool> {
    write_traced(target, TapeOp::Scatter(picks.to_vec()), value)
}

fn write_traced(target: &mut HostValue, op: TapeOp, value: &HostValue) -> HostResult<bool> {
    if !is_traced(target) && !is_traced(value) {
        return Ok(false);
    }
    let old = std::mem::replace(target, HostValue::Unit);
    *target = apply(&op, vec![old, value.clone()])?;
    Ok(true)
}

/// Executes `v.xy = w`, for a vector or an array of vectors, if one of the values is traced. Returns false if neither
/// is traced.
pub(crate) fn set_lanes(target: &mut HostValue, lanes: &[u8], value: &HostValue) -> HostResult<bool> {
    write_traced(target, TapeOp::SetLanes(lanes.to_vec()), value)
}
