//! The order of numbers: in, an array; out, the positions of its elements in ascending order, equal ones as they are and NaN last.
//!
//! Keys are those of [`sort`](mod@super::sort), but of equal numbers: -0 has the key of 0, and all NaN have the largest one. Pairs of a key
//! and a position are sorted by the key, digit by digit, which keeps pairs with one key in order.

use crate::base::stop::{self, Ticks};
use crate::host::array::{Array, Item, no_memory};
use crate::host::graph;
use crate::host::ops::operand::{array, undefined};
use crate::host::ops::sort::{FEW, by_digits, key};
use crate::host::problem::Outcome;
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
    let places = result.items_mut::<i32>()?;
    with_number!(scalar, T => of_rows::<T>(x, row, places)?, bool => return Err(no_order()));
    Ok(Value::Array(result))
}

fn of_rows<T: Item + Number>(x: &Array, row: usize, places: &mut [i32]) -> Outcome<()> {
    let rows = x.items::<T>()?.chunks_exact(row).zip(places.chunks_exact_mut(row));
    for (numbers, places) in rows {
        let sorted = match size_of::<T>() {
            8 => of_row::<T, u64>(numbers, places, |key| key, |(key, _)| key),
            _ => of_row::<T, u32>(numbers, places, |key| key as u32, |(key, _)| key.into()),
        };
        sorted.ok_or_else(|| no_memory(x.element(), x.shape()))?;
    }
    Ok(())
}

/// `None` if there is no memory for the pairs.
fn of_row<T: Item + Number, K: Copy + Ord + Default>(
    numbers: &[T],
    places: &mut [i32],
    narrow: fn(u64) -> K,
    widen: fn((K, i32)) -> u64,
) -> Option<()> {
    let (mut pairs, mut other): (Vec<(K, i32)>, Vec<(K, i32)>) = (Vec::new(), Vec::new());
    pairs.try_reserve_exact(numbers.len()).ok()?;
    for (first, part) in stop::parts(numbers) {
        pairs.extend(part.iter().zip(first as i32..).map(|(&number, at)| (narrow(order_key(number)), at)));
    }
    if numbers.len() <= FEW {
        let ticks = Ticks::default();
        pairs.sort_unstable_by_key(|&pair| {
            ticks.pass(1);
            pair
        });
    } else {
        other.try_reserve_exact(numbers.len()).ok()?;
        other.resize(numbers.len(), (K::default(), 0));
        by_digits(&mut pairs, &mut other, size_of::<T>() as u32 * 8, widen);
    }
    places.iter_mut().zip(&pairs).for_each(|(place, &(_, at))| *place = at);
    Some(())
}

/// Returns the key of a number; that of 0 for -0, and the largest one for NaN.
fn order_key<T: Number>(number: T) -> u64 {
    let sign = 1 << (size_of::<T>() * 8 - 1);
    match number.to_raw() {
        _ if T::SCALAR.is_float() && number.op_ne(number) => sign | (sign - 1),
        raw if T::SCALAR.is_float() && raw == sign => key(T::from_raw(0)),
        _ => key(number),
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
        for n in [0, 1, 2, 40, FEW + 1, 3000] {
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
