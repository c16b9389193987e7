//! Argsort on the host. Input: an array. Output: the positions of its elements in ascending order of the elements. The
//! sort is stable, and NaNs are last.
//!
//! Keys are computed as in [`sort`](mod@super::sort), except that -0 and 0 have the same key, and all NaNs have the
//! largest key. Pairs of a key and a position are sorted by key with a stable radix sort.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::array::{Array, ArrayScalar, no_memory, shape_text};
use crate::graph::{self, ExecContext};
use crate::ops::binary::binary;
use crate::ops::operand::{array, undefined};
use crate::ops::rearrange::flip;
use crate::ops::sort::{MAX_COMPARED, SortCell, SortOrder, count_negative_nans, part_len, radix_sort, sort_key};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::aligned::AlignedBytes;
use clk_base::stop::{self, Ticks};
use clk_scalar::ops::BinaryOp;
use clk_scalar::with_number;
use clk_scalar::{NumericScalar, Scalar};

/// Evaluates `argsort(x, axis = k, descending = d)`: returns the positions of the elements along an axis, in the order
/// of the elements. Equal elements keep their order in both directions.
pub fn argsort(exec: &ExecContext, value: &HostValue, order: SortOrder) -> HostResult<HostValue> {
    let x = array(value, "`argsort`")?;
    let axis = order.axis_of(x.rank(), "`argsort`")?;
    let in_order = |value: &HostValue| {
        SortOrder::apply_to_rows(exec, value, (axis, x.rank()), |rows| argsort_last_axis(exec, rows))
    };
    if !order.descending || x.shape()[axis] == 0 {
        return in_order(value);
    }
    // In the reversed array, later elements come first, so that reversing the positions restores the order of equal
    // elements.
    let reversed = flip(exec, &in_order(&flip(exec, value, axis as i64)?)?, axis as i64)?;
    binary(exec, BinaryOp::Sub, &HostValue::i32(x.shape()[axis] as i32 - 1), &reversed)
}

/// Returns the positions of the elements along the last axis, in ascending order of the elements.
fn argsort_last_axis(exec: &ExecContext, value: &HostValue) -> HostResult<HostValue> {
    let x = array(value, "`argsort`")?;
    let no_order = || undefined("`argsort`", &[value]);
    let scalar = x.scalar().filter(|_| x.element().lanes() == 1).ok_or_else(no_order)?;
    let row = x.shape().last().copied().unwrap_or(1).max(1);
    if let Some(order) = graph::sort::sort_positions(exec, x, scalar, row)? {
        return Ok(HostValue::Array(order));
    }
    let mut result = Array::zeros(Scalar::I32, x.shape())?;
    let (places, workers) = (result.items_mut::<i32>()?, exec.control().workers);
    with_number!(scalar, T => argsort_rows::<T>(x, row, places, workers)?, bool => return Err(no_order()));
    Ok(HostValue::Array(result))
}

/// Returns the positions of keys in the order of the keys. Checks that `values` has one value, or one row, for
/// each key.
pub(crate) fn order_of_rows(
    exec: &ExecContext,
    keys: &HostValue,
    values: &HostValue,
    descending: bool,
) -> HostResult<Array> {
    let (k, v) = (array(keys, "`sort`")?, array(values, "`sort`")?);
    if k.rank() != 1 || v.shape().first() != k.shape().first() {
        let (k, v) = (shape_text(k.shape()), shape_text(v.shape()));
        let title = format!("`sort` of keys of the shape {k} and values of the shape {v}");
        return Err(RuntimeError::new("E0501", title).help("each key has one value, or one row of them"));
    }
    match argsort(exec, keys, SortOrder { axis: None, descending })? {
        HostValue::Array(order) => Ok(order),
        _ => Err(undefined("`sort`", &[keys])),
    }
}

