//! Vector-Jacobian products (VJPs): the reverse-mode rules, which turn the cotangent of a result into contributions to
//! the operands' cotangents.

use super::apply::{apply, keep_reduced_axes, partial, reshape};
use super::tape::{TapeNode, not_differentiable};
use super::tape_op::TapeOp;
use super::value_shape::ValueShape;
use crate::array::{Array, SliceSpec};
use crate::graph::ExecContext;
use crate::ops::{self, GatherIndex, ReduceKind};
use crate::problem::HostResult;
use crate::value::HostValue;
use clk_base::alloc;
use clk_scalar::Scalar;
use clk_scalar::derivative::Partial;
use clk_scalar::ops::{BinaryOp, UnaryOp};

/// A contribution to the cotangent of an operand.
pub(super) enum Cotangent {
    Whole(HostValue),
    /// The cotangent of the elements at an index. The cotangent of all other elements is zero.
    At(Vec<SliceSpec>, HostValue),
}

/// Returns the contributions to the cotangents of traced operands, with the positions of the operands. The adjoint
/// broadcasts to the shape of the result. `used` marks the elements of the result that are used; `None` if all are.
pub(super) fn vjp(
    exec: &ExecContext,
    op: &TapeOp,
    step: &TapeNode,
    adjoint: HostValue,
    used: Option<&HostValue>,
) -> HostResult<Vec<(usize, Cotangent)>> {
    match op {
        TapeOp::Binary(BinaryOp::MatMul) => matmul_vjp(exec, step, step.shape.broadcast(exec, adjoint)?),
        TapeOp::Unary(_) | TapeOp::Binary(_) | TapeOp::Math(_) => elementwise_vjp(exec, op, step, &adjoint, used),
        TapeOp::Select => select_vjp(exec, step, &adjoint),
        TapeOp::Convert(_) => single_cotangent(step, |form| apply(exec, &TapeOp::Convert(form.scalar), vec![adjoint])),
        TapeOp::Reduce(how, axes) => {
            single_cotangent(step, |form| reduction_vjp(exec, op, step, form, adjoint, *how, axes.as_deref()))
        }
        _ => rearrangement_vjp(exec, op, step, step.shape.broadcast(exec, adjoint)?),
    }
}

/// Returns the contribution to the cotangent of the only operand.
fn single_cotangent(
    step: &TapeNode,
    part: impl FnOnce(&ValueShape) -> HostResult<HostValue>,
) -> HostResult<Vec<(usize, Cotangent)>> {
    match step.operands.first().and_then(|operand| operand.shape.as_ref()) {
        Some(form) => Ok(vec![(0, Cotangent::Whole(part(form)?))]),
        None => Err(not_differentiable("its operand is no float")),
    }
}

/// Returns the saved operands and result. Values that the derivative does not need are replaced by `()`.
fn saved_values(step: &TapeNode) -> (Vec<HostValue>, HostValue) {
    let args = step.operands.iter().map(|operand| operand.value.clone().unwrap_or(HostValue::Unit)).collect();
    (args, step.result.clone().unwrap_or(HostValue::Unit))
}

fn elementwise_vjp(
    exec: &ExecContext,
    op: &TapeOp,
    step: &TapeNode,
    adjoint: &HostValue,
    used: Option<&HostValue>,
) -> HostResult<Vec<(usize, Cotangent)>> {
    let (args, result) = saved_values(step);
    let mut parts = vec![];
    for (position, operand) in step.operands.iter().enumerate() {
        let (Some(_), Some(form)) = (operand.node, &operand.shape) else { continue };
        let weighted = match partial(exec, op, &args, &result, position)? {
            Partial::Zero => continue,
            Partial::One => adjoint.clone(),
            Partial::MinusOne => apply(exec, &TapeOp::Unary(UnaryOp::Neg), vec![adjoint.clone()])?,
            Partial::Times(factor) => {
                let product = apply(exec, &TapeOp::Binary(BinaryOp::Mul), vec![factor, adjoint.clone()])?;
                match used {
                    // Zero is selected for unused elements, because the factor may be infinite there.
                    Some(used) => apply(exec, &TapeOp::Select, vec![used.clone(), product, step.shape.number(0.0)])?,
                    None => product,
                }
            }
        };
        parts.push((position, Cotangent::Whole(form.unbroadcast(exec, weighted, &step.shape)?)));
    }
    Ok(parts)
}

