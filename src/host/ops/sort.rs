//! Sorting of numbers on the host. Input: an array. Output: the array with each row in ascending order, where -0
//! precedes 0, and NaNs are last.
//!
//! A number is mapped to a key, an unsigned integer with the same order. Integers have their sign bit flipped; floats
//! have the sign bit flipped if positive, and all bits if negative. The number of NaNs with a sign bit is subtracted
//! (modulo the range of keys), so that all NaNs are last. Keys are sorted with a radix sort, in which each worker sorts
//! a chunk of the keys. Short rows use a comparison sort, and so do rows whose keys do not fit in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::array::{Array, ArrayScalar};
use crate::graph::{self, ExecContext};
use crate::ops::operand::{self, array, undefined};
use crate::ops::rearrange::{flip, inverse_order, moved_axis, permute};
use crate::ops::text;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::aligned::AlignedBytes;
use clk_base::stop::{self, Ticks};
use clk_scalar::NumericScalar;
use clk_scalar::with_number;

/// Number of bits in a digit. It is chosen such that the counters of all values of a digit fit in the L1 cache.
const DIGIT: u32 = 11;
const VALUES: usize = 1 << DIGIT;
/// Maximum number of elements of a row for the comparison sort.
pub(super) const MAX_COMPARED: usize = 512;
/// Minimum number of elements in a worker's chunk.
const MIN_PART: usize = 1 << 15;

/// The axis and the direction of `sort` and `argsort`. In descending order, NaNs are first.
#[derive(Clone, Copy, Debug, Default)]
pub struct SortOrder {
    /// `None` for an array with one axis.
    pub axis: Option<i64>,
    pub descending: bool,
}

impl SortOrder {
    /// Returns the axis along which an array with `rank` axes is sorted. An array with several axes needs an `axis`.
    pub(crate) fn axis_of(self, rank: usize, what: &str) -> HostResult<usize> {
        match self.axis {
            Some(axis) => operand::axis(axis, rank, what),
            None if rank == 1 => Ok(0),
            None => Err(RuntimeError::new("E0503", format!("{what} of an array with {rank} axes"))
                .help("say along which: `axis = 0`; all elements are `reshape(x, -1)`")),
        }
    }

    /// Evaluates a function of rows, which sorts in ascending order, along an axis of an array with `rank` axes.
    pub(super) fn apply_to_rows(
        exec: &ExecContext,
        value: &HostValue,
        (axis, rank): (usize, usize),
        rows: impl FnOnce(&HostValue) -> HostResult<HostValue>,
    ) -> HostResult<HostValue> {
        if axis + 1 == rank {
            return rows(value);
        }
        let order = moved_axis(rank, axis, rank - 1);
        permute(exec, &rows(&permute(exec, value, &order)?)?, &inverse_order(&order))
    }
}

/// Evaluates `sort(x, axis = k, descending = d)`. NaNs are larger than all numbers.
pub fn sort(exec: &ExecContext, value: &HostValue, order: SortOrder) -> HostResult<HostValue> {
    if let HostValue::Strings(texts) = value {
        let axis = order.axis_of(1, "`sort`")?;
        let sorted = text::sort(texts)?;
        return if order.descending { flip(exec, &sorted, axis as i64) } else { Ok(sorted) };
    }
    let rank = array(value, "`sort`")?.rank();
    let axis = order.axis_of(rank, "`sort`")?;
    let sorted = SortOrder::apply_to_rows(exec, value, (axis, rank), |rows| sort_last_axis(exec, rows))?;
    if order.descending { flip(exec, &sorted, axis as i64) } else { Ok(sorted) }
}

/// Sorts along the last axis in ascending order, with NaNs last.
fn sort_last_axis(exec: &ExecContext, value: &HostValue) -> HostResult<HostValue> {
    let x = array(value, "`sort`")?;
    let no_order = || undefined("`sort`", &[value]);
    let scalar = x.scalar().filter(|_| x.element().lanes() == 1).ok_or_else(no_order)?;
    let row = x.shape().last().copied().unwrap_or(1).max(1);
    if let Some(sorted) = graph::sort::sort_rows(exec, x, scalar, row)? {
        return Ok(HostValue::Array(sorted));
    }
    let mut result = x.clone();
    with_number!(scalar, T => sort_rows::<T>(&mut result, row, exec.control().workers)?, bool => return Err(no_order()));
    Ok(HostValue::Array(result))
}

fn sort_rows<T: ArrayScalar + NumericScalar>(array: &mut Array, row: usize, workers: usize) -> HostResult<()> {
    let rows = array.items_mut::<T>()?.chunks_exact_mut(row);
    rows.for_each(|row| sort_row(row, workers));
    Ok(())
}

