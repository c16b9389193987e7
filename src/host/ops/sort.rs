//! Sorting numbers: in, an array; out, its rows in ascending order, NaN last and -0 before 0.
//!
//! A number becomes a key, an unsigned integer with the same order: integers with their sign bit flipped, floats with the sign bit
//! flipped if they are positive and with all bits flipped if not, less the number of NaN with a sign, so that all NaN are last. Keys
//! are sorted digit by digit, the lowest first (a radix sort); few ones, and those for which there is no memory, are compared.

use crate::base::stop::{self, Ticks};
use crate::host::array::{Array, Item};
use crate::host::graph;
use crate::host::ops::operand::{array, undefined};
use crate::host::ops::text;
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lang::scalar::{self, Number};
use crate::with_number;

/// Bits of a digit: the counts of its values stay in the L1 cache.
const DIGIT: u32 = 11;
/// The most elements that are compared.
pub(super) const FEW: usize = 512;

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
    // 32 bits move half as much memory as 64.
    match size_of::<T>() {
        8 => rows.for_each(|row| sort_row::<T, u64>(row, |key| key, |key| key)),
        _ => rows.for_each(|row| sort_row::<T, u32>(row, |key| key as u32, u64::from)),
    }
    Ok(())
}

fn sort_row<T: Item + Number, K: Copy + Ord + Default>(numbers: &mut [T], narrow: fn(u64) -> K, widen: fn(K) -> u64) {
    let count = numbers.len();
    let (mut keys, mut other) = (Vec::new(), Vec::new());
    let few = count <= FEW;
    if few || keys.try_reserve_exact(count).is_err() || other.try_reserve_exact(count).is_err() {
        let ticks = Ticks::default();
        return numbers.sort_unstable_by_key(|&number| {
            ticks.pass(1);
            key(number)
        });
    }
    for (_, part) in stop::parts(numbers) {
        keys.extend(part.iter().map(|&number| narrow(key(number))));
    }
    other.resize(count, K::default());
    by_digits(&mut keys, &mut other, size_of::<T>() as u32 * 8, widen);
    for (first, part) in stop::parts_mut(numbers) {
        for (number, &key) in part.iter_mut().zip(&keys[first..]) {
            *number = number_of(widen(key));
        }
    }
}

/// Returns an unsigned integer of the number's width with the order of numbers.
pub(super) fn key<T: Number>(number: T) -> u64 {
    let (raw, sign) = (number.to_raw(), 1 << (size_of::<T>() * 8 - 1));
    let flipped = match () {
        _ if T::SCALAR.is_float() && raw & sign != 0 => !raw,
        _ if T::SCALAR.is_float() || T::SCALAR.is_signed() => raw ^ sign,
        _ => raw,
    };
    flipped.wrapping_sub(negatives::<T>()) & (sign | (sign - 1))
}

/// Returns the number of NaN with a sign, whose keys would be the least.
fn negatives<T: Number>() -> u64 {
    let infinity = || scalar::Value::of(f64::INFINITY).to_type(T::SCALAR).bits;
    if T::SCALAR.is_float() { (1 << (size_of::<T>() * 8 - 1)) - 1 - infinity() } else { 0 }
}

/// The inverse of [`key`].
fn number_of<T: Number>(key: u64) -> T {
    let sign = 1 << (size_of::<T>() * 8 - 1);
    let key = key.wrapping_add(negatives::<T>()) & (sign | (sign - 1));
    T::from_raw(match () {
        _ if T::SCALAR.is_float() && key & sign == 0 => !key & (sign | (sign - 1)),
        _ if T::SCALAR.is_float() || T::SCALAR.is_signed() => key ^ sign,
        _ => key,
    })
}

/// Sorts keys of so many bits, with as much memory besides.
pub(super) fn by_digits<K: Copy>(keys: &mut Vec<K>, other: &mut Vec<K>, bits: u32, widen: fn(K) -> u64) {
    for low in (0..bits).step_by(DIGIT as usize) {
        let digit = |key: K| (widen(key) >> low) as usize & ((1 << DIGIT) - 1);
        let mut ends = [0usize; 1 << DIGIT];
        for (_, part) in stop::parts(keys) {
            part.iter().for_each(|&key| ends[digit(key)] += 1);
        }
        if ends.contains(&keys.len()) {
            // All have the same digit.
            continue;
        }
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        for (_, part) in stop::parts(keys) {
            for &key in part {
                let next = &mut ends[digit(key)];
                other[*next] = key;
                *next += 1;
            }
        }
        std::mem::swap(keys, other);
    }
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
        let mut found = numbers;
        match size_of::<T>() {
            8 => sort_row::<T, u64>(&mut found, |key| key, |key| key),
            _ => sort_row::<T, u32>(&mut found, |key| key as u32, u64::from),
        }
        let raw = |numbers: &[T]| numbers.iter().filter(|x| !x.op_ne(**x)).map(|x| x.to_raw()).collect::<Vec<u64>>();
        assert_eq!(raw(&found), raw(&wanted));
        assert!(found[raw(&found).len()..].iter().all(|x| x.op_ne(*x)), "NaN is last");
    }

    #[test]
    fn numbers_of_all_types_are_in_order() {
        for count in [0u64, 1, 2, 300, 513, 5000] {
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
        sort_row::<f32, u32>(&mut row, |key| key as u32, u64::from);
        let kept: Vec<u32> = row[2..].iter().map(|x| x.to_bits()).collect();
        assert_eq!((row[0], row[1], kept), (-1.0, 2.0, vec![0x7fc0_0456, 0xffc0_0123]));
        let mut row = [0xffff_ffffu32, 0x7f80_0001, 0xff80_0000, 0x8000_0000, 0, 0x7fff_ffff, 0xff80_0001, 0x7f80_0000];
        let mut floats = row.map(f32::from_bits);
        sort_row::<f32, u32>(&mut floats, |key| key as u32, u64::from);
        row = [0xff80_0000, 0x8000_0000, 0, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff, 0xffff_ffff, 0xff80_0001];
        assert_eq!(floats.map(f32::to_bits), row);
    }
}
