//! Rational points.
//!
//! Input: numerators over one denominator. Output: the values of forms and formulas there.
//! Idea: everything is multiplied by the denominator, so that no fraction is ever computed; the point is one of integers where
//! the denominator is one.

use super::form::Linear;
use super::formula::{Atom, Formula};

/// A rational point: variable `v` is `values[v] / denominator`.
pub(super) struct Scaled {
    pub denominator: i128,
    pub values: Vec<i128>,
}

impl Scaled {
    /// `denominator · form` at the point.
    pub fn eval(&self, form: &Linear) -> Option<i128> {
        let constant = Linear::from(form.constant().checked_mul(self.denominator)?);
        let rest = form.offset(form.constant().checked_neg()?)?;
        rest.eval(&self.values)?.checked_add(constant.constant())
    }

    /// Whether the formula holds at the point, taken over the rationals.
    pub fn satisfies(&self, formula: &Formula) -> Option<bool> {
        match formula {
            Formula::Atom(Atom::NonNegative(form)) => Some(self.eval(form)? >= 0),
            Formula::Atom(Atom::Zero(form)) => Some(self.eval(form)? == 0),
            Formula::And(parts) => parts.iter().try_fold(true, |all, part| Some(all && self.satisfies(part)?)),
            Formula::Or(parts) => parts.iter().try_fold(false, |any, part| Some(any || self.satisfies(part)?)),
        }
    }
}
