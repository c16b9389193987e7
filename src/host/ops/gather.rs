//! Indexing by arrays: `x[at]`, `x[rows, columns]` and `x[mask]`, read and written.
//!
//! A selection is a list of runs, which are the elements behind one position of the indexed axes. Positions are checked before anything
//! is read or written.

use std::borrow::Cow;

use crate::base::{room, stop};
use crate::host::array::broadcast::repeats_to;
use crate::host::array::slice::{Picked, SliceSpec, fit, foreign_element, out_of_range, positions, too_many_indices};
use crate::host::array::{AlignedBytes, Array, Element, Item, byte_count, leaf, no_memory, shape_text};
use crate::host::graph::put::Values;
use crate::host::graph::{self, Along, List};
use crate::host::ops::binary::index_text;
use crate::host::ops::operand::array;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar};
use crate::with_integer;

/// An index of one axis, or a mask of several.
#[derive(Clone, Debug)]
pub(crate) enum Pick {
    Spec(SliceSpec),
    Array(Array),
}

/// The indices of an access.
pub(crate) enum Selector {
    Specs(Vec<SliceSpec>),
    /// Some are arrays.
    Picks(Vec<Pick>),
}

impl Selector {
    pub fn new(picks: Vec<Pick>) -> Selector {
        let spec = |pick: &Pick| match pick {
            Pick::Spec(spec) => Some(*spec),
            Pick::Array(_) => None,
        };
        let specs = picks.iter().map(spec).collect();
        match specs {
            Some(specs) => Selector::Specs(specs),
            None => Selector::Picks(picks),
        }
    }
}

/// The elements that indices select.
struct Selection {
    shape: Vec<usize>,
    /// The position of the first element of each run.
    starts: Vec<usize>,
    /// Elements of a run.
    run: usize,
}

impl Selection {
    fn new(array: &Array, picks: &[Pick]) -> Outcome<Selection> {
        let axes = array.shape();
        let lists: Vec<&Array> = picks.iter().filter_map(list).collect();
        let is_mask = |array: &&Array| array.scalar() == Some(Scalar::Bool);
        match (picks, lists.as_slice()) {
            ([_], [mask]) if is_mask(mask) => Selection::of_mask(axes, mask),
            _ if picks.len() > axes.len() => Err(too_many_indices(picks.len(), array)),
            (_, [list]) if !is_mask(list) || list.rank() == 1 => Selection::of_axes(array, picks),
            (picks, lists) if lists.len() == picks.len() && !lists.iter().any(is_mask) => Selection::of_pairs(array, lists),
            _ => Err(Problem::new("E0505", "these indices can't be used together")
                .help("an array of positions stands among ranges and single positions, or every index is one: `x[rows, columns]`")
                .help("a mask of several axes is the only index: `x[mask]`")),
        }
    }

    fn of_mask(axes: &[usize], mask: &Array) -> Outcome<Selection> {
        let rank = mask.rank();
        if axes.get(..rank) != Some(mask.shape()) {
            let (own, other) = (shape_text(axes), shape_text(mask.shape()));
            let title = format!("a mask of shape {other} for an array of shape {own}");
            return Err(Problem::new("E0501", title).help("a mask has the shape of the array, or of its first axes"));
        }
        let run: usize = axes[rank..].iter().product();
        let marked = stop::polled(mask.bytes()?.iter().enumerate()).filter(|(_, byte)| **byte != 0);
        let starts: Vec<usize> = marked.map(|(position, _)| position * run).collect();
        let shape = [&[starts.len()], &axes[rank..]].concat();
        Ok(Selection { shape, starts, run })
    }

