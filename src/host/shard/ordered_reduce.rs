//! Reductions across the sharded axis whose result depends on the order: sums, means, products, minima and maxima of
//! floats.
//!
//! Input: a sharded array and a reduction. Output: the array of results, bit-identical to the reduction of the whole
//! array. The first round of [`graph::reduce`](mod@graph::reduce) has `m` results; result `j` combines the elements
//! `j`, `j + m`, `j + 2m`, … in this order. Each shard has a contiguous range of the elements. It continues the `m`
//! partial results of the previous shard, and passes them to the next one. For `f32`, the partial results are only 1/32
//! of the size of the array. All further rounds combine the `m` results.

use std::ops::Range;

use crate::array::{Array, ElementType, MAX_EXTENT};
use crate::graph::{self, ElementwiseOp, ExecContext, NodeOperand, ReductionOp, ReductionShape};
use crate::problem::HostResult;
use crate::shard::sharded::{Sharded, slice_rows, write_rows};
use clk_scalar::Scalar;

/// A range of a round's partial results, and their values after the shards processed so far.
type RoundResult = (Range<usize>, Array);

/// Reduces along these axes, which include the sharded axis. `None` if shards are not contiguous ranges of the elements
/// in the order of reduction.
pub(crate) fn reduce_across_cut(
    exec: &ExecContext,
    sharded: &Sharded,
    fold: &ReductionOp,
    axes: &[usize],
) -> HostResult<Option<Array>> {
    let (layout, shape) = (sharded.layout(), sharded.shape());
    let Some((&start, &last)) = axes.first().zip(axes.last()) else { return Ok(None) };
    let product = |part: &[usize]| part.iter().product::<usize>();
    let adjacent = axes.len() == last + 1 - start;
    let (inner, row) = (product(&shape[last + 1..]), product(&shape[layout.axis + 1..=last]));
    let len = layout.len().saturating_mul(row);
    let is_plain = matches!(sharded.element(), ElementType::Scalar(_));
    if !adjacent || start > layout.axis || product(&shape[..layout.axis]) != 1 || !is_plain {
        return Ok(None);
    }
    if len == 0 || inner == 0 || len > MAX_EXTENT {
        return Ok(None);
    }
    let results = graph::round_results(len);
    let mut pieces: Vec<RoundResult> = vec![];
    let mut last_context = None;
    for (part, own) in sharded.own_parts()?.iter().enumerate() {
        let range = layout.owned_rows(part).start * row..layout.owned_rows(part).end * row;
        if range.is_empty() {
            continue;
        }
        let exec = exec.on(&sharded.team().contexts[part]);
        pieces = continue_round(&exec, pieces, &own.with_shape(&[range.len(), inner])?, range, results, fold)?;
        last_context = Some(exec);
    }
    let Some(exec) = &last_context else { return Ok(None) };
    let whole = match <[RoundResult; 1]>::try_from(pieces) {
        Ok([(_, whole)]) => whole,
        Err(pieces) => {
            let mut whole = Array::unplaced(ElementType::Scalar(fold.accumulator), &[results, inner])?;
            for (range, piece) in &pieces {
                write_rows(exec, &mut whole, 0, range.start, piece)?;
            }
            whole
        }
    };
    graph::reduce(exec, fold, &whole, &[results, inner], &[1, 2], ReductionShape { outer: 1, len: results, inner })
}

/// Continues the partial results with the elements of a shard. These are the range `range` of all elements.
fn continue_round(
    exec: &ExecContext,
    before: Vec<RoundResult>,
    part: &Array,
    range: Range<usize>,
    results: usize,
    fold: &ReductionOp,
) -> HostResult<Vec<RoundResult>> {
    let mut bounds: Vec<usize> = before.iter().flat_map(|(of, _)| [of.start, of.end]).collect();
    bounds.extend([0, range.start % results, range.end % results, results]);
    bounds.sort_unstable();
    bounds.dedup();
    let mut pieces = vec![];
    for pair in bounds.windows(2) {
        let of = pair[0]..pair[1];
        let previous = before.iter().find(|(previous, _)| previous.start <= of.start && of.end <= previous.end);
        let mut sum = match previous {
            Some((previous, piece)) => {
                Some(slice_rows(exec, piece, 0, of.start - previous.start..of.end - previous.start)?)
            }
            None => None,
        };
        for strip in range.start / results..range.end.div_ceil(results) {
            let (from, to) = (strip * results + of.start, strip * results + of.end);
            if from < range.start || to > range.end {
                continue;
            }
            let next =
                convert_to(exec, slice_rows(exec, part, 0, from - range.start..to - range.start)?, fold.accumulator)?;
            sum = Some(match sum {
                Some(sum) => apply_op(exec, fold.combine, vec![sum, next], fold.accumulator)?,
                None => next,
            });
        }
        if let Some(sum) = sum {
            // The sum is computed now, so that it runs on the device of this shard.
            sum.storage()?;
            pieces.push((of, sum));
        }
    }
    Ok(pieces)
}

fn convert_to(exec: &ExecContext, array: Array, wide: Scalar) -> HostResult<Array> {
    if array.scalar() == Some(wide) {
        Ok(array)
    } else {
        apply_op(exec, ElementwiseOp::Convert(wide), vec![array], wide)
    }
}

fn apply_op(exec: &ExecContext, op: ElementwiseOp, arrays: Vec<Array>, scalar: Scalar) -> HostResult<Array> {
    let shape = arrays.first().map(|array| array.shape().to_vec()).unwrap_or_default();
    let operands = arrays.into_iter().map(|array| NodeOperand::Array(array, shape.clone())).collect();
    graph::defer(exec, op, operands, scalar, ElementType::Scalar(scalar), &shape)
}
