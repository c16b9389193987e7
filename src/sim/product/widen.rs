//! Widens tile operands to `f32`, the type that the micro kernels multiply.
//!
//! Input: rows of `f16`, `bf16` or `f32` in memory. Output: the same values as `f32`; the conversion is exact.

use std::arch::x86_64::*;

use clk_scalar::{bf16, f16};

/// The element type of a tile operand.
pub(super) trait Narrow {
    const BYTES: usize;
    /// The exponent of the type's smallest positive normal number.
    const MIN_EXPONENT: i32;

    /// Loads eight numbers.
    ///
    /// # Safety
    /// Eight numbers are readable; the machine has AVX2 and F16C.
    unsafe fn load8(from: *const u8) -> __m256;

    /// Loads one number.
    ///
    /// # Safety
    /// A number is readable.
    unsafe fn load1(from: *const u8) -> f32;
}

pub(super) struct Half;
pub(super) struct Brain;
pub(super) struct Single;

impl Narrow for Half {
    const BYTES: usize = 2;
    const MIN_EXPONENT: i32 = -14;

    #[inline(always)]
    unsafe fn load8(from: *const u8) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load1(from: *const u8) -> f32 {
        // SAFETY: guaranteed by the caller.
        f16::from_bits(unsafe { from.cast::<u16>().read_unaligned() }).to_f32()
    }
}

impl Narrow for Brain {
    const BYTES: usize = 2;
    const MIN_EXPONENT: i32 = -126;

    #[inline(always)]
    unsafe fn load8(from: *const u8) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())), 16)) }
    }

    #[inline(always)]
    unsafe fn load1(from: *const u8) -> f32 {
        // SAFETY: guaranteed by the caller.
        bf16::from_bits(unsafe { from.cast::<u16>().read_unaligned() }).to_f32()
    }
}

impl Narrow for Single {
    const BYTES: usize = 4;
    const MIN_EXPONENT: i32 = -126;

    #[inline(always)]
    unsafe fn load8(from: *const u8) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load1(from: *const u8) -> f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { from.cast::<f32>().read_unaligned() }
    }
}

/// Widens rows that start `stride` bytes apart to rows of `f32` that start `to_stride` elements apart.
///
/// # Safety
/// The rows and columns are readable and writable; the machine has AVX2 and F16C.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn widen_rows<N: Narrow>(
    from: *const u8,
    stride: usize,
    [rows, columns]: [usize; 2],
    to: *mut f32,
    to_stride: usize,
) {
    for row in 0..rows {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (from, to) = (from.add(row * stride), to.add(row * to_stride));
            let mut done = 0;
            while done + 16 <= columns {
                _mm256_storeu_ps(to.add(done), N::load8(from.add(done * N::BYTES)));
                _mm256_storeu_ps(to.add(done + 8), N::load8(from.add((done + 8) * N::BYTES)));
                done += 16;
            }
            while done + 8 <= columns {
                _mm256_storeu_ps(to.add(done), N::load8(from.add(done * N::BYTES)));
                done += 8;
            }
            while done < columns {
                *to.add(done) = N::load1(from.add(done * N::BYTES));
                done += 1;
            }
        }
    }
}
