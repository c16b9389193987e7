//! How large the integers of an array are, and conversions that have to be exact.

use crate::host::array::{Array, Element};
use crate::host::graph::fold::{Fold, Rows, fold};
use crate::host::graph::node::{Op, Operand};
use crate::host::graph::run::{broken, defer};
use crate::host::problem::Outcome;
use crate::lang::ops::MathFn;
use crate::lang::scalar::exact::{holds, limits};
use crate::lang::scalar::{Scalar, Value};

/// Returns the least and the largest element; `None` for an array of none, or of more than an axis has.
pub(crate) fn extremes(array: &Array) -> Outcome<Option<(i128, i128)>> {
    let scalar = array.scalar().ok_or_else(|| broken("the range of structs"))?;
    let flat = array.seen_as(Element::Scalar(scalar), &[array.byte_len() / scalar.size()])?;
    let rows = Rows::along(flat.shape(), 0);
    let find = |function| -> Outcome<Option<i128>> {
        let way = Fold { combine: Op::Math(function), wide: scalar, divisor: None, result: scalar };
        let Some(found) = fold(&way, &flat, flat.shape(), &[1], rows)? else { return Ok(None) };
        Ok(Value::from_bytes(scalar, found.bytes()?).as_integer())
    };
    let Some(least) = find(MathFn::Min)? else { return Ok(None) };
    Ok(find(MathFn::Max)?.map(|most| (least, most)))
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
        let mut numbers =
            array.bytes()?.chunks_exact(from.size()).filter_map(|b| Value::from_bytes(from, b).as_integer());
        if let Some(wrong) = numbers.find(|&n| !holds(to, n)) {
            return Ok(Err(wrong));
        }
    }
    let element = array.element().with_scalar(to);
    let mut shape = array.shape().to_vec();
    if element.lanes() > 1 {
        shape.push(element.lanes());
    }
    let operand = Operand::Array(array.clone(), shape.clone());
    defer(Op::Convert(to), vec![operand], to, element, &shape).map(Ok)
}
