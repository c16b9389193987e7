//! Questions to the decision procedure: whether something that must not happen can happen.
//!
//! A question is about one or two threads. The variables of a footprint are copied for each of them, except those that both share:
//! what belongs to the launch, to a block that both are in, to an iteration that both are in, and whatever is computed from such.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::form::*;
use super::space::{ENDLESS, Role, Space as Variables};
use crate::base::linear::{Formula, Linear, Problem, Var};
use crate::base::source::Span;

/// What two threads have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    pub block: bool,
    pub counters: FxHashSet<Var>,
}

pub(super) struct Builder<'a> {
    space: &'a Variables,
    common: Common,
    problem: Problem,
    copies: FxHashMap<(Var, u8), Var>,
    waiting: VecDeque<(Var, u8)>,
    known_shared: FxHashMap<Var, bool>,
    /// Whether coordinates of threads and blocks are arbitrary integers.
    free: bool,
    /// A variable that stands for its value in all threads, though its facts do not define it for each.
    pub partial: bool,
    /// Iterations that the question is about.
    pub placed: Vec<Var>,
}

/// A question, with what an answer is about.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub what: String,
    pub span: Span,
    pub problem: Problem,
    /// The variables of the launch, by those of the problem.
    pub launch: Vec<(Var, Var)>,
    /// The unknown values that the question depends on.
    pub unknowns: Vec<(&'static str, Span)>,
}

impl<'a> Builder<'a> {
    pub fn new(space: &'a Variables, common: Common) -> Self {
        Builder {
            space,
            common,
            problem: Problem::default(),
            copies: FxHashMap::default(),
            waiting: VecDeque::new(),
            known_shared: FxHashMap::default(),
            free: false,
            partial: false,
            placed: vec![],
        }
    }

    /// Asks about integers in place of the coordinates of a thread that exists.
    pub fn free(space: &'a Variables) -> Self {
        Builder { free: true, ..Builder::new(space, Common::default()) }
    }

    fn is_shared(&mut self, var: Var) -> bool {
        if let Some(known) = self.known_shared.get(&var) {
            return *known;
        }
        let shared = match &self.space.get(var).role {
            Role::Launch => true,
            Role::Block => self.common.block,
            Role::Counter => self.common.counters.contains(&var),
            Role::Derived(on) => on.iter().all(|&var| self.is_shared(var)),
            Role::Thread | Role::Unknown(..) => false,
        };
        self.known_shared.insert(var, shared);
        shared
    }

    fn copy(&mut self, var: Var, side: u8) -> Var {
        let side = if side != 0 && self.is_shared(var) { 0 } else { side };
        if let Some(known) = self.copies.get(&(var, side)) {
            return *known;
        }
        let name = &self.space.get(var).name;
        let copy = self.problem.variable(if side == 0 { name.clone() } else { format!("{name}'") });
        self.copies.insert((var, side), copy);
        self.waiting.push_back((var, side));
        copy
    }

    pub fn form(&mut self, form: &Linear, side: u8) -> Linear {
        replaced(form, &mut |var| variable(self.copy(var, side)))
    }

    pub fn formula(&mut self, formula: &Formula, side: u8) -> Formula {
        renamed(formula, &mut |var| variable(self.copy(var, side)))
    }

    /// Adds what holds.
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

    /// A variable of the problem alone, at least 0.
    pub fn natural(&mut self, name: &str) -> Linear {
        let var = variable(self.problem.variable(name));
        self.fact(nonnegative(var.clone()));
        var
    }

    /// Returns the bounds and facts of a variable, copied.
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

    /// Adds the facts about all variables.
    pub fn question(mut self, what: String, span: Span) -> Question {
        let mut unknowns = vec![];
        while let Some((var, side)) = self.waiting.pop_front() {
            let at = self.space.get(var);
            match &at.role {
                Role::Unknown(why, span) if !unknowns.contains(&(*why, *span)) => unknowns.push((*why, *span)),
                Role::Thread | Role::Block if self.free => continue,
                Role::Counter if self.free && self.placed.contains(&var) => continue,
                Role::Counter if self.free => self.partial = true,
                _ => {}
            }
            if let Some(times) = self.space.products.get(&var).copied() {
                let (left, right) = (self.copy(times.left, side), self.copy(times.right, side));
                let own = self.copy(var, side);
                self.problem.products.push((own, left, right));
            }
            if self.free && matches!(at.role, Role::Derived(_)) {
                // Its bounds follow from those of coordinates.
                self.partial |= !at.total;
                let facts: Vec<Formula> = at.facts.iter().map(|fact| self.formula(fact, side)).collect();
                facts.into_iter().for_each(|fact| self.fact(fact));
            } else {
                let limits = self.limits(var, side);
                let parts = if let Formula::And(parts) = limits { parts } else { vec![limits] };
                parts.into_iter().for_each(|fact| self.fact(fact));
            }
        }
        if self.partial {
            // Not asked: nothing can be concluded.
            self.problem.facts.clear();
        }
        let is_launch = |var: &Var| self.space.get(*var).role == Role::Launch;
        let launch = self.copies.iter().filter(|((var, _), _)| is_launch(var)).map(|((var, _), copy)| (*var, *copy));
        let mut launch: Vec<(Var, Var)> = launch.collect();
        launch.sort();
        Question { what, span, problem: self.problem, launch, unknowns }
    }
}
