//! The branch-and-cut search. A node of the search tree is a system of facts and assumptions.
//!
//! Input: a problem and a budget. Output: a verdict. Idea: the rational relaxation of a node is infeasible, which
//! refutes the node, or has a vertex. If the vertex violates a disjunction, the search branches on its alternatives. If
//! a value is fractional, it adds cutting planes or branches. If the vertex violates a product, it adds a lemma. If the
//! refutation of a case does not use the assumption of the case, it refutes the parent node too (backjumping).

use super::form::{AffineForm, Var};
use super::formula::{Formula, LinearProblem, sides};
use super::model::{self, Guess};
use super::point::Scaled;
use super::products::{self, Products};
use super::recheck::recheck;
use super::simplex::SimplexError;
use super::steps::{Assumed, ChoiceId, Levels, Proof, ProofCase, ProofSteps, RefutationEnd, StepId};
use super::system::{Disjunction, System};
use super::verdict::{OverflowReason, SolverBudget, SolverVerdict, UnknownReason};

/// Maximum depth of the search tree. Every depth is an assumption level, which needs a bit in [`Levels`].
const DEEPEST: u32 = 120;
/// Maximum number of times that a node adds cutting planes before it branches.
const CUT_ROUNDS: usize = 6;
/// Maximum number of times that a node adds lemmas before it branches.
const LEMMA_ROUNDS: usize = 30;
/// Maximum number of splits on factors of products in one search. After that, the search gives up with
/// [`UnknownReason::Products`].
const FACTOR_SPLITS: u32 = 60;
/// Maximum number of attempts to find a point that satisfies the products near a vertex that does not: during the
/// search, and again after the search has failed.
const REPAIRS: u32 = 14;
/// The budget of one attempt to find a point.
const ATTEMPT: SolverBudget = SolverBudget { cases: 8, exchanges: 300 };
/// Maximum number of cutting planes added at once.
const CUTS: usize = 4;

/// Decides the problem. The result is a point that satisfies all facts, a certificate that none exists, or the reason
/// why neither was found.
pub fn decide(problem: &LinearProblem, budget: &SolverBudget) -> SolverVerdict {
    if !problem.is_closed() {
        return SolverVerdict::Unknown(UnknownReason::Foreign);
    }
    // A proof that compares squares needs products of distinct variables. If the problem has squares, a search without
    // extra products would fail, so it is skipped.
    let square = problem.products.iter().any(|(_, x, y)| x == y);
    let mut verdict = SolverVerdict::Unknown(UnknownReason::Products);
    if !square {
        verdict = IntegerSearch::new(problem, *budget).verdict(Vec::new());
    }
    if verdict == SolverVerdict::Unknown(UnknownReason::Overflow) && !problem.products.is_empty() {
        let search = IntegerSearch::new(problem, *budget);
        verdict = IntegerSearch { products: search.products.with_few_lemmas(), avoid_cuts: true, ..search }
            .verdict(Vec::new());
    }
    if let SolverVerdict::Unknown(UnknownReason::Products | UnknownReason::Overflow) = verdict {
        let (extended, extra) = products::with_extra_products(problem);
        if square || !extra.is_empty() {
            verdict = IntegerSearch::new(&extended, *budget).verdict(extra);
        }
    }
    if matches!(verdict, SolverVerdict::Unknown(_)) {
        let point = IntegerSearch::new(problem, *budget).last_attempts();
        verdict = point.map_or(verdict, SolverVerdict::Point);
    }
    match verdict {
        SolverVerdict::Point(mut point) => {
            point.truncate(problem.variables.len());
            SolverVerdict::Point(point)
        }
        SolverVerdict::Empty(certificate) if recheck(problem, &certificate).is_err() => {
            SolverVerdict::Unknown(UnknownReason::Unproved)
        }
        verdict => verdict,
    }
}

/// The result of deciding a node of the search tree.
enum NodeResult {
    Refuted(Proof),
    Point(Vec<i128>),
    Unknown(UnknownReason),
}

/// What the search does next at a node; it depends on the node's vertex.
enum SearchStep {
    Done(NodeResult),
    Again,
    Choose(usize),
    Split(AffineForm, i128),
}

