//! Reductions along the cut axis whose order matters: sums, means and products of floats, and their minima and maxima.
//!
//! Input: a sharded array, and how it is folded. Output: the array of results, with the bits of the whole array. Idea: the first round of
//! [`graph::fold`](mod@graph::fold) has `m` results, of which result `j` combines the elements `j`, `j + m`, `j + 2m`, … in this order. Each part has a range of elements, so
//! a part goes on with the results that it gets from the one before, and hands them to the next: what moves is a 32nd of an array of
//! `f32`. All further rounds are of the `m` results alone.

use std::ops::Range;

use crate::host::array::{Array, Element, MAX_EXTENT};
use crate::host::graph::{self, Fold, Op, Operand, Rows};
use crate::host::problem::Outcome;
use crate::host::shard::value::{Sharded, put, rows};
use crate::lang::scalar::Scalar;

/// Results of a round, with the elements so far.
type Piece = (Range<usize>, Array);

/// Folds along these axes, the cut one among them; `None` if parts do not have ranges of the elements of each result.
pub(crate) fn folded(sharded: &Sharded, fold: &Fold, axes: &[usize]) -> Outcome<Option<Array>> {
    let (layout, shape) = (sharded.layout(), sharded.shape());
    let Some((&start, &last)) = axes.first().zip(axes.last()) else { return Ok(None) };
    let product = |part: &[usize]| part.iter().product::<usize>();
    let adjacent = axes.len() == last + 1 - start;
    let (inner, row) = (product(&shape[last + 1..]), product(&shape[layout.axis + 1..=last]));
    let len = layout.len().saturating_mul(row);
    let is_plain = matches!(sharded.element(), Element::Scalar(_));
    if !adjacent || start > layout.axis || product(&shape[..layout.axis]) != 1 || !is_plain {
        return Ok(None);
    }
    if len == 0 || inner == 0 || len > MAX_EXTENT {
        return Ok(None);
    }
    let results = graph::results(len);
    let mut pieces: Vec<Piece> = vec![];
    let mut site = None;
    for (part, own) in sharded.own_parts()?.iter().enumerate() {
        let range = layout.own(part).start * row..layout.own(part).end * row;
        if range.is_empty() {
            continue;
        }
        let at = &sharded.team().sites[part];
        let _at = at.clone().enter();
        site = Some(at);
        pieces = continued(pieces, &own.with_shape(&[range.len(), inner])?, range, results, fold)?;
    }
    let Some(site) = site else { return Ok(None) };
    let _at = site.clone().enter();
    let whole = match <[Piece; 1]>::try_from(pieces) {
        Ok([(_, whole)]) => whole,
        Err(pieces) => {
            let mut whole = Array::unplaced(Element::Scalar(fold.wide), &[results, inner])?;
            for (range, piece) in &pieces {
                put(&mut whole, 0, range.start, piece)?;
            }
            whole
        }
    };
    graph::fold(fold, &whole, &[results, inner], &[1, 2], Rows { outer: 1, len: results, inner })
}

/// Goes on with the results by the elements of a part, `range` of all.
fn continued(
    before: Vec<Piece>,
    part: &Array,
    range: Range<usize>,
    results: usize,
    fold: &Fold,
) -> Outcome<Vec<Piece>> {
    let mut bounds: Vec<usize> = before.iter().flat_map(|(of, _)| [of.start, of.end]).collect();
    bounds.extend([0, range.start % results, range.end % results, results]);
    bounds.sort_unstable();
    bounds.dedup();
    let mut pieces = vec![];
    for pair in bounds.windows(2) {
        let of = pair[0]..pair[1];
        let known = before.iter().find(|(known, _)| known.start <= of.start && of.end <= known.end);
        let mut sum = match known {
            Some((known, piece)) => Some(rows(piece, 0, of.start - known.start..of.end - known.start)?),
            None => None,
        };
        for strip in range.start / results..range.end.div_ceil(results) {
            let (from, to) = (strip * results + of.start, strip * results + of.end);
            if from < range.start || to > range.end {
                continue;
            }
            let next = widened(rows(part, 0, from - range.start..to - range.start)?, fold.wide)?;
            sum = Some(match sum {
                Some(sum) => combined(fold.combine, vec![sum, next], fold.wide)?,
                None => next,
            });
        }
        if let Some(sum) = sum {
            // Computed here, on this part's device.
            sum.storage()?;
            pieces.push((of, sum));
        }
    }
    Ok(pieces)
}

fn widened(array: Array, wide: Scalar) -> Outcome<Array> {
    if array.scalar() == Some(wide) { Ok(array) } else { combined(Op::Convert(wide), vec![array], wide) }
}

fn combined(op: Op, arrays: Vec<Array>, scalar: Scalar) -> Outcome<Array> {
    let shape = arrays.first().map(|array| array.shape().to_vec()).unwrap_or_default();
    let operands = arrays.into_iter().map(|array| Operand::Array(array, shape.clone())).collect();
    graph::defer(op, operands, scalar, Element::Scalar(scalar), &shape)
}