    /// One index is an array, and its axes take the place of the one it stands for.
    fn of_axes(array: &Array, picks: &[Pick]) -> Outcome<Selection> {
        let axes = array.shape();
        let (mut places, mut shape) = (Vec::new(), Vec::new());
        for (axis, (pick, &len)) in picks.iter().zip(axes).enumerate() {
            places.push(match pick {
                Pick::Array(mask) if mask.scalar() == Some(Scalar::Bool) => {
                    let own = Selection::of_mask(&[len], mask)?;
                    shape.extend(own.shape);
                    Places::List(own.starts)
                }
                Pick::Array(at) => {
                    shape.extend(at.shape());
                    Places::List(checked(at, axis, len, axes.len())?)
                }
                Pick::Spec(SliceSpec::At(index)) => match usize::try_from(*index) {
                    Ok(at) if at < len => Places::Steps(positions(SliceSpec::At(*index), len)?),
                    _ => return Err(out_of_range(*index, axis, len, axes.len())),
                },
                Pick::Spec(spec) => {
                    let picked = positions(*spec, len)?;
                    shape.push(picked.count);
                    Places::Steps(picked)
                }
            });
        }
        shape.extend(&axes[picks.len()..]);
        // Checks the size before there is a position for each run.
        byte_count(array.element(), &shape)?;
        let (first, run) = tail(&mut places, axes);
        let mut starts: Vec<usize> = Vec::new();
        let total = places.iter().try_fold(1usize, |all, along| all.checked_mul(along.count()));
        if total.is_none_or(|total| starts.try_reserve_exact(total).is_err()) {
            return Err(no_memory(array.element(), &shape));
        }
        starts.extend(total.filter(|&total| total > 0).map(|_| first));
        for (axis, along) in places.iter().enumerate() {
            let stride: usize = axes[axis + 1..].iter().product();
            let (before, count) = (starts.len(), along.count());
            starts.resize(before * count, 0);
            // From the last one on, so that none is overwritten before it is read.
            for k in stop::polled((0..before).rev()) {
                let start = starts[k];
                let places = starts[k * count..][..count].iter_mut().enumerate();
                places.for_each(|(position, place)| *place = start + along.at(position) * stride);
            }
        }
        Ok(Selection { shape, starts, run })
    }

    /// Every index is an array: they give the positions of one element, or run, after the other.
    fn of_pairs(array: &Array, lists: &[&Array]) -> Outcome<Selection> {
        let axes = array.shape();
        let first = lists.first().map_or(&[][..], |list| list.shape());
        if let Some(other) = lists.iter().find(|list| list.shape() != first) {
            let (a, b) = (shape_text(first), shape_text(other.shape()));
            let title = format!("indices of shape {a} and {b} do not give pairs of positions");
            return Err(Problem::new("E0501", title).help("each array has one position per element of the result"));
        }
        let mut starts: Vec<usize> = room::zeros(first.iter().product());
        for (axis, (list, &len)) in lists.iter().zip(axes).enumerate() {
            let stride: usize = axes[axis + 1..].iter().product();
            let along = checked(list, axis, len, axes.len())?;
            stop::polled(starts.iter_mut().zip(along)).for_each(|(start, at)| *start += at * stride);
        }
        let rest = &axes[lists.len()..];
        Ok(Selection { shape: [first, rest].concat(), starts, run: rest.iter().product() })
    }
}

/// The positions along an axis.
enum Places {
    List(Vec<usize>),
    Steps(Picked),
}

impl Places {
    fn count(&self) -> usize {
        match self {
            Places::List(list) => list.len(),
            Places::Steps(picked) => picked.count,
        }
    }

    /// Returns the k-th position.
    fn at(&self, k: usize) -> usize {
        match self {
            Places::List(list) => list[k],
            Places::Steps(picked) => picked.at(k),
        }
    }
}

/// Removes the last axes if what is selected there lies in one run; returns the position of its first element, and its length.
fn tail(places: &mut Vec<Places>, axes: &[usize]) -> (usize, usize) {
    let (mut first, mut run) = (0, axes[places.len()..].iter().product());
    while let Some(Places::Steps(picked)) = places.last() {
        let is_whole = axes.get(places.len() - 1).is_some_and(|&len| picked.is_whole(len));
        if !is_whole && picked.step != 1 {
            break;
        }
        // All axes behind are whole: a step along this one is a run.
        first += picked.start * run;
        run *= picked.count;
        places.pop();
        if !is_whole {
            break;
        }
    }
    (first, run)
}

fn list(pick: &Pick) -> Option<&Array> {
    match pick {
        Pick::Array(array) => Some(array),
        Pick::Spec(_) => None,
    }
}

