//! Copies a window of an array to a tile in shared memory. One op does the copying of all threads of a block.
//!
//! Input: an array, and a window along each of its axes. Output: the window's elements in row-major order, or the
//! transpose of a two-dimensional window. Elements outside the array are zero. Along the last axis, elements are
//! usually contiguous, so whole rows are copied.

use super::memory::MemoryRt;
use clk_scalar::Float;

/// A window of an axis: the indices `start + k * step` for `k` in `0..count`. Indices that are at least `end` are
/// treated as outside the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyWindow {
    pub start: i64,
    pub count: usize,
    pub step: i64,
    pub end: i64,
}

/// A window of an axis with distances in bytes, and the range of its positions (`0..count`) that are inside the array.
#[derive(Clone, Copy, Default)]
struct ByteWindow {
    count: usize,
    inside_range: (usize, usize),
    first: isize,
    stride: isize,
}

/// Maximum number of axes of a copied array.
pub(crate) const MAX_COPIED_AXES: usize = 6;

/// Copies the part of an array that is given by one window for each axis. Elements have `size` bytes.
///
/// # Safety
/// The memory is readable. `to` is writable for all elements and does not overlap the memory. There are at most
/// [`MAX_COPIED_AXES`] axes.
pub(crate) unsafe fn copy_windows(from: &MemoryRt, windows: &[CopyWindow], size: usize, to: *mut u8) {
    let mut lines = [ByteWindow { count: 1, inside_range: (0, 1), ..ByteWindow::default() }; MAX_COPIED_AXES];
    let mut used = 0;
    let mut start = 0;
    for (window, axis) in windows.iter().zip(&from.axes) {
        let end = window.end.min(axis.extent);
        // The first position at or after an index.
        let position = |index: i64| (index - window.start).clamp(0, i64::MAX - window.step) + window.step - 1;
        let inside = |index: i64| ((position(index) / window.step) as usize).min(window.count);
        let (low, high) = (inside(0), inside(end));
        let line = ByteWindow {
            count: window.count,
            inside_range: (low, high.max(low)),
            first: (window.start as isize).wrapping_mul(axis.pitch as isize),
            stride: (window.step * axis.pitch) as isize,
        };
        if window.count == 1 && line.inside_range == (0, 1) {
            // The window is a single index inside the array, so only the start address depends on it.
            start += line.first;
            continue;
        }
        lines[used] = line;
        used += 1;
    }
    let (outer, inner) = lines[..used.max(1)].split_at(used.max(1) - 1);
    // SAFETY: guaranteed by the caller; only elements inside the array are read.
    unsafe { copy_rows(outer, &inner[0], from.ptr.wrapping_offset(start), size, to) };
}

/// Copies the rows of a window to `to`. Returns the address after the last row.
///
/// # Safety
/// As for [`copy_windows`].
unsafe fn copy_rows(
    outer: &[ByteWindow],
    inner: &ByteWindow,
    from: *const u8,
    size: usize,
    mut to: *mut u8,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let Some((line, outer)) = outer.split_first() else { return copy_row(inner, from, size, to) };
        let bytes = size * inner.count * outer.iter().map(|line| line.count).product::<usize>();
        let (low, high) = line.inside_range;
        to.write_bytes(0, low * bytes);
        to = to.add(low * bytes);
        let whole = outer.is_empty() && inner.inside_range == (0, inner.count) && inner.stride == size as isize;
        let from = from.wrapping_offset(line.first);
        for position in low..high {
            let from = from.wrapping_offset(position as isize * line.stride);
            if whole && bytes >= PIECE {
                copy_bytes(from.wrapping_offset(inner.first), bytes, to);
                to = to.add(bytes);
            } else {
                to = copy_rows(outer, inner, from, size, to);
            }
        }
        let padding = (line.count - high) * bytes;
        to.write_bytes(0, padding);
        to.add(padding)
    }
}

/// Number of bytes that are copied at a time.
const PIECE: usize = 16;

/// Copies at least [`PIECE`] bytes. Rows are short, so a call of `memcpy` for each row would be slower.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes.
#[inline(always)]
unsafe fn copy_bytes(from: *const u8, bytes: usize, to: *mut u8) {
    let mut done = 0;
    while done < bytes {
        // The last copy may overlap the one before.
        done = done.min(bytes - PIECE);
        // SAFETY: guaranteed by the caller.
        unsafe {
            to.add(done).cast::<[u8; PIECE]>().write_unaligned(from.add(done).cast::<[u8; PIECE]>().read_unaligned())
        };
        done += PIECE;
    }
}

/// Copies a row of a window; elements outside the array become zero.
///
/// # Safety
/// As for [`copy_windows`].
unsafe fn copy_row(line: &ByteWindow, from: *const u8, size: usize, to: *mut u8) -> *mut u8 {
    let (low, high) = line.inside_range;
    // SAFETY: guaranteed by the caller.
    unsafe {
        to.write_bytes(0, low * size);
        let (from, at) = (from.wrapping_offset(line.first), to.add(low * size));
        let from = from.wrapping_offset(low as isize * line.stride);
        match size {
            _ if line.stride == size as isize => std::ptr::copy_nonoverlapping(from, at, (high - low) * size),
            2 => copy_strided::<2>(from, line.stride, at, high - low),
            4 => copy_strided::<4>(from, line.stride, at, high - low),
            8 => copy_strided::<8>(from, line.stride, at, high - low),
            _ => copy_strided::<1>(from, line.stride, at, high - low),
        }
        let end = to.add(high * size);
        end.write_bytes(0, (line.count - high) * size);
        to.add(line.count * size)
    }
}

