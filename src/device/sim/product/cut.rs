//! Products of tiles with the bits of tensor cores (`lower::tensor` has the model, in ordinary arithmetic).
//!
//! Input: tiles in memory. Output: the sum, to which groups of terms are added one after the other. Where the exponents of a group's factors
//! are such that products are exact in `f32`, and steps of the grid in reach of its exponents, terms are `f32` cut to `i32`, whose sums
//! do not overflow: 16 terms are below 2^27 each. Other groups, as those with numbers that are not finite, are computed in `f64`.

use std::arch::x86_64::*;

use super::desk::with_desk;
use super::held::Held;
use super::widen::{self, Narrow};

/// Bits below the largest exponent that are kept.
const KEPT: i32 = 25;
/// The exponent of a zero: less than that of any product.
const NONE: i16 = -1000;
/// The largest exponent where all are zero.
const LEAST: i32 = -300;
/// That of a number that is not finite, as an `f32`.
const OF_INFINITY: i32 = 128;
/// More than the sum of any two exponents.
const ENDLESS: i32 = 10_000;
/// Numbers with exponents from here to there have products and sums that are exact in `f32`, as are the steps of their grids and the scales
/// for these.
const NARROW: [i32; 2] = [-100, 90];
/// The columns of a strip.
const ACROSS: usize = 16;
/// The rows of a pair.
const PAIR: usize = 2;

/// The least and the largest exponent of a group's factors, without zeros.
type Range = [i32; 2];
const EMPTY: Range = [ENDLESS, -ENDLESS];

/// The memory of a worker.
struct Desk<'d> {
    /// The strips of the second factor, one behind the other, and their exponents.
    columns: (&'d mut [f32], &'d mut [i16]),
    /// Two rows of the first factor.
    rows: (&'d mut [f32], &'d mut [i16]),
    /// By strip and group, and by group.
    ranges: (&'d mut [Range], &'d mut [Range]),
}

/// Adds the product.
///
/// # Safety
/// The product is covered, `N` is the type of its factors, and `G` the number of terms that are added at once. The factors are readable, and
/// the sum, which is apart from them, is writable.
pub(super) unsafe fn add<N: Narrow, const G: usize>(
    held: &Held,
    sum: *mut f32,
    left: *const u8,
    right: *const u8,
) -> Option<()> {
    let (terms, strips) = (held.inner.next_multiple_of(G), held.columns.div_ceil(ACROSS));
    let (b, a, groups) = (strips * terms * ACROSS, PAIR * terms, terms / G);
    let words = [b, b / 2, a, a / 2, 2 * strips * groups, 2 * groups];
    with_desk(words.iter().sum::<usize>() * 4, |desk| {
        let mut rest = desk;
        let mut parts = words.map(|words| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(words * 4);
            rest = behind;
            Some(part)
        });
        let mut part = |at: usize| parts[at].take().unwrap_or_default();
        let mut desk = Desk {
            columns: (bytemuck::cast_slice_mut(part(0)), bytemuck::cast_slice_mut(part(1))),
            rows: (bytemuck::cast_slice_mut(part(2)), bytemuck::cast_slice_mut(part(3))),
            ranges: (bytemuck::cast_slice_mut(part(4)), bytemuck::cast_slice_mut(part(5))),
        };
        // SAFETY: as the caller says.
        unsafe {
            pack_columns::<N, G>(held, right, &mut desk);
            for top in (0..held.rows).step_by(PAIR) {
                pack_rows::<N, G>(held, left, top, &mut desk);
                for strip in 0..strips {
                    add_pair::<G>(held, sum, (top, strip), &desk);
                }
            }
        }
    })
}

/// Packs the second factor.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx2,f16c")]
unsafe fn pack_columns<N: Narrow, const G: usize>(held: &Held, right: *const u8, desk: &mut Desk<'_>) {
    let terms = held.inner.next_multiple_of(G);
    let strips = desk.columns.0.chunks_exact_mut(terms * ACROSS).zip(desk.columns.1.chunks_exact_mut(terms * ACROSS));
    for (strip, (numbers, exponents)) in strips.enumerate() {
        let first = strip * ACROSS;
        let width = (held.columns - first).min(ACROSS);
        if width < ACROSS {
            numbers.fill(0.0);
        }
        numbers[held.inner * ACROSS..].fill(0.0);
        // SAFETY: these terms and columns are those of the factor, and the strip has room for them.
        unsafe {
            let from = right.add(first * N::BYTES);
            widen::rows::<N>(from, held.columns * N::BYTES, [held.inner, width], numbers.as_mut_ptr(), ACROSS);
        }
        exponents_of::<N>(numbers, exponents);
        let ranges = &mut desk.ranges.0[strip * (terms / G)..][..terms / G];
        ranges.fill(EMPTY);
        join_ranges(exponents.chunks_exact(G * ACROSS), ranges);
    }
}

