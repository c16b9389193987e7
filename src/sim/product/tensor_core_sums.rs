//! Tile products that have the same bits as those of tensor cores. `clk_lower::mma_emulation` implements the same model
//! of tensor cores with DeviceIR operations.
//!
//! Input: tiles in memory. Output: the sum, to which groups of terms are added sequentially. Tensor cores align the
//! terms of a group to the largest exponent and truncate them to a common unit. If the exponents are in a range in
//! which products are exact in `f32`, the terms are converted to `i32` multiples of that unit; the sum of 16 terms
//! below 2^27 does not overflow. Other groups, such as those with infinities or NaN, are computed in `f64`.

use std::arch::x86_64::*;

use super::pack_buffer::with_pack_buffer;
use super::tile_gemm::TileGemm;
use super::widen::{self, Narrow};

/// Number of bits below the largest exponent to which terms are truncated.
const KEPT_BITS: i32 = 25;
/// The exponent value for a zero; it is less than the exponent of every nonzero product.
const ZERO_EXPONENT: i16 = -1000;
/// The largest exponent of a group if all its terms are zero.
const MIN_GROUP_EXPONENT: i32 = -300;
/// The unbiased exponent field of an infinity or a NaN in an `f32`.
const NONFINITE_EXPONENT: i32 = 128;
/// A value that is greater than the sum of every two exponents.
const UNBOUNDED_EXPONENT: i32 = 10_000;
/// The smallest and the largest exponent for which products, truncation units and the scales by them are exact in
/// `f32`.
const EXACT_F32_RANGE: [i32; 2] = [-100, 90];
/// The number of columns of a strip.
const STRIP_COLUMNS: usize = 16;
/// Number of rows of the left operand that are processed together.
const ROW_PAIR: usize = 2;

/// The smallest and the largest exponent of the operands in a group of terms, without zeros.
type ExponentRange = [i32; 2];
const EMPTY: ExponentRange = [UNBOUNDED_EXPONENT, -UNBOUNDED_EXPONENT];

/// The packing buffers of a worker.
struct CutScratch<'d> {
    /// The strips of the right operand and their exponents.
    columns: (&'d mut [f32], &'d mut [i16]),
    /// Two rows of the left operand and their exponents.
    rows: (&'d mut [f32], &'d mut [i16]),
    /// Exponent ranges of the right operand, for each strip and group; and of the two rows of the left operand, for
    /// each group.
    ranges: (&'d mut [ExponentRange], &'d mut [ExponentRange]),
}

/// Adds the product of two tiles to the tile `sum`.
///
/// # Safety
/// [`TileGemm::is_covered`] holds, `N` is the operand type, and `G` the number of terms that are added at once. The
/// operands are readable. The sum is writable and does not overlap them.
pub(super) unsafe fn add_product<N: Narrow, const G: usize>(
    gemm: &TileGemm,
    sum: *mut f32,
    left: *const u8,
    right: *const u8,
) -> Option<()> {
    let (terms, strips) = (gemm.inner.next_multiple_of(G), gemm.columns.div_ceil(STRIP_COLUMNS));
    let (b, a, groups) = (strips * terms * STRIP_COLUMNS, ROW_PAIR * terms, terms / G);
    let words = [b, b / 2, a, a / 2, 2 * strips * groups, 2 * groups];
    with_pack_buffer(words.iter().sum::<usize>() * 4, |buffer| {
        let mut rest = buffer;
        let mut parts = words.map(|words| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(words * 4);
            rest = tail;
            Some(part)
        });
        let mut part = |at: usize| parts[at].take().unwrap_or_default();
        let mut scratch = CutScratch {
            columns: (bytemuck::cast_slice_mut(part(0)), bytemuck::cast_slice_mut(part(1))),
            rows: (bytemuck::cast_slice_mut(part(2)), bytemuck::cast_slice_mut(part(3))),
            ranges: (bytemuck::cast_slice_mut(part(4)), bytemuck::cast_slice_mut(part(5))),
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            pack_columns::<N, G>(gemm, right, &mut scratch);
            for top in (0..gemm.rows).step_by(ROW_PAIR) {
                pack_rows::<N, G>(gemm, left, top, &mut scratch);
                for strip in 0..strips {
                    add_pair::<G>(gemm, sum, top, strip, &scratch);
                }
            }
        }
    })
}

