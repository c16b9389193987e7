//! Formulas over linear atoms, in negation normal form, and the problem to decide.
//!
//! Input: comparisons of linear forms, joined by "and" and "or". Output: a formula, its negation, its value at a point.
//! Idea: over the integers each comparison is `form >= 0` or `form == 0` (`a < b` is `b - a - 1 >= 0`), and the
//! negation of either is again a formula of such atoms, so that no "not" is left.

use super::form::{Linear, Var};

/// A comparison of a form with zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Atom {
    /// `form >= 0`
    NonNegative(Linear),
    /// `form == 0`
    Zero(Linear),
}

impl Atom {
    /// The form that is compared with zero.
    pub fn form(&self) -> &Linear {
        match self {
            Atom::NonNegative(form) | Atom::Zero(form) => form,
        }
    }

    /// Whether the atom holds at the point; `None` where the value leaves `i128`.
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
    /// All of these hold.
    And(Vec<Formula>),
    /// At least one of these holds.
    Or(Vec<Formula>),
}

/// The helpers return `None` where a coefficient leaves `i128`.
impl Formula {
    /// The formula that always holds.
    pub fn always() -> Formula {
        Formula::And(Vec::new())
    }

    /// The formula that never holds.
    pub fn never() -> Formula {
        Formula::Or(Vec::new())
    }

    /// `form >= 0`
    pub fn non_negative(form: Linear) -> Formula {
        Formula::Atom(Atom::NonNegative(form))
    }

    /// `form == 0`
    pub fn zero(form: Linear) -> Formula {
        Formula::Atom(Atom::Zero(form))
    }

    /// `a <= b`
    pub fn le(a: &Linear, b: &Linear) -> Option<Formula> {
        Some(Formula::non_negative(b.sub(a)?))
    }

    /// `a < b`
    pub fn lt(a: &Linear, b: &Linear) -> Option<Formula> {
        Some(Formula::non_negative(b.sub(a)?.offset(-1)?))
    }

    /// `a >= b`
    pub fn ge(a: &Linear, b: &Linear) -> Option<Formula> {
        Formula::le(b, a)
    }

    /// `a > b`
    pub fn gt(a: &Linear, b: &Linear) -> Option<Formula> {
        Formula::lt(b, a)
    }

    /// `a == b`
    pub fn eq(a: &Linear, b: &Linear) -> Option<Formula> {
        Some(Formula::zero(a.sub(b)?))
    }

    /// `a != b`: one of them is less.
    pub fn ne(a: &Linear, b: &Linear) -> Option<Formula> {
        Some(Formula::Or(vec![Formula::lt(a, b)?, Formula::gt(a, b)?]))
    }

    /// `low <= form < high`
    pub fn within(low: &Linear, form: &Linear, high: &Linear) -> Option<Formula> {
        Some(Formula::And(vec![Formula::le(low, form)?, Formula::lt(form, high)?]))
    }

    /// `form == divisor · quotient + remainder` with `0 <= remainder < divisor`: Euclidean division by a positive constant.
    pub fn division(form: &Linear, divisor: i128, quotient: Var, remainder: Var) -> Option<Formula> {
        let (quotient, remainder) = (Linear::from(quotient), Linear::from(remainder));
        let sum = remainder.add_scaled(&quotient, divisor)?;
        let range = Formula::within(&Linear::from(0), &remainder, &Linear::from(divisor))?;
        Some(Formula::And(vec![Formula::eq(form, &sum)?, range]))
    }

    /// `divisor` does not divide `form`; `quotient` must occur nowhere else.
    pub fn divides_not(divisor: i128, form: &Linear, quotient: Var) -> Option<Formula> {
        let remainder = form.add_scaled(&Linear::from(quotient), divisor.checked_neg()?)?;
        Formula::within(&Linear::from(1), &remainder, &Linear::from(divisor))
    }

    /// `divisor` divides `form`; `quotient` must occur nowhere else.
    pub fn divides(divisor: i128, form: &Linear, quotient: Var) -> Option<Formula> {
        Some(Formula::zero(form.add_scaled(&Linear::from(quotient), divisor.checked_neg()?)?))
    }

    /// The negation.
    pub fn not(&self) -> Option<Formula> {
        match self {
            Formula::Atom(Atom::NonNegative(form)) => Formula::lt(form, &Linear::from(0)),
            Formula::Atom(Atom::Zero(form)) => Formula::ne(form, &Linear::from(0)),
            Formula::And(parts) => Some(Formula::Or(parts.iter().map(Formula::not).collect::<Option<_>>()?)),
            Formula::Or(parts) => Some(Formula::And(parts.iter().map(Formula::not).collect::<Option<_>>()?)),
        }
    }

    /// Whether the formula holds at the point; `None` where a value leaves `i128`.
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

    /// Appends the atoms that hold for certain and the disjunctions of which one alternative holds, in order of occurrence.
    /// This order numbers the lines of a certificate.
    pub(super) fn flatten<'a>(&'a self, atoms: &mut Vec<&'a Atom>, choices: &mut Vec<&'a [Formula]>) {
        match self {
            Formula::Atom(atom) => atoms.push(atom),
            Formula::And(parts) => parts.iter().for_each(|part| part.flatten(atoms, choices)),
            Formula::Or(parts) => choices.push(parts),
        }
    }
}

/// `form <= bound` and `form >= bound + 1`, as forms that are not negative.
pub(super) fn sides(form: &Linear, bound: i128) -> Option<[Linear; 2]> {
    let low = Linear::from(bound).sub(form)?;
    let high = low.scale(-1)?.offset(-1)?;
    Some([low, high])
}

/// The variables whose product `var` is, in order, products of products taken apart; `None` where they are many.
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

/// Variables over the integers and the facts about them: is there a point at which all hold?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The variables' names; variable `v` is `variables[v]`.
    pub variables: Vec<String>,
    /// The formulas that hold at the same time.
    pub facts: Vec<Formula>,
    /// `(p, x, y)`: also `p == x · y`.
    pub products: Vec<(Var, Var, Var)>,
}

impl Problem {
    /// A further variable.
    pub fn variable(&mut self, name: impl Into<String>) -> Var {
        self.variables.push(name.into());
        Var(u32::try_from(self.variables.len() - 1).expect("fewer than 2^32 variables"))
    }

    /// The variable that is `x · y`, a further one unless the problem has it.
    pub fn product(&mut self, x: Var, y: Var) -> Var {
        let known = self.products.iter().find(|known| (known.1, known.2) == (x, y) || (known.1, known.2) == (y, x));
        if let Some(known) = known {
            return known.0;
        }
        let name = format!("{}*{}", self.variables[x.index()], self.variables[y.index()]);
        let product = self.variable(name);
        self.products.push((product, x, y));
        product
    }

    /// Whether all variables of facts and products are the problem's own.
    pub(super) fn is_closed(&self) -> bool {
        let own = |var: &Var| var.index() < self.variables.len();
        let products = self.products.iter().all(|(p, x, y)| own(p) && own(x) && own(y));
        products && self.facts.iter().all(|fact| fact.mentions_only(&own))
    }

    /// Whether all facts and products hold at the point; `None` where a value leaves `i128`.
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