fn select_vjp(exec: &ExecContext, step: &TapeNode, adjoint: &HostValue) -> HostResult<Vec<(usize, Cotangent)>> {
    let Some(cond) = step.operands.first().and_then(|operand| operand.value.clone()) else { return Ok(vec![]) };
    let zero = step.shape.number(0.0);
    let adjoint = step.shape.broadcast(exec, adjoint.clone())?;
    let mut parts = vec![];
    for (position, operand) in step.operands.iter().enumerate().skip(1) {
        let (Some(_), Some(form)) = (operand.node, &operand.shape) else { continue };
        let sides = if position == 1 { [adjoint.clone(), zero.clone()] } else { [zero.clone(), adjoint.clone()] };
        let [then, other] = sides;
        let part = apply(exec, &TapeOp::Select, vec![cond.clone(), then, other])?;
        parts.push((position, Cotangent::Whole(form.unbroadcast(exec, part, &step.shape)?)));
    }
    Ok(parts)
}

fn reduction_vjp(
    exec: &ExecContext,
    op: &TapeOp,
    step: &TapeNode,
    form: &ValueShape,
    adjoint: HostValue,
    how: ReduceKind,
    axes: Option<&[i64]>,
) -> HostResult<HostValue> {
    let adjoint = keep_reduced_axes(exec, form, step.shape.broadcast(exec, adjoint)?, axes)?;
    match how {
        ReduceKind::Sum => Ok(adjoint),
        ReduceKind::Mean => {
            let count: usize = form.shape().iter().product();
            let left: usize = step.shape.shape().iter().product();
            let share = form.number(left as f64 / count.max(1) as f64);
            apply(exec, &TapeOp::Binary(BinaryOp::Mul), vec![adjoint, share])
        }
        _ => {
            let (args, result) = saved_values(step);
            match partial(exec, op, &args, &result, 0)? {
                Partial::Times(factor) => apply(exec, &TapeOp::Binary(BinaryOp::Mul), vec![factor, adjoint]),
                _ => Err(not_differentiable("this has no derivative")),
            }
        }
    }
}

/// Returns the VJP of an operation that only moves elements, which is its transpose.
fn rearrangement_vjp(
    exec: &ExecContext,
    op: &TapeOp,
    step: &TapeNode,
    adjoint: HostValue,
) -> HostResult<Vec<(usize, Cotangent)>> {
    match op {
        TapeOp::Cumsum(axis) => single_cotangent(step, |_| {
            let turn = TapeOp::Flip(axis.unwrap_or(0));
            let turned = apply(exec, &turn, vec![adjoint])?;
            let sums = apply(exec, &TapeOp::Cumsum(*axis), vec![turned])?;
            apply(exec, &turn, vec![sums])
        }),
        TapeOp::Reshape(_) => single_cotangent(step, |form| reshape(exec, adjoint, form.shape())),
        TapeOp::Flip(_) => single_cotangent(step, |_| apply(exec, op, vec![adjoint])),
        TapeOp::Permute(order) => {
            single_cotangent(step, |_| apply(exec, &TapeOp::Permute(ops::inverse_order(order)), vec![adjoint]))
        }
        TapeOp::Full(_) => single_cotangent(step, |form| form.unbroadcast(exec, adjoint, &step.shape)),
        TapeOp::Index(specs) => Ok(vec![(0, Cotangent::At(specs.clone(), adjoint))]),
        TapeOp::PadSlice(specs, _) => {
            single_cotangent(step, |_| apply(exec, &TapeOp::Index(specs.clone()), vec![adjoint]))
        }
        TapeOp::Gather(picks) => single_cotangent(step, |form| {
            apply(exec, &TapeOp::ScatterAdd(picks.clone(), form.shape().to_vec()), vec![adjoint])
        }),
        TapeOp::ScatterAdd(picks, _) => {
            single_cotangent(step, |_| apply(exec, &TapeOp::Gather(picks.clone()), vec![adjoint]))
        }
        TapeOp::Swizzle(lanes) => single_cotangent(step, |form| swizzle_vjp(exec, form, lanes, &adjoint)),
        TapeOp::Compose(..) => compose_vjp(exec, step, &adjoint),
        TapeOp::Concat(axis) => concat_vjp(exec, step, *axis, &adjoint),
        TapeOp::Stack | TapeOp::Literal => {
            let row = |(position, _)| {
                let at = TapeOp::Index(vec![SliceSpec::At(position as i64)]);
                apply(exec, &at, vec![adjoint.clone()]).map(|part| (position, Cotangent::Whole(part)))
            };
            step.operands.iter().enumerate().filter(|(_, operand)| operand.node.is_some()).map(row).collect()
        }
        TapeOp::Write(specs) => {
            write_vjp(exec, step, adjoint, &TapeOp::Index(specs.clone()), &TapeOp::Write(specs.clone()))
        }
        TapeOp::Scatter(picks) => scatter_vjp(exec, step, adjoint, picks),
        TapeOp::SetLanes(lanes) => write_vjp(exec, step, adjoint, &TapeOp::Swizzle(lanes.clone()), op),
        _ => Err(not_differentiable("this has no derivative")),
    }
}

