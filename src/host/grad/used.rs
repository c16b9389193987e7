//! Which elements of a value the result depends on, as far as that is known: the derivative of the others is zero, also where a rule
//! gives infinity or NaN times zero.
//!
//! In: a step and the elements of its result that are used. Out: those of an operand, as truth values; `None` if all may be. Sides of `select`
//! that are not chosen, elements that an index does not pick and those that are overwritten are not used.

use super::deed::Deed;
use super::form::Form;
use super::tape::Step;
use crate::host::array::Array;
use crate::host::ops;
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::{Scalar, Value as Number};

/// Whether a deed has a rule that multiplies, or passes on what one of its operands has.
fn is_elementwise(deed: &Deed) -> bool {
    match deed {
        Deed::Binary(op) => *op != BinaryOp::MatMul,
        Deed::Unary(_) | Deed::Math(_) | Deed::Select | Deed::Convert(_) => true,
        _ => false,
    }
}

/// Returns the elements of an operand, computed by `from`, that are used by this step; `used` are those of its result.
fn of_operand(step: &Step, position: usize, from: Option<&Deed>, used: Option<&Value>) -> Outcome<Option<Value>> {
    let (Some(deed), Some(form)) = (&step.deed, &step.operands[position].form) else { return Ok(None) };
    // What comes from a parameter has no rule that multiplies.
    if !from.is_some_and(is_elementwise) {
        return Ok(None);
    }
    let is_alike = form.shape == step.form.shape;
    match deed {
        Deed::Select if is_alike => {
            let Some(cond) = &step.operands[0].value else { return Ok(None) };
            let chosen = if position == 1 { cond.clone() } else { ops::unary(UnaryOp::Not, cond)? };
            match used {
                Some(used) => ops::binary(BinaryOp::BitAnd, used, &chosen).map(Some),
                None => Ok(Some(chosen)),
            }
        }
        Deed::Select => Ok(None),
        deed if is_elementwise(deed) => Ok(used.filter(|_| is_alike).cloned()),
        Deed::Index(_) | Deed::Gather(_) => marked(form, deed, true).map(Some),
        Deed::Write(_) | Deed::Scatter(_) if position == 0 => marked(form, deed, false).map(Some),
        _ => Ok(None),
    }
}

/// Adds what a step uses of an operand to what others use; `before` says whether there are others.
pub(super) fn add(
    all: &mut Option<Value>,
    before: bool,
    (step, position): (&Step, usize),
    from: Option<&Deed>,
    used: Option<&Value>,
) -> Outcome<()> {
    let old = all.take();
    if before && old.is_none() {
        return Ok(());
    }
    *all = match (old, &step.deed) {
        // In place, as a loop may pick element by element.
        (Some(Value::Array(mut old)), Some(deed @ (Deed::Index(_) | Deed::Gather(_)))) => {
            mark(&mut old, deed, true)?;
            Some(Value::Array(old))
        }
        (old, _) => match (old, of_operand(step, position, from, used)?) {
            (Some(old), Some(new)) => Some(ops::binary(BinaryOp::BitOr, &old, &new)?),
            (None, new) => new,
            (Some(_), None) => None,
        },
    };
    Ok(())
}

fn marked(form: &Form, deed: &Deed, to: bool) -> Outcome<Value> {
    let Some(shape) = &form.shape else { return Ok(Value::Scalar(Number::of(true))) };
    if let (Deed::Gather(picks), true) = (deed, to)
        && let Some(chosen) = ops::one_of_each_row(picks, shape)?
    {
        return Ok(Value::Array(chosen));
    }
    let dims: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let Value::Array(mut all) = ops::full(&dims, &Value::Scalar(Number::of(!to)))? else {
        return Array::zeros(Scalar::Bool, shape).map(Value::Array);
    };
    mark(&mut all, deed, to)?;
    Ok(Value::Array(all))
}

fn mark(array: &mut Array, deed: &Deed, to: bool) -> Outcome<()> {
    let to = Value::Scalar(Number::of(to));
    match deed {
        Deed::Index(specs) | Deed::Write(specs) => ops::assign(array, specs, &to),
        Deed::Gather(picks) | Deed::Scatter(picks) => ops::scatter(array, picks, &to),
        _ => Ok(()),
    }
}
