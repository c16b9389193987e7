//! The operations of [`crate::host::ops`] on values that may be traced. In and out: as there.

use super::apply::apply;
use super::deed::Deed;
use super::form::Form;
use super::tape::lost;
use super::wrap::{is_traced, primal};
use crate::host::array::{Element, SliceSpec};
use crate::host::ops::{self, Pick, Reduce};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;

pub(crate) fn unary(op: UnaryOp, x: &Value) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Unary(op), vec![x.clone()]) } else { ops::unary(op, x) }
}

pub(crate) fn binary(op: BinaryOp, x: &Value, y: &Value) -> Outcome<Value> {
    match is_traced(x) || is_traced(y) {
        true if matches!((x, y), (Value::Tuple(_) | Value::Record(_), _)) => ops::binary(op, &primal(x), &primal(y)),
        true => apply(&Deed::Binary(op), vec![x.clone(), y.clone()]),
        false => ops::binary(op, x, y),
    }
}

pub(crate) fn math(function: MathFn, args: &[Value]) -> Outcome<Value> {
    if args.iter().any(is_traced) { apply(&Deed::Math(function), args.to_vec()) } else { ops::math(function, args) }
}

pub(crate) fn select(cond: &Value, then: &Value, other: &Value) -> Outcome<Value> {
    match is_traced(then) || is_traced(other) {
        true => apply(&Deed::Select, vec![cond.clone(), then.clone(), other.clone()]),
        false => ops::select(cond, then, other),
    }
}

pub(crate) fn convert(to: Scalar, x: &Value) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Convert(to), vec![x.clone()]) } else { ops::convert(to, x) }
}

pub(crate) fn bitcast(to: Scalar, x: &Value) -> Outcome<Value> {
    if is_traced(x) { Err(lost("bits have no derivative")) } else { ops::bitcast(to, x) }
}

pub(crate) fn compose(ty: Scalar, lanes: u8, parts: &[Value]) -> Outcome<Value> {
    match parts.iter().any(is_traced) {
        true => apply(&Deed::Compose(ty, lanes), parts.to_vec()),
        false => ops::compose(ty, lanes, parts),
    }
}

pub(crate) fn swizzle(x: &Value, lanes: &[u8]) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Swizzle(lanes.to_vec()), vec![x.clone()]) } else { ops::swizzle(x, lanes) }
}

pub(crate) fn named_field(x: &Value, name: &str) -> Outcome<Value> {
    match (x, ops::lanes_of(name)) {
        (Value::Traced(_), Some(lanes)) => swizzle(x, &lanes),
        (Value::Traced(_), None) => ops::named_field(&primal(x), name).and(Err(lost("a column is taken"))),
        _ => ops::named_field(x, name),
    }
}

pub(crate) fn index(x: &Value, specs: &[SliceSpec]) -> Outcome<Value> {
    match (x, Form::of(x), specs) {
        (Value::Traced(_), Some(Form { shape: None, lanes, .. }), [SliceSpec::At(at)]) => {
            match u8::try_from(*at).ok().filter(|lane| usize::from(*lane) < lanes) {
                Some(lane) => swizzle(x, &[lane]),
                None => ops::index(&primal(x), specs),
            }
        }
        (Value::Traced(_), ..) => apply(&Deed::Index(specs.to_vec()), vec![x.clone()]),
        _ => ops::index(x, specs),
    }
}

pub(crate) fn gather(x: &Value, picks: &[Pick]) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Gather(picks.to_vec()), vec![x.clone()]) } else { ops::gather(x, picks) }
}

pub(crate) fn reduce_to(how: Reduce, x: &Value, axes: Option<&[i64]>, to: Option<Scalar>) -> Outcome<Value> {
    match is_traced(x) {
        true => apply(&Deed::Reduce(how, axes.map(<[i64]>::to_vec)), vec![x.clone()]),
        false => ops::reduce_to(how, x, axes, to),
    }
}

pub(crate) fn cumsum_to(x: &Value, axis: Option<i64>, to: Option<Scalar>) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Cumsum(axis), vec![x.clone()]) } else { ops::cumsum_to(x, axis, to) }
}

/// Of vectors, the sum of the products of their lanes; of arrays, `a @ b`.
pub(crate) fn dot_to(a: &Value, b: &Value, to: Option<Scalar>) -> Outcome<Value> {
    if !is_traced(a) && !is_traced(b) {
        return ops::dot_to(a, b, to);
    }
    let form = |x: &Value| Form::of(x).ok_or_else(|| ops::operand::undefined("`dot`", &[&primal(x)]));
    let (of_a, of_b) = (form(a)?, form(b)?);
    if of_a.shape.is_some() && of_a.lanes == 1 && of_a.shape().len() == 1 && of_a == of_b {
        return apply(&Deed::Binary(BinaryOp::MatMul), vec![a.clone(), b.clone()]);
    }
    // What is refused is refused as always.
    ops::dot_to(&primal(a), &primal(b), to)?;
    let product = binary(BinaryOp::Mul, a, b)?;
    if of_a.lanes == 1 {
        return reduce_to(Reduce::Sum, &product, None, to);
    }
    let mut sum = swizzle(&product, &[0])?;
    for lane in 1..of_a.lanes {
        sum = binary(BinaryOp::Add, &sum, &swizzle(&product, &[lane as u8])?)?;
    }
    Ok(sum)
}

