//! Functions that construct formulas and simplify them, and functions that inspect formulas.

use clk_base::linear::{AffineForm, Atom, Formula, Var};

/// Arithmetic on affine forms with bounded coefficients (see [`is_tame`]), which cannot overflow.
pub trait TameArithmetic {
    fn plus(&self, other: &AffineForm) -> AffineForm;
    fn minus(&self, other: &AffineForm) -> AffineForm;
    fn times(&self, factor: i128) -> AffineForm;
}

impl TameArithmetic for AffineForm {
    fn plus(&self, other: &AffineForm) -> AffineForm {
        self.add(other).expect("coefficients are limited")
    }

    fn minus(&self, other: &AffineForm) -> AffineForm {
        self.sub(other).expect("coefficients are limited")
    }

    fn times(&self, factor: i128) -> AffineForm {
        self.scale(factor).expect("coefficients are limited")
    }
}

/// Returns whether an affine form has few terms and small coefficients, so that sums and small multiples of a few such
/// forms do not overflow. Values with other forms are treated as unknown.
pub(crate) fn is_tame(form: &AffineForm) -> bool {
    const LIMIT: i128 = 1 << 50;
    let tame = |n: i128| (-LIMIT..=LIMIT).contains(&n);
    form.terms().len() <= 24
        && form.terms().iter().all(|&(_, factor)| tame(factor))
        && (-(1 << 66)..=1 << 66).contains(&form.constant())
}

pub fn number(n: i128) -> AffineForm {
    AffineForm::from(n)
}

pub fn variable(var: Var) -> AffineForm {
    AffineForm::from(var)
}

/// Returns the value of an affine form without variables; `None` if it has variables.
pub fn constant(form: &AffineForm) -> Option<i128> {
    form.as_constant()
}

/// Returns the variable if an affine form is just one variable.
pub fn single(form: &AffineForm) -> Option<Var> {
    form.as_variable().copied()
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

/// Returns the formula `form >= 0`.
pub fn nonnegative(form: AffineForm) -> Formula {
    match constant(&form) {
        Some(n) if n >= 0 => always(),
        Some(_) => never(),
        None => Formula::Atom(Atom::NonNegative(form)),
    }
}

/// Returns the formula `form == 0`.
pub fn zero(form: AffineForm) -> Formula {
    match constant(&form) {
        Some(0) => always(),
        Some(_) => never(),
        None => Formula::Atom(Atom::Zero(form)),
    }
}

/// Returns the formula `left <= right`.
pub fn at_most(left: &AffineForm, right: &AffineForm) -> Formula {
    nonnegative(right.minus(left))
}

/// Returns the formula `left < right`.
pub fn less(left: &AffineForm, right: &AffineForm) -> Formula {
    nonnegative(right.minus(left).minus(&number(1)))
}

pub fn equal(left: &AffineForm, right: &AffineForm) -> Formula {
    zero(left.minus(right))
}

pub fn different(left: &AffineForm, right: &AffineForm) -> Formula {
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

/// Returns whether one formula is syntactically the negation of the other.
pub(crate) fn are_opposite(a: &Formula, b: &Formula) -> bool {
    not(a) == *b || not(b) == *a
}

/// Calls `f` with each affine form in a formula.
pub(crate) fn each_form(formula: &Formula, f: &mut impl FnMut(&AffineForm)) {
    match formula {
        Formula::Atom(Atom::NonNegative(form) | Atom::Zero(form)) => f(form),
        Formula::And(parts) | Formula::Or(parts) => parts.iter().for_each(|part| each_form(part, f)),
    }
}

/// Calls `f` with each variable of a formula, once per occurrence.
pub fn each_var(formula: &Formula, f: &mut impl FnMut(Var)) {
    each_form(formula, &mut |form| form.terms().iter().for_each(|&(var, _)| f(var)));
}

/// Returns an affine form with each variable replaced by `with(variable)`.
pub fn substitute(form: &AffineForm, with: &mut impl FnMut(Var) -> AffineForm) -> AffineForm {
    form.substitute_all(|&var| Some(with(var))).expect("coefficients are limited")
}

/// Returns a formula with each variable replaced by `with(variable)`.
pub(crate) fn substitute_in_formula(formula: &Formula, with: &mut impl FnMut(Var) -> AffineForm) -> Formula {
    match formula {
        Formula::Atom(Atom::NonNegative(form)) => nonnegative(substitute(form, with)),
        Formula::Atom(Atom::Zero(form)) => zero(substitute(form, with)),
        Formula::And(parts) => and(parts.iter().map(|part| substitute_in_formula(part, with)).collect::<Vec<_>>()),
        Formula::Or(parts) => or(parts.iter().map(|part| substitute_in_formula(part, with)).collect::<Vec<_>>()),
    }
}
