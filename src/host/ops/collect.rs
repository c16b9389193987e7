//! Adding elements at positions, the transpose of indexing by arrays: in, elements and the indices of places; out, an array whose
//! elements are the sums of what is added to them, in the order of the positions, in `f64`, rounded once. So a sum has the same bits
//! wherever it is computed: on the GPU that has the elements, or here.

use super::gather::{self, Pick};
use super::operand;
use crate::base::{room, stop};
use crate::host::array::Array;
use crate::host::graph;
use crate::host::ops;
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{self, Scalar};

/// Returns zeros of this shape, to which the elements of an array of floats are added at these places.
pub(crate) fn collect(x: &Value, picks: &[Pick], shape: &[usize]) -> Outcome<Value> {
    let from = operand::array(x, "a selection")?;
    if let (Some(own), 1, Some(chosen)) = (from.scalar(), from.element().lanes(), one_of_each_row(picks, shape)?) {
        let (zero, rows) = (Value::Scalar(scalar::Value::zero(own)), from.with_shape(&[shape[0], 1])?);
        // A zero is positive, as a sum is.
        let rows = ops::binary(BinaryOp::Add, &Value::Array(rows), &zero)?;
        return ops::select(&Value::Array(chosen), &rows, &zero);
    }
    let mut result = Array::unplaced(from.element().clone(), shape)?;
    if let Some((whole, lists)) = gather::places_there(from, &result, picks)? {
        let lists: Vec<&Array> = lists.iter().collect();
        if let Some(sums) = graph::put::added(&whole, &lists, from)? {
            return sums.with_shape(shape).map(Value::Array);
        }
    }
    let count = result.count();
    let places: Vec<i64> = room::collect(count, 0..count as i64);
    let places = Array::from_shaped(&places, shape)?;
    let at = gather::gather(&Value::Array(places), picks)?;
    let at = operand::array(&at, "a selection")?;
    let (scalar, lanes) = (from.scalar().unwrap_or(Scalar::F64), from.element().lanes());
    let mut sums = room::zeros::<f64>(count * lanes);
    let mut numbers =
        from.bytes()?.chunks_exact(scalar.size()).map(|bytes| scalar::Value::from_bytes(scalar, bytes).as_f64());
    for &place in stop::polled(at.items::<i64>()?) {
        for lane in 0..lanes {
            if let (Some(sum), Some(more)) = (sums.get_mut(place as usize * lanes + lane), numbers.next()) {
                *sum += more;
            }
        }
    }
    for (place, sum) in stop::polled(result.bytes_mut()?.chunks_exact_mut(scalar.size()).zip(sums)) {
        let bits = scalar::Value::of(sum).to_type(scalar).bits;
        place.copy_from_slice(&bits.to_le_bytes()[..scalar.size()]);
    }
    Ok(Value::Array(result))
}

/// Returns which elements of a matrix of this shape are picked, if that is one in each of its rows, in their order; else `None`. They are
/// part of the expression of what reads them: nothing is sorted or written anywhere.
pub(crate) fn one_of_each_row(picks: &[Pick], shape: &[usize]) -> Outcome<Option<Array>> {
    let ([Pick::Array(rows), Pick::Array(at)], &[count, columns]) = (picks, shape) else { return Ok(None) };
    let is_list = at.scalar().is_some_and(Scalar::is_int) && at.element().lanes() == 1;
    if !is_list || !rows.is_counting() || rows.shape() != [count] || at.shape() != [count] {
        return Ok(None);
    }
    graph::in_rows(at, columns)
}
