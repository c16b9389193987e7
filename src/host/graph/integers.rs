//! How large the integers of an array are, and conversions that have to be exact.

use crate::base::stop;
use crate::host::array::{Array, Element, MAX_EXTENT};
use crate::host::graph::fold::fold;
use crate::host::graph::node::{Fold, Op, Operand, Rows};
use crate::host::graph::run::{broken, defer};
use crate::host::problem::Outcome;
use crate::lang::ops::{BinaryOp, MathFn};
use crate::lang::scalar::exact::{holds, limits};
use crate::lang::scalar::{Scalar, Value};

/// Returns the least and the largest element, which are looked for once per version of an array; `None` for an array of none, or of more than an axis has.
pub(crate) fn extremes(array: &Array) -> Outcome<Option<(i128, i128)>> {
    let scalar = array.scalar().ok_or_else(|| broken("the range of structs"))?;
    let count = array.byte_len() / scalar.size();
    if count > MAX_EXTENT {
        return Ok(None);
    }
    if let Some(known) = array.data().known_extremes(scalar) {
        return Ok(Some(known));
    }
    let flat = array.seen_as(Element::Scalar(scalar), &[count])?;
    let rows = Rows::along(flat.shape(), 0);
    let find = |function| -> Outcome<Option<i128>> {
        let way = Fold { combine: Op::Math(function), wide: scalar, divisor: None, result: scalar };
        let Some(found) = fold(&way, &flat, flat.shape(), &[1], rows)? else { return Ok(None) };
        Ok(Value::from_bytes(scalar, found.bytes()?).as_integer())
    };
    let Some(least) = find(MathFn::Min)? else { return Ok(None) };
    let found = find(MathFn::Max)?.map(|most| (least, most));
    if let (Some(found), true) = (found, array.data().computed().is_some()) {
        array.data().note_extremes(scalar, found);
    }
    Ok(found)
}

/// Returns the largest magnitude of an element, as [`extremes`].
pub(crate) fn magnitude(array: &Array) -> Outcome<Option<i128>> {
    Ok(extremes(array)?.map(|(least, most)| least.abs().max(most.abs())))
}

/// Converts integers to a type; if it does not hold them all, returns the first that it does not hold instead.
pub(crate) fn narrowed(array: &Array, to: Scalar) -> Outcome<Result<Array, i128>> {
    let from = array.scalar().ok_or_else(|| broken("integers of structs"))?;
    if from == to {
        return Ok(Ok(array.clone()));
    }
    let (least, most) = limits(from);
    let fits = holds(to, least) && holds(to, most);
    if !fits && !extremes(array)?.is_some_and(|(least, most)| holds(to, least) && holds(to, most)) {
        let numbers = stop::polled(array.bytes()?.chunks_exact(from.size()));
        let mut numbers = numbers.filter_map(|bytes| Value::from_bytes(from, bytes).as_integer());
        if let Some(wrong) = numbers.find(|&n| !holds(to, n)) {
            return Ok(Err(wrong));
        }
    }
    converted(array, to).map(Ok)
}

fn converted(array: &Array, to: Scalar) -> Outcome<Array> {
    apply(Op::Convert(to), &[array], &[], to)
}

/// Applies an operation to arrays of one shape, and scalars behind them.
fn apply(op: Op, arrays: &[&Array], scalars: &[Value], to: Scalar) -> Outcome<Array> {
    let Some(array) = arrays.first() else { return Err(broken("an operation on nothing")) };
    let element = array.element().with_scalar(to);
    let mut shape = array.shape().to_vec();
    if element.lanes() > 1 {
        shape.push(element.lanes());
    }
    let operands = arrays.iter().map(|array| Operand::Array((*array).clone(), shape.clone()));
    let operands = operands.chain(scalars.iter().copied().map(Operand::Scalar)).collect();
    defer(op, operands, to, element, &shape)
}

/// Returns 2^32 times `high` plus `low`, which are `i64`, as numbers of a type of 64 bits; if it does not hold them all, the first
/// that it does not hold instead.
pub(crate) fn joined(high: &Array, low: &Array, to: Scalar) -> Outcome<Result<Array, i128>> {
    let (by, mask) = (Value::of(32i64), Value::of(0xffff_ffffi64));
    let binary = |op, arrays: &[&Array], scalars: &[Value]| apply(Op::Binary(op), arrays, scalars, Scalar::I64);
    let carry = binary(BinaryOp::Shr, &[low], &[by])?;
    let high = binary(BinaryOp::Add, &[high, &carry], &[])?;
    let low = binary(BinaryOp::BitAnd, &[low], &[mask])?;
    let (least, most) = limits(to);
    let holds = |high: i128| (least >> 32..=most >> 32).contains(&high);
    if !extremes(&high)?.is_some_and(|(least, most)| holds(least) && holds(most)) {
        let halves = stop::polled(high.items::<i64>()?.iter().zip(low.items::<i64>()?));
        let mut wrong = halves.filter(|(high, _)| !holds(i128::from(**high)));
        if let Some((&high, &low)) = wrong.next() {
            return Ok(Err((i128::from(high) << 32) + i128::from(low)));
        }
    }
    let shifted = binary(BinaryOp::Shl, &[&high], &[by])?;
    let whole = binary(BinaryOp::BitOr, &[&shifted, &low], &[])?;
    whole.seen_as(whole.element().with_scalar(to), whole.shape()).map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_integers_than_an_axis_has_are_looked_at_by_the_caller() {
        let zeros = |rows| Array::unplaced(Scalar::I32, &[rows, 1 << 16]).expect("zeros");
        assert_eq!(extremes(&zeros(1 << 15)).expect("no error"), None);
        assert_eq!(magnitude(&zeros(1 << 15)).expect("no error"), None);
        assert_eq!(extremes(&zeros(1)).expect("extremes"), Some((0, 0)));
    }
}
