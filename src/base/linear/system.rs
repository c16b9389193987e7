//! The facts and assumptions at a node of the search tree: inequalities over independent coordinates, and disjunctions.
//!
//! Input: atoms over the problem's variables. Output: tightened inequalities (equalities are eliminated), or a
//! contradictory proof step. Idea: an equality in which a variable has the coefficient 1 or -1 eliminates that
//! variable. For any other equality, unimodular changes of coordinates produce such a coefficient, as in Euclid's
//! algorithm; they preserve integer points and common divisors (Pugh's Omega test). The coordinates are the variables
//! that are not eliminated.

use std::rc::Rc;

use super::form::{AffineForm, Var};
use super::formula::{Atom, Formula};
use super::point::Scaled;
use super::products::{AssumedAtom, Lemmas, Products};
use super::relaxation::Relaxation;
use super::simplex::Inequality;
use super::steps::{Assumed, ChoiceId, Levels, ProofSteps, StepId};
use super::verdict::{OverflowReason, UnknownReason};

/// The equality `form == 0`. Either the step `nonnegative` proves it, or `nonnegative` proves `form >= 0` and
/// `nonpositive` proves `form <= 0`.
#[derive(Clone)]
struct Equality {
    form: AffineForm,
    nonnegative: StepId,
    nonpositive: Option<StepId>,
}

impl Equality {
    /// Returns the step and the multiplier that add `factor · form` to an inequality.
    fn times(&self, factor: i128) -> Option<(StepId, i128)> {
        match self.nonpositive {
            Some(nonpositive) if factor < 0 => Some((nonpositive, factor.checked_neg()?)),
            _ => Some((self.nonnegative, factor)),
        }
    }
}

#[derive(Clone)]
enum SystemItem {
    Inequality(Rc<Inequality>),
    Equality(Equality),
}

/// The terms of a linear combination: proof steps and their multipliers.
type LineTerms = Vec<(StepId, i128)>;

/// A linear form rewritten to the current coordinates.
struct Reduction {
    form: AffineForm,
    /// The steps, with multipliers, that were added to the form to rewrite it.
    terms: LineTerms,
    /// Whether all of these steps prove equalities.
    exact: bool,
}

/// An inequality over the current coordinates, before its proof step is recorded.
struct ReducedInequality {
    form: AffineForm,
    terms: LineTerms,
    divisor: i128,
    rounded: bool,
    cut: bool,
}

/// Defines an eliminated coordinate in terms of the current ones.
enum Substitution {
    /// Solves `equality` for `var`. `sign` is the coefficient of `var` in `equality`: 1 or -1.
    Eliminate { var: Var, sign: i128, equality: Equality },
    /// Replaces `var` by a linear form of other coordinates. One of these coordinates is new.
    Rename { var: Var, by: AffineForm },
}

/// A disjunction that the search has not yet branched on.
#[derive(Clone)]
pub(super) struct Disjunction<'a> {
    pub id: ChoiceId,
    pub needs: Levels,
    pub alternatives: &'a [Formula],
}

/// The facts and assumptions at a node of the search tree.
#[derive(Clone, Default)]
pub(super) struct System<'a> {
    /// The simplified inequalities over the current coordinates.
    pub rows: Vec<Rc<Inequality>>,
    /// The relaxation, at the vertex that the simplex method found last.
    pub relaxation: Relaxation,
    /// Disjunctions that the search has not yet branched on.
    pub choices: Vec<Disjunction<'a>>,
    /// Assumed and derived atoms over the problem's variables, before any elimination.
    pub assumed: Vec<Rc<AssumedAtom>>,
    /// Products of these atoms.
    pub lemmas: Lemmas,
    substitutions: Vec<Rc<Substitution>>,
    queue: Vec<SystemItem>,
    /// Definitions of the new coordinates as linear forms of the problem's variables. New coordinates are numbered
    /// after these variables.
    fresh: Vec<AffineForm>,
    variables: usize,
}

impl<'a> System<'a> {
    /// Creates a system with this number of unconstrained variables.
    pub fn new(variables: usize) -> Self {
        System { variables, ..System::default() }
    }

