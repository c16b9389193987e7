//! Proof obligations. Each is a system of formulas that describes a violation of a property; the property is proved if
//! the system has no solution.
//!
//! An obligation is about one or two threads. It contains a copy of each variable of the footprint for each thread: `x`
//! for the first thread (`side` 0) and `x'` for the second thread (`side` 1). Variables that are equal for both threads
//! have only one copy. These are variables of the launch, variables of a block or loop iteration that the threads
//! share, and variables computed only from such variables.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::formula::*;
use super::vars::{ENDLESS, SymbolicLoad, VarRole, VarSpace as Variables};
use crate::def::MemId;
use clk_base::linear::{
    AffineForm, Certificate, Formula, LinearProblem, SolverBudget, SolverVerdict, Var, decide, recheck,
};
use clk_base::source::Span;

/// The maximum number of pairs of array elements that an obligation relates by facts.
const MAX_RELATIONS: usize = 24;
const FROM_MEMORY: &str = "read from memory";

/// The context that two threads share: whether they are in the same block, and the counters of the loops that they
/// execute in the same iteration. Variables that depend only on this context are equal for both threads.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedContext {
    pub block: bool,
    pub counters: FxHashSet<Var>,
    /// Counters that are not shared with the thread of this side.
    pub unshared: Vec<(u8, Var)>,
}

/// The side of the thread that reads, in obligations about threads whose coordinates are arbitrary integers.
pub(super) const READER: u8 = 1;

pub(super) struct ObligationBuilder<'a> {
    space: &'a Variables,
    shared: SharedContext,
    problem: LinearProblem,
    copies: FxHashMap<(Var, u8), Var>,
    pending: VecDeque<(Var, u8)>,
    known_shared: FxHashMap<(Var, u8), bool>,
    /// Whether the coordinates of all threads except the [`READER`], and those of their blocks unless shared, are
    /// arbitrary integers, instead of being limited by the launch.
    free_coordinates: bool,
    /// Whether the facts leave the value of some variable undefined. The obligation is then unprovable.
    pub partial: bool,
    /// The loop counters that are also arbitrary integers for these threads.
    pub placed: Vec<Var>,
    related_pairs: FxHashSet<((Var, u8), (Var, u8))>,
    relation_count: usize,
}

/// A property to be proved, as a system of formulas that must have no solution, with a description of the violation.
#[derive(Clone, Debug)]
pub struct ProofObligation {
    /// The violation in words, such as "an index of `x` is out of bounds".
    pub description: String,
    pub span: Span,
    pub problem: LinearProblem,
    /// The source text of a promise about an array that would make the obligation provable.
    pub suggested_promise: Option<String>,
    /// The memory that an access may leave; `None` unless the property is that accesses are in bounds.
    pub memory: Option<MemId>,
    /// The problem with additional facts that relate array elements to each other. `None` if there are fewer than two
    /// related elements.
    pub related: Option<LinearProblem>,
    /// Pairs of a variable of the launch and its copy in the problem.
    pub launch: Vec<(Var, Var)>,
    /// The unknown values on which the obligation depends, each with its reason and location.
    pub unknowns: Vec<(&'static str, Span)>,
}

/// The solver's answer about an obligation.
pub enum ObligationAnswer<'a> {
    /// The problem has no solution. An independent checker has accepted the certificate.
    Proved(&'a LinearProblem, Certificate),
    /// The solver found a solution, so there may be a violation for some sizes.
    MayFail,
    Unknown(String),
}

impl ProofObligation {
    pub fn answer(&self, budget: &SolverBudget) -> ObligationAnswer<'_> {
        let (mut problem, mut verdict) = (&self.problem, decide(&self.problem, budget));
        if let (Some(related), SolverVerdict::Point(_) | SolverVerdict::Unknown(_)) = (&self.related, &verdict) {
            (problem, verdict) = (related, decide(related, budget));
        }
        match verdict {
            SolverVerdict::Empty(certificate) => match recheck(problem, &certificate) {
                Ok(()) => ObligationAnswer::Proved(problem, certificate),
                Err(why) => {
                    debug_assert!(false, "a certificate is wrong: {why}");
                    ObligationAnswer::Unknown(format!("a proof failed its recheck: {why}"))
                }
            },
            SolverVerdict::Point(_) => ObligationAnswer::MayFail,
            SolverVerdict::Unknown(reason) => ObligationAnswer::Unknown(reason.to_string()),
        }
    }
}

impl<'a> ObligationBuilder<'a> {
    pub fn new(space: &'a Variables, common: SharedContext) -> Self {
        ObligationBuilder {
            space,
            shared: common,
            problem: LinearProblem::default(),
            copies: FxHashMap::default(),
            pending: VecDeque::new(),
            known_shared: FxHashMap::default(),
            free_coordinates: false,
            partial: false,
            placed: vec![],
            related_pairs: FxHashSet::default(),
            relation_count: 0,
        }
    }

    /// Returns a builder in which the coordinates of all threads except the [`READER`] are arbitrary integers.
    pub fn free(space: &'a Variables, shared: SharedContext) -> Self {
        ObligationBuilder { free_coordinates: true, ..ObligationBuilder::new(space, shared) }
    }

