//! Strided copies: copies the elements that a slice, transpose, flip or broadcast selects.

use clk_base::stop::{self, Ticks};

/// Positions in an array as an affine function of the indices of a result: `offset` plus the sum of index times stride.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lattice {
    /// The extents of the result.
    pub shape: Vec<usize>,
    /// The position of the result's first element.
    pub offset: usize,
    /// For each axis of the result, the distance in elements between the positions of two neighbors.
    pub strides: Vec<isize>,
}

/// Number of rows and columns of a block in the blocked copy, which is used if neighboring elements are not adjacent in
/// the source. Blocks make source and destination fit in the cache, even if all elements of a row map to one cache set.
const BLOCK: usize = 128;
const BLOCK_COLUMNS: usize = 16;
/// Minimum size in bytes of a copy that several workers share.
const MIN_PARALLEL_BYTES: usize = 1 << 19;
/// Number of bytes that a worker copies at a time.
const BYTES_PER_TASK: usize = 1 << 19;

impl Lattice {
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Merges adjacent axes with compatible strides, and drops axes of extent 1.
    pub fn merge_axes(&self) -> Lattice {
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

    /// Copies the elements, of `size` bytes each, to `to` in the order of the result. Uses this number of workers.
    pub fn copy_out(&self, from: &[u8], size: usize, to: &mut [u8], workers: usize) {
        if self.count() == 0 || size == 0 {
            return;
        }
        let merged = self.merge_axes();
        let outer = merged.shape.len().saturating_sub(2);
        let (rows, down) = match (&merged.shape[outer..], &merged.strides[outer..]) {
            ([rows, _], [down, _]) => (*rows, *down),
            _ => (1, 0),
        };
        let (columns, across) = (*merged.shape.last().unwrap_or(&1), *merged.strides.last().unwrap_or(&1));
        let (row, inner) = (columns * size, rows * columns * size);
        // A table is the two innermost axes. Each task copies several tables, or a band of rows of one table.
        let (tables, band) = match inner < BYTES_PER_TASK {
            true => (BYTES_PER_TASK / inner, rows),
            false => (1, (BYTES_PER_TASK / row).max(1).next_multiple_of(BLOCK)),
        };
        let workers = if to.len() < MIN_PARALLEL_BYTES { 1 } else { workers };
        let shares = to.chunks_mut(inner * tables).enumerate().flat_map(|(number, chunk)| {
            let bands = chunk.chunks_mut(if tables > 1 { inner * tables } else { band * row });
            bands.enumerate().map(move |(k, chunk)| (number * tables, k * band, chunk))
        });
        clk_sim::parallel_for(workers, shares, |(first, top, chunk)| {
            let ticks = Ticks::default();
            for (number, chunk) in chunk.chunks_mut(inner).enumerate() {
                let start = merged.table_start(outer, first + number) + top as isize * down;
                let start = start.max(0) as usize;
                let table = InnerAxes { start, rows: chunk.len() / row, columns, down, across };
                table.copy(from, size, chunk, &ticks);
            }
        });
    }

    /// Returns the position of the first element of the table with this number. The outer axes enumerate the tables.
    fn table_start(&self, outer: usize, mut number: usize) -> isize {
        let mut start = self.offset as isize;
        for (&len, &stride) in self.shape[..outer].iter().zip(&self.strides[..outer]).rev() {
            start += (number % len) as isize * stride;
            number /= len;
        }
        start
    }
}

/// A table: the two innermost axes.
struct InnerAxes {
    start: usize,
    rows: usize,
    columns: usize,
    down: isize,
    across: isize,
}

impl InnerAxes {
    fn copy(&self, from: &[u8], size: usize, to: &mut [u8], ticks: &Ticks) {
        let row = self.columns * size;
        if self.across == 1 {
            for (y, place) in to.chunks_exact_mut(row).enumerate() {
                ticks.advance(1);
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
                    let first = self.at(position / self.columns, position % self.columns) * size;
                    if let Some(from) = from.get(first..first + size) {
                        place.copy_from_slice(from);
                    }
                }
            }
        }
    }

    /// Returns the position of the element in row `y` and column `x`.
    fn at(&self, y: usize, x: usize) -> usize {
        (self.start as isize + y as isize * self.down + x as isize * self.across).max(0) as usize
    }

