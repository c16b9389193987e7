//! Indexing by arrays: reads of and assignments to `x[at]`, `x[rows, .., columns]` and `x[mask]`.
//!
//! A selection is a list of runs: groups of contiguous elements, all of the same size. Each position along the indexed
//! axes selects one run. All positions are checked before any element is read or written.

use std::borrow::Cow;

use crate::array::broadcast::repeats_to;
use crate::array::slice::{
    ResolvedSlice, SliceSpec, broadcast_for_assignment, foreign_element, out_of_range, resolve_axis, too_many_indices,
};
use crate::array::{AlignedBytes, Array, ArrayScalar, ElementType, byte_count, element_value, no_memory, shape_text};
use crate::graph::scatter::ScatterValues;
use crate::graph::{self, ExecContext, IndexList, ViewAxis};
use crate::ops::binary::index_text;
use crate::ops::operand::array;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::Scalar;
use clk_scalar::with_integer;

/// An index: a number or a range, an array of positions along an axis, or a mask of one or several axes.
#[derive(Clone, Debug)]
pub(crate) enum GatherIndex {
    Spec(SliceSpec),
    Array(Array),
}

/// The indices of an access.
pub(crate) enum IndexSelector {
    Specs(Vec<SliceSpec>),
    /// The indices; at least one of them is an array.
    Picks(Vec<GatherIndex>),
}

impl IndexSelector {
    pub fn new(picks: Vec<GatherIndex>) -> IndexSelector {
        let spec = |pick: &GatherIndex| match pick {
            GatherIndex::Spec(spec) => Some(*spec),
            GatherIndex::Array(_) => None,
        };
        let specs = picks.iter().map(spec).collect();
        match specs {
            Some(specs) => IndexSelector::Specs(specs),
            None => IndexSelector::Picks(picks),
        }
    }
}

/// The elements that the indices select.
struct GatherRuns {
    shape: Vec<usize>,
    /// The row-major position of the first element of each run.
    starts: Vec<usize>,
    /// The number of elements in a run.
    run: usize,
}

impl GatherRuns {
    fn new(array: &Array, picks: &[GatherIndex]) -> HostResult<GatherRuns> {
        let axes = array.shape();
        let lists: Vec<&Array> = picks.iter().filter_map(index_array).collect();
        let is_mask = |array: &&Array| array.scalar() == Some(Scalar::Bool);
        match (picks, lists.as_slice()) {
            ([_], [mask]) if is_mask(mask) => GatherRuns::of_mask(axes, mask),
            _ if picks.len() > axes.len() => Err(too_many_indices(picks.len(), array)),
            (_, lists) if lists.iter().all(|list| !is_mask(list) || list.rank() == 1) => {
                GatherRuns::of_axes(array, picks)
            }
            _ => Err(RuntimeError::new("E0505", "these indices can't be used together")
                .help("a mask of several axes is the only index: `x[mask]`")),
        }
    }

    fn of_mask(axes: &[usize], mask: &Array) -> HostResult<GatherRuns> {
        let rank = mask.rank();
        if axes.get(..rank) != Some(mask.shape()) {
            let (own, other) = (shape_text(axes), shape_text(mask.shape()));
            let title = format!("a mask of shape {other} for an array of shape {own}");
            return Err(
                RuntimeError::new("E0501", title).help("a mask has the shape of the array, or of its first axes")
            );
        }
        let run: usize = axes[rank..].iter().product();
        let marked = stop::polled(mask.bytes()?.iter().enumerate()).filter(|(_, byte)| **byte != 0);
        let starts: Vec<usize> = marked.map(|(position, _)| position * run).collect();
        let shape = [&[starts.len()], &axes[rank..]].concat();
        Ok(GatherRuns { shape, starts, run })
    }

