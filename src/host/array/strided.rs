//! Elements of an array at regularly spaced positions: what slices, transposes, flips and repetitions select, and copying them out.

use crate::base::stop::{self, Ticks};
use crate::device::sim;

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

/// The rows and columns of the blocks in which elements are copied that lie apart in both arrays, so that both stay in cache: the
/// elements of a row may all lie in one set of it.
const BLOCK: usize = 128;
const COLUMNS: usize = 16;
/// Bytes from which several workers copy, and those that one of them copies at a time.
const MUCH: usize = 1 << 19;
const SHARE: usize = 1 << 19;

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

    /// Copies the elements, which have so many bytes, in the order of the result, on so many workers.
    pub fn copy_out(&self, from: &[u8], size: usize, to: &mut [u8], workers: usize) {
        if self.count() == 0 || size == 0 {
            return;
        }
        let merged = self.merged();
        let outer = merged.shape.len().saturating_sub(2);
        let (rows, down) = match (&merged.shape[outer..], &merged.strides[outer..]) {
            ([rows, _], [down, _]) => (*rows, *down),
            _ => (1, 0),
        };
        let (columns, across) = (*merged.shape.last().unwrap_or(&1), *merged.strides.last().unwrap_or(&1));
        let (row, inner) = (columns * size, rows * columns * size);
        // A share is a number of tables, or of rows of one.
        let (tables, band) = match inner < SHARE {
            true => (SHARE / inner, rows),
            false => (1, (SHARE / row).max(1).next_multiple_of(BLOCK)),
        };
        let workers = if to.len() < MUCH { 1 } else { workers };
        let shares = to.chunks_mut(inner * tables).enumerate().flat_map(|(number, chunk)| {
            let bands = chunk.chunks_mut(if tables > 1 { inner * tables } else { band * row });
            bands.enumerate().map(move |(k, chunk)| (number * tables, k * band, chunk))
        });
        sim::each(workers, shares, |(first, top, chunk)| {
            let ticks = Ticks::default();
            for (number, chunk) in chunk.chunks_mut(inner).enumerate() {
                let start = merged.start(outer, first + number) + top as isize * down;
                let start = start.max(0) as usize;
                let table = Table { start, rows: chunk.len() / row, columns, down, across };
                table.copy(from, size, chunk, &ticks);
            }
        });
    }

    /// Returns the position of the first element of the table with this number, whose place the outer axes say.
    fn start(&self, outer: usize, mut number: usize) -> isize {
        let mut start = self.offset as isize;
        for (&len, &stride) in self.shape[..outer].iter().zip(&self.strides[..outer]).rev() {
            start += (number % len) as isize * stride;
            number /= len;
        }
        start
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
                    let first = self.at(position / self.columns, position % self.columns) * size;
                    if let Some(from) = from.get(first..first + size) {
                        place.copy_from_slice(from);
                    }
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
            for left in (0..self.columns).step_by(COLUMNS) {
                ticks.pass(BLOCK * COLUMNS);
                let right = self.columns.min(left + COLUMNS);
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

    fn copied(shape: &[usize], offset: usize, strides: &[isize]) -> Vec<u8> {
        let from: Vec<u8> = (0..120).collect();
        let lattice = Lattice { shape: shape.to_vec(), offset, strides: strides.to_vec() };
        let mut found = vec![255; lattice.count() * 2];
        lattice.copy_out(&from, 2, &mut found, 1);
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

    /// Elements of all sizes, in tables that workers share by rows, in many small ones, and backward.
    #[test]
    fn workers_copy_what_one_does() {
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
                let mut wanted: Vec<u8> = Vec::new();
                for position in 0..lattice.count() {
                    let (mut rest, mut at) = (position, back as isize);
                    for (&len, &stride) in shape.iter().zip(strides).rev() {
                        at += (rest % len) as isize * stride;
                        rest /= len;
                    }
                    wanted.extend(&from[at as usize * size..][..size]);
                }
                for workers in [1, 3] {
                    let mut found = vec![0; wanted.len()];
                    lattice.copy_out(&from, size, &mut found, workers);
                    assert!(found == wanted, "{shape:?} by {strides:?}, {size} bytes, {workers} workers");
                }
            }
        }
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
