//! Products of tiles whose terms are added by `fma`, one after the other, with the bits of the loop that does so (`lower::tiles`).
//!
//! Input: tiles in memory, row by row. Output: the sum, to which the product is added. The idea is that of `super`, on a smaller scale: factors
//! become `f32`, in strips of columns and panels of rows, and sums stay in registers.

use super::super::isa::Isa;
use super::desk::with_desk;
use super::held::Held;
use super::micro::{Before, Number, Place, ROW, RUN, partial};
use super::widen;

/// Adds the terms of each element one after the other.
///
/// # Safety
/// The product is covered, and `N` is the type of its factors. These are readable, and the sum, which is apart from them, is writable.
pub(super) unsafe fn add<N: widen::Narrow>(
    held: &Held,
    isa: Isa,
    sum: *mut f32,
    left: *const u8,
    right: *const u8,
) -> Option<()> {
    let Held { rows, columns, inner, .. } = *held;
    let tiles = f32::tiles(isa)?;
    let (lanes, height) = (tiles.lanes, tiles.rows());
    let (across, room) = (2 * lanes, columns.next_multiple_of(lanes) * (inner.min(RUN) + 1));
    with_desk((room + height * ROW) * size_of::<f32>(), |desk| {
        let (strips, panel) = bytemuck::cast_slice_mut::<u8, f32>(desk).split_at_mut(room);
        for run in (0..inner).step_by(RUN) {
            let terms = (inner - run).min(RUN);
            // A zero more turns a sum of negative zeros into a positive one.
            let zeros =
                usize::from(run + terms == inner && inner > held.group() && !inner.is_multiple_of(held.group()));
            let all = terms + zeros;
            // SAFETY: these terms are those of the factor, and there is room for the strips.
            unsafe { pack_strips::<N>(right.add(run * columns * N::BYTES), columns, (terms, zeros), lanes, strips) };
            for top in (0..rows).step_by(height) {
                let count = (rows - top).min(height);
                if !count.is_multiple_of(2) {
                    panel[count * ROW..][..all].fill(0.0);
                }
                if zeros > 0 {
                    (0..count).for_each(|row| panel[row * ROW + terms] = 0.0);
                }
                // SAFETY: these rows and terms are those of the factor, and the panel has room for them.
                unsafe {
                    let from = left.add((top * inner + run) * N::BYTES);
                    widen::rows::<N>(from, inner * N::BYTES, [count, terms], panel.as_mut_ptr(), ROW);
                }
                for first in (0..columns).step_by(across) {
                    let width = (columns - first).min(across);
                    let vectors = width.div_ceil(lanes);
                    let tile = tiles.tiles[count.div_ceil(2) - 1][vectors - 1];
                    let (a, b) = (panel.as_ptr(), strips[first * all..].as_ptr());
                    // SAFETY: within the sum; the machine has the instructions, and panel and strip have so many terms.
                    unsafe {
                        let to =
                            Place { start: sum.add(top * columns + first), stride: columns, before: Before::Chain };
                        match count.is_multiple_of(2) && width == vectors * lanes {
                            true => tile(all, a, b, to),
                            false => partial(|to| tile(all, a, b, to), to, (count, width), vectors * lanes),
                        }
                    }
                }
            }
        }
    })
}

/// Packs so many terms of the second factor, and zeros behind them, to strips of one or two vectors.
///
/// # Safety
/// The terms are readable.
unsafe fn pack_strips<N: widen::Narrow>(
    from: *const u8,
    columns: usize,
    (terms, zeros): (usize, usize),
    lanes: usize,
    strips: &mut [f32],
) {
    for first in (0..columns).step_by(2 * lanes) {
        let width = (columns - first).min(2 * lanes);
        let whole = width.next_multiple_of(lanes);
        let strip = &mut strips[first * (terms + zeros)..][..whole * (terms + zeros)];
        if width < whole || zeros > 0 {
            strip.fill(0.0);
        }
        // SAFETY: as the caller says, and the strip has room for so many rows.
        unsafe {
            let from = from.add(first * N::BYTES);
            widen::rows::<N>(from, columns * N::BYTES, [terms, width], strip.as_mut_ptr(), whole);
        }
    }
}