    fn copy_blocks<const SIZE: usize>(&self, from: &[u8], to: &mut [u8], ticks: &Ticks) {
        let ((from, _), (to, _)) = (from.as_chunks::<SIZE>(), to.as_chunks_mut::<SIZE>());
        for top in (0..self.rows).step_by(BLOCK) {
            for left in (0..self.columns).step_by(BLOCK_COLUMNS) {
                ticks.advance(BLOCK * BLOCK_COLUMNS);
                let right = self.columns.min(left + BLOCK_COLUMNS);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_strided(shape: &[usize], offset: usize, strides: &[isize]) -> Vec<u8> {
        let from: Vec<u8> = (0..120).collect();
        let lattice = Lattice { shape: shape.to_vec(), offset, strides: strides.to_vec() };
        let mut copy = vec![255; lattice.count() * 2];
        lattice.copy_out(&from, 2, &mut copy, 1);
        let copy: Vec<u8> = copy.chunks(2).map(|pair| pair[0] / 2).collect();
        copy
    }

    #[test]
    fn elements_are_copied_in_order() {
        assert_eq!(copy_strided(&[3], 5, &[1]), [5, 6, 7]);
        assert_eq!(copy_strided(&[3], 5, &[-2]), [5, 3, 1]);
        assert_eq!(copy_strided(&[2, 3], 0, &[1, 2]), [0, 2, 4, 1, 3, 5]);
        assert_eq!(copy_strided(&[2, 2, 2], 7, &[0, 10, 1]), [7, 8, 17, 18, 7, 8, 17, 18]);
        assert_eq!(copy_strided(&[2, 0], 0, &[1, 1]), [0; 0]);
        assert_eq!(copy_strided(&[], 9, &[]), [9]);
        assert_eq!(copy_strided(&[1, 1], 9, &[4, 4]), [9]);
    }

    /// Copies elements of all sizes: tables that workers share by rows, many small tables, and negative strides.
    #[test]
    fn copies_do_not_depend_on_the_number_of_workers() {
        let shapes: [(&[usize], &[isize]); 6] = [
            (&[300, 500], &[1, 300]),
            (&[300, 500], &[-1, 300]),
            (&[37, 61, 65], &[1, 37 * 65, 37]),
            (&[30_000, 2, 3], &[6, 1, 2]),
            (&[7, 200, 100], &[0, 100, 1]),
            (&[150_000], &[-1]),
        ];
        for (shape, strides) in shapes {
            for size in [1, 2, 3, 4, 8, 12, 16] {
                let most = shape.iter().zip(strides).map(|(&n, &by)| (n - 1) * by.unsigned_abs()).sum::<usize>();
                let back = shape.iter().zip(strides).map(|(&n, &by)| (n - 1) * (-by).max(0) as usize).sum::<usize>();
                let from: Vec<u8> = (0..(most + 1) * size)
                    .map(|i| (i as u32).wrapping_mul(0x9e37_79b9) as u8 ^ (i >> 8) as u8)
                    .collect();
                let lattice = Lattice { shape: shape.to_vec(), offset: back, strides: strides.to_vec() };
                let mut expected: Vec<u8> = Vec::new();
                for position in 0..lattice.count() {
                    let (mut rest, mut at) = (position, back as isize);
                    for (&len, &stride) in shape.iter().zip(strides).rev() {
                        at += (rest % len) as isize * stride;
                        rest /= len;
                    }
                    expected.extend(&from[at as usize * size..][..size]);
                }
                for workers in [1, 3] {
                    let mut copy = vec![0; expected.len()];
                    lattice.copy_out(&from, size, &mut copy, workers);
                    assert!(copy == expected, "{shape:?} by {strides:?}, {size} bytes, {workers} workers");
                }
            }
        }
    }

    #[test]
    fn axes_with_compatible_strides_are_merged() {
        let whole = Lattice { shape: vec![2, 1, 3, 4], offset: 0, strides: vec![12, 12, 4, 1] };
        assert_eq!(whole.merge_axes(), Lattice { shape: vec![24], offset: 0, strides: vec![1] });
        let back = Lattice { shape: vec![3, 4], offset: 11, strides: vec![-4, -1] };
        assert_eq!(back.merge_axes(), Lattice { shape: vec![12], offset: 11, strides: vec![-1] });
        let repeated = Lattice { shape: vec![3, 4], offset: 0, strides: vec![0, 0] };
        assert_eq!(repeated.merge_axes(), Lattice { shape: vec![12], offset: 0, strides: vec![0] });
    }
}
