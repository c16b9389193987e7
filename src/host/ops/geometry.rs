//! The functions `cross`, `length` and `normalize` of vectors. They use the same arithmetic operations as in kernels.

use crate::graph::ExecContext;
use crate::ops::matmul::dot;
use crate::ops::operand::undefined;
use crate::ops::{binary, math};
use crate::problem::HostResult;
use crate::value::{HostValue, Vector};
use clk_scalar::ops::{BinaryOp, MathFn};

pub(crate) fn length(exec: &ExecContext, v: &HostValue) -> HostResult<HostValue> {
    floats("`length`", &[v])?;
    math(exec, MathFn::Sqrt, &[dot(exec, v, v)?])
}

pub(crate) fn normalize(exec: &ExecContext, v: &HostValue) -> HostResult<HostValue> {
    floats("`normalize`", &[v])?;
    binary(exec, BinaryOp::Div, v, &length(exec, v)?)
}

pub(crate) fn cross(exec: &ExecContext, a: &HostValue, b: &HostValue) -> HostResult<HostValue> {
    floats("`cross`", &[a, b])?;
    let rotated = |v: &HostValue, by: usize| match v {
        HostValue::Vector(v) => {
            HostValue::Vector(Vector::new(v.ty(), (0..3).filter_map(|k| v.lane((k + by) % 3)).map(|l| l.bits)))
        }
        other => other.clone(),
    };
    let plus = binary(exec, BinaryOp::Mul, &rotated(a, 1), &rotated(b, 2))?;
    let minus = binary(exec, BinaryOp::Mul, &rotated(a, 2), &rotated(b, 1))?;
    binary(exec, BinaryOp::Sub, &plus, &minus)
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
