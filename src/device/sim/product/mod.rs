//! Products of matrices on the processor, for the host's array expressions.
//!
//! Input: two batches of matrices anywhere in memory, by strides. Output: their products, row by row. The idea is that of Goto and
//! van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): factors are packed into panels of a few rows and strips of
//! a few columns that stay in caches, and a tile of sums stays in registers for a whole run of terms. Each element is computed by the same
//! operations in the same order as by the library's kernels (`host::graph::product`), so the bits are the same.
//!
//! # Layout
//! - A panel has up to as many rows as a tile, each of up to [`RUN`] terms, [`ROW`] elements apart: rows lie in different sets of the cache.
//! - A strip has for each term one or two vectors of columns, filled up with zeros.
//! - Where several strips read the first factor, its panels are packed once for all workers; a strip is packed by the worker that
//!   computes its columns. So the larger factor should be the second one, but neither is ever packed more often than its rows are shared.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::isa::Isa;
use super::{each, sched};
use crate::base::aligned::AlignedBytes;
use crate::base::stop;
use crate::ir::def::Sums;
use crate::lang::scalar::Scalar;

#[cfg(target_arch = "x86_64")]
mod chain;
#[cfg(target_arch = "x86_64")]
mod cut;
mod desk;
mod held;
mod micro;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod widen;

pub(crate) use desk::with_desk;
pub(crate) use held::Held;
use micro::{Before, CELL, Place, ROW, Tiles, partial};
pub use micro::{Number, RUN};

/// From so many strips on, panels are packed once for all.
const SHARED: usize = 3;
/// The terms of a transposed factor that are packed for several panels in turn: each lies in a page of its own.
const SHARED_TERMS: usize = 64;
/// The least number of parts for each worker.
const SHARES: usize = 4;

/// The extents of a batch of products.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batch: usize,
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
}

/// A batch of matrices among the elements of an array.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T> {
    pub elements: &'a [T],
    /// The position of the first element of the first matrix.
    pub offset: usize,
    /// From one matrix, row and column to the next.
    pub strides: [isize; 3],
}

impl<T> Factor<'_, T> {
    /// Returns whether matrices of these extents are inside the array.
    fn holds(&self, extents: [usize; 3]) -> bool {
        let (mut least, mut most) = (self.offset as i128, self.offset as i128);
        for (&stride, &len) in self.strides.iter().zip(&extents) {
            let last = stride as i128 * (len as i128 - 1);
            if last < 0 { least += last } else { most += last }
        }
        least >= 0 && most < self.elements.len() as i128
    }
}