    /// Adds a formula that holds under the assumptions of the levels in `needs`, and records its proof steps and
    /// disjunctions in `log`.
    pub fn assume(
        &mut self,
        formula: &'a Formula,
        needs: Levels,
        steps: &mut ProofSteps,
        next: &mut ChoiceId,
        log: &mut Assumed,
    ) {
        let (mut atoms, mut choices) = (Vec::new(), Vec::new());
        formula.flatten(&mut atoms, &mut choices);
        for atom in atoms {
            let step = steps.assume(needs);
            log.steps.push(step);
            self.derive(atom.form().clone(), step, matches!(atom, Atom::Zero(_)));
        }
        for alternatives in choices {
            log.choices.push(*next);
            self.choices.push(Disjunction { id: *next, needs, alternatives });
            *next += 1;
        }
    }

    /// Adds an atom over the problem's variables and the step that proves it.
    pub fn derive(&mut self, form: AffineForm, step: StepId, equal: bool) {
        self.assumed.push(Rc::new(AssumedAtom { form: form.clone(), step, equal }));
        self.queue.push(match equal {
            true => SystemItem::Equality(Equality { form, nonnegative: step, nonpositive: None }),
            false => SystemItem::Inequality(Rc::new(Inequality { form, step, cut: false })),
        });
    }

    /// Adds the equality of two variables, which `step` proves.
    pub fn derive_same(&mut self, a: Var, b: Var, step: StepId) {
        if let Some(difference) = AffineForm::from(a).sub(&AffineForm::from(b)) {
            self.derive(difference, step, true);
        }
    }

    /// Adds a cutting plane over the current coordinates.
    pub fn cut(&mut self, form: AffineForm, step: StepId) {
        self.queue.push(SystemItem::Inequality(Rc::new(Inequality { form, step, cut: true })));
    }

    /// Adds lemmas about products that the vertex violates. Returns whether any exist.
    pub fn multiply(&mut self, products: &Products, point: &Scaled, steps: &mut ProofSteps) -> bool {
        self.lemmas.extend(products, &self.assumed);
        let violated = self.lemmas.violated(products, point);
        for lemma in &violated {
            let step = steps.product(lemma.factors[0], lemma.factors[1]);
            self.derive(lemma.form.clone(), step, lemma.equal);
        }
        !violated.is_empty()
    }

    /// Drops the cutting planes that are not tight at the vertex.
    pub fn drop_cuts(&mut self) {
        let relaxation = &self.relaxation;
        self.rows.retain(|row| !row.cut || relaxation.is_tight(row));
    }

    /// Simplifies the queued atoms, equalities first, and adds them to the system. Returns a contradictory step as soon
    /// as one is derived.
    pub fn process_queue(&mut self, steps: &mut ProofSteps) -> Result<Option<StepId>, UnknownReason> {
        loop {
            let equality = self.queue.iter().position(|item| matches!(item, SystemItem::Equality(_)));
            let item = match equality {
                Some(at) => self.queue.swap_remove(at),
                None => match self.queue.pop() {
                    Some(item) => item,
                    None => return Ok(None),
                },
            };
            let contradiction = match item {
                SystemItem::Inequality(row) => self.add_inequality(&row, steps)?,
                SystemItem::Equality(equality) => self.add_equality(equality, steps)?,
            };
            if contradiction.is_some() {
                return Ok(contradiction);
            }
        }
    }

    fn add_inequality(&mut self, row: &Inequality, steps: &mut ProofSteps) -> Result<Option<StepId>, UnknownReason> {
        let Reduction { form, mut terms, .. } = self.reduce(row.form.clone(), 1).or_overflow()?;
        terms.push((row.step, 1));
        let content = form.content().or_overflow()?;
        if content == 0 {
            return Ok((form.constant() < 0).then(|| steps.combine(terms, 1, false)));
        }
        let rounded = form.constant() % content != 0;
        let form = form.divide_floor(content).or_overflow()?;
        self.insert(ReducedInequality { form, terms, divisor: content, rounded, cut: row.cut }, steps)
    }