/// How many times a node has added cutting planes and lemmas.
#[derive(Default)]
struct Rounds {
    cuts: usize,
    lemmas: usize,
}

/// The state of one search.
struct IntegerSearch<'a> {
    problem: &'a LinearProblem,
    steps: ProofSteps,
    budget: SolverBudget,
    products: Products,
    next_choice: ChoiceId,
    /// Number of integer vertices found so far that violate a product.
    repairs: u32,
    /// Number of splits on factors of products that are still allowed.
    factor_splits: u32,
    /// Whether to return the first point, without searching for one with smaller values.
    any_point: bool,
    /// Whether to branch without adding cutting planes, whose coefficients can grow until they overflow.
    avoid_cuts: bool,
}

impl<'a> IntegerSearch<'a> {
    fn new(problem: &'a LinearProblem, budget: SolverBudget) -> Self {
        let products = Products::new(problem);
        IntegerSearch {
            problem,
            steps: ProofSteps::default(),
            budget,
            products,
            next_choice: 0,
            repairs: 0,
            factor_splits: FACTOR_SPLITS,
            any_point: false,
            avoid_cuts: false,
        }
    }

    /// Decides the problem. `extra` has the factors of the products at its end that [`products::with_extra_products`]
    /// added.
    fn verdict(mut self, extra: Vec<(Var, Var)>) -> SolverVerdict {
        let (system, facts) = self.root();
        match self.node(system, 0) {
            NodeResult::Refuted(proof) => SolverVerdict::Empty(self.steps.certificate(&facts, &proof, extra)),
            NodeResult::Point(point) => SolverVerdict::Point(point),
            NodeResult::Unknown(reason) => SolverVerdict::Unknown(reason),
        }
    }

    /// Returns the system of the root node, and the steps and disjunctions of the problem's facts.
    fn root(&mut self) -> (System<'a>, Assumed) {
        let mut system = System::new(self.problem.variables.len());
        let mut facts = Assumed::default();
        for fact in &self.problem.facts {
            system.assume(fact, 0, &mut self.steps, &mut self.next_choice, &mut facts);
        }
        for (a, b) in products::equal_products(self.problem) {
            let step = self.steps.same(a, b);
            system.derive_same(a, b, step);
        }
        (system, facts)
    }

    /// Tries to find a point with small values of the factors of products, after the search has failed.
    fn last_attempts(&mut self) -> Option<Vec<i128>> {
        if self.problem.products.is_empty() {
            return None;
        }
        let (system, _) = self.root();
        (0..REPAIRS).find_map(|number| self.fix_factors(&system, &[], number * 2 + 1))
    }

    /// Decides a node at this depth of the search tree.
    fn node(&mut self, mut system: System<'a>, depth: u32) -> NodeResult {
        let mut rounds = Rounds::default();
        loop {
            return match self.next_step(&mut system, &mut rounds, depth) {
                Err(reason) => NodeResult::Unknown(reason),
                Ok(SearchStep::Again) => continue,
                Ok(SearchStep::Done(outcome)) => outcome,
                Ok(_) if depth >= DEEPEST => NodeResult::Unknown(UnknownReason::Exhausted),
                Ok(SearchStep::Choose(at)) => self.choose(system, at, depth),
                Ok(SearchStep::Split(form, bound)) => self.split(system, form, bound, depth),
            };
        }
    }

    /// Simplifies the system, moves to a vertex of its relaxation, and returns what to do next.
    fn next_step(
        &mut self,
        system: &mut System<'a>,
        rounds: &mut Rounds,
        depth: u32,
    ) -> Result<SearchStep, UnknownReason> {
        if let Some(step) = system.process_queue(&mut self.steps)? {
            return Ok(SearchStep::Done(NodeResult::Refuted(self.steps.contradiction(step))));
        }
        if let Some(step) = self.relax(system)? {
            return Ok(SearchStep::Done(NodeResult::Refuted(self.steps.contradiction(step))));
        }
        let point = system.relaxation.vertex().and_then(|(denominator, values)| system.point(denominator, &values));
        if let Some(point) = &point
            && rounds.lemmas < LEMMA_ROUNDS
            && !self.problem.products.is_empty()
            && system.multiply(&self.products, point, &mut self.steps)
        {
            rounds.lemmas += 1;
            return Ok(SearchStep::Again);
        }
        if let Some(at) = self.violated(&system.choices, point.as_ref()) {
            return Ok(SearchStep::Choose(at));
        }
        let point = point.or_overflow()?;
        if point.denominator == 1 {
            return self.integral(system, &point, depth);
        }
        rounds.cuts += 1;
        if rounds.cuts <= CUT_ROUNDS && !self.avoid_cuts && self.cut(system) {
            return Ok(SearchStep::Again);
        }
        system.drop_cuts();
        let (form, bound) = system.relaxation.fractional().or_overflow()?;
        Ok(SearchStep::Split(system.original(&form).or_overflow()?, bound))
    }

