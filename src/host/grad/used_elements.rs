//! Finds the elements of a value on which the result depends. The derivative with respect to all other elements is
//! zero, even if a rule would compute zero times infinity or NaN.
//!
//! Input: an operation and the used elements of its result. Output: a mask of the used elements of an operand; `None`
//! if all may be used. Elements are unused if a `select` does not choose them, if an index does not select them, or if
//! they are overwritten.

use super::tape::TapeNode;
use super::tape_op::TapeOp;
use super::value_shape::ValueShape;
use crate::array::Array;
use crate::graph::ExecContext;
use crate::ops;
use crate::problem::HostResult;
use crate::value::HostValue;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Scalar, ScalarValue as Number};

/// Returns whether the reverse rule of an operation acts elementwise on the cotangent.
fn is_elementwise(op: &TapeOp) -> bool {
    match op {
        TapeOp::Binary(op) => *op != BinaryOp::MatMul,
        TapeOp::Unary(_) | TapeOp::Math(_) | TapeOp::Select | TapeOp::Convert(_) => true,
        _ => false,
    }
}

/// Returns a mask of the elements of an operand that this operation uses. `used` is the mask of its result. `from` is
/// the operation that computes the operand.
fn used_by_step(
    exec: &ExecContext,
    step: &TapeNode,
    position: usize,
    from: Option<&TapeOp>,
    used: Option<&HostValue>,
) -> HostResult<Option<HostValue>> {
    let (Some(op), Some(form)) = (&step.op, &step.operands[position].shape) else { return Ok(None) };
    // The mask is only needed if the operand's own rule multiplies elementwise, which is not the case for parameters.
    if !from.is_some_and(is_elementwise) {
        return Ok(None);
    }
    let is_alike = form.shape == step.shape.shape;
    match op {
        TapeOp::Select if is_alike => {
            let Some(cond) = &step.operands[0].value else { return Ok(None) };
            let chosen = if position == 1 { cond.clone() } else { ops::unary(exec, UnaryOp::Not, cond)? };
            match used {
                Some(used) => ops::binary(exec, BinaryOp::BitAnd, used, &chosen).map(Some),
                None => Ok(Some(chosen)),
            }
        }
        TapeOp::Select => Ok(None),
        op if is_elementwise(op) => Ok(used.filter(|_| is_alike).cloned()),
        TapeOp::Index(_) | TapeOp::Gather(_) => mark_all(exec, form, op, true).map(Some),
        TapeOp::Write(_) | TapeOp::Scatter(_) if position == 0 => mark_all(exec, form, op, false).map(Some),
        _ => Ok(None),
    }
}

/// Adds the elements of an operand that an operation uses to those that other operations use (`all`), if there are any.
pub(super) fn merge_used(
    exec: &ExecContext,
    all: &mut Option<HostValue>,
    has_other_uses: bool,
    step: &TapeNode,
    position: usize,
    from: Option<&TapeOp>,
    used: Option<&HostValue>,
) -> HostResult<()> {
    let old = all.take();
    if has_other_uses && old.is_none() {
        return Ok(());
    }
    *all = match (old, &step.op) {
        // The mask is updated in place, because a loop may select one element after the other.
        (Some(HostValue::Array(mut old)), Some(op @ (TapeOp::Index(_) | TapeOp::Gather(_)))) => {
            mark(exec, &mut old, op, true)?;
            Some(HostValue::Array(old))
        }
        (old, _) => match (old, used_by_step(exec, step, position, from, used)?) {
            (Some(old), Some(new)) => Some(ops::binary(exec, BinaryOp::BitOr, &old, &new)?),
            (None, new) => new,
            (Some(_), None) => None,
        },
    };
    Ok(())
}

fn mark_all(exec: &ExecContext, form: &ValueShape, op: &TapeOp, to: bool) -> HostResult<HostValue> {
    let Some(shape) = &form.shape else { return Ok(HostValue::Scalar(Number::of(true))) };
    if let (TapeOp::Gather(picks), true) = (op, to)
        && let Some(chosen) = ops::one_hot_selection(exec, picks, shape)?
    {
        return Ok(HostValue::Array(chosen));
    }
    let dims: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let HostValue::Array(mut all) = ops::full(&dims, &HostValue::Scalar(Number::of(!to)))? else {
        return Array::zeros(Scalar::Bool, shape).map(HostValue::Array);
    };
    mark(exec, &mut all, op, to)?;
    Ok(HostValue::Array(all))
}

fn mark(exec: &ExecContext, array: &mut Array, op: &TapeOp, to: bool) -> HostResult<()> {
    let to = HostValue::Scalar(Number::of(to));
    match op {
        TapeOp::Index(specs) | TapeOp::Write(specs) => ops::assign(exec, array, specs, &to),
        TapeOp::Gather(picks) | TapeOp::Scatter(picks) => ops::scatter(exec, array, picks, &to),
        _ => Ok(()),
    }
}
