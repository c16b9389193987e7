//! A chunk of 16 lanes in vector registers, for the few loops that the compiler does not turn into vector code by itself.

use crate::device::sim::group::CHUNK;

/// 16 lanes of 4 bytes. The implementations for x86 must only be called where their instruction set is enabled: the step
/// that is picked for it sees to that.
pub trait Wide: Copy + 'static {
    /// # Safety
    /// `ptr` is good for reading 64 bytes.
    unsafe fn load(ptr: *const u8) -> Self;
    /// # Safety
    /// `ptr` is good for reading 4 bytes.
    unsafe fn splat(ptr: *const u8) -> Self;
    /// # Safety
    /// `ptr` is good for writing 64 bytes.
    unsafe fn store(self, ptr: *mut u8);
    /// Stores the lanes whose mask is not 0 and touches nothing else.
    ///
    /// # Safety
    /// `ptr` is good for writing those lanes.
    unsafe fn store_masked(self, ptr: *mut u8, mask: Self);
    fn of(lanes: [u32; CHUNK]) -> Self;
    /// `self` where the mask is not 0, else `other`.
    fn select(self, other: Self, mask: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// `self` without the bits of `other`.
    fn without(self, other: Self) -> Self;
    /// Whether any bit is set.
    fn any(self) -> bool;
    /// Of `f32`.
    fn add(self, other: Self) -> Self;
    /// Of `f32`.
    fn mul(self, other: Self) -> Self;
}

/// Arrays, for any machine.
#[derive(Clone, Copy)]
pub struct Portable([u32; CHUNK]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(u32, u32) -> u32) -> Self {
        let mut r = [0; CHUNK];
        for i in 0..CHUNK {
            r[i] = f(self.0[i], other.0[i]);
        }
        Portable(r)
    }
}

