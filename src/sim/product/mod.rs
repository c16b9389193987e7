//! Matrix products on the CPU, for the host's array expressions.
//!
//! Input: two batches of matrices with arbitrary strides. Output: their products, row-major. The algorithm is that of
//! Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): operands are packed into panels
//! of rows and strips of columns that fit into the caches, and a micro kernel accumulates a tile of the result in
//! registers. The terms of a sum are processed in **runs** of up to [`RUN_TERMS`] terms. The result has the same bits
//! as the matrix-product kernels of the standard library (`clk_host::graph::product`). Layout:
//! - A panel has at most as many rows as the largest micro kernel. Each row contains the terms of one run. Rows start
//!   [`PANEL_ROW_STRIDE`] elements apart, so that they are in different cache sets.
//! - A strip contains the columns of one or two vectors for each term of a run, padded with zeros.
//! - If there are at least [`MIN_SHARED_STRIPS`] strips, the panels of the left operand are packed once for all
//!   workers. Each worker packs the strips whose columns it computes. So a product is faster if the larger operand is
//!   on the right.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::{parallel_for, sched};
use clk_base::aligned::AlignedBytes;
use clk_base::stop;
use clk_ir::def::MmaPrecision;
use clk_runtime::Isa;
use clk_scalar::Scalar;

#[cfg(target_arch = "x86_64")]
mod fma_chain;
mod micro_kernel;
mod pack_buffer;
#[cfg(target_arch = "x86_64")]
mod tensor_core_sums;
#[cfg(test)]
mod tests;
mod tile_gemm;
#[cfg(target_arch = "x86_64")]
mod widen;

use micro_kernel::{CELL, MicroKernels, PANEL_ROW_STRIDE, TileDestination, TileUpdate, compute_partial_tile};
pub use micro_kernel::{MicroKernelScalar, RUN_TERMS};
pub(crate) use pack_buffer::with_pack_buffer;
pub(crate) use tile_gemm::TileGemm;

/// Minimum number of strips for which panels are packed once for all workers.
const MIN_SHARED_STRIPS: usize = 3;
/// Number of terms of a transposed left operand that are packed for several panels before the next terms. Each term is
/// in a separate memory page, so the panels then reuse these pages.
const SHARED_TERMS: usize = 64;
/// Minimum number of parts of the product per worker.
const PARTS_PER_WORKER: usize = 4;

/// The extents of a batch of matrix products.
#[derive(Clone, Copy, Debug)]
pub struct GemmSizes {
    pub batch: usize,
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
}

/// A batch of matrices: a strided three-dimensional view of an array's elements.
#[derive(Clone, Copy, Debug)]
pub struct MatrixBatch<'a, T> {
    pub elements: &'a [T],
    /// The position of the first element of the first matrix.
    pub offset: usize,
    /// The distances in elements between adjacent matrices, rows and columns.
    pub strides: [isize; 3],
}

impl<T> MatrixBatch<'_, T> {
    /// Returns whether all elements of the matrices are within the array. The extents are the numbers of matrices, rows
    /// and columns.
    fn is_within(&self, extents: [usize; 3]) -> bool {
        let (mut least, mut most) = (self.offset as i128, self.offset as i128);
        for (&stride, &len) in self.strides.iter().zip(&extents) {
            let last = stride as i128 * (len as i128 - 1);
            if last < 0 { least += last } else { most += last }
        }
        least >= 0 && most < self.elements.len() as i128
    }
}

