//! Mathematical functions and `select`, elementwise.

use crate::array::broadcast::{broadcast_to, common_shape};
use crate::array::{Array, ElementType, element_value};
use crate::graph::{ElementwiseOp, ExecContext};
use crate::ops::elementwise::{ARGUMENTS, apply};
use crate::ops::operand::{ScalarOperands, common_scalar, undefined};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{MathFamily, MathFn};

/// Applies a function of scalars elementwise. `min` and `max` with a single array are reductions, in
/// [`reduce`](mod@super::reduce).
pub fn math(exec: &ExecContext, function: MathFn, args: &[HostValue]) -> HostResult<HostValue> {
    let function_name = format!("`{}`", Builtin::Math(function).name());
    let values: Vec<&HostValue> = args.iter().collect();
    let arity = function.row().arity;
    if values.len() != arity {
        return Err(RuntimeError::new(
            "E0541",
            format!("{function_name} takes {arity} arguments, not {}", values.len()),
        ));
    }
    // Functions of floats convert untyped integer literals to floats.
    let typed_args;
    let values = match common_scalar(&values) {
        None if !matches!(function.row().family, MathFamily::Numbers | MathFamily::Integers) => {
            typed_args = args.iter().map(float_default).collect::<Vec<_>>();
            typed_args.iter().collect()
        }
        _ => values,
    };
    let operands = ScalarOperands::new(&values, &function_name)?;
    apply(exec, ElementwiseOp::Math(function), operands, &ARGUMENTS, || undefined(&function_name, &values))
}

fn float_default(value: &HostValue) -> HostValue {
    match value {
        HostValue::Int(n) => HostValue::of(*n as f32),
        other => other.clone(),
    }
}

/// Evaluates `x / y` rounded up.
pub fn ceil_div(exec: &ExecContext, x: &HostValue, y: &HostValue) -> HostResult<HostValue> {
    use clk_scalar::ops::BinaryOp::{Add, Div, Ne, Rem};
    let values = [x, y];
    let scalar = common_scalar(&values).unwrap_or(Scalar::I32);
    if !scalar.is_int() {
        return Err(undefined("`ceil_div`", &values));
    }
    let quotient = super::binary(exec, Div, x, y)?;
    let remainder = super::binary(exec, Rem, x, y)?;
    let zero = HostValue::Int(0);
    let partial = super::convert(exec, scalar, &super::binary(exec, Ne, &remainder, &zero)?)?;
    super::binary(exec, Add, &quotient, &partial)
}

/// Evaluates `select(cond, then, other)` elementwise for any element type: `then` where `cond` is true, otherwise
/// `other`.
pub fn select(exec: &ExecContext, cond: &HostValue, then: &HostValue, other: &HostValue) -> HostResult<HostValue> {
    let function_name = "`select`";
    let scalar = common_scalar(&[then, other]);
    let adapt =
        |value: &HostValue| scalar.map_or(Ok(value.clone()), |s| super::operand::adapt(value, s, function_name));
    let (then, other) = (adapt(then)?, adapt(other)?);
    let any_array = [cond, &then, &other].into_iter().any(|value| matches!(value, HostValue::Array(_)));
    if let (Some(holds), false) = (cond.as_bool(), any_array) {
        return Ok(if holds { then } else { other });
    }
    let undefined = || undefined(function_name, &[cond, &then, &other]);
    let elements = [element(&then), element(&other)];
    if any_array && elements[0] != elements[1] {
        return Err(undefined());
    }
    if let [Some(ElementType::Record(_)), _] = elements {
        return select_records(cond, &then, &other);
    }
    let operands =
        ScalarOperands::new(&[&then, &other], function_name)?.with_first_operand(cond, Scalar::Bool, function_name)?;
    apply(exec, ElementwiseOp::Select, operands.ok_or_else(undefined)?, &ARGUMENTS, undefined)
}

/// Returns the element type of a value or of an array.
fn element(value: &HostValue) -> Option<ElementType> {
    match value {
        HostValue::Array(array) => Some(array.element().clone()),
        other => element_value::element_of(other),
    }
}

fn select_records(cond: &HostValue, then: &HostValue, other: &HostValue) -> HostResult<HostValue> {
    use super::operand::array_or_plain;
    let parts = [cond, then, other].map(|value| array_or_plain(value, "`select`"));
    let [cond_array, then_array, other_array] = parts;
    let (cond_array, then_array, other_array) = (cond_array?, then_array?, other_array?);
    if *cond_array.element() != Scalar::Bool.into() || then_array.element() != other_array.element() {
        return Err(undefined("`select`", &[cond, then, other]));
    }
    let arrays = [&*cond_array, &*then_array, &*other_array];
    let named_shapes: Vec<(&str, &[usize])> = ARGUMENTS.into_iter().zip(arrays.map(Array::shape)).collect();
    let shape = common_shape(&named_shapes)?;
    let mut wide = Vec::with_capacity(3);
    for array in arrays {
        wide.push(match broadcast_to(array, &shape) {
            Some(repeated) => repeated?,
            None => array.clone(),
        });
    }
    let bytes = |i: usize| wide.get(i).map_or(Ok(&[] as &[u8]), Array::bytes);
    let (conds, thens, others) = (bytes(0)?, bytes(1)?, bytes(2)?);
    let size = then_array.element().size().max(1);
    let mut result = Array::zeros(then_array.element().clone(), &shape)?;
    let sources = thens.chunks_exact(size).zip(others.chunks_exact(size));
    let places = result.bytes_mut()?.chunks_exact_mut(size);
    for ((place, (then, other)), &holds) in stop::polled(places.zip(sources).zip(conds)) {
        place.copy_from_slice(if holds != 0 { then } else { other });
    }
    Ok(HostValue::Array(result))
}
