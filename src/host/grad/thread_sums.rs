//! Sums over all threads of a launch, which contribute to the adjoints of scalars and of single array elements.
//!
//! Input: an array with the partial sum of each thread. Output: contributions to adjoints. The partial sums are added
//! in `f64`, in the same order as `sum` of an array.

use super::apply::{apply, reshape};
use super::tape::TapeNode;
use super::tape_op::TapeOp;
use super::value_shape::ValueShape;
use super::vjp::Cotangent;
use crate::array::{Array, SliceSpec};
use crate::graph::ExecContext;
use crate::ops::{GatherIndex, ReduceKind};
use crate::problem::HostResult;
use crate::value::HostValue;

/// Maximum number of threads of a launch that computes partial sums.
const MAX_THREADS: usize = 1 << 17;
/// Maximum extent of the last axis of such a launch if it has several axes.
const MAX_LAST_AXIS: usize = 1 << 12;

/// Returns the extents of the launch that computes partial sums for a launch with the extents `launch`. The returned
/// extents determine the order of additions.
pub(super) fn sum_extents(launch: &[usize]) -> Vec<usize> {
    let mut left = MAX_THREADS;
    let mut extents = vec![];
    for (axis, &len) in launch.iter().enumerate().rev() {
        let is_last_of_several = axis > 0 && axis + 1 == launch.len();
        let own = len.min(if is_last_of_several { MAX_LAST_AXIS } else { left });
        left /= own.max(1);
        extents.push(own);
    }
    extents.reverse();
    extents
}

/// Returns the contributions to the operands' cotangents. For each row of the sums, `of` has the operand and the
/// indices of the element to which the row contributes.
pub(super) fn sum_cotangents(
    exec: &ExecContext,
    step: &TapeNode,
    of: &[(usize, Vec<u32>)],
    sums: HostValue,
) -> HostResult<Vec<(usize, Cotangent)>> {
    let axes = ValueShape::for_value(&sums).map_or(0, |form| form.shape().len()) as i64;
    let totals = apply(exec, &TapeOp::Reduce(ReduceKind::Sum, Some((1..axes).collect())), vec![sums])?;
    let mut params: Vec<usize> = of.iter().map(|(param, _)| *param).collect();
    params.dedup();
    let mut parts = vec![];
    for param in params {
        let operand = &step.operands[param];
        let (Some(_), Some(form)) = (operand.node, &operand.shape) else { continue };
        let own: Vec<(i64, usize)> = of
            .iter()
            .zip(0..)
            .filter(|((own, _), _)| *own == param)
            .filter_map(|((_, at), row)| Some((row, flat_position(form, at)?)))
            .collect();
        parts.push((param, Cotangent::Whole(sum_adjoint(exec, form, &totals, &own)?)));
    }
    Ok(parts)
}

/// Returns the row-major position of an element, or of a vector's component. `None` if it is out of bounds; then no
/// thread has added to it.
fn flat_position(form: &ValueShape, at: &[u32]) -> Option<usize> {
    let components = [form.lanes];
    let extents = form.shape.as_deref().unwrap_or(if form.lanes > 1 { &components } else { &[] });
    let same_rank = extents.len() == at.len();
    extents.iter().zip(at).filter(|_| same_rank).try_fold(0, |position, (&extent, &index)| {
        ((index as usize) < extent).then_some(position * extent + index as usize)
    })
}

/// Returns an adjoint of this shape: zeros to which rows of the totals are added. Each entry of `own` is a row and a
/// position.
fn sum_adjoint(
    exec: &ExecContext,
    form: &ValueShape,
    totals: &HostValue,
    own: &[(i64, usize)],
) -> HostResult<HostValue> {
    let list = |items: Vec<i64>| Array::from_items(&items).map(|array| vec![GatherIndex::Array(array)]);
    let rows = apply(exec, &TapeOp::Gather(list(own.iter().map(|(row, _)| *row).collect())?), vec![totals.clone()])?;
    let count = form.shape().iter().product::<usize>() * form.lanes;
    let places = list(own.iter().map(|(_, place)| *place as i64).collect())?;
    let sums = apply(exec, &TapeOp::ScatterAdd(places, vec![count]), vec![rows])?;
    let sums = apply(exec, &TapeOp::Convert(form.scalar), vec![sums])?;
    let component = |at: usize| apply(exec, &TapeOp::Index(vec![SliceSpec::At(at as i64)]), vec![sums.clone()]);
    match (&form.shape, form.lanes) {
        (Some(shape), _) => reshape(exec, sums, shape),
        (None, 1) => component(0),
        (None, lanes) => {
            let parts = (0..lanes).map(component).collect::<HostResult<Vec<HostValue>>>()?;
            apply(exec, &TapeOp::Compose(form.scalar, lanes as u8), parts)
        }
    }
}
