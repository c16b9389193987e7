//! Putting values of any kind into traces and taking them out: tuples and structs part by part.

use std::sync::Arc;

use super::form::Form;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Link, Record, Traced, Value};

/// Whether any part of a value is traced.
pub(crate) fn is_traced(value: &Value) -> bool {
    match value {
        Value::Traced(_) => true,
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => parts.iter().any(is_traced),
        _ => false,
    }
}

/// Returns the highest level of values; none if none of them is traced.
pub(crate) fn level_of(values: &[Value]) -> Option<u32> {
    values.iter().filter_map(|value| if let Value::Traced(traced) = value { Some(traced.level) } else { None }).max()
}

/// Returns the plain value.
pub(crate) fn primal(value: &Value) -> Value {
    stripped(value, 0)
}

/// Returns the value without the levels from `level` on.
pub(crate) fn stripped(value: &Value, level: u32) -> Value {
    match value {
        Value::Traced(traced) if traced.level >= level => stripped(&traced.value, level),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|part| stripped(part, level)).collect()),
        Value::Record(record) => Value::Record(Record {
            layout: record.layout.clone(),
            fields: record.fields.iter().map(|part| stripped(part, level)).collect(),
        }),
        other => other.clone(),
    }
}

/// Returns a value with each of its floats, vectors and arrays wrapped by `wrap`.
pub(crate) fn wrapped(value: Value, wrap: &mut dyn FnMut(Value) -> Outcome<Value>) -> Outcome<Value> {
    let all = |parts: Vec<Value>, wrap: &mut dyn FnMut(Value) -> Outcome<Value>| {
        parts.into_iter().map(|part| wrapped(part, wrap)).collect::<Outcome<Vec<Value>>>()
    };
    match value {
        Value::Tuple(parts) => all(parts, wrap).map(Value::Tuple),
        Value::Record(Record { layout, fields }) => Ok(Value::Record(Record { layout, fields: all(fields, wrap)? })),
        value => match Form::of(&value) {
            Some(_) => wrap(value),
            None => {
                let title = format!("there is no derivative by a `{}`", value.type_name());
                Err(Problem::new("E0720", title)
                    .label("only floats, and arrays, tuples and structs of them, change continuously"))
            }
        },
    }
}

/// Returns the floats, vectors and arrays that a value consists of, in order.
pub(crate) fn leaves(value: &Value) -> Vec<Value> {
    match value {
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => parts.iter().flat_map(leaves).collect(),
        Value::Unit => vec![],
        other => vec![other.clone()],
    }
}

/// Returns zeros of the form of a float, a vector or an array.
pub(crate) fn zeros_like(value: &Value) -> Outcome<Value> {
    match Form::of(value) {
        Some(form) => form.zeros(),
        None => Err(Problem::new("E0720", format!("a `{}` has no derivative", value.type_name()))),
    }
}

/// Wraps a value at a level, with how its derivative is found.
pub(crate) fn traced(value: Value, level: u32, link: Link) -> Value {
    Value::Traced(Arc::new(Traced { value, level, link }))
}

/// Returns the value and its link at a level, if it has one.
pub(crate) fn links(value: &Value, level: u32) -> (Value, Option<Link>) {
    match value {
        Value::Traced(traced) if traced.level == level => (traced.value.clone(), Some(traced.link.clone())),
        other => (other.clone(), None),
    }
}

/// Returns the extents of an array; none for a single value.
pub(crate) fn shape_of(value: &Value) -> Vec<usize> {
    Form::of(value).and_then(|form| form.shape).unwrap_or_default()
}

/// Whether two values have one type and shape.
pub(crate) fn is_alike(a: &Value, b: &Value) -> bool {
    Form::of(a).is_some_and(|form| Form::of(b) == Some(form))
}
