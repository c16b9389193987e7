//! Micro kernels: the inner loops of matrix products. A micro kernel accumulates a tile of the result, with a few rows
//! and one or two vectors of columns, in registers.
//!
//! Input: a packed panel of rows and a packed strip of columns (see `super`), and the destination of the tile. Output:
//! the sums of one run (up to 512 consecutive terms), stored to the destination or added to it. One macro generates the
//! micro kernels of all instruction sets and types; their results have the same bits.

use clk_runtime::Isa;

/// Maximum number of terms in a run. The sums of runs are added in order, as in `std.linalg`.
pub const RUN_TERMS: usize = 512;
/// The distance in elements between rows of a panel.
pub(super) const PANEL_ROW_STRIDE: usize = RUN_TERMS + 16;
/// Number of rows and columns of the square blocks (cells) that are transposed in registers.
pub(super) const CELL: usize = 4;

/// Computes a tile from `inner` terms. The rows of the panel at `a` are [`PANEL_ROW_STRIDE`] elements apart; the
/// vectors of the strip at `b` are contiguous.
///
/// # Safety
/// The machine has the instructions. `a` and `b` are readable for `inner` terms, and the whole tile is writable at its
/// destination.
pub(crate) type MicroKernel<T> = unsafe fn(inner: usize, a: *const T, b: *const T, to: TileDestination<T>);

/// The destination of a tile.
#[derive(Clone, Copy)]
pub struct TileDestination<T> {
    pub start: *mut T,
    /// The distance in elements between rows of the destination.
    pub stride: usize,
    pub update: TileUpdate,
}

/// The way in which a computed tile is combined with the contents of its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileUpdate {
    /// Store the sums; the destination may be uninitialized.
    Store,
    /// Add the sums to the contents of the destination.
    AddSum,
    /// Add the terms to the contents of the destination sequentially.
    AddTerms,
}

/// Maximum number of elements of a tile.
const MAX_TILE_ELEMENTS: usize = 14 * 32;

/// Computes a tile that is only partly within the result, and stores that part.
///
/// # Safety
/// The first `rows` rows and `columns` columns at the destination are readable and writable.
pub(super) unsafe fn compute_partial_tile<T: MicroKernelScalar>(
    tile: impl FnOnce(TileDestination<T>),
    to: TileDestination<T>,
    rows: usize,
    columns: usize,
    stride: usize,
) {
    let mut sums = [T::ZERO; MAX_TILE_ELEMENTS];
    let before = match to.update {
        TileUpdate::AddTerms => {
            for (r, row) in sums.chunks_mut(stride).take(rows).enumerate() {
                // SAFETY: guaranteed by the caller.
                unsafe { std::ptr::copy_nonoverlapping(to.start.add(r * to.stride), row.as_mut_ptr(), columns) };
            }
            TileUpdate::AddTerms
        }
        TileUpdate::Store | TileUpdate::AddSum => TileUpdate::Store,
    };
    tile(TileDestination { start: sums.as_mut_ptr(), stride, update: before });
    for (r, row) in sums.chunks(stride).take(rows).enumerate() {
        for (c, &sum) in row[..columns].iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            let place = unsafe { &mut *to.start.add(r * to.stride + c) };
            *place = if to.update == TileUpdate::AddSum { place.plus(sum) } else { sum };
        }
    }
}

/// The micro kernels of an instruction set. In `tiles[i][j]`, the micro kernel for `2 * (i + 1)` rows and `j + 1`
/// vectors is stored.
pub struct MicroKernels<T: 'static> {
    pub lanes: usize,
    pub tiles: &'static [[MicroKernel<T>; 2]],
}

impl<T> MicroKernels<T> {
    /// Returns the maximum number of rows of a micro kernel.
    pub fn max_rows(&self) -> usize {
        2 * self.tiles.len()
    }
}

/// An element type that has micro kernels.
pub trait MicroKernelScalar: bytemuck::Pod + Send + Sync {
    const ZERO: Self;

    /// Returns the micro kernels for this instruction set; `None` if there are none for it.
    fn micro_kernels(isa: Isa) -> Option<MicroKernels<Self>>;

    fn plus(self, other: Self) -> Self;

    /// Transposes a cell: element `[c][r]` at `from`, whose rows are `step` apart, becomes `[r][c]` at `to`.
    ///
    /// # Safety
    /// The cell is readable at `from`, and writable at `to`.
    #[inline(always)]
    unsafe fn transpose(from: *const Self, step: isize, to: *mut Self, stride: usize) {
        for c in 0..CELL {
            for r in 0..CELL {
                // SAFETY: guaranteed by the caller.
                unsafe { *to.add(r * stride + c) = *from.offset(c as isize * step).add(r) };
            }
        }
    }
}

impl MicroKernelScalar for f32 {
    const ZERO: f32 = 0.0;

