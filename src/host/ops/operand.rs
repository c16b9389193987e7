//! Operands of elementwise operations: untyped literals take the type of the other operands.

use std::borrow::Cow;

use crate::array::broadcast::common_shape;
use crate::array::{Array, ElementType, element_value};
use crate::graph::NodeOperand;
use crate::problem::{HostResult, NO_GRAD, RuntimeError};
use crate::value::HostValue;
use clk_scalar::{Scalar, format};

/// The operands of an operation, all of one scalar type.
#[derive(Debug)]
pub(crate) struct ScalarOperands {
    pub list: Vec<NodeOperand>,
    pub scalar: Scalar,
    /// Number of components of the vectors; 1 if all operands are scalars.
    pub lanes: usize,
    /// Whether no operand is an array, so that the result is a scalar or a vector.
    pub plain: bool,
}

/// Returns the scalar type of the first typed operand, which untyped literals take.
pub(crate) fn common_scalar(values: &[&HostValue]) -> Option<Scalar> {
    values.iter().find_map(|value| match value {
        HostValue::Scalar(number) => Some(number.ty),
        HostValue::Vector(vector) => Some(vector.ty()),
        HostValue::Array(array) => array.scalar(),
        _ => None,
    })
}

/// Converts an untyped literal to this scalar type. Returns other values unchanged. `what` is the name of the operation
/// in messages.
pub(crate) fn adapt(value: &HostValue, scalar: Scalar, what: &str) -> HostResult<HostValue> {
    match value {
        HostValue::Int(_) | HostValue::Float(_) => match value.adapt(scalar) {
            Some(number) => Ok(HostValue::Scalar(number)),
            None => Err(unfit_literal(value, scalar, what)),
        },
        _ => Ok(value.clone()),
    }
}

fn unfit_literal(value: &HostValue, scalar: Scalar, what: &str) -> RuntimeError {
    match value {
        HostValue::Int(n) => RuntimeError::new("E0504", format!("the number {n} is not a value of type {scalar}"))
            .label(format!("the other operand of {what} is of type {scalar}")),
        HostValue::Float(x) if scalar.is_float() => {
            let number = format::plain(clk_scalar::ScalarValue::of(*x));
            RuntimeError::new("E0504", format!("the number {number} is not a value of type {scalar}"))
                .label(format!("the other operand of {what} is of type {scalar}"))
                .help("convert the other operand: `f64(x)`")
        }
        _ => RuntimeError::new("E0504", format!("{what} of {scalar} and a number with a decimal point"))
            .help("convert the other operand: `f32(x)`"),
    }
}