/// Returns the positions in an array of integers, which all lie in an axis of this length.
fn checked(at: &Array, axis: usize, len: usize, rank: usize) -> Outcome<Vec<usize>> {
    let integer = at.scalar().filter(|scalar| scalar.is_int() && at.element().lanes() == 1);
    let wrong = || Problem::new("E0505", format!("an array is indexed by integers, not by `{}`", at.type_name()));
    let scalar = integer.ok_or_else(wrong)?;
    let found = with_integer!(scalar, T => positions_below::<T>(at, len)?, _ => return Err(wrong()));
    found.map_err(|position| {
        let at_fault = at.bytes().ok().and_then(|bytes| bytes.chunks_exact(scalar.size()).nth(position));
        let number = at_fault.and_then(|bytes| scalar::Value::from_bytes(scalar, bytes).as_integer());
        let number = number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let place = index_text(at.shape(), position);
        out_of_range(number, axis, len, rank).note(format!("it is element {place} of the array of positions"))
    })
}

/// Returns the integers as positions, or where the first one is that is negative or not below `len`.
fn positions_below<T: Item>(at: &Array, len: usize) -> Outcome<Result<Vec<usize>, usize>> {
    let mut found = Vec::new();
    if found.try_reserve_exact(at.count()).is_err() {
        return Err(no_memory(at.element(), at.shape()));
    }
    for (position, number) in stop::polled(at.items::<T>()?.iter().enumerate()) {
        // A negative number becomes a large one, and one of `u64` beyond `i64` stays one.
        let index = number.to::<i64>() as u64;
        if index >= len as u64 {
            return Ok(Err(position));
        }
        found.push(index as usize);
    }
    Ok(Ok(found))
}

/// Returns how a kernel reads a selection by arrays of positions, and its shape; `None` if it is one by a mask, or none.
fn as_lists(array: &Array, picks: &[Pick]) -> Option<(Vec<Along>, Vec<List>, Vec<usize>)> {
    let is_list = |at: &Array| at.scalar().is_some_and(Scalar::is_int) && at.element().lanes() == 1;
    let all: Vec<&Array> = picks.iter().filter_map(list).collect();
    let first = all.first()?.shape();
    let pairs = all.len() == picks.len() && all.iter().all(|list| list.shape() == first);
    if !(all.len() == 1 || pairs) || !all.iter().all(|at| is_list(at)) || picks.len() > array.rank() {
        return None;
    }
    let (mut axes, mut lists, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, &len) in array.shape().iter().enumerate() {
        axes.push(match picks.get(axis) {
            Some(Pick::Array(at)) => {
                let own = if pairs { 0 } else { shape.len() };
                lists.push(List::new(axis, at, own));
                if !pairs || axis == 0 {
                    shape.extend(at.shape());
                }
                Along::at(0)
            }
            Some(Pick::Spec(SliceSpec::At(index))) => {
                Along::at(usize::try_from(*index).ok().filter(|index| *index < len)?)
            }
            Some(Pick::Spec(spec)) => {
                let Picked { start, count, step, .. } = positions(*spec, len).ok()?;
                shape.push(count);
                Along { start, step: if count > 1 { step as isize } else { 1 }, axis: shape.len() - 1 }
            }
            None => {
                shape.push(len);
                Along::all(shape.len() - 1)
            }
        });
    }
    Some((axes, lists, shape))
}

/// Returns the indices with positions instead of a mask, if that is on a GPU, and the array with the axes of the mask as one, if they
/// are several.
fn with_positions<'p>(x: &Array, picks: &'p [Pick]) -> Outcome<(Option<Array>, Cow<'p, [Pick]>)> {
    let is_mask = |pick: &Pick| list(pick).is_some_and(|list| list.scalar() == Some(Scalar::Bool));
    let unchanged = Ok((None, Cow::Borrowed(picks)));
    let (Some(axis), true) = (picks.iter().position(is_mask), picks.len() <= x.rank()) else { return unchanged };
    let Some(mask) = picks.get(axis).and_then(list) else { return unchanged };
    let (rank, shape) = (mask.rank(), x.shape());
    let is_alone = picks.iter().filter(|pick| list(pick).is_some()).count() == 1 && (rank == 1 || picks.len() == 1);
    if !is_alone || rank == 0 || shape.get(axis..axis + rank) != Some(mask.shape()) || mask.element().lanes() != 1 {
        return unchanged;
    }
    let Some(at) = graph::mask::marked(mask, x)? else { return unchanged };
    let mut picks = picks.to_vec();
    picks[axis] = Pick::Array(at);
    let flat = || x.with_shape(&[&[mask.count()], &shape[rank..]].concat());
    Ok(((rank > 1).then(flat).transpose()?, Cow::Owned(picks)))
}

