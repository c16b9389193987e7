//! Indexing and slicing: resolves index expressions, and reads and writes the selected elements.

use crate::array::broadcast::broadcast_to;
use crate::array::{Array, element_value, shape_text};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop::{self, Ticks};

/// The selection along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceSpec {
    /// A single index, which removes the axis.
    At(i64),
    /// A range `a..b step s`. Omitted bounds are the ends of the axis. A negative step counts down, by default from the
    /// last element.
    Range { start: Option<i64>, end: Option<i64>, inclusive: bool, step: Option<i64> },
}

impl SliceSpec {
    /// The selection of a whole axis: `..`.
    pub const ALL: SliceSpec = SliceSpec::Range { start: None, end: None, inclusive: false, step: None };
}

/// The selected positions along one axis, after bounds and steps have been resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedSlice {
    pub start: usize,
    pub count: usize,
    pub step: i64,
    /// Whether this is a single index, which removes the axis.
    pub single: bool,
}

impl ResolvedSlice {
    /// Returns whether this selects the whole axis of length `len`, in order.
    pub fn is_whole(&self, len: usize) -> bool {
        self.start == 0 && self.count == len && (self.step == 1 || len <= 1)
    }

    /// Returns the position with index `k` in the selection.
    pub fn at(&self, k: usize) -> usize {
        (self.start as i64 + self.step * k as i64) as usize
    }

    /// Iterates over the positions.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |k| self.at(k))
    }
}

/// The locations of the selected elements: contiguous runs of equal size.
struct SliceRuns {
    shape: Vec<usize>,
    /// For each outer axis, the selected positions and the stride in bytes.
    outer: Vec<(ResolvedSlice, usize)>,
    /// Size of a run in bytes.
    run: usize,
}

impl SliceRuns {
    fn new(array: &Array, specs: &[SliceSpec]) -> HostResult<SliceRuns> {
        let (axes, picked) = (array.shape(), array.resolve_slices(specs)?);
        let shape = picked.iter().filter(|p| !p.single).map(|p| p.count).collect();
        let (outer, run) = split_into_runs(&picked, axes, array.element().size());
        Ok(SliceRuns { shape, outer, run })
    }

    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Calls `visit` with the byte offset of every run, in row-major order.
    fn for_each_run(&self, mut visit: impl FnMut(usize)) {
        let ticks = Ticks::default();
        if self.count() > 0 {
            self.descend(&self.outer, 0, &mut |offset| {
                ticks.advance(1);
                visit(offset);
            });
        }
    }

    fn descend(&self, outer: &[(ResolvedSlice, usize)], offset: usize, visit: &mut impl FnMut(usize)) {
        match outer.split_first() {
            None => visit(offset),
            Some(((picked, stride), rest)) => {
                (0..picked.count).for_each(|k| self.descend(rest, offset + picked.at(k) * stride, visit));
            }
        }
    }
}

/// Splits the axes into outer axes, which are iterated, and inner axes, whose selected elements are contiguous. Returns
/// the outer axes, and the size of a contiguous run in bytes.
fn split_into_runs(picked: &[ResolvedSlice], axes: &[usize], size: usize) -> (Vec<(ResolvedSlice, usize)>, usize) {
    let mut stride = size;
    let mut run = size;
    let mut joined = true;
    let mut outer = Vec::new();
    for (&axis, &len) in picked.iter().zip(axes).rev() {
        if joined && axis.is_whole(len) {
            run *= len;
        } else if joined && axis.step == 1 {
            outer.push((ResolvedSlice { count: 1, ..axis }, stride));
            run *= axis.count;
            joined = false;
        } else {
            outer.push((axis, stride));
            joined = false;
        }
        stride *= len;
    }
    outer.reverse();
    (outer, run)
}

/// Resolves a selection along an axis of this length.
pub(crate) fn resolve_axis(spec: SliceSpec, len: usize) -> HostResult<ResolvedSlice> {
    resolve(spec, 0, len, 1)
}

fn resolve(spec: SliceSpec, axis: usize, len: usize, rank: usize) -> HostResult<ResolvedSlice> {
    match spec {
        SliceSpec::At(index) => match usize::try_from(index) {
            Ok(start) if start < len => Ok(ResolvedSlice { start, count: 1, step: 1, single: true }),
            _ => Err(out_of_range(index, axis, len, rank)),
        },
        SliceSpec::Range { start, end, inclusive, step } => {
            let step = step.unwrap_or(1);
            let last = len as i64;
            let end = end.map(|end| if inclusive { end.saturating_add(step.signum()) } else { end });
            let (start, end) = match step {
                0 => return Err(RuntimeError::new("E0540", "a slice cannot step by 0").label("the step is 0")),
                1.. => (start.unwrap_or(0), end.unwrap_or(last)),
                _ => (start.unwrap_or(last - 1), end.unwrap_or(-1)),
            };
            range(start, end, step, axis, len, rank)
        }
    }
}

