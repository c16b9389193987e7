//! Operands of elementwise operations: literals take the others' type.

use std::borrow::Cow;

use crate::host::array::broadcast::common_shape;
use crate::host::array::{Array, Element, leaf};
use crate::host::graph::Operand;
use crate::host::problem::{NO_GRAD, Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar, format};

/// The operands of an operation, all of one scalar type.
#[derive(Debug)]
pub(crate) struct Operands {
    pub list: Vec<Operand>,
    pub scalar: Scalar,
    /// The width of the vectors, or 1.
    pub lanes: usize,
    /// Whether no operand was an array, so that the result is a plain value.
    pub plain: bool,
}

/// Returns the scalar type that untyped literals take: that of the first operand that has one.
pub(crate) fn common_scalar(values: &[&Value]) -> Option<Scalar> {
    values.iter().find_map(|value| match value {
        Value::Scalar(number) => Some(number.ty),
        Value::Vector(vector) => Some(vector.ty()),
        Value::Array(array) => array.scalar(),
        _ => None,
    })
}

/// Converts an untyped literal to this scalar type; returns other values unchanged. `what` names the operation in messages.
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
        Value::Float(x) if scalar.is_float() => {
            let number = format::plain(scalar::Value::of(*x));
            Problem::new("E0504", format!("the number {number} is not a value of type {scalar}"))
                .label(format!("the other operand of {what} is of type {scalar}"))
                .help("convert the other operand: `f64(x)`")
        }
        _ => Problem::new("E0504", format!("{what} of {scalar} and a number with a decimal point"))
            .help("convert the other operand: `f32(x)`"),
    }
}

impl Operands {
    /// Checks that all values have one scalar type (literals adapt) and one width (scalars are broadcast).
    pub fn new(values: &[&Value], what: &str) -> Outcome<Operands> {
        let scalar = match common_scalar(values) {
            Some(scalar) => scalar,
            None => settle(values).ok_or_else(|| undefined(what, values))?,
        };
        let lanes = values.iter().map(|value| width(value)).max().unwrap_or(1);
        let mut list = Vec::with_capacity(values.len());
        for value in values {
            let operand = operand(value, scalar, lanes, what)?;
            list.push(operand.ok_or_else(|| undefined(what, values))?);
        }
        if let Some(other) = list.iter().find(|operand| operand.scalar() != Some(scalar)) {
            return Err(different_types(what, values, scalar, other.scalar()));
        }
        if values.iter().any(|value| ![1, lanes].contains(&width(value))) {
            return Err(undefined(what, values));
        }
        let plain = !values.iter().any(|value| matches!(value, Value::Array(_)));
        Ok(Operands { list, scalar, lanes, plain })
    }

    /// Adds an operand of another scalar type in front, such as a condition; `None` if it does not fit.
    pub fn led_by(mut self, value: &Value, scalar: Scalar, what: &str) -> Outcome<Option<Operands>> {
        let own = width(value);
        if own > 1 && self.lanes == 1 {
            self.lanes = own;
            self.list.iter_mut().for_each(|operand| {
                if let Operand::Array(_, shape) = operand {
                    shape.push(1);
                }
            });
        }
        let operand = operand(value, scalar, self.lanes, what)?;
        let Some(operand) = operand.filter(|operand| operand.scalar() == Some(scalar)) else { return Ok(None) };
        self.list.insert(0, operand);
        self.plain &= !matches!(value, Value::Array(_));
        Ok([1, self.lanes].contains(&own).then_some(self))
    }

    /// Returns the shape of the result, with the components of vectors as a last axis. `names` name the operands in messages.
    pub fn shape(&self, names: &[&str]) -> Outcome<Vec<usize>> {
        if let [Operand::Array(_, a), Operand::Array(_, b)] = self.list.as_slice()
            && a == b
        {
            return Ok(a.clone());
        }
        let named: Vec<(&str, &[usize])> = names.iter().copied().zip(self.list.iter().map(Operand::shape)).collect();
        common_shape(&named)
    }

