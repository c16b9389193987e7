//! Sorting numbers: in, an array; out, its rows in ascending order, NaN last and -0 before 0.
//!
//! A number becomes a key, an unsigned integer with the same order: integers with their sign bit flipped, floats with the sign bit
//! flipped if they are positive and with all bits flipped if not, less the number of NaN with a sign, so that all NaN are last. Keys
//! are sorted digit by digit, the lowest first (a radix sort), each worker those of a part; few ones, and those for which there is
//! no memory, are compared.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::base::aligned::AlignedBytes;
use crate::base::stop::{self, Ticks};
use crate::device::sim;
use crate::host::array::{Array, Item};
use crate::host::graph::{self, Site};
use crate::host::ops::operand::{array, undefined};
use crate::host::ops::text;
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lang::scalar::{self, Number};
use crate::with_number;

/// Bits of a digit: the counts of its values stay in the L1 cache.
const DIGIT: u32 = 11;
const VALUES: usize = 1 << DIGIT;
/// The most elements that are compared.
pub(super) const FEW: usize = 512;
/// The fewest elements of a part.
const PART: usize = 1 << 15;

/// Sorts in ascending order along the last axis, NaN last.
pub fn sort(value: &Value) -> Outcome<Value> {
    if let Value::Strings(texts) = value {
        return text::sort(texts);
    }
    let x = array(value, "`sort`")?;
    let no_order = || undefined("`sort`", &[value]);
    let scalar = x.scalar().filter(|_| x.element().lanes() == 1).ok_or_else(no_order)?;
    let row = x.shape().last().copied().unwrap_or(1).max(1);
    if let Some(sorted) = graph::sort::sorted(x, scalar, row)? {
        return Ok(Value::Array(sorted));
    }
    let mut result = x.clone();
    with_number!(scalar, T => sort_rows::<T>(&mut result, row)?, bool => return Err(no_order()));
    Ok(Value::Array(result))
}

fn sort_rows<T: Item + Number>(array: &mut Array, row: usize) -> Outcome<()> {
    let rows = array.items_mut::<T>()?.chunks_exact_mut(row);
    let workers = Site::current().control().workers;
    rows.for_each(|row| sort_row(row, workers));
    Ok(())
}

fn sort_row<T: Item + Number>(numbers: &mut [T], workers: usize) {
    // 32 bits move half as much memory as 64.
    let size = size_of::<T>().max(4);
    let buffer = || AlignedBytes::unset(numbers.len() * size);
    let buffers = if numbers.len() <= FEW { None } else { buffer().zip(buffer()) };
    match (buffers, size) {
        (Some((mut keys, mut other)), 4) => {
            by_keys(numbers, (keys.words(), other.words()), |key| key as u32, workers);
        }
        (Some((mut keys, mut other)), _) => {
            by_keys(numbers, (keys.long_words(), other.long_words()), |key| key, workers);
        }
        (None, _) => {
            let (ticks, negatives) = (Ticks::default(), negatives::<T>());
            numbers.sort_unstable_by_key(|&number| {
                ticks.pass(1);
                key(number, negatives)
            });
        }
    }
}

/// A key, perhaps with more, that several workers access, though no two of them at a time.
pub(super) trait Cell: Sync {
    type Value: Copy;
    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
    fn key(value: Self::Value) -> u64;
}

