//! A chunk of 16 lanes in two AVX registers.

use std::arch::x86_64::*;

use super::wide::WideLanes;
use crate::group_registers::CHUNK;

/// Two AVX registers.
#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i, __m256i);

/// Applies an intrinsic for integers or (`ps`) floats to both halves.
macro_rules! halves {
    ($f:ident($($v:expr),*)) => {
        // SAFETY: G6: values of this type only exist in steps for AVX2.
        unsafe { V256($f($($v.0),*), $f($($v.1),*)) }
    };
    (ps $f:ident$(::<$how:ident>)?($($v:expr),*)) => {
        // SAFETY: G6: as above.
        unsafe {
            V256(
                _mm256_castps_si256($f$(::<$how>)?($(_mm256_castsi256_ps($v.0)),*)),
                _mm256_castps_si256($f$(::<$how>)?($(_mm256_castsi256_ps($v.1)),*)),
            )
        }
    };
}

impl WideLanes for V256 {
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn load(ptr: *const u8) -> Self {
        // SAFETY: the caller's `ptr` is good for 64 bytes. G6: the step is for this machine.
        unsafe { V256(_mm256_loadu_si256(ptr.cast()), _mm256_loadu_si256(ptr.add(32).cast())) }
    }
    #[inline(always)]
    unsafe fn broadcast(ptr: *const u8) -> Self {
        // SAFETY: the caller's `ptr` is good for 4 bytes. G6: the step is for this machine.
        let one = unsafe { _mm256_set1_epi32(ptr.cast::<i32>().read_unaligned()) };
        V256(one, one)
    }
    #[inline(always)]
    unsafe fn store(self, ptr: *mut u8) {
        // SAFETY: the caller's `ptr` is good for 64 bytes. G6: the step is for this machine.
        unsafe {
            _mm256_storeu_si256(ptr.cast(), self.0);
            _mm256_storeu_si256(ptr.add(32).cast(), self.1);
        }
    }
    #[inline(always)]
    unsafe fn store_masked(self, ptr: *mut u8, mask: Self) {
        // SAFETY: the caller's `ptr` is good for the lanes of the mask, and no other is touched. G6: the step is for
        // this machine.
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
    fn lanes(self) -> [u32; CHUNK] {
        // SAFETY: the same bits.
        unsafe { std::mem::transmute::<[__m256i; 2], [u32; CHUNK]>([self.0, self.1]) }
    }
    #[inline(always)]
    fn select(self, other: Self, mask: Self) -> Self {
        halves!(_mm256_blendv_epi8(other, self, mask))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        halves!(_mm256_and_si256(self, other))
    }
    #[inline(always)]
    fn without(self, other: Self) -> Self {
        halves!(_mm256_andnot_si256(other, self))
    }
    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: G6: values of this type only exist in steps for AVX2.
        unsafe {
            let both = _mm256_or_si256(self.0, self.1);
            _mm256_testz_si256(both, both) == 0
        }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        halves!(ps _mm256_add_ps(self, other))
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        halves!(ps _mm256_mul_ps(self, other))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        halves!(ps _mm256_sub_ps(self, other))
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        halves!(ps _mm256_div_ps(self, other))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.if_better(other, self.lt(other), self)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.if_better(other, other.lt(self), self.xor(Self::all(-1)))
    }
    #[inline(always)]
    fn neg(self) -> Self {
        self.xor(Self::all(i32::MIN))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.and(Self::all(i32::MAX))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        halves!(ps _mm256_sqrt_ps(self))
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        halves!(rsqrt(self))
    }
    #[inline(always)]
    fn fma(self, factor: Self, addend: Self) -> Self {
        halves!(ps _mm256_fmadd_ps(self, factor, addend))
    }
    #[inline(always)]
    fn i_as_f(self) -> Self {
        // SAFETY: G6: values of this type only exist in steps for AVX2.
        let of = |half| unsafe { _mm256_castps_si256(_mm256_cvtepi32_ps(half)) };
        V256(of(self.0), of(self.1))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        halves!(ps _mm256_cmp_ps::<_CMP_LT_OQ>(self, other))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Self {
        halves!(ps _mm256_cmp_ps::<_CMP_LE_OQ>(self, other))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        halves!(ps _mm256_cmp_ps::<_CMP_EQ_OQ>(self, other))
    }
    #[inline(always)]
    fn ne(self, other: Self) -> Self {
        halves!(ps _mm256_cmp_ps::<_CMP_NEQ_UQ>(self, other))
    }
    #[inline(always)]
    fn add_i(self, other: Self) -> Self {
        halves!(_mm256_add_epi32(self, other))
    }
    #[inline(always)]
    fn sub_i(self, other: Self) -> Self {
        halves!(_mm256_sub_epi32(self, other))
    }
    #[inline(always)]
    fn mul_i(self, other: Self) -> Self {
        halves!(_mm256_mullo_epi32(self, other))
    }
    #[inline(always)]
    fn lt_i(self, other: Self) -> Self {
        halves!(_mm256_cmpgt_epi32(other, self))
    }
    #[inline(always)]
    fn le_i(self, other: Self) -> Self {
        self.more_i(other).xor(Self::all(-1))
    }
    #[inline(always)]
    fn lt_u(self, other: Self) -> Self {
        // With the sign bit flipped, unsigned order is signed order.
        self.neg().lt_i(other.neg())
    }
    #[inline(always)]
    fn le_u(self, other: Self) -> Self {
        self.neg().le_i(other.neg())
    }
    #[inline(always)]
    fn eq_i(self, other: Self) -> Self {
        halves!(_mm256_cmpeq_epi32(self, other))
    }
    #[inline(always)]
    fn ne_i(self, other: Self) -> Self {
        self.eq_i(other).xor(Self::all(-1))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        halves!(_mm256_or_si256(self, other))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        halves!(_mm256_xor_si256(self, other))
    }
}

impl V256 {
    #[inline(always)]
    fn all(value: i32) -> Self {
        // SAFETY: G6: values of this type only exist in steps for AVX2.
        let one = unsafe { _mm256_set1_epi32(value) };
        V256(one, one)
    }

