//! Rational points.
//!
//! Input: numerators with a common denominator. Output: the values of linear forms and the truth values of formulas at
//! the point. Idea: a value is computed as an integer, its numerator over the common denominator. If the denominator is
//! 1, all values are integers.

use super::form::AffineForm;
use super::formula::{Atom, Formula};

/// A rational point. The value of variable `v` is `values[v] / denominator`.
pub(super) struct Scaled {
    pub denominator: i128,
    pub values: Vec<i128>,
}

impl Scaled {
    /// Returns the value of `denominator · form` at the point, an integer.
    pub fn eval(&self, form: &AffineForm) -> Option<i128> {
        let constant = AffineForm::from(form.constant().checked_mul(self.denominator)?);
        let rest = form.offset(form.constant().checked_neg()?)?;
        rest.eval(&self.values)?.checked_add(constant.constant())
    }

    /// Returns whether the formula holds at the point. Variables may have rational values.
    pub fn satisfies(&self, formula: &Formula) -> Option<bool> {
        match formula {
            Formula::Atom(Atom::NonNegative(form)) => Some(self.eval(form)? >= 0),
            Formula::Atom(Atom::Zero(form)) => Some(self.eval(form)? == 0),
            Formula::And(parts) => parts.iter().try_fold(true, |all, part| Some(all && self.satisfies(part)?)),
            Formula::Or(parts) => parts.iter().try_fold(false, |any, part| Some(any || self.satisfies(part)?)),
        }
    }
}