    /// Resolves indices with one or several arrays, whose corresponding elements belong together. In the result, the
    /// axes of the arrays replace the axis that the first of them indexes.
    fn of_axes(array: &Array, picks: &[GatherIndex]) -> HostResult<GatherRuns> {
        let axes = array.shape();
        let (mut places, mut shape) = (Vec::new(), Vec::new());
        let mut first: Option<(usize, Vec<usize>)> = None;
        for (axis, (pick, &len)) in picks.iter().zip(axes).enumerate() {
            let place = match pick {
                GatherIndex::Array(at) => {
                    let (own, positions) = match at.scalar() == Some(Scalar::Bool) {
                        true => GatherRuns::of_mask(&[len], at).map(|own| (own.shape, own.starts))?,
                        false => (at.shape().to_vec(), checked_positions(at, axis, len, axes.len())?),
                    };
                    let stride: usize = axes[axis + 1..].iter().product();
                    let offsets = stop::polled(positions).map(|position| position * stride);
                    match &first {
                        None => {
                            let offsets = offsets.collect();
                            shape.extend(&own);
                            first = Some((axis, own));
                            AxisPositions::Offsets(offsets)
                        }
                        Some((_, shape)) if *shape != own => return Err(unpaired(shape, &own)),
                        Some((first, _)) => {
                            if let Some(AxisPositions::Offsets(sums)) = places.get_mut(*first) {
                                sums.iter_mut().zip(offsets).for_each(|(sum, offset)| *sum += offset);
                            }
                            AxisPositions::Paired
                        }
                    }
                }
                GatherIndex::Spec(SliceSpec::At(index)) => match usize::try_from(*index) {
                    Ok(at) if at < len => AxisPositions::Steps(resolve_axis(SliceSpec::At(*index), len)?),
                    _ => return Err(out_of_range(*index, axis, len, axes.len())),
                },
                GatherIndex::Spec(spec) => {
                    let picked = resolve_axis(*spec, len)?;
                    shape.push(picked.count);
                    AxisPositions::Steps(picked)
                }
            };
            places.push(place);
        }
        shape.extend(&axes[picks.len()..]);
        // The size of the result is checked before the positions of the runs are allocated.
        byte_count(array.element(), &shape)?;
        let (first, run) = merge_trailing_axes(&mut places, axes);
        if let Some((AxisPositions::Offsets(offsets), others)) = places.split_first_mut()
            && others.iter().all(|other| matches!(other, AxisPositions::Paired))
        {
            let mut starts = std::mem::take(offsets);
            starts.iter_mut().for_each(|start| *start += first);
            return Ok(GatherRuns { shape, starts, run });
        }
        let mut starts: Vec<usize> = Vec::new();
        let total = places.iter().try_fold(1usize, |all, along| all.checked_mul(along.count()));
        if total.is_none_or(|total| starts.try_reserve_exact(total).is_err()) {
            return Err(no_memory(array.element(), &shape));
        }
        starts.extend(total.filter(|&total| total > 0).map(|_| first));
        for (axis, along) in places.iter().enumerate() {
            let stride: usize = axes[axis + 1..].iter().product();
            let (before, count) = (starts.len(), along.count());
            if count == 1 {
                let offset = along.offset(0, stride);
                starts.iter_mut().for_each(|start| *start += offset);
                continue;
            }
            starts.resize(before * count, 0);
            // The loop runs backwards, so that no position is overwritten before it is read.
            for k in stop::polled((0..before).rev()) {
                let start = starts[k];
                let places = starts[k * count..][..count].iter_mut().enumerate();
                places.for_each(|(position, place)| *place = start + along.offset(position, stride));
            }
        }
        Ok(GatherRuns { shape, starts, run })
    }
}

/// Returns the error for arrays of positions whose elements do not belong together.
fn unpaired(first: &[usize], other: &[usize]) -> RuntimeError {
    let (a, b) = (shape_text(first), shape_text(other));
    let title = format!("indices of shape {a} and {b} do not give pairs of positions");
    RuntimeError::new("E0501", title).help("each array has one position per element of the result")
}

/// The selected positions along an axis.
enum AxisPositions {
    /// Row-major offsets, also those along the [`AxisPositions::Paired`] axes.
    Offsets(Vec<usize>),
    /// The index array of this axis is paired with that of an earlier axis, whose offsets include this axis.
    Paired,
    Steps(ResolvedSlice),
}

impl AxisPositions {
    fn count(&self) -> usize {
        match self {
            AxisPositions::Offsets(offsets) => offsets.len(),
            AxisPositions::Paired => 1,
            AxisPositions::Steps(picked) => picked.count,
        }
    }

    /// Returns the row-major offset of the position with index `k` in the selection, for this stride of the axis.
    fn offset(&self, k: usize, stride: usize) -> usize {
        match self {
            AxisPositions::Offsets(offsets) => offsets[k],
            AxisPositions::Paired => 0,
            AxisPositions::Steps(picked) => picked.at(k) * stride,
        }
    }
}