/// Copies elements that are `stride` bytes apart.
///
/// # Safety
/// As for [`copy_windows`].
unsafe fn copy_strided<const N: usize>(from: *const u8, stride: isize, to: *mut u8, count: usize) {
    for k in 0..count {
        let from = from.wrapping_offset(k as isize * stride).cast::<[u8; N]>();
        // SAFETY: guaranteed by the caller.
        unsafe { to.add(k * N).cast::<[u8; N]>().write_unaligned(from.read_unaligned()) };
    }
}

/// Transposes a matrix with `rows` rows and `columns` columns.
///
/// # Safety
/// `from` is readable, `to` is writable, and they do not overlap.
pub(crate) unsafe fn transpose(from: *const u8, [rows, columns]: [usize; 2], size: usize, to: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match size {
            2 => transpose_cells::<2>(from, [rows, columns], to),
            4 => transpose_cells::<4>(from, [rows, columns], to),
            8 => transpose_cells::<8>(from, [rows, columns], to),
            _ => transpose_cells::<1>(from, [rows, columns], to),
        }
    }
}

/// Number of rows and columns of the square blocks that are transposed at once.
const CELL: usize = 8;

/// # Safety
/// As for [`transpose`].
unsafe fn transpose_cells<const N: usize>(from: *const u8, [rows, columns]: [usize; 2], to: *mut u8) {
    let (from, to) = (from.cast::<[u8; N]>(), to.cast::<[u8; N]>());
    for top in (0..rows).step_by(CELL) {
        let height = (rows - top).min(CELL);
        for left in (0..columns).step_by(CELL) {
            let width = (columns - left).min(CELL);
            // SAFETY: guaranteed by the caller.
            unsafe {
                let (from, to) = (from.add(top * columns + left), to.add(left * rows + top));
                if N == 2 && height == CELL && width == CELL && transpose_square(from.cast(), columns, to.cast(), rows)
                {
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

/// Transposes a square block of 16-bit elements. Returns false if the architecture has no instructions for this.
///
/// # Safety
/// The block is readable at `from` and writable at `to`. The strides are in elements.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_square(from: *const u16, from_stride: usize, to: *mut u16, to_stride: usize) -> bool {
    use std::arch::x86_64::*;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let r: [__m128i; 8] = std::array::from_fn(|k| _mm_loadu_si128(from.add(k * from_stride).cast()));
        // Interleave pairs of rows, then groups of four rows, then all eight rows.
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
unsafe fn transpose_square(_: *const u16, _: usize, _: *mut u16, _: usize) -> bool {
    false
}

/// Rounds numbers to TF32.
///
/// # Safety
/// `count` numbers are readable and writable.
pub(crate) unsafe fn round_to_tf32(numbers: *mut f32, count: usize) {
    for k in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { numbers.add(k).write_unaligned(numbers.add(k).read_unaligned().op_tf32()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::layout::AxisLayout;

    struct TestRandom(u64);

    impl TestRandom {
        fn below(&mut self, n: i64) -> i64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 20) as i64 % n
        }
    }

    fn window(random: &mut TestRandom, extent: i64) -> CopyWindow {
        match random.below(4) {
            0 => CopyWindow { start: random.below(extent), count: 1, step: 1, end: i64::MAX },
            1 => CopyWindow {
                start: random.below(30) - 12,
                count: 1 + random.below(9) as usize,
                step: 1 + random.below(3),
                end: random.below(20) - 3,
            },
            _ => CopyWindow {
                start: random.below(30) - 12,
                count: 1 + random.below(20) as usize,
                step: 1,
                end: i64::MAX,
            },
        }
    }

    #[test]
    fn windows_are_copied_with_zeros_outside_the_array() {
        let mut random = TestRandom(88_172_645_463_325_252);
        for _ in 0..3000 {
            let size = [1, 2, 4, 8][random.below(4) as usize];
            let extents: Vec<u32> = (0..1 + random.below(4)).map(|_| 1 + random.below(12) as u32).collect();
            let windows: Vec<CopyWindow> = extents.iter().map(|&n| window(&mut random, n.into())).collect();
            let len = extents.iter().product::<u32>() as usize * size;
            let mut data: Vec<u8> = (0..len).map(|k| (k * 37 % 251) as u8 + 1).collect();
            let axes: Vec<AxisLayout> = MemoryRt::axes(&extents, size);
            let memory = MemoryRt { ptr: data.as_mut_ptr(), len, axes, is_unshared: true, offset_unit: 1 };
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
            let mut copied = vec![0xee; want.len() + 8];
            // SAFETY: the array is readable, and `copied` has room for all elements.
            unsafe { copy_windows(&memory, &windows, size, copied.as_mut_ptr()) };
            assert_eq!(copied[..want.len()], want, "{size} bytes, {extents:?}, {windows:?}");
            assert!(copied[want.len()..].iter().all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn matrices_are_transposed() {
        let mut random = TestRandom(77);
        for _ in 0..300 {
            let size = [1, 2, 4, 8][random.below(4) as usize];
            let [rows, columns] = [0, 1].map(|_| 1 + random.below(30) as usize);
            let from: Vec<u8> = (0..rows * columns * size).map(|_| random.below(256) as u8).collect();
            let mut to = vec![0; from.len()];
            // SAFETY: both have `rows * columns` elements.
            unsafe { transpose(from.as_ptr(), [rows, columns], size, to.as_mut_ptr()) };
            for at in 0..rows * columns {
                let (row, column) = (at / columns, at % columns);
                assert_eq!(from[at * size..][..size], to[(column * rows + row) * size..][..size]);
            }
        }
    }
}