impl TileGemm {
    /// Adds the product of two tiles to the tile `sum`. Returns false, without any effect, if memory for packing cannot
    /// be allocated.
    ///
    /// # Safety
    /// [`TileGemm::is_covered`] holds. The operands are readable. The sum is writable and aligned, and does not overlap
    /// them.
    pub unsafe fn add_product(&self, isa: Isa, sum: *mut f32, left: *const u8, right: *const u8) -> bool {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller guarantees valid pointers and `is_covered`, which holds only if the processor has the
        // vector instructions.
        let done = unsafe {
            match (self.sums, self.scalar) {
                (MmaPrecision::Sequential, Scalar::F16) => {
                    fma_chain::add_product::<widen::Half>(self, isa, sum, left, right)
                }
                (MmaPrecision::Sequential, Scalar::Bf16) => {
                    fma_chain::add_product::<widen::Brain>(self, isa, sum, left, right)
                }
                (MmaPrecision::Sequential, _) => fma_chain::add_product::<widen::Single>(self, isa, sum, left, right),
                (MmaPrecision::TensorCore(_), Scalar::F16) => {
                    tensor_core_sums::add_product::<widen::Half, 16>(self, sum, left, right)
                }
                (MmaPrecision::TensorCore(_), Scalar::Bf16) => {
                    tensor_core_sums::add_product::<widen::Brain, 16>(self, sum, left, right)
                }
                (MmaPrecision::TensorCore(_), _) => {
                    tensor_core_sums::add_product::<widen::Single, 8>(self, sum, left, right)
                }
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        let done: Option<()> = {
            let _ = (isa, sum, left, right);
            None
        };
        done.is_some()
    }
}

/// Computes the products of two batches of matrices into `to`, row-major. No extent is 0. `None` if the instruction set
/// has no micro kernels, or if memory for packing cannot be allocated.
///
/// # Panics
/// Panics if an array is shorter than the extents require.
pub fn multiply_matrices<T: MicroKernelScalar>(
    isa: Isa,
    workers: usize,
    a: &MatrixBatch<'_, T>,
    b: &MatrixBatch<'_, T>,
    sizes: GemmSizes,
    to: &mut [T],
) -> Option<()> {
    let tiles = T::micro_kernels(isa).filter(|_| isa.is_supported())?;
    let GemmSizes { batch, rows, inner, columns } = sizes;
    assert!(
        a.is_within([batch, rows, inner]) && b.is_within([batch, inner, columns]),
        "operands are within their arrays"
    );
    assert!(batch * rows * columns == to.len() && inner > 0, "the result has the right size");
    // If all products have the same right operand and the left matrices are contiguous, the left matrices form a single
    // matrix.
    let merges = b.strides[0] == 0 && a.strides[0] == a.strides[1] * rows as isize;
    let sizes = if merges { GemmSizes { batch: 1, rows: batch * rows, ..sizes } } else { sizes };
    let work = GemmWork::new(tiles, sched::worker_count(workers), a, b, sizes);
    work.run(to)
}

/// A batch of matrix products, divided into parts for the workers.
struct GemmWork<'a, T: 'static> {
    tiles: MicroKernels<T>,
    workers: usize,
    a: &'a MatrixBatch<'a, T>,
    b: &'a MatrixBatch<'a, T>,
    sizes: GemmSizes,
    strips: usize,
    panels: usize,
    /// Number of parts into which the rows of a strip of the result are divided, and number of panels in each part.
    row_groups: usize,
    panels_per_group: usize,
}

/// The address of the result. A single worker writes each part.
struct OutputPtr<T>(*mut T);

// SAFETY: workers write disjoint parts, and the owner of the memory waits for them.
unsafe impl<T: Send> Sync for OutputPtr<T> {}

/// A worker's packing buffers.
struct PackBuffers<'a, T> {
    strip: &'a mut [T],
    panel: &'a mut [T],
}

impl<'a, T: MicroKernelScalar> GemmWork<'a, T> {
    fn new(
        tiles: MicroKernels<T>,
        workers: usize,
        a: &'a MatrixBatch<'a, T>,
        b: &'a MatrixBatch<'a, T>,
        sizes: GemmSizes,
    ) -> Self {
        let strips = sizes.columns.div_ceil(2 * tiles.lanes);
        let panels = sizes.rows.div_ceil(tiles.max_rows());
        let wanted_groups = if workers > 1 { (PARTS_PER_WORKER * workers).div_ceil(sizes.batch * strips) } else { 1 };
        let group = panels.div_ceil(wanted_groups.min(panels));
        GemmWork {
            tiles,
            workers,
            a,
            b,
            sizes,
            strips,
            panels,
            row_groups: panels.div_ceil(group),
            panels_per_group: group,
        }
    }

    fn run(&self, to: &mut [T]) -> Option<()> {
        let GemmWork { strips, row_groups: groups, workers, sizes: GemmSizes { batch, inner, .. }, .. } = *self;
        let parts = batch * strips * groups;
        let workers = workers.min(parts);
        let (strip, panel) = (inner.min(RUN_TERMS) * 2 * self.tiles.lanes, self.tiles.max_rows() * PANEL_ROW_STRIDE);
        let mut memory = AlignedBytes::for_overwrite(workers * (strip + panel) * size_of::<T>())?;
        let buffers = bytemuck::cast_slice_mut(&mut memory).chunks_mut(strip + panel);
        let buffers: Mutex<Vec<PackBuffers<'_, T>>> = Mutex::new(
            buffers
                .map(|buffer| buffer.split_at_mut(strip))
                .map(|(strip, panel)| PackBuffers { strip, panel })
                .collect(),
        );
        let packed = if strips >= MIN_SHARED_STRIPS { self.pack_all_panels() } else { None };
        let packed = packed.as_deref().map(bytemuck::cast_slice);
        let target = OutputPtr(to.as_mut_ptr());
        let share = (parts / (workers * 4 * PARTS_PER_WORKER)).max(1);
        let shares = (0..parts.div_ceil(share)).map(|k| k * share..parts.min((k + 1) * share));
        parallel_for(workers, shares, |parts: Range<usize>| {
            let free = buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut buffer = free.expect("each worker has a buffer");
            parts.for_each(|part| self.compute_part(part, packed, &mut buffer, &target));
            buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        });
        Some(())
    }

