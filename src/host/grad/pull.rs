//! Reverse rules: the adjoint of a deed's result becomes parts of the adjoints of its operands.

use super::apply::{apply, kept, partial, reshaped};
use super::deed::Deed;
use super::form::Form;
use super::tape::{Step, lost};
use crate::base::room;
use crate::host::array::{Array, SliceSpec};
use crate::host::ops::{self, Pick, Reduce};
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lang::derivative::Partial;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;

/// A part of the adjoint of an operand.
pub(super) enum Part {
    Whole(Value),
    /// Of the elements at an index; the others get nothing.
    At(Vec<SliceSpec>, Value),
}

/// Returns the parts for the operands that are traced, with their positions. The adjoint broadcasts to the form of the result, of which
/// `used` elements matter, or all.
pub(super) fn parts(deed: &Deed, step: &Step, adjoint: Value, used: Option<&Value>) -> Outcome<Vec<(usize, Part)>> {
    match deed {
        Deed::Binary(BinaryOp::MatMul) => product(step, step.form.expanded(adjoint)?),
        Deed::Unary(_) | Deed::Binary(_) | Deed::Math(_) => elementwise(deed, step, &adjoint, used),
        Deed::Select => selected(step, &adjoint),
        Deed::Convert(_) => one(step, |form| apply(&Deed::Convert(form.scalar), vec![adjoint])),
        Deed::Reduce(how, axes) => one(step, |form| reduction(deed, step, form, adjoint, *how, axes.as_deref())),
        _ => rearranged(deed, step, step.form.expanded(adjoint)?),
    }
}

/// The part of the one operand of a deed.
fn one(step: &Step, part: impl FnOnce(&Form) -> Outcome<Value>) -> Outcome<Vec<(usize, Part)>> {
    match step.operands.first().and_then(|operand| operand.form.as_ref()) {
        Some(form) => Ok(vec![(0, Part::Whole(part(form)?))]),
        None => Err(lost("its operand is no float")),
    }
}

/// Stands for operands that are not kept as the derivative does not look at them.
fn values(step: &Step) -> (Vec<Value>, Value) {
    let args = step.operands.iter().map(|operand| operand.value.clone().unwrap_or(Value::Unit)).collect();
    (args, step.result.clone().unwrap_or(Value::Unit))
}

fn elementwise(deed: &Deed, step: &Step, adjoint: &Value, used: Option<&Value>) -> Outcome<Vec<(usize, Part)>> {
    let (args, result) = values(step);
    let mut parts = vec![];
    for (position, operand) in step.operands.iter().enumerate() {
        let (Some(_), Some(form)) = (operand.node, &operand.form) else { continue };
        let weighted = match partial(deed, &args, &result, position)? {
            Partial::Zero => continue,
            Partial::One => adjoint.clone(),
            Partial::MinusOne => apply(&Deed::Unary(UnaryOp::Neg), vec![adjoint.clone()])?,
            Partial::Times(factor) => {
                let product = apply(&Deed::Binary(BinaryOp::Mul), vec![factor, adjoint.clone()])?;
                match used {
                    // The factor may be infinite where nothing is used.
                    Some(used) => apply(&Deed::Select, vec![used.clone(), product, step.form.number(0.0)])?,
                    None => product,
                }
            }
        };
        parts.push((position, Part::Whole(form.collapsed(weighted, &step.form)?)));
    }
    Ok(parts)
}

fn selected(step: &Step, adjoint: &Value) -> Outcome<Vec<(usize, Part)>> {
    let Some(cond) = step.operands.first().and_then(|operand| operand.value.clone()) else { return Ok(vec![]) };
    let zero = step.form.number(0.0);
    let adjoint = step.form.expanded(adjoint.clone())?;
    let mut parts = vec![];
    for (position, operand) in step.operands.iter().enumerate().skip(1) {
        let (Some(_), Some(form)) = (operand.node, &operand.form) else { continue };
        let sides = if position == 1 { [adjoint.clone(), zero.clone()] } else { [zero.clone(), adjoint.clone()] };
        let [then, other] = sides;
        let part = apply(&Deed::Select, vec![cond.clone(), then, other])?;
        parts.push((position, Part::Whole(form.collapsed(part, &step.form)?)));
    }
    Ok(parts)
}