fn sort_row<T: ArrayScalar + NumericScalar>(numbers: &mut [T], workers: usize) {
    // Keys have the size of the numbers (at least 32 bits), because smaller keys need less memory traffic.
    let size = size_of::<T>().max(4);
    let buffer = || AlignedBytes::for_overwrite(numbers.len() * size);
    let buffers = if numbers.len() <= MAX_COMPARED { None } else { buffer().zip(buffer()) };
    match (buffers, size) {
        (Some((mut keys, mut spare)), 4) => {
            sort_by_keys(numbers, keys.words(), spare.words(), |key| key as u32, workers);
        }
        (Some((mut keys, mut spare)), _) => {
            sort_by_keys(numbers, keys.long_words(), spare.long_words(), |key| key, workers);
        }
        (None, _) => {
            let (ticks, negatives) = (Ticks::default(), count_negative_nans::<T>());
            numbers.sort_unstable_by_key(|&number| {
                ticks.advance(1);
                sort_key(number, negatives)
            });
        }
    }
}

/// A memory cell for a key, possibly with additional data. Several workers access a cell, but never at the same time.
pub(super) trait SortCell: Sync {
    type Value: Copy;
    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
    fn key(value: Self::Value) -> u64;
}

macro_rules! cells {
    ($($atomic:ident $word:ident)*) => {
        $(impl SortCell for $atomic {
            type Value = $word;
            #[inline(always)]
            fn get(&self) -> $word {
                self.load(Ordering::Relaxed)
            }
            #[inline(always)]
            fn set(&self, value: $word) {
                self.store(value, Ordering::Relaxed);
            }
            #[inline(always)]
            fn key(value: $word) -> u64 {
                value.into()
            }
        })*
    };
}

cells!(AtomicU32 u32 AtomicU64 u64);

/// Returns the number of elements in each worker's chunk.
pub(super) fn part_len(count: usize, workers: usize) -> usize {
    count.div_ceil(clk_sim::worker_count(workers).min(count / MIN_PART).max(1))
}

fn sort_by_keys<T: ArrayScalar + NumericScalar, K: SortCell>(
    numbers: &mut [T],
    keys: &[K],
    buffer: &[K],
    narrow: fn(u64) -> K::Value,
    workers: usize,
) {
    let (part, negatives) = (part_len(numbers.len(), workers), count_negative_nans::<T>());
    clk_sim::parallel_for(workers, numbers.chunks(part).zip(keys.chunks(part)), |(numbers, keys)| {
        for (first, part) in stop::polled_chunks(numbers) {
            part.iter().zip(&keys[first..]).for_each(|(&number, place)| place.set(narrow(sort_key(number, negatives))));
        }
    });
    let sorted = radix_sort(keys, buffer, 0..size_of::<T>() as u32 * 8, part);
    clk_sim::parallel_for(workers, numbers.chunks_mut(part).zip(sorted.chunks(part)), |(numbers, keys)| {
        for (first, part) in stop::polled_chunks_mut(numbers) {
            let places = part.iter_mut().zip(&keys[first..]);
            places.for_each(|(number, key)| *number = number_of_key(K::key(key.get()), negatives));
        }
    });
}

/// Returns the sort key of a number: an unsigned integer of the same width, such that keys have the same order as
/// numbers. `negatives` is [`count_negative_nans`] of the type.
#[inline(always)]
pub(super) fn sort_key<T: NumericScalar>(number: T, negatives: u64) -> u64 {
    let (raw, sign) = (number.to_raw(), 1 << (size_of::<T>() * 8 - 1));
    let flipped = match () {
        _ if T::SCALAR.is_float() && raw & sign != 0 => !raw,
        _ if T::SCALAR.is_float() || T::SCALAR.is_signed() => raw ^ sign,
        _ => raw,
    };
    flipped.wrapping_sub(negatives) & (sign | (sign - 1))
}

/// Returns the number of NaN bit patterns with the sign bit set. Without a correction, their keys would be the
/// smallest.
pub(super) fn count_negative_nans<T: NumericScalar>() -> u64 {
    let infinity = || clk_scalar::ScalarValue::of(f64::INFINITY).to_type(T::SCALAR).bits;
    if T::SCALAR.is_float() { (1 << (size_of::<T>() * 8 - 1)) - 1 - infinity() } else { 0 }
}

/// Inverse of [`sort_key`]: returns the number of a key.
#[inline(always)]
fn number_of_key<T: NumericScalar>(key: u64, negatives: u64) -> T {
    let sign = 1 << (size_of::<T>() * 8 - 1);
    let key = key.wrapping_add(negatives) & (sign | (sign - 1));
    T::from_raw(match () {
        _ if T::SCALAR.is_float() && key & sign == 0 => !key & (sign | (sign - 1)),
        _ if T::SCALAR.is_float() || T::SCALAR.is_signed() => key ^ sign,
        _ => key,
    })
}