/// Removes trailing axes whose selected elements are contiguous in memory. Returns the offset of the first selected
/// element of these axes, and the number of elements in a run.
fn merge_trailing_axes(places: &mut Vec<AxisPositions>, axes: &[usize]) -> (usize, usize) {
    let (mut first, mut run) = (0, axes[places.len()..].iter().product());
    while let Some(AxisPositions::Steps(picked)) = places.last() {
        let is_whole = axes.get(places.len() - 1).is_some_and(|&len| picked.is_whole(len));
        if !is_whole && picked.step != 1 {
            break;
        }
        // All later axes are selected whole, so that a range with step 1 along this axis is contiguous.
        first += picked.start * run;
        run *= picked.count;
        places.pop();
        if !is_whole {
            break;
        }
    }
    (first, run)
}

fn index_array(pick: &GatherIndex) -> Option<&Array> {
    match pick {
        GatherIndex::Array(array) => Some(array),
        GatherIndex::Spec(_) => None,
    }
}

/// Returns the positions in an array of integers; an error if one is out of range for this axis.
fn checked_positions(at: &Array, axis: usize, len: usize, rank: usize) -> HostResult<Vec<usize>> {
    let integer = at.scalar().filter(|scalar| scalar.is_int() && at.element().lanes() == 1);
    let wrong = || RuntimeError::new("E0505", format!("an array is indexed by integers, not by `{}`", at.type_name()));
    let scalar = integer.ok_or_else(wrong)?;
    let resolved = with_integer!(scalar, T => positions_below::<T>(at, len)?, _ => return Err(wrong()));
    resolved.map_err(|position| {
        let at_fault = at.bytes().ok().and_then(|bytes| bytes.chunks_exact(scalar.size()).nth(position));
        let number = at_fault.and_then(|bytes| clk_scalar::ScalarValue::from_bytes(scalar, bytes).as_integer());
        let number = number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let place = index_text(at.shape(), position);
        out_of_range(number, axis, len, rank).note(format!("it is element {place} of the array of positions"))
    })
}

/// Returns the integers as positions, or the index of the first integer that is negative or not less than `len`.
fn positions_below<T: ArrayScalar>(at: &Array, len: usize) -> HostResult<Result<Vec<usize>, usize>> {
    let mut resolved = Vec::new();
    if resolved.try_reserve_exact(at.count()).is_err() {
        return Err(no_memory(at.element(), at.shape()));
    }
    for (position, number) in stop::polled(at.items::<T>()?.iter().enumerate()) {
        // As unsigned numbers, negative positions and positions of type `u64` above the range of `i64` are large, so
        // that one comparison suffices.
        let index = number.to::<i64>() as u64;
        if index >= len as u64 {
            return Ok(Err(position));
        }
        resolved.push(index as usize);
    }
    Ok(Ok(resolved))
}