    /// Adds an inequality unless an inequality with the same coefficients implies it. If an inequality with negated
    /// coefficients exists, returns the contradiction of the two or replaces both by an equality, if possible.
    fn insert(&mut self, row: ReducedInequality, steps: &mut ProofSteps) -> Result<Option<StepId>, UnknownReason> {
        let same = |other: &Rc<Inequality>| other.form.terms() == row.form.terms();
        if let Some(at) = self.rows.iter().position(same) {
            if self.rows[at].form.constant() <= row.form.constant() {
                return Ok(None);
            }
            self.rows.swap_remove(at);
        }
        let step = steps.combine(row.terms, row.divisor, row.rounded);
        if let Some(at) = self.rows.iter().position(|other| other.form.is_opposite(&row.form)) {
            let width = self.rows[at].form.constant().checked_add(row.form.constant()).or_overflow()?;
            if width < 0 {
                return Ok(Some(steps.combine(vec![(step, 1), (self.rows[at].step, 1)], 1, false)));
            }
            if width == 0 {
                let other = self.rows.swap_remove(at);
                self.queue.push(SystemItem::Equality(Equality {
                    form: row.form,
                    nonnegative: step,
                    nonpositive: Some(other.step),
                }));
                return Ok(None);
            }
        }
        self.rows.push(Rc::new(Inequality { form: row.form, step, cut: row.cut }));
        Ok(None)
    }

    fn add_equality(&mut self, equality: Equality, steps: &mut ProofSteps) -> Result<Option<StepId>, UnknownReason> {
        let reduction = self.reduce(equality.form.clone(), 1).or_overflow()?;
        let (form, mut nonnegative) = (reduction.form, reduction.terms);
        nonnegative.push((equality.nonnegative, 1));
        let mut nonpositive = None;
        if equality.nonpositive.is_some() || !reduction.exact {
            let mut terms = self.reduce(equality.form.clone(), -1).or_overflow()?.terms;
            terms.push(equality.times(-1).or_overflow()?);
            nonpositive = Some(terms);
        }
        let content = form.content().or_overflow()?;
        if content == 0 || form.constant() % content != 0 {
            return Ok(equality_contradiction(&form, content, nonnegative, nonpositive, steps));
        }
        let form = form.divide_floor(content).or_overflow()?;
        let nonnegative = steps.combine(nonnegative, content, false);
        let nonpositive = nonpositive.map(|terms| steps.combine(terms, content, false));
        self.solve(Equality { form, nonnegative, nonpositive }).or_overflow()?;
        Ok(None)
    }

    /// Solves the equality for a variable whose coefficient is 1 or -1, and eliminates that variable. Changes
    /// coordinates first if no coefficient is 1 or -1.
    fn solve(&mut self, mut equality: Equality) -> Option<()> {
        loop {
            let unit = |term: &&(Var, i128)| term.1.unsigned_abs() == 1;
            let uses = |term: &&(Var, i128)| self.rows.iter().filter(|row| row.form.coefficient(&term.0) != 0).count();
            if let Some(&(var, sign)) = equality.form.terms().iter().filter(unit).min_by_key(uses) {
                self.requeue(var);
                self.substitutions.push(Rc::new(Substitution::Eliminate { var, sign, equality }));
                return Some(());
            }
            let &(var, least) = equality.form.terms().iter().min_by_key(|term| term.1.unsigned_abs())?;
            let new = Var(u32::try_from(self.variables + self.fresh.len()).ok()?);
            let (mut by, mut definition) = (AffineForm::from(new), self.definition(var));
            for &(other, coefficient) in equality.form.terms().iter().filter(|term| term.0 != var) {
                let quotient = nearest(coefficient, least)?;
                by = by.add_scaled(&AffineForm::from(other), quotient.checked_neg()?)?;
                definition = definition.add_scaled(&self.definition(other), quotient)?;
            }
            equality.form = equality.form.substitute(&var, &by)?;
            self.fresh.push(definition);
            self.requeue(var);
            self.substitutions.push(Rc::new(Substitution::Rename { var, by }));
        }
    }