impl Wide for Portable {
    #[inline(always)]
    unsafe fn load(ptr: *const u8) -> Self {
        Portable(unsafe { ptr.cast::<[u32; CHUNK]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn splat(ptr: *const u8) -> Self {
        Portable([unsafe { ptr.cast::<u32>().read_unaligned() }; CHUNK])
    }
    #[inline(always)]
    unsafe fn store(self, ptr: *mut u8) {
        unsafe { ptr.cast::<[u32; CHUNK]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_masked(self, ptr: *mut u8, mask: Self) {
        for i in 0..CHUNK {
            if mask.0[i] != 0 {
                unsafe { ptr.cast::<u32>().add(i).write_unaligned(self.0[i]) };
            }
        }
    }
    #[inline(always)]
    fn of(lanes: [u32; CHUNK]) -> Self {
        Portable(lanes)
    }
    #[inline(always)]
    fn select(self, other: Self, mask: Self) -> Self {
        let mut r = other.0;
        for i in 0..CHUNK {
            r[i] = if mask.0[i] != 0 { self.0[i] } else { r[i] };
        }
        Portable(r)
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
    #[inline(always)]
    fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0.iter().fold(0, |a, b| a | b) != 0
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits())
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| (f32::from_bits(a) * f32::from_bits(b)).to_bits())
    }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
pub use x86::{V256, V512};

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
mod x86 {
    use super::Wide;
    use crate::device::sim::group::CHUNK;
    use std::arch::x86_64::*;

    /// One AVX-512 register.
    #[derive(Clone, Copy)]
    pub struct V512(__m512i);

    // SAFETY (all): the trait asks that AVX-512 is enabled.
    impl Wide for V512 {
        #[inline(always)]
        unsafe fn load(ptr: *const u8) -> Self {
            V512(unsafe { _mm512_loadu_si512(ptr.cast()) })
        }
        #[inline(always)]
        unsafe fn splat(ptr: *const u8) -> Self {
            V512(unsafe { _mm512_set1_epi32(ptr.cast::<i32>().read_unaligned()) })
        }
        #[inline(always)]
        unsafe fn store(self, ptr: *mut u8) {
            unsafe { _mm512_storeu_si512(ptr.cast(), self.0) }
        }
        #[inline(always)]
        unsafe fn store_masked(self, ptr: *mut u8, mask: Self) {
            unsafe { _mm512_mask_storeu_epi32(ptr.cast(), _mm512_test_epi32_mask(mask.0, mask.0), self.0) }
        }
        #[inline(always)]
        fn of(lanes: [u32; CHUNK]) -> Self {
            // SAFETY: the same bits.
            V512(unsafe { std::mem::transmute::<[u32; CHUNK], __m512i>(lanes) })
        }
        #[inline(always)]
        fn select(self, other: Self, mask: Self) -> Self {
            V512(unsafe { _mm512_mask_mov_epi32(other.0, _mm512_test_epi32_mask(mask.0, mask.0), self.0) })
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            V512(unsafe { _mm512_and_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn without(self, other: Self) -> Self {
            V512(unsafe { _mm512_andnot_si512(other.0, self.0) })
        }
        #[inline(always)]
        fn any(self) -> bool {
            unsafe { _mm512_test_epi32_mask(self.0, self.0) != 0 }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            let (a, b) = unsafe { (_mm512_castsi512_ps(self.0), _mm512_castsi512_ps(other.0)) };
            V512(unsafe { _mm512_castps_si512(_mm512_add_ps(a, b)) })
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            let (a, b) = unsafe { (_mm512_castsi512_ps(self.0), _mm512_castsi512_ps(other.0)) };
            V512(unsafe { _mm512_castps_si512(_mm512_mul_ps(a, b)) })
        }
    }

    /// Two AVX registers.
    #[derive(Clone, Copy)]
    pub struct V256(__m256i, __m256i);

    // SAFETY (all): the trait asks that AVX2 is enabled.
    impl Wide for V256 {
        #[inline(always)]
        unsafe fn load(ptr: *const u8) -> Self {
            unsafe { V256(_mm256_loadu_si256(ptr.cast()), _mm256_loadu_si256(ptr.add(32).cast())) }
        }
        #[inline(always)]
        unsafe fn splat(ptr: *const u8) -> Self {
            let one = unsafe { _mm256_set1_epi32(ptr.cast::<i32>().read_unaligned()) };
            V256(one, one)
        }
        #[inline(always)]
        unsafe fn store(self, ptr: *mut u8) {
            unsafe {
                _mm256_storeu_si256(ptr.cast(), self.0);
                _mm256_storeu_si256(ptr.add(32).cast(), self.1);
            }
        }
        #[inline(always)]
        unsafe fn store_masked(self, ptr: *mut u8, mask: Self) {
            unsafe {
                _mm256_maskstore_epi32(ptr.cast(), mask.0, self.0);
                _mm256_maskstore_epi32(ptr.wrapping_add(32).cast(), mask.1, self.1);
            }
        }
        #[inline(always)]
        fn of(lanes: [u32; CHUNK]) -> Self {
            // SAFETY: the same bits.
            let halves = unsafe { std::mem::transmute::<[u32; CHUNK], [__m256i; 2]>(lanes) };
            V256(halves[0], halves[1])
        }
        #[inline(always)]
        fn select(self, other: Self, mask: Self) -> Self {
            let (a, b) =
                unsafe { (_mm256_blendv_epi8(other.0, self.0, mask.0), _mm256_blendv_epi8(other.1, self.1, mask.1)) };
            V256(a, b)
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            unsafe { V256(_mm256_and_si256(self.0, other.0), _mm256_and_si256(self.1, other.1)) }
        }
        #[inline(always)]
        fn without(self, other: Self) -> Self {
            unsafe { V256(_mm256_andnot_si256(other.0, self.0), _mm256_andnot_si256(other.1, self.1)) }
        }
        #[inline(always)]
        fn any(self) -> bool {
            unsafe {
                let both = _mm256_or_si256(self.0, self.1);
                _mm256_testz_si256(both, both) == 0
            }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            unsafe {
                let f = |a, b| _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
                V256(f(self.0, other.0), f(self.1, other.1))
            }
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            unsafe {
                let f = |a, b| _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
                V256(f(self.0, other.0), f(self.1, other.1))
            }
        }
    }
}
