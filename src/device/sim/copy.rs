//! Copies of parts of arrays to tiles, for all threads of a block at once.
//!
//! Input: an array in memory, and what is taken along each of its axes. Output: the elements in the order of memory, or the transposition of
//! that as a matrix; beyond the edge are zeros. The idea: along the last axis, elements mostly lie one behind the other, and which of them are
//! inside is known for all at once.

use super::memory::MemoryRt;
use crate::lang::scalar::Float;

/// What is taken along an axis: so many indices from `start` on, every `step`-th, as far as they are below `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub start: i64,
    pub count: usize,
    pub step: i64,
    pub end: i64,
}

/// A window of an axis in bytes, with those of its positions that are inside.
#[derive(Clone, Copy, Default)]
struct Line {
    count: usize,
    inside: (usize, usize),
    first: isize,
    stride: isize,
}

/// The axes of arrays that are copied, at most.
pub(crate) const MOST_AXES: usize = 6;

/// Copies the windows of an array, one for each axis, whose elements have `size` bytes.
///
/// # Safety
/// The memory is readable, and `to`, which is apart from it, is writable for all elements; there are no more axes than [`MOST_AXES`].
pub(crate) unsafe fn copy(from: &MemoryRt, windows: &[Window], size: usize, to: *mut u8) {
    let mut lines = [Line { count: 1, inside: (0, 1), ..Line::default() }; MOST_AXES];
    let mut used = 0;
    let mut start = 0;
    for (window, axis) in windows.iter().zip(&from.axes) {
        let end = window.end.min(axis.extent);
        // The first position at or behind an index.
        let position = |index: i64| (index - window.start).clamp(0, i64::MAX - window.step) + window.step - 1;
        let inside = |index: i64| ((position(index) / window.step) as usize).min(window.count);
        let (low, high) = (inside(0), inside(end));
        let line = Line {
            count: window.count,
            inside: (low, high.max(low)),
            first: (window.start as isize).wrapping_mul(axis.pitch as isize),
            stride: (window.step * axis.pitch) as isize,
        };
        if window.count == 1 && line.inside == (0, 1) {
            // The same for all.
            start += line.first;
            continue;
        }
        lines[used] = line;
        used += 1;
    }
    let (outer, inner) = lines[..used.max(1)].split_at(used.max(1) - 1);
    // SAFETY: as the caller says; the elements inside are those of the array.
    unsafe { rows(outer, &inner[0], from.ptr.wrapping_offset(start), size, to) };
}

/// Copies the rows of a part; returns where the next one goes.
///
/// # Safety
/// As for [`copy`].
unsafe fn rows(outer: &[Line], inner: &Line, from: *const u8, size: usize, mut to: *mut u8) -> *mut u8 {
    // SAFETY: as the caller says.
    unsafe {
        let Some((line, outer)) = outer.split_first() else { return row(inner, from, size, to) };
        let bytes = size * inner.count * outer.iter().map(|line| line.count).product::<usize>();
        let (low, high) = line.inside;
        to.write_bytes(0, low * bytes);
        to = to.add(low * bytes);
        let whole = outer.is_empty() && inner.inside == (0, inner.count) && inner.stride == size as isize;
        let from = from.wrapping_offset(line.first);
        for position in low..high {
            let from = from.wrapping_offset(position as isize * line.stride);
            if whole && bytes >= PIECE {
                pieces(from.wrapping_offset(inner.first), bytes, to);
                to = to.add(bytes);
            } else {
                to = rows(outer, inner, from, size, to);
            }
        }
        let behind = (line.count - high) * bytes;
        to.write_bytes(0, behind);
        to.add(behind)
    }
}

/// Bytes that are copied at once.
const PIECE: usize = 16;

/// Copies some bytes, at least [`PIECE`]; rows are too short to call a function for each.
///
/// # Safety
/// So many are readable and writable.
#[inline(always)]
unsafe fn pieces(from: *const u8, bytes: usize, to: *mut u8) {
    let mut done = 0;
    while done < bytes {
        // The last piece may be copied in part twice.
        done = done.min(bytes - PIECE);
        // SAFETY: as the caller says.
        unsafe {
            to.add(done).cast::<[u8; PIECE]>().write_unaligned(from.add(done).cast::<[u8; PIECE]>().read_unaligned())
        };
        done += PIECE;
    }
}

