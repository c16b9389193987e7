//! NumPy-style broadcasting: shapes are aligned at their last axes, and an axis of extent 1 repeats.

use crate::array::strided::Lattice;
use crate::array::{Array, shape_text};
use crate::problem::{HostResult, RuntimeError};

/// Returns the broadcast shape of operands with these names and shapes. The error names the first axis that does not
/// match.
pub(crate) fn common_shape(operands: &[(&str, &[usize])]) -> HostResult<Vec<usize>> {
    let rank = operands.iter().map(|(_, shape)| shape.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for (position, (_, shape)) in operands.iter().enumerate() {
        let leading = rank - shape.len();
        for (axis, (place, &len)) in result.iter_mut().skip(leading).zip(shape.iter()).enumerate() {
            match (*place, len) {
                (1, _) => *place = len,
                (a, b) if a == b || b == 1 => {}
                _ => return Err(mismatch(operands, position, leading + axis, rank)),
            }
        }
    }
    Ok(result)
}

/// Returns the error for the operand at `position`, whose extent does not match the one of an earlier operand at `axis`
/// of the result.
fn mismatch(operands: &[(&str, &[usize])], position: usize, axis: usize, rank: usize) -> RuntimeError {
    let extent =
        |shape: &[usize]| (axis + shape.len()).checked_sub(rank).and_then(|own| shape.get(own).map(|&n| (own, n)));
    let earlier = operands.iter().take(position).find(|(_, shape)| extent(shape).is_some_and(|(_, n)| n != 1));
    let (Some((first, a)), Some((second, b))) = (earlier, operands.get(position)) else {
        return RuntimeError::new("E0501", "the shapes of the operands do not fit together");
    };
    let title = format!("arrays of shape {} and {} do not fit together", shape_text(a), shape_text(b));
    let mut problem = RuntimeError::new("E0501", title);
    if let (Some((axis_a, m)), Some((axis_b, n))) = (extent(a), extent(b)) {
        problem = problem.label(format!("axis {axis_a} of {first} is {m} long, axis {axis_b} of {second} is {n} long"));
        if m.abs_diff(n) == 1 {
            problem = problem.help("the end of a slice is excluded: `x[a..b]` has b - a elements");
        }
    }
    problem.note("shapes are aligned at their last axes; two axes fit if they are equally long or one of them is 1")
}

/// Returns the strides in elements for reading an array of the shape `own` broadcast to `shape`: 0 for axes along which
/// it is repeated.
pub(crate) fn strides(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let mut result = vec![0; shape.len()];
    let mut stride = 1;
    for (place, &len) in result.iter_mut().rev().zip(own.iter().rev()) {
        *place = if len == 1 { 0 } else { stride };
        stride *= len;
    }
    result
}

/// Broadcasts the array to a shape; `None` if the shapes do not match.
pub(crate) fn broadcast_to(array: &Array, shape: &[usize]) -> Option<HostResult<Array>> {
    if array.shape() == shape {
        return Some(Ok(array.clone()));
    }
    repeats_to(array.shape(), shape).then(|| repeat(array, shape))
}

/// Returns whether an array of the shape `own` broadcasts to a shape.
pub(crate) fn repeats_to(own: &[usize], shape: &[usize]) -> bool {
    let leading = shape.len().checked_sub(own.len());
    leading.is_some_and(|leading| shape.iter().skip(leading).zip(own).all(|(&n, &own)| own == n || own == 1))
}

fn repeat(array: &Array, shape: &[usize]) -> HostResult<Array> {
    let strides = strides(array.shape(), shape).into_iter().map(|stride| stride as isize).collect();
    let mut result = Array::zeros(array.element().clone(), shape)?;
    let lattice = Lattice { shape: shape.to_vec(), offset: 0, strides };
    lattice.copy_out(array.bytes()?, array.element().size(), result.bytes_mut()?, 1);
    Ok(result)
}

/// Iterates over a shape in row-major order and tracks the offsets of `N` operands.
pub(crate) struct BroadcastIter<const N: usize> {
    shape: Vec<usize>,
    strides: [Vec<usize>; N],
    indices: Vec<usize>,
    offsets: [usize; N],
}

impl<const N: usize> BroadcastIter<N> {
    pub fn new(shape: &[usize], strides: [Vec<usize>; N]) -> Self {
        BroadcastIter { shape: shape.to_vec(), strides, indices: vec![0; shape.len()], offsets: [0; N] }
    }

    pub fn offsets(&self) -> [usize; N] {
        self.offsets
    }

    /// Advances to the next element. After the last element, starts again at the first one.
    pub fn advance(&mut self) {
        for axis in (0..self.shape.len()).rev() {
            let (Some(index), Some(&len)) = (self.indices.get_mut(axis), self.shape.get(axis)) else { return };
            *index += 1;
            let wrapped = *index >= len;
            let back = if wrapped { std::mem::take(index) } else { 0 };
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                let stride = strides.get(axis).copied().unwrap_or(0);
                *offset = *offset + stride - back * stride;
            }
            if !wrapped {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_aligned_at_their_last_axes() {
        let common = |a: &[usize], b: &[usize]| common_shape(&[("the left side", a), ("the right side", b)]);
        assert_eq!(common(&[3, 1], &[4]).unwrap(), [3, 4]);
        assert_eq!(common(&[], &[2, 2]).unwrap(), [2, 2]);
        assert_eq!(common(&[0, 3], &[1, 3]).unwrap(), [0, 3]);
        let problem = common(&[2, 3], &[4]).unwrap_err();
        assert_eq!(problem.title, "arrays of shape (2, 3) and (4,) do not fit together");
        assert_eq!(problem.label, "axis 1 of the left side is 3 long, axis 0 of the right side is 4 long");
    }

    #[test]
    fn arrays_are_broadcast() {
        let column = Array::from_shaped(&[1i32, 2], &[2, 1]).unwrap();
        let wide = broadcast_to(&column, &[2, 2, 3]).unwrap().unwrap();
        assert_eq!(wide.items::<i32>().unwrap(), [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
        assert!(broadcast_to(&column, &[3, 3]).is_none());
        assert!(broadcast_to(&column, &[2]).is_none());
    }
}
