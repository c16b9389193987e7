//! `cross`, `length` and `normalize` of vectors, with the same operations as in kernels.

use crate::host::ops::matmul::dot;
use crate::host::ops::operand::undefined;
use crate::host::ops::{binary, math};
use crate::host::problem::Outcome;
use crate::host::value::{Value, Vector};
use crate::lang::ops::{BinaryOp, MathFn};

pub(crate) fn length(v: &Value) -> Outcome<Value> {
    floats("`length`", &[v])?;
    math(MathFn::Sqrt, &[dot(v, v)?])
}

pub(crate) fn normalize(v: &Value) -> Outcome<Value> {
    floats("`normalize`", &[v])?;
    binary(BinaryOp::Div, v, &length(v)?)
}

pub(crate) fn cross(a: &Value, b: &Value) -> Outcome<Value> {
    floats("`cross`", &[a, b])?;
    let turned = |v: &Value, by: usize| match v {
        Value::Vector(v) => {
            Value::Vector(Vector::new(v.ty(), (0..3).filter_map(|k| v.lane((k + by) % 3)).map(|l| l.bits)))
        }
        other => other.clone(),
    };
    let plus = binary(BinaryOp::Mul, &turned(a, 1), &turned(b, 2))?;
    let minus = binary(BinaryOp::Mul, &turned(a, 2), &turned(b, 1))?;
    binary(BinaryOp::Sub, &plus, &minus)
}

/// Checks that all values are vectors of floats of one type, and that two of them have three components.
fn floats(what: &str, values: &[&Value]) -> Outcome<()> {
    let first = if let [Value::Vector(first), ..] = values { Some(first) } else { None };
    let fits = |value: &&Value| {
        matches!((value, first), (Value::Vector(v), Some(first))
            if v.ty().is_float() && v.ty() == first.ty() && (values.len() == 1 || v.lanes() == 3))
    };
    if values.iter().all(fits) { Ok(()) } else { Err(undefined(what, values)) }
}
