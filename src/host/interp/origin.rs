//! Which elements of its operands an element of an array expression was made of.
//!
//! Input: a [`Step`], and the position of an element of its result. Output: an [`Origin`]. Idea: operations on each element are
//! followed by the rule of broadcasting, and done once more on the elements found, which has to give the same bits; operations that move
//! elements are done once more on the positions of elements instead of the elements, so that nothing is told twice how they move them.
//! What cannot be followed says so.

use crate::host::array::{Array, SliceSpec};
use crate::host::ops::{self, Pick, Selector};
use crate::host::problem::Outcome;
use crate::host::value::{Range, Value};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn};

use super::reduced::{Reduce, spread};
use super::trail::{Bounds, Operand, Origin, Reduced, Step, What};

/// Elements of an array whose positions are worth to be computed.
const MOST: usize = 1 << 26;

impl Step {
    /// Returns what the element at a flat position of the result was made of; of a result that is no array, what that was made of.
    pub fn origin(&self, at: usize) -> Origin {
        let found = match &self.what {
            What::Unary(_) | What::Convert(_) => self.each(at, 1),
            What::Binary(BinaryOp::MatMul) => self.product(at),
            What::Binary(_) => self.each(at, 2),
            What::Lift => self.each(at, self.operands.len()),
            What::Index(bounds) => self.indexed(bounds, at),
            What::Builtin(builtin, args, _) => self.builtin(*builtin, *args, at),
            What::Literal => self.literal(at),
            What::Constant => Ok(Origin::Created),
            What::Other(what) => Ok(Origin::Unknown(format!("{what}, which is not followed"))),
        };
        found.unwrap_or_else(|problem| {
            Origin::Unknown(format!("it could not be followed: {}", problem.anywhere().title))
        })
    }

    /// Returns the operands, with the positions of their elements, that may have brought a number that is not finite into an element:
    /// of a selection, the one that was selected. `None` if that is not known.
    pub fn leads(&self, at: usize) -> Option<Vec<(usize, Option<usize>)>> {
        match self.origin(at) {
            Origin::Each(places, _) => {
                let mut all: Vec<_> = places.into_iter().enumerate().collect();
                if matches!(self.what, What::Builtin(Builtin::Select, ..)) {
                    let (operand, place) = *all.first()?;
                    let is_first = element(&self.operands[operand], place).ok()??.as_bool()?;
                    all = vec![*all.get(if is_first { 1 } else { 2 })?];
                }
                Some(all)
            }
            Origin::Moved(operand, place) => Some(vec![(operand, Some(place))]),
            Origin::Reduced(Reduced { at, .. }) => {
                Some(at.into_iter().map(|(operand, place)| (operand, Some(place))).collect())
            }
            Origin::Created => Some(vec![]),
            Origin::Unknown(_) => None,
        }
    }

    fn literal(&self, at: usize) -> Outcome<Origin> {
        Ok(match (&self.result, self.operands.get(at)) {
            (Value::Array(array), Some(operand))
                if array.count() == self.operands.len() && !matches!(operand.value, Value::Array(_)) =>
            {
                Origin::Moved(at, 0)
            }
            _ => Origin::Unknown("an array literal of arrays, which is not followed".into()),
        })
    }

    /// Returns the elements that an operation on each element took.
    fn each(&self, at: usize, count: usize) -> Outcome<Origin> {
        let Some(operands) = self.operands.get(..count).filter(|_| self.operands.len() == count) else {
            return Ok(Origin::Unknown("not all of its operands are known".into()));
        };
        let is_array = |operand: &Operand| matches!(operand.value, Value::Array(_));
        let Value::Array(result) = &self.result else {
            return Ok(match operands.iter().any(is_array) {
                true => Origin::Unknown("an operation whose result is no array, which is not followed".into()),
                false => Origin::Each(vec![None; count], None),
            });
        };
        let mut places = vec![];
        for operand in operands {
            places.push(match &operand.value {
                Value::Array(array) => match spread(array.shape(), result.shape(), at) {
                    Some(place) => Some(place),
                    None => return Ok(Origin::Unknown("an operand has another shape".into())),
                },
                _ => None,
            });
        }
        let other = self.again(&places)?;
        let own = result.item(at)?;
        let differs = match (&other, &own) {
            (Some(other), Some(own)) => !same(other, own),
            _ => false,
        };
        Ok(Origin::Each(places, other.filter(|_| differs)))
    }