impl ScalarOperands {
    /// Checks that all values have the same scalar type (untyped literals are converted) and the same number of
    /// components (scalars are broadcast).
    pub fn new(values: &[&HostValue], what: &str) -> HostResult<ScalarOperands> {
        let scalar = match common_scalar(values) {
            Some(scalar) => scalar,
            None => default_literal_type(values).ok_or_else(|| undefined(what, values))?,
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
        let plain = !values.iter().any(|value| matches!(value, HostValue::Array(_)));
        Ok(ScalarOperands { list, scalar, lanes, plain })
    }

    /// Inserts a first operand of another scalar type, such as a condition. `None` if its number of components does not
    /// match.
    pub fn with_first_operand(
        mut self,
        value: &HostValue,
        scalar: Scalar,
        what: &str,
    ) -> HostResult<Option<ScalarOperands>> {
        let own = width(value);
        if own > 1 && self.lanes == 1 {
            self.lanes = own;
            self.list.iter_mut().for_each(|operand| {
                if let NodeOperand::Array(_, shape) = operand {
                    shape.push(1);
                }
            });
        }
        let operand = operand(value, scalar, self.lanes, what)?;
        let Some(operand) = operand.filter(|operand| operand.scalar() == Some(scalar)) else { return Ok(None) };
        self.list.insert(0, operand);
        self.plain &= !matches!(value, HostValue::Array(_));
        Ok([1, self.lanes].contains(&own).then_some(self))
    }

    /// Returns the broadcast shape of the result. For vectors, the last axis is the components. `names` are the names
    /// of the operands in messages.
    pub fn shape(&self, names: &[&str]) -> HostResult<Vec<usize>> {
        if let [NodeOperand::Array(_, a), NodeOperand::Array(_, b)] = self.list.as_slice()
            && a == b
        {
            return Ok(a.clone());
        }
        let named_shapes: Vec<(&str, &[usize])> =
            names.iter().copied().zip(self.list.iter().map(NodeOperand::shape)).collect();
        common_shape(&named_shapes)
    }

    /// Returns the element type of a result with this scalar type.
    pub fn element(&self, scalar: Scalar) -> ElementType {
        match u8::try_from(self.lanes) {
            Ok(lanes) if lanes > 1 => ElementType::Vector(scalar, lanes),
            _ => ElementType::Scalar(scalar),
        }
    }
}

/// Returns the number of components of a value or of an array's elements.
fn width(value: &HostValue) -> usize {
    match value {
        HostValue::Array(array) => array.element().lanes(),
        HostValue::Vector(vector) => vector.lanes(),
        _ => 1,
    }
}

/// Returns the type for operands that are all untyped literals: `f32` if one of them is a float, otherwise the default
/// integer type.
fn default_literal_type(values: &[&HostValue]) -> Option<Scalar> {
    let mut scalar = None;
    for value in values {
        match value {
            HostValue::Float(_) => scalar = (*value).clone().with_default_type().as_scalar().map(|n| n.ty),
            HostValue::Int(_) => scalar = scalar.or((*value).clone().with_default_type().as_scalar().map(|n| n.ty)),
            _ => {}
        }
    }
    scalar
}

/// Returns a value as an operand of an operation on `lanes` components; `None` if it is not numeric.
fn operand(value: &HostValue, scalar: Scalar, lanes: usize, what: &str) -> HostResult<Option<NodeOperand>> {
    Ok(match value {
        HostValue::Array(array) if array.scalar().is_some() => {
            let mut shape = Vec::with_capacity(array.rank() + 1);
            shape.extend(array.shape());
            if lanes > 1 {
                shape.push(array.element().lanes());
            }
            Some(NodeOperand::Array(array.clone(), shape))
        }
        HostValue::Vector(vector) => Some(NodeOperand::Array(Array::full(value, &[])?, vec![vector.lanes()])),
        HostValue::Scalar(number) => Some(NodeOperand::Scalar(*number)),
        HostValue::Int(_) | HostValue::Float(_) => adapt(value, scalar, what)?.as_scalar().map(NodeOperand::Scalar),
        _ => None,
    })
}

/// Returns the error for an operation that is not defined for operands of these types.
pub(crate) fn undefined(what: &str, values: &[&HostValue]) -> RuntimeError {
    if values.iter().any(|value| matches!(value, HostValue::Traced(_))) {
        return RuntimeError::new("E0720", format!("the derivative of {what} is not computed")).help(NO_GRAD);
    }
    let types: Vec<String> = values.iter().map(|v| format!("`{}`", v.type_name())).collect();
    let title = match types.as_slice() {
        [one] => format!("{what} does not take {one}"),
        many => format!("{what} does not take {}", many.join(" and ")),
    };
    reads_numbers(RuntimeError::new("E0505", title), values)
}

/// Adds help to an error if texts are used as numbers.
fn reads_numbers(problem: RuntimeError, values: &[&HostValue]) -> RuntimeError {
    match values.iter().any(|value| matches!(value, HostValue::Strings(_))) {
        true => problem.help("`parse(f64, x)` parses an array of texts, and reports which text is not a number"),
        false => problem,
    }
}

fn different_types(what: &str, values: &[&HostValue], scalar: Scalar, other: Option<Scalar>) -> RuntimeError {
    let other = other.map_or("another type".into(), |s| s.to_string());
    let types: Vec<String> = values.iter().map(|v| format!("`{}`", v.type_name())).collect();
    RuntimeError::new("E0504", format!("{what} needs operands of one type, not {scalar} and {other}"))
        .label(format!("the operands are {}", types.join(" and ")))
        .help(format!("convert one of them: `{scalar}(…)` or `{other}(…)`"))
}

/// Returns the array of a value; an error if the value is not an array.
pub(crate) fn array<'v>(value: &'v HostValue, what: &str) -> HostResult<&'v Array> {
    match value {
        HostValue::Array(array) => Ok(array),
        _ => {
            let problem = RuntimeError::new("E0505", format!("{what} takes an array, not `{}`", value.type_name()));
            Err(reads_numbers(problem, &[value]))
        }
    }
}

/// Returns a value as an array; scalars and vectors become arrays of rank 0.
pub(crate) fn array_or_plain<'v>(value: &'v HostValue, what: &str) -> HostResult<Cow<'v, Array>> {
    match value {
        HostValue::Array(array) => Ok(Cow::Borrowed(array)),
        _ if element_value::element_of(value).is_some() => {
            Ok(Cow::Owned(Array::full(&value.clone().with_default_type(), &[])?))
        }
        _ => Err(undefined(what, &[value])),
    }
}

/// Checks an `axis = k` argument; negative axes are an error.
pub(crate) fn axis(axis: i64, rank: usize, what: &str) -> HostResult<usize> {
    match usize::try_from(axis) {
        Ok(axis) if axis < rank => Ok(axis),
        _ => {
            let axes = if rank == 1 { "1 axis, number 0".into() } else { format!("{rank} axes, numbered from 0") };
            Err(RuntimeError::new("E0507", format!("{what} along axis {axis}, which the array does not have"))
                .label(format!("it has {axes}")))
        }
    }
}

/// Checks an `axis = (j, k)` argument; returns the axes in ascending order.
pub(crate) fn axes(given: &[i64], rank: usize, what: &str) -> HostResult<Vec<usize>> {
    let mut axes = given.iter().map(|&axis| self::axis(axis, rank, what)).collect::<HostResult<Vec<usize>>>()?;
    axes.sort_unstable();
    match axes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(RuntimeError::new("E0507", format!("{what} along axis {} twice", pair[0]))
            .label("each axis can be given once")),
        None => Ok(axes),
    }
}
