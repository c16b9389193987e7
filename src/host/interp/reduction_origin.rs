//! Finds the operand element that explains the result of a reduction, for `clk why`. Examples are the largest term of a
//! sum, the first NaN of a maximum, and the element at the position that `argmax` returned.
//!
//! Input: a [`TraceStep`] that is a reduction, and the position of an element of its result. Output: the number of
//! reduced elements, and the one that explains the result. Visits all reduced elements again, in memory order.

use crate::array::{Array, broadcast};
use crate::problem::HostResult;
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::ScalarValue as Number;

use super::provenance::{ElementOrigin, ReductionOrigin, TraceStep};

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReductionKind {
    Sum,
    Product,
    Smallest,
    Largest,
    Any,
    All,
}

impl TraceStep {
    /// Returns the operand element that explains the element at position `at` of a reduction's result.
    pub(super) fn reduction_origin(
        &self,
        axes: Option<&HostValue>,
        how: ReductionKind,
        at: usize,
    ) -> HostResult<ElementOrigin> {
        let Some(array) = self.array_operand(0) else {
            return Ok(ElementOrigin::Unknown("a reduction of a value that is not an array cannot be traced".into()));
        };
        let (Some(axes), Some(result)) = (reduced_axes(array, axes), self.result_number(at)?) else {
            return Ok(ElementOrigin::Unknown(
                "a reduction of values that are not numbers, or along unknown axes, cannot be traced".into(),
            ));
        };
        let mut pick = ReductionWitness::new(how, result);
        for from in stop::polled(0..array.count()).filter(|from| position_in_result(array.shape(), &axes, *from) == at)
        {
            let Some(HostValue::Scalar(value)) = array.item(from)? else {
                return Ok(ElementOrigin::Unknown(
                    "a reduction of values that are not numbers cannot be traced".into(),
                ));
            };
            pick.consider(value.as_f64(), value.bits == result.bits, &[(0, from)]);
        }
        Ok(pick.into_origin("elements"))
    }

    /// Returns the operand element at the position that `argmin` or `argmax` returned.
    pub(super) fn arg_reduction_origin(
        &self,
        axes: Option<&HostValue>,
        how: ReductionKind,
        at: usize,
    ) -> HostResult<ElementOrigin> {
        let axes = self.array_operand(0).and_then(|array| Some((array, reduced_axes(array, axes)?)));
        let (Some((array, axes)), Some(result)) = (axes, self.result_number(at)?) else {
            return Ok(ElementOrigin::Unknown("along which axes is not known".into()));
        };
        let own = stop::polled(0..array.count()).filter(|from| position_in_result(array.shape(), &axes, *from) == at);
        let mut pick = ReductionWitness::new(how, result);
        let position = result.as_integer().and_then(|position| usize::try_from(position).ok());
        for (number, from) in own.enumerate() {
            pick.count += 1;
            if Some(number) == position {
                pick.elements = vec![(0, from)];
                pick.is_not_finite = matches!(array.item(from)?, Some(HostValue::Scalar(value)) if value.is_nan());
            }
        }
        Ok(pick.into_origin("elements"))
    }

    /// Returns the largest term of the sum that is element `at` of a cumulative sum.
    pub(super) fn cumsum_origin(&self, axes: Option<&HostValue>, at: usize) -> HostResult<ElementOrigin> {
        let axes = self.array_operand(0).and_then(|array| Some((array, reduced_axes(array, axes)?)));
        let (Some((array, axes)), Some(result)) = (axes, self.result_number(at)?) else {
            return Ok(ElementOrigin::Unknown("along which axis is not known".into()));
        };
        let [axis] = axes[..] else { return Ok(ElementOrigin::Unknown("along which axis is not known".into())) };
        let inner: usize = array.shape()[axis + 1..].iter().product();
        let position = at / inner.max(1) % array.shape()[axis].max(1);
        let mut pick = ReductionWitness::new(ReductionKind::Sum, result);
        for from in stop::polled(0..position + 1).map(|k| at - (position - k) * inner) {
            let Some(HostValue::Scalar(value)) = array.item(from)? else {
                return Ok(ElementOrigin::Unknown(
                    "a cumulative sum of values that are not numbers cannot be traced".into(),
                ));
            };
            pick.consider(value.as_f64(), false, &[(0, from)]);
        }
        Ok(pick.into_origin("elements"))
    }

