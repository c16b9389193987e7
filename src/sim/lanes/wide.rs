//! A chunk of 16 lanes in vector registers, for the few loops that LLVM does not vectorize.

use super::arith::{Abs, Add, DivF, Eq, Fma, Le, Lt, Max, Min, Mul, Ne, Neg, Or, Rsqrt, Sqrt, Sub, Xor};
use super::convert::To;
use super::{Fn1, Fn2, Fn3, LaneScalar};
use crate::group_registers::CHUNK;

/// 16 lanes of 4 bytes. The implementations for x86 must only be called where their instruction set is enabled;
/// selecting the step for that instruction set ensures it.
pub(crate) trait WideLanes: Copy + 'static {
    /// At least twenty values fit in registers at once.
    const ROOMY: bool;
    /// # Safety
    /// `ptr` is good for reading 64 bytes.
    unsafe fn load(ptr: *const u8) -> Self;
    /// # Safety
    /// `ptr` is good for reading 4 bytes.
    unsafe fn broadcast(ptr: *const u8) -> Self;
    /// # Safety
    /// `ptr` is good for writing 64 bytes.
    unsafe fn store(self, ptr: *mut u8);
    /// Stores the lanes whose mask is not 0 and touches nothing else.
    ///
    /// # Safety
    /// `ptr` is good for writing those lanes.
    unsafe fn store_masked(self, ptr: *mut u8, mask: Self);
    fn of(lanes: [u32; CHUNK]) -> Self;
    fn lanes(self) -> [u32; CHUNK];
    /// `self` where the mask is not 0, else `other`.
    fn select(self, other: Self, mask: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// `self` without the bits of `other`.
    fn without(self, other: Self) -> Self;
    /// Whether any bit is set.
    fn any(self) -> bool;
    /// Adds `f32` lanes.
    fn add(self, other: Self) -> Self;
    /// Multiplies `f32` lanes.
    fn mul(self, other: Self) -> Self;

    // The default implementations below are correct for every type; some types have faster ones.

    /// Applies a function to lanes of 4 bytes.
    #[inline(always)]
    fn map1<A: LaneScalar, F: Fn1<A>>(self) -> Self {
        let a = self.lanes();
        let mut r = [0; CHUNK];
        for i in 0..CHUNK {
            r[i] = bits(F::call(read::<A>(a[i])));
        }
        Self::of(r)
    }

    /// Applies a function of two lanes of 4 bytes.
    #[inline(always)]
    fn map2<A: LaneScalar, F: Fn2<A>>(self, other: Self) -> Self {
        let (a, b) = (self.lanes(), other.lanes());
        let mut r = [0; CHUNK];
        for i in 0..CHUNK {
            r[i] = bits(F::call(read::<A>(a[i]), read::<A>(b[i])));
        }
        Self::of(r)
    }

    /// Applies a function of three lanes of 4 bytes.
    #[inline(always)]
    fn map3<A: LaneScalar, F: Fn3<A>>(self, second: Self, third: Self) -> Self {
        let (a, b, c) = (self.lanes(), second.lanes(), third.lanes());
        let mut r = [0; CHUNK];
        for i in 0..CHUNK {
            r[i] = bits(F::call(read::<A>(a[i]), read::<A>(b[i]), read::<A>(c[i])));
        }
        Self::of(r)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.map2::<f32, Sub>(other)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.map2::<f32, DivF>(other)
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.map2::<f32, Min>(other)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.map2::<f32, Max>(other)
    }
    #[inline(always)]
    fn neg(self) -> Self {
        self.map1::<f32, Neg>()
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map1::<f32, Abs>()
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map1::<f32, Sqrt>()
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        self.map1::<f32, Rsqrt>()
    }
    /// Computes `self * factor + addend`, rounded once.
    #[inline(always)]
    fn fma(self, factor: Self, addend: Self) -> Self {
        self.map3::<f32, Fma>(factor, addend)
    }
    /// Converts `i32` to `f32`.
    #[inline(always)]
    fn i_as_f(self) -> Self {
        self.map1::<i32, To<f32>>()
    }
    /// Converts `u32` to `f32`.
    #[inline(always)]
    fn u_as_f(self) -> Self {
        self.map1::<u32, To<f32>>()
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        self.map2::<f32, Lt>(other)
    }
    #[inline(always)]
    fn le(self, other: Self) -> Self {
        self.map2::<f32, Le>(other)
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        self.map2::<f32, Eq>(other)
    }
    #[inline(always)]
    fn ne(self, other: Self) -> Self {
        self.map2::<f32, Ne>(other)
    }
    #[inline(always)]
    fn add_i(self, other: Self) -> Self {
        self.map2::<u32, Add>(other)
    }
    #[inline(always)]
    fn sub_i(self, other: Self) -> Self {
        self.map2::<u32, Sub>(other)
    }
    #[inline(always)]
    fn mul_i(self, other: Self) -> Self {
        self.map2::<u32, Mul>(other)
    }
    #[inline(always)]
    fn lt_i(self, other: Self) -> Self {
        self.map2::<i32, Lt>(other)
    }
    #[inline(always)]
    fn le_i(self, other: Self) -> Self {
        self.map2::<i32, Le>(other)
    }
    #[inline(always)]
    fn lt_u(self, other: Self) -> Self {
        self.map2::<u32, Lt>(other)
    }
    #[inline(always)]
    fn le_u(self, other: Self) -> Self {
        self.map2::<u32, Le>(other)
    }
    #[inline(always)]
    fn eq_i(self, other: Self) -> Self {
        self.map2::<u32, Eq>(other)
    }
    #[inline(always)]
    fn ne_i(self, other: Self) -> Self {
        self.map2::<u32, Ne>(other)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.map2::<u32, Or>(other)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.map2::<u32, Xor>(other)
    }
}

