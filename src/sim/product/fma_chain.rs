//! Tile products whose terms are added sequentially by `fma`. They have the same bits as the loop that
//! `clk_lower::tiles` generates.
//!
//! Input: row-major tiles in memory. Output: the sum, to which the product is added. The algorithm is that of the
//! parent module, for a single small product: operands are widened to `f32` and packed into strips of columns and
//! panels of rows, and micro kernels accumulate sums in registers.

use super::micro_kernel::{
    MicroKernelScalar, PANEL_ROW_STRIDE, RUN_TERMS, TileDestination, TileUpdate, compute_partial_tile,
};
use super::pack_buffer::with_pack_buffer;
use super::tile_gemm::TileGemm;
use super::widen;
use clk_runtime::Isa;

/// Adds the product of two tiles to the tile `sum`, one term of each element at a time.
///
/// # Safety
/// [`TileGemm::is_covered`] holds, and `N` is the operand type. The operands are readable. The sum is writable and does
/// not overlap them.
pub(super) unsafe fn add_product<N: widen::Narrow>(
    gemm: &TileGemm,
    isa: Isa,
    sum: *mut f32,
    left: *const u8,
    right: *const u8,
) -> Option<()> {
    let TileGemm { rows, columns, inner, .. } = *gemm;
    let tiles = f32::micro_kernels(isa)?;
    let (lanes, height) = (tiles.lanes, tiles.max_rows());
    let (strip_columns, strip_elements) = (2 * lanes, columns.next_multiple_of(lanes) * (inner.min(RUN_TERMS) + 1));
    with_pack_buffer((strip_elements + height * PANEL_ROW_STRIDE) * size_of::<f32>(), |buffer| {
        let (strips, panel) = bytemuck::cast_slice_mut::<u8, f32>(buffer).split_at_mut(strip_elements);
        for run in (0..inner).step_by(RUN_TERMS) {
            let terms = (inner - run).min(RUN_TERMS);
            // The generated loop pads the last group of terms with zeros, which turns a sum of negative zeros into a
            // positive zero. One additional zero term has the same effect.
            let zeros = usize::from(
                run + terms == inner && inner > gemm.terms_per_group() && !inner.is_multiple_of(gemm.terms_per_group()),
            );
            let all = terms + zeros;
            // SAFETY: these terms belong to the operand, and there is room for the strips.
            unsafe { pack_strips::<N>(right.add(run * columns * N::BYTES), columns, terms, zeros, lanes, strips) };
            for top in (0..rows).step_by(height) {
                let count = (rows - top).min(height);
                if !count.is_multiple_of(2) {
                    panel[count * PANEL_ROW_STRIDE..][..all].fill(0.0);
                }
                if zeros > 0 {
                    (0..count).for_each(|row| panel[row * PANEL_ROW_STRIDE + terms] = 0.0);
                }
                // SAFETY: these rows and terms belong to the operand, and the panel has room for them.
                unsafe {
                    let from = left.add((top * inner + run) * N::BYTES);
                    widen::widen_rows::<N>(
                        from,
                        inner * N::BYTES,
                        [count, terms],
                        panel.as_mut_ptr(),
                        PANEL_ROW_STRIDE,
                    );
                }
                for first in (0..columns).step_by(strip_columns) {
                    let width = (columns - first).min(strip_columns);
                    let vectors = width.div_ceil(lanes);
                    let tile = tiles.tiles[count.div_ceil(2) - 1][vectors - 1];
                    let (a, b) = (panel.as_ptr(), strips[first * all..].as_ptr());
                    // SAFETY: the destination is within the sum, the machine has the instructions, and panel and strip
                    // have this many terms.
                    unsafe {
                        let to = TileDestination {
                            start: sum.add(top * columns + first),
                            stride: columns,
                            update: TileUpdate::AddTerms,
                        };
                        match count.is_multiple_of(2) && width == vectors * lanes {
                            true => tile(all, a, b, to),
                            false => compute_partial_tile(|to| tile(all, a, b, to), to, count, width, vectors * lanes),
                        }
                    }
                }
            }
        }
    })
}

/// Packs terms of the right operand, followed by `zeros` zero terms, into strips of one or two vectors.
///
/// # Safety
/// The terms are readable.
unsafe fn pack_strips<N: widen::Narrow>(
    from: *const u8,
    columns: usize,
    terms: usize,
    zeros: usize,
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
        // SAFETY: guaranteed by the caller, and the strip has room for this many rows.
        unsafe {
            let from = from.add(first * N::BYTES);
            widen::widen_rows::<N>(from, columns * N::BYTES, [terms, width], strip.as_mut_ptr(), whole);
        }
    }
}
