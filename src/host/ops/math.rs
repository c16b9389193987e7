//! Mathematical functions and `select`, elementwise.

use crate::base::stop;
use crate::host::array::broadcast::{broadcast_to, common_shape};
use crate::host::array::{Array, Element, leaf};
use crate::host::graph::Op;
use crate::host::ops::elementwise::{ARGUMENTS, apply};
use crate::host::ops::operand::{Operands, common_scalar, undefined};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{Family, MathFn};
use crate::lang::scalar::Scalar;

/// Applies a function of scalars elementwise. (`min` and `max` of one array are [`reduce`](mod@super::reduce).)
pub fn math(function: MathFn, args: &[Value]) -> Outcome<Value> {
    let what = format!("`{}`", Builtin::Math(function).name());
    let values: Vec<&Value> = args.iter().collect();
    let arity = function.row().arity;
    if values.len() != arity {
        return Err(Problem::new("E0541", format!("{what} takes {arity} arguments, not {}", values.len())));
    }
    // If all arguments are untyped literals, a function of floats takes them as floats.
    let settled;
    let values = match common_scalar(&values) {
        None if !matches!(function.row().family, Family::Numbers | Family::Integers) => {
            settled = args.iter().map(float_default).collect::<Vec<_>>();
            settled.iter().collect()
        }
        _ => values,
    };
    let operands = Operands::new(&values, &what)?;
    apply(Op::Math(function), operands, &ARGUMENTS, || undefined(&what, &values))
}

fn float_default(value: &Value) -> Value {
    match value {
        Value::Int(n) => Value::of(*n as f32),
        other => other.clone(),
    }
}

/// Evaluates `x / y` rounded up.
pub fn ceil_div(x: &Value, y: &Value) -> Outcome<Value> {
    use crate::lang::ops::BinaryOp::{Add, Div, Ne, Rem};
    let values = [x, y];
    let scalar = common_scalar(&values).unwrap_or(Scalar::I32);
    if !scalar.is_int() {
        return Err(undefined("`ceil_div`", &values));
    }
    let quotient = super::binary(Div, x, y)?;
    let remainder = super::binary(Rem, x, y)?;
    let zero = Value::Int(0);
    let partial = super::convert(scalar, &super::binary(Ne, &remainder, &zero)?)?;
    super::binary(Add, &quotient, &partial)
}

/// Returns `then` where `cond` holds, else `other`, elementwise for any element type.
pub fn select(cond: &Value, then: &Value, other: &Value) -> Outcome<Value> {
    let what = "`select`";
    let scalar = common_scalar(&[then, other]);
    let adapt = |value: &Value| scalar.map_or(Ok(value.clone()), |s| super::operand::adapt(value, s, what));
    let (then, other) = (adapt(then)?, adapt(other)?);
    let any_array = [cond, &then, &other].into_iter().any(|value| matches!(value, Value::Array(_)));
    if let (Some(holds), false) = (cond.as_bool(), any_array) {
        return Ok(if holds { then } else { other });
    }
    let undefined = || undefined(what, &[cond, &then, &other]);
    let elements = [element(&then), element(&other)];
    if any_array && elements[0] != elements[1] {
        return Err(undefined());
    }
    if let [Some(Element::Record(_)), _] = elements {
        return select_records(cond, &then, &other);
    }
    let operands = Operands::new(&[&then, &other], what)?.led_by(cond, Scalar::Bool, what)?;
    apply(Op::Select, operands.ok_or_else(undefined)?, &ARGUMENTS, undefined)
}

/// Returns the type of a value as an element, or of an array's elements.
fn element(value: &Value) -> Option<Element> {
    match value {
        Value::Array(array) => Some(array.element().clone()),
        other => leaf::element_of(other),
    }
}

fn select_records(cond: &Value, then: &Value, other: &Value) -> Outcome<Value> {
    use super::operand::array_or_plain;
    let parts = [cond, then, other].map(|value| array_or_plain(value, "`select`"));
    let [cond_array, then_array, other_array] = parts;
    let (cond_array, then_array, other_array) = (cond_array?, then_array?, other_array?);
    if *cond_array.element() != Scalar::Bool.into() || then_array.element() != other_array.element() {
        return Err(undefined("`select`", &[cond, then, other]));
    }
    let arrays = [&*cond_array, &*then_array, &*other_array];
    let named: Vec<(&str, &[usize])> = ARGUMENTS.into_iter().zip(arrays.map(Array::shape)).collect();
    let shape = common_shape(&named)?;
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
    Ok(Value::Array(result))
}