/// Converts indices to the arguments of a gather by a kernel: the axes, the index lists and the shape of the result.
/// `None` if an index is a mask, or if the indices are invalid.
fn lazy_gather_args(array: &Array, picks: &[GatherIndex]) -> Option<(Vec<ViewAxis>, Vec<IndexList>, Vec<usize>)> {
    let is_list = |at: &Array| at.scalar().is_some_and(Scalar::is_int) && at.element().lanes() == 1;
    let all: Vec<&Array> = picks.iter().filter_map(index_array).collect();
    let first = all.first()?.shape();
    if !all.iter().all(|at| is_list(at) && at.shape() == first) || picks.len() > array.rank() {
        return None;
    }
    let (mut axes, mut lists, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    let mut own = None;
    for (axis, &len) in array.shape().iter().enumerate() {
        axes.push(match picks.get(axis) {
            Some(GatherIndex::Array(at)) => {
                if own.is_none() {
                    own = Some(shape.len());
                    shape.extend(at.shape());
                }
                lists.push(IndexList::new(axis, at, own.unwrap_or_default()));
                ViewAxis::index(0)
            }
            Some(GatherIndex::Spec(SliceSpec::At(index))) => {
                ViewAxis::index(usize::try_from(*index).ok().filter(|index| *index < len)?)
            }
            Some(GatherIndex::Spec(spec)) => {
                let ResolvedSlice { start, count, step, .. } = resolve_axis(*spec, len).ok()?;
                shape.push(count);
                ViewAxis { start, step: if count > 1 { step as isize } else { 1 }, axis: shape.len() - 1 }
            }
            None => {
                shape.push(len);
                ViewAxis::full(shape.len() - 1)
            }
        });
    }
    Some((axes, lists, shape))
}

/// Replaces masks on a GPU by the positions where they are true. If a mask has several axes, also returns the array
/// with these axes merged into one.
fn with_positions<'p>(
    exec: &ExecContext,
    x: &Array,
    picks: &'p [GatherIndex],
) -> HostResult<(Option<Array>, Cow<'p, [GatherIndex]>)> {
    let mask = |pick: &GatherIndex| index_array(pick).filter(|list| list.scalar() == Some(Scalar::Bool)).cloned();
    let (mut flat, mut picks) = (None, Cow::Borrowed(picks));
    if picks.len() > x.rank() {
        return Ok((flat, picks));
    }
    let shape = x.shape();
    for axis in 0..picks.len() {
        let Some(mask) = mask(&picks[axis]) else { continue };
        let rank = mask.rank();
        let is_placed = rank == 1 || rank > 1 && picks.len() == 1;
        if !is_placed || shape.get(axis..axis + rank) != Some(mask.shape()) || mask.element().lanes() != 1 {
            continue;
        }
        let Some(at) = graph::mask_select::mask_positions(exec, &mask, x)? else { continue };
        picks.to_mut()[axis] = GatherIndex::Array(at);
        if rank > 1 {
            flat = Some(x.with_shape(&[&[mask.count()], &shape[rank..]].concat())?);
        }
    }
    Ok((flat, picks))
}

/// Reads the elements that indices with arrays select, with a kernel, or on the host if a kernel does not pay off.
pub(crate) fn gather(exec: &ExecContext, value: &HostValue, picks: &[GatherIndex]) -> HostResult<HostValue> {
    let x = array(value, "indexing by an array")?;
    if let [GatherIndex::Array(mask)] = picks
        && mask.element() == &ElementType::Scalar(Scalar::Bool)
        && let Some(selected) = graph::mask_select::select_by_mask(exec, x, mask)?
    {
        return Ok(HostValue::Array(selected));
    }
    let (seen, picks) = with_positions(exec, x, picks)?;
    let (x, picks) = (seen.as_ref().unwrap_or(x), &*picks);
    if let Some((axes, lists, shape)) = lazy_gather_args(x, picks)
        && let Some(picked) = graph::gather(exec, x, axes, lists, &shape)?
    {
        return Ok(HostValue::Array(picked));
    }
    let selection = GatherRuns::new(x, picks)?;
    let element = x.element().clone();
    let run = selection.run * element.size();
    let bytes = run.checked_mul(selection.starts.len()).ok_or_else(|| no_memory(&element, &selection.shape))?;
    let mut result = AlignedBytes::for_overwrite(bytes).ok_or_else(|| no_memory(&element, &selection.shape))?;
    let source = x.bytes()?;
    let starts = &selection.starts;
    match (selection.run, element.size()) {
        (1, 1) => copy_elements::<1>(source, starts, &mut result),
        (1, 2) => copy_elements::<2>(source, starts, &mut result),
        (1, 4) => copy_elements::<4>(source, starts, &mut result),
        (1, 8) => copy_elements::<8>(source, starts, &mut result),
        _ => {
            for (place, start) in stop::polled(result.chunks_exact_mut(run.max(1)).zip(starts)) {
                let first = start * element.size();
                if let Some(from) = source.get(first..first + run) {
                    place.copy_from_slice(from);
                }
            }
        }
    }
    Array::of_aligned(element, &selection.shape, result).map(HostValue::Array)
}

/// Copies the elements at these positions. Their size `SIZE` is known at compile time.
fn copy_elements<const SIZE: usize>(source: &[u8], starts: &[usize], result: &mut [u8]) {
    let ((source, _), (result, _)) = (source.as_chunks::<SIZE>(), result.as_chunks_mut::<SIZE>());
    for (place, &start) in stop::polled(result.iter_mut().zip(starts)) {
        if let Some(from) = source.get(start) {
            *place = *from;
        }
    }
}

