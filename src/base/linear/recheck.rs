//! Verifies a certificate, without the search: this file and the forms and formulas are all that a proof rests on.
//!
//! Input: a problem and a certificate. Output: nothing, or the first step that is wrong.
//! Idea: walk the tree with the lines known on the path; each derived line is computed anew from the lines it names, with
//! checked arithmetic, and each leaf must end with a line that holds nowhere.

use super::certificate::{Certificate, DEEPEST, End, Line, Node};
use super::form::{Linear, Var};
use super::formula::{Atom, Formula, Problem, monomial, sides};

/// Whether the certificate proves that the problem has no point; the error names the first wrong step.
pub fn recheck(problem: &Problem, certificate: &Certificate) -> Result<(), String> {
    if !problem.is_closed() {
        return Err("the problem uses a variable that it does not have".to_string());
    }
    let mut products = problem.products.clone();
    for &(x, y) in &certificate.products {
        let fresh = problem.variables.len() + (products.len() - problem.products.len());
        if x.index().max(y.index()) >= fresh {
            return Err(format!("the product of x{} and x{} is of unknown variables", x.0, y.0));
        }
        products.push((Var(u32::try_from(fresh).map_err(|_| "too many variables")?), x, y));
    }
    let mut path = Path { products: &products, lines: Vec::new(), choices: Vec::new() };
    problem.facts.iter().for_each(|fact| path.assume(fact));
    path.check(&certificate.root, 0)
}

/// What is known at a node.
struct Path<'a> {
    products: &'a [(Var, Var, Var)],
    lines: Vec<Atom>,
    choices: Vec<&'a [Formula]>,
}

impl<'a> Path<'a> {
    fn assume(&mut self, formula: &'a Formula) {
        let mut atoms = Vec::new();
        formula.flatten(&mut atoms, &mut self.choices);
        self.lines.extend(atoms.into_iter().cloned());
    }

    fn check(&mut self, node: &Node, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} cases within each other"));
        }
        for line in &node.lines {
            let derived =
                self.derive(line).ok_or_else(|| format!("line {} does not follow: {line}", self.lines.len()))?;
            self.lines.push(derived);
        }
        match &node.end {
            End::Contradiction => match self.lines.last() {
                Some(line) if holds_nowhere(line) => Ok(()),
                _ => Err(format!("line {} is no contradiction", self.lines.len().saturating_sub(1))),
            },
            End::Choice { choice, cases } => {
                let alternatives =
                    *self.choices.get(*choice).ok_or_else(|| format!("there is no disjunction {choice}"))?;
                if alternatives.len() != cases.len() {
                    return Err(format!(
                        "disjunction {choice} has {} alternatives, not {}",
                        alternatives.len(),
                        cases.len()
                    ));
                }
                alternatives
                    .iter()
                    .zip(cases)
                    .try_for_each(|(formula, case)| self.case(case, depth, |path| path.assume(formula)))
            }
            End::Split { form, bound, cases } => {
                let sides = sides(form, *bound).ok_or("the sides of a split overflow")?;
                let push = |side: Linear| move |path: &mut Self| path.lines.push(Atom::NonNegative(side));
                sides.into_iter().zip(&**cases).try_for_each(|(side, case)| self.case(case, depth, push(side)))
            }
        }
    }

    /// Checks a case under its assumption, which is forgotten afterwards.
    fn case(&mut self, case: &Node, depth: usize, assume: impl FnOnce(&mut Self)) -> Result<(), String> {
        let (lines, choices) = (self.lines.len(), self.choices.len());
        assume(self);
        self.check(case, depth + 1)?;
        self.lines.truncate(lines);
        self.choices.truncate(choices);
        Ok(())
    }

    fn derive(&self, line: &Line) -> Option<Atom> {
        match line {
            Line::Combination { terms, divisor } => self.combination(terms, *divisor),
            Line::Same(a, b) => {
                let same = monomial(self.products, *a, 0)? == monomial(self.products, *b, 0)?;
                if same { Some(Atom::Zero(Linear::from(*a).sub(&Linear::from(*b))?)) } else { None }
            }
            Line::Product(a, b) => {
                let (a, b) = (self.lines.get(*a)?, self.lines.get(*b)?);
                let product = self.product(a.form(), b.form())?;
                let zero = matches!(a, Atom::Zero(_)) || matches!(b, Atom::Zero(_));
                Some(if zero { Atom::Zero(product) } else { Atom::NonNegative(product) })
            }
        }
    }

    fn combination(&self, terms: &[(usize, i128)], divisor: i128) -> Option<Atom> {
        let (mut sum, mut equal) = (Linear::default(), true);
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

    fn product(&self, a: &Linear, b: &Linear) -> Option<Linear> {
        let linear = b.scale(a.constant())?;
        let rest = Linear::new(0, a.terms().iter().copied())?;
        let mut sum = linear.add_scaled(&rest, b.constant())?;
        for &(x, c) in a.terms() {
            for &(y, d) in b.terms() {
                let known =
                    self.products.iter().find(|known| (known.1, known.2) == (x, y) || (known.1, known.2) == (y, x))?;
                sum = sum.add_scaled(&Linear::from(known.0), c.checked_mul(d)?)?;
            }
        }
        Some(sum)
    }
}

/// Whether no integer point at all satisfies the line.
fn holds_nowhere(line: &Atom) -> bool {
    match line {
        Atom::NonNegative(form) => form.terms().is_empty() && form.constant() < 0,
        Atom::Zero(form) => match form.content() {
            Some(0) => form.constant() != 0,
            Some(content) => form.constant() % content != 0,
            None => false,
        },
    }
}
