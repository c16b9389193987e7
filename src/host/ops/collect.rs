//! Scatter-add, the transpose of indexing by arrays. Input: elements, and an index for each of them. Output: an array
//! in which each element is the sum of the input elements with its index. Sums are computed in `f64`, in the order of
//! the input, and rounded once, so that results on a GPU and on the host are bit-identical.

use super::gather::{self, GatherIndex};
use super::operand;
use crate::array::Array;
use crate::graph::{self, ExecContext};
use crate::ops;
use crate::problem::HostResult;
use crate::value::HostValue;
use clk_base::{alloc, stop};
use clk_scalar::Scalar;
use clk_scalar::ops::BinaryOp;

/// Creates zeros of this shape, and adds the elements of an array of floats at these positions.
pub(crate) fn scatter_add(
    exec: &ExecContext,
    x: &HostValue,
    picks: &[GatherIndex],
    shape: &[usize],
) -> HostResult<HostValue> {
    let from = operand::array(x, "a selection")?;
    if let (Some(own), 1, Some(chosen)) =
        (from.scalar(), from.element().lanes(), one_hot_selection(exec, picks, shape)?)
    {
        let (zero, rows) = (HostValue::Scalar(clk_scalar::ScalarValue::zero(own)), from.with_shape(&[shape[0], 1])?);
        // A sum that starts at 0 is never -0; adding zero has the same effect.
        let rows = ops::binary(exec, BinaryOp::Add, &HostValue::Array(rows), &zero)?;
        return ops::select(exec, &HostValue::Array(chosen), &rows, &zero);
    }
    let mut result = Array::unplaced(from.element().clone(), shape)?;
    if let Some((whole, lists)) = gather::device_positions(exec, from, &result, picks)? {
        let lists: Vec<&Array> = lists.iter().collect();
        if let Some(sums) = graph::scatter::scatter_add(exec, &whole, &lists, from)? {
            return sums.with_shape(shape).map(HostValue::Array);
        }
    }
    let count = result.count();
    let places: Vec<i64> = alloc::collect(count, 0..count as i64);
    let places = Array::from_shaped(&places, shape)?;
    let at = gather::gather(exec, &HostValue::Array(places), picks)?;
    let at = operand::array(&at, "a selection")?;
    let (scalar, lanes) = (from.scalar().unwrap_or(Scalar::F64), from.element().lanes());
    let mut sums = alloc::zeros::<f64>(count * lanes);
    let mut numbers = from
        .bytes()?
        .chunks_exact(scalar.size())
        .map(|bytes| clk_scalar::ScalarValue::from_bytes(scalar, bytes).as_f64());
    for &place in stop::polled(at.items::<i64>()?) {
        for lane in 0..lanes {
            if let (Some(sum), Some(more)) = (sums.get_mut(place as usize * lanes + lane), numbers.next()) {
                *sum += more;
            }
        }
    }
    for (place, sum) in stop::polled(result.bytes_mut()?.chunks_exact_mut(scalar.size()).zip(sums)) {
        let bits = clk_scalar::ScalarValue::of(sum).to_type(scalar).bits;
        place.copy_from_slice(&bits.to_le_bytes()[..scalar.size()]);
    }
    Ok(HostValue::Array(result))
}

/// If the indices select one element of each row of a matrix, in the order of the rows, returns the mask of these
/// elements; otherwise `None`. The mask is fused into the expression that reads it, so that the scatter needs no sort
/// and no writes.
pub(crate) fn one_hot_selection(
    exec: &ExecContext,
    picks: &[GatherIndex],
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let ([GatherIndex::Array(rows), GatherIndex::Array(at)], &[count, columns]) = (picks, shape) else {
        return Ok(None);
    };
    let is_list = at.scalar().is_some_and(Scalar::is_int) && at.element().lanes() == 1;
    if !is_list || !rows.is_iota() || rows.shape() != [count] || at.shape() != [count] {
        return Ok(None);
    }
    graph::one_hot_mask(exec, at, columns)
}