/// Packs two rows of the first factor, the second one of which may be beyond the last.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx2,f16c")]
unsafe fn pack_rows<N: Narrow, const G: usize>(held: &Held, left: *const u8, top: usize, desk: &mut Desk<'_>) {
    let terms = held.inner.next_multiple_of(G);
    let (numbers, exponents) = (&mut *desk.rows.0, &mut *desk.rows.1);
    let count = (held.rows - top).min(PAIR);
    if count < PAIR || terms > held.inner {
        numbers.fill(0.0);
    }
    // SAFETY: these rows and terms are those of the factor, and the pair has room for them.
    unsafe {
        let from = left.add(top * held.inner * N::BYTES);
        widen::rows::<N>(from, held.inner * N::BYTES, [count, held.inner], numbers.as_mut_ptr(), terms);
    }
    exponents_of::<N>(numbers, exponents);
    desk.ranges.1.fill(EMPTY);
    exponents.chunks_exact(terms).for_each(|row| join_ranges(row.chunks_exact(G), desk.ranges.1));
}

/// Computes the exponents of numbers as they were written: that of subnormal numbers is that of the least normal one.
#[inline(always)]
fn exponents_of<N: Narrow>(numbers: &[f32], exponents: &mut [i16]) {
    for (number, exponent) in numbers.iter().zip(exponents) {
        let bits = number.to_bits();
        let field = (bits >> 23 & 0xff) as i32 - 127;
        *exponent = if bits << 1 == 0 { NONE } else { field.max(N::LEAST) as i16 };
    }
}

/// Adds the exponents of groups to their ranges.
#[inline(always)]
fn join_ranges<'e>(groups: impl Iterator<Item = &'e [i16]>, ranges: &mut [Range]) {
    for (group, range) in groups.zip(ranges) {
        let (mut low, mut high) = (ENDLESS as i16, NONE);
        for &exponent in group {
            low = low.min(if exponent == NONE { ENDLESS as i16 } else { exponent });
            high = high.max(exponent);
        }
        // With nothing but zeros, too, what is not finite gives no number.
        let low = if i32::from(high) >= OF_INFINITY { -3 * ENDLESS } else { low.into() };
        *range = [range[0].min(low), range[1].max(high.into())];
    }
}

/// Adds the products of a pair of rows and of a strip, group by group.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_pair<const G: usize>(held: &Held, sum: *mut f32, (top, strip): (usize, usize), desk: &Desk<'_>) {
    let terms = held.inner.next_multiple_of(G);
    let (count, width) = ((held.rows - top).min(PAIR), (held.columns - strip * ACROSS).min(ACROSS));
    // SAFETY: it has so many rows and columns, of which these are some.
    let place = unsafe { sum.add(top * held.columns + strip * ACROSS) };
    let mut sums = [[0.0f32; ACROSS]; PAIR];
    for row in 0..count {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(place.add(row * held.columns), sums[row].as_mut_ptr(), width) };
    }
    let (of_b, of_a) = (&desk.ranges.0[strip * (terms / G)..], &*desk.ranges.1);
    for group in 0..terms / G {
        let b = part((&*desk.columns.0, &*desk.columns.1), (strip * terms + group * G) * ACROSS, G * ACROSS);
        let rows = (&*desk.rows.0, &*desk.rows.1);
        let a = [part(rows, group * G, G), part(rows, terms + group * G, G)];
        let ([low, high], [least, most]) = (of_a[group], of_b[group]);
        // SAFETY: the groups have so many terms.
        let done = low + least >= NARROW[0] && high + most <= NARROW[1] && unsafe { narrow::<G>(a, b, &mut sums) };
        if !done {
            for row in 0..PAIR {
                wide::<G>(a[row], b, &mut sums[row]);
            }
        }
    }
    for row in 0..count {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(sums[row].as_ptr(), place.add(row * held.columns), width) };
    }
}

/// Returns some of the numbers and their exponents.
#[inline(always)]
fn part<'d>((numbers, exponents): (&'d [f32], &'d [i16]), first: usize, count: usize) -> (&'d [f32], &'d [i16]) {
    (&numbers[first..][..count], &exponents[first..][..count])
}