    /// Moves to a feasible vertex of the relaxation. If there is none, returns a contradictory proof step.
    fn relax(&mut self, system: &mut System) -> Result<Option<StepId>, UnknownReason> {
        match system.relaxation.extend(&system.rows, &mut self.budget.exchanges) {
            Ok(()) => Ok(None),
            Err(SimplexError::Overflow) => Err(UnknownReason::Overflow),
            Err(SimplexError::Exhausted) => Err(UnknownReason::Exhausted),
            Err(SimplexError::Infeasible(terms)) => Ok(Some(self.steps.combine(terms, 1, false))),
        }
    }

    /// Returns the index of a disjunction that the point violates, the one with the fewest alternatives.
    fn violated(&self, choices: &[Disjunction<'a>], point: Option<&Scaled>) -> Option<usize> {
        let holds = |choice: &Disjunction| {
            let satisfied = |formula: &Formula| point.and_then(|point| point.satisfies(formula)).unwrap_or(false);
            choice.alternatives.iter().any(satisfied)
        };
        let open = (0..choices.len()).filter(|&at| !holds(&choices[at]));
        open.min_by_key(|&at| choices[at].alternatives.len())
    }

    /// Handles an integer vertex that satisfies all disjunctions. It is a solution unless it violates a product.
    fn integral(&mut self, system: &mut System<'a>, point: &Scaled, depth: u32) -> Result<SearchStep, UnknownReason> {
        let values = &point.values[..self.problem.variables.len()];
        let point = match self.problem.holds(values).or_overflow()? {
            true => Some(values.to_vec()),
            false if self.any_point => None,
            false => self.repair(system, values),
        };
        match point {
            Some(point) if self.any_point => Ok(SearchStep::Done(NodeResult::Point(point))),
            Some(point) => Ok(SearchStep::Done(NodeResult::Point(self.shrink(system, point)))),
            None => {
                self.factor_splits = self.factor_splits.checked_sub(1).ok_or(UnknownReason::Products)?;
                let (form, bound) =
                    products::split(self.problem, &system.assumed, values, depth).ok_or(UnknownReason::Products)?;
                Ok(SearchStep::Split(form, bound))
            }
        }
    }

    /// Tries to find a point near this one that satisfies the products. The first call makes several attempts, later
    /// only every second call makes one.
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

    /// Tries to find a point of the system after fixing the values of some factors of products.
    fn fix_factors(&mut self, system: &System<'a>, point: &[i128], number: u32) -> Option<Vec<i128>> {
        self.guess(system, model::fixed_factors(self.problem, point, number)?)
    }

    /// Tries, with a small budget, to find a point of the system with small nonnegative values. Returns `point` if it
    /// finds none.
    fn shrink(&mut self, system: &System<'a>, point: Vec<i128>) -> Vec<i128> {
        let small = |bound| self.guess(system, model::within(self.problem, bound)?);
        model::bounds(&point).find_map(small).unwrap_or(point)
    }

    /// Tries, with a small budget, to find a point of the system that satisfies the guesses.
    fn guess(&mut self, system: &System<'a>, guesses: Vec<Guess>) -> Option<Vec<i128>> {
        let mut trial = IntegerSearch { any_point: true, ..IntegerSearch::new(self.problem, ATTEMPT) };
        std::mem::swap(&mut trial.steps, &mut self.steps);
        let mut system = system.clone();
        for guess in guesses {
            let step = trial.steps.assume(0);
            system.derive(guess.form, step, guess.equal);
        }
        let outcome = trial.node(system, 0);
        std::mem::swap(&mut trial.steps, &mut self.steps);
        match outcome {
            NodeResult::Point(point) => Some(point),
            NodeResult::Refuted(_) | NodeResult::Unknown(_) => None,
        }
    }

    /// Adds cutting planes that exclude the vertex. Returns whether any exist.
    fn cut(&mut self, system: &mut System) -> bool {
        let mut cuts = system.relaxation.cuts();
        cuts.truncate(CUTS);
        let has_cuts = !cuts.is_empty();
        for cut in cuts {
            let step = self.steps.combine(cut.terms, cut.divisor, true);
            system.cut(cut.form, step);
        }
        has_cuts
    }

    /// Branches on a disjunction: refutes all of its alternatives or finds a point that satisfies one.
    fn choose(&mut self, mut system: System<'a>, at: usize, depth: u32) -> NodeResult {
        let choice = system.choices.remove(at);
        let level = 1 << depth;
        let (mut cases, mut unknown) = (Vec::new(), None);
        for formula in choice.alternatives {
            let mut assumed = Assumed { level, ..Assumed::default() };
            let mut inner = system.clone();
            inner.assume(formula, level, &mut self.steps, &mut self.next_choice, &mut assumed);
            match self.enter(inner, depth) {
                NodeResult::Refuted(proof) if proof.needs & level == 0 => return NodeResult::Refuted(proof),
                NodeResult::Refuted(proof) => cases.push(ProofCase { assumed, proof }),
                NodeResult::Point(point) => return NodeResult::Point(point),
                NodeResult::Unknown(reason) => unknown = unknown.or(Some(reason)),
            }
        }
        let needs = union_of_levels(&cases, level) | choice.needs;
        split_result(RefutationEnd::Choice(choice.id, cases), needs, unknown)
    }

    /// Branches on a linear form: refutes both `form <= bound` and `form > bound`, or finds a point that satisfies one
    /// of them.
    fn split(&mut self, system: System<'a>, form: AffineForm, bound: i128, depth: u32) -> NodeResult {
        let level = 1 << depth;
        let Some([low, high]) = sides(&form, bound) else { return NodeResult::Unknown(UnknownReason::Overflow) };
        let (mut cases, mut unknown) = (Vec::new(), None);
        for side in [low, high] {
            let step = self.steps.assume(level);
            let mut inner = system.clone();
            inner.derive(side, step, false);
            match self.enter(inner, depth) {
                NodeResult::Refuted(proof) if proof.needs & level == 0 => return NodeResult::Refuted(proof),
                NodeResult::Refuted(proof) => {
                    let assumed = Assumed { level, steps: vec![step], choices: Vec::new() };
                    cases.push(ProofCase { assumed, proof });
                }
                NodeResult::Point(point) => return NodeResult::Point(point),
                NodeResult::Unknown(reason) => unknown = unknown.or(Some(reason)),
            }
        }
        let needs = union_of_levels(&cases, level);
        split_result(RefutationEnd::Split(form, bound, cases), needs, unknown)
    }

    /// Decides a child node, one level deeper, unless the budget of cases is spent.
    fn enter(&mut self, system: System<'a>, depth: u32) -> NodeResult {
        match self.budget.cases.checked_sub(1) {
            None => NodeResult::Unknown(UnknownReason::Exhausted),
            Some(rest) => {
                self.budget.cases = rest;
                self.node(system, depth + 1)
            }
        }
    }
}

/// Returns the assumption levels that the refutations of the cases depend on, except `level`, the cases' own.
fn union_of_levels(cases: &[ProofCase], level: Levels) -> Levels {
    cases.iter().fold(0, |needs, case| needs | case.proof.needs) & !level
}

/// Returns the result of a case distinction after no case had a point: unknown if the result of any case was `unknown`,
/// else refuted.
fn split_result(argument: RefutationEnd, needs: Levels, unknown: Option<UnknownReason>) -> NodeResult {
    match unknown {
        Some(reason) => NodeResult::Unknown(reason),
        None => NodeResult::Refuted(Proof { argument, needs }),
    }
}
