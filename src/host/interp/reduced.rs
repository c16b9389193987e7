//! Which element explains a reduction: the largest term of a sum, the first NaN of a maximum, the element that a position is of.
//!
//! Input: a [`Step`] that reduced elements of its operands, and the position of an element of its result. Output: how many elements that
//! is of, and the one that says most about it. Idea: all elements of the reduction are looked at once more, in the order of memory.

use crate::base::stop;
use crate::host::array::{Array, broadcast};
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lang::scalar::Value as Number;

use super::trail::{Origin, Reduced, Step};

/// How elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduce {
    Sum,
    Product,
    Smallest,
    Largest,
    Any,
    All,
}

impl Step {
    /// Returns the element that explains a reduction.
    pub(super) fn reduced(&self, axes: Option<&Value>, how: Reduce, at: usize) -> Outcome<Origin> {
        let Some(array) = self.array(0) else {
            return Ok(Origin::Unknown("a reduction of what is no array is not followed".into()));
        };
        let (Some(axes), Some(result)) = (axes_of(array, axes), self.number(at)?) else {
            return Ok(Origin::Unknown(
                "a reduction of what are no numbers, or along axes that are not known, is not followed".into(),
            ));
        };
        let mut pick = Pick::new(how, result);
        for from in stop::polled(0..array.count()).filter(|from| kept(array.shape(), &axes, *from) == at) {
            let Some(Value::Scalar(value)) = array.item(from)? else {
                return Ok(Origin::Unknown("a reduction of what are no numbers is not followed".into()));
            };
            pick.look(value.as_f64(), value.bits == result.bits, &[(0, from)]);
        }
        Ok(pick.origin("elements"))
    }

    /// Returns the element whose position is the result.
    pub(super) fn position(&self, axes: Option<&Value>, how: Reduce, at: usize) -> Outcome<Origin> {
        let axes = self.array(0).and_then(|array| Some((array, axes_of(array, axes)?)));
        let (Some((array, axes)), Some(result)) = (axes, self.number(at)?) else {
            return Ok(Origin::Unknown("along which axes is not known".into()));
        };
        let own = stop::polled(0..array.count()).filter(|from| kept(array.shape(), &axes, *from) == at);
        let mut pick = Pick::new(how, result);
        let position = result.as_integer().and_then(|position| usize::try_from(position).ok());
        for (number, from) in own.enumerate() {
            pick.count += 1;
            if Some(number) == position {
                pick.found = vec![(0, from)];
                pick.is_wrong = matches!(array.item(from)?, Some(Value::Scalar(value)) if value.is_nan());
            }
        }
        Ok(pick.origin("elements"))
    }

    /// Returns the largest term of a running sum.
    pub(super) fn running(&self, axes: Option<&Value>, at: usize) -> Outcome<Origin> {
        let axes = self.array(0).and_then(|array| Some((array, axes_of(array, axes)?)));
        let (Some((array, axes)), Some(result)) = (axes, self.number(at)?) else {
            return Ok(Origin::Unknown("along which axis is not known".into()));
        };
        let [axis] = axes[..] else { return Ok(Origin::Unknown("along which axis is not known".into())) };
        let inner: usize = array.shape()[axis + 1..].iter().product();
        let along = at / inner.max(1) % array.shape()[axis].max(1);
        let mut pick = Pick::new(Reduce::Sum, result);
        for from in stop::polled(0..along + 1).map(|k| at - (along - k) * inner) {
            let Some(Value::Scalar(value)) = array.item(from)? else {
                return Ok(Origin::Unknown("a running sum of what are no numbers is not followed".into()));
            };
            pick.look(value.as_f64(), false, &[(0, from)]);
        }
        Ok(pick.origin("elements"))
    }

    /// Returns the largest term of an element of a product of matrices or vectors.
    pub(super) fn product(&self, at: usize) -> Outcome<Origin> {
        let (Some(a), Some(b), Some(result)) = (self.array(0), self.array(1), self.number(at)?) else {
            return Ok(Origin::Unknown("a product of what are no arrays of numbers is not followed".into()));
        };
        let shape = match &self.result {
            Value::Array(result) => result.shape(),
            _ => &[],
        };
        // A vector on the left is one row, on the right one column.
        let (rows, cols) = (usize::from(a.rank() > 1), usize::from(b.rank() > 1));
        let outer = |array: &Array, matrix: usize| array.shape()[..array.rank() - 1 - matrix].to_vec();
        let Some(batch) = shape.len().checked_sub(rows + cols).filter(|_| a.rank() > 0 && b.rank() > 0) else {
            return Ok(Origin::Unknown("its operands have other shapes".into()));
        };
        let terms = a.shape()[a.rank() - 1];
        let (height, width) =
            (if rows == 1 { a.shape()[a.rank() - 2] } else { 1 }, if cols == 1 { b.shape()[b.rank() - 1] } else { 1 });
        let (number, row, col) = (at / (height * width).max(1), at / width.max(1) % height.max(1), at % width.max(1));
        let places =
            (spread(&outer(a, rows), &shape[..batch], number), spread(&outer(b, cols), &shape[..batch], number));
        let (Some(first), Some(second)) = places else {
            return Ok(Origin::Unknown("its operands have other shapes".into()));
        };
        let mut pick = Pick::new(Reduce::Sum, result);
        for k in stop::polled(0..terms) {
            let (x, y) = ((first * height + row) * terms + k, (second * terms + k) * width + col);
            let (Some(Value::Scalar(left)), Some(Value::Scalar(right))) = (a.item(x)?, b.item(y)?) else {
                return Ok(Origin::Unknown("a product of what are no numbers is not followed".into()));
            };
            pick.look(left.as_f64() * right.as_f64(), false, &[(0, x), (1, y)]);
        }
        Ok(pick.origin("products"))
    }

