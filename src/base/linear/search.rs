//! The search: a tree of cases, each refuted by arithmetic or ending in a point.
//!
//! Input: a problem and a budget. Output: a verdict. Idea: at each node the rational relaxation either refutes, or gives a
//! vertex; what the vertex violates decides what comes next: a disjunction is split, a fraction is cut off or split, a product
//! gets a lemma. A case whose refutation does not use its own assumption refutes the whole split at once.

use super::form::{Linear, Var};
use super::formula::{Formula, Problem, sides};
use super::model::{self, Guess};
use super::point::Scaled;
use super::products::{self, Products};
use super::recheck::recheck;
use super::simplex::Failure;
use super::steps::{Argument, Assumed, Case, ChoiceId, Levels, Proof, StepId, Steps};
use super::system::{Choice, System};
use super::verdict::{Budget, Checked, Reason, Verdict};

/// The levels that fit the set of [`Levels`].
const DEEPEST: u32 = 120;
/// Rounds of cuts at a node before it is split.
const CUT_ROUNDS: usize = 6;
/// Rounds of lemmas at a node before it is split.
const LEMMA_ROUNDS: usize = 30;
/// Splits of factors in one decision: products that take more are beyond the lemmas.
const FACTOR_SPLITS: u32 = 60;
/// Attempts to make products right, during the search and after it.
const REPAIRS: u32 = 14;
/// The work of one attempt to find a point.
const ATTEMPT: Budget = Budget { cases: 8, exchanges: 300 };
/// Cuts of one round.
const CUTS: usize = 4;

/// Decides the problem: a point, a certificate that there is none, or why neither was found.
pub fn decide(problem: &Problem, budget: &Budget) -> Verdict {
    if !problem.is_closed() {
        return Verdict::Unknown(Reason::Foreign);
    }
    // Squares are compared by products of different factors, so that a search without those is in vain.
    let square = problem.products.iter().any(|(_, x, y)| x == y);
    let mut verdict = Verdict::Unknown(Reason::Products);
    if !square {
        verdict = Search::new(problem, *budget).verdict(Vec::new());
    }
    if verdict == Verdict::Unknown(Reason::Overflow) && !problem.products.is_empty() {
        let search = Search::new(problem, *budget);
        verdict = Search { products: search.products.hesitant(), cautious: true, ..search }.verdict(Vec::new());
    }
    if verdict == Verdict::Unknown(Reason::Products) {
        let (extended, unnamed) = products::with_unnamed(problem);
        if square || !unnamed.is_empty() {
            verdict = Search::new(&extended, *budget).verdict(unnamed);
        }
    }
    if matches!(verdict, Verdict::Unknown(_)) {
        let point = Search::new(problem, *budget).last_attempts();
        verdict = point.map_or(verdict, Verdict::Point);
    }
    match verdict {
        Verdict::Point(mut point) => {
            point.truncate(problem.variables.len());
            Verdict::Point(point)
        }
        Verdict::Empty(certificate) if recheck(problem, &certificate).is_err() => Verdict::Unknown(Reason::Unproved),
        verdict => verdict,
    }
}

/// The result of a node.
enum Outcome {
    Refuted(Proof),
    Point(Vec<i128>),
    Unknown(Reason),
}

/// What to do about a vertex.
enum Next {
    Done(Outcome),
    Again,
    Choose(usize),
    Split(Linear, i128),
}

/// What was tried at a node.
#[derive(Default)]
struct Rounds {
    cuts: usize,
    lemmas: usize,
}

