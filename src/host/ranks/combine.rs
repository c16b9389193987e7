//! Sums and the like of what the ranks give: one value for each place.
//!
//! Input: the bytes of all ranks, which are as many numbers of one type. Output: as many numbers. Floats are taken in the order of the ranks,
//! in their own type, as scripts do with `+`, `*`, `min` and `max`; integers exactly, and the result has to fit.

use crate::base::room;
use crate::host::problem::{Outcome, Problem};
use crate::lang::ops::{BinaryOp, MathFn};
use crate::lang::scalar::{self, Scalar, Value};

use super::Op;

/// Combines the numbers of all ranks.
pub fn combine(op: Op, scalar: Scalar, of_ranks: &[&[u8]]) -> Outcome<Vec<u8>> {
    let Some((first, rest)) = of_ranks.split_first() else { return Ok(vec![]) };
    let mut result: Vec<u8> = room::vec(first.len());
    if let (Scalar::F32, Op::Sum) = (scalar, op) {
        add(&mut result, first, rest);
        return Ok(result);
    }
    let size = scalar.size();
    for at in (0..first.len() / size).map(|number| number * size) {
        let numbers =
            of_ranks.iter().map(|bytes| Value::from_bytes(scalar, bytes.get(at..at + size).unwrap_or(&[0; 8][..size])));
        let combined =
            if scalar.is_int() { whole(op, scalar, numbers, at / size)? } else { folded(op, scalar, numbers) };
        result.extend_from_slice(&combined.to_bytes()[..size]);
    }
    Ok(result)
}

/// Adds floats, the most frequent case by far.
fn add(result: &mut Vec<u8>, first: &[u8], rest: &[&[u8]]) {
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap_or_default());
    for (at, bytes) in first.chunks_exact(4).enumerate() {
        let others = rest.iter().map(|other| other.get(4 * at..4 * at + 4).map_or(0.0, number));
        let sum = others.fold(number(bytes), |sum, other| sum + other);
        // All NaN are one, as everywhere on the host.
        let sum = if sum.is_nan() { f32::NAN } else { sum };
        result.extend_from_slice(&sum.to_le_bytes());
    }
}

fn folded(op: Op, scalar: Scalar, numbers: impl Iterator<Item = Value>) -> Value {
    let two = |a: Value, b: Value| {
        let result = match op {
            Op::Sum => scalar::dynamic::binary(BinaryOp::Add, a, b),
            Op::Prod => scalar::dynamic::binary(BinaryOp::Mul, a, b),
            Op::Min => scalar::dynamic::math(MathFn::Min, &[a, b]),
            Op::Max => scalar::dynamic::math(MathFn::Max, &[a, b]),
        };
        // These operations are defined for all numbers of one type.
        result.unwrap_or(a)
    };
    numbers.reduce(two).unwrap_or(Value::zero(scalar))
}

fn whole(op: Op, scalar: Scalar, numbers: impl Iterator<Item = Value>, at: usize) -> Outcome<Value> {
    let integers = numbers.filter_map(Value::as_integer);
    let two = |a: Option<i128>, b: Option<i128>| {
        let (a, b) = (a?, b?);
        match op {
            Op::Sum => a.checked_add(b),
            Op::Prod => a.checked_mul(b),
            Op::Min => Some(a.min(b)),
            Op::Max => Some(a.max(b)),
        }
    };
    let result = integers.map(Some).reduce(two).unwrap_or(Some(0));
    result.and_then(|whole| Value::from_integer(scalar, whole)).ok_or_else(|| {
        let what = if op == Op::Prod { "product" } else { "sum" };
        Problem::new("E0612", format!("the {what} of all ranks does not fit `{}`", scalar.name()))
            .note(format!("it is that of element {at}"))
            .help("use a wider type")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: bytemuck::Pod>(numbers: &[T]) -> Vec<u8> {
        bytemuck::cast_slice(numbers).to_vec()
    }

    fn all<T: bytemuck::Pod>(op: Op, scalar: Scalar, ranks: &[&[T]]) -> Outcome<Vec<T>> {
        let bytes: Vec<Vec<u8>> = ranks.iter().map(|numbers| of(numbers)).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
        Ok(combine(op, scalar, &bytes)?.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    #[test]
    fn floats_in_the_order_of_the_ranks() {
        let ranks = [&[1e8f32, 1.0][..], &[1.0, 2.0], &[-1e8, 4.0]];
        assert_eq!(all(Op::Sum, Scalar::F32, &ranks), Ok(vec![(1e8f32 + 1.0) - 1e8, 7.0]));
        assert_eq!(all(Op::Prod, Scalar::F32, &ranks).map(|x| x[1]), Ok(8.0));
        assert_eq!(all(Op::Max, Scalar::F64, &[&[1.0f64][..], &[-3.0]]), Ok(vec![1.0]));
        assert_eq!(all(Op::Min, Scalar::F64, &[&[1.0f64][..], &[-3.0]]), Ok(vec![-3.0]));
    }

    #[test]
    fn integers_fit_or_are_refused() {
        assert_eq!(all(Op::Sum, Scalar::U8, &[&[200u8][..], &[55]]), Ok(vec![255]));
        let refused = all(Op::Sum, Scalar::U8, &[&[1u8, 200][..], &[1, 56]]).unwrap_err();
        assert_eq!((refused.code, &refused.notes[0][..]), ("E0612", "it is that of element 1"));
        assert_eq!(all(Op::Sum, Scalar::I32, &[&[i32::MAX][..], &[1], &[-1]]), Ok(vec![i32::MAX]), "the whole counts");
        assert!(all(Op::Prod, Scalar::I64, &[&[i64::MAX][..], &[2]]).is_err());
        assert_eq!(all(Op::Min, Scalar::I64, &[&[i64::MIN][..], &[2]]), Ok(vec![i64::MIN]));
    }
}