/// Packs the right operand into strips, with the exponents of its elements.
///
/// # Safety
/// As for [`add_product`].
#[target_feature(enable = "avx2,f16c")]
unsafe fn pack_columns<N: Narrow, const G: usize>(gemm: &TileGemm, right: *const u8, scratch: &mut CutScratch<'_>) {
    let terms = gemm.inner.next_multiple_of(G);
    let strips = scratch
        .columns
        .0
        .chunks_exact_mut(terms * STRIP_COLUMNS)
        .zip(scratch.columns.1.chunks_exact_mut(terms * STRIP_COLUMNS));
    for (strip, (numbers, exponents)) in strips.enumerate() {
        let first = strip * STRIP_COLUMNS;
        let width = (gemm.columns - first).min(STRIP_COLUMNS);
        if width < STRIP_COLUMNS {
            numbers.fill(0.0);
        }
        numbers[gemm.inner * STRIP_COLUMNS..].fill(0.0);
        // SAFETY: these terms and columns belong to the operand, and the strip has room for them.
        unsafe {
            let from = right.add(first * N::BYTES);
            widen::widen_rows::<N>(
                from,
                gemm.columns * N::BYTES,
                [gemm.inner, width],
                numbers.as_mut_ptr(),
                STRIP_COLUMNS,
            );
        }
        exponents_of::<N>(numbers, exponents);
        let ranges = &mut scratch.ranges.0[strip * (terms / G)..][..terms / G];
        ranges.fill(EMPTY);
        join_ranges(exponents.chunks_exact(G * STRIP_COLUMNS), ranges);
    }
}

/// Packs two rows of the left operand, beginning at row `top`. If there is no second row, it is filled with zeros.
///
/// # Safety
/// As for [`add_product`].
#[target_feature(enable = "avx2,f16c")]
unsafe fn pack_rows<N: Narrow, const G: usize>(
    gemm: &TileGemm,
    left: *const u8,
    top: usize,
    scratch: &mut CutScratch<'_>,
) {
    let terms = gemm.inner.next_multiple_of(G);
    let (numbers, exponents) = (&mut *scratch.rows.0, &mut *scratch.rows.1);
    let count = (gemm.rows - top).min(ROW_PAIR);
    if count < ROW_PAIR || terms > gemm.inner {
        numbers.fill(0.0);
    }
    // SAFETY: these rows and terms belong to the operand, and there is room for both rows.
    unsafe {
        let from = left.add(top * gemm.inner * N::BYTES);
        widen::widen_rows::<N>(from, gemm.inner * N::BYTES, [count, gemm.inner], numbers.as_mut_ptr(), terms);
    }
    exponents_of::<N>(numbers, exponents);
    scratch.ranges.1.fill(EMPTY);
    exponents.chunks_exact(terms).for_each(|row| join_ranges(row.chunks_exact(G), scratch.ranges.1));
}

/// Computes the exponents that numbers have in type `N`. Subnormal numbers of `N` have the exponent of its smallest
/// normal number.
#[inline(always)]
fn exponents_of<N: Narrow>(numbers: &[f32], exponents: &mut [i16]) {
    for (number, exponent) in numbers.iter().zip(exponents) {
        let bits = number.to_bits();
        let field = (bits >> 23 & 0xff) as i32 - 127;
        *exponent = if bits << 1 == 0 { ZERO_EXPONENT } else { field.max(N::MIN_EXPONENT) as i16 };
    }
}

/// Extends the exponent range of each group by the exponents of the group's operands.
#[inline(always)]
fn join_ranges<'e>(groups: impl Iterator<Item = &'e [i16]>, ranges: &mut [ExponentRange]) {
    for (group, range) in groups.zip(ranges) {
        let (mut low, mut high) = (UNBOUNDED_EXPONENT as i16, ZERO_EXPONENT);
        for &exponent in group {
            low = low.min(if exponent == ZERO_EXPONENT { UNBOUNDED_EXPONENT as i16 } else { exponent });
            high = high.max(exponent);
        }
        // Infinity times zero is NaN even if the other operand is all zeros, so the exponent range of a group with an
        // infinity or a NaN must not be within `EXACT_F32_RANGE`.
        let low = if i32::from(high) >= NONFINITE_EXPONENT { -3 * UNBOUNDED_EXPONENT } else { low.into() };
        *range = [range[0].min(low), range[1].max(high.into())];
    }
}

