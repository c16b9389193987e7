//! Constructors of formulas that simplify as they build, and what is read off formulas.

use crate::base::linear::{Atom, Formula, Linear, Var};

/// Arithmetic on forms whose coefficients are limited ([`is_tame`]), so that sums and multiples of a few of them fit.
pub trait Forms {
    fn plus(&self, other: &Linear) -> Linear;
    fn minus(&self, other: &Linear) -> Linear;
    fn times(&self, factor: i128) -> Linear;
}

impl Forms for Linear {
    fn plus(&self, other: &Linear) -> Linear {
        self.add(other).expect("coefficients are limited")
    }

    fn minus(&self, other: &Linear) -> Linear {
        self.sub(other).expect("coefficients are limited")
    }

    fn times(&self, factor: i128) -> Linear {
        self.scale(factor).expect("coefficients are limited")
    }
}

/// Returns whether the coefficients are so small that sums and multiples of a few such forms do not overflow. Forms that are not
/// become unknown values.
pub(crate) fn is_tame(form: &Linear) -> bool {
    const LIMIT: i128 = 1 << 50;
    let tame = |n: i128| (-LIMIT..=LIMIT).contains(&n);
    form.terms().len() <= 24
        && form.terms().iter().all(|&(_, factor)| tame(factor))
        && (-(1 << 66)..=1 << 66).contains(&form.constant())
}

pub fn number(n: i128) -> Linear {
    Linear::from(n)
}

pub fn variable(var: Var) -> Linear {
    Linear::from(var)
}

/// Returns the value of a form without variables.
pub fn constant(form: &Linear) -> Option<i128> {
    form.terms().is_empty().then(|| form.constant())
}

/// Returns the variable that a form consists of.
pub fn single(form: &Linear) -> Option<Var> {
    match (form.terms(), form.constant()) {
        (&[(var, 1)], 0) => Some(var),
        _ => None,
    }
}

pub fn always() -> Formula {
    Formula::And(vec![])
}

pub fn never() -> Formula {
    Formula::Or(vec![])
}

pub fn is_always(formula: &Formula) -> bool {
    matches!(formula, Formula::And(parts) if parts.is_empty())
}

pub(crate) fn is_never(formula: &Formula) -> bool {
    matches!(formula, Formula::Or(parts) if parts.is_empty())
}

/// `form >= 0`
pub fn nonnegative(form: Linear) -> Formula {
    match constant(&form) {
        Some(n) if n >= 0 => always(),
        Some(_) => never(),
        None => Formula::Atom(Atom::NonNegative(form)),
    }
}

/// `form == 0`
pub fn zero(form: Linear) -> Formula {
    match constant(&form) {
        Some(0) => always(),
        Some(_) => never(),
        None => Formula::Atom(Atom::Zero(form)),
    }
}

/// `left <= right`
pub fn at_most(left: &Linear, right: &Linear) -> Formula {
    nonnegative(right.minus(left))
}

/// `left < right`
pub fn less(left: &Linear, right: &Linear) -> Formula {
    nonnegative(right.minus(left).minus(&number(1)))
}

pub fn equal(left: &Linear, right: &Linear) -> Formula {
    zero(left.minus(right))
}

pub fn different(left: &Linear, right: &Linear) -> Formula {
    or([less(left, right), less(right, left)])
}

pub fn and(parts: impl IntoIterator<Item = Formula>) -> Formula {
    let mut all = vec![];
    for part in parts {
        match part {
            Formula::And(inner) => all.extend(inner),
            part if is_never(&part) => return never(),
            part => all.push(part),
        }
    }
    if all.len() == 1 { all.remove(0) } else { Formula::And(all) }
}

pub fn or(parts: impl IntoIterator<Item = Formula>) -> Formula {
    let mut all = vec![];
    for part in parts {
        match part {
            Formula::Or(inner) => all.extend(inner),
            part if is_always(&part) => return always(),
            part => all.push(part),
        }
    }
    if all.len() == 1 { all.remove(0) } else { Formula::Or(all) }
}

pub fn not(formula: &Formula) -> Formula {
    match formula {
        Formula::Atom(Atom::NonNegative(form)) => less(form, &number(0)),
        Formula::Atom(Atom::Zero(form)) => different(form, &number(0)),
        Formula::And(parts) => or(parts.iter().map(not)),
        Formula::Or(parts) => and(parts.iter().map(not)),
    }
}

/// Returns whether one formula is the negation of the other by its form.
pub(crate) fn are_opposite(a: &Formula, b: &Formula) -> bool {
    not(a) == *b || not(b) == *a
}

/// Calls `f` with each linear form of a formula.
pub(crate) fn each_form(formula: &Formula, f: &mut impl FnMut(&Linear)) {
    match formula {
        Formula::Atom(Atom::NonNegative(form) | Atom::Zero(form)) => f(form),
        Formula::And(parts) | Formula::Or(parts) => parts.iter().for_each(|part| each_form(part, f)),
    }
}

/// Calls `f` with each variable of a formula, once per occurrence.
pub fn each_var(formula: &Formula, f: &mut impl FnMut(Var)) {
    each_form(formula, &mut |form| form.terms().iter().for_each(|&(var, _)| f(var)));
}

/// Returns the form with each variable replaced.
pub fn replaced(form: &Linear, with: &mut impl FnMut(Var) -> Linear) -> Linear {
    form.terms().iter().fold(number(form.constant()), |sum, &(var, factor)| sum.plus(&with(var).times(factor)))
}

/// Returns the formula with each variable replaced.
pub fn renamed(formula: &Formula, with: &mut impl FnMut(Var) -> Linear) -> Formula {
    match formula {
        Formula::Atom(Atom::NonNegative(form)) => nonnegative(replaced(form, with)),
        Formula::Atom(Atom::Zero(form)) => zero(replaced(form, with)),
        Formula::And(parts) => and(parts.iter().map(|part| renamed(part, with)).collect::<Vec<_>>()),
        Formula::Or(parts) => or(parts.iter().map(|part| renamed(part, with)).collect::<Vec<_>>()),
    }
}
