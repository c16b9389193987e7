//! Variables that each iteration of a counting loop changes by the same amount, such as `p` in
//! `for (int i = 0; i < n; i++) { y[i] = x[p]; p += stride; }`. Their values are polynomials in the counter.

use super::super::assigned_names::assigned;
use super::super::polynomial::{SizePolynomial, SizeSymbol};
use super::super::tree::{Expr, ExprKind, Stmt, StmtKind, visit_expr};
use super::{Abduction, Meaning};
use smol_str::SmolStr;

/// A variable that is a polynomial in a loop's counter.
pub(super) struct CountedVariable {
    name: SmolStr,
    /// The value for the counter 0: the value before the loop minus `first * step`.
    at_zero: SizePolynomial,
    /// The change in each iteration.
    step: SizePolynomial,
    /// The value after the loop.
    after: SizePolynomial,
}

impl Abduction<'_> {
    /// Finds the variables that each iteration of a loop changes by the same amount. The counter goes from `first` to
    /// `last` in steps of 1.
    pub(super) fn counted_variables(
        &mut self,
        body: &[Stmt],
        (first, last): (&SizePolynomial, &SizePolynomial),
        inclusive: bool,
    ) -> Vec<CountedVariable> {
        let changed = assigned(body, self.functions);
        let counted = changed.iter().filter_map(|name| {
            let Some(Meaning::Value(before)) = self.find(name).cloned() else { return None };
            let step = self.change(body, name, &changed)?;
            let at_zero = before.minus(&step.times(first)?)?;
            let after = before.plus(&step.times(&count(first, last, inclusive)?)?)?;
            Some(CountedVariable { name: name.clone(), at_zero, step, after })
        });
        counted.collect()
    }

    /// Defines the variables as polynomials in the counter.
    pub(super) fn define_counted(&mut self, counted: &[CountedVariable], counter: SizeSymbol) {
        for variable in counted {
            let value = variable.step.times(&SizePolynomial::symbol(counter));
            self.assign(&variable.name, value.and_then(|value| variable.at_zero.plus(&value)), false, true);
        }
    }

    /// Gives the variables their values after the loop.
    pub(super) fn finish_counted(&mut self, counted: &[CountedVariable]) {
        for variable in counted {
            self.assign(&variable.name, Some(variable.after.clone()), false, true);
        }
    }

    /// Returns by how much statements change a variable, if that is the same in each iteration of the loop, which
    /// assigns the variables `changed`.
    fn change(&mut self, body: &[Stmt], name: &SmolStr, changed: &[SmolStr]) -> Option<SizePolynomial> {
        let mut sum = SizePolynomial::default();
        for stmt in body {
            if !assigned(std::slice::from_ref(stmt), self.functions).contains(name) {
                continue;
            }
            let amount = match &stmt.kind {
                StmtKind::Assign { place, op: "+", value } if is_name(place, name) && !mentions(value, changed) => {
                    self.value(value)?
                }
                StmtKind::For { from, to, inclusive, step: None, body, .. }
                    if !mentions(from, changed) && !mentions(to, changed) =>
                {
                    let count = count(&self.value(from)?, &self.value(to)?, *inclusive)?;
                    self.change(body, name, changed)?.times(&count)?
                }
                _ => return None,
            };
            sum = sum.plus(&amount)?;
        }
        Some(sum)
    }
}

/// Returns the number of iterations of a loop whose step is 1.
fn count(first: &SizePolynomial, last: &SizePolynomial, inclusive: bool) -> Option<SizePolynomial> {
    last.minus(first)?.plus(&SizePolynomial::number(i128::from(inclusive)))
}

fn is_name(expr: &Expr, name: &SmolStr) -> bool {
    matches!(&expr.kind, ExprKind::Name(own) if own == name)
}

/// Returns whether an expression contains one of the names.
fn mentions(expr: &Expr, names: &[SmolStr]) -> bool {
    let mut found = false;
    visit_expr(expr, &mut |part| {
        found |= matches!(&part.kind, ExprKind::Name(name) if names.contains(name));
    });
    found
}
