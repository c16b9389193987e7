//! Formulas of comparisons of linear forms, in negation normal form, and the problem to decide.
//!
//! Input: comparisons of linear forms, joined by "and" and "or". Output: a formula, its negation, its truth value at a
//! point. Idea: over the integers, every comparison can be written as `form >= 0` or `form == 0`: `a < b` is
//! `b - a - 1 >= 0`. These comparisons are the atoms. The negation of an atom is a formula of atoms, so formulas need
//! no negation operator.

use super::form::{AffineForm, Var};

/// A comparison of a linear form with zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Atom {
    /// `form >= 0`
    NonNegative(AffineForm),
    /// `form == 0`
    Zero(AffineForm),
}

impl Atom {
    /// Returns the form that is compared with zero.
    pub fn form(&self) -> &AffineForm {
        match self {
            Atom::NonNegative(form) | Atom::Zero(form) => form,
        }
    }

    /// Returns whether the atom holds at the point; `None` on overflow.
    pub fn holds(&self, point: &[i128]) -> Option<bool> {
        match self {
            Atom::NonNegative(form) => Some(form.eval(point)? >= 0),
            Atom::Zero(form) => Some(form.eval(point)? == 0),
        }
    }
}

/// A formula without negations. An empty `And` is true, an empty `Or` false.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// One comparison.
    Atom(Atom),
    /// Holds if all of these formulas hold.
    And(Vec<Formula>),
    /// Holds if at least one of these formulas holds.
    Or(Vec<Formula>),
}

/// Constructors and negation. They return `None` if a coefficient overflows.
impl Formula {
    /// Returns the formula that always holds.
    pub fn always() -> Formula {
        Formula::And(Vec::new())
    }

    /// Returns the formula that never holds.
    pub fn never() -> Formula {
        Formula::Or(Vec::new())
    }

    /// `form >= 0`
    pub fn non_negative(form: AffineForm) -> Formula {
        Formula::Atom(Atom::NonNegative(form))
    }

    /// `form == 0`
    pub fn zero(form: AffineForm) -> Formula {
        Formula::Atom(Atom::Zero(form))
    }

    /// `a <= b`
    pub fn le(a: &AffineForm, b: &AffineForm) -> Option<Formula> {
        Some(Formula::non_negative(b.sub(a)?))
    }

    /// `a < b`
    pub fn lt(a: &AffineForm, b: &AffineForm) -> Option<Formula> {
        Some(Formula::non_negative(b.sub(a)?.offset(-1)?))
    }

    /// `a >= b`
    pub fn ge(a: &AffineForm, b: &AffineForm) -> Option<Formula> {
        Formula::le(b, a)
    }

    /// `a > b`
    pub fn gt(a: &AffineForm, b: &AffineForm) -> Option<Formula> {
        Formula::lt(b, a)
    }

    /// `a == b`
    pub fn eq(a: &AffineForm, b: &AffineForm) -> Option<Formula> {
        Some(Formula::zero(a.sub(b)?))
    }

    /// `a != b`, as `a < b` or `a > b`.
    pub fn ne(a: &AffineForm, b: &AffineForm) -> Option<Formula> {
        Some(Formula::Or(vec![Formula::lt(a, b)?, Formula::gt(a, b)?]))
    }

    /// `low <= form < high`
    pub fn within(low: &AffineForm, form: &AffineForm, high: &AffineForm) -> Option<Formula> {
        Some(Formula::And(vec![Formula::le(low, form)?, Formula::lt(form, high)?]))
    }

    /// Euclidean division by a positive constant: `form == divisor · quotient + remainder` with `0 <= remainder <
    /// divisor`.
    pub fn division(form: &AffineForm, divisor: i128, quotient: Var, remainder: Var) -> Option<Formula> {
        let (quotient, remainder) = (AffineForm::from(quotient), AffineForm::from(remainder));
        let sum = remainder.add_scaled(&quotient, divisor)?;
        let range = Formula::within(&AffineForm::from(0), &remainder, &AffineForm::from(divisor))?;
        Some(Formula::And(vec![Formula::eq(form, &sum)?, range]))
    }

    /// States that `divisor` does not divide `form`. `quotient` is an auxiliary variable that no other formula may use.
    pub fn divides_not(divisor: i128, form: &AffineForm, quotient: Var) -> Option<Formula> {
        let remainder = form.add_scaled(&AffineForm::from(quotient), divisor.checked_neg()?)?;
        Formula::within(&AffineForm::from(1), &remainder, &AffineForm::from(divisor))
    }

    /// States that `divisor` divides `form`. `quotient` is an auxiliary variable that no other formula may use.
    pub fn divides(divisor: i128, form: &AffineForm, quotient: Var) -> Option<Formula> {
        Some(Formula::zero(form.add_scaled(&AffineForm::from(quotient), divisor.checked_neg()?)?))
    }

