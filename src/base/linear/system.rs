//! What is known at a node of the search: inequalities over independent coordinates, and disjunctions.
//!
//! Input: atoms over the problem's variables. Output: tight inequalities without equalities, or a contradictory line.
//! Idea: an equality with a coefficient of one eliminates its variable; any other is brought to one by a change of coordinates
//! of determinant one, as in Euclid's algorithm, so that integer points and common divisors stay what they are.

use std::rc::Rc;

use super::form::{Linear, Var};
use super::formula::{Atom, Formula};
use super::point::Scaled;
use super::products::{Known, Lemmas, Products};
use super::relaxation::Relaxation;
use super::simplex::Inequality;
use super::steps::{Assumed, ChoiceId, Levels, StepId, Steps};
use super::verdict::{Checked, Reason};

/// An equality: one step that says so, or a step for `form >= 0` and one for `form <= 0`.
#[derive(Clone)]
struct Equality {
    form: Linear,
    above: StepId,
    below: Option<StepId>,
}

impl Equality {
    /// The line and the multiplier that add `factor · form` to an inequality.
    fn times(&self, factor: i128) -> Option<(StepId, i128)> {
        match self.below {
            Some(below) if factor < 0 => Some((below, factor.checked_neg()?)),
            _ => Some((self.above, factor)),
        }
    }
}

#[derive(Clone)]
enum Item {
    Inequality(Rc<Inequality>),
    Equality(Equality),
}

/// Lines and their multipliers.
type Terms = Vec<(StepId, i128)>;

/// A form over the present coordinates.
struct Reduction {
    form: Linear,
    /// The lines that were added.
    terms: Terms,
    /// Whether these are equalities by themselves.
    exact: bool,
}

/// An inequality over the present coordinates that has no step yet.
struct Reduced {
    form: Linear,
    terms: Terms,
    divisor: i128,
    rounded: bool,
    cut: bool,
}

/// How a former coordinate follows from the present ones.
enum Substitution {
    /// The equality has `sign` as the coefficient of `var`.
    Eliminate { var: Var, sign: i128, equality: Equality },
    /// `var` is this form of other coordinates, one of them new.
    Rename { var: Var, by: Linear },
}

/// A disjunction of which no alternative is chosen yet.
#[derive(Clone)]
pub(super) struct Choice<'a> {
    pub id: ChoiceId,
    pub needs: Levels,
    pub alternatives: &'a [Formula],
}

/// All that is known at a node.
#[derive(Clone, Default)]
pub(super) struct System<'a> {
    /// Inequalities over the present coordinates, settled.
    pub rows: Vec<Rc<Inequality>>,
    /// The vertex of the rows, as of the last time.
    pub relaxation: Relaxation,
    /// Disjunctions left.
    pub choices: Vec<Choice<'a>>,
    /// What was assumed, before any elimination.
    pub known: Vec<Rc<Known>>,
    /// Products of what was assumed.
    pub lemmas: Lemmas,
    substitutions: Vec<Rc<Substitution>>,
    queue: Vec<Item>,
    /// The coordinates after the problem's variables, as forms of those.
    fresh: Vec<Linear>,
    variables: usize,
}

impl<'a> System<'a> {
    /// A system of this many variables about which nothing is known.
    pub fn new(variables: usize) -> Self {
        System { variables, ..System::default() }
    }