/// One decision.
struct Search<'a> {
    problem: &'a Problem,
    steps: Steps,
    budget: Budget,
    products: Products,
    next_choice: ChoiceId,
    /// Points whose products were wrong.
    repairs: u32,
    /// Splits of factors that are left.
    factor_splits: u32,
    /// Points are only looked for, and not made small.
    draft: bool,
    /// Without cuts, whose numbers grow.
    cautious: bool,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, budget: Budget) -> Self {
        let products = Products::new(problem);
        Search {
            problem,
            steps: Steps::default(),
            budget,
            products,
            next_choice: 0,
            repairs: 0,
            factor_splits: FACTOR_SPLITS,
            draft: false,
            cautious: false,
        }
    }

    /// Decides the problem, whose last products are unnamed in the one that was asked about.
    fn verdict(mut self, unnamed: Vec<(Var, Var)>) -> Verdict {
        let (system, facts) = self.root();
        match self.node(system, 0) {
            Outcome::Refuted(proof) => Verdict::Empty(self.steps.certificate(&facts, &proof, unnamed)),
            Outcome::Point(point) => Verdict::Point(point),
            Outcome::Unknown(reason) => Verdict::Unknown(reason),
        }
    }

    /// The system of the facts.
    fn root(&mut self) -> (System<'a>, Assumed) {
        let mut system = System::new(self.problem.variables.len());
        let mut facts = Assumed::default();
        for fact in &self.problem.facts {
            system.assume(fact, 0, &mut self.steps, &mut self.next_choice, &mut facts);
        }
        for (a, b) in products::same(self.problem) {
            let step = self.steps.same(a, b);
            system.derive_same(a, b, step);
        }
        (system, facts)
    }

    /// A point whose factors are small, where the search found none.
    fn last_attempts(&mut self) -> Option<Vec<i128>> {
        if self.problem.products.is_empty() {
            return None;
        }
        let (system, _) = self.root();
        (0..REPAIRS).find_map(|number| self.fix_factors(&system, &[], number * 2 + 1))
    }

    /// Decides a system whose assumptions are of `depth` levels.
    fn node(&mut self, mut system: System<'a>, depth: u32) -> Outcome {
        let mut rounds = Rounds::default();
        loop {
            return match self.look(&mut system, &mut rounds, depth) {
                Err(reason) => Outcome::Unknown(reason),
                Ok(Next::Again) => continue,
                Ok(Next::Done(outcome)) => outcome,
                Ok(_) if depth >= DEEPEST => Outcome::Unknown(Reason::Exhausted),
                Ok(Next::Choose(at)) => self.choose(system, at, depth),
                Ok(Next::Split(form, bound)) => self.split(system, form, bound, depth),
            };
        }
    }

    /// Settles the system, relaxes it and says what the vertex asks for.
    fn look(&mut self, system: &mut System<'a>, rounds: &mut Rounds, depth: u32) -> Result<Next, Reason> {
        if let Some(step) = system.settle(&mut self.steps)? {
            return Ok(Next::Done(Outcome::Refuted(self.steps.contradiction(step))));
        }
        if let Some(step) = self.relax(system)? {
            return Ok(Next::Done(Outcome::Refuted(self.steps.contradiction(step))));
        }
        let point = system.relaxation.vertex().and_then(|(denominator, values)| system.point(denominator, &values));
        if let Some(point) = &point
            && rounds.lemmas < LEMMA_ROUNDS
            && !self.problem.products.is_empty()
            && system.multiply(&self.products, point, &mut self.steps)
        {
            rounds.lemmas += 1;
            return Ok(Next::Again);
        }
        if let Some(at) = self.violated(&system.choices, point.as_ref()) {
            return Ok(Next::Choose(at));
        }
        let point = point.fits()?;
        if point.denominator == 1 {
            return self.integral(system, &point, depth);
        }
        rounds.cuts += 1;
        if rounds.cuts <= CUT_ROUNDS && !self.cautious && self.cut(system) {
            return Ok(Next::Again);
        }
        system.drop_cuts();
        let (form, bound) = system.relaxation.fractional().fits()?;
        Ok(Next::Split(system.original(&form).fits()?, bound))
    }

    /// Moves the system to a vertex; the step that refutes its rows where there is none.
    fn relax(&mut self, system: &mut System) -> Result<Option<StepId>, Reason> {
        match system.relaxation.extend(&system.rows, &mut self.budget.exchanges) {
            Ok(()) => Ok(None),
            Err(Failure::Overflow) => Err(Reason::Overflow),
            Err(Failure::Exhausted) => Err(Reason::Exhausted),
            Err(Failure::Infeasible(terms)) => Ok(Some(self.steps.combine(terms, 1, false))),
        }
    }

    /// The disjunction with the fewest alternatives among those that do not hold at the point.
    fn violated(&self, choices: &[Choice<'a>], point: Option<&Scaled>) -> Option<usize> {
        let holds = |choice: &Choice| {
            let satisfied = |formula: &Formula| point.and_then(|point| point.satisfies(formula)).unwrap_or(false);
            choice.alternatives.iter().any(satisfied)
        };
        let open = (0..choices.len()).filter(|&at| !holds(&choices[at]));
        open.min_by_key(|&at| choices[at].alternatives.len())
    }

    /// An integer point at which all disjunctions hold: it is the answer unless a product is wrong.
    fn integral(&mut self, system: &mut System<'a>, point: &Scaled, depth: u32) -> Result<Next, Reason> {
        let values = &point.values[..self.problem.variables.len()];
        let point = match self.problem.holds(values).fits()? {
            true => Some(values.to_vec()),
            false if self.draft => None,
            false => self.repair(system, values),
        };
        match point {
            Some(point) if self.draft => Ok(Next::Done(Outcome::Point(point))),
            Some(point) => Ok(Next::Done(Outcome::Point(self.shrink(system, point)))),
            None => {
                self.factor_splits = self.factor_splits.checked_sub(1).ok_or(Reason::Products)?;
                let (form, bound) =
                    products::split(self.problem, &system.known, values, depth).ok_or(Reason::Products)?;
                Ok(Next::Split(form, bound))
            }
        }
    }

    /// Makes the products of a point right: a few attempts the first time, then one every second time.
    fn repair(&mut self, system: &System<'a>, point: &[i128]) -> Option<Vec<i128>> {
        let time = self.repairs;
        self.repairs += 1;
        let attempts = match time {
            0 => 0..3,
            _ if time.is_multiple_of(2) && time < 2 * REPAIRS => time / 2 + 2..time / 2 + 3,
            _ => 0..0,
        };
        attempts.into_iter().find_map(|number| self.fix_factors(system, point, number))
    }

    /// A point of the system with some factors fixed.
    fn fix_factors(&mut self, system: &System<'a>, point: &[i128], number: u32) -> Option<Vec<i128>> {
        self.guess(system, model::fixed_factors(self.problem, point, number)?)
    }

    /// A point of the system that is small and not negative where one is found quickly, and `point` else.
    fn shrink(&mut self, system: &System<'a>, point: Vec<i128>) -> Vec<i128> {
        let small = |bound| self.guess(system, model::within(self.problem, bound)?);
        model::bounds(&point).find_map(small).unwrap_or(point)
    }

    /// A point of the system at which these guesses hold too, if one is found quickly.
    fn guess(&mut self, system: &System<'a>, guesses: Vec<Guess>) -> Option<Vec<i128>> {
        let mut trial = Search { draft: true, ..Search::new(self.problem, ATTEMPT) };
        std::mem::swap(&mut trial.steps, &mut self.steps);
        let mut system = system.clone();
        for guess in guesses {
            let step = trial.steps.assume(0);
            system.derive(guess.form, step, guess.equal);
        }
        let outcome = trial.node(system, 0);
        std::mem::swap(&mut trial.steps, &mut self.steps);
        match outcome {
            Outcome::Point(point) => Some(point),
            Outcome::Refuted(_) | Outcome::Unknown(_) => None,
        }
    }

    /// Cuts the vertex off; whether there is a cut that does.
    fn cut(&mut self, system: &mut System) -> bool {
        let mut cuts = system.relaxation.cuts();
        cuts.truncate(CUTS);
        let found = !cuts.is_empty();
        for cut in cuts {
            let step = self.steps.combine(cut.terms, cut.divisor, true);
            system.cut(cut.form, step);
        }
        found
    }

    /// Refutes each alternative of a disjunction, or finds a point in one.
    fn choose(&mut self, mut system: System<'a>, at: usize, depth: u32) -> Outcome {
        let choice = system.choices.remove(at);
        let level = 1 << depth;
        let (mut cases, mut unknown) = (Vec::new(), None);
        for formula in choice.alternatives {
            let mut assumed = Assumed { level, ..Assumed::default() };
            let mut inner = system.clone();
            inner.assume(formula, level, &mut self.steps, &mut self.next_choice, &mut assumed);
            match self.enter(inner, depth) {
                Outcome::Refuted(proof) if proof.needs & level == 0 => return Outcome::Refuted(proof),
                Outcome::Refuted(proof) => cases.push(Case { assumed, proof }),
                Outcome::Point(point) => return Outcome::Point(point),
                Outcome::Unknown(reason) => unknown = unknown.or(Some(reason)),
            }
        }
        let needs = union(&cases, level) | choice.needs;
        closed(Argument::Choice(choice.id, cases), needs, unknown)
    }

    /// Refutes `form <= bound` and `form > bound`, or finds a point in one.
    fn split(&mut self, system: System<'a>, form: Linear, bound: i128, depth: u32) -> Outcome {
        let level = 1 << depth;
        let Some([low, high]) = sides(&form, bound) else { return Outcome::Unknown(Reason::Overflow) };
        let (mut cases, mut unknown) = (Vec::new(), None);
        for side in [low, high] {
            let step = self.steps.assume(level);
            let mut inner = system.clone();
            inner.derive(side, step, false);
            match self.enter(inner, depth) {
                Outcome::Refuted(proof) if proof.needs & level == 0 => return Outcome::Refuted(proof),
                Outcome::Refuted(proof) => {
                    let assumed = Assumed { level, steps: vec![step], choices: Vec::new() };
                    cases.push(Case { assumed, proof });
                }
                Outcome::Point(point) => return Outcome::Point(point),
                Outcome::Unknown(reason) => unknown = unknown.or(Some(reason)),
            }
        }
        let needs = union(&cases, level);
        closed(Argument::Split(form, bound, cases), needs, unknown)
    }

    /// Decides a case, if the budget allows.
    fn enter(&mut self, system: System<'a>, depth: u32) -> Outcome {
        match self.budget.cases.checked_sub(1) {
            None => Outcome::Unknown(Reason::Exhausted),
            Some(rest) => {
                self.budget.cases = rest;
                self.node(system, depth + 1)
            }
        }
    }
}

/// What the cases rest on, apart from their own assumptions.
fn union(cases: &[Case], level: Levels) -> Levels {
    cases.iter().fold(0, |needs, case| needs | case.proof.needs) & !level
}

/// The outcome where all cases are refuted, or some could not be.
fn closed(argument: Argument, needs: Levels, unknown: Option<Reason>) -> Outcome {
    match unknown {
        Some(reason) => Outcome::Unknown(reason),
        None => Outcome::Refuted(Proof { argument, needs }),
    }
}