    /// Moves the inequalities that contain `var` back to the queue.
    fn requeue(&mut self, var: Var) {
        self.relaxation = Relaxation::default();
        let queue = &mut self.queue;
        self.rows.retain(|row| {
            let is_kept = row.form.coefficient(&var) == 0;
            if !is_kept {
                queue.push(SystemItem::Inequality(row.clone()));
            }
            is_kept
        });
    }

    /// Returns a coordinate as a linear form of the problem's variables.
    fn definition(&self, var: Var) -> AffineForm {
        match var.index().checked_sub(self.variables) {
            Some(fresh) => self.fresh[fresh].clone(),
            None => AffineForm::from(var),
        }
    }

    /// Converts a linear form of the current coordinates to one of the problem's variables.
    pub fn original(&self, form: &AffineForm) -> Option<AffineForm> {
        form.substitute_all(|&var| Some(self.definition(var)))
    }

    /// Rewrites a linear form to the current coordinates. Also returns the steps that must be added to `sign · form`
    /// for that.
    fn reduce(&self, mut form: AffineForm, sign: i128) -> Option<Reduction> {
        let (mut terms, mut exact) = (Vec::new(), true);
        for substitution in &self.substitutions {
            match &**substitution {
                Substitution::Rename { var, by } => form = form.substitute(var, by)?,
                Substitution::Eliminate { var, sign: own, equality } => {
                    let coefficient = form.coefficient(var);
                    if coefficient != 0 {
                        let factor = coefficient.checked_mul(*own)?.checked_neg()?;
                        form = form.add_scaled(&equality.form, factor)?;
                        terms.push(equality.times(factor.checked_mul(sign)?)?);
                        exact &= equality.nonpositive.is_none();
                    }
                }
            }
        }
        Some(Reduction { form, terms, exact })
    }

    /// Computes the values of all variables from the values of the current coordinates. A coordinate without a value is
    /// zero.
    pub fn point(&self, denominator: i128, coordinates: &[(Var, i128)]) -> Option<Scaled> {
        let mut point = Scaled { denominator, values: vec![0; self.variables + self.fresh.len()] };
        for &(var, value) in coordinates {
            point.values[var.index()] = value;
        }
        for substitution in self.substitutions.iter().rev() {
            match &**substitution {
                Substitution::Rename { var, by } => point.values[var.index()] = point.eval(by)?,
                Substitution::Eliminate { var, sign, equality } => {
                    point.values[var.index()] = 0;
                    point.values[var.index()] = point.eval(&equality.form)?.checked_mul(*sign)?.checked_neg()?;
                }
            }
        }
        Some(point)
    }
}

/// Returns a contradictory step for an equality without integer solutions; `None` for `0 == 0`. If `nonpositive` is
/// `None`, the combination `nonnegative` proves the equality, else only `form >= 0`.
fn equality_contradiction(
    form: &AffineForm,
    content: i128,
    nonnegative: LineTerms,
    nonpositive: Option<LineTerms>,
    steps: &mut ProofSteps,
) -> Option<StepId> {
    let Some(nonpositive) = nonpositive else {
        return (form.constant() != 0).then(|| steps.combine(nonnegative, 1, false));
    };
    match content {
        0 if form.constant() == 0 => None,
        0 if form.constant() < 0 => Some(steps.combine(nonnegative, 1, false)),
        0 => Some(steps.combine(nonpositive, 1, false)),
        _ => {
            // After rounding, the two inequalities contradict each other.
            let nonnegative = steps.combine(nonnegative, content, true);
            let nonpositive = steps.combine(nonpositive, content, true);
            Some(steps.combine(vec![(nonnegative, 1), (nonpositive, 1)], 1, false))
        }
    }
}

/// Returns the integer nearest to `a / b`.
fn nearest(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div_euclid(b)?;
    let rest = a.checked_rem_euclid(b)?;
    let closer = rest.unsigned_abs() > b.unsigned_abs() / 2;
    if closer { quotient.checked_add(b.signum()) } else { Some(quotient) }
}