/// Adds the products of a strip and of the two rows from row `top` on to the sum, one group of terms at a time.
///
/// # Safety
/// As for [`add_product`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_pair<const G: usize>(gemm: &TileGemm, sum: *mut f32, top: usize, strip: usize, scratch: &CutScratch<'_>) {
    let terms = gemm.inner.next_multiple_of(G);
    let (count, width) = ((gemm.rows - top).min(ROW_PAIR), (gemm.columns - strip * STRIP_COLUMNS).min(STRIP_COLUMNS));
    // SAFETY: these rows and columns are within the sum.
    let place = unsafe { sum.add(top * gemm.columns + strip * STRIP_COLUMNS) };
    let mut sums = [[0.0f32; STRIP_COLUMNS]; ROW_PAIR];
    for row in 0..count {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(place.add(row * gemm.columns), sums[row].as_mut_ptr(), width) };
    }
    let (of_b, of_a) = (&scratch.ranges.0[strip * (terms / G)..], &*scratch.ranges.1);
    for group in 0..terms / G {
        let b = numbers_and_exponents(
            &*scratch.columns.0,
            &*scratch.columns.1,
            (strip * terms + group * G) * STRIP_COLUMNS,
            G * STRIP_COLUMNS,
        );
        let a = [group * G, terms + group * G]
            .map(|first| numbers_and_exponents(&*scratch.rows.0, &*scratch.rows.1, first, G));
        let ([low, high], [least, most]) = (of_a[group], of_b[group]);
        // SAFETY: the groups have this many terms.
        let done = low + least >= EXACT_F32_RANGE[0]
            && high + most <= EXACT_F32_RANGE[1]
            && unsafe { add_group_i32::<G>(a, b, &mut sums) };
        if !done {
            for row in 0..ROW_PAIR {
                add_group_f64::<G>(a[row], b, &mut sums[row]);
            }
        }
    }
    for row in 0..count {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(sums[row].as_ptr(), place.add(row * gemm.columns), width) };
    }
}

/// Returns `count` numbers from position `first` on, and their exponents.
#[inline(always)]
fn numbers_and_exponents<'d>(
    numbers: &'d [f32],
    exponents: &'d [i16],
    first: usize,
    count: usize,
) -> (&'d [f32], &'d [i16]) {
    (&numbers[first..][..count], &exponents[first..][..count])
}

/// Adds a group of terms to the sums of a row, computed in `f64`; the operands may be arbitrary numbers.
#[inline(always)]
fn add_group_f64<const G: usize>(a: (&[f32], &[i16]), b: (&[f32], &[i16]), sums: &mut [f32; STRIP_COLUMNS]) {
    let (mut largest, mut total) = ([MIN_GROUP_EXPONENT; STRIP_COLUMNS], [0.0f64; STRIP_COLUMNS]);
    for column in 0..STRIP_COLUMNS {
        let bits = sums[column].to_bits();
        let field = (bits >> 23 & 0xff) as i32;
        let own = if bits << 1 == 0 { ZERO_EXPONENT.into() } else { field.max(1) - 127 };
        largest[column] = own.max(MIN_GROUP_EXPONENT);
    }
    for term in 0..G {
        for column in 0..STRIP_COLUMNS {
            largest[column] = largest[column].max(i32::from(a.1[term]) + i32::from(b.1[term * STRIP_COLUMNS + column]));
        }
    }
    let mut up = [0.0f64; STRIP_COLUMNS];
    for column in 0..STRIP_COLUMNS {
        up[column] = f64_power_of_two(KEPT_BITS - largest[column]);
        total[column] = (f64::from(sums[column]) * up[column]).trunc();
    }
    for term in 0..G {
        for column in 0..STRIP_COLUMNS {
            let product = f64::from(a.0[term]) * f64::from(b.0[term * STRIP_COLUMNS + column]);
            total[column] += (product * up[column]).trunc();
        }
    }
    for column in 0..STRIP_COLUMNS {
        // Adding 0.0 turns a negative zero into a positive zero, which tensor cores return.
        let exact = (total[column] + 0.0) * f64_power_of_two(largest[column] - KEPT_BITS);
        let (near, size) = (exact as f32, exact.abs());
        let beyond = f64::from(near).abs() > size && size < 2f64.powi(128);
        let bits = if exact.is_nan() { 0x7fff_ffff } else { near.to_bits() - u32::from(beyond) };
        sums[column] = f32::from_bits(bits);
    }
}