/// Returns the VJP of a write to a slice: the cotangent of overwritten elements is zero; the cotangent of the written
/// value is that of the slice.
fn write_vjp(
    exec: &ExecContext,
    step: &TapeNode,
    adjoint: HostValue,
    read: &TapeOp,
    write: &TapeOp,
) -> HostResult<Vec<(usize, Cotangent)>> {
    let mut parts = vec![];
    let [old, new] = &step.operands[..] else { return Ok(parts) };
    if let (Some(_), Some(form)) = (new.node, &new.shape) {
        let part = apply(exec, read, vec![adjoint.clone()])?;
        let whole = ValueShape::for_value(&part).ok_or_else(|| not_differentiable("its operand is no float"))?;
        parts.push((1, Cotangent::Whole(form.unbroadcast(exec, part, &whole)?)));
    }
    if old.node.is_some() {
        let lanes = if let TapeOp::SetLanes(lanes) = write { lanes.len() } else { step.shape.lanes };
        let zero = ValueShape { lanes, ..step.shape.clone() }.number(0.0);
        parts.push((0, Cotangent::Whole(apply(exec, write, vec![adjoint, zero])?)));
    }
    Ok(parts)
}

/// Returns the VJP of a scatter. If several values are written to one element, only the last one gets its cotangent.
fn scatter_vjp(
    exec: &ExecContext,
    step: &TapeNode,
    adjoint: HostValue,
    picks: &[GatherIndex],
) -> HostResult<Vec<(usize, Cotangent)>> {
    let read = TapeOp::Gather(picks.to_vec());
    let mut parts = write_vjp(exec, step, adjoint, &read, &TapeOp::Scatter(picks.to_vec()))?;
    let Some(new) = step.operands.get(1).filter(|operand| operand.node.is_some()) else { return Ok(parts) };
    let Some(form) = &new.shape else { return Ok(parts) };
    let mut last_writer = Array::zeros(Scalar::I64, step.shape.shape())?;
    let HostValue::Array(selection) = ops::gather(exec, &HostValue::Array(last_writer.clone()), picks)? else {
        return Ok(parts);
    };
    let order: Vec<i64> = alloc::collect(selection.count(), 0..selection.count() as i64);
    let order = HostValue::Array(Array::from_shaped(&order, selection.shape())?);
    ops::scatter(exec, &mut last_writer, picks, &order)?;
    let stayed = ops::binary(exec, BinaryOp::Eq, &ops::gather(exec, &HostValue::Array(last_writer), picks)?, &order)?;
    for (position, part) in &mut parts {
        let (1, Cotangent::Whole(value)) = (*position, &mut *part) else { continue };
        let all = ValueShape { shape: Some(selection.shape().to_vec()), ..form.clone() };
        let same = form.shape() == all.shape();
        if !same && !ops::reduce(exec, ReduceKind::All, &stayed, None)?.as_bool().unwrap_or(false) {
            return Err(not_differentiable(
                "one value is written to several elements, and some of them more than once",
            ));
        }
        if same {
            *value = apply(exec, &TapeOp::Select, vec![stayed.clone(), value.clone(), form.number(0.0)])?;
        }
    }
    Ok(parts)
}

