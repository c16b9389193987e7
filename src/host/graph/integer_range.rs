//! The value range of the integers in an array, and conversions of integers that fail if a value does not fit.

use crate::array::{Array, ElementType, MAX_EXTENT};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{defer, internal_error};
use crate::graph::node::{ElementwiseOp, NodeOperand, ReductionOp, ReductionShape};
use crate::graph::reduce::reduce;
use crate::problem::HostResult;
use clk_base::stop;
use clk_scalar::exact::{is_representable, limits};
use clk_scalar::ops::{BinaryOp, MathFn};
use clk_scalar::{Scalar, ScalarValue};

/// Returns the smallest and the largest element. The result is cached until the array is written. `None` for an empty
/// array, or if the array has more elements than an axis may have.
pub(crate) fn min_max(context: &ExecContext, array: &Array) -> HostResult<Option<(i128, i128)>> {
    let scalar = array.scalar().ok_or_else(|| internal_error("the range of structs"))?;
    let count = array.byte_len() / scalar.size();
    if count > MAX_EXTENT {
        return Ok(None);
    }
    if let Some(known) = array.data().known_min_max(scalar) {
        return Ok(Some(known));
    }
    let flat = array.reinterpret_as(ElementType::Scalar(scalar), &[count])?;
    let rows = ReductionShape::for_axis(flat.shape(), 0);
    let find = |function| -> HostResult<Option<i128>> {
        let reduction =
            ReductionOp { combine: ElementwiseOp::Math(function), accumulator: scalar, divisor: None, result: scalar };
        let Some(range) = reduce(context, &reduction, &flat, flat.shape(), &[1], rows)? else { return Ok(None) };
        Ok(ScalarValue::from_bytes(scalar, range.bytes()?).as_integer())
    };
    let Some(least) = find(MathFn::Min)? else { return Ok(None) };
    let range = find(MathFn::Max)?.map(|most| (least, most));
    if let (Some(range), true) = (range, array.data().computed().is_some()) {
        array.data().record_min_max(scalar, range);
    }
    Ok(range)
}

/// Returns the largest magnitude of an element; `None` as in [`min_max`].
pub(crate) fn max_magnitude(context: &ExecContext, array: &Array) -> HostResult<Option<i128>> {
    Ok(min_max(context, array)?.map(|(least, most)| least.abs().max(most.abs())))
}

/// Converts integers to a type. If some integers do not fit, returns the first of them as the inner error.
pub(crate) fn narrow_exactly(context: &ExecContext, array: &Array, to: Scalar) -> HostResult<Result<Array, i128>> {
    let from = array.scalar().ok_or_else(|| internal_error("integers of structs"))?;
    if from == to {
        return Ok(Ok(array.clone()));
    }
    let (least, most) = limits(from);
    let always_fits = is_representable(to, least) && is_representable(to, most);
    if !always_fits
        && !min_max(context, array)?
            .is_some_and(|(least, most)| is_representable(to, least) && is_representable(to, most))
    {
        let numbers = stop::polled(array.bytes()?.chunks_exact(from.size()));
        let mut numbers = numbers.filter_map(|bytes| ScalarValue::from_bytes(from, bytes).as_integer());
        if let Some(wrong) = numbers.find(|&n| !is_representable(to, n)) {
            return Ok(Err(wrong));
        }
    }
    convert(context, array, to).map(Ok)
}

fn convert(context: &ExecContext, array: &Array, to: Scalar) -> HostResult<Array> {
    apply_op(context, ElementwiseOp::Convert(to), &[array], &[], to)
}

/// Applies an elementwise operation whose operands are the arrays, all of the same shape, followed by the scalars.
fn apply_op(
    context: &ExecContext,
    op: ElementwiseOp,
    arrays: &[&Array],
    scalars: &[ScalarValue],
    to: Scalar,
) -> HostResult<Array> {
    let Some(array) = arrays.first() else { return Err(internal_error("an operation on nothing")) };
    let element = array.element().with_scalar(to);
    let mut shape = array.shape().to_vec();
    if element.lanes() > 1 {
        shape.push(element.lanes());
    }
    let operands = arrays.iter().map(|array| NodeOperand::Array((*array).clone(), shape.clone()));
    let operands = operands.chain(scalars.iter().copied().map(NodeOperand::Scalar)).collect();
    defer(context, op, operands, to, element, &shape)
}

/// Computes `(high << 32) + low` from arrays of `i64`, as integers of the 64-bit type `to`. If some results do not fit,
/// returns the first of them as the inner error.
pub(crate) fn join_halves(
    context: &ExecContext,
    high: &Array,
    low: &Array,
    to: Scalar,
) -> HostResult<Result<Array, i128>> {
    let (by, mask) = (ScalarValue::of(32i64), ScalarValue::of(0xffff_ffffi64));
    let binary = |op, arrays: &[&Array], scalars: &[ScalarValue]| {
        apply_op(context, ElementwiseOp::Binary(op), arrays, scalars, Scalar::I64)
    };
    let carry = binary(BinaryOp::Shr, &[low], &[by])?;
    let high = binary(BinaryOp::Add, &[high, &carry], &[])?;
    let low = binary(BinaryOp::BitAnd, &[low], &[mask])?;
    let (least, most) = limits(to);
    let fits_high = |high: i128| (least >> 32..=most >> 32).contains(&high);
    if !min_max(context, &high)?.is_some_and(|(least, most)| fits_high(least) && fits_high(most)) {
        let halves = stop::polled(high.items::<i64>()?.iter().zip(low.items::<i64>()?));
        let mut wrong = halves.filter(|(high, _)| !fits_high(i128::from(**high)));
        if let Some((&high, &low)) = wrong.next() {
            return Ok(Err((i128::from(high) << 32) + i128::from(low)));
        }
    }
    let shifted = binary(BinaryOp::Shl, &[&high], &[by])?;
    let whole = binary(BinaryOp::BitOr, &[&shifted, &low], &[])?;
    whole.reinterpret_as(whole.element().with_scalar(to), whole.shape()).map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_longer_than_an_axis_have_no_min_max() {
        let exec = &ExecContext::default();
        let zeros = |rows| Array::unplaced(Scalar::I32, &[rows, 1 << 16]).expect("zeros");
        assert_eq!(min_max(exec, &zeros(1 << 15)).expect("no error"), None);
        assert_eq!(max_magnitude(exec, &zeros(1 << 15)).expect("no error"), None);
        assert_eq!(min_max(exec, &zeros(1)).expect("extremes"), Some((0, 0)));
    }
}