#[inline(always)]
fn f64_power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Adds a group of terms to the sums of two rows, computed in `i32`. All products must be exact in `f32`. Returns
/// false, without any effect, if the exponent of a sum is outside `EXACT_F32_RANGE`, or if a total overflows `i32`.
///
/// # Safety
/// The machine has the instructions, and the groups have this many terms.
#[target_feature(enable = "avx2")]
unsafe fn add_group_i32<const G: usize>(
    a: [(&[f32], &[i16]); ROW_PAIR],
    b: (&[f32], &[i16]),
    sums: &mut [[f32; STRIP_COLUMNS]; ROW_PAIR],
) -> bool {
    // SAFETY: the groups have this many terms.
    unsafe {
        // For each row, the largest exponent of the products, but at least the lower end of `EXACT_F32_RANGE`. If all
        // products are zero, their total is zero for every exponent.
        let mut most = [_mm256_set1_epi16(EXACT_F32_RANGE[0] as i16); ROW_PAIR];
        for term in 0..G {
            let exponents = _mm256_loadu_si256(b.1.as_ptr().add(term * STRIP_COLUMNS).cast());
            for row in 0..ROW_PAIR {
                let own = _mm256_set1_epi16(*a[row].1.as_ptr().add(term));
                most[row] = _mm256_max_epi16(most[row], _mm256_add_epi16(own, exponents));
            }
        }
        let (mut before, mut largest, mut scale) =
            ([_mm256_setzero_ps(); 4], [_mm256_setzero_si256(); 4], [_mm256_setzero_ps(); 4]);
        let mut usual = _mm256_set1_epi32(-1);
        for half in 0..4 {
            before[half] = _mm256_loadu_ps(sums[half / 2].as_ptr().add(half % 2 * 8));
            let of_products = match half % 2 {
                0 => _mm256_castsi256_si128(most[half / 2]),
                _ => _mm256_extracti128_si256(most[half / 2], 1),
            };
            let size = _mm256_and_si256(_mm256_castps_si256(before[half]), _mm256_set1_epi32(i32::MAX));
            usual = _mm256_and_si256(usual, is_zero_or_in_range(size));
            let own = _mm256_sub_epi32(_mm256_srli_epi32(size, 23), _mm256_set1_epi32(127));
            largest[half] = _mm256_max_epi32(_mm256_cvtepi16_epi32(of_products), own);
            scale[half] = f32_powers_of_two(_mm256_sub_epi32(_mm256_set1_epi32(KEPT_BITS), largest[half]));
        }
        if _mm256_movemask_epi8(usual) != -1 {
            return false;
        }
        let mut terms = [_mm256_setzero_si256(); 4];
        for term in 0..G {
            let columns = b.0.as_ptr().add(term * STRIP_COLUMNS);
            let columns = [_mm256_loadu_ps(columns), _mm256_loadu_ps(columns.add(8))];
            for half in 0..4 {
                let own = _mm256_set1_ps(*a[half / 2].0.as_ptr().add(term));
                let product = _mm256_mul_ps(_mm256_mul_ps(own, columns[half % 2]), scale[half]);
                terms[half] = _mm256_add_epi32(terms[half], _mm256_cvttps_epi32(product));
            }
        }
        let mut beyond = _mm256_setzero_si256();
        let mut totals = terms;
        for half in 0..4 {
            let cut = _mm256_cvttps_epi32(_mm256_mul_ps(before[half], scale[half]));
            totals[half] = _mm256_add_epi32(terms[half], cut);
            // The addition has overflowed if the sign of the total differs from the signs of both summands.
            let (x, y) = (_mm256_xor_si256(terms[half], totals[half]), _mm256_xor_si256(cut, totals[half]));
            beyond = _mm256_or_si256(beyond, _mm256_and_si256(x, y));
        }
        if _mm256_movemask_ps(_mm256_castsi256_ps(beyond)) != 0 {
            return false;
        }
        for half in 0..4 {
            let down = f32_powers_of_two(_mm256_sub_epi32(largest[half], _mm256_set1_epi32(KEPT_BITS)));
            let sum = _mm256_mul_ps(toward_zero(totals[half]), down);
            _mm256_storeu_ps(sums[half / 2].as_mut_ptr().add(half % 2 * 8), sum);
        }
        true
    }
}

/// Returns a mask of the lanes in which the absolute value of a sum is zero or has an exponent in `EXACT_F32_RANGE`.
/// `size` contains the bits of the absolute values.
#[inline]
#[target_feature(enable = "avx2")]
fn is_zero_or_in_range(size: __m256i) -> __m256i {
    let (least, beyond) =
        (_mm256_set1_epi32((EXACT_F32_RANGE[0] + 127) << 23), _mm256_set1_epi32((EXACT_F32_RANGE[1] + 1 + 127) << 23));
    let within = _mm256_andnot_si256(_mm256_cmpgt_epi32(least, size), _mm256_cmpgt_epi32(beyond, size));
    _mm256_or_si256(within, _mm256_cmpeq_epi32(size, _mm256_setzero_si256()))
}

/// Returns 2 to the power of each exponent.
#[inline]
#[target_feature(enable = "avx2")]
fn f32_powers_of_two(exponent: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23))
}

/// Converts integers to `f32`, rounding toward zero.
#[inline]
#[target_feature(enable = "avx2")]
fn toward_zero(numbers: __m256i) -> __m256 {
    let size = _mm256_abs_epi32(numbers);
    // Clear the bit that is 24 places below the leading bit. It does not fit into an `f32`, and the conversion would
    // round up because of it.
    let down = _mm256_andnot_si256(_mm256_srli_epi32(size, 24), size);
    let sign = _mm256_and_si256(numbers, _mm256_set1_epi32(i32::MIN));
    _mm256_or_ps(_mm256_cvtepi32_ps(down), _mm256_castsi256_ps(sign))
}
