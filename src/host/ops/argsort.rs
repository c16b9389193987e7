//! The order of numbers: in, an array; out, the positions of its elements in ascending order, equal ones as they are and NaN last.
//!
//! Keys are those of [`sort`](mod@super::sort), but of equal numbers: -0 has the key of 0, and all NaN have the largest one. Pairs of a key
//! and a position are sorted by the key, digit by digit, which keeps pairs with one key in order.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::base::aligned::AlignedBytes;
use crate::base::stop::{self, Ticks};
use crate::device::sim;
use crate::host::array::{Array, Item, no_memory, shape_text};
use crate::host::graph::{self, Site};
use crate::host::ops::operand::{array, undefined};
use crate::host::ops::sort::{Cell, FEW, by_digits, key, negatives, part};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::{Number, Scalar};
use crate::with_number;

/// Returns the positions of the elements in ascending order, along the last axis.
pub fn argsort(value: &Value) -> Outcome<Value> {
    let x = array(value, "`argsort`")?;
    let no_order = || undefined("`argsort`", &[value]);
    let scalar = x.scalar().filter(|_| x.element().lanes() == 1).ok_or_else(no_order)?;
    let row = x.shape().last().copied().unwrap_or(1).max(1);
    if let Some(order) = graph::sort::order(x, scalar, row)? {
        return Ok(Value::Array(order));
    }
    let mut result = Array::zeros(Scalar::I32, x.shape())?;
    let (places, workers) = (result.items_mut::<i32>()?, Site::current().control().workers);
    with_number!(scalar, T => of_rows::<T>(x, row, places, workers)?, bool => return Err(no_order()));
    Ok(Value::Array(result))
}

/// Returns the positions of keys in ascending order, in which rows of values are to be taken, one for each key.
pub(crate) fn order_of_rows(keys: &Value, values: &Value) -> Outcome<Array> {
    let (k, v) = (array(keys, "`sort`")?, array(values, "`sort`")?);
    if k.rank() != 1 || v.shape().first() != k.shape().first() {
        let (k, v) = (shape_text(k.shape()), shape_text(v.shape()));
        let title = format!("`sort` of keys of the shape {k} and values of the shape {v}");
        return Err(Problem::new("E0501", title).help("each key has one value, or one row of them"));
    }
    match argsort(keys)? {
        Value::Array(order) => Ok(order),
        _ => Err(undefined("`sort`", &[keys])),
    }
}

/// Returns keys in ascending order with their values, where a GPU moves both together; `None` if they are to be taken by [`order_of_rows`].
pub(crate) fn sorted_pairs(keys: &Value, values: &Value) -> Outcome<Option<Value>> {
    let pair = graph::sort::pairs(array(keys, "`sort`")?, array(values, "`sort`")?)?;
    Ok(pair.map(|(keys, values)| Value::Tuple(vec![Value::Array(keys), Value::Array(values)])))
}

fn of_rows<T: Item + Number>(x: &Array, row: usize, places: &mut [i32], workers: usize) -> Outcome<()> {
    let mut rows = x.items::<T>()?.chunks_exact(row).zip(places.chunks_exact_mut(row));
    let sorted = rows.try_for_each(|(numbers, places)| of_row(numbers, places, workers));
    sorted.ok_or_else(|| no_memory(x.element(), x.shape()))
}

/// `None` if there is no memory for the pairs.
fn of_row<T: Item + Number>(numbers: &[T], places: &mut [i32], workers: usize) -> Option<()> {
    let count = numbers.len();
    if count <= FEW {
        let (ticks, negatives) = (Ticks::default(), negatives::<T>());
        let mut pairs: Vec<(u64, i32)> =
            numbers.iter().zip(0..).map(|(&number, at)| (order_key(number, negatives), at)).collect();
        pairs.sort_unstable_by_key(|&pair| {
            ticks.pass(1);
            pair
        });
        places.iter_mut().zip(pairs).for_each(|(place, (_, at))| *place = at);
    } else if size_of::<T>() < 8 {
        let bits = 32..32 + size_of::<T>() as u32 * 8;
        let (mut pairs, mut other) = (AlignedBytes::unset(count * 8)?, AlignedBytes::unset(count * 8)?);
        let cells = (pairs.long_words(), other.long_words());
        by_pairs(numbers, places, cells, (bits, workers), |key, at| key << 32 | u64::from(at), |pair| pair as i32);
    } else {
        let (mut pairs, mut other): (Vec<Pair>, Vec<Pair>) = (Vec::new(), Vec::new());
        for pairs in [&mut pairs, &mut other] {
            pairs.try_reserve_exact(count).ok()?;
            pairs.resize_with(count, Pair::default);
        }
        by_pairs(numbers, places, (&pairs, &other), (0..64, workers), |key, at| (key, at), |(_, at)| at as i32);
    }
    Some(())
}

