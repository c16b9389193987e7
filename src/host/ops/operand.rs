//! Operands of elementwise operations: literals take the others' type, scalars and vectors become arrays of no axes.

use std::borrow::Cow;

use crate::host::array::{Array, Element, leaf};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

/// The operands of one operation, all of one scalar type.
pub(crate) struct Operands<'v> {
    pub arrays: Vec<Cow<'v, Array>>,
    pub scalar: Scalar,
    /// 1, or the vectors' width.
    pub lanes: usize,
    /// No operand was an array: the result is a value.
    pub plain: bool,
}

/// The scalar type that literals among the values adapt to: that of the first operand that has one.
pub(crate) fn common_scalar(values: &[&Value]) -> Option<Scalar> {
    values.iter().find_map(|value| match value {
        Value::Scalar(number) => Some(number.ty),
        Value::Vector(vector) => Some(vector.ty()),
        Value::Array(array) => array.scalar(),
        _ => None,
    })
}

/// A literal as a value of this scalar type; everything else as it is. `what` names the operation in messages.
pub(crate) fn adapt(value: &Value, scalar: Scalar, what: &str) -> Outcome<Value> {
    match value {
        Value::Int(_) | Value::Float(_) => match value.adapt(scalar) {
            Some(number) => Ok(Value::Scalar(number)),
            None => Err(unfit_literal(value, scalar, what)),
        },
        _ => Ok(value.clone()),
    }
}

fn unfit_literal(value: &Value, scalar: Scalar, what: &str) -> Problem {
    match value {
        Value::Int(n) => Problem::new("E0504", format!("the number {n} is not a value of type {scalar}"))
            .label(format!("the other operand of {what} is of type {scalar}")),
        _ => Problem::new("E0504", format!("{what} of {scalar} and a number with a decimal point"))
            .help("convert the other operand: `f32(x)`"),
    }
}

impl<'v> Operands<'v> {
    /// Checks that all values are of one scalar type (literals adapt) and of one width (scalars repeat).
    pub fn new(values: &[&'v Value], what: &str) -> Outcome<Operands<'v>> {
        let scalar = match common_scalar(values) {
            Some(scalar) => scalar,
            None => settle(values).ok_or_else(|| undefined(what, values))?,
        };
        let mut arrays = Vec::with_capacity(values.len());
        for value in values {
            arrays.push(as_array(value, scalar, what).map_err(|p| p.unwrap_or_else(|| undefined(what, values)))?);
        }
        if let Some(other) = arrays.iter().find(|a| a.scalar() != Some(scalar)) {
            return Err(different_types(what, values, scalar, other.scalar()));
        }
        let lanes = arrays.iter().map(|a| a.element().lanes()).max().unwrap_or(1);
        if arrays.iter().any(|a| ![1, lanes].contains(&a.element().lanes())) {
            return Err(undefined(what, values));
        }
        let plain = !values.iter().any(|value| matches!(value, Value::Array(_)));
        Ok(Operands { arrays, scalar, lanes, plain })
    }

    /// The element type of a result with this scalar.
    pub fn element(&self, scalar: Scalar) -> Element {
        match u8::try_from(self.lanes) {
            Ok(lanes) if lanes > 1 => Element::Vector(scalar, lanes),
            _ => Element::Scalar(scalar),
        }
    }

    /// The shape of an operand, with the lanes as last axis if any operand has some.
    pub fn shape(&self, operand: usize) -> Vec<usize> {
        let Some(array) = self.arrays.get(operand) else { return vec![] };
        let mut shape = array.shape().to_vec();
        if self.lanes > 1 {
            shape.push(array.element().lanes());
        }
        shape
    }

    /// The result as a value: an array only if an operand was one.
    pub fn value(&self, result: Array) -> Value {
        match result.item(0) {
            Some(item) if self.plain => item,
            _ => Value::Array(result),
        }
    }
}

/// Of literals only: `f32` if one has a decimal point, else the integers' default.
fn settle(values: &[&Value]) -> Option<Scalar> {
    let mut scalar = None;
    for value in values {
        match value {
            Value::Float(_) => scalar = Some(Scalar::F32),
            Value::Int(_) => scalar = scalar.or((*value).clone().settled().as_scalar().map(|n| n.ty)),
            _ => {}
        }
    }
    scalar
}

/// `Err(None)`: not something to compute with.
fn as_array<'v>(value: &'v Value, scalar: Scalar, what: &str) -> Result<Cow<'v, Array>, Option<Problem>> {
    match value {
        Value::Array(array) if array.scalar().is_some() => Ok(Cow::Borrowed(array)),
        Value::Scalar(_) | Value::Vector(_) | Value::Int(_) | Value::Float(_) => {
            let value = adapt(value, scalar, what)?;
            Ok(Cow::Owned(Array::full(&value, &[])?))
        }
        _ => Err(None),
    }
}

/// The operation does not exist for operands of these types.
pub(crate) fn undefined(what: &str, values: &[&Value]) -> Problem {
    let types: Vec<String> = values.iter().map(|v| format!("`{}`", v.type_name())).collect();
    let title = match types.as_slice() {
        [one] => format!("{what} does not take {one}"),
        many => format!("{what} does not take {}", many.join(" and ")),
    };
    reads_numbers(Problem::new("E0505", title), values)
}

/// What helps where texts stand for numbers.
fn reads_numbers(problem: Problem, values: &[&Value]) -> Problem {
    match values.iter().any(|value| matches!(value, Value::Strings(_))) {
        true => problem.help("`parse(f64, x)` reads the numbers of an array of texts, and says which is none"),
        false => problem,
    }
}

fn different_types(what: &str, values: &[&Value], scalar: Scalar, other: Option<Scalar>) -> Problem {
    let other = other.map_or("another type".into(), |s| s.to_string());
    let types: Vec<String> = values.iter().map(|v| format!("`{}`", v.type_name())).collect();
    Problem::new("E0504", format!("{what} needs operands of one type, not {scalar} and {other}"))
        .label(format!("the operands are {}", types.join(" and ")))
        .help(format!("convert one of them: `{scalar}(…)` or `{other}(…)`"))
}

/// The array that an operation on arrays is given.
pub(crate) fn array<'v>(value: &'v Value, what: &str) -> Outcome<&'v Array> {
    match value {
        Value::Array(array) => Ok(array),
        _ => {
            let problem = Problem::new("E0505", format!("{what} takes an array, not `{}`", value.type_name()));
            Err(reads_numbers(problem, &[value]))
        }
    }
}

/// An array of one axis or more; scalars and vectors are arrays of no axes.
pub(crate) fn array_or_plain<'v>(value: &'v Value, what: &str) -> Outcome<Cow<'v, Array>> {
    match value {
        Value::Array(array) => Ok(Cow::Borrowed(array)),
        _ if leaf::element_of(value).is_some() => Ok(Cow::Owned(Array::full(&value.clone().settled(), &[])?)),
        _ => Err(undefined(what, &[value])),
    }
}

/// The position that an `axis = k` names; negative ones are a mistake.
pub(crate) fn axis(axis: i64, rank: usize, what: &str) -> Outcome<usize> {
    match usize::try_from(axis) {
        Ok(axis) if axis < rank => Ok(axis),
        _ => {
            let axes = if rank == 1 { "1 axis, number 0".into() } else { format!("{rank} axes, numbered from 0") };
            Err(Problem::new("E0507", format!("{what} along axis {axis}, which the array does not have"))
                .label(format!("it has {axes}")))
        }
    }
}