/// Resolves a range from `start` (inclusive) to `end` (exclusive).
fn range(start: i64, end: i64, step: i64, axis: usize, len: usize, rank: usize) -> HostResult<ResolvedSlice> {
    let last = len as i64;
    let is_in_range = match step > 0 {
        true => (0..=last).contains(&start) && (start >= end || end <= last) && end >= 0,
        // An empty axis only permits empty ranges.
        false => {
            let starts = (-1..last).contains(&start) || (start == 0 && last == 0 && end >= 0);
            starts && (start <= end || end >= -1) && end <= last
        }
    };
    if !is_in_range {
        return Err(slice_out_of_range(start, end, axis, len, rank));
    }
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance > 0 { (distance as u64).div_ceil(step.unsigned_abs()) as usize } else { 0 };
    Ok(ResolvedSlice { start: start.max(0) as usize, count, step, single: false })
}

/// Returns the name of an axis for messages: `axis 1`, or `the array` if there is only one axis.
fn axis_name(axis: usize, rank: usize) -> String {
    if rank == 1 { "the array".into() } else { format!("axis {axis}") }
}

fn elements(count: usize) -> String {
    if count == 1 { "1 element".into() } else { format!("{count} elements") }
}

/// Returns source code for the length of an axis, for messages.
fn length_source(axis: usize) -> String {
    if axis == 0 { "len(x)".into() } else { format!("shape(x, {axis})") }
}

/// Returns the error for an index out of range.
pub(crate) fn out_of_range(index: i64, axis: usize, len: usize, rank: usize) -> RuntimeError {
    let place = axis_name(axis, rank);
    if index < 0 {
        let title = format!("the index {index} is negative");
        let last = format!("{} - {}", length_source(axis), index.unsigned_abs());
        return RuntimeError::new("E0502", title)
            .label(format!("{place} has {}", elements(len)))
            .help(format!("count from the end with `x[{last}]`: indices start at 0"));
    }
    let problem = RuntimeError::new("E0502", format!("the index {index} is out of range"));
    match len {
        0 => problem.label(format!("{place} is empty")),
        _ => {
            let problem = problem.label(format!("{place} has {}, so the last index is {}", elements(len), len - 1));
            match usize::try_from(index) == Ok(len) {
                true => problem.help(format!(
                    "indices start at 0: a loop over `x[i]` is `for i in 0..{length}`, and one over `x[i + 1]` is \
                     `for i in 0..{length} - 1`",
                    length = length_source(axis)
                )),
                false => problem,
            }
        }
    }
}

fn slice_out_of_range(start: i64, end: i64, axis: usize, len: usize, rank: usize) -> RuntimeError {
    let problem = RuntimeError::new("E0502", format!("the slice {start}..{end} is out of range of its axis"))
        .label(format!("{} has {}", axis_name(axis, rank), elements(len)));
    match start.min(end) < 0 {
        true => problem.help(format!("count from the end with `{} - n`: indices start at 0", length_source(axis))),
        false if start.max(end) == start || start as u64 > len as u64 => {
            problem.help(format!("a slice of it begins at {len} at the most"))
        }
        false => problem.help(format!("leave the end off to take the rest: `x[{start}..]`")),
    }
}

pub(crate) fn too_many_indices(count: usize, array: &Array) -> RuntimeError {
    let (rank, name) = (array.rank(), array.type_name());
    let axes = if rank == 1 { "1 axis".into() } else { format!("{rank} axes") };
    RuntimeError::new("E0503", format!("{count} indices are given to an array with {axes}"))
        .label(format!("its type is {name}"))
}

impl Array {
    /// Returns the row-major position of the element at these indices, one per axis.
    pub fn position(&self, indices: &[i64]) -> HostResult<usize> {
        if indices.len() != self.rank() {
            return Err(match indices.len() > self.rank() {
                true => too_many_indices(indices.len(), self),
                false => {
                    let (have, rank) = (indices.len(), self.rank());
                    RuntimeError::new("E0503", format!("{have} indices are given to an array with {rank} axes"))
                }
            });
        }
        let mut position = 0;
        for (axis, (&index, &len)) in indices.iter().zip(self.shape()).enumerate() {
            match usize::try_from(index) {
                Ok(at) if at < len => position = position * len + at,
                _ => return Err(out_of_range(index, axis, len, self.rank())),
            }
        }
        Ok(position)
    }

    /// Returns the element at these indices, one per axis.
    pub fn get(&self, indices: &[i64]) -> HostResult<HostValue> {
        let position = self.position(indices)?;
        self.item(position)?.ok_or_else(|| out_of_range(position as i64, 0, self.count(), 1))
    }