pub(crate) fn length(v: &Value) -> Outcome<Value> {
    if !is_traced(v) {
        return ops::length(v);
    }
    let square = dot_to(v, v, None)?;
    let root = math(MathFn::Sqrt, std::slice::from_ref(&square))?;
    // The derivative of a length of 0 is 0.
    let zero = Form::of(&square).ok_or_else(|| ops::operand::undefined("`length`", &[&primal(v)]))?.number(0.0);
    let is_zero = binary(BinaryOp::Eq, &square, &zero)?;
    apply(&Deed::Select, vec![is_zero, zero, root])
}

pub(crate) fn normalize(v: &Value) -> Outcome<Value> {
    if is_traced(v) { binary(BinaryOp::Div, v, &length(v)?) } else { ops::normalize(v) }
}

pub(crate) fn cross(a: &Value, b: &Value) -> Outcome<Value> {
    if !is_traced(a) && !is_traced(b) {
        return ops::cross(a, b);
    }
    ops::cross(&primal(a), &primal(b))?;
    let plus = binary(BinaryOp::Mul, &swizzle(a, &[1, 2, 0])?, &swizzle(b, &[2, 0, 1])?)?;
    let minus = binary(BinaryOp::Mul, &swizzle(a, &[2, 0, 1])?, &swizzle(b, &[1, 2, 0])?)?;
    binary(BinaryOp::Sub, &plus, &minus)
}

pub(crate) fn reshape(x: &Value, dims: &[i64]) -> Outcome<Value> {
    if !is_traced(x) {
        return ops::reshape(x, dims);
    }
    let Value::Array(found) = ops::reshape(&primal(x), dims)? else { return Err(lost("this has no derivative")) };
    apply(&Deed::Reshape(found.shape().to_vec()), vec![x.clone()])
}

pub(crate) fn transpose(x: &Value) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Transpose, vec![x.clone()]) } else { ops::transpose(x) }
}

pub(crate) fn flip(x: &Value, axis: i64) -> Outcome<Value> {
    if is_traced(x) { apply(&Deed::Flip(axis), vec![x.clone()]) } else { ops::flip(x, axis) }
}

pub(crate) fn concat(parts: &[Value], axis: i64) -> Outcome<Value> {
    if parts.iter().any(is_traced) { apply(&Deed::Concat(axis), parts.to_vec()) } else { ops::concat(parts, axis) }
}

pub(crate) fn stack(parts: &[Value]) -> Outcome<Value> {
    if parts.iter().any(is_traced) { apply(&Deed::Stack, parts.to_vec()) } else { ops::stack(parts) }
}

pub(crate) fn literal(parts: &[Value], element: Option<&Element>) -> Outcome<Value> {
    if parts.iter().any(is_traced) { apply(&Deed::Literal, parts.to_vec()) } else { ops::literal(parts, element) }
}

pub(crate) fn full(dims: &[i64], value: &Value) -> Outcome<Value> {
    if is_traced(value) { apply(&Deed::Full(dims.to_vec()), vec![value.clone()]) } else { ops::full(dims, value) }
}

pub(crate) fn sort(x: &Value) -> Outcome<Value> {
    if is_traced(x) { Err(no_order("take the elements in order: `x[argsort(x)]`")) } else { ops::sort(x) }
}

/// Returns keys in ascending order, and values, of which there are as many or as many rows, in the same order.
pub(crate) fn sort_with(keys: &Value, values: &Value) -> Outcome<Value> {
    if is_traced(keys) {
        return Err(no_order("take both in the order of the keys: `let at = argsort(keys)`, `keys[at]`, `values[at]`"));
    }
    if !is_traced(values)
        && let Some(pair) = ops::sorted_pairs(keys, values)?
    {
        return Ok(pair);
    }
    let order = [Pick::Array(ops::order_of_rows(keys, &primal(values))?)];
    Ok(Value::Tuple(vec![gather(keys, &order)?, gather(values, &order)?]))
}

fn no_order(help: &str) -> Problem {
    let problem = Problem::new("E0720", "the derivative of `sort` is not computed");
    problem.label("this depends on what is differentiated by").help(help)
}

/// Executes an assignment to a part of an array, if the array or the value is traced; returns whether it did.
pub(crate) fn assign(target: &mut Value, specs: &[SliceSpec], value: &Value) -> Outcome<bool> {
    written(target, Deed::Write(specs.to_vec()), value)
}

/// Likewise, of elements at positions.
pub(crate) fn scatter(target: &mut Value, picks: &[Pick], value: &Value) -> Outcome<bool> {
    written(target, Deed::Scatter(picks.to_vec()), value)
}

fn written(target: &mut Value, deed: Deed, value: &Value) -> Outcome<bool> {
    if !is_traced(target) && !is_traced(value) {
        return Ok(false);
    }
    let old = std::mem::replace(target, Value::Unit);
    *target = apply(&deed, vec![old, value.clone()])?;
    Ok(true)
}

/// Executes `v.xy = w` for a vector or an array of vectors, if it or the value is traced; returns whether it did.
pub(crate) fn set_lanes(target: &mut Value, lanes: &[u8], value: &Value) -> Outcome<bool> {
    written(target, Deed::SetLanes(lanes.to_vec()), value)
}
