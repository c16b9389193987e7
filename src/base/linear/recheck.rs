//! Verifies a certificate independently of the search. Its soundness depends only on this file, `form.rs` and
//! `formula.rs`.
//!
//! Input: a problem and a certificate. Output: an error that names the first wrong step, if any. Idea: walk the proof
//! tree with the list of atoms on the path from the root. Recompute each derived atom from its premises with checked
//! arithmetic. The last atom of each leaf must be unsatisfiable.

use thiserror::Error;

use super::certificate::{Certificate, CertificateEnd, CertificateNode, DEEPEST, DerivedLine};
use super::form::{AffineForm, Var};
use super::formula::{Atom, Formula, LinearProblem, monomial, sides};

/// The first wrong step of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecheckError {
    #[error("the problem uses an undefined variable")]
    UndefinedVariable,
    #[error("the product of x{} and x{} uses undefined variables", .0.0, .1.0)]
    UndefinedFactors(Var, Var),
    #[error("too many variables")]
    TooManyVariables,
    #[error("more than {DEEPEST} cases within each other")]
    TooDeep,
    #[error("line {number} does not follow: {line}")]
    DoesNotFollow { number: usize, line: DerivedLine },
    #[error("line {0} is not a contradiction")]
    NoContradiction(usize),
    #[error("there is no disjunction {0}")]
    NoDisjunction(usize),
    #[error("disjunction {choice} has {alternatives} alternatives, not {cases}")]
    WrongCaseCount { choice: usize, alternatives: usize, cases: usize },
    #[error("the sides of a split overflow")]
    SplitOverflow,
}

/// Checks that the certificate proves that the problem has no solution; the error names the first wrong step.
pub fn recheck(problem: &LinearProblem, certificate: &Certificate) -> Result<(), RecheckError> {
    if !problem.is_closed() {
        return Err(RecheckError::UndefinedVariable);
    }
    let mut products = problem.products.clone();
    for &(x, y) in &certificate.products {
        let fresh = problem.variables.len() + (products.len() - problem.products.len());
        if x.index().max(y.index()) >= fresh {
            return Err(RecheckError::UndefinedFactors(x, y));
        }
        products.push((Var(u32::try_from(fresh).map_err(|_| RecheckError::TooManyVariables)?), x, y));
    }
    let mut path = RecheckPath { products: &products, lines: Vec::new(), choices: Vec::new() };
    problem.facts.iter().for_each(|fact| path.assume(fact));
    path.check(&certificate.root, 0)
}

/// The assumed and derived atoms and the disjunctions on the path from the root to a node.
struct RecheckPath<'a> {
    products: &'a [(Var, Var, Var)],
    lines: Vec<Atom>,
    choices: Vec<&'a [Formula]>,
}

impl<'a> RecheckPath<'a> {
    fn assume(&mut self, formula: &'a Formula) {
        let mut atoms = Vec::new();
        formula.flatten(&mut atoms, &mut self.choices);
        self.lines.extend(atoms.into_iter().cloned());
    }

    fn check(&mut self, node: &CertificateNode, depth: usize) -> Result<(), RecheckError> {
        if depth > DEEPEST {
            return Err(RecheckError::TooDeep);
        }
        for line in &node.lines {
            let wrong = || RecheckError::DoesNotFollow { number: self.lines.len(), line: line.clone() };
            self.lines.push(self.derive(line).ok_or_else(wrong)?);
        }
        match &node.end {
            CertificateEnd::Contradiction => match self.lines.last() {
                Some(line) if is_unsatisfiable(line) => Ok(()),
                _ => Err(RecheckError::NoContradiction(self.lines.len().saturating_sub(1))),
            },
            CertificateEnd::Choice { choice, cases } => {
                let alternatives = *self.choices.get(*choice).ok_or(RecheckError::NoDisjunction(*choice))?;
                if alternatives.len() != cases.len() {
                    let (choice, alternatives, cases) = (*choice, alternatives.len(), cases.len());
                    return Err(RecheckError::WrongCaseCount { choice, alternatives, cases });
                }
                alternatives
                    .iter()
                    .zip(cases)
                    .try_for_each(|(formula, case)| self.case(case, depth, |path| path.assume(formula)))
            }
            CertificateEnd::Split { form, bound, cases } => {
                let sides = sides(form, *bound).ok_or(RecheckError::SplitOverflow)?;
                let push = |side: AffineForm| move |path: &mut Self| path.lines.push(Atom::NonNegative(side));
                sides.into_iter().zip(&**cases).try_for_each(|(side, case)| self.case(case, depth, push(side)))
            }
        }
    }

    /// Verifies a case under its assumption, then removes the assumption.
    fn case(
        &mut self,
        case: &CertificateNode,
        depth: usize,
        assume: impl FnOnce(&mut Self),
    ) -> Result<(), RecheckError> {
        let (lines, choices) = (self.lines.len(), self.choices.len());
        assume(self);
        self.check(case, depth + 1)?;
        self.lines.truncate(lines);
        self.choices.truncate(choices);
        Ok(())
    }

    fn derive(&self, line: &DerivedLine) -> Option<Atom> {
        match line {
            DerivedLine::Combination { terms, divisor } => self.combination(terms, *divisor),
            DerivedLine::Same(a, b) => {
                let same = monomial(self.products, *a, 0)? == monomial(self.products, *b, 0)?;
                if same { Some(Atom::Zero(AffineForm::from(*a).sub(&AffineForm::from(*b))?)) } else { None }
            }
            DerivedLine::Product(a, b) => {
                let (a, b) = (self.lines.get(*a)?, self.lines.get(*b)?);
                let product = self.product(a.form(), b.form())?;
                let zero = matches!(a, Atom::Zero(_)) || matches!(b, Atom::Zero(_));
                Some(if zero { Atom::Zero(product) } else { Atom::NonNegative(product) })
            }
        }
    }

    fn combination(&self, terms: &[(usize, i128)], divisor: i128) -> Option<Atom> {
        let (mut sum, mut equal) = (AffineForm::default(), true);
        for &(line, multiplier) in terms {
            let line = self.lines.get(line)?;
            if matches!(line, Atom::NonNegative(_)) {
                equal = false;
                if multiplier < 0 {
                    return None;
                }
            }
            sum = sum.add_scaled(line.form(), multiplier)?;
        }
        let quotient = sum.divide_floor(divisor)?;
        match equal {
            true if quotient.constant().checked_mul(divisor)? != sum.constant() => None,
            true => Some(Atom::Zero(quotient)),
            false => Some(Atom::NonNegative(quotient)),
        }
    }

    fn product(&self, a: &AffineForm, b: &AffineForm) -> Option<AffineForm> {
        let linear = b.scale(a.constant())?;
        let rest = AffineForm::new(0, a.terms().iter().copied())?;
        let mut sum = linear.add_scaled(&rest, b.constant())?;
        for &(x, c) in a.terms() {
            for &(y, d) in b.terms() {
                let definition =
                    self.products.iter().find(|entry| (entry.1, entry.2) == (x, y) || (entry.1, entry.2) == (y, x))?;
                sum = sum.add_scaled(&AffineForm::from(definition.0), c.checked_mul(d)?)?;
            }
        }
        Some(sum)
    }
}

/// Returns whether no integer point satisfies the atom.
fn is_unsatisfiable(line: &Atom) -> bool {
    match line {
        Atom::NonNegative(form) => form.terms().is_empty() && form.constant() < 0,
        Atom::Zero(form) => match form.content() {
            Some(0) => form.constant() != 0,
            Some(content) => form.constant() % content != 0,
            None => false,
        },
    }
}