/// Assigns one value, or an array that broadcasts to the selection, to the elements that indices with arrays select. If
/// several values are assigned to one element, the last one wins.
pub(crate) fn scatter(exec: &ExecContext, x: &mut Array, picks: &[GatherIndex], value: &HostValue) -> HostResult<()> {
    if scatter_on_device(exec, x, picks, value)? {
        return Ok(());
    }
    let selection = GatherRuns::new(x, picks)?;
    let size = x.element().size();
    let run = selection.run * size;
    let mut one = vec![0; size];
    let source = match value {
        HostValue::Array(array) if array.element() != x.element() => return Err(foreign_element(array, x)),
        HostValue::Array(array) => Some(broadcast_for_assignment(array, &selection.shape)?),
        _ => {
            element_value::write(&x.element().clone(), &mut one, value)?;
            None
        }
    };
    let from = source.as_ref().map(Array::bytes).transpose()?;
    let bytes = x.bytes_mut()?;
    for (position, start) in stop::polled(selection.starts.iter().enumerate()) {
        let Some(place) = bytes.get_mut(start * size..start * size + run) else { continue };
        match from {
            Some(from) => {
                let from = from.get(position * run..(position + 1) * run);
                from.into_iter().for_each(|from| place.copy_from_slice(from));
            }
            None => place.chunks_exact_mut(size.max(1)).for_each(|place| place.copy_from_slice(&one)),
        }
    }
    Ok(())
}

/// Executes the assignment on the device on which the array resides, if the index is a mask and the value one number,
/// or if the indices are positions along the first axes. Returns false if the host must execute it or report an error.
fn scatter_on_device(exec: &ExecContext, x: &mut Array, picks: &[GatherIndex], value: &HostValue) -> HostResult<bool> {
    if let ([GatherIndex::Array(mask)], ElementType::Scalar(own)) = (picks, x.element().clone())
        && mask.element() == &ElementType::Scalar(Scalar::Bool)
        && x.shape().get(..mask.rank()) == Some(mask.shape())
        && let Some(number) = value.adapt(own).filter(|number| number.ty == own)
        && let Some(chosen) = graph::mask_select::replace_where(exec, x, mask, number)?
    {
        *x = chosen;
        return Ok(true);
    }
    if !graph::scatter::can_scatter_on_gpu(exec, x) {
        return Ok(false);
    }
    let marks = picks.iter().filter_map(index_array).any(|list| list.scalar() == Some(Scalar::Bool));
    let (seen, picks) = with_positions(exec, x, picks)?;
    let shape = x.shape().to_vec();
    let mut flat = seen.unwrap_or_else(|| x.clone());
    let Some((_, lists, selected)) = lazy_gather_args(&flat, &picks) else { return Ok(false) };
    let at: Vec<&Array> = lists.iter().map(|list| &list.positions).collect();
    if at.len() != picks.len() {
        return Ok(false);
    }
    let mut one = vec![0; x.element().size()];
    let value_rows = match value {
        HostValue::Array(array) if array.element() == x.element() && repeats_to(array.shape(), &selected) => {
            Some(broadcast_view(exec, array, &selected)?)
        }
        HostValue::Array(_) => return Ok(false),
        _ if element_value::write(&x.element().clone(), &mut one, value).is_err() => return Ok(false),
        _ => None,
    };
    let values = match &value_rows {
        Some(rows) if marks => ScatterValues::UniqueRows(rows),
        Some(rows) => ScatterValues::Rows(rows),
        None => ScatterValues::Fill(&one),
    };
    if at.iter().any(|list| list.is_empty()) {
        return Ok(true);
    }
    // Writing in place requires that there is only one reference to the bytes. Therefore `x` releases its reference.
    *x = Array::zeros(x.element().clone(), &[0])?;
    let done = graph::scatter::scatter(exec, &mut flat, &at, &values);
    *x = flat.with_shape(&shape)?;
    done
}