    #[inline(always)]
    fn more_i(self, other: Self) -> Self {
        halves!(_mm256_cmpgt_epi32(self, other))
    }

    /// Selects for `min` and `max`: `self` in lanes where `better`, where `other` is a NaN, and among equal values
    /// (zeros) where `sign` is negative; else `other`.
    #[inline(always)]
    fn if_better(self, other: Self, better: Self, sign: Self) -> Self {
        let none = halves!(ps _mm256_cmp_ps::<_CMP_UNORD_Q>(other, other));
        let negative = halves!(_mm256_srai_all(sign));
        self.select(other, better.or(none).or(self.eq(other).and(negative)))
    }
}

/// Broadcasts the sign bit of each lane to all its bits.
#[inline(always)]
unsafe fn _mm256_srai_all(v: __m256i) -> __m256i {
    // SAFETY: G6: the caller has AVX2.
    unsafe { _mm256_srai_epi32::<31>(v) }
}

/// The relative error bound of an estimate's correction, in terms of the residual.
///
/// The estimate is good to 1.5·2^-12, so that the residual `r = 1 - x y²` is below 2^-10.4 and the truncation error of
/// the fourth-order step is 35/128 r⁴ < 2^-43; the intermediate roundings, each at most 2^-24 r, add up to less than
/// 2^-32.
pub(crate) const DOUBT: f32 = f32::from_bits(0x2f80_0000);

/// Computes `1 / sqrt(x)` as the scalar definition rounds it (correctly: the test `scalar_rsqrt` covers all mantissas).
/// The correction is perturbed a little up and a little down; if both round to the same number, that is the correctly
/// rounded result. Halves with a lane where they do not, or outside of the range where products are exact, use the
/// scalar definition.
#[inline(always)]
unsafe fn rsqrt(v: __m256i) -> __m256i {
    // SAFETY: G6: the caller has AVX2 and FMA.
    unsafe {
        let (x, one) = (_mm256_castsi256_ps(v), _mm256_set1_ps(1.0));
        let y = _mm256_rsqrt_ps(x);
        let square = _mm256_mul_ps(y, y);
        let rest = _mm256_fmsub_ps(y, y, square);
        let residual = _mm256_fnmadd_ps(x, rest, _mm256_fnmadd_ps(x, square, one));
        let third = _mm256_fmadd_ps(residual, _mm256_set1_ps(0.3125), _mm256_set1_ps(0.375));
        let factor = _mm256_fmadd_ps(residual, third, _mm256_set1_ps(0.5));
        let slope = _mm256_mul_ps(factor, y);
        let doubt = _mm256_set1_ps(DOUBT);
        let up = _mm256_fmadd_ps(slope, _mm256_add_ps(residual, doubt), y);
        let down = _mm256_fmadd_ps(slope, _mm256_sub_ps(residual, doubt), y);
        // From the smallest normal number to 2^100; with the sign bit flipped, unsigned order is signed order.
        let place = _mm256_sub_epi32(v, _mm256_set1_epi32(0x0080_0000 ^ i32::MIN));
        let outside = _mm256_cmpgt_epi32(place, _mm256_set1_epi32((0x7100_0000 - 1) ^ i32::MIN));
        let differ = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NEQ_UQ>(up, down));
        let doubtful = _mm256_or_si256(outside, differ);
        if _mm256_testz_si256(doubtful, doubtful) != 0 { _mm256_castps_si256(up) } else { rsqrt_by_f64(x) }
    }
}

#[inline(always)]
unsafe fn rsqrt_by_f64(x: __m256) -> __m256i {
    // SAFETY: G6: the caller has AVX2.
    unsafe {
        let one = _mm256_set1_pd(1.0);
        let low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
        let high = _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x));
        let low = _mm256_cvtpd_ps(_mm256_div_pd(one, _mm256_sqrt_pd(low)));
        let high = _mm256_cvtpd_ps(_mm256_div_pd(one, _mm256_sqrt_pd(high)));
        _mm256_castps_si256(_mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high))
    }
}
