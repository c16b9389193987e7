//! Factors of tiles as `f32`: what multiplies them has one type of numbers.
//!
//! Input: rows of `f16`, `bf16` or `f32` in memory. Output: the same numbers as `f32`. All are exact.

use std::arch::x86_64::*;

use crate::lang::scalar::{bf16, f16};

/// A type of factors.
pub(super) trait Narrow {
    const BYTES: usize;
    /// The exponent of the least normal number.
    const LEAST: i32;

    /// # Safety
    /// Eight numbers are readable there; the machine has AVX2 and F16C.
    unsafe fn eight(from: *const u8) -> __m256;

    /// # Safety
    /// A number is readable there.
    unsafe fn one(from: *const u8) -> f32;
}

pub(super) struct Half;
pub(super) struct Brain;
pub(super) struct Single;

impl Narrow for Half {
    const BYTES: usize = 2;
    const LEAST: i32 = -14;

    #[inline(always)]
    unsafe fn eight(from: *const u8) -> __m256 {
        // SAFETY: as the caller says.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn one(from: *const u8) -> f32 {
        // SAFETY: as the caller says.
        f16::from_bits(unsafe { from.cast::<u16>().read_unaligned() }).to_f32()
    }
}

impl Narrow for Brain {
    const BYTES: usize = 2;
    const LEAST: i32 = -126;

    #[inline(always)]
    unsafe fn eight(from: *const u8) -> __m256 {
        // SAFETY: as the caller says.
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())), 16)) }
    }

    #[inline(always)]
    unsafe fn one(from: *const u8) -> f32 {
        // SAFETY: as the caller says.
        bf16::from_bits(unsafe { from.cast::<u16>().read_unaligned() }).to_f32()
    }
}

impl Narrow for Single {
    const BYTES: usize = 4;
    const LEAST: i32 = -126;

    #[inline(always)]
    unsafe fn eight(from: *const u8) -> __m256 {
        // SAFETY: as the caller says.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn one(from: *const u8) -> f32 {
        // SAFETY: as the caller says.
        unsafe { from.cast::<f32>().read_unaligned() }
    }
}

/// Widens rows that begin every `stride` bytes, to rows that begin every `to_stride` numbers.
///
/// # Safety
/// So many rows and columns are readable, and writable; the machine has AVX2 and F16C.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn rows<N: Narrow>(
    from: *const u8,
    stride: usize,
    [rows, columns]: [usize; 2],
    to: *mut f32,
    to_stride: usize,
) {
    for row in 0..rows {
        // SAFETY: as the caller says.
        unsafe {
            let (from, to) = (from.add(row * stride), to.add(row * to_stride));
            let mut done = 0;
            while done + 16 <= columns {
                _mm256_storeu_ps(to.add(done), N::eight(from.add(done * N::BYTES)));
                _mm256_storeu_ps(to.add(done + 8), N::eight(from.add((done + 8) * N::BYTES)));
                done += 16;
            }
            while done + 8 <= columns {
                _mm256_storeu_ps(to.add(done), N::eight(from.add(done * N::BYTES)));
                done += 8;
            }
            while done < columns {
                *to.add(done) = N::one(from.add(done * N::BYTES));
                done += 1;
            }
        }
    }
}