/// Returns the VJP of a swizzle: the cotangent of components that were not selected is zero.
fn swizzle_vjp(exec: &ExecContext, form: &ValueShape, lanes: &[u8], adjoint: &HostValue) -> HostResult<HostValue> {
    let zero = ValueShape { lanes: 1, ..form.clone() }.zeros()?;
    let mut parts: Vec<HostValue> = vec![zero; form.lanes];
    for (from, &to) in lanes.iter().enumerate() {
        let part = match lanes.len() {
            1 => adjoint.clone(),
            _ => apply(exec, &TapeOp::Swizzle(vec![from as u8]), vec![adjoint.clone()])?,
        };
        if let Some(place) = parts.get_mut(usize::from(to)) {
            *place = apply(exec, &TapeOp::Binary(BinaryOp::Add), vec![place.clone(), part])?;
        }
    }
    if form.shape.is_none() {
        return apply(exec, &TapeOp::Compose(form.scalar, form.lanes as u8), parts);
    }
    let mut whole = form.zeros()?;
    for (lane, part) in parts.into_iter().enumerate() {
        whole = apply(exec, &TapeOp::SetLanes(vec![lane as u8]), vec![whole, part])?;
    }
    Ok(whole)
}

fn compose_vjp(exec: &ExecContext, step: &TapeNode, adjoint: &HostValue) -> HostResult<Vec<(usize, Cotangent)>> {
    let (mut parts, mut lane) = (vec![], 0);
    let spread =
        step.operands.len() == 1 && step.operands.iter().all(|o| o.shape.as_ref().is_none_or(|f| f.lanes == 1));
    for (position, operand) in step.operands.iter().enumerate() {
        let count = operand.shape.as_ref().map_or(1, |form| form.lanes);
        if let (Some(_), Some(form)) = (operand.node, &operand.shape) {
            let part = match spread {
                true => form.unbroadcast(exec, adjoint.clone(), &step.shape)?,
                false => apply(
                    exec,
                    &TapeOp::Swizzle((lane..lane + count).map(|k| k as u8).collect()),
                    vec![adjoint.clone()],
                )?,
            };
            parts.push((position, Cotangent::Whole(part)));
        }
        lane += count;
    }
    Ok(parts)
}

fn concat_vjp(
    exec: &ExecContext,
    step: &TapeNode,
    axis: i64,
    adjoint: &HostValue,
) -> HostResult<Vec<(usize, Cotangent)>> {
    let axis = ops::operand::axis(axis, step.shape.shape().len(), "`concat`")?;
    let (mut parts, mut start) = (vec![], 0);
    for (position, operand) in step.operands.iter().enumerate() {
        let extent = operand.shape.as_ref().and_then(|form| form.shape().get(axis).copied()).unwrap_or(0) as i64;
        if operand.node.is_some() {
            let mut specs = vec![SliceSpec::ALL; axis];
            let (from, to) = (Some(start), Some(start + extent));
            specs.push(SliceSpec::Range { start: from, end: to, inclusive: false, step: None });
            parts.push((position, Cotangent::Whole(apply(exec, &TapeOp::Index(specs), vec![adjoint.clone()])?)));
        }
        start += extent;
    }
    Ok(parts)
}