    /// Returns the number of runs of terms.
    fn run_count(&self) -> usize {
        self.sizes.inner.div_ceil(RUN_TERMS)
    }

    fn run_terms(&self, run: usize) -> usize {
        (self.sizes.inner - run * RUN_TERMS).min(RUN_TERMS)
    }

    /// Packs all panels of the left operand, ordered by matrix, then by run. `None` if the memory cannot be allocated.
    fn pack_all_panels(&self) -> Option<AlignedBytes> {
        let matrices = if self.a.strides[0] == 0 { 1 } else { self.sizes.batch };
        let panel = self.tiles.max_rows() * PANEL_ROW_STRIDE;
        let all = [matrices, self.run_count(), self.panels, panel * size_of::<T>()];
        let bytes = all.iter().try_fold(1usize, |all, &n| all.checked_mul(n))?;
        let mut memory = AlignedBytes::for_overwrite(bytes)?;
        let several = (matrices * self.run_count() * self.panels).div_ceil(self.workers * 4 * PARTS_PER_WORKER);
        let chunks = bytemuck::cast_slice_mut::<u8, T>(&mut memory).chunks_mut(panel * several).enumerate();
        parallel_for(self.workers, chunks, |(share, chunk)| {
            // In a transposed operand, the same terms of several panels are in the same pages, so they are packed
            // together.
            let step = if self.a.strides[1] == 1 { SHARED_TERMS } else { RUN_TERMS };
            for first in (0..RUN_TERMS).step_by(step) {
                for (k, place) in chunk.chunks_mut(panel).enumerate() {
                    let number = share * several + k;
                    let (matrix, run) =
                        (number / self.panels / self.run_count(), number / self.panels % self.run_count());
                    self.pack_panel(matrix, run, number % self.panels, first..first + step, place);
                }
            }
        });
        Some(memory)
    }

    /// Returns the number of rows of a panel.
    fn panel_rows(&self, panel: usize) -> usize {
        (self.sizes.rows - panel * self.tiles.max_rows()).min(self.tiles.max_rows())
    }

    /// Packs some terms of a panel; `terms` is a range of terms in the run.
    fn pack_panel(&self, matrix: usize, run: usize, panel: usize, terms: Range<usize>, place: &mut [T]) {
        let terms = terms.start..terms.end.min(self.run_terms(run));
        if terms.is_empty() {
            return;
        }
        let (first, count) =
            ([matrix, panel * self.tiles.max_rows(), run * RUN_TERMS + terms.start], self.panel_rows(panel));
        let [_, row, term] = self.a.strides;
        let place = &mut place[terms.start..];
        // SAFETY: these rows and terms belong to the operand, which is within its array.
        unsafe { pack(element_ptr(self.a, first), [row, term], [count, terms.len()], place, PANEL_ROW_STRIDE) };
        // Micro kernels have an even number of rows, so an odd number of rows is padded with zeros.
        if !count.is_multiple_of(2) {
            place[count * PANEL_ROW_STRIDE..][..terms.len()].fill(T::ZERO);
        }
    }

    /// Computes a part of the product: some or all rows of a strip of a result matrix.
    fn compute_part(&self, part: usize, packed: Option<&[T]>, buffers: &mut PackBuffers<'_, T>, target: &OutputPtr<T>) {
        let PackBuffers { strip, panel } = buffers;
        let (matrix, column, group) =
            (part / self.row_groups / self.strips, part / self.row_groups % self.strips, part % self.row_groups);
        let (lanes, height, size) = (self.tiles.lanes, self.tiles.max_rows(), self.tiles.max_rows() * PANEL_ROW_STRIDE);
        let first = column * 2 * lanes;
        let width = (self.sizes.columns - first).min(2 * lanes);
        let vectors = width.div_ceil(lanes);
        let panels = group * self.panels_per_group..self.panels.min((group + 1) * self.panels_per_group);
        for run in 0..self.run_count() {
            stop::poll();
            let terms = self.run_terms(run);
            self.pack_strip(matrix, run, first, width, strip);
            for number in panels.clone() {
                let rows = match packed {
                    Some(packed) => {
                        let own = if self.a.strides[0] == 0 { 0 } else { matrix };
                        &packed[((own * self.run_count() + run) * self.panels + number) * size..][..size]
                    }
                    None => {
                        self.pack_panel(matrix, run, number, 0..RUN_TERMS, panel);
                        &**panel
                    }
                };
                let count = self.panel_rows(number);
                let place = (matrix * self.sizes.rows + number * height) * self.sizes.columns + first;
                // SAFETY: the rows and columns are within the result, and no other part writes them.
                let start = unsafe { target.0.add(place) };
                let before = if run == 0 { TileUpdate::Store } else { TileUpdate::AddSum };
                let to = TileDestination { start, stride: self.sizes.columns, update: before };
                let tile = self.tiles.tiles[count.div_ceil(2) - 1][vectors - 1];
                let (a, b) = (rows.as_ptr(), strip.as_ptr());
                match count.is_multiple_of(2) && width == vectors * lanes {
                    // SAFETY: the machine has the instructions, and panel and strip have this many terms.
                    true => unsafe { tile(terms, a, b, to) },
                    // SAFETY: as above.
                    false => unsafe {
                        compute_partial_tile(|to| tile(terms, a, b, to), to, count, width, vectors * lanes)
                    },
                }
            }
        }
    }

