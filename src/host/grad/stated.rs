//! Calls of functions whose derivative a rule states: steps of a tape, which the interpreter goes back over.

use std::sync::Arc;

use super::deed::{Deed, Ruled};
use super::form::Form;
use super::tape::{Operand, Step, Tape};
use super::wrap::{links, traced, wrapped};
use crate::host::problem::Outcome;
use crate::host::value::{Link, Value};
use crate::lang::scalar::Scalar;

/// Adds a call to the tape of a level: operands are the floats of its arguments, and the result gets nodes.
pub(crate) fn kept(tape: &Arc<Tape>, level: u32, ruled: Ruled, operands: &[Value], result: Value) -> Outcome<Value> {
    let operand = |value: &Value| {
        let (value, link) = links(value, level);
        Operand { node: link.as_ref().and_then(Link::node), value: None, form: Form::of(&value) }
    };
    let operands = operands.iter().map(operand).collect();
    let form = Form { shape: Some(vec![ruled.results]), scalar: Scalar::F64, lanes: 1 };
    tape.add(Step { deed: Some(Deed::Stated(ruled)), operands, result: None, form });
    wrapped(result, &mut |leaf| tape.leaf(leaf, level).map(|(value, _)| value))
}

/// Returns the tape of values linked at a level, if they are nodes.
pub(crate) fn tape_of(values: &[Value], level: u32) -> Option<Arc<Tape>> {
    Tape::of(&values.iter().map(|value| links(value, level).1).collect::<Vec<_>>())
}

/// Returns a value with tangents for each of its floats, vectors and arrays.
pub(crate) fn with_tangents(value: Value, tangents: Vec<Value>, level: u32) -> Outcome<Value> {
    let mut tangents = tangents.into_iter();
    wrapped(value, &mut |leaf| Ok(traced(leaf, level, Link::Tangent(tangents.next().unwrap_or(Value::Unit)))))
}