    /// Writes the element at these indices, one per axis.
    pub fn set(&mut self, indices: &[i64], value: &HostValue) -> HostResult<()> {
        let position = self.position(indices)?;
        self.set_item(position, value)
    }

    /// Resolves the selection along each axis. Axes without a spec are selected whole.
    pub(crate) fn resolve_slices(&self, specs: &[SliceSpec]) -> HostResult<Vec<ResolvedSlice>> {
        let axes = self.shape();
        if specs.len() > axes.len() {
            return Err(too_many_indices(specs.len(), self));
        }
        let spec = |axis: usize| specs.get(axis).copied().unwrap_or(SliceSpec::ALL);
        axes.iter().enumerate().map(|(axis, &len)| resolve(spec(axis), axis, len, axes.len())).collect()
    }

    /// Assigns one value, or an array that broadcasts to the selection, to the selected elements.
    pub fn assign(&mut self, specs: &[SliceSpec], value: &HostValue) -> HostResult<()> {
        let selection = SliceRuns::new(self, specs)?;
        let run = selection.run;
        match value {
            HostValue::Array(array) => {
                if array.element() != self.element() {
                    return Err(foreign_element(array, self));
                }
                let source = broadcast_for_assignment(array, &selection.shape)?;
                let mut runs = source.bytes()?.chunks_exact(run.max(1));
                let bytes = self.bytes_mut()?;
                selection.for_each_run(|offset| {
                    if let (Some(to), Some(from)) = (bytes.get_mut(offset..offset + run), runs.next()) {
                        stop::copy(to, from);
                    }
                });
            }
            _ => {
                let mut one = vec![0; self.element().size()];
                element_value::write(&self.element().clone(), &mut one, value)?;
                let bytes = self.bytes_mut()?;
                selection.for_each_run(|offset| {
                    let places = bytes.get_mut(offset..offset + run).unwrap_or(&mut []);
                    let places = places.chunks_exact_mut(one.len().max(1));
                    stop::polled(places).for_each(|place| place.copy_from_slice(&one));
                });
            }
        }
        Ok(())
    }
}

/// Broadcasts the array to this shape.
pub(crate) fn broadcast_for_assignment(array: &Array, shape: &[usize]) -> HostResult<Array> {
    broadcast_to(array, shape).ok_or_else(|| {
        let (from, to) = (shape_text(array.shape()), shape_text(shape));
        RuntimeError::new("E0501", format!("an array of shape {from} cannot be assigned to a place of shape {to}"))
            .help("each axis must be as long as that of the assigned slice, or 1")
    })?
}

pub(crate) fn foreign_element(value: &Array, place: &Array) -> RuntimeError {
    let (have, want) = (value.element(), place.element());
    let problem = RuntimeError::new("E0504", format!("an array of {have} cannot be assigned to elements of {want}"));
    match (value.element().scalar(), place.element()) {
        (Some(_), crate::array::ElementType::Scalar(to)) => problem.help(format!("convert it with `{to}(…)`")),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(shape: &[usize]) -> Array {
        let items: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        Array::from_shaped(&items, shape).unwrap()
    }

    fn to(start: i64, end: i64) -> SliceSpec {
        SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: None }
    }

    #[test]
    fn assignment_broadcasts() {
        let mut a = counting(&[2, 3]);
        let before = a.clone();
        a.assign(&[SliceSpec::ALL, to(0, 2)], &HostValue::Array(Array::from_items(&[7, 8]).unwrap())).unwrap();
        assert_eq!(a.items::<i32>().unwrap(), [7, 8, 2, 7, 8, 5]);
        a.assign(&[SliceSpec::At(1)], &HostValue::Int(1)).unwrap();
        assert_eq!(a.items::<i32>().unwrap(), [7, 8, 2, 1, 1, 1]);
        assert_eq!(before, counting(&[2, 3]));
        let long = HostValue::Array(Array::from_items(&[7, 8]).unwrap());
        assert_eq!(a.assign(&[], &long).unwrap_err().code, "E0501");
        assert_eq!(a.assign(&[], &HostValue::of(1.0f32)).unwrap_err().code, "E0504");
    }

    #[test]
    fn indices_out_of_range_are_errors() {
        let a = counting(&[3, 4]);
        let far = a.get(&[0, 4]).unwrap_err();
        assert_eq!(far.title, "the index 4 is out of range");
        assert_eq!(far.label, "axis 1 has 4 elements, so the last index is 3");
        let negative = a.get(&[0, -1]).unwrap_err();
        assert_eq!(negative.help, ["count from the end with `x[shape(x, 1) - 1]`: indices start at 0"]);
    }
}
