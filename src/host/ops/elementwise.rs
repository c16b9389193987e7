//! Elementwise operations: checked here, computed at once for single values, and otherwise by the graph of array expressions.

use crate::host::graph::{self, Op, Operand};
use crate::host::ops::operand::Operands;
use crate::host::problem::{Outcome, Problem};
use crate::host::shard::lift;
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar};

/// The operands of a function in messages.
pub(crate) const ARGUMENTS: [&str; 3] = ["the first argument", "the second argument", "the third argument"];

/// Applies an operation to each element of its operands with broadcasting. `names` name the operands in messages, `undefined` is the
/// error for types that the operation does not take.
pub(crate) fn apply(op: Op, operands: Operands, names: &[&str], undefined: impl FnOnce() -> Problem) -> Outcome<Value> {
    let types: Vec<Scalar> = operands.list.iter().filter_map(Operand::scalar).collect();
    let Some(scalar) = op.result(&types) else { return Err(undefined()) };
    if let Some(values) = plain(&operands) {
        return op.apply(&values).map(Value::Scalar).map_err(graph::failed);
    }
    let shape = operands.shape(names)?;
    let (element, is_plain) = (operands.element(scalar), operands.plain);
    let result = match lift::each(op, &operands.list, scalar, &element, &shape)? {
        Some(lifted) => lifted,
        None => graph::defer(op, operands.list, scalar, element, &shape)?,
    };
    Ok(match is_plain {
        true => result.item(0)?.unwrap_or(Value::Unit),
        false => Value::Array(result),
    })
}

/// Returns the operands if all are scalars.
fn plain(operands: &Operands) -> Option<Vec<scalar::Value>> {
    let scalar = |operand: &Operand| match operand {
        Operand::Scalar(value) => Some(*value),
        Operand::Array(..) => None,
    };
    operands.list.iter().map(scalar).collect()
}