    /// Packs a strip of the right operand for one run: `width` columns from column `first` on, padded to whole vectors.
    fn pack_strip(&self, matrix: usize, run: usize, first: usize, width: usize, strip: &mut [T]) {
        let [_, term, column] = self.b.strides;
        let whole = width.next_multiple_of(self.tiles.lanes);
        let terms = self.run_terms(run);
        // SAFETY: these terms and columns belong to the operand, which is within its array.
        unsafe {
            let from = element_ptr(self.b, [matrix, run * RUN_TERMS, first]);
            pack(from, [term, column], [terms, width], strip, whole);
        }
        if width < whole {
            strip[..terms * whole].chunks_exact_mut(whole).for_each(|row| row[width..].fill(T::ZERO));
        }
    }
}

/// Returns the address of an element of a batch of matrices.
///
/// # Safety
/// The element is within the array.
unsafe fn element_ptr<T>(factor: &MatrixBatch<'_, T>, index: [usize; 3]) -> *const T {
    let at = index.iter().zip(factor.strides).map(|(&n, stride)| n as isize * stride).sum::<isize>();
    // SAFETY: guaranteed by the caller.
    unsafe { factor.elements.as_ptr().offset(factor.offset as isize + at) }
}

/// Number of elements that are copied at a time.
const PIECE: usize = 16;
/// Number of rows that are transposed together; their cache lines stay in the cache meanwhile.
const BLOCK: usize = 16;

/// Copies `rows` times `columns` elements to rows that start `stride` elements apart. `outer` and `inner` are the
/// distances in elements between rows and between columns of the source.
///
/// # Safety
/// All elements are readable.
unsafe fn pack<T: MicroKernelScalar>(
    from: *const T,
    [outer, inner]: [isize; 2],
    [rows, columns]: [usize; 2],
    to: &mut [T],
    stride: usize,
) {
    assert!(columns <= stride && (rows - 1) * stride + columns <= to.len(), "the destination is large enough");
    let to = to.as_mut_ptr();
    if inner == 1 {
        for r in 0..rows {
            // SAFETY: the caller guarantees that the source is readable, and the assertion above that the destination
            // is large enough.
            unsafe {
                let (from, to) = (from.offset(r as isize * outer), to.add(r * stride));
                let mut done = 0;
                while done + PIECE <= columns {
                    to.add(done)
                        .cast::<[T; PIECE]>()
                        .write_unaligned(from.add(done).cast::<[T; PIECE]>().read_unaligned());
                    done += PIECE;
                }
                std::ptr::copy_nonoverlapping(from.add(done), to.add(done), columns - done);
            }
        }
        return;
    }
    let mut top = 0;
    while top < rows {
        let bottom = rows.min(top + BLOCK);
        let (cells, right) = if outer == 1 { ((bottom - top) / CELL, columns / CELL * CELL) } else { (0, 0) };
        let rest = top + cells * CELL;
        let at = |r: usize, c: usize| {
            // SAFETY: as above.
            unsafe { (from.offset(r as isize * outer + c as isize * inner), to.add(r * stride + c)) }
        };
        let mut c = 0;
        while c < right {
            for cell in 0..cells {
                let (from, to) = at(top + cell * CELL, c);
                // SAFETY: as above.
                unsafe { T::transpose(from, inner, to, stride) };
            }
            for k in c..c + CELL {
                for r in rest..bottom {
                    let (from, to) = at(r, k);
                    // SAFETY: as above.
                    unsafe { *to = *from };
                }
            }
            c += CELL;
        }
        for r in top..bottom {
            for c in right..columns {
                let (from, to) = at(r, c);
                // SAFETY: as above.
                unsafe { *to = *from };
            }
        }
        top = bottom;
    }
}