fn reduction(
    deed: &Deed,
    step: &Step,
    form: &Form,
    adjoint: Value,
    how: Reduce,
    axes: Option<&[i64]>,
) -> Outcome<Value> {
    let adjoint = kept(form, step.form.expanded(adjoint)?, axes)?;
    match how {
        Reduce::Sum => Ok(adjoint),
        Reduce::Mean => {
            let count: usize = form.shape().iter().product();
            let left: usize = step.form.shape().iter().product();
            let share = form.number(left as f64 / count.max(1) as f64);
            apply(&Deed::Binary(BinaryOp::Mul), vec![adjoint, share])
        }
        _ => {
            let (args, result) = values(step);
            match partial(deed, &args, &result, 0)? {
                Partial::Times(factor) => apply(&Deed::Binary(BinaryOp::Mul), vec![factor, adjoint]),
                _ => Err(lost("this has no derivative")),
            }
        }
    }
}

/// The transposes of deeds that move elements.
fn rearranged(deed: &Deed, step: &Step, adjoint: Value) -> Outcome<Vec<(usize, Part)>> {
    match deed {
        Deed::Cumsum(axis) => one(step, |_| {
            let turn = Deed::Flip(axis.unwrap_or(0));
            let turned = apply(&turn, vec![adjoint])?;
            let sums = apply(&Deed::Cumsum(*axis), vec![turned])?;
            apply(&turn, vec![sums])
        }),
        Deed::Reshape(_) => one(step, |form| reshaped(adjoint, form.shape())),
        Deed::Transpose | Deed::Swap | Deed::Flip(_) => one(step, |_| apply(deed, vec![adjoint])),
        Deed::Full(_) => one(step, |form| form.collapsed(adjoint, &step.form)),
        Deed::Index(specs) => Ok(vec![(0, Part::At(specs.clone(), adjoint))]),
        Deed::Place(specs, _) => one(step, |_| apply(&Deed::Index(specs.clone()), vec![adjoint])),
        Deed::Gather(picks) => {
            one(step, |form| apply(&Deed::Collect(picks.clone(), form.shape().to_vec()), vec![adjoint]))
        }
        Deed::Collect(picks, _) => one(step, |_| apply(&Deed::Gather(picks.clone()), vec![adjoint])),
        Deed::Swizzle(lanes) => one(step, |form| unswizzled(form, lanes, &adjoint)),
        Deed::Compose(..) => composed(step, &adjoint),
        Deed::Concat(axis) => joined(step, *axis, &adjoint),
        Deed::Stack | Deed::Literal => {
            let row = |(position, _)| {
                let at = Deed::Index(vec![SliceSpec::At(position as i64)]);
                apply(&at, vec![adjoint.clone()]).map(|part| (position, Part::Whole(part)))
            };
            step.operands.iter().enumerate().filter(|(_, operand)| operand.node.is_some()).map(row).collect()
        }
        Deed::Write(specs) => written(step, adjoint, &Deed::Index(specs.clone()), &Deed::Write(specs.clone())),
        Deed::Scatter(picks) => scattered(step, adjoint, picks),
        Deed::SetLanes(lanes) => written(step, adjoint, &Deed::Swizzle(lanes.clone()), deed),
        _ => Err(lost("this has no derivative")),
    }
}

/// What was overwritten gets nothing; what was written gets the adjoint of its elements.
fn written(step: &Step, adjoint: Value, read: &Deed, write: &Deed) -> Outcome<Vec<(usize, Part)>> {
    let mut parts = vec![];
    let [old, new] = &step.operands[..] else { return Ok(parts) };
    if let (Some(_), Some(form)) = (new.node, &new.form) {
        let part = apply(read, vec![adjoint.clone()])?;
        let whole = Form::of(&part).ok_or_else(|| lost("its operand is no float"))?;
        parts.push((1, Part::Whole(form.collapsed(part, &whole)?)));
    }
    if old.node.is_some() {
        let lanes = if let Deed::SetLanes(lanes) = write { lanes.len() } else { step.form.lanes };
        let zero = Form { lanes, ..step.form.clone() }.number(0.0);
        parts.push((0, Part::Whole(apply(write, vec![adjoint, zero])?)));
    }
    Ok(parts)
}