/// Evaluates an access of which some indices are arrays: by a kernel, or where that is not worth it, on the host.
pub(crate) fn gather(value: &Value, picks: &[Pick]) -> Outcome<Value> {
    let x = array(value, "indexing by an array")?;
    if let [Pick::Array(mask)] = picks
        && mask.element() == &Element::Scalar(Scalar::Bool)
        && let Some(selected) = graph::mask::selected(x, mask)?
    {
        return Ok(Value::Array(selected));
    }
    let (seen, picks) = with_positions(x, picks)?;
    let (x, picks) = (seen.as_ref().unwrap_or(x), &*picks);
    if let Some((axes, lists, shape)) = as_lists(x, picks)
        && let Some(picked) = graph::pick(x, axes, lists, &shape)?
    {
        return Ok(Value::Array(picked));
    }
    let selection = Selection::new(x, picks)?;
    let element = x.element().clone();
    let run = selection.run * element.size();
    let bytes = run.checked_mul(selection.starts.len()).ok_or_else(|| no_memory(&element, &selection.shape))?;
    let mut result = AlignedBytes::unset(bytes).ok_or_else(|| no_memory(&element, &selection.shape))?;
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
    Array::of_aligned(element, &selection.shape, result).map(Value::Array)
}

/// Copies the elements at these positions, which have `SIZE` bytes.
fn copy_elements<const SIZE: usize>(source: &[u8], starts: &[usize], result: &mut [u8]) {
    let ((source, _), (result, _)) = (source.as_chunks::<SIZE>(), result.as_chunks_mut::<SIZE>());
    for (place, &start) in stop::polled(result.iter_mut().zip(starts)) {
        if let Some(from) = source.get(start) {
            *place = *from;
        }
    }
}

