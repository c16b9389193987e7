//! Combines the numbers of all ranks elementwise, for `all_reduce` and `reduce_scatter`.
//!
//! Input: the bytes of one array for each rank, all of the same length and type. Output: the bytes of the combined
//! array. Floats are combined in the order of the ranks and rounded to their type after each step, like `+`, `*`, `min`
//! and `max` in scripts. Integers are combined without overflow; a final result that does not fit in the type is an
//! error.

use crate::problem::{HostResult, RuntimeError};
use clk_base::alloc;
use clk_scalar::ops::{BinaryOp, MathFn};
use clk_scalar::{Scalar, ScalarValue};

use super::ReduceOp;

/// Combines the arrays of all ranks elementwise. `of_ranks` has the bytes of each rank's array.
pub fn combine(op: ReduceOp, scalar: Scalar, of_ranks: &[&[u8]]) -> HostResult<Vec<u8>> {
    let Some((first, rest)) = of_ranks.split_first() else { return Ok(vec![]) };
    let mut result: Vec<u8> = alloc::vec(first.len());
    if let (Scalar::F32, ReduceOp::Sum) = (scalar, op) {
        add_f32(&mut result, first, rest);
        return Ok(result);
    }
    let size = scalar.size();
    for at in (0..first.len() / size).map(|number| number * size) {
        let numbers = of_ranks
            .iter()
            .map(|bytes| ScalarValue::from_bytes(scalar, bytes.get(at..at + size).unwrap_or(&[0; 8][..size])));
        let combined = if scalar.is_int() {
            combine_integers(op, scalar, numbers, at / size)?
        } else {
            combine_floats(op, scalar, numbers)
        };
        result.extend_from_slice(&combined.to_bytes()[..size]);
    }
    Ok(result)
}

/// Adds `f32` numbers. This is a fast path for the most frequent case.
fn add_f32(result: &mut Vec<u8>, first: &[u8], rest: &[&[u8]]) {
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap_or_default());
    for (at, bytes) in first.chunks_exact(4).enumerate() {
        let others = rest.iter().map(|other| other.get(4 * at..4 * at + 4).map_or(0.0, number));
        let sum = others.fold(number(bytes), |sum, other| sum + other);
        // Every NaN is replaced by the canonical NaN, as everywhere on the host.
        let sum = if sum.is_nan() { f32::NAN } else { sum };
        result.extend_from_slice(&sum.to_le_bytes());
    }
}

fn combine_floats(op: ReduceOp, scalar: Scalar, numbers: impl Iterator<Item = ScalarValue>) -> ScalarValue {
    let two = |a: ScalarValue, b: ScalarValue| {
        let result = match op {
            ReduceOp::Sum => clk_scalar::dynamic::binary(BinaryOp::Add, a, b),
            ReduceOp::Prod => clk_scalar::dynamic::binary(BinaryOp::Mul, a, b),
            ReduceOp::Min => clk_scalar::dynamic::math(MathFn::Min, &[a, b]),
            ReduceOp::Max => clk_scalar::dynamic::math(MathFn::Max, &[a, b]),
        };
        // The fallback is never used: these operations are defined for all pairs of numbers of the same type.
        result.unwrap_or(a)
    };
    numbers.reduce(two).unwrap_or(ScalarValue::zero(scalar))
}

fn combine_integers(
    op: ReduceOp,
    scalar: Scalar,
    numbers: impl Iterator<Item = ScalarValue>,
    at: usize,
) -> HostResult<ScalarValue> {
    let integers = numbers.filter_map(ScalarValue::as_integer);
    let two = |a: Option<i128>, b: Option<i128>| {
        let (a, b) = (a?, b?);
        match op {
            ReduceOp::Sum => a.checked_add(b),
            ReduceOp::Prod => a.checked_mul(b),
            ReduceOp::Min => Some(a.min(b)),
            ReduceOp::Max => Some(a.max(b)),
        }
    };
    let result = integers.map(Some).reduce(two).unwrap_or(Some(0));
    result.and_then(|whole| ScalarValue::from_integer(scalar, whole)).ok_or_else(|| {
        let operation = if op == ReduceOp::Prod { "product" } else { "sum" };
        RuntimeError::new("E0612", format!("the {operation} of all ranks does not fit `{}`", scalar.name()))
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

    fn all<T: bytemuck::Pod>(op: ReduceOp, scalar: Scalar, ranks: &[&[T]]) -> HostResult<Vec<T>> {
        let bytes: Vec<Vec<u8>> = ranks.iter().map(|numbers| of(numbers)).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
        Ok(combine(op, scalar, &bytes)?.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    #[test]
    fn floats_are_summed_in_rank_order() {
        let ranks = [&[1e8f32, 1.0][..], &[1.0, 2.0], &[-1e8, 4.0]];
        assert_eq!(all(ReduceOp::Sum, Scalar::F32, &ranks), Ok(vec![(1e8f32 + 1.0) - 1e8, 7.0]));
        assert_eq!(all(ReduceOp::Prod, Scalar::F32, &ranks).map(|x| x[1]), Ok(8.0));
        assert_eq!(all(ReduceOp::Max, Scalar::F64, &[&[1.0f64][..], &[-3.0]]), Ok(vec![1.0]));
        assert_eq!(all(ReduceOp::Min, Scalar::F64, &[&[1.0f64][..], &[-3.0]]), Ok(vec![-3.0]));
    }

    #[test]
    fn integer_overflow_is_an_error() {
        assert_eq!(all(ReduceOp::Sum, Scalar::U8, &[&[200u8][..], &[55]]), Ok(vec![255]));
        let refused = all(ReduceOp::Sum, Scalar::U8, &[&[1u8, 200][..], &[1, 56]]).unwrap_err();
        assert_eq!((refused.code, &refused.notes[0][..]), ("E0612", "it is that of element 1"));
        assert_eq!(
            all(ReduceOp::Sum, Scalar::I32, &[&[i32::MAX][..], &[1], &[-1]]),
            Ok(vec![i32::MAX]),
            "the whole counts"
        );
        assert!(all(ReduceOp::Prod, Scalar::I64, &[&[i64::MAX][..], &[2]]).is_err());
        assert_eq!(all(ReduceOp::Min, Scalar::I64, &[&[i64::MIN][..], &[2]]), Ok(vec![i64::MIN]));
    }
}