/// Of several values for one element, the last one has stayed, and it alone gets the adjoint.
fn scattered(step: &Step, adjoint: Value, picks: &[Pick]) -> Outcome<Vec<(usize, Part)>> {
    let read = Deed::Gather(picks.to_vec());
    let mut parts = written(step, adjoint, &read, &Deed::Scatter(picks.to_vec()))?;
    let Some(new) = step.operands.get(1).filter(|operand| operand.node.is_some()) else { return Ok(parts) };
    let Some(form) = &new.form else { return Ok(parts) };
    let mut seen = Array::zeros(Scalar::I64, step.form.shape())?;
    let Value::Array(selection) = ops::gather(&Value::Array(seen.clone()), picks)? else { return Ok(parts) };
    let order: Vec<i64> = room::collect(selection.count(), 0..selection.count() as i64);
    let order = Value::Array(Array::from_shaped(&order, selection.shape())?);
    ops::scatter(&mut seen, picks, &order)?;
    let stayed = ops::binary(BinaryOp::Eq, &ops::gather(&Value::Array(seen), picks)?, &order)?;
    for (position, part) in &mut parts {
        let (1, Part::Whole(value)) = (*position, &mut *part) else { continue };
        let all = Form { shape: Some(selection.shape().to_vec()), ..form.clone() };
        let same = form.shape() == all.shape();
        if !same && !ops::reduce(Reduce::All, &stayed, None)?.as_bool().unwrap_or(false) {
            return Err(lost("one value is written to several elements, and some of them more than once"));
        }
        if same {
            *value = apply(&Deed::Select, vec![stayed.clone(), value.clone(), form.number(0.0)])?;
        }
    }
    Ok(parts)
}

/// The adjoint of vectors of which components were taken: zero in the others.
fn unswizzled(form: &Form, lanes: &[u8], adjoint: &Value) -> Outcome<Value> {
    let zero = Form { lanes: 1, ..form.clone() }.zeros()?;
    let mut parts: Vec<Value> = vec![zero; form.lanes];
    for (from, &to) in lanes.iter().enumerate() {
        let part = match lanes.len() {
            1 => adjoint.clone(),
            _ => apply(&Deed::Swizzle(vec![from as u8]), vec![adjoint.clone()])?,
        };
        if let Some(place) = parts.get_mut(usize::from(to)) {
            *place = apply(&Deed::Binary(BinaryOp::Add), vec![place.clone(), part])?;
        }
    }
    if form.shape.is_none() {
        return apply(&Deed::Compose(form.scalar, form.lanes as u8), parts);
    }
    let mut whole = form.zeros()?;
    for (lane, part) in parts.into_iter().enumerate() {
        whole = apply(&Deed::SetLanes(vec![lane as u8]), vec![whole, part])?;
    }
    Ok(whole)
}

fn composed(step: &Step, adjoint: &Value) -> Outcome<Vec<(usize, Part)>> {
    let (mut parts, mut lane) = (vec![], 0);
    let spread = step.operands.len() == 1 && step.operands.iter().all(|o| o.form.as_ref().is_none_or(|f| f.lanes == 1));
    for (position, operand) in step.operands.iter().enumerate() {
        let count = operand.form.as_ref().map_or(1, |form| form.lanes);
        if let (Some(_), Some(form)) = (operand.node, &operand.form) {
            let part = match spread {
                true => form.collapsed(adjoint.clone(), &step.form)?,
                false => apply(&Deed::Swizzle((lane..lane + count).map(|k| k as u8).collect()), vec![adjoint.clone()])?,
            };
            parts.push((position, Part::Whole(part)));
        }
        lane += count;
    }
    Ok(parts)
}