    /// Returns the factors of the largest term of element `at` of a matrix product or dot product.
    pub(super) fn matmul_origin(&self, at: usize) -> HostResult<ElementOrigin> {
        let (Some(a), Some(b), Some(result)) = (self.array_operand(0), self.array_operand(1), self.result_number(at)?)
        else {
            return Ok(ElementOrigin::Unknown(
                "a product of values that are not arrays of numbers cannot be traced".into(),
            ));
        };
        let shape = match &self.result {
            HostValue::Array(result) => result.shape(),
            _ => &[],
        };
        // A 1-d array on the left is treated as a row, and one on the right as a column.
        let (rows, cols) = (usize::from(a.rank() > 1), usize::from(b.rank() > 1));
        let outer = |array: &Array, matrix: usize| array.shape()[..array.rank() - 1 - matrix].to_vec();
        let Some(batch) = shape.len().checked_sub(rows + cols).filter(|_| a.rank() > 0 && b.rank() > 0) else {
            return Ok(ElementOrigin::Unknown("its operands have other shapes".into()));
        };
        let terms = a.shape()[a.rank() - 1];
        let (height, width) =
            (if rows == 1 { a.shape()[a.rank() - 2] } else { 1 }, if cols == 1 { b.shape()[b.rank() - 1] } else { 1 });
        let (number, row, col) = (at / (height * width).max(1), at / width.max(1) % height.max(1), at % width.max(1));
        let places = (
            position_in_operand(&outer(a, rows), &shape[..batch], number),
            position_in_operand(&outer(b, cols), &shape[..batch], number),
        );
        let (Some(first), Some(second)) = places else {
            return Ok(ElementOrigin::Unknown("its operands have other shapes".into()));
        };
        let mut pick = ReductionWitness::new(ReductionKind::Sum, result);
        for k in stop::polled(0..terms) {
            let (x, y) = ((first * height + row) * terms + k, (second * terms + k) * width + col);
            let (Some(HostValue::Scalar(left)), Some(HostValue::Scalar(right))) = (a.item(x)?, b.item(y)?) else {
                return Ok(ElementOrigin::Unknown("a product of values that are not numbers cannot be traced".into()));
            };
            pick.consider(left.as_f64() * right.as_f64(), false, &[(0, x), (1, y)]);
        }
        Ok(pick.into_origin("products"))
    }