    /// Returns the element type of a result with this scalar type.
    pub fn element(&self, scalar: Scalar) -> Element {
        match u8::try_from(self.lanes) {
            Ok(lanes) if lanes > 1 => Element::Vector(scalar, lanes),
            _ => Element::Scalar(scalar),
        }
    }
}

/// Returns the number of components of a value or of an array's elements.
fn width(value: &Value) -> usize {
    match value {
        Value::Array(array) => array.element().lanes(),
        Value::Vector(vector) => vector.lanes(),
        _ => 1,
    }
}

/// Returns the type for literals only: `f32` if one has a decimal point, else the default of integers.
fn settle(values: &[&Value]) -> Option<Scalar> {
    let mut scalar = None;
    for value in values {
        match value {
            Value::Float(_) => scalar = (*value).clone().settled().as_scalar().map(|n| n.ty),
            Value::Int(_) => scalar = scalar.or((*value).clone().settled().as_scalar().map(|n| n.ty)),
            _ => {}
        }
    }
    scalar
}

/// Returns a value as an operand of an operation on so many components; `None` if it is not numeric.
fn operand(value: &Value, scalar: Scalar, lanes: usize, what: &str) -> Outcome<Option<Operand>> {
    Ok(match value {
        Value::Array(array) if array.scalar().is_some() => {
            let mut shape = Vec::with_capacity(array.rank() + 1);
            shape.extend(array.shape());
            if lanes > 1 {
                shape.push(array.element().lanes());
            }
            Some(Operand::Array(array.clone(), shape))
        }
        Value::Vector(vector) => Some(Operand::Array(Array::full(value, &[])?, vec![vector.lanes()])),
        Value::Scalar(number) => Some(Operand::Scalar(*number)),
        Value::Int(_) | Value::Float(_) => adapt(value, scalar, what)?.as_scalar().map(Operand::Scalar),
        _ => None,
    })
}

/// Returns the error for an operation that is not defined for operands of these types.
pub(crate) fn undefined(what: &str, values: &[&Value]) -> Problem {
    if values.iter().any(|value| matches!(value, Value::Traced(_))) {
        return Problem::new("E0720", format!("the derivative of {what} is not computed")).help(NO_GRAD);
    }
    let types: Vec<String> = values.iter().map(|v| format!("`{}`", v.type_name())).collect();
    let title = match types.as_slice() {
        [one] => format!("{what} does not take {one}"),
        many => format!("{what} does not take {}", many.join(" and ")),
    };
    reads_numbers(Problem::new("E0505", title), values)
}

/// Adds a help if texts are used as numbers.
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

/// Returns the array in a value, or an error.
pub(crate) fn array<'v>(value: &'v Value, what: &str) -> Outcome<&'v Array> {
    match value {
        Value::Array(array) => Ok(array),
        _ => {
            let problem = Problem::new("E0505", format!("{what} takes an array, not `{}`", value.type_name()));
            Err(reads_numbers(problem, &[value]))
        }
    }
}

/// Returns a value as an array; scalars and vectors become arrays of rank 0.
pub(crate) fn array_or_plain<'v>(value: &'v Value, what: &str) -> Outcome<Cow<'v, Array>> {
    match value {
        Value::Array(array) => Ok(Cow::Borrowed(array)),
        _ if leaf::element_of(value).is_some() => Ok(Cow::Owned(Array::full(&value.clone().settled(), &[])?)),
        _ => Err(undefined(what, &[value])),
    }
}

/// Checks an `axis = k` argument; negative axes are an error.
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

/// Checks an `axis = (j, k)` argument; returns the axes in ascending order.
pub(crate) fn axes(given: &[i64], rank: usize, what: &str) -> Outcome<Vec<usize>> {
    let mut axes = given.iter().map(|&axis| self::axis(axis, rank, what)).collect::<Outcome<Vec<usize>>>()?;
    axes.sort_unstable();
    match axes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Problem::new("E0507", format!("{what} along axis {} twice", pair[0]))
                .label("each axis can be given once"))
        }
        None => Ok(axes),
    }
}