/// Returns the cotangents of the factors of `a @ b`. They are matrix products too, or outer products of vectors.
fn matmul_vjp(exec: &ExecContext, step: &TapeNode, adjoint: HostValue) -> HostResult<Vec<(usize, Cotangent)>> {
    let [a, b] = &step.operands[..] else { return Ok(vec![]) };
    let (Some(form_a), Some(form_b)) = (&a.shape, &b.shape) else { return Ok(vec![]) };
    let (rank_a, rank_b) = (form_a.shape().len(), form_b.shape().len());
    // A vector is treated as a matrix with one row on the left side, and as one with one column on the right side.
    let as_matrix = |shape: &[usize], at: usize| {
        let mut shape = shape.to_vec();
        shape.insert(at, 1);
        shape
    };
    let whole_a = if rank_a == 1 { as_matrix(form_a.shape(), 0) } else { form_a.shape().to_vec() };
    let whole_b = if rank_b == 1 { as_matrix(form_b.shape(), 1) } else { form_b.shape().to_vec() };
    let mut shape = step.shape.shape().to_vec();
    if rank_b == 1 {
        shape.push(1);
    }
    if rank_a == 1 {
        shape.insert(shape.len() - 1, 1);
    }
    let adjoint = reshape(exec, adjoint, &shape)?;
    let mut parts = vec![];
    for (position, (own, form, whole)) in [(a, form_a, &whole_a), (b, form_b, &whole_b)].into_iter().enumerate() {
        let other = if position == 0 { (b, &whole_b) } else { (a, &whole_a) };
        let (Some(_), Some(value)) = (own.node, &other.0.value) else { continue };
        let (rank, matrix) = (other.1.len(), reshape(exec, value.clone(), other.1)?);
        let swap = TapeOp::Permute(ops::moved_axis(rank, rank - 1, rank - 2));
        let turned = apply(exec, &swap, vec![matrix])?;
        let factors = if position == 0 { vec![adjoint.clone(), turned] } else { vec![turned, adjoint.clone()] };
        let part = apply(exec, &TapeOp::Binary(BinaryOp::MatMul), factors)?;
        let part_shape = ValueShape::for_value(&part).ok_or_else(|| not_differentiable("its operand is no float"))?;
        let part = ValueShape { shape: Some(whole.clone()), ..form.clone() }.unbroadcast(exec, part, &part_shape)?;
        parts.push((position, Cotangent::Whole(reshape(exec, part, form.shape())?)));
    }
    Ok(parts)
}

impl ValueShape {
    /// Transpose of broadcasting: sums a cotangent of the shape `whole` to this shape, the shape of the operand before
    /// broadcasting.
    pub fn unbroadcast(&self, exec: &ExecContext, value: HostValue, whole: &ValueShape) -> HostResult<HostValue> {
        if self.shape() == whole.shape() && self.shape.is_some() == whole.shape.is_some() && self.lanes == whole.lanes {
            return Ok(value);
        }
        let mut value = whole.broadcast(exec, value)?;
        if self.lanes < whole.lanes {
            value = sum_of_lanes(exec, &value, whole.lanes)?;
        }
        let (own, all) = (self.shape(), whole.shape());
        let leading = all.len() - own.len();
        let repeats = |axis: usize| axis < leading || own[axis - leading] != all[axis];
        let axes: Vec<i64> = (0..all.len()).filter(|&axis| repeats(axis)).map(|axis| axis as i64).collect();
        if !axes.is_empty() {
            value = apply(exec, &TapeOp::Reduce(ReduceKind::Sum, Some(axes)), vec![value])?;
        }
        match &self.shape {
            Some(shape) => reshape(exec, value, shape),
            None => Ok(value),
        }
    }
}

fn sum_of_lanes(exec: &ExecContext, value: &HostValue, lanes: usize) -> HostResult<HostValue> {
    let mut sum: Option<HostValue> = None;
    for lane in 0..lanes {
        let part = apply(exec, &TapeOp::Swizzle(vec![lane as u8]), vec![value.clone()])?;
        sum = Some(match sum {
            None => part,
            Some(sum) => apply(exec, &TapeOp::Binary(BinaryOp::Add), vec![sum, part])?,
        });
    }
    Ok(sum.unwrap_or(HostValue::Unit))
}