impl Held {
    /// Adds the product; returns false, with nothing done, if there is no memory for packing.
    ///
    /// # Safety
    /// It is covered. The factors are readable, and the sum, which is apart from them and aligned, is writable.
    pub unsafe fn add(&self, isa: Isa, sum: *mut f32, left: *const u8, right: *const u8) -> bool {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller says; what is covered has instructions for vectors.
        let done = unsafe {
            match (self.sums, self.scalar) {
                (Sums::Rounded, Scalar::F16) => chain::add::<widen::Half>(self, isa, sum, left, right),
                (Sums::Rounded, Scalar::Bf16) => chain::add::<widen::Brain>(self, isa, sum, left, right),
                (Sums::Rounded, _) => chain::add::<widen::Single>(self, isa, sum, left, right),
                (Sums::Cut(_), Scalar::F16) => cut::add::<widen::Half, 16>(self, sum, left, right),
                (Sums::Cut(_), Scalar::Bf16) => cut::add::<widen::Brain, 16>(self, sum, left, right),
                (Sums::Cut(_), _) => cut::add::<widen::Single, 8>(self, sum, left, right),
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

/// Computes the products of two batches of matrices, whose extents are not 0, into `to`, row by row; `None` if there are no tiles for the
/// instruction set, or no memory for packing.
///
/// # Panics
/// if an operand is not as long as the extents say.
pub fn products<T: Number>(
    (isa, workers): (Isa, usize),
    a: &Factor<'_, T>,
    b: &Factor<'_, T>,
    sizes: Sizes,
    to: &mut [T],
) -> Option<()> {
    let tiles = T::tiles(isa).filter(|_| isa.is_here())?;
    let Sizes { batch, rows, inner, columns } = sizes;
    assert!(a.holds([batch, rows, inner]) && b.holds([batch, inner, columns]), "factors are inside their arrays");
    assert!(batch * rows * columns == to.len() && inner > 0, "the result has a place");
    // Matrices that follow each other and have the same second factor are one.
    let merges = b.strides[0] == 0 && a.strides[0] == a.strides[1] * rows as isize;
    let sizes = if merges { Sizes { batch: 1, rows: batch * rows, ..sizes } } else { sizes };
    let work = Work::new(tiles, sched::machine(workers), (a, b), sizes);
    work.run(to)
}

/// A product, divided into parts.
struct Work<'a, T: 'static> {
    tiles: Tiles<T>,
    workers: usize,
    a: &'a Factor<'a, T>,
    b: &'a Factor<'a, T>,
    sizes: Sizes,
    strips: usize,
    panels: usize,
    /// Parts of the rows that are computed for a strip, and the panels of each.
    groups: usize,
    group: usize,
}

/// The result, of which each part is written by one worker.
struct Target<T>(*mut T);

// SAFETY: workers write disjoint parts, and the owner of the memory waits for them.
unsafe impl<T: Send> Sync for Target<T> {}

/// A worker's memory: a strip and a panel.
type Desk<'a, T> = (&'a mut [T], &'a mut [T]);

impl<'a, T: Number> Work<'a, T> {
    fn new(tiles: Tiles<T>, workers: usize, (a, b): (&'a Factor<'a, T>, &'a Factor<'a, T>), sizes: Sizes) -> Self {
        let strips = sizes.columns.div_ceil(2 * tiles.lanes);
        let panels = sizes.rows.div_ceil(tiles.rows());
        let wanted = if workers > 1 { (SHARES * workers).div_ceil(sizes.batch * strips) } else { 1 };
        let group = panels.div_ceil(wanted.min(panels));
        Work { tiles, workers, a, b, sizes, strips, panels, groups: panels.div_ceil(group), group }
    }

    fn run(&self, to: &mut [T]) -> Option<()> {
        let Work { strips, groups, workers, sizes: Sizes { batch, inner, .. }, .. } = *self;
        let parts = batch * strips * groups;
        let workers = workers.min(parts);
        let (strip, panel) = (inner.min(RUN) * 2 * self.tiles.lanes, self.tiles.rows() * ROW);
        let mut memory = AlignedBytes::unset(workers * (strip + panel) * size_of::<T>())?;
        let desks = bytemuck::cast_slice_mut(&mut memory).chunks_mut(strip + panel);
        let desks: Mutex<Vec<Desk<'_, T>>> = Mutex::new(desks.map(|desk| desk.split_at_mut(strip)).collect());
        let packed = if strips >= SHARED { self.packed() } else { None };
        let packed = packed.as_deref().map(bytemuck::cast_slice);
        let target = Target(to.as_mut_ptr());
        let share = (parts / (workers * 4 * SHARES)).max(1);
        let shares = (0..parts.div_ceil(share)).map(|k| k * share..parts.min((k + 1) * share));
        each(workers, shares, |parts: Range<usize>| {
            let taken = desks.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut desk = taken.expect("there are as many desks as workers");
            parts.for_each(|part| self.part(part, packed, &mut desk, &target));
            desks.lock().unwrap_or_else(PoisonError::into_inner).push(desk);
        });
        Some(())
    }

    /// Returns the number of runs, and the terms of one.
    fn runs(&self) -> usize {
        self.sizes.inner.div_ceil(RUN)
    }

    fn terms(&self, run: usize) -> usize {
        (self.sizes.inner - run * RUN).min(RUN)
    }

    /// Packs all panels of the first factor: of each matrix, run by run; `None` if there is no memory for it.
    fn packed(&self) -> Option<AlignedBytes> {
        let matrices = if self.a.strides[0] == 0 { 1 } else { self.sizes.batch };
        let panel = self.tiles.rows() * ROW;
        let all = [matrices, self.runs(), self.panels, panel * size_of::<T>()];
        let bytes = all.iter().try_fold(1usize, |all, &n| all.checked_mul(n))?;
        let mut memory = AlignedBytes::unset(bytes)?;
        let several = (matrices * self.runs() * self.panels).div_ceil(self.workers * 4 * SHARES);
        let chunks = bytemuck::cast_slice_mut::<u8, T>(&mut memory).chunks_mut(panel * several).enumerate();
        each(self.workers, chunks, |(share, chunk)| {
            // Of a transposed factor, panels share the pages that they are read from.
            let step = if self.a.strides[1] == 1 { SHARED_TERMS } else { RUN };
            for first in (0..RUN).step_by(step) {
                for (k, place) in chunk.chunks_mut(panel).enumerate() {
                    let number = share * several + k;
                    let (matrix, run) = (number / self.panels / self.runs(), number / self.panels % self.runs());
                    self.pack_panel((matrix, run, number % self.panels), first..first + step, place);
                }
            }
        });
        Some(memory)
    }

    /// Returns the rows of a panel.
    fn rows_of(&self, panel: usize) -> usize {
        (self.sizes.rows - panel * self.tiles.rows()).min(self.tiles.rows())
    }

    /// Packs those terms of a panel that are among these of its run.
    fn pack_panel(&self, (matrix, run, panel): (usize, usize, usize), terms: Range<usize>, place: &mut [T]) {
        let terms = terms.start..terms.end.min(self.terms(run));
        if terms.is_empty() {
            return;
        }
        let (first, count) = ([matrix, panel * self.tiles.rows(), run * RUN + terms.start], self.rows_of(panel));
        let [_, row, term] = self.a.strides;
        let place = &mut place[terms.start..];
        // SAFETY: these rows and terms are those of the factor, which is inside its array.
        unsafe { pack(start(self.a, first), [row, term], [count, terms.len()], place, ROW) };
        // Tiles have even numbers of rows.
        if !count.is_multiple_of(2) {
            place[count * ROW..][..terms.len()].fill(T::ZERO);
        }
    }

    /// Computes a part: a strip of a matrix of the result, or some rows of it.
    fn part(&self, part: usize, packed: Option<&[T]>, (strip, panel): &mut Desk<'_, T>, target: &Target<T>) {
        let (matrix, column, group) =
            (part / self.groups / self.strips, part / self.groups % self.strips, part % self.groups);
        let (lanes, height, size) = (self.tiles.lanes, self.tiles.rows(), self.tiles.rows() * ROW);
        let first = column * 2 * lanes;
        let width = (self.sizes.columns - first).min(2 * lanes);
        let vectors = width.div_ceil(lanes);
        let panels = group * self.group..self.panels.min((group + 1) * self.group);
        for run in 0..self.runs() {
            stop::poll();
            let terms = self.terms(run);
            self.pack_strip((matrix, run), (first, width), strip);
            for number in panels.clone() {
                let rows = match packed {
                    Some(packed) => {
                        let own = if self.a.strides[0] == 0 { 0 } else { matrix };
                        &packed[((own * self.runs() + run) * self.panels + number) * size..][..size]
                    }
                    None => {
                        self.pack_panel((matrix, run, number), 0..RUN, panel);
                        &**panel
                    }
                };
                let count = self.rows_of(number);
                let place = (matrix * self.sizes.rows + number * height) * self.sizes.columns + first;
                // SAFETY: the rows and columns are within the result, where no other part writes.
                let start = unsafe { target.0.add(place) };
                let before = if run == 0 { Before::Nothing } else { Before::Sum };
                let to = Place { start, stride: self.sizes.columns, before };
                let tile = self.tiles.tiles[count.div_ceil(2) - 1][vectors - 1];
                let (a, b) = (rows.as_ptr(), strip.as_ptr());
                match count.is_multiple_of(2) && width == vectors * lanes {
                    // SAFETY: the machine has the instructions, and panel and strip have so many terms.
                    true => unsafe { tile(terms, a, b, to) },
                    // SAFETY: as above.
                    false => unsafe { partial(|to| tile(terms, a, b, to), to, (count, width), vectors * lanes) },
                }
            }
        }
    }

    /// Packs a strip of one run of terms, for whole vectors of columns.
    fn pack_strip(&self, (matrix, run): (usize, usize), (first, width): (usize, usize), strip: &mut [T]) {
        let [_, term, column] = self.b.strides;
        let whole = width.next_multiple_of(self.tiles.lanes);
        let terms = self.terms(run);
        // SAFETY: these terms and columns are those of the factor, which is inside its array.
        unsafe {
            let from = start(self.b, [matrix, run * RUN, first]);
            pack(from, [term, column], [terms, width], strip, whole);
        }
        if width < whole {
            strip[..terms * whole].chunks_exact_mut(whole).for_each(|row| row[width..].fill(T::ZERO));
        }
    }
}

/// Returns the address of an element.
///
/// # Safety
/// It is inside the array.
unsafe fn start<T>(factor: &Factor<'_, T>, index: [usize; 3]) -> *const T {
    let at = index.iter().zip(factor.strides).map(|(&n, stride)| n as isize * stride).sum::<isize>();
    // SAFETY: as the caller says.
    unsafe { factor.elements.as_ptr().offset(factor.offset as isize + at) }
}

/// Elements that are moved at once.
const PIECE: usize = 16;
/// The rows that are transposed at once, whose lines stay in cache.
const BLOCK: usize = 16;

/// Copies elements that have these strides, along an outer and an inner axis, to rows of which one begins every `stride` elements.
///
/// # Safety
/// All of them are readable.
unsafe fn pack<T: Number>(
    from: *const T,
    [outer, inner]: [isize; 2],
    [rows, columns]: [usize; 2],
    to: &mut [T],
    stride: usize,
) {
    assert!(columns <= stride && (rows - 1) * stride + columns <= to.len(), "there is room for all");
    let to = to.as_mut_ptr();
    if inner == 1 {
        for r in 0..rows {
            // SAFETY: the caller answers for what is read, the assertion for what is written.
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
        let below = top + cells * CELL;
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
                for r in below..bottom {
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