/// Executes an assignment to such an access: of one value, or of an array that broadcasts to the selection. Of several values for one
/// element, the last one stays.
pub(crate) fn scatter(x: &mut Array, picks: &[Pick], value: &Value) -> Outcome<()> {
    if there(x, picks, value)? {
        return Ok(());
    }
    let selection = Selection::new(x, picks)?;
    let size = x.element().size();
    let run = selection.run * size;
    let mut one = vec![0; size];
    let source = match value {
        Value::Array(array) if array.element() != x.element() => return Err(foreign_element(array, x)),
        Value::Array(array) => Some(fit(array, &selection.shape)?),
        _ => {
            leaf::write(&x.element().clone(), &mut one, value)?;
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

/// Executes the assignment on the device that has the array: of one number by a mask, or to positions along the first axes. Returns
/// false if the host has to do it, or to report what is wrong.
fn there(x: &mut Array, picks: &[Pick], value: &Value) -> Outcome<bool> {
    if let ([Pick::Array(mask)], Element::Scalar(own)) = (picks, x.element().clone())
        && mask.element() == &Element::Scalar(Scalar::Bool)
        && x.shape().get(..mask.rank()) == Some(mask.shape())
        && let Some(number) = value.adapt(own).filter(|number| number.ty == own)
        && let Some(chosen) = graph::mask::chosen(x, mask, number)?
    {
        *x = chosen;
        return Ok(true);
    }
    if !graph::put::takes(x) {
        return Ok(false);
    }
    let marks = picks.iter().filter_map(list).any(|list| list.scalar() == Some(Scalar::Bool));
    let (seen, picks) = with_positions(x, picks)?;
    let shape = x.shape().to_vec();
    let mut flat = seen.unwrap_or_else(|| x.clone());
    let Some((_, lists, selected)) = as_lists(&flat, &picks) else { return Ok(false) };
    let at: Vec<&Array> = lists.iter().map(|list| &list.at).collect();
    if at.len() != picks.len() {
        return Ok(false);
    }
    let mut one = vec![0; x.element().size()];
    let given = match value {
        Value::Array(array) if array.element() == x.element() && repeats_to(array.shape(), &selected) => {
            Some(repeated(array, &selected)?)
        }
        Value::Array(_) => return Ok(false),
        _ if leaf::write(&x.element().clone(), &mut one, value).is_err() => return Ok(false),
        _ => None,
    };
    let values = match &given {
        Some(rows) if marks => Values::Each(rows),
        Some(rows) => Values::Rows(rows),
        None => Values::One(&one),
    };
    if at.iter().any(|list| list.is_empty()) {
        return Ok(true);
    }
    // Nobody else may have it while it is written, not even this function.
    *x = Array::zeros(x.element().clone(), &[0])?;
    let done = graph::put::put(&mut flat, &at, &values);
    *x = flat.with_shape(&shape)?;
    done
}

/// Returns where elements go that a GPU has, as positions along the first axes of an array with the shape of `to`, or with the axes of a
/// mask as one; `None` if they are not on a GPU, or if other places are meant.
pub(super) fn places_there(from: &Array, to: &Array, picks: &[Pick]) -> Outcome<Option<(Array, Vec<Array>)>> {
    if !graph::put::takes(from) {
        return Ok(None);
    }
    let (seen, picks) = with_positions(to, picks)?;
    let whole = seen.unwrap_or_else(|| to.clone());
    let lists = as_lists(&whole, &picks).map(|(_, lists, _)| lists).filter(|lists| lists.len() == picks.len());
    Ok(lists.map(|lists| (whole, lists.into_iter().map(|list| list.at).collect())))
}

/// Returns an array in a shape that it broadcasts to, as a view of it.
fn repeated(array: &Array, shape: &[usize]) -> Outcome<Array> {
    if array.shape() == shape {
        return Ok(array.clone());
    }
    let ahead = shape.len() - array.rank();
    let along = |(axis, &len): (usize, &usize)| if len == 1 { Along::at(0) } else { Along::all(ahead + axis) };
    graph::view(array, array.shape().iter().enumerate().map(along).collect(), shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Pick {
        Pick::Array(Array::from_items(&[3i64, 1]).expect("positions"))
    }

    fn span(start: i64, end: i64, step: i64) -> Pick {
        Pick::Spec(SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: Some(step) })
    }

    fn at(index: i64) -> Pick {
        Pick::Spec(SliceSpec::At(index))
    }

    #[test]
    fn what_lies_in_order_behind_an_array_is_a_run() {
        let items: Vec<i32> = (0..5 * 4 * 6).collect();
        let x = Array::from_shaped(&items, &[5, 4, 6]).expect("an array");
        let all = || Pick::Spec(SliceSpec::ALL);
        let cases: [(Vec<Pick>, &[usize], &[usize], usize); 9] = [
            (vec![rows()], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), all()], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), all(), all()], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), all(), span(0, 6, 1)], &[2, 4, 6], &[72, 24], 24),
            (vec![rows(), span(1, 3, 1), all()], &[2, 2, 6], &[78, 30], 12),
            (vec![rows(), at(2), span(2, 5, 1)], &[2, 3], &[86, 38], 3),
            (vec![rows(), at(2)], &[2, 6], &[84, 36], 6),
            (vec![rows(), at(1), span(0, 6, 4)], &[2, 2], &[78, 82, 30, 34], 1),
            (vec![rows(), span(3, 3, 1)], &[2, 0, 6], &[90, 42], 0),
        ];
        for (picks, shape, starts, run) in cases {
            let found = Selection::new(&x, &picks).expect("a selection");
            assert_eq!((found.shape.as_slice(), found.starts.as_slice(), found.run), (shape, starts, run), "{picks:?}");
            let expected: Vec<i32> = starts.iter().flat_map(|&start| &items[start..start + run]).copied().collect();
            let Value::Array(selected) = gather(&Value::Array(x.clone()), &picks).expect("elements") else { panic!() };
            assert_eq!((selected.shape(), selected.items::<i32>().expect("numbers")), (shape, expected.as_slice()));
        }
    }

    #[test]
    fn selections_that_are_too_large_are_refused() {
        let x = Array::unplaced(Scalar::U8, &[1 << 20, 1 << 20, 1 << 20, 2]).expect("zeros");
        let many = || Pick::Array(Array::zeros(Scalar::U8, &[1 << 20]).expect("positions"));
        let back = || Pick::Spec(SliceSpec::Range { start: None, end: None, inclusive: false, step: Some(-1) });
        // 2^60 positions of 8 bytes each.
        let error = Selection::new(&x, &[many(), back(), back(), at(0)]).err().expect("no memory");
        assert_eq!(error.code, "E0509");
        let found = Selection::new(&x, &[many(), span(5, 9, 1)]).expect("runs");
        assert_eq!((found.starts.len(), found.run), (1 << 20, 4 << 21));
    }
}