    /// Adds a formula that holds under the assumptions of `needs`.
    pub fn assume(
        &mut self,
        formula: &'a Formula,
        needs: Levels,
        steps: &mut Steps,
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
            self.choices.push(Choice { id: *next, needs, alternatives });
            *next += 1;
        }
    }

    /// Adds a derived line over the problem's variables.
    pub fn derive(&mut self, form: Linear, step: StepId, equal: bool) {
        self.known.push(Rc::new(Known { form: form.clone(), step, equal }));
        self.queue.push(match equal {
            true => Item::Equality(Equality { form, above: step, below: None }),
            false => Item::Inequality(Rc::new(Inequality { form, step, cut: false })),
        });
    }

    /// Adds that two variables are equal.
    pub fn derive_same(&mut self, a: Var, b: Var, step: StepId) {
        if let Some(difference) = Linear::from(a).sub(&Linear::from(b)) {
            self.derive(difference, step, true);
        }
    }

    /// Adds an inequality over the present coordinates.
    pub fn cut(&mut self, form: Linear, step: StepId) {
        self.queue.push(Item::Inequality(Rc::new(Inequality { form, step, cut: true })));
    }

    /// Adds products of known lines that the vertex violates; whether there was one.
    pub fn multiply(&mut self, products: &Products, point: &Scaled, steps: &mut Steps) -> bool {
        self.lemmas.extend(products, &self.known);
        let violated = self.lemmas.violated(products, point);
        for lemma in &violated {
            let step = steps.product(lemma.factors[0], lemma.factors[1]);
            self.derive(lemma.form.clone(), step, lemma.equal);
        }
        !violated.is_empty()
    }

    /// Drops the cuts that the vertex does not lie on.
    pub fn drop_cuts(&mut self) {
        let relaxation = &self.relaxation;
        self.rows.retain(|row| !row.cut || relaxation.is_tight(row));
    }

    /// Brings all that was added into the rows; a step that contradicts itself where one comes out.
    pub fn settle(&mut self, steps: &mut Steps) -> Result<Option<StepId>, Reason> {
        loop {
            let equality = self.queue.iter().position(|item| matches!(item, Item::Equality(_)));
            let item = match equality {
                Some(at) => self.queue.swap_remove(at),
                None => match self.queue.pop() {
                    Some(item) => item,
                    None => return Ok(None),
                },
            };
            let contradiction = match item {
                Item::Inequality(row) => self.settle_inequality(&row, steps)?,
                Item::Equality(equality) => self.settle_equality(equality, steps)?,
            };
            if contradiction.is_some() {
                return Ok(contradiction);
            }
        }
    }

    fn settle_inequality(&mut self, row: &Inequality, steps: &mut Steps) -> Result<Option<StepId>, Reason> {
        let Reduction { form, mut terms, .. } = self.reduce(row.form.clone(), 1).fits()?;
        terms.push((row.step, 1));
        let content = form.content().fits()?;
        if content == 0 {
            return Ok((form.constant() < 0).then(|| steps.combine(terms, 1, false)));
        }
        let rounded = form.constant() % content != 0;
        let form = form.divide_floor(content).fits()?;
        self.insert(Reduced { form, terms, divisor: content, rounded, cut: row.cut }, steps)
    }

    /// Adds a reduced row unless one at least as strong is there; its opposite may contradict it or make it an equality.
    fn insert(&mut self, row: Reduced, steps: &mut Steps) -> Result<Option<StepId>, Reason> {
        let same = |other: &Rc<Inequality>| other.form.terms() == row.form.terms();
        if let Some(at) = self.rows.iter().position(same) {
            if self.rows[at].form.constant() <= row.form.constant() {
                return Ok(None);
            }
            self.rows.swap_remove(at);
        }
        let step = steps.combine(row.terms, row.divisor, row.rounded);
        if let Some(at) = self.rows.iter().position(|other| other.form.is_opposite(&row.form)) {
            let width = self.rows[at].form.constant().checked_add(row.form.constant()).fits()?;
            if width < 0 {
                return Ok(Some(steps.combine(vec![(step, 1), (self.rows[at].step, 1)], 1, false)));
            }
            if width == 0 {
                let other = self.rows.swap_remove(at);
                self.queue.push(Item::Equality(Equality { form: row.form, above: step, below: Some(other.step) }));
                return Ok(None);
            }
        }
        self.rows.push(Rc::new(Inequality { form: row.form, step, cut: row.cut }));
        Ok(None)
    }

    fn settle_equality(&mut self, equality: Equality, steps: &mut Steps) -> Result<Option<StepId>, Reason> {
        let reduction = self.reduce(equality.form.clone(), 1).fits()?;
        let (form, mut above) = (reduction.form, reduction.terms);
        above.push((equality.above, 1));
        let mut below = None;
        if equality.below.is_some() || !reduction.exact {
            let mut terms = self.reduce(equality.form.clone(), -1).fits()?.terms;
            terms.push(equality.times(-1).fits()?);
            below = Some(terms);
        }
        let content = form.content().fits()?;
        if content == 0 || form.constant() % content != 0 {
            return Ok(impossible(&form, content, above, below, steps));
        }
        let form = form.divide_floor(content).fits()?;
        let above = steps.combine(above, content, false);
        let below = below.map(|terms| steps.combine(terms, content, false));
        self.solve(Equality { form, above, below }).fits()?;
        Ok(None)
    }

    /// Eliminates a variable by the equality, after changes of coordinates where no coefficient is one.
    fn solve(&mut self, mut equality: Equality) -> Option<()> {
        loop {
            let unit = |term: &&(Var, i128)| term.1.unsigned_abs() == 1;
            let uses = |term: &&(Var, i128)| self.rows.iter().filter(|row| row.form.coefficient(term.0) != 0).count();
            if let Some(&(var, sign)) = equality.form.terms().iter().filter(unit).min_by_key(uses) {
                self.requeue(var);
                self.substitutions.push(Rc::new(Substitution::Eliminate { var, sign, equality }));
                return Some(());
            }
            let &(var, least) = equality.form.terms().iter().min_by_key(|term| term.1.unsigned_abs())?;
            let new = Var(u32::try_from(self.variables + self.fresh.len()).ok()?);
            let (mut by, mut definition) = (Linear::from(new), self.definition(var));
            for &(other, coefficient) in equality.form.terms().iter().filter(|term| term.0 != var) {
                let quotient = nearest(coefficient, least)?;
                by = by.add_scaled(&Linear::from(other), quotient.checked_neg()?)?;
                definition = definition.add_scaled(&self.definition(other), quotient)?;
            }
            equality.form = equality.form.substitute(var, &by)?;
            self.fresh.push(definition);
            self.requeue(var);
            self.substitutions.push(Rc::new(Substitution::Rename { var, by }));
        }
    }

    /// Takes the rows that mention `var` out, to be settled again.
    fn requeue(&mut self, var: Var) {
        self.relaxation = Relaxation::default();
        let queue = &mut self.queue;
        self.rows.retain(|row| {
            let stays = row.form.coefficient(var) == 0;
            if !stays {
                queue.push(Item::Inequality(row.clone()));
            }
            stays
        });
    }

    /// A coordinate as a form of the problem's variables.
    fn definition(&self, var: Var) -> Linear {
        match var.index().checked_sub(self.variables) {
            Some(fresh) => self.fresh[fresh].clone(),
            None => Linear::from(var),
        }
    }

    /// A form of the present coordinates as one of the problem's variables.
    pub fn original(&self, form: &Linear) -> Option<Linear> {
        let constant = Linear::from(form.constant());
        form.terms()
            .iter()
            .try_fold(constant, |sum, &(var, coefficient)| sum.add_scaled(&self.definition(var), coefficient))
    }

    /// The form over the present coordinates, and the lines that were added to `sign · form` on the way.
    fn reduce(&self, mut form: Linear, sign: i128) -> Option<Reduction> {
        let (mut terms, mut exact) = (Vec::new(), true);
        for substitution in &self.substitutions {
            match &**substitution {
                Substitution::Rename { var, by } => form = form.substitute(*var, by)?,
                Substitution::Eliminate { var, sign: own, equality } => {
                    let coefficient = form.coefficient(*var);
                    if coefficient != 0 {
                        let factor = coefficient.checked_mul(*own)?.checked_neg()?;
                        form = form.add_scaled(&equality.form, factor)?;
                        terms.push(equality.times(factor.checked_mul(sign)?)?);
                        exact &= equality.below.is_none();
                    }
                }
            }
        }
        Some(Reduction { form, terms, exact })
    }

    /// The point of all variables where the present coordinates have these values, and zero where they have none.
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

/// The contradiction of an equality without solutions; `None` where it is `0 == 0`. Without `below`, `above` is an equality.
fn impossible(form: &Linear, content: i128, above: Terms, below: Option<Terms>, steps: &mut Steps) -> Option<StepId> {
    let Some(below) = below else {
        return (form.constant() != 0).then(|| steps.combine(above, 1, false));
    };
    match content {
        0 if form.constant() == 0 => None,
        0 if form.constant() < 0 => Some(steps.combine(above, 1, false)),
        0 => Some(steps.combine(below, 1, false)),
        _ => {
            // Both sides are rounded towards each other and miss.
            let above = steps.combine(above, content, true);
            let below = steps.combine(below, content, true);
            Some(steps.combine(vec![(above, 1), (below, 1)], 1, false))
        }
    }
}

/// The integer nearest to `a / b`.
fn nearest(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div_euclid(b)?;
    let rest = a.checked_rem_euclid(b)?;
    let closer = rest.unsigned_abs() > b.unsigned_abs() / 2;
    if closer { quotient.checked_add(b.signum()) } else { Some(quotient) }
}