/// Copies a row.
///
/// # Safety
/// As for [`copy`].
unsafe fn row(line: &Line, from: *const u8, size: usize, to: *mut u8) -> *mut u8 {
    let (low, high) = line.inside;
    // SAFETY: as the caller says.
    unsafe {
        to.write_bytes(0, low * size);
        let (from, at) = (from.wrapping_offset(line.first), to.add(low * size));
        let from = from.wrapping_offset(low as isize * line.stride);
        match size {
            _ if line.stride == size as isize => std::ptr::copy_nonoverlapping(from, at, (high - low) * size),
            2 => apart::<2>(from, line.stride, at, high - low),
            4 => apart::<4>(from, line.stride, at, high - low),
            8 => apart::<8>(from, line.stride, at, high - low),
            _ => apart::<1>(from, line.stride, at, high - low),
        }
        let end = to.add(high * size);
        end.write_bytes(0, (line.count - high) * size);
        to.add(line.count * size)
    }
}

/// Copies elements that are apart from each other.
///
/// # Safety
/// As for [`copy`].
unsafe fn apart<const N: usize>(from: *const u8, stride: isize, to: *mut u8, count: usize) {
    for k in 0..count {
        let from = from.wrapping_offset(k as isize * stride).cast::<[u8; N]>();
        // SAFETY: as the caller says.
        unsafe { to.add(k * N).cast::<[u8; N]>().write_unaligned(from.read_unaligned()) };
    }
}

/// Transposes a matrix of so many rows and columns.
///
/// # Safety
/// Both are apart; one is readable, the other one writable.
pub(crate) unsafe fn transpose(from: *const u8, [rows, columns]: [usize; 2], size: usize, to: *mut u8) {
    // SAFETY: as the caller says.
    unsafe {
        match size {
            2 => cells::<2>(from, [rows, columns], to),
            4 => cells::<4>(from, [rows, columns], to),
            8 => cells::<8>(from, [rows, columns], to),
            _ => cells::<1>(from, [rows, columns], to),
        }
    }
}

/// The edge of the squares that are transposed at once.
const CELL: usize = 8;

/// # Safety
/// As for [`transpose`].
unsafe fn cells<const N: usize>(from: *const u8, [rows, columns]: [usize; 2], to: *mut u8) {
    let (from, to) = (from.cast::<[u8; N]>(), to.cast::<[u8; N]>());
    for top in (0..rows).step_by(CELL) {
        let height = (rows - top).min(CELL);
        for left in (0..columns).step_by(CELL) {
            let width = (columns - left).min(CELL);
            // SAFETY: as the caller says.
            unsafe {
                let (from, to) = (from.add(top * columns + left), to.add(left * rows + top));
                if N == 2 && height == CELL && width == CELL && square(from.cast(), columns, to.cast(), rows) {
                    continue;
                }
                for row in 0..height {
                    for column in 0..width {
                        *to.add(column * rows + row) = *from.add(row * columns + column);
                    }
                }
            }
        }
    }
}

/// Transposes a square of 16-bit elements, if there are instructions for that.
///
/// # Safety
/// The square is readable and writable; rows are so many elements apart.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn square(from: *const u16, from_stride: usize, to: *mut u16, to_stride: usize) -> bool {
    use std::arch::x86_64::*;
    // SAFETY: as the caller says.
    unsafe {
        let r: [__m128i; 8] = std::array::from_fn(|k| _mm_loadu_si128(from.add(k * from_stride).cast()));
        // Pairs, then fours, then eights of a column.
        let pairs = |k: usize| (_mm_unpacklo_epi16(r[k], r[k + 1]), _mm_unpackhi_epi16(r[k], r[k + 1]));
        let p = [pairs(0), pairs(2), pairs(4), pairs(6)];
        let fours = |a: (__m128i, __m128i), b: (__m128i, __m128i)| {
            [
                _mm_unpacklo_epi32(a.0, b.0),
                _mm_unpackhi_epi32(a.0, b.0),
                _mm_unpacklo_epi32(a.1, b.1),
                _mm_unpackhi_epi32(a.1, b.1),
            ]
        };
        let (top, bottom) = (fours(p[0], p[1]), fours(p[2], p[3]));
        for k in 0..4 {
            _mm_storeu_si128(to.add(2 * k * to_stride).cast(), _mm_unpacklo_epi64(top[k], bottom[k]));
            _mm_storeu_si128(to.add((2 * k + 1) * to_stride).cast(), _mm_unpackhi_epi64(top[k], bottom[k]));
        }
    }
    true
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn square(_: *const u16, _: usize, _: *mut u16, _: usize) -> bool {
    false
}