/// Converts the indices of a scatter-add to positions along the first axes of the target `to`, if the elements `from`
/// are on a GPU. A mask becomes positions; its axes are merged in the returned target. `None` if the elements are not
/// on a GPU, or if the indices are not arrays along the first axes.
pub(super) fn device_positions(
    exec: &ExecContext,
    from: &Array,
    to: &Array,
    picks: &[GatherIndex],
) -> HostResult<Option<(Array, Vec<Array>)>> {
    if !graph::scatter::can_scatter_on_gpu(exec, from) {
        return Ok(None);
    }
    let (seen, picks) = with_positions(exec, to, picks)?;
    let whole = seen.unwrap_or_else(|| to.clone());
    let lists = lazy_gather_args(&whole, &picks).map(|(_, lists, _)| lists).filter(|lists| lists.len() == picks.len());
    Ok(lists.map(|lists| (whole, lists.into_iter().map(|list| list.positions).collect())))
}

/// Broadcasts an array to a shape, as a view.
fn broadcast_view(exec: &ExecContext, array: &Array, shape: &[usize]) -> HostResult<Array> {
    if array.shape() == shape {
        return Ok(array.clone());
    }
    let leading = shape.len() - array.rank();
    let view_axis =
        |(axis, &len): (usize, &usize)| if len == 1 { ViewAxis::index(0) } else { ViewAxis::full(leading + axis) };
    graph::make_view(exec, array, array.shape().iter().enumerate().map(view_axis).collect(), shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> GatherIndex {
        GatherIndex::Array(Array::from_items(&[3i64, 1]).expect("positions"))
    }

    fn span(start: i64, end: i64, step: i64) -> GatherIndex {
        GatherIndex::Spec(SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: Some(step) })
    }

    fn at(index: i64) -> GatherIndex {
        GatherIndex::Spec(SliceSpec::At(index))
    }

    #[test]
    fn contiguous_trailing_axes_form_one_run() {
        let exec = &ExecContext::default();
        let items: Vec<i32> = (0..5 * 4 * 6).collect();
        let x = Array::from_shaped(&items, &[5, 4, 6]).expect("an array");
        let all = || GatherIndex::Spec(SliceSpec::ALL);
        let cases: [(Vec<GatherIndex>, &[usize], &[usize], usize); 11] = [
            (vec![rows()], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), all()], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), all(), all()], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), all(), span(0, 6, 1)], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), span(1, 3, 1), all()], &[2, 2, 6], &[78, 30], 12),
            (vec![rows(), at(2), span(2, 5, 1)], &[2, 3], &[86, 38], 3),
            (vec![rows(), at(2)], &[2, 6], &[84, 36], 6),
            (vec![rows(), at(1), span(0, 6, 4)], &[2, 2], &[78, 82, 30, 34], 1),
            (vec![rows(), span(3, 3, 1)], &[2, 0, 6], &[90, 42], 0),
            (vec![rows(), all(), rows()], &[2, 4], &[75, 81, 87, 93, 25, 31, 37, 43], 1),
            (vec![at(2), rows(), rows()], &[2], &[69, 55], 1),
        ];
        for (picks, shape, starts, run) in cases {
            let runs = GatherRuns::new(&x, &picks).expect("a selection");
            assert_eq!((runs.shape.as_slice(), runs.starts.as_slice(), runs.run), (shape, starts, run), "{picks:?}");
            let expected: Vec<i32> = starts.iter().flat_map(|&start| &items[start..start + run]).copied().collect();
            let HostValue::Array(selected) = gather(exec, &HostValue::Array(x.clone()), &picks).expect("elements")
            else {
                panic!()
            };
            assert_eq!((selected.shape(), selected.items::<i32>().expect("numbers")), (shape, expected.as_slice()));
        }
    }

    #[test]
    fn selections_that_are_too_large_are_refused() {
        let x = Array::unplaced(Scalar::U8, &[1 << 20, 1 << 20, 1 << 20, 2]).expect("zeros");
        let many = || GatherIndex::Array(Array::zeros(Scalar::U8, &[1 << 20]).expect("positions"));
        let back = || GatherIndex::Spec(SliceSpec::Range { start: None, end: None, inclusive: false, step: Some(-1) });
        // The selection has 2^60 positions of 8 bytes each.
        let error = GatherRuns::new(&x, &[many(), back(), back(), at(0)]).err().expect("no memory");
        assert_eq!(error.code, "E0509");
        let runs = GatherRuns::new(&x, &[many(), span(5, 9, 1)]).expect("runs");
        assert_eq!((runs.starts.len(), runs.run), (1 << 20, 4 << 21));
    }
}
