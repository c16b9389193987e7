//! Finds the operand elements from which an element of an array expression was computed.
//!
//! Input: a [`TraceStep`], and the position of an element of its result. Output: an [`ElementOrigin`]. For an
//! elementwise operation, the broadcasting rule determines the operand elements, and recomputing the element checks
//! them. An operation that moves elements is repeated on an array of positions; the result contains the source position
//! of each element. For other operations, the origin is [`ElementOrigin::Unknown`].

use crate::array::{Array, SliceSpec};
use crate::graph::ExecContext;
use crate::ops::{self, GatherIndex, IndexSelector};
use crate::problem::HostResult;
use crate::value::{HostValue, RangeValue};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn};

use super::provenance::{ElementOrigin, IndexSyntax, ReductionOrigin, TraceOp, TraceOperand, TraceStep};
use super::reduction_origin::{ReductionKind, position_in_operand};

/// Maximum number of elements of the operands of an operation that is repeated on an array of positions.
const MAX_ELEMENTS: usize = 1 << 26;

impl TraceStep {
    /// Returns the origin of the element at the row-major position `at` of the result. If the result is not an array,
    /// returns the origin of the result.
    pub fn element_origin(&self, exec: &ExecContext, at: usize) -> ElementOrigin {
        let origin = match &self.op {
            TraceOp::Unary(_) | TraceOp::Convert(_) => self.elementwise_origin(exec, at, 1),
            TraceOp::Binary(BinaryOp::MatMul) => self.matmul_origin(at),
            TraceOp::Binary(_) => self.elementwise_origin(exec, at, 2),
            TraceOp::Lift => self.elementwise_origin(exec, at, self.operands.len()),
            TraceOp::Index(bounds) => self.index_origin(exec, bounds, at),
            TraceOp::Builtin(builtin, args, _) => self.builtin_origin(exec, *builtin, *args, at),
            TraceOp::Literal => self.literal_origin(at),
            TraceOp::Constant => Ok(ElementOrigin::Created),
            TraceOp::Other(what) => Ok(ElementOrigin::Unknown(format!("{what}, which is not followed"))),
        };
        origin.unwrap_or_else(|problem| {
            ElementOrigin::Unknown(format!("it could not be followed: {}", problem.anywhere().title))
        })
    }

    /// Returns the operand elements (operand and position) that may have caused a NaN or an infinity in an element. For
    /// `select`, returns only the selected operand. Returns `None` if the origin is unknown.
    pub fn possible_sources(&self, exec: &ExecContext, at: usize) -> Option<Vec<(usize, Option<usize>)>> {
        match self.element_origin(exec, at) {
            ElementOrigin::Each(places, _) => {
                let mut all: Vec<_> = places.into_iter().enumerate().collect();
                if matches!(self.op, TraceOp::Builtin(Builtin::Select, ..)) {
                    let (operand, place) = *all.first()?;
                    let is_first = operand_element(&self.operands[operand], place).ok()??.as_bool()?;
                    all = vec![*all.get(if is_first { 1 } else { 2 })?];
                }
                Some(all)
            }
            ElementOrigin::Moved(operand, place) => Some(vec![(operand, Some(place))]),
            ElementOrigin::Reduced(ReductionOrigin { witness: at, .. }) => {
                Some(at.into_iter().map(|(operand, place)| (operand, Some(place))).collect())
            }
            ElementOrigin::Created => Some(vec![]),
            ElementOrigin::Unknown(_) => None,
        }
    }

    fn literal_origin(&self, at: usize) -> HostResult<ElementOrigin> {
        Ok(match (&self.result, self.operands.get(at)) {
            (HostValue::Array(array), Some(operand))
                if array.count() == self.operands.len() && !matches!(operand.value, HostValue::Array(_)) =>
            {
                ElementOrigin::Moved(at, 0)
            }
            _ => ElementOrigin::Unknown("an array literal of arrays, which is not followed".into()),
        })
    }

