//! The inner loops of products: tiles of a few rows and one or two vectors of columns, whose sums stay in registers.
//!
//! Input: a panel of rows and a strip of columns, packed as `super` says, and where the tile goes. Output: the sums of one run of terms,
//! stored or added to what is there. One text is compiled for each instruction set and type; all give the same bits.

use super::super::isa::Isa;

/// The terms of a run: sums of runs are added in their order (`std.linalg`).
pub const RUN: usize = 512;
/// Elements from one row of a panel to the next.
pub(super) const ROW: usize = RUN + 16;
/// The edge of the cells that are transposed in registers.
pub(super) const CELL: usize = 4;

/// Computes a tile: `inner` terms of the rows at `a`, [`ROW`] elements apart, and of the vectors at `b`, which lie one behind the other.
///
/// # Safety
/// The machine has the instructions; `a` and `b` are readable so far, and the whole tile is writable at its place.
pub(crate) type Tile<T> = unsafe fn(inner: usize, a: *const T, b: *const T, to: Place<T>);

/// Where a tile goes.
#[derive(Clone, Copy)]
pub struct Place<T> {
    pub start: *mut T,
    /// Elements from one row to the next.
    pub stride: usize,
    pub before: Before,
}

/// What a tile is to do with what is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing has been stored there yet.
    Nothing,
    /// The sums are added to it.
    Sum,
    /// The terms are added to it, one after the other.
    Chain,
}

/// The most elements of a tile.
const MOST: usize = 14 * 32;

/// Computes a tile that is not wholly within the result, and stores what is.
///
/// # Safety
/// So many rows and columns are readable and writable.
pub(super) unsafe fn partial<T: Number>(
    tile: impl FnOnce(Place<T>),
    to: Place<T>,
    (rows, columns): (usize, usize),
    stride: usize,
) {
    let mut sums = [T::ZERO; MOST];
    let before = match to.before {
        Before::Chain => {
            for (r, row) in sums.chunks_mut(stride).take(rows).enumerate() {
                // SAFETY: as the caller says.
                unsafe { std::ptr::copy_nonoverlapping(to.start.add(r * to.stride), row.as_mut_ptr(), columns) };
            }
            Before::Chain
        }
        Before::Nothing | Before::Sum => Before::Nothing,
    };
    tile(Place { start: sums.as_mut_ptr(), stride, before });
    for (r, row) in sums.chunks(stride).take(rows).enumerate() {
        for (c, &sum) in row[..columns].iter().enumerate() {
            // SAFETY: as the caller says.
            let place = unsafe { &mut *to.start.add(r * to.stride + c) };
            *place = if to.before == Before::Sum { place.plus(sum) } else { sum };
        }
    }
}

/// The tiles of an instruction set: by half their rows, less one, and of one and two vectors.
pub struct Tiles<T: 'static> {
    pub lanes: usize,
    pub tiles: &'static [[Tile<T>; 2]],
}

impl<T> Tiles<T> {
    /// Returns the most rows of a tile.
    pub fn rows(&self) -> usize {
        2 * self.tiles.len()
    }
}

/// A type of elements that has tiles.
pub trait Number: bytemuck::Pod + Send + Sync {
    const ZERO: Self;

    /// Returns the tiles for this instruction set, if it has vectors worth the packing.
    fn tiles(isa: Isa) -> Option<Tiles<Self>>;

    fn plus(self, other: Self) -> Self;

    /// Transposes a cell: element `[c][r]` at `from`, whose rows are `step` apart, becomes `[r][c]`.
    ///
    /// # Safety
    /// The cell is readable at `from`, and writable at `to`.
    #[inline(always)]
    unsafe fn transpose(from: *const Self, step: isize, to: *mut Self, stride: usize) {
        for c in 0..CELL {
            for r in 0..CELL {
                // SAFETY: as the caller says.
                unsafe { *to.add(r * stride + c) = *from.offset(c as isize * step).add(r) };
            }
        }
    }
}

impl Number for f32 {
    const ZERO: f32 = 0.0;

    fn tiles(isa: Isa) -> Option<Tiles<f32>> {
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
        // SAFETY: as the caller says.
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

impl Number for f64 {
    const ZERO: f64 = 0.0;

    fn tiles(isa: Isa) -> Option<Tiles<f64>> {
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

/// Repeats statements for each row of a tile.
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

/// The tiles of one instruction set and type. With the most rows, sums, factors and one element of `a` fill the registers.
#[cfg(target_arch = "x86_64")]
macro_rules! tiles {
    ($name:ident: $number:ty, $features:literal, $lanes:literal, rows $($rows:literal)+, $zero:ident $load:ident $store:ident $splat:ident $fma:ident $add:ident) => {
        mod $name {
            use std::arch::x86_64::*;

            use crate::device::sim::product::micro::{Before, Place, ROW, Tile, Tiles};

            pub const TILES: Tiles<$number> = Tiles {
                lanes: $lanes,
                tiles: &[$([tile::<$rows, 1> as Tile<$number>, tile::<$rows, 2> as Tile<$number>]),+],
            };

            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize, const V: usize>(
                inner: usize,
                a: *const $number,
                b: *const $number,
                to: Place<$number>,
            ) {
                let mut sums = [[$zero(); V]; R];
                if to.before == Before::Chain {
                    each_row!(r < R: {
                        for v in 0..V {
                            // SAFETY: within the tile.
                            sums[r][v] = unsafe { $load(to.start.add(r * to.stride + v * $lanes)) };
                        }
                    });
                }
                for k in 0..inner {
                    // SAFETY: `inner` groups of `V` vectors lie at `b`, and as many elements in each row at `a`.
                    unsafe {
                        let mut columns = [$zero(); V];
                        for v in 0..V {
                            columns[v] = $load(b.add((k * V + v) * $lanes));
                        }
                        // A loop over so many rows would be left a loop, with the sums in memory.
                        each_row!(r < R: {
                            let row = $splat(*a.add(r * ROW + k));
                            for v in 0..V {
                                sums[r][v] = $fma(row, columns[v], sums[r][v]);
                            }
                        });
                    }
                }
                each_row!(r < R: {
                    for v in 0..V {
                        // SAFETY: within the tile, which is writable.
                        unsafe {
                            let place = to.start.add(r * to.stride + v * $lanes);
                            let sum = match to.before {
                                // From 0, so that a zero is positive.
                                Before::Nothing => $add($zero(), sums[r][v]),
                                Before::Sum => $add($load(place), sums[r][v]),
                                Before::Chain => sums[r][v],
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