/// Sorts keys together with their values on a GPU. `None` if the caller should use [`order_of_rows`] instead.
pub(crate) fn sorted_pairs(exec: &ExecContext, keys: &HostValue, values: &HostValue) -> HostResult<Option<HostValue>> {
    let pair = graph::sort::sort_pairs(exec, array(keys, "`sort`")?, array(values, "`sort`")?)?;
    Ok(pair.map(|(keys, values)| HostValue::Tuple(vec![HostValue::Array(keys), HostValue::Array(values)])))
}

fn argsort_rows<T: ArrayScalar + NumericScalar>(
    x: &Array,
    row: usize,
    places: &mut [i32],
    workers: usize,
) -> HostResult<()> {
    let mut rows = x.items::<T>()?.chunks_exact(row).zip(places.chunks_exact_mut(row));
    let sorted = rows.try_for_each(|(numbers, places)| argsort_row(numbers, places, workers));
    sorted.ok_or_else(|| no_memory(x.element(), x.shape()))
}

/// Sorts one row, and writes the positions to `places`. `None` if there is not enough memory for the pairs.
fn argsort_row<T: ArrayScalar + NumericScalar>(numbers: &[T], places: &mut [i32], workers: usize) -> Option<()> {
    let count = numbers.len();
    if count <= MAX_COMPARED {
        let (ticks, negatives) = (Ticks::default(), count_negative_nans::<T>());
        let mut pairs: Vec<(u64, i32)> =
            numbers.iter().zip(0..).map(|(&number, at)| (order_key(number, negatives), at)).collect();
        pairs.sort_unstable_by_key(|&pair| {
            ticks.advance(1);
            pair
        });
        places.iter_mut().zip(pairs).for_each(|(place, (_, at))| *place = at);
    } else if size_of::<T>() < 8 {
        let format = PairFormat {
            key_bits: 32..32 + size_of::<T>() as u32 * 8,
            join: |key, position| key << 32 | u64::from(position),
            position: |pair| pair as i32,
        };
        let (mut pairs, mut buffer) =
            (AlignedBytes::for_overwrite(count * 8)?, AlignedBytes::for_overwrite(count * 8)?);
        by_pairs(numbers, places, pairs.long_words(), buffer.long_words(), workers, format);
    } else {
        let (mut pairs, mut buffer): (Vec<PairCell>, Vec<PairCell>) = (Vec::new(), Vec::new());
        for pairs in [&mut pairs, &mut buffer] {
            pairs.try_reserve_exact(count).ok()?;
            pairs.resize_with(count, PairCell::default);
        }
        let format = PairFormat {
            key_bits: 0..64,
            join: |key, position| KeyAndPosition { key, position },
            position: |pair| pair.position as i32,
        };
        by_pairs(numbers, places, &pairs, &buffer, workers, format);
    }
    Some(())
}

/// A key of 64 bits and a position.
#[derive(Clone, Copy)]
struct KeyAndPosition {
    key: u64,
    position: u32,
}

/// A cell for a [`KeyAndPosition`] that several workers can access.
#[derive(Default)]
struct PairCell {
    key: AtomicU64,
    position: AtomicU32,
}

impl SortCell for PairCell {
    type Value = KeyAndPosition;
    fn get(&self) -> KeyAndPosition {
        KeyAndPosition { key: self.key.get(), position: self.position.get() }
    }
    fn set(&self, pair: KeyAndPosition) {
        self.key.set(pair.key);
        self.position.set(pair.position);
    }
    fn key(pair: KeyAndPosition) -> u64 {
        pair.key
    }
}

/// The representation of a key and a position in the values of a sort cell.
struct PairFormat<V> {
    /// The bits of [`SortCell::key`] by which pairs are sorted.
    key_bits: Range<u32>,
    /// Combines a key and a position into a value.
    join: fn(u64, u32) -> V,
    /// Returns the position in a value.
    position: fn(V) -> i32,
}