    /// Returns the operand elements from which an elementwise operation with `count` operands computed an element.
    fn elementwise_origin(&self, exec: &ExecContext, at: usize, count: usize) -> HostResult<ElementOrigin> {
        let Some(operands) = self.operands.get(..count).filter(|_| self.operands.len() == count) else {
            return Ok(ElementOrigin::Unknown("not all of its operands are known".into()));
        };
        let is_array = |operand: &TraceOperand| matches!(operand.value, HostValue::Array(_));
        let HostValue::Array(result) = &self.result else {
            return Ok(match operands.iter().any(is_array) {
                true => ElementOrigin::Unknown("an operation whose result is no array, which is not followed".into()),
                false => ElementOrigin::Each(vec![None; count], None),
            });
        };
        let mut places = vec![];
        for operand in operands {
            places.push(match &operand.value {
                HostValue::Array(array) => match position_in_operand(array.shape(), result.shape(), at) {
                    Some(place) => Some(place),
                    None => return Ok(ElementOrigin::Unknown("an operand has another shape".into())),
                },
                _ => None,
            });
        }
        let other = self.recompute_element(exec, &places)?;
        let own = result.item(at)?;
        let differs = match (&other, &own) {
            (Some(other), Some(own)) => !is_same_value(other, own),
            _ => false,
        };
        Ok(ElementOrigin::Each(places, other.filter(|_| differs)))
    }