fn joined(step: &Step, axis: i64, adjoint: &Value) -> Outcome<Vec<(usize, Part)>> {
    let axis = ops::operand::axis(axis, step.form.shape().len(), "`concat`")?;
    let (mut parts, mut start) = (vec![], 0);
    for (position, operand) in step.operands.iter().enumerate() {
        let extent = operand.form.as_ref().and_then(|form| form.shape().get(axis).copied()).unwrap_or(0) as i64;
        if operand.node.is_some() {
            let mut specs = vec![SliceSpec::ALL; axis];
            let (from, to) = (Some(start), Some(start + extent));
            specs.push(SliceSpec::Range { start: from, end: to, inclusive: false, step: None });
            parts.push((position, Part::Whole(apply(&Deed::Index(specs), vec![adjoint.clone()])?)));
        }
        start += extent;
    }
    Ok(parts)
}

/// The adjoints of the factors of `a @ b`: products again, of matrices, or of each element of a vector with one of another.
fn product(step: &Step, adjoint: Value) -> Outcome<Vec<(usize, Part)>> {
    let [a, b] = &step.operands[..] else { return Ok(vec![]) };
    let (Some(form_a), Some(form_b)) = (&a.form, &b.form) else { return Ok(vec![]) };
    let (rank_a, rank_b) = (form_a.shape().len(), form_b.shape().len());
    // A vector is a matrix of one row on the left, of one column on the right.
    let as_matrix = |shape: &[usize], at: usize| {
        let mut shape = shape.to_vec();
        shape.insert(at, 1);
        shape
    };
    let whole_a = if rank_a == 1 { as_matrix(form_a.shape(), 0) } else { form_a.shape().to_vec() };
    let whole_b = if rank_b == 1 { as_matrix(form_b.shape(), 1) } else { form_b.shape().to_vec() };
    let mut shape = step.form.shape().to_vec();
    if rank_b == 1 {
        shape.push(1);
    }
    if rank_a == 1 {
        shape.insert(shape.len() - 1, 1);
    }
    let adjoint = reshaped(adjoint, &shape)?;
    let mut parts = vec![];
    for (position, (own, form, whole)) in [(a, form_a, &whole_a), (b, form_b, &whole_b)].into_iter().enumerate() {
        let other = if position == 0 { (b, &whole_b) } else { (a, &whole_a) };
        let (Some(_), Some(value)) = (own.node, &other.0.value) else { continue };
        let turned = apply(&Deed::Swap, vec![reshaped(value.clone(), other.1)?])?;
        let factors = if position == 0 { vec![adjoint.clone(), turned] } else { vec![turned, adjoint.clone()] };
        let part = apply(&Deed::Binary(BinaryOp::MatMul), factors)?;
        let found = Form::of(&part).ok_or_else(|| lost("its operand is no float"))?;
        let part = Form { shape: Some(whole.clone()), ..form.clone() }.collapsed(part, &found)?;
        parts.push((position, Part::Whole(reshaped(part, form.shape())?)));
    }
    Ok(parts)
}

impl Form {
    /// Adds up a derivative of a result to that of an operand of this form, which was broadcast to `whole`.
    pub fn collapsed(&self, value: Value, whole: &Form) -> Outcome<Value> {
        if self.shape() == whole.shape() && self.shape.is_some() == whole.shape.is_some() && self.lanes == whole.lanes {
            return Ok(value);
        }
        let mut value = whole.expanded(value)?;
        if self.lanes < whole.lanes {
            value = sum_of_lanes(&value, whole.lanes)?;
        }
        let (own, all) = (self.shape(), whole.shape());
        let ahead = all.len() - own.len();
        let repeats = |axis: usize| axis < ahead || own[axis - ahead] != all[axis];
        let axes: Vec<i64> = (0..all.len()).filter(|&axis| repeats(axis)).map(|axis| axis as i64).collect();
        if !axes.is_empty() {
            value = apply(&Deed::Reduce(Reduce::Sum, Some(axes)), vec![value])?;
        }
        match &self.shape {
            Some(shape) => reshaped(value, shape),
            None => Ok(value),
        }
    }
}

fn sum_of_lanes(value: &Value, lanes: usize) -> Outcome<Value> {
    let mut sum: Option<Value> = None;
    for lane in 0..lanes {
        let part = apply(&Deed::Swizzle(vec![lane as u8]), vec![value.clone()])?;
        sum = Some(match sum {
            None => part,
            Some(sum) => apply(&Deed::Binary(BinaryOp::Add), vec![sum, part])?,
        });
    }
    Ok(sum.unwrap_or(Value::Unit))
}
