//! Wrapping of values as traced values and unwrapping, recursively in tuples and structs. Nested differentiation has
//! several levels: a traced value can contain a value that is traced at a lower level.

use std::sync::Arc;

use super::value_shape::ValueShape;
use crate::problem::{HostResult, RuntimeError};
use crate::value::{GradLink, HostValue, RecordValue, Traced};

/// Returns whether a value, or a component of it, is traced.
pub(crate) fn is_traced(value: &HostValue) -> bool {
    match value {
        HostValue::Traced(_) => true,
        HostValue::Tuple(parts) | HostValue::Record(RecordValue { fields: parts, .. }) => parts.iter().any(is_traced),
        _ => false,
    }
}

/// Returns the highest differentiation level of the values; `None` if no value is traced.
pub(crate) fn level_of(values: &[HostValue]) -> Option<u32> {
    values
        .iter()
        .filter_map(|value| if let HostValue::Traced(traced) = value { Some(traced.level) } else { None })
        .max()
}

/// Returns the value without traces of any level.
pub(crate) fn primal(value: &HostValue) -> HostValue {
    strip_levels(value, 0)
}

/// Returns the value without traces of the level `level` and higher levels.
pub(crate) fn strip_levels(value: &HostValue, level: u32) -> HostValue {
    match value {
        HostValue::Traced(trace) if trace.level >= level => strip_levels(&trace.value, level),
        HostValue::Tuple(parts) => HostValue::Tuple(parts.iter().map(|part| strip_levels(part, level)).collect()),
        HostValue::Record(record) => HostValue::Record(RecordValue {
            layout: record.layout.clone(),
            fields: record.fields.iter().map(|part| strip_levels(part, level)).collect(),
        }),
        other => other.clone(),
    }
}

/// Applies `wrap` to each float, vector and array in a value.
pub(crate) fn wrap_leaves(
    value: HostValue,
    wrap: &mut dyn FnMut(HostValue) -> HostResult<HostValue>,
) -> HostResult<HostValue> {
    let all = |parts: Vec<HostValue>, wrap: &mut dyn FnMut(HostValue) -> HostResult<HostValue>| {
        parts.into_iter().map(|part| wrap_leaves(part, wrap)).collect::<HostResult<Vec<HostValue>>>()
    };
    match value {
        HostValue::Tuple(parts) => all(parts, wrap).map(HostValue::Tuple),
        HostValue::Record(RecordValue { layout, fields }) => {
            Ok(HostValue::Record(RecordValue { layout, fields: all(fields, wrap)? }))
        }
        value => match ValueShape::for_value(&value) {
            Some(_) => wrap(value),
            None => {
                let title = format!("there is no derivative by a `{}`", value.type_name());
                Err(RuntimeError::new("E0720", title)
                    .label("only floats, and arrays, tuples and structs of them, change continuously"))
            }
        },
    }
}

/// Returns the floats, vectors and arrays in a value, in order.
pub(crate) fn leaves(value: &HostValue) -> Vec<HostValue> {
    match value {
        HostValue::Tuple(parts) | HostValue::Record(RecordValue { fields: parts, .. }) => {
            parts.iter().flat_map(leaves).collect()
        }
        HostValue::Unit => vec![],
        other => vec![other.clone()],
    }
}

/// Returns zeros of the shape of a float, a vector or an array.
pub(crate) fn zeros_like(value: &HostValue) -> HostResult<HostValue> {
    match ValueShape::for_value(value) {
        Some(form) => form.zeros(),
        None => Err(RuntimeError::new("E0720", format!("a `{}` has no derivative", value.type_name()))),
    }
}

/// Wraps a value as a traced value of a level, with the link to its derivative.
pub(crate) fn trace(value: HostValue, level: u32, link: GradLink) -> HostValue {
    HostValue::Traced(Arc::new(Traced { value, level, link }))
}

/// Returns the value without the trace of a level, and the link of that trace; `None` if the value is not traced at
/// this level.
pub(crate) fn split_link(value: &HostValue, level: u32) -> (HostValue, Option<GradLink>) {
    match value {
        HostValue::Traced(trace) if trace.level == level => (trace.value.clone(), Some(trace.link.clone())),
        other => (other.clone(), None),
    }
}

/// Returns the extents of an array; empty for a single value.
pub(crate) fn shape_of(value: &HostValue) -> Vec<usize> {
    ValueShape::for_value(value).and_then(|form| form.shape).unwrap_or_default()
}

/// Returns whether two values have the same type and shape.
pub(crate) fn has_same_shape(a: &HostValue, b: &HostValue) -> bool {
    ValueShape::for_value(a).is_some_and(|form| ValueShape::for_value(b) == Some(form))
}