/// Sorts pairs of a number's key and its position, and writes the positions to `places`. `buffer` must have the size of
/// `pairs`.
fn by_pairs<T: ArrayScalar + NumericScalar, K: SortCell>(
    numbers: &[T],
    places: &mut [i32],
    pairs: &[K],
    buffer: &[K],
    workers: usize,
    format: PairFormat<K::Value>,
) {
    let PairFormat { key_bits, join, position } = format;
    let (part, negatives) = (part_len(numbers.len(), workers), count_negative_nans::<T>());
    clk_sim::parallel_for(
        workers,
        numbers.chunks(part).zip(pairs.chunks(part)).zip(0u32..),
        |((numbers, pairs), number)| {
            let first = number * part as u32;
            let items = stop::polled(numbers.iter().zip(pairs).zip(first..));
            items.for_each(|((&number, pair), at)| pair.set(join(order_key(number, negatives), at)));
        },
    );
    let sorted = radix_sort(pairs, buffer, key_bits, part);
    clk_sim::parallel_for(workers, places.chunks_mut(part).zip(sorted.chunks(part)), |(places, pairs)| {
        stop::polled(places.iter_mut().zip(pairs)).for_each(|(place, pair)| *place = position(pair.get()));
    });
}

/// Returns the sort key of a number: -0 has the key of 0, and all NaNs have the largest key.
fn order_key<T: NumericScalar>(number: T, negatives: u64) -> u64 {
    let sign = 1 << (size_of::<T>() * 8 - 1);
    match number.to_raw() {
        _ if T::SCALAR.is_float() && number.op_ne(number) => sign | (sign - 1),
        raw if T::SCALAR.is_float() && raw == sign => sort_key(T::from_raw(0), negatives),
        _ => sort_key(number, negatives),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_scalar::{bf16, f16};

    /// Compares the argsort of these numbers with a stable comparison sort.
    fn check<T: ArrayScalar + NumericScalar>(exec: &ExecContext, numbers: Vec<T>) {
        let mut expected: Vec<i32> = (0..numbers.len() as i32).collect();
        let nan = |number: T| number.op_ne(number);
        expected.sort_by(|&a, &b| {
            let (a, b) = (numbers[a as usize], numbers[b as usize]);
            match () {
                _ if nan(a) || nan(b) => nan(a).cmp(&nan(b)),
                _ if a.op_lt(b) => std::cmp::Ordering::Less,
                _ => b.op_lt(a).cmp(&false),
            }
        });
        let value = HostValue::Array(Array::from_items(&numbers).expect("memory"));
        let HostValue::Array(positions) = argsort(exec, &value, SortOrder::default()).expect("numbers") else {
            panic!("no array")
        };
        assert_eq!(positions.items::<i32>().expect("positions"), expected, "{} of {}", numbers.len(), T::SCALAR);
    }

    #[test]
    fn argsort_orders_all_types() {
        let exec = &ExecContext::default();
        for n in [0, 1, 2, 40, MAX_COMPARED + 1, 3000, 70_000] {
            // The numbers have only a few different bit patterns, including special floats.
            let bits =
                |k: usize| [0, 1, 2, 3, 0x80, 0x8000, 0x8000_0000, 1 << 63, u64::MAX, 0x7f80_0001][k * 7919 % 10];
            let floats = |k: usize| [0.0, -0.0, 1.5, -2.0, f64::NAN, -f64::NAN, f64::INFINITY, -1e-300][k * 7919 % 8];
            check(exec, (0..n).map(|k| bits(k) as i8).collect());
            check(exec, (0..n).map(|k| bits(k) as u16).collect());
            check(exec, (0..n).map(|k| bits(k) as i32).collect());
            check(exec, (0..n).map(|k| bits(k) as u32).collect());
            check(exec, (0..n).map(|k| bits(k) as i64).collect());
            check(exec, (0..n).map(bits).collect());
            check(exec, (0..n).map(|k| f16::from_f64(floats(k))).collect());
            check(exec, (0..n).map(|k| bf16::from_f64(floats(k))).collect());
            check(exec, (0..n).map(|k| floats(k) as f32).collect());
            check(exec, (0..n).map(floats).collect());
        }
    }
}