    /// Returns whether a variable is equal for all threads that share its value. `side` is one of these threads.
    pub fn is_shared(&mut self, var: Var, side: u8) -> bool {
        if let Some(known) = self.known_shared.get(&(var, side)) {
            return *known;
        }
        let shared = match &self.space.get(var).role {
            VarRole::Launch => true,
            VarRole::Block => self.shared.block,
            VarRole::Counter => self.shared.counters.contains(&var) && !self.shared.unshared.contains(&(side, var)),
            VarRole::Derived(on) => on.iter().all(|&var| self.is_shared(var, side)),
            VarRole::Thread | VarRole::Unknown(..) => false,
        };
        self.known_shared.insert((var, side), shared);
        shared
    }

    fn copy(&mut self, var: Var, side: u8) -> Var {
        let side = if side != 0 && self.is_shared(var, side) { 0 } else { side };
        if let Some(known) = self.copies.get(&(var, side)) {
            return *known;
        }
        let name = &self.space.get(var).name;
        let copy = self.problem.add_variable(if side == 0 { name.clone() } else { format!("{name}'") });
        self.copies.insert((var, side), copy);
        self.pending.push_back((var, side));
        copy
    }

    pub fn form(&mut self, form: &AffineForm, side: u8) -> AffineForm {
        substitute(form, &mut |var| variable(self.copy(var, side)))
    }

    pub fn formula(&mut self, formula: &Formula, side: u8) -> Formula {
        substitute_in_formula(formula, &mut |var| variable(self.copy(var, side)))
    }

    /// Adds a formula that every solution of the problem must satisfy.
    pub fn fact(&mut self, fact: Formula) {
        if !is_always(&fact) {
            self.problem.facts.push(fact);
        }
    }

    pub fn path(&mut self, path: &[Formula], side: u8) {
        for condition in path {
            let copy = self.formula(condition, side);
            self.fact(copy);
        }
    }

    /// Adds an auxiliary variable that is not in the footprint and is at least 0.
    pub fn natural(&mut self, name: &str) -> AffineForm {
        let var = variable(self.problem.add_variable(name));
        self.fact(nonnegative(var.clone()));
        var
    }

    /// Adds an auxiliary integer variable that is not in the footprint.
    pub fn integer(&mut self, name: &str) -> AffineForm {
        variable(self.problem.add_variable(name))
    }

    /// Adds a variable that is the product of `a`, a variable of the problem, and `b`, a variable of the launch.
    pub fn times(&mut self, a: Var, b: &AffineForm) -> AffineForm {
        let Some(b) = single(b).map(|b| self.copy(b, 0)) else { return number(0) };
        let product = self.problem.add_variable("product");
        self.problem.products.push((product, a, b));
        variable(product)
    }

    /// Returns the bounds and facts of a variable as one formula about the copy of the variable for the thread `side`.
    pub fn limits(&mut self, var: Var, side: u8) -> Formula {
        let at = self.space.get(var);
        let (low, high, facts) = (at.low, at.high, at.facts.clone());
        let own = variable(self.copy(var, side));
        let mut all = vec![];
        if low > -ENDLESS {
            all.push(at_most(&number(low), &own));
        }
        if high < ENDLESS {
            all.push(at_most(&own, &number(high)));
        }
        all.extend(facts.iter().map(|fact| self.formula(fact, side)));
        and(all)
    }

    /// Adds the facts about all variables in the problem, and returns the obligation.
    pub fn question(mut self, description: String, span: Span) -> ProofObligation {
        let mut unknowns = vec![];
        self.add_var_facts(&mut unknowns);
        let without_relations = self.problem.clone();
        let mut related_count = 0;
        // The facts that relate two elements contain the indices of these elements. An index may itself be an array
        // element, so this repeats until no pair is added.
        while self.relate_elements() > related_count {
            related_count = self.relation_count;
            self.add_var_facts(&mut vec![]);
        }
        let related = std::mem::replace(&mut self.problem, without_relations);
        if self.partial {
            // Without facts, the problem has a solution, so nothing is proved from incomplete facts.
            self.problem.facts.clear();
        }
        let launch = self.launch();
        let related = (related_count > 0 && !self.partial).then_some(related);
        ProofObligation {
            description,
            span,
            suggested_promise: None,
            memory: None,
            problem: self.problem,
            related,
            launch,
            unknowns,
        }
    }

    /// Returns a builder that starts with the problem of an obligation, to add more facts.
    pub fn after(space: &'a Variables, question: &ProofObligation) -> Self {
        let problem = question.related.as_ref().unwrap_or(&question.problem).clone();
        let copies = question.launch.iter().map(|&(var, copy)| ((var, 0), copy)).collect();
        ObligationBuilder { problem, copies, ..ObligationBuilder::new(space, SharedContext::default()) }
    }

    /// Returns the problem with the facts about all its variables, and pairs of a variable of the launch and its copy
    /// in the problem.
    pub fn problem(mut self) -> (LinearProblem, Vec<(Var, Var)>) {
        self.add_var_facts(&mut vec![]);
        let launch = self.launch();
        (self.problem, launch)
    }

