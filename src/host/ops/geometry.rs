//! The functions `cross`, `length` and `normalize` of vectors. They use the same arithmetic operations as in kernels.

use crate::ops::matmul::dot;
use crate::ops::operand::undefined;
use crate::ops::{binary, math};
use crate::problem::HostResult;
use crate::value::{HostValue, Vector};
use clk_scalar::ops::{BinaryOp, MathFn};

pub(crate) fn length(v: &HostValue) -> HostResult<HostValue> {
    floats("`length`", &[v])?;
    math(MathFn::Sqrt, &[dot(v, v)?])
}

pub(crate) fn normalize(v: &HostValue) -> HostResult<HostValue> {
    floats("`normalize`", &[v])?;
    binary(BinaryOp::Div, v, &length(v)?)
}

pub(crate) fn cross(a: &HostValue, b: &HostValue) -> HostResult<HostValue> {
    floats("`cross`", &[a, b])?;
    let rotated = |v: &HostValue, by: usize| match v {
        HostValue::Vector(v) => {
            HostValue::Vector(Vector::new(v.ty(), (0..3).filter_map(|k| v.lane((k + by) % 3)).map(|l| l.bits)))
        }
        other => other.clone(),
    };
    let plus = binary(BinaryOp::Mul, &rotated(a, 1), &rotated(b, 2))?;
    let minus = binary(BinaryOp::Mul, &rotated(a, 2), &rotated(b, 1))?;
    binary(BinaryOp::Sub, &plus, &minus)
}

/// Checks that all values are vectors of floats of the same type. If there are two (`cross`), they must have three
/// components.
fn floats(what: &str, values: &[&HostValue]) -> HostResult<()> {
    let first = if let [HostValue::Vector(first), ..] = values { Some(first) } else { None };
    let is_valid = |value: &&HostValue| {
        matches!((value, first), (HostValue::Vector(v), Some(first))
            if v.ty().is_float() && v.ty() == first.ty() && (values.len() == 1 || v.lanes() == 3))
    };
    if values.iter().all(is_valid) { Ok(()) } else { Err(undefined(what, values)) }
}