macro_rules! cells {
    ($($atomic:ident $word:ident)*) => {
        $(impl Cell for $atomic {
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

/// Returns how many of so many elements each worker sorts.
pub(super) fn part(count: usize, workers: usize) -> usize {
    count.div_ceil(sim::workers(workers).min(count / PART).max(1))
}

fn by_keys<T: Item + Number, K: Cell>(
    numbers: &mut [T],
    (keys, other): (&[K], &[K]),
    narrow: fn(u64) -> K::Value,
    workers: usize,
) {
    let (part, negatives) = (part(numbers.len(), workers), negatives::<T>());
    sim::each(workers, numbers.chunks(part).zip(keys.chunks(part)), |(numbers, keys)| {
        for (first, part) in stop::parts(numbers) {
            part.iter().zip(&keys[first..]).for_each(|(&number, place)| place.set(narrow(key(number, negatives))));
        }
    });
    let sorted = by_digits(keys, other, 0..size_of::<T>() as u32 * 8, part);
    sim::each(workers, numbers.chunks_mut(part).zip(sorted.chunks(part)), |(numbers, keys)| {
        for (first, part) in stop::parts_mut(numbers) {
            let places = part.iter_mut().zip(&keys[first..]);
            places.for_each(|(number, key)| *number = number_of(K::key(key.get()), negatives));
        }
    });
}

/// Returns an unsigned integer of the number's width with the order of numbers, of a type with so many [`negatives`].
#[inline(always)]
pub(super) fn key<T: Number>(number: T, negatives: u64) -> u64 {
    let (raw, sign) = (number.to_raw(), 1 << (size_of::<T>() * 8 - 1));
    let flipped = match () {
        _ if T::SCALAR.is_float() && raw & sign != 0 => !raw,
        _ if T::SCALAR.is_float() || T::SCALAR.is_signed() => raw ^ sign,
        _ => raw,
    };
    flipped.wrapping_sub(negatives) & (sign | (sign - 1))
}

/// Returns the number of NaN with a sign, whose keys would be the least.
pub(super) fn negatives<T: Number>() -> u64 {
    let infinity = || scalar::Value::of(f64::INFINITY).to_type(T::SCALAR).bits;
    if T::SCALAR.is_float() { (1 << (size_of::<T>() * 8 - 1)) - 1 - infinity() } else { 0 }
}

/// The inverse of [`key`].
#[inline(always)]
fn number_of<T: Number>(key: u64, negatives: u64) -> T {
    let sign = 1 << (size_of::<T>() * 8 - 1);
    let key = key.wrapping_add(negatives) & (sign | (sign - 1));
    T::from_raw(match () {
        _ if T::SCALAR.is_float() && key & sign == 0 => !key & (sign | (sign - 1)),
        _ if T::SCALAR.is_float() || T::SCALAR.is_signed() => key ^ sign,
        _ => key,
    })
}

/// Sorts by these bits of keys, less than 2^32 of them, with as much memory besides, in parts of so many; returns where they are then.
pub(super) fn by_digits<'k, K: Cell>(mut keys: &'k [K], mut other: &'k [K], bits: Range<u32>, part: usize) -> &'k [K] {
    let parts = keys.len().div_ceil(part);
    for low in bits.step_by(DIGIT as usize) {
        let digit = |key: K::Value| (K::key(key) >> low) as usize & (VALUES - 1);
        let counts = Mutex::new(vec![[0u32; VALUES]; parts]);
        sim::each(parts, keys.chunks(part).enumerate(), |(number, keys)| {
            let mut own = [0u32; VALUES];
            for (_, keys) in stop::parts(keys) {
                keys.iter().for_each(|key| own[digit(key.get())] += 1);
            }
            counts.lock().unwrap_or_else(PoisonError::into_inner)[number] = own;
        });
        let mut places = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let all = |value: usize| places.iter().map(|own| own[value] as usize).sum::<usize>() == keys.len();
        if (0..VALUES).any(all) {
            // All have the same digit.
            continue;
        }
        let mut before = 0;
        for value in 0..VALUES {
            for own in &mut places {
                before += std::mem::replace(&mut own[value], before);
            }
        }
        sim::each(parts, keys.chunks(part).zip(places), |(keys, mut places)| {
            for (_, keys) in stop::parts(keys) {
                for key in keys {
                    let key = key.get();
                    let next = &mut places[digit(key)];
                    other[*next as usize].set(key);
                    *next += 1;
                }
            }
        });
        std::mem::swap(&mut keys, &mut other);
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;
    use crate::lang::scalar::{bf16, f16};

    /// Sorts numbers, and compares with a sort by their order.
    fn check<T: Item + Number>(numbers: Vec<T>) {
        let mut wanted = numbers.clone();
        wanted.sort_by(|a, b| {
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
        let mut found = numbers.clone();
        sort_row(&mut found, 1);
        if numbers.len() > 3 * PART {
            let mut again = numbers;
            sort_row(&mut again, 3);
            let bits = |numbers: &[T]| numbers.iter().map(|x| x.to_raw()).collect::<Vec<u64>>();
            assert_eq!(bits(&again), bits(&found), "whatever the number of workers");
        }
        let raw = |numbers: &[T]| numbers.iter().filter(|x| !x.op_ne(**x)).map(|x| x.to_raw()).collect::<Vec<u64>>();
        assert_eq!(raw(&found), raw(&wanted));
        assert!(found[raw(&found).len()..].iter().all(|x| x.op_ne(*x)), "NaN is last");
    }

    #[test]
    fn numbers_of_all_types_are_in_order() {
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
        let kept: Vec<u32> = row[2..].iter().map(|x| x.to_bits()).collect();
        assert_eq!((row[0], row[1], kept), (-1.0, 2.0, vec![0x7fc0_0456, 0xffc0_0123]));
        let mut row = [0xffff_ffffu32, 0x7f80_0001, 0xff80_0000, 0x8000_0000, 0, 0x7fff_ffff, 0xff80_0001, 0x7f80_0000];
        let mut floats = row.map(f32::from_bits);
        sort_row(&mut floats, 1);
        row = [0xff80_0000, 0x8000_0000, 0, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff, 0xffff_ffff, 0xff80_0001];
        assert_eq!(floats.map(f32::to_bits), row);
    }
}