    fn micro_kernels(isa: Isa) -> Option<MicroKernels<f32>> {
        match isa {
            Isa::Base => None,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(avx2_f32::TILES),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(avx512_f32::TILES),
        }
    }

    fn plus(self, other: f32) -> f32 {
        self + other
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn transpose(from: *const f32, step: isize, to: *mut f32, stride: usize) {
        use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
        // SAFETY: guaranteed by the caller.
        unsafe {
            let row = |c: isize| _mm_loadu_ps(from.offset(c * step));
            let (mut a, mut b, mut c, mut d) = (row(0), row(1), row(2), row(3));
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            _mm_storeu_ps(to, a);
            _mm_storeu_ps(to.add(stride), b);
            _mm_storeu_ps(to.add(2 * stride), c);
            _mm_storeu_ps(to.add(3 * stride), d);
        }
    }
}

impl MicroKernelScalar for f64 {
    const ZERO: f64 = 0.0;

    fn micro_kernels(isa: Isa) -> Option<MicroKernels<f64>> {
        match isa {
            Isa::Base => None,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(avx2_f64::TILES),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(avx512_f64::TILES),
        }
    }

    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

/// Repeats a block of statements for each row of a tile, as an unrolled loop.
#[cfg(target_arch = "x86_64")]
macro_rules! each_row {
    ($r:ident < $rows:ident: $body:block) => {
        each_row!(@ $r $rows $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $r:ident $rows:ident $body:block $($number:literal)+) => {
        $({
            let $r: usize = $number;
            if $r < $rows $body
        })+
    };
}

/// Generates the micro kernels of one instruction set and type. The maximum number of rows is chosen such that the
/// sums, the vectors of `b` and one element of `a` fill the registers.
#[cfg(target_arch = "x86_64")]
macro_rules! tiles {
    ($name:ident: $number:ty, $features:literal, $lanes:literal, rows $($rows:literal)+, $zero:ident $load:ident $store:ident $splat:ident $fma:ident $add:ident) => {
        mod $name {
            use std::arch::x86_64::*;

            use crate::product::micro_kernel::{TileUpdate, TileDestination, PANEL_ROW_STRIDE, MicroKernel, MicroKernels};

            pub const TILES: MicroKernels<$number> = MicroKernels {
                lanes: $lanes,
                tiles: &[$([tile::<$rows, 1> as MicroKernel<$number>, tile::<$rows, 2> as MicroKernel<$number>]),+],
            };

            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize, const V: usize>(
                inner: usize,
                a: *const $number,
                b: *const $number,
                to: TileDestination<$number>,
            ) {
                let mut sums = [[$zero(); V]; R];
                if to.update == TileUpdate::AddTerms {
                    each_row!(r < R: {
                        for v in 0..V {
                            // SAFETY: the address is in the tile.
                            sums[r][v] = unsafe { $load(to.start.add(r * to.stride + v * $lanes)) };
                        }
                    });
                }
                for k in 0..inner {
                    // SAFETY: `b` has `inner` groups of `V` vectors, and each row at `a` has `inner` elements.
                    unsafe {
                        let mut columns = [$zero(); V];
                        for v in 0..V {
                            columns[v] = $load(b.add((k * V + v) * $lanes));
                        }
                        // The compiler would not unroll a loop over this many rows, and would then keep the sums in
                        // memory.
                        each_row!(r < R: {
                            let row = $splat(*a.add(r * PANEL_ROW_STRIDE + k));
                            for v in 0..V {
                                sums[r][v] = $fma(row, columns[v], sums[r][v]);
                            }
                        });
                    }
                }
                each_row!(r < R: {
                    for v in 0..V {
                        // SAFETY: the address is in the tile, which is writable.
                        unsafe {
                            let place = to.start.add(r * to.stride + v * $lanes);
                            let sum = match to.update {
                                // Adding 0 turns a negative zero into a positive zero.
                                TileUpdate::Store => $add($zero(), sums[r][v]),
                                TileUpdate::AddSum => $add($load(place), sums[r][v]),
                                TileUpdate::AddTerms => sums[r][v],
                            };
                            $store(place, sum);
                        }
                    }
                });
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tiles!(avx512_f32: f32, "avx512f", 16, rows 2 4 6 8 10 12 14,
    _mm512_setzero_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_add_ps);
#[cfg(target_arch = "x86_64")]
tiles!(avx512_f64: f64, "avx512f", 8, rows 2 4 6 8 10 12 14,
    _mm512_setzero_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_set1_pd _mm512_fmadd_pd _mm512_add_pd);
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f32: f32, "avx2,fma", 8, rows 2 4 6,
    _mm256_setzero_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_add_ps);
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f64: f64, "avx2,fma", 4, rows 2 4 6,
    _mm256_setzero_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_set1_pd _mm256_fmadd_pd _mm256_add_pd);