    fn launch(&self) -> Vec<(Var, Var)> {
        let is_launch = |var: &Var| self.space.get(*var).role == VarRole::Launch;
        let launch = self.copies.iter().filter(|((var, _), _)| is_launch(var)).map(|((var, _), copy)| (*var, *copy));
        let mut launch: Vec<(Var, Var)> = launch.collect();
        launch.sort();
        launch
    }

    /// Adds the facts about all variables that were copied into the problem since the last call.
    fn add_var_facts(&mut self, unknowns: &mut Vec<(&'static str, Span)>) {
        while let Some((var, side)) = self.pending.pop_front() {
            let free = self.free_coordinates && side != READER && !self.is_shared(var, side);
            let at = self.space.get(var);
            match &at.role {
                VarRole::Unknown(why, span) if !unknowns.contains(&(*why, *span)) => unknowns.push((*why, *span)),
                VarRole::Thread | VarRole::Block if free => continue,
                VarRole::Counter if free && self.placed.contains(&var) => continue,
                VarRole::Counter if free => self.partial = true,
                _ => {}
            }
            if let Some((_, span)) = self.space.elements.get(&var)
                && !unknowns.contains(&(FROM_MEMORY, *span))
            {
                unknowns.push((FROM_MEMORY, *span));
            }
            if let Some(times) = self.space.products.get(&var).copied() {
                let (left, right) = (self.copy(times.left, side), self.copy(times.right, side));
                let own = self.copy(var, side);
                self.problem.products.push((own, left, right));
            }
            if free && matches!(at.role, VarRole::Derived(_)) {
                // The variable's bounds were derived from the bounds of the coordinates. Here the coordinates are
                // arbitrary, so these bounds do not hold. The variable's facts hold for all coordinates.
                self.partial |= !at.is_total;
                let facts: Vec<Formula> = at.facts.iter().map(|fact| self.formula(fact, side)).collect();
                facts.into_iter().for_each(|fact| self.fact(fact));
            } else {
                let limits = self.limits(var, side);
                let parts = if let Formula::And(parts) = limits { parts } else { vec![limits] };
                parts.into_iter().for_each(|fact| self.fact(fact));
            }
        }
    }

    /// Adds facts that relate the elements of the same array to each other. Returns the number of related pairs so far.
    fn relate_elements(&mut self) -> usize {
        let mut all: Vec<(Var, u8)> =
            self.copies.keys().copied().filter(|(var, _)| self.space.elements.contains_key(var)).collect();
        all.sort();
        // Elements of arrays with promises come first, so that they are related even if there are more than
        // [`MAX_RELATIONS`] pairs.
        all.sort_by_key(|(var, _)| !self.space.array_promises.contains_key(&self.space.elements[var].0.param));
        for (i, &a) in all.iter().enumerate() {
            for &b in &all[i + 1..] {
                if self.relation_count < MAX_RELATIONS && self.related_pairs.insert((a, b)) {
                    self.relate_pair(a, b);
                }
            }
        }
        self.relation_count
    }

    fn relate_pair(&mut self, a: (Var, u8), b: (Var, u8)) {
        let space = self.space;
        let (one, two) = (&space.elements[&a.0].0, &space.elements[&b.0].0);
        if (one.param, one.leaf) != (two.param, two.leaf) {
            return;
        }
        let (v, w) = (variable(self.copy(a.0, a.1)), variable(self.copy(b.0, b.1)));
        let indices = |builder: &mut Self, of: &SymbolicLoad, side| {
            of.indices.iter().map(|index| builder.form(index, side)).collect::<Vec<_>>()
        };
        let (i, j) = (indices(self, one, a.1), indices(self, two, b.1));
        let same = and(i.iter().zip(&j).map(|(i, j)| equal(i, j)));
        let promised = space.array_promises.get(&one.param);
        let mut cases = vec![and([same.clone(), equal(&v, &w)])];
        match (promised, &i[..], &j[..]) {
            (Some(promised), [i], [j]) if promised.ascending || promised.distinct => {
                // If elements are promised to be both distinct and ascending, they ascend strictly.
                let outside = |builder: &mut Self, of: &SymbolicLoad, side| {
                    let outside = promised.outside(&of.indices);
                    builder.formula(&outside, side)
                };
                for (i, j, v, w) in [(i, j, &v, &w), (j, i, &w, &v)] {
                    let mut holds = if promised.ascending { at_most(v, w) } else { always() };
                    if promised.distinct {
                        let distinct_values = if promised.ascending { less(v, w) } else { different(v, w) };
                        let out_of_bounds = or([outside(self, one, a.1), outside(self, two, b.1)]);
                        holds = and([holds, or([distinct_values, out_of_bounds])]);
                    }
                    cases.push(and([less(i, j), holds]));
                }
            }
            _ if is_never(&same) => return,
            _ => cases.push(not(&same)),
        }
        self.relation_count += 1;
        self.fact(or(cases));
    }
}