    /// Returns the negation.
    pub fn not(&self) -> Option<Formula> {
        match self {
            Formula::Atom(Atom::NonNegative(form)) => Formula::lt(form, &AffineForm::from(0)),
            Formula::Atom(Atom::Zero(form)) => Formula::ne(form, &AffineForm::from(0)),
            Formula::And(parts) => Some(Formula::Or(parts.iter().map(Formula::not).collect::<Option<_>>()?)),
            Formula::Or(parts) => Some(Formula::And(parts.iter().map(Formula::not).collect::<Option<_>>()?)),
        }
    }

    /// Returns whether the formula holds at the point; `None` on overflow.
    pub fn holds(&self, point: &[i128]) -> Option<bool> {
        match self {
            Formula::Atom(atom) => atom.holds(point),
            Formula::And(parts) => parts.iter().try_fold(true, |all, part| Some(all && part.holds(point)?)),
            Formula::Or(parts) => parts.iter().try_fold(false, |any, part| Some(any || part.holds(point)?)),
        }
    }

    fn mentions_only(&self, own: &impl Fn(&Var) -> bool) -> bool {
        match self {
            Formula::Atom(atom) => atom.form().terms().iter().all(|(var, _)| own(var)),
            Formula::And(parts) | Formula::Or(parts) => parts.iter().all(|part| part.mentions_only(own)),
        }
    }

    /// Splits the formula, a conjunction, into its atoms and its disjunctions, and appends both in order of occurrence.
    /// Certificates number atoms and disjunctions in this order.
    pub(super) fn flatten<'a>(&'a self, atoms: &mut Vec<&'a Atom>, choices: &mut Vec<&'a [Formula]>) {
        match self {
            Formula::Atom(atom) => atoms.push(atom),
            Formula::And(parts) => parts.iter().for_each(|part| part.flatten(atoms, choices)),
            Formula::Or(parts) => choices.push(parts),
        }
    }
}

/// Returns the assumptions of the two cases of a split, `form <= bound` and `form >= bound + 1`, each as a form that
/// must be nonnegative.
pub(super) fn sides(form: &AffineForm, bound: i128) -> Option<[AffineForm; 2]> {
    let low = AffineForm::from(bound).sub(form)?;
    let high = low.scale(-1)?.offset(-1)?;
    Some([low, high])
}

/// Returns the sorted factors of `var`, with products of products expanded; `[var]` if it is not defined as a product.
/// `None` if products are nested too deeply.
pub(super) fn monomial(products: &[(Var, Var, Var)], var: Var, depth: usize) -> Option<Vec<Var>> {
    const DEEPEST: usize = 6;
    let Some((_, x, y)) = products.iter().find(|product| product.0 == var) else { return Some(vec![var]) };
    if depth == DEEPEST {
        return None;
    }
    let mut factors = monomial(products, *x, depth + 1)?;
    factors.extend(monomial(products, *y, depth + 1)?);
    factors.sort_unstable();
    Some(factors)
}

/// Integer variables and facts about them. The solver decides whether some values of the variables satisfy all facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearProblem {
    /// Names of the variables, by index; used only in output.
    pub variables: Vec<String>,
    /// Formulas that must all hold.
    pub facts: Vec<Formula>,
    /// Products of variables: `(p, x, y)` is the additional fact `p == x · y`.
    pub products: Vec<(Var, Var, Var)>,
}

impl LinearProblem {
    /// Adds a variable.
    pub fn add_variable(&mut self, name: impl Into<String>) -> Var {
        self.variables.push(name.into());
        Var(u32::try_from(self.variables.len() - 1).expect("fewer than 2^32 variables"))
    }

    /// Returns the variable that is defined as `x · y`; adds one if the problem has none.
    pub fn product(&mut self, x: Var, y: Var) -> Var {
        let existing = self
            .products
            .iter()
            .find(|existing| (existing.1, existing.2) == (x, y) || (existing.1, existing.2) == (y, x));
        if let Some(existing) = existing {
            return existing.0;
        }
        let name = format!("{}*{}", self.variables[x.index()], self.variables[y.index()]);
        let product = self.add_variable(name);
        self.products.push((product, x, y));
        product
    }

    /// Returns whether all variables in facts and products are declared in `variables`.
    pub(super) fn is_closed(&self) -> bool {
        let own = |var: &Var| var.index() < self.variables.len();
        let products = self.products.iter().all(|(p, x, y)| own(p) && own(x) && own(y));
        products && self.facts.iter().all(|fact| fact.mentions_only(&own))
    }

    /// Returns whether all facts and products hold at the point; `None` on overflow.
    pub fn holds(&self, point: &[i128]) -> Option<bool> {
        for &(product, x, y) in &self.products {
            let value = point.get(x.index())?.checked_mul(*point.get(y.index())?)?;
            if *point.get(product.index())? != value {
                return Some(false);
            }
        }
        self.facts.iter().try_fold(true, |all, fact| Some(all && fact.holds(point)?))
    }
}