    /// Repeats the operation on the operand elements at `places`, to check that they are the origin.
    fn recompute_element(&self, exec: &ExecContext, places: &[Option<usize>]) -> HostResult<Option<HostValue>> {
        let mut values = vec![];
        for (operand, place) in self.operands.iter().zip(places) {
            match operand_element(operand, *place)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(match (&self.op, &values[..]) {
            (TraceOp::Unary(op), [x]) => Some(ops::unary(exec, *op, x)?),
            (TraceOp::Binary(op), [x, y]) => Some(ops::binary(exec, *op, x, y)?),
            (TraceOp::Convert(to), [x]) => Some(ops::convert(exec, *to, x)?),
            (TraceOp::Builtin(Builtin::Math(f), ..), values) => Some(ops::math(exec, *f, values)?),
            (TraceOp::Builtin(Builtin::Select, ..), [cond, then, other]) => Some(ops::select(exec, cond, then, other)?),
            (TraceOp::Builtin(Builtin::CeilDiv, ..), [x, y]) => Some(ops::ceil_div(exec, x, y)?),
            _ => None,
        })
    }

    fn builtin_origin(
        &self,
        exec: &ExecContext,
        builtin: Builtin,
        args: usize,
        at: usize,
    ) -> HostResult<ElementOrigin> {
        use Builtin::*;
        let values: Vec<&HostValue> = self.operands.iter().map(|operand| &operand.value).collect();
        if !values.iter().any(|value| matches!(value, HostValue::Array(_))) {
            return Ok(match self.operands.iter().any(|operand| operand.step.is_some()) {
                true => ElementOrigin::Each(vec![None; self.operands.len()], None),
                false => ElementOrigin::Created,
            });
        }
        let number = |value: &HostValue| value.as_int().and_then(|number| i64::try_from(number).ok());
        let axis = self.named_operand("axis").map(|operand| &operand.value);
        let second = values.get(1).copied();
        let moved = |how: &dyn Fn(&HostValue) -> HostResult<HostValue>| match values.first() {
            Some(HostValue::Array(array)) => self.moved_origin(&[array], at, |arrays| how(&arrays[0])),
            _ => Ok(ElementOrigin::Unknown("its argument is no array".into())),
        };
        match builtin {
            Math(MathFn::Min) if args == 1 => self.reduction_origin(axis, ReductionKind::Smallest, at),
            Math(MathFn::Max) if args == 1 => self.reduction_origin(axis, ReductionKind::Largest, at),
            Math(_) | Select | CeilDiv => self.elementwise_origin(exec, at, args),
            Sum | Mean => self.reduction_origin(axis.or(second), ReductionKind::Sum, at),
            Prod => self.reduction_origin(axis.or(second), ReductionKind::Product, at),
            Any => self.reduction_origin(axis.or(second), ReductionKind::Any, at),
            All => self.reduction_origin(axis.or(second), ReductionKind::All, at),
            Argmin => self.arg_reduction_origin(axis.or(second), ReductionKind::Smallest, at),
            Argmax => self.arg_reduction_origin(axis.or(second), ReductionKind::Largest, at),
            Cumsum => self.cumsum_origin(axis.or(second), at),
            Dot => self.matmul_origin(at),
            Transpose => {
                let axes: Option<Vec<i64>> =
                    second.map(|axes| axes.parts().iter().map(number).collect()).unwrap_or(None);
                moved(&|array| ops::transpose(exec, array, axes.as_deref()))
            }
            Reshape => {
                let dims: Option<Vec<i64>> = values.iter().skip(1).flat_map(|dim| dim.parts()).map(number).collect();
                let Some(dims) = dims else { return Ok(ElementOrigin::Unknown("its shape is not of integers".into())) };
                moved(&|array| ops::reshape(array, &dims))
            }
            Flip => {
                let axis = axis.or(second).and_then(number).unwrap_or(0);
                moved(&|array| ops::flip(exec, array, axis))
            }
            Concat | Stack => {
                let arrays: Option<Vec<&Array>> = values.iter().take(args).map(|value| as_array(value)).collect();
                let Some(arrays) = arrays else { return Ok(ElementOrigin::Unknown("an argument is no array".into())) };
                let axis = axis.and_then(number).unwrap_or(0);
                self.moved_origin(&arrays, at, |arrays| match builtin {
                    Concat => ops::concat(exec, arrays, axis),
                    _ => ops::stack(exec, arrays, axis),
                })
            }
            Sort if args == 1 => match (values[0], ops::argsort(exec, values[0], self.sort_order())?) {
                (HostValue::Array(array), HostValue::Array(order)) if array.rank() == 1 => {
                    let from =
                        order.item(at)?.and_then(|from| number(&from)).and_then(|from| usize::try_from(from).ok());
                    self.verified_move(0, from, at)
                }
                _ => Ok(ElementOrigin::Unknown("its argument has not one axis".into())),
            },
            _ => Ok(ElementOrigin::Unknown(format!("what `{}` made of its arguments is not followed", builtin.name()))),
        }
    }

    /// Returns whether the step applied a function of the script elementwise. The trace has no steps for the operations
    /// inside such a function.
    pub fn is_elementwise_call(&self) -> bool {
        matches!(self.op, TraceOp::Lift)
    }

    /// Returns the options of a call of `sort`.
    fn sort_order(&self) -> ops::SortOrder {
        let option = |name: &str| self.named_operand(name).map(|operand| &operand.value);
        ops::SortOrder {
            axis: option("axis").and_then(|axis| i64::try_from(axis.as_int()?).ok()),
            descending: option("descending").and_then(HostValue::as_bool).unwrap_or(false),
        }
    }

    fn named_operand(&self, wanted: &str) -> Option<&TraceOperand> {
        let TraceOp::Builtin(_, _, named) = &self.op else { return None };
        let (_, span) = named.iter().find(|(name, _)| name == wanted)?;
        self.operands.iter().find(|operand| operand.span == *span)
    }

    /// Returns the element of the indexed array that became an element of the result.
    fn index_origin(&self, exec: &ExecContext, bounds: &[IndexSyntax], at: usize) -> HostResult<ElementOrigin> {
        let Some(HostValue::Array(array)) = self.operands.first().map(|base| &base.value) else {
            return Ok(ElementOrigin::Unknown("an index into a value that is not an array cannot be traced".into()));
        };
        let mut rest = self.operands.iter().skip(1).map(|operand| &operand.value);
        let mut picks = vec![];
        for bound in bounds {
            let mut next = |is_there: bool| match is_there {
                true => rest.next().and_then(|value| i64::try_from(value.as_int()?).ok()).map(Some),
                false => Some(None),
            };
            let pick = match bound {
                IndexSyntax::One => match rest.next() {
                    Some(HostValue::Range(RangeValue { start, end, inclusive, step })) => {
                        Some(GatherIndex::Spec(SliceSpec::Range {
                            start: *start,
                            end: *end,
                            inclusive: *inclusive,
                            step: Some(*step),
                        }))
                    }
                    Some(HostValue::Array(array)) => Some(GatherIndex::Array(array.clone())),
                    Some(value) => {
                        value.as_int().and_then(|at| Some(GatherIndex::Spec(SliceSpec::At(i64::try_from(at).ok()?))))
                    }
                    None => None,
                },
                IndexSyntax::Range { start, end, step, inclusive } => (|| {
                    let (start, end, step) = (next(*start)?, next(*end)?, next(*step)?);
                    Some(GatherIndex::Spec(SliceSpec::Range { start, end, inclusive: *inclusive, step }))
                })(),
            };
            let Some(pick) = pick else { return Ok(ElementOrigin::Unknown("not all of its indices are known".into())) };
            picks.push(pick);
        }
        if rest.next().is_some() {
            return Ok(ElementOrigin::Unknown("not all of its indices are known".into()));
        }
        let selector = IndexSelector::new(picks);
        self.moved_origin(&[array], at, |arrays| match &selector {
            IndexSelector::Specs(specs) => ops::index(exec, &arrays[0], specs),
            IndexSelector::Picks(picks) => ops::gather(exec, &arrays[0], picks),
        })
    }

    /// Finds the source of an element of an operation `how` that moves elements. Applies `how` to arrays of positions
    /// instead of the arrays `from`, so that the element of the result is the source position.
    fn moved_origin(
        &self,
        from: &[&Array],
        at: usize,
        how: impl FnOnce(&[HostValue]) -> HostResult<HostValue>,
    ) -> HostResult<ElementOrigin> {
        if from.iter().map(|array| array.count()).sum::<usize>() > MAX_ELEMENTS {
            return Ok(ElementOrigin::Unknown("it has too many elements to be followed".into()));
        }
        let (mut next, mut positions, mut starts) = (0, vec![], vec![]);
        for array in from {
            let own: Vec<i64> = (next..).take(array.count()).collect();
            starts.push(next);
            next += own.len() as i64;
            positions.push(HostValue::Array(Array::from_shaped(&own, array.shape())?));
        }
        let source = match how(&positions)? {
            HostValue::Array(array) => array.item(at)?,
            other => Some(other),
        };
        let source = source.and_then(|source| i64::try_from(source.as_int()?).ok());
        let Some(source) = source else { return Ok(ElementOrigin::Unknown("it has no such element".into())) };
        let operand = starts.iter().rposition(|start| *start <= source && source < next).unwrap_or(0);
        self.verified_move(operand, usize::try_from(source - starts[operand]).ok(), at)
    }

    /// Returns [`ElementOrigin::Moved`] if the presumed source element equals the element of the result, and
    /// [`ElementOrigin::Unknown`] otherwise.
    fn verified_move(&self, operand: usize, from: Option<usize>, at: usize) -> HostResult<ElementOrigin> {
        let (Some(from), Some(HostValue::Array(array))) = (from, self.operands.get(operand).map(|own| &own.value))
        else {
            return Ok(ElementOrigin::Unknown("it has no such element".into()));
        };
        let own = match &self.result {
            HostValue::Array(result) => result.item(at)?,
            other => Some(other.clone()),
        };
        Ok(match (array.item(from)?, own) {
            (Some(there), Some(here)) if is_same_value(&there, &here) => ElementOrigin::Moved(operand, from),
            _ => ElementOrigin::Unknown("its presumed source element differs".into()),
        })
    }
}

fn as_array(value: &HostValue) -> Option<&Array> {
    match value {
        HostValue::Array(array) => Some(array),
        _ => None,
    }
}

/// Returns an element of an operand, or the operand itself if it is not an array.
fn operand_element(operand: &TraceOperand, place: Option<usize>) -> HostResult<Option<HostValue>> {
    match (&operand.value, place) {
        (HostValue::Array(array), Some(place)) => array.item(place),
        (value, _) => Ok(Some(value.clone())),
    }
}

/// Returns whether two values have the same bits. NaNs of the same type are considered equal.
fn is_same_value(a: &HostValue, b: &HostValue) -> bool {
    match (a, b) {
        (HostValue::Scalar(a), HostValue::Scalar(b)) => a == b || a.ty == b.ty && a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}