/// A key of 64 bits and a position.
#[derive(Default)]
struct Pair {
    key: AtomicU64,
    at: AtomicU32,
}

impl Cell for Pair {
    type Value = (u64, u32);
    fn get(&self) -> (u64, u32) {
        (self.key.get(), self.at.get())
    }
    fn set(&self, (key, at): (u64, u32)) {
        self.key.set(key);
        self.at.set(at);
    }
    fn key((key, _): (u64, u32)) -> u64 {
        key
    }
}

/// Sorts pairs of these bits, with as much memory besides; `join` makes a pair, of which `position` is a part.
fn by_pairs<T: Item + Number, K: Cell>(
    numbers: &[T],
    places: &mut [i32],
    (pairs, other): (&[K], &[K]),
    (bits, workers): (Range<u32>, usize),
    join: fn(u64, u32) -> K::Value,
    position: fn(K::Value) -> i32,
) {
    let (part, negatives) = (part(numbers.len(), workers), negatives::<T>());
    sim::each(workers, numbers.chunks(part).zip(pairs.chunks(part)).zip(0u32..), |((numbers, pairs), number)| {
        let first = number * part as u32;
        let items = stop::polled(numbers.iter().zip(pairs).zip(first..));
        items.for_each(|((&number, pair), at)| pair.set(join(order_key(number, negatives), at)));
    });
    let sorted = by_digits(pairs, other, bits, part);
    sim::each(workers, places.chunks_mut(part).zip(sorted.chunks(part)), |(places, pairs)| {
        stop::polled(places.iter_mut().zip(pairs)).for_each(|(place, pair)| *place = position(pair.get()));
    });
}

/// Returns the key of a number; that of 0 for -0, and the largest one for NaN.
fn order_key<T: Number>(number: T, negatives: u64) -> u64 {
    let sign = 1 << (size_of::<T>() * 8 - 1);
    match number.to_raw() {
        _ if T::SCALAR.is_float() && number.op_ne(number) => sign | (sign - 1),
        raw if T::SCALAR.is_float() && raw == sign => key(T::from_raw(0), negatives),
        _ => key(number, negatives),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::scalar::{bf16, f16};

    /// Sorts positions, and compares with a stable sort by comparisons.
    fn check<T: Item + Number>(numbers: Vec<T>) {
        let mut wanted: Vec<i32> = (0..numbers.len() as i32).collect();
        let nan = |number: T| number.op_ne(number);
        wanted.sort_by(|&a, &b| {
            let (a, b) = (numbers[a as usize], numbers[b as usize]);
            match () {
                _ if nan(a) || nan(b) => nan(a).cmp(&nan(b)),
                _ if a.op_lt(b) => std::cmp::Ordering::Less,
                _ => b.op_lt(a).cmp(&false),
            }
        });
        let value = Value::Array(Array::from_items(&numbers).expect("memory"));
        let Value::Array(found) = argsort(&value).expect("numbers") else { panic!("no array") };
        assert_eq!(found.items::<i32>().expect("positions"), wanted, "{} of {}", numbers.len(), T::SCALAR);
    }

    #[test]
    fn positions_of_all_types_are_in_order() {
        for n in [0, 1, 2, 40, FEW + 1, 3000, 70_000] {
            // Few different ones, among them the special ones of floats.
            let bits =
                |k: usize| [0, 1, 2, 3, 0x80, 0x8000, 0x8000_0000, 1 << 63, u64::MAX, 0x7f80_0001][k * 7919 % 10];
            let floats = |k: usize| [0.0, -0.0, 1.5, -2.0, f64::NAN, -f64::NAN, f64::INFINITY, -1e-300][k * 7919 % 8];
            check((0..n).map(|k| bits(k) as i8).collect());
            check((0..n).map(|k| bits(k) as u16).collect());
            check((0..n).map(|k| bits(k) as i32).collect());
            check((0..n).map(|k| bits(k) as u32).collect());
            check((0..n).map(|k| bits(k) as i64).collect());
            check((0..n).map(bits).collect());
            check((0..n).map(|k| f16::from_f64(floats(k))).collect());
            check((0..n).map(|k| bf16::from_f64(floats(k))).collect());
            check((0..n).map(|k| floats(k) as f32).collect());
            check((0..n).map(floats).collect());
        }
    }
}
