//! Calls of functions with a custom VJP. A call is recorded as a single node of the tape; in the reverse sweep, the
//! interpreter evaluates its VJP.

use std::sync::Arc;

use super::tape::{GradTape, TapeNode, TapeOperand};
use super::tape_op::{CustomVjpCall, TapeOp};
use super::trace_value::{split_link, trace, wrap_leaves};
use super::value_shape::ValueShape;
use crate::problem::HostResult;
use crate::value::{GradLink, HostValue};
use clk_scalar::Scalar;

/// Records a call on the tape of a differentiation level. The operands are the floats, vectors and arrays in the
/// arguments. Each float, vector or array in the result becomes a node.
pub(crate) fn record_call(
    tape: &Arc<GradTape>,
    level: u32,
    ruled: CustomVjpCall,
    operands: &[HostValue],
    result: HostValue,
) -> HostResult<HostValue> {
    let operand = |value: &HostValue| {
        let (value, link) = split_link(value, level);
        TapeOperand { node: link.as_ref().and_then(GradLink::node), value: None, shape: ValueShape::for_value(&value) }
    };
    let operands = operands.iter().map(operand).collect();
    let form = ValueShape { shape: Some(vec![ruled.results]), scalar: Scalar::F64, lanes: 1 };
    tape.push(TapeNode { op: Some(TapeOp::CustomVjp(ruled)), operands, result: None, shape: form });
    wrap_leaves(result, &mut |leaf| tape.leaf(leaf, level).map(|(value, _)| value))
}

/// Returns the tape that contains values which are traced in reverse mode at a differentiation level; `None` if there
/// are none.
pub(crate) fn tape_of(values: &[HostValue], level: u32) -> Option<Arc<GradTape>> {
    GradTape::for_links(&values.iter().map(|value| split_link(value, level).1).collect::<Vec<_>>())
}

/// Attaches tangents to the floats, vectors and arrays in a value, in order.
pub(crate) fn with_tangents(value: HostValue, tangents: Vec<HostValue>, level: u32) -> HostResult<HostValue> {
    let mut tangents = tangents.into_iter();
    wrap_leaves(value, &mut |leaf| {
        Ok(trace(leaf, level, GradLink::Tangent(tangents.next().unwrap_or(HostValue::Unit))))
    })
}
