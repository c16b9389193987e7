//! Questions to the decision procedure: whether something that must not happen can happen.
//!
//! A question is about one or two threads. The variables of a footprint are copied for each of them, except those that both share:
//! what belongs to the launch, to a block that both are in, to an iteration that both are in, and whatever is computed from such.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::form::*;
use super::space::{ENDLESS, Element, Role, Space as Variables};
use crate::base::linear::{Budget, Certificate, Formula, Linear, Problem, Var, Verdict, decide, recheck};
use crate::base::source::Span;

/// The most pairs of elements of a question that are related.
const MAX_RELATIONS: usize = 24;
const FROM_MEMORY: &str = "read from memory";

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
    /// Whether coordinates of the first thread and its block are arbitrary integers.
    free: bool,
    /// A variable that stands for its value in all threads, though its facts do not define it for each.
    pub partial: bool,
    /// Iterations that the question is about.
    pub placed: Vec<Var>,
    related: FxHashSet<((Var, u8), (Var, u8))>,
    relations: usize,
}

/// A question, with what an answer is about.
#[derive(Clone, Debug)]
pub struct Question {
    pub what: String,
    pub span: Span,
    pub problem: Problem,
    /// A promise about an array that would answer the question.
    pub offer: Option<String>,
    /// The problem with how elements of arrays relate to each other, if there are several.
    pub related: Option<Problem>,
    /// The variables of the launch, by those of the problem.
    pub launch: Vec<(Var, Var)>,
    /// The unknown values that the question depends on.
    pub unknowns: Vec<(&'static str, Span)>,
}

/// The answer to a question.
pub enum Answer<'a> {
    /// This has no solution: the certificate was rechecked.
    Never(&'a Problem, Certificate),
    /// Perhaps, for some sizes.
    Maybe,
    Open(String),
}

impl Question {
    pub fn answer(&self, budget: &Budget) -> Answer<'_> {
        let (mut problem, mut verdict) = (&self.problem, decide(&self.problem, budget));
        if let (Some(related), Verdict::Point(_) | Verdict::Unknown(_)) = (&self.related, &verdict) {
            (problem, verdict) = (related, decide(related, budget));
        }
        match verdict {
            Verdict::Empty(certificate) => match recheck(problem, &certificate) {
                Ok(()) => Answer::Never(problem, certificate),
                Err(why) => {
                    debug_assert!(false, "a certificate is wrong: {why}");
                    Answer::Open(format!("a proof did not stand the recheck: {why}"))
                }
            },
            Verdict::Point(_) => Answer::Maybe,
            Verdict::Unknown(reason) => Answer::Open(reason.to_string()),
        }
    }
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
            related: FxHashSet::default(),
            relations: 0,
        }
    }

    /// Asks about integers in place of the coordinates of a first thread that exists.
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

    /// A variable of the problem alone.
    pub fn integer(&mut self, name: &str) -> Linear {
        variable(self.problem.variable(name))
    }

    /// A variable of the problem that is the product of one of the problem and a variable of the launch.
    pub fn times(&mut self, a: Var, b: &Linear) -> Linear {
        let Some(b) = single(b).map(|b| self.copy(b, 0)) else { return number(0) };
        let product = self.problem.variable("product");
        self.problem.products.push((product, a, b));
        variable(product)
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
        self.settle(&mut unknowns);
        let alone = self.problem.clone();
        let mut known = 0;
        // Indices may be elements themselves.
        while self.relate() > known {
            known = self.relations;
            self.settle(&mut vec![]);
        }
        let related = std::mem::replace(&mut self.problem, alone);
        if self.partial {
            // Not asked: nothing can be concluded.
            self.problem.facts.clear();
        }
        let launch = self.launch();
        let related = (known > 0 && !self.partial).then_some(related);
        Question { what, span, offer: None, problem: self.problem, related, launch, unknowns }
    }

    /// Returns a builder that adds facts to the problem of a question.
    pub fn after(space: &'a Variables, question: &Question) -> Self {
        let problem = question.related.as_ref().unwrap_or(&question.problem).clone();
        let copies = question.launch.iter().map(|&(var, copy)| ((var, 0), copy)).collect();
        Builder { problem, copies, ..Builder::new(space, Common::default()) }
    }

    /// Returns the problem with the facts about all its variables. The list has the launch's variables and their copies in the problem.
    pub fn problem(mut self) -> (Problem, Vec<(Var, Var)>) {
        self.settle(&mut vec![]);
        let launch = self.launch();
        (self.problem, launch)
    }

    fn launch(&self) -> Vec<(Var, Var)> {
        let is_launch = |var: &Var| self.space.get(*var).role == Role::Launch;
        let launch = self.copies.iter().filter(|((var, _), _)| is_launch(var)).map(|((var, _), copy)| (*var, *copy));
        let mut launch: Vec<(Var, Var)> = launch.collect();
        launch.sort();
        launch
    }

    /// Adds the facts about all variables that were copied.
    fn settle(&mut self, unknowns: &mut Vec<(&'static str, Span)>) {
        while let Some((var, side)) = self.waiting.pop_front() {
            let (at, free) = (self.space.get(var), self.free && side == 0);
            match &at.role {
                Role::Unknown(why, span) if !unknowns.contains(&(*why, *span)) => unknowns.push((*why, *span)),
                Role::Thread | Role::Block if free => continue,
                Role::Counter if free && self.placed.contains(&var) => continue,
                Role::Counter if free => self.partial = true,
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
            if free && matches!(at.role, Role::Derived(_)) {
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
    }

    /// Adds how elements of one array relate, as far as that is new; returns the number of pairs that are related.
    fn relate(&mut self) -> usize {
        let mut all: Vec<(Var, u8)> =
            self.copies.keys().copied().filter(|(var, _)| self.space.elements.contains_key(var)).collect();
        all.sort();
        // Promises first.
        all.sort_by_key(|(var, _)| !self.space.promised.contains_key(&self.space.elements[var].0.param));
        for (i, &a) in all.iter().enumerate() {
            for &b in &all[i + 1..] {
                if self.relations < MAX_RELATIONS && self.related.insert((a, b)) {
                    self.pair(a, b);
                }
            }
        }
        self.relations
    }

    fn pair(&mut self, a: (Var, u8), b: (Var, u8)) {
        let space = self.space;
        let (one, two) = (&space.elements[&a.0].0, &space.elements[&b.0].0);
        if (one.param, one.leaf) != (two.param, two.leaf) {
            return;
        }
        let (v, w) = (variable(self.copy(a.0, a.1)), variable(self.copy(b.0, b.1)));
        let indices = |builder: &mut Self, of: &Element, side| {
            of.indices.iter().map(|index| builder.form(index, side)).collect::<Vec<_>>()
        };
        let (i, j) = (indices(self, one, a.1), indices(self, two, b.1));
        let same = and(i.iter().zip(&j).map(|(i, j)| equal(i, j)));
        let promised = space.promised.get(&one.param);
        let mut ways = vec![and([same.clone(), equal(&v, &w)])];
        match (promised, &i[..], &j[..]) {
            (Some(promised), [i], [j]) if promised.ascending || promised.distinct => {
                // Elements that are distinct and ascend do so strictly.
                let outside = |builder: &mut Self, of: &Element, side| {
                    let outside = promised.outside(&of.indices);
                    builder.formula(&outside, side)
                };
                for (i, j, v, w) in [(i, j, &v, &w), (j, i, &w, &v)] {
                    let mut holds = if promised.ascending { at_most(v, w) } else { always() };
                    if promised.distinct {
                        let apart = if promised.ascending { less(v, w) } else { different(v, w) };
                        let nowhere = or([outside(self, one, a.1), outside(self, two, b.1)]);
                        holds = and([holds, or([apart, nowhere])]);
                    }
                    ways.push(and([less(i, j), holds]));
                }
            }
            _ if is_never(&same) => return,
            _ => ways.push(not(&same)),
        }
        self.relations += 1;
        self.fact(or(ways));
    }
}
