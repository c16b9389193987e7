//! Elementwise operations: checks the operands, computes operations on single values immediately, and defers operations
//! on arrays.

use crate::graph::{self, ElementwiseOp, ExecContext, NodeOperand};
use crate::ops::operand::ScalarOperands;
use crate::problem::{HostResult, RuntimeError};
use crate::shard::lift;
use crate::value::HostValue;
use clk_scalar::Scalar;

/// The names of a function's operands in messages.
pub(crate) const ARGUMENTS: [&str; 3] = ["the first argument", "the second argument", "the third argument"];

/// Applies an operation to each element of its operands, with broadcasting. `names` are the names of the operands in
/// messages, and `undefined` creates the error for types that the operation does not accept.
pub(crate) fn apply(
    exec: &ExecContext,
    op: ElementwiseOp,
    operands: ScalarOperands,
    names: &[&str],
    undefined: impl FnOnce() -> RuntimeError,
) -> HostResult<HostValue> {
    let types: Vec<Scalar> = operands.list.iter().filter_map(NodeOperand::scalar).collect();
    let Some(scalar) = op.result_type(&types) else { return Err(undefined()) };
    if let Some(values) = plain(&operands) {
        return op.apply(&values).map(HostValue::Scalar).map_err(graph::scalar_error);
    }
    let shape = operands.shape(names)?;
    let (element, is_plain) = (operands.element(scalar), operands.plain);
    let result = match lift::lift_elementwise(exec, op, &operands.list, scalar, &element, &shape)? {
        Some(lifted) => lifted,
        None => graph::defer(exec, op, operands.list, scalar, element, &shape)?,
    };
    Ok(match is_plain {
        true => result.item(0)?.unwrap_or(HostValue::Unit),
        false => HostValue::Array(result),
    })
}

/// Returns the operands as scalars; `None` if one of them is an array.
fn plain(operands: &ScalarOperands) -> Option<Vec<clk_scalar::ScalarValue>> {
    let scalar = |operand: &NodeOperand| match operand {
        NodeOperand::Scalar(value) => Some(*value),
        NodeOperand::Array(..) => None,
    };
    operands.list.iter().map(scalar).collect()
}