#[inline(always)]
fn read<A: LaneScalar>(bits: u32) -> A {
    A::from_raw(bits.into())
}

#[inline(always)]
fn bits<A: LaneScalar>(value: A) -> u32 {
    super::lane_of_raw(A::SCALAR, value.to_raw()) as u32
}

/// Plain arrays, for any machine.
#[derive(Clone, Copy)]
pub(crate) struct Portable([u32; CHUNK]);

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

impl WideLanes for Portable {
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn load(ptr: *const u8) -> Self {
        // SAFETY: the caller's `ptr` is good for 64 bytes.
        Portable(unsafe { ptr.cast::<[u32; CHUNK]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn broadcast(ptr: *const u8) -> Self {
        // SAFETY: the caller's `ptr` is good for 4 bytes.
        Portable([unsafe { ptr.cast::<u32>().read_unaligned() }; CHUNK])
    }
    #[inline(always)]
    unsafe fn store(self, ptr: *mut u8) {
        // SAFETY: the caller's `ptr` is good for 64 bytes.
        unsafe { ptr.cast::<[u32; CHUNK]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_masked(self, ptr: *mut u8, mask: Self) {
        for i in 0..CHUNK {
            if mask.0[i] != 0 {
                // SAFETY: the caller's `ptr` is good for the lanes of the mask.
                unsafe { ptr.cast::<u32>().add(i).write_unaligned(self.0[i]) };
            }
        }
    }
    #[inline(always)]
    fn of(lanes: [u32; CHUNK]) -> Self {
        Portable(lanes)
    }
    #[inline(always)]
    fn lanes(self) -> [u32; CHUNK] {
        self.0
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

#[cfg(target_arch = "x86_64")]
pub(crate) use super::avx2::V256;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{DOUBT, V512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::WideLanes;
    use crate::group_registers::CHUNK;
    use std::arch::x86_64::*;

    /// One AVX-512 register.
    #[derive(Clone, Copy)]
    pub(crate) struct V512(__m512i);

    /// Evaluates intrinsics that have no precondition but the instruction set.
    macro_rules! avx512 {
        ($e:expr) => {
            // SAFETY: G6: values of this type only exist in steps for AVX-512.
            unsafe { $e }
        };
    }

    impl WideLanes for V512 {
        const ROOMY: bool = true;

        #[inline(always)]
        unsafe fn load(ptr: *const u8) -> Self {
            // SAFETY: the caller's `ptr` is good for 64 bytes. G6: the step is for this machine.
            V512(unsafe { _mm512_loadu_si512(ptr.cast()) })
        }
        #[inline(always)]
        unsafe fn broadcast(ptr: *const u8) -> Self {
            // SAFETY: the caller's `ptr` is good for 4 bytes. G6: the step is for this machine.
            V512(unsafe { _mm512_set1_epi32(ptr.cast::<i32>().read_unaligned()) })
        }
        #[inline(always)]
        unsafe fn store(self, ptr: *mut u8) {
            // SAFETY: the caller's `ptr` is good for 64 bytes. G6: the step is for this machine.
            unsafe { _mm512_storeu_si512(ptr.cast(), self.0) }
        }
        #[inline(always)]
        unsafe fn store_masked(self, ptr: *mut u8, mask: Self) {
            // SAFETY: the caller's `ptr` is good for the lanes of the mask, and no other is touched. G6: the step is
            // for this machine.
            unsafe { _mm512_mask_storeu_epi32(ptr.cast(), _mm512_test_epi32_mask(mask.0, mask.0), self.0) }
        }
        #[inline(always)]
        fn of(lanes: [u32; CHUNK]) -> Self {
            // SAFETY: the same bits.
            V512(unsafe { std::mem::transmute::<[u32; CHUNK], __m512i>(lanes) })
        }
        #[inline(always)]
        fn lanes(self) -> [u32; CHUNK] {
            // SAFETY: the same bits.
            unsafe { std::mem::transmute::<__m512i, [u32; CHUNK]>(self.0) }
        }
        #[inline(always)]
        fn select(self, other: Self, mask: Self) -> Self {
            V512(avx512!(_mm512_mask_mov_epi32(other.0, _mm512_test_epi32_mask(mask.0, mask.0), self.0)))
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            V512(avx512!(_mm512_and_si512(self.0, other.0)))
        }
        #[inline(always)]
        fn without(self, other: Self) -> Self {
            V512(avx512!(_mm512_andnot_si512(other.0, self.0)))
        }
        #[inline(always)]
        fn any(self) -> bool {
            avx512!(_mm512_test_epi32_mask(self.0, self.0) != 0)
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self::of_ps(avx512!(_mm512_add_ps(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            Self::of_ps(avx512!(_mm512_mul_ps(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            Self::of_ps(avx512!(_mm512_sub_ps(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            Self::of_ps(avx512!(_mm512_div_ps(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            self.if_better(other, avx512!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.ps(), other.ps())), self)
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            self.if_better(other, avx512!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.ps(), other.ps())), other)
        }
        #[inline(always)]
        fn neg(self) -> Self {
            V512(avx512!(_mm512_xor_si512(self.0, _mm512_set1_epi32(i32::MIN))))
        }
        #[inline(always)]
        fn abs(self) -> Self {
            V512(avx512!(_mm512_and_si512(self.0, _mm512_set1_epi32(i32::MAX))))
        }
        #[inline(always)]
        fn fma(self, factor: Self, addend: Self) -> Self {
            Self::of_ps(avx512!(_mm512_fmadd_ps(self.ps(), factor.ps(), addend.ps())))
        }
        #[inline(always)]
        fn i_as_f(self) -> Self {
            Self::of_ps(avx512!(_mm512_cvtepi32_ps(self.0)))
        }
        #[inline(always)]
        fn u_as_f(self) -> Self {
            Self::of_ps(avx512!(_mm512_cvtepu32_ps(self.0)))
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            Self::of_ps(avx512!(_mm512_sqrt_ps(self.ps())))
        }
        #[inline(always)]
        fn rsqrt(self) -> Self {
            Self::of_ps(avx512!(rsqrt(self.ps())))
        }
        #[inline(always)]
        fn lt(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn le(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn eq(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn ne(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(self.ps(), other.ps())))
        }
        #[inline(always)]
        fn add_i(self, other: Self) -> Self {
            V512(avx512!(_mm512_add_epi32(self.0, other.0)))
        }
        #[inline(always)]
        fn sub_i(self, other: Self) -> Self {
            V512(avx512!(_mm512_sub_epi32(self.0, other.0)))
        }
        #[inline(always)]
        fn mul_i(self, other: Self) -> Self {
            V512(avx512!(_mm512_mullo_epi32(self.0, other.0)))
        }
        #[inline(always)]
        fn lt_i(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmplt_epi32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn le_i(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmple_epi32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn lt_u(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmplt_epu32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn le_u(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmple_epu32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn eq_i(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmpeq_epi32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn ne_i(self, other: Self) -> Self {
            Self::of_mask(avx512!(_mm512_cmpneq_epi32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            V512(avx512!(_mm512_or_si512(self.0, other.0)))
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            V512(avx512!(_mm512_xor_si512(self.0, other.0)))
        }
    }

    impl V512 {
        /// Selects for `min` and `max`: `self` in lanes where `better`, where `other` is a NaN, and among equal values
        /// (zeros) where `sign` is negative; else `other`.
        #[inline(always)]
        fn if_better(self, other: Self, better: __mmask16, sign: Self) -> Self {
            // SAFETY: G6: values of this type only exist in steps for AVX-512.
            let take = unsafe {
                let none = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.ps(), other.ps());
                let equal = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.ps(), other.ps());
                better | none | equal & _mm512_movepi32_mask(sign.0)
            };
            V512(avx512!(_mm512_mask_mov_epi32(other.0, take, self.0)))
        }
        #[inline(always)]
        fn ps(self) -> __m512 {
            // SAFETY: G6: values of this type only exist in steps for AVX-512.
            avx512!(_mm512_castsi512_ps(self.0))
        }
        #[inline(always)]
        fn of_ps(value: __m512) -> Self {
            V512(avx512!(_mm512_castps_si512(value)))
        }
        #[inline(always)]
        fn of_mask(mask: __mmask16) -> Self {
            V512(avx512!(_mm512_movm_epi32(mask)))
        }
    }

    /// The relative error bound of an estimate's correction, in terms of the residual.
    ///
    /// The estimate is good to 2^-14, so that the residual `r = 1 - x y²` is below 2^-13 and the truncation error of
    /// the cubic step is 5/16 r³ < 2^-40; each intermediate rounding adds at most 2^-24 r. Together they stay below
    /// 2^-35.
    pub(crate) const DOUBT: f32 = f32::from_bits(0x2e00_0000);

    /// Computes `1 / sqrt(x)` as the scalar definition rounds it (correctly: the test `scalar_rsqrt` covers every
    /// mantissa). The correction is perturbed a little up and a little down; if both round to the same number, that is
    /// the correctly rounded result. Chunks with a lane where they do not, or outside of the range where products are
    /// exact, use the scalar definition.
    #[inline(always)]
    unsafe fn rsqrt(x: __m512) -> __m512 {
        // SAFETY: G6: the caller has AVX-512.
        unsafe {
            let one = _mm512_set1_ps(1.0);
            let y = _mm512_rsqrt14_ps(x);
            let square = _mm512_mul_ps(y, y);
            let rest = _mm512_fmsub_ps(y, y, square);
            let residual = _mm512_fnmadd_ps(x, rest, _mm512_fnmadd_ps(x, square, one));
            let factor = _mm512_fmadd_ps(residual, _mm512_set1_ps(0.375), _mm512_set1_ps(0.5));
            let slope = _mm512_mul_ps(factor, y);
            let doubt = _mm512_set1_ps(DOUBT);
            let up = _mm512_fmadd_ps(slope, _mm512_add_ps(residual, doubt), y);
            let down = _mm512_fmadd_ps(slope, _mm512_sub_ps(residual, doubt), y);
            // From the smallest normal number to 2^100.
            let place = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x0080_0000));
            let outside = _mm512_cmpge_epu32_mask(place, _mm512_set1_epi32(0x7100_0000));
            if _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(up, down) | outside == 0 { up } else { rsqrt_by_f64(x) }
        }
    }

    #[inline(always)]
    unsafe fn rsqrt_by_f64(x: __m512) -> __m512 {
        // SAFETY: G6: the caller has AVX-512.
        unsafe {
            let one = _mm512_set1_pd(1.0);
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
            let high = _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(x));
            let low = _mm512_cvtpd_ps(_mm512_div_pd(one, _mm512_sqrt_pd(low)));
            let high = _mm512_cvtpd_ps(_mm512_div_pd(one, _mm512_sqrt_pd(high)));
            _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
        }
    }
}