/// Adds a group of any numbers to the sums of a row.
#[inline(always)]
fn wide<const G: usize>(a: (&[f32], &[i16]), b: (&[f32], &[i16]), sums: &mut [f32; ACROSS]) {
    let (mut largest, mut total) = ([LEAST; ACROSS], [0.0f64; ACROSS]);
    for column in 0..ACROSS {
        let bits = sums[column].to_bits();
        let field = (bits >> 23 & 0xff) as i32;
        let own = if bits << 1 == 0 { NONE.into() } else { field.max(1) - 127 };
        largest[column] = own.max(LEAST);
    }
    for term in 0..G {
        for column in 0..ACROSS {
            largest[column] = largest[column].max(i32::from(a.1[term]) + i32::from(b.1[term * ACROSS + column]));
        }
    }
    let mut up = [0.0f64; ACROSS];
    for column in 0..ACROSS {
        up[column] = wide_power(KEPT - largest[column]);
        total[column] = (f64::from(sums[column]) * up[column]).trunc();
    }
    for term in 0..G {
        for column in 0..ACROSS {
            let product = f64::from(a.0[term]) * f64::from(b.0[term * ACROSS + column]);
            total[column] += (product * up[column]).trunc();
        }
    }
    for column in 0..ACROSS {
        // A sum of negative zeros is positive.
        let exact = (total[column] + 0.0) * wide_power(largest[column] - KEPT);
        let (near, size) = (exact as f32, exact.abs());
        let beyond = f64::from(near).abs() > size && size < 2f64.powi(128);
        let bits = if exact.is_nan() { 0x7fff_ffff } else { near.to_bits() - u32::from(beyond) };
        sums[column] = f32::from_bits(bits);
    }
}

#[inline(always)]
fn wide_power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Adds a group to the sums of two rows, where products are exact in `f32`; returns false, with nothing done, where sums are not as products
/// are, or where a total is no `i32`.
///
/// # Safety
/// The machine has the instructions, and the groups have so many terms.
#[target_feature(enable = "avx2")]
unsafe fn narrow<const G: usize>(
    a: [(&[f32], &[i16]); PAIR],
    b: (&[f32], &[i16]),
    sums: &mut [[f32; ACROSS]; PAIR],
) -> bool {
    // SAFETY: the groups have so many terms.
    unsafe {
        // The exponents of products, and of zeros: a lesser one of a group of zeros does not matter, as its total is zero.
        let mut most = [_mm256_set1_epi16(NARROW[0] as i16); PAIR];
        for term in 0..G {
            let exponents = _mm256_loadu_si256(b.1.as_ptr().add(term * ACROSS).cast());
            for row in 0..PAIR {
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
            usual = _mm256_and_si256(usual, is_usual(size));
            let own = _mm256_sub_epi32(_mm256_srli_epi32(size, 23), _mm256_set1_epi32(127));
            largest[half] = _mm256_max_epi32(_mm256_cvtepi16_epi32(of_products), own);
            scale[half] = power(_mm256_sub_epi32(_mm256_set1_epi32(KEPT), largest[half]));
        }
        if _mm256_movemask_epi8(usual) != -1 {
            return false;
        }
        let mut terms = [_mm256_setzero_si256(); 4];
        for term in 0..G {
            let columns = b.0.as_ptr().add(term * ACROSS);
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
            // A total of another sign than both of its parts is none.
            let (x, y) = (_mm256_xor_si256(terms[half], totals[half]), _mm256_xor_si256(cut, totals[half]));
            beyond = _mm256_or_si256(beyond, _mm256_and_si256(x, y));
        }
        if _mm256_movemask_ps(_mm256_castsi256_ps(beyond)) != 0 {
            return false;
        }
        for half in 0..4 {
            let down = power(_mm256_sub_epi32(largest[half], _mm256_set1_epi32(KEPT)));
            let sum = _mm256_mul_ps(toward_zero(totals[half]), down);
            _mm256_storeu_ps(sums[half / 2].as_mut_ptr().add(half % 2 * 8), sum);
        }
        true
    }
}

/// Returns in which lanes a sum without its sign is zero, or has an exponent like those of products: all bits, or none.
#[inline]
#[target_feature(enable = "avx2")]
fn is_usual(size: __m256i) -> __m256i {
    let (least, beyond) = (_mm256_set1_epi32((NARROW[0] + 127) << 23), _mm256_set1_epi32((NARROW[1] + 1 + 127) << 23));
    let within = _mm256_andnot_si256(_mm256_cmpgt_epi32(least, size), _mm256_cmpgt_epi32(beyond, size));
    _mm256_or_si256(within, _mm256_cmpeq_epi32(size, _mm256_setzero_si256()))
}

/// Returns powers of two.
#[inline]
#[target_feature(enable = "avx2")]
fn power(exponent: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23))
}

/// Returns integers as `f32`, toward zero.
#[inline]
#[target_feature(enable = "avx2")]
fn toward_zero(numbers: __m256i) -> __m256 {
    let size = _mm256_abs_epi32(numbers);
    // Of the bits that an `f32` has no place for, the first one decides about rounding up. It lies where the first one of all is, 24 places
    // farther down.
    let down = _mm256_andnot_si256(_mm256_srli_epi32(size, 24), size);
    let sign = _mm256_and_si256(numbers, _mm256_set1_epi32(i32::MIN));
    _mm256_or_ps(_mm256_cvtepi32_ps(down), _mm256_castsi256_ps(sign))
}
