//! Elements of an array at regularly spaced positions: what slices, transposes, flips and repetitions select, and copying them out.

use crate::base::stop::{self, Ticks};

/// Positions in an array, by indices of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lattice {
    /// The extents of the result.
    pub shape: Vec<usize>,
    /// The position of its first element.
    pub offset: usize,
    /// Per axis of the result, from the position of one element to that of the next.
    pub strides: Vec<isize>,
}

/// Edge of the blocks in which elements are copied that lie apart in both arrays, so that both stay in cache.
const BLOCK: usize = 32;

impl Lattice {
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Merges adjacent axes that advance like one, and drops those of extent 1.
    pub fn merged(&self) -> Lattice {
        let mut merged = Lattice { shape: Vec::new(), offset: self.offset, strides: Vec::new() };
        for (&len, &stride) in self.shape.iter().zip(&self.strides).filter(|(len, _)| **len != 1) {
            match (merged.shape.last_mut(), merged.strides.last_mut()) {
                (Some(outer), Some(step)) if *step == stride * len as isize => {
                    *outer *= len;
                    *step = stride;
                }
                _ => {
                    merged.shape.push(len);
                    merged.strides.push(stride);
                }
            }
        }
        merged
    }

    /// Copies the elements, which have so many bytes, in the order of the result.
    pub fn copy_out(&self, from: &[u8], size: usize, to: &mut [u8]) {
        if self.count() == 0 || size == 0 {
            return;
        }
        let merged = self.merged();
        let outer = merged.shape.len().saturating_sub(2);
        let ticks = Ticks::default();
        let inner = merged.shape.iter().skip(outer).product::<usize>() * size;
        let mut blocks = to.chunks_exact_mut(inner);
        merged.each_outer(outer, &mut |start| {
            let Some(block) = blocks.next() else { return };
            match (&merged.shape[outer..], &merged.strides[outer..]) {
                ([rows, columns], [down, across]) => {
                    let table = Table { start, rows: *rows, columns: *columns, down: *down, across: *across };
                    table.copy(from, size, block, &ticks);
                }
                ([columns], [across]) => {
                    let table = Table { start, rows: 1, columns: *columns, down: 0, across: *across };
                    table.copy(from, size, block, &ticks);
                }
                _ => put(block, from, start * size, size),
            }
        });
    }

    /// Calls `visit` with the position of the first element for each index of the outer axes.
    fn each_outer(&self, outer: usize, visit: &mut impl FnMut(usize)) {
        fn descend(shape: &[usize], strides: &[isize], at: isize, visit: &mut impl FnMut(usize)) {
            match (shape.split_first(), strides.split_first()) {
                (Some((&len, shape)), Some((&stride, strides))) => {
                    (0..len as isize).for_each(|k| descend(shape, strides, at + k * stride, visit));
                }
                _ => visit(at.max(0) as usize),
            }
        }
        descend(&self.shape[..outer], &self.strides[..outer], self.offset as isize, visit);
    }
}

/// Two inner axes.
struct Table {
    start: usize,
    rows: usize,
    columns: usize,
    down: isize,
    across: isize,
}

impl Table {
    fn copy(&self, from: &[u8], size: usize, to: &mut [u8], ticks: &Ticks) {
        let row = self.columns * size;
        if self.across == 1 {
            for (y, place) in to.chunks_exact_mut(row).enumerate() {
                ticks.pass(1);
                let first = self.at(y, 0) * size;
                if let Some(from) = from.get(first..first + row) {
                    stop::copy(place, from);
                }
            }
            return;
        }
        match size {
            1 => self.copy_blocks::<1>(from, to, ticks),
            2 => self.copy_blocks::<2>(from, to, ticks),
            4 => self.copy_blocks::<4>(from, to, ticks),
            8 => self.copy_blocks::<8>(from, to, ticks),
            16 => self.copy_blocks::<16>(from, to, ticks),
            _ => {
                for (position, place) in stop::polled(to.chunks_exact_mut(size).enumerate()) {
                    put(place, from, self.at(position / self.columns, position % self.columns) * size, size);
                }
            }
        }
    }

    /// Returns the position of an element.
    fn at(&self, y: usize, x: usize) -> usize {
        (self.start as isize + y as isize * self.down + x as isize * self.across).max(0) as usize
    }

    fn copy_blocks<const SIZE: usize>(&self, from: &[u8], to: &mut [u8], ticks: &Ticks) {
        let ((from, _), (to, _)) = (from.as_chunks::<SIZE>(), to.as_chunks_mut::<SIZE>());
        for top in (0..self.rows).step_by(BLOCK) {
            for left in (0..self.columns).step_by(BLOCK) {
                ticks.pass(BLOCK * BLOCK);
                let right = self.columns.min(left + BLOCK);
                for y in top..self.rows.min(top + BLOCK) {
                    let places = &mut to[y * self.columns + left..y * self.columns + right];
                    let mut at = self.start as isize + y as isize * self.down + left as isize * self.across;
                    for place in places {
                        if let Some(from) = from.get(at as usize) {
                            *place = *from;
                        }
                        at += self.across;
                    }
                }
            }
        }
    }
}

fn put(place: &mut [u8], from: &[u8], first: usize, size: usize) {
    if let Some(from) = from.get(first..first + size) {
        place.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(shape: &[usize], offset: usize, strides: &[isize]) -> Vec<u8> {
        let from: Vec<u8> = (0..120).collect();
        let lattice = Lattice { shape: shape.to_vec(), offset, strides: strides.to_vec() };
        let mut found = vec![255; lattice.count() * 2];
        lattice.copy_out(&from, 2, &mut found);
        let found: Vec<u8> = found.chunks(2).map(|pair| pair[0] / 2).collect();
        found
    }

    #[test]
    fn elements_are_copied_in_order() {
        assert_eq!(copied(&[3], 5, &[1]), [5, 6, 7]);
        assert_eq!(copied(&[3], 5, &[-2]), [5, 3, 1]);
        assert_eq!(copied(&[2, 3], 0, &[1, 2]), [0, 2, 4, 1, 3, 5]);
        assert_eq!(copied(&[2, 2, 2], 7, &[0, 10, 1]), [7, 8, 17, 18, 7, 8, 17, 18]);
        assert_eq!(copied(&[2, 0], 0, &[1, 1]), [0; 0]);
        assert_eq!(copied(&[], 9, &[]), [9]);
        assert_eq!(copied(&[1, 1], 9, &[4, 4]), [9]);
    }

    #[test]
    fn axes_merge_that_advance_like_one() {
        let whole = Lattice { shape: vec![2, 1, 3, 4], offset: 0, strides: vec![12, 12, 4, 1] };
        assert_eq!(whole.merged(), Lattice { shape: vec![24], offset: 0, strides: vec![1] });
        let back = Lattice { shape: vec![3, 4], offset: 11, strides: vec![-4, -1] };
        assert_eq!(back.merged(), Lattice { shape: vec![12], offset: 11, strides: vec![-1] });
        let repeated = Lattice { shape: vec![3, 4], offset: 0, strides: vec![0, 0] };
        assert_eq!(repeated.merged(), Lattice { shape: vec![12], offset: 0, strides: vec![0] });
    }
}