    fn array(&self, operand: usize) -> Option<&Array> {
        match self.operands.get(operand).map(|operand| &operand.value) {
            Some(Value::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Returns the element of the result, if that is a number.
    fn number(&self, at: usize) -> Outcome<Option<Number>> {
        let found = match &self.result {
            Value::Array(result) => result.item(at)?,
            other => Some(other.clone()),
        };
        Ok(match found {
            Some(Value::Scalar(number)) => Some(number),
            _ => None,
        })
    }
}

/// The search for what explains a result.
struct Pick {
    how: Reduce,
    result: Number,
    count: usize,
    /// The measure of what was found.
    best: f64,
    found: Vec<(usize, usize)>,
    is_wrong: bool,
}

impl Pick {
    fn new(how: Reduce, result: Number) -> Pick {
        Pick { how, result, count: 0, best: f64::NEG_INFINITY, found: vec![], is_wrong: false }
    }

    /// Looks at the next of what is reduced: its value, and whether it has the bits of the result.
    fn look(&mut self, value: f64, is_result: bool, at: &[(usize, usize)]) {
        self.count += 1;
        let is_better = match self.how {
            _ if self.is_wrong => false,
            Reduce::Sum | Reduce::Product if !value.is_finite() => {
                self.is_wrong = true;
                true
            }
            Reduce::Sum => value.abs() > self.best,
            // The one that is farthest from 1, and a zero before all others.
            Reduce::Product => value.abs().ln().abs() > self.best,
            Reduce::Smallest | Reduce::Largest => {
                self.is_wrong = value.is_nan() && self.result.as_f64().is_nan();
                self.found.is_empty() && (is_result || self.is_wrong)
            }
            Reduce::Any => self.found.is_empty() && value != 0.0,
            Reduce::All => self.found.is_empty() && value == 0.0,
        };
        if is_better {
            self.best = if self.how == Reduce::Product { value.abs().ln().abs() } else { value.abs() };
            self.found = at.to_vec();
        }
    }

    fn origin(self, of: &'static str) -> Origin {
        let is = match (self.how, self.found.is_empty()) {
            (Reduce::Any, true) => "none of which is true",
            (Reduce::All, true) => "all of which are true",
            (Reduce::Any, false) => "of which the first that is true is",
            (Reduce::All, false) => "of which the first that is false is",
            (_, true) if self.count > 0 => return Origin::Unknown("none of its elements has this value".into()),
            (Reduce::Smallest | Reduce::Largest, _) if self.is_wrong => "of which the first NaN is",
            (Reduce::Sum | Reduce::Product, _) if self.is_wrong => "of which the first that is not finite is",
            (Reduce::Sum, _) => "of which the largest by magnitude is",
            (Reduce::Product, _) => "of which the farthest from 1 is",
            (Reduce::Smallest, _) => "of which the smallest is",
            (Reduce::Largest, _) => "of which the largest is",
        };
        Origin::Reduced(Reduced { count: self.count, of, is, at: self.found })
    }
}

/// Returns the axes of a reduction: all if none is given.
fn axes_of(array: &Array, axes: Option<&Value>) -> Option<Vec<usize>> {
    let rank = array.rank() as i64;
    let axis = |value: &Value| {
        let axis = i64::try_from(value.as_int()?).ok()?;
        usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|axis| *axis < array.rank())
    };
    match axes {
        None => Some((0..array.rank()).collect()),
        Some(Value::Tuple(parts)) => parts.iter().map(axis).collect(),
        Some(one) => axis(one).map(|axis| vec![axis]),
    }
}

/// Returns the flat position that an element has in what is left when these axes are reduced.
fn kept(shape: &[usize], axes: &[usize], mut at: usize) -> usize {
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

/// Returns the flat position in an operand of the element that meets the one at a position of the result.
pub(super) fn spread(own: &[usize], shape: &[usize], mut at: usize) -> Option<usize> {
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