/// Rounds numbers by `tf32`.
///
/// # Safety
/// So many are readable and writable.
pub(crate) unsafe fn round(numbers: *mut f32, count: usize) {
    for k in 0..count {
        // SAFETY: as the caller says.
        unsafe { numbers.add(k).write_unaligned(numbers.add(k).read_unaligned().op_tf32()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::memory::layout::Axis;

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: i64) -> i64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 20) as i64 % n
        }
    }

    fn window(random: &mut Random, extent: i64) -> Window {
        match random.below(4) {
            0 => Window { start: random.below(extent), count: 1, step: 1, end: i64::MAX },
            1 => Window {
                start: random.below(30) - 12,
                count: 1 + random.below(9) as usize,
                step: 1 + random.below(3),
                end: random.below(20) - 3,
            },
            _ => Window { start: random.below(30) - 12, count: 1 + random.below(20) as usize, step: 1, end: i64::MAX },
        }
    }

    #[test]
    fn windows_are_copied_with_zeros_beyond_the_edge() {
        let mut random = Random(88_172_645_463_325_252);
        for _ in 0..3000 {
            let size = [1, 2, 4, 8][random.below(4) as usize];
            let extents: Vec<u32> = (0..1 + random.below(4)).map(|_| 1 + random.below(12) as u32).collect();
            let windows: Vec<Window> = extents.iter().map(|&n| window(&mut random, n.into())).collect();
            let len = extents.iter().product::<u32>() as usize * size;
            let mut data: Vec<u8> = (0..len).map(|k| (k * 37 % 251) as u8 + 1).collect();
            let axes: Vec<Axis> = MemoryRt::axes(&extents, size);
            let memory = MemoryRt { ptr: data.as_mut_ptr(), len, axes, alone: true, unit: 1 };
            let count: usize = windows.iter().map(|window| window.count).product();
            let mut want = vec![];
            for position in 0..count {
                let (mut rest, mut at, mut inside) = (position, 0, true);
                for (window, axis) in windows.iter().zip(&memory.axes).rev() {
                    let index = window.start + (rest % window.count) as i64 * window.step;
                    rest /= window.count;
                    inside &= (0..axis.extent.min(window.end)).contains(&index);
                    at += index * axis.pitch;
                }
                want.extend((0..size).map(|k| if inside { data[at as usize + k] } else { 0 }));
            }
            let mut found = vec![0xee; want.len() + 8];
            // SAFETY: the array is readable, and there is room for all elements.
            unsafe { copy(&memory, &windows, size, found.as_mut_ptr()) };
            assert_eq!(found[..want.len()], want, "{size} bytes, {extents:?}, {windows:?}");
            assert!(found[want.len()..].iter().all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn matrices_are_transposed() {
        let mut random = Random(77);
        for _ in 0..300 {
            let size = [1, 2, 4, 8][random.below(4) as usize];
            let [rows, columns] = [0, 1].map(|_| 1 + random.below(30) as usize);
            let from: Vec<u8> = (0..rows * columns * size).map(|_| random.below(256) as u8).collect();
            let mut to = vec![0; from.len()];
            // SAFETY: both have so many elements.
            unsafe { transpose(from.as_ptr(), [rows, columns], size, to.as_mut_ptr()) };
            for at in 0..rows * columns {
                let (row, column) = (at / columns, at % columns);
                assert_eq!(from[at * size..][..size], to[(column * rows + row) * size..][..size]);
            }
        }
    }
}