    fn array_operand(&self, operand: usize) -> Option<&Array> {
        match self.operands.get(operand).map(|operand| &operand.value) {
            Some(HostValue::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Returns the element at position `at` of the result, if it is a number.
    fn result_number(&self, at: usize) -> HostResult<Option<Number>> {
        let element = match &self.result {
            HostValue::Array(result) => result.item(at)?,
            other => Some(other.clone()),
        };
        Ok(match element {
            Some(HostValue::Scalar(number)) => Some(number),
            _ => None,
        })
    }
}

/// State of the search for the element that explains the result of a reduction.
struct ReductionWitness {
    kind: ReductionKind,
    result: Number,
    count: usize,
    /// The magnitude of the current candidate; for a product, the magnitude of its logarithm.
    best_measure: f64,
    elements: Vec<(usize, usize)>,
    is_not_finite: bool,
}

impl ReductionWitness {
    fn new(how: ReductionKind, result: Number) -> ReductionWitness {
        ReductionWitness {
            kind: how,
            result,
            count: 0,
            best_measure: f64::NEG_INFINITY,
            elements: vec![],
            is_not_finite: false,
        }
    }

    /// Replaces the candidate if the next reduced element explains the result better. `is_result`: the element has the
    /// same bits as the result.
    fn consider(&mut self, value: f64, is_result: bool, at: &[(usize, usize)]) {
        self.count += 1;
        let is_better = match self.kind {
            _ if self.is_not_finite => false,
            ReductionKind::Sum | ReductionKind::Product if !value.is_finite() => {
                self.is_not_finite = true;
                true
            }
            ReductionKind::Sum => value.abs() > self.best_measure,
            // The logarithm of the factor farthest from 1 has the largest magnitude; that of 0 is infinite.
            ReductionKind::Product => value.abs().ln().abs() > self.best_measure,
            ReductionKind::Smallest | ReductionKind::Largest => {
                self.is_not_finite = value.is_nan() && self.result.as_f64().is_nan();
                self.elements.is_empty() && (is_result || self.is_not_finite)
            }
            ReductionKind::Any => self.elements.is_empty() && value != 0.0,
            ReductionKind::All => self.elements.is_empty() && value == 0.0,
        };
        if is_better {
            self.best_measure = if self.kind == ReductionKind::Product { value.abs().ln().abs() } else { value.abs() };
            self.elements = at.to_vec();
        }
    }

    fn into_origin(self, of: &'static str) -> ElementOrigin {
        let relation = match (self.kind, self.elements.is_empty()) {
            (ReductionKind::Any, true) => "none of which is true",
            (ReductionKind::All, true) => "all of which are true",
            (ReductionKind::Any, false) => "of which the first that is true is",
            (ReductionKind::All, false) => "of which the first that is false is",
            (_, true) if self.count > 0 => return ElementOrigin::Unknown("none of its elements has this value".into()),
            (ReductionKind::Smallest | ReductionKind::Largest, _) if self.is_not_finite => "of which the first NaN is",
            (ReductionKind::Sum | ReductionKind::Product, _) if self.is_not_finite => {
                "of which the first that is not finite is"
            }
            (ReductionKind::Sum, _) => "of which the largest by magnitude is",
            (ReductionKind::Product, _) => "of which the farthest from 1 is",
            (ReductionKind::Smallest, _) => "of which the smallest is",
            (ReductionKind::Largest, _) => "of which the largest is",
        };
        ElementOrigin::Reduced(ReductionOrigin { count: self.count, unit: of, relation, witness: self.elements })
    }
}

/// Returns the axes along which a reduction reduces an array: all axes if the call specifies none.
fn reduced_axes(array: &Array, axes: Option<&HostValue>) -> Option<Vec<usize>> {
    let rank = array.rank() as i64;
    let axis = |value: &HostValue| {
        let axis = i64::try_from(value.as_int()?).ok()?;
        usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|axis| *axis < array.rank())
    };
    match axes {
        None => Some((0..array.rank()).collect()),
        Some(HostValue::Tuple(parts)) => parts.iter().map(axis).collect(),
        Some(one) => axis(one).map(|axis| vec![axis]),
    }
}

/// Returns the row-major position in the result of a reduction to which the element at position `at` contributes.
fn position_in_result(shape: &[usize], axes: &[usize], mut at: usize) -> usize {
    let (mut place, mut stride) = (0, 1);
    for (axis, extent) in shape.iter().enumerate().rev() {
        if !axes.contains(&axis) {
            place += at % extent.max(&1) * stride;
            stride *= extent;
        }
        at /= extent.max(&1);
    }
    place
}

/// Returns the row-major position of the operand element that broadcasting uses for position `at` of the result.
/// Returns `None` if the shapes do not broadcast.
pub(super) fn position_in_operand(own: &[usize], shape: &[usize], mut at: usize) -> Option<usize> {
    if !broadcast::repeats_to(own, shape) {
        return None;
    }
    let strides = broadcast::strides(own, shape);
    let mut place = 0;
    for (extent, stride) in shape.iter().zip(strides).rev() {
        place += at % extent.max(&1) * stride;
        at /= extent.max(&1);
    }
    Some(place)
}