/// Sorts fewer than 2^32 keys by these bits, in chunks of `part` keys. `buffer` must have the size of `keys`. Returns
/// `keys` or `buffer`, depending on which contains the result.
pub(super) fn radix_sort<'k, K: SortCell>(
    mut keys: &'k [K],
    mut buffer: &'k [K],
    bits: Range<u32>,
    part: usize,
) -> &'k [K] {
    let parts = keys.len().div_ceil(part);
    for low in bits.step_by(DIGIT as usize) {
        let digit = |key: K::Value| (K::key(key) >> low) as usize & (VALUES - 1);
        let counts = Mutex::new(vec![[0u32; VALUES]; parts]);
        clk_sim::parallel_for(parts, keys.chunks(part).enumerate(), |(number, keys)| {
            let mut own = [0u32; VALUES];
            for (_, keys) in stop::polled_chunks(keys) {
                keys.iter().for_each(|key| own[digit(key.get())] += 1);
            }
            counts.lock().unwrap_or_else(PoisonError::into_inner)[number] = own;
        });
        let mut places = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let all = |value: usize| places.iter().map(|own| own[value] as usize).sum::<usize>() == keys.len();
        if (0..VALUES).any(all) {
            // The pass is skipped, because all keys have the same digit.
            continue;
        }
        let mut before = 0;
        for value in 0..VALUES {
            for own in &mut places {
                before += std::mem::replace(&mut own[value], before);
            }
        }
        clk_sim::parallel_for(parts, keys.chunks(part).zip(places), |(keys, mut places)| {
            for (_, keys) in stop::polled_chunks(keys) {
                for key in keys {
                    let key = key.get();
                    let next = &mut places[digit(key)];
                    buffer[*next as usize].set(key);
                    *next += 1;
                }
            }
        });
        std::mem::swap(&mut keys, &mut buffer);
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;
    use clk_scalar::{bf16, f16};

    /// Compares the sort of these numbers with a comparison sort.
    fn check<T: ArrayScalar + NumericScalar>(numbers: Vec<T>) {
        let mut expected = numbers.clone();
        expected.sort_by(|a, b| {
            let (x, y) = (a.op_ne(*a), b.op_ne(*b));
            let by_value = || match (a.op_lt(*b), b.op_lt(*a)) {
                (false, false) => b.to_raw().cmp(&a.to_raw()),
                (less, _) => {
                    if less {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
                }
            };
            x.cmp(&y).then_with(|| if x { Ordering::Equal } else { by_value() })
        });
        let mut sorted = numbers.clone();
        sort_row(&mut sorted, 1);
        if numbers.len() > 3 * MIN_PART {
            let mut sorted_in_parallel = numbers;
            sort_row(&mut sorted_in_parallel, 3);
            let bits = |numbers: &[T]| numbers.iter().map(|x| x.to_raw()).collect::<Vec<u64>>();
            assert_eq!(bits(&sorted_in_parallel), bits(&sorted), "whatever the number of workers");
        }
        let raw = |numbers: &[T]| numbers.iter().filter(|x| !x.op_ne(**x)).map(|x| x.to_raw()).collect::<Vec<u64>>();
        assert_eq!(raw(&sorted), raw(&expected));
        assert!(sorted[raw(&sorted).len()..].iter().all(|x| x.op_ne(*x)), "NaN is last");
    }

    #[test]
    fn numbers_of_all_types_are_sorted() {
        for count in [0u64, 1, 2, 300, 513, 5000, 100_003] {
            let mix =
                |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let all = || (0..count).map(mix);
            check(all().map(|bits| bits as i8).collect());
            check(all().map(|bits| bits as u16).collect());
            check(all().map(|bits| bits as i32).collect());
            check(all().collect());
            check(all().map(|bits| bits as i64).collect());
            check(all().map(|bits| f16::from_bits(bits as u16)).collect());
            check(all().map(|bits| bf16::from_bits(bits as u16)).collect());
            check(all().map(|bits| f32::from_bits(bits as u32)).collect());
            check(all().map(f64::from_bits).collect());
            check(all().map(|bits| if bits % 3 == 0 { -0.0f32 } else { (bits % 3) as f32 - 1.0 }).collect());
            check(all().map(|bits| bits % 7).collect());
        }
    }

    #[test]
    fn nan_keeps_its_bits() {
        let mut row = vec![f32::from_bits(0xffc0_0123), 2.0, f32::from_bits(0x7fc0_0456), -1.0];
        sort_row(&mut row, 1);
        let nan_bits: Vec<u32> = row[2..].iter().map(|x| x.to_bits()).collect();
        assert_eq!((row[0], row[1], nan_bits), (-1.0, 2.0, vec![0x7fc0_0456, 0xffc0_0123]));
        let mut row = [0xffff_ffffu32, 0x7f80_0001, 0xff80_0000, 0x8000_0000, 0, 0x7fff_ffff, 0xff80_0001, 0x7f80_0000];
        let mut floats = row.map(f32::from_bits);
        sort_row(&mut floats, 1);
        row = [0xff80_0000, 0x8000_0000, 0, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff, 0xffff_ffff, 0xff80_0001];
        assert_eq!(floats.map(f32::to_bits), row);
    }
}