    /// Does the operation once more, on the elements at these positions.
    fn again(&self, places: &[Option<usize>]) -> Outcome<Option<Value>> {
        let mut values = vec![];
        for (operand, place) in self.operands.iter().zip(places) {
            match element(operand, *place)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(match (&self.what, &values[..]) {
            (What::Unary(op), [x]) => Some(ops::unary(*op, x)?),
            (What::Binary(op), [x, y]) => Some(ops::binary(*op, x, y)?),
            (What::Convert(to), [x]) => Some(ops::convert(*to, x)?),
            (What::Builtin(Builtin::Math(f), ..), values) => Some(ops::math(*f, values)?),
            (What::Builtin(Builtin::Select, ..), [cond, then, other]) => Some(ops::select(cond, then, other)?),
            (What::Builtin(Builtin::CeilDiv, ..), [x, y]) => Some(ops::ceil_div(x, y)?),
            _ => None,
        })
    }

    fn builtin(&self, builtin: Builtin, args: usize, at: usize) -> Outcome<Origin> {
        use Builtin::*;
        let given: Vec<&Value> = self.operands.iter().map(|operand| &operand.value).collect();
        if !given.iter().any(|value| matches!(value, Value::Array(_))) {
            return Ok(match self.operands.iter().any(|operand| operand.step.is_some()) {
                true => Origin::Each(vec![None; self.operands.len()], None),
                false => Origin::Created,
            });
        }
        let number = |value: &Value| value.as_int().and_then(|number| i64::try_from(number).ok());
        let axis = self.named("axis").map(|operand| &operand.value);
        let second = given.get(1).copied();
        let moved = |how: &dyn Fn(&Value) -> Outcome<Value>| match given.first() {
            Some(Value::Array(array)) => self.moved(&[array], at, |arrays| how(&arrays[0])),
            _ => Ok(Origin::Unknown("its argument is no array".into())),
        };
        match builtin {
            Math(MathFn::Min) if args == 1 => self.reduced(axis, Reduce::Smallest, at),
            Math(MathFn::Max) if args == 1 => self.reduced(axis, Reduce::Largest, at),
            Math(_) | Select | CeilDiv => self.each(at, args),
            Sum | Mean => self.reduced(axis.or(second), Reduce::Sum, at),
            Prod => self.reduced(axis.or(second), Reduce::Product, at),
            Any => self.reduced(axis.or(second), Reduce::Any, at),
            All => self.reduced(axis.or(second), Reduce::All, at),
            Argmin => self.position(axis.or(second), Reduce::Smallest, at),
            Argmax => self.position(axis.or(second), Reduce::Largest, at),
            Cumsum => self.running(axis.or(second), at),
            Dot => self.product(at),
            Transpose => moved(&|array| ops::transpose(array)),
            Reshape => {
                let dims: Option<Vec<i64>> = given.iter().skip(1).flat_map(|dim| dim.parts()).map(number).collect();
                let Some(dims) = dims else { return Ok(Origin::Unknown("its shape is not of integers".into())) };
                moved(&|array| ops::reshape(array, &dims))
            }
            Flip => {
                let axis = axis.or(second).and_then(number).unwrap_or(0);
                moved(&|array| ops::flip(array, axis))
            }
            Concat | Stack => {
                let arrays: Option<Vec<&Array>> = given.iter().take(args).map(|value| as_array(value)).collect();
                let Some(arrays) = arrays else { return Ok(Origin::Unknown("an argument is no array".into())) };
                let axis = axis.and_then(number).unwrap_or(0);
                self.moved(&arrays, at, |arrays| match builtin {
                    Concat => ops::concat(arrays, axis),
                    _ => ops::stack(arrays),
                })
            }
            Sort if args == 1 => match (given[0], ops::argsort(given[0])?) {
                (Value::Array(_), Value::Array(order)) => {
                    let from =
                        order.item(at)?.and_then(|from| number(&from)).and_then(|from| usize::try_from(from).ok());
                    self.checked(0, from, at)
                }
                _ => Ok(Origin::Unknown("its argument is no array".into())),
            },
            _ => Ok(Origin::Unknown(format!("what `{}` made of its arguments is not followed", builtin.name()))),
        }
    }

    /// Returns whether a function of the script was applied to each element: what it did is not known.
    pub fn is_function(&self) -> bool {
        matches!(self.what, What::Lift)
    }

    fn named(&self, wanted: &str) -> Option<&Operand> {
        let What::Builtin(_, _, named) = &self.what else { return None };
        let (_, span) = named.iter().find(|(name, _)| name == wanted)?;
        self.operands.iter().find(|operand| operand.span == *span)
    }

    /// Returns the element that an index picked.
    fn indexed(&self, bounds: &[Bounds], at: usize) -> Outcome<Origin> {
        let Some(Value::Array(array)) = self.operands.first().map(|base| &base.value) else {
            return Ok(Origin::Unknown("an index of what is no array is not followed".into()));
        };
        let mut rest = self.operands.iter().skip(1).map(|operand| &operand.value);
        let mut picks = vec![];
        for bound in bounds {
            let mut next = |is_there: bool| match is_there {
                true => rest.next().and_then(|value| i64::try_from(value.as_int()?).ok()).map(Some),
                false => Some(None),
            };
            let pick = match bound {
                Bounds::One => match rest.next() {
                    Some(Value::Range(Range { start, end, inclusive, step })) => Some(Pick::Spec(SliceSpec::Range {
                        start: *start,
                        end: *end,
                        inclusive: *inclusive,
                        step: Some(*step),
                    })),
                    Some(Value::Array(array)) => Some(Pick::Array(array.clone())),
                    Some(value) => {
                        value.as_int().and_then(|at| Some(Pick::Spec(SliceSpec::At(i64::try_from(at).ok()?))))
                    }
                    None => None,
                },
                Bounds::Range { start, end, step, inclusive } => (|| {
                    let (start, end, step) = (next(*start)?, next(*end)?, next(*step)?);
                    Some(Pick::Spec(SliceSpec::Range { start, end, inclusive: *inclusive, step }))
                })(),
            };
            let Some(pick) = pick else { return Ok(Origin::Unknown("not all of its indices are known".into())) };
            picks.push(pick);
        }
        if rest.next().is_some() {
            return Ok(Origin::Unknown("not all of its indices are known".into()));
        }
        let selector = Selector::new(picks);
        self.moved(&[array], at, |arrays| match &selector {
            Selector::Specs(specs) => ops::index(&arrays[0], specs),
            Selector::Picks(picks) => ops::gather(&arrays[0], picks),
        })
    }

    /// Finds where an operation that moves elements of the first operands took one, by moving their positions instead.
    fn moved(&self, from: &[&Array], at: usize, how: impl FnOnce(&[Value]) -> Outcome<Value>) -> Outcome<Origin> {
        if from.iter().map(|array| array.count()).sum::<usize>() > MOST {
            return Ok(Origin::Unknown("it has too many elements to be followed".into()));
        }
        let (mut next, mut positions, mut starts) = (0, vec![], vec![]);
        for array in from {
            let own: Vec<i64> = (next..).take(array.count()).collect();
            starts.push(next);
            next += own.len() as i64;
            positions.push(Value::Array(Array::from_shaped(&own, array.shape())?));
        }
        let found = match how(&positions)? {
            Value::Array(array) => array.item(at)?,
            other => Some(other),
        };
        let found = found.and_then(|found| i64::try_from(found.as_int()?).ok());
        let Some(found) = found else { return Ok(Origin::Unknown("it has no such element".into())) };
        let operand = starts.iter().rposition(|start| *start <= found && found < next).unwrap_or(0);
        self.checked(operand, usize::try_from(found - starts[operand]).ok(), at)
    }

    /// Returns that an element was moved, if it is the same there and here.
    fn checked(&self, operand: usize, from: Option<usize>, at: usize) -> Outcome<Origin> {
        let (Some(from), Some(Value::Array(array))) = (from, self.operands.get(operand).map(|own| &own.value)) else {
            return Ok(Origin::Unknown("it has no such element".into()));
        };
        let own = match &self.result {
            Value::Array(result) => result.item(at)?,
            other => Some(other.clone()),
        };
        Ok(match (array.item(from)?, own) {
            (Some(there), Some(here)) if same(&there, &here) => Origin::Moved(operand, from),
            _ => Origin::Unknown("the element that it should have been moved from is another one".into()),
        })
    }
}

fn as_array(value: &Value) -> Option<&Array> {
    match value {
        Value::Array(array) => Some(array),
        _ => None,
    }
}

/// Returns an operand's element, or the operand if it is no array.
fn element(operand: &Operand, place: Option<usize>) -> Outcome<Option<Value>> {
    match (&operand.value, place) {
        (Value::Array(array), Some(place)) => array.item(place),
        (value, _) => Ok(Some(value.clone())),
    }
}

/// Returns whether two values are the same, bit for bit; one NaN is as good as another.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => a == b || a.ty == b.ty && a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}
