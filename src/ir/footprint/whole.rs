//! Arrays that a launch writes as a whole, so that what they contain before it does not matter.
//!
//! Input: the footprint of a kernel's body as it runs, in launches in symbols. Output: [`Whole`], which says it of all launches that the signature
//! describes, or of one whose sizes are known: those are further facts for the questions that are open without.

use std::sync::atomic::{AtomicU32, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};

use super::cover;
use super::def::{Deed, Footprint, Given, Touch};
use super::form::{equal, number, replaced, variable};
use super::question::{Answer, Question};
use crate::base::linear::{Budget, Linear, Var};
use crate::ir::def::*;

/// The work for an answer, and the answers for a kernel before it is launched.
const WORK: Budget = Budget { cases: 250, exchanges: 5_000 };
const MAX_QUESTIONS: usize = 100;
/// Launches of new sizes that are examined by themselves.
const MAX_LAUNCHES: u32 = 64;

/// The arrays that launches as declared write as a whole, and that the kernel does not read.
#[derive(Default)]
pub struct Whole {
    arrays: FxHashMap<u32, State>,
    /// Parameters that such an answer depends on, besides extents.
    values: bool,
    examined: AtomicU32,
}

enum State {
    Always,
    /// For each leaf one of these has to have the answer "never".
    Open(Vec<Vec<Question>>),
}

/// The numbers of a launch.
pub struct Numbers<'a> {
    pub extent: &'a dyn Fn(u32, u8) -> Option<i128>,
    pub value: &'a dyn Fn(u32) -> Option<i128>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

impl Whole {
    pub fn of(module: &Module, given: &Given, found: &Footprint) -> Whole {
        let mut left = MAX_QUESTIONS;
        let mut never = |question: &Question| {
            left = left.saturating_sub(1);
            left > 0 && matches!(question.answer(&WORK), Answer::Never(..))
        };
        let function = &module.functions[module.kernel.body];
        let mut leaves: FxHashMap<MemId, Vec<Vec<Question>>> = FxHashMap::default();
        for (memory, ways) in cover::unwritten(function, given, found, |access| access != Access::In) {
            leaves.entry(memory).or_default().push(ways);
        }
        let mut whole = Whole::default();
        for (memory, leaves) in leaves {
            let is_read = |touch: &Touch| touch.memory == memory && touch.deed != Deed::Writes;
            let Space::Global { param, .. } = function.memories[memory].space else { continue };
            if found.accesses.iter().any(is_read) || leaves.iter().any(Vec::is_empty) {
                continue;
            }
            let is_proved = leaves.iter().all(|ways| ways.iter().any(&mut never));
            whole.arrays.insert(param, if is_proved { State::Always } else { State::Open(leaves) });
        }
        whole.values = whole.asks_for_values(given);
        whole
    }

    fn asks_for_values(&self, given: &Given) -> bool {
        let vars = |form: &Linear| form.terms().iter().map(|&(var, _)| var).collect::<Vec<Var>>();
        let told: FxHashSet<Var> = given.extents.values().flat_map(vars).collect();
        let values: FxHashSet<Var> = given.params.values().flat_map(vars).filter(|var| !told.contains(var)).collect();
        let questions = self.arrays.values().flat_map(|state| match state {
            State::Always => &[][..],
            State::Open(leaves) => leaves,
        });
        questions.flatten().any(|question| question.launch.iter().any(|(var, _)| values.contains(var)))
    }

    /// Returns whether an answer about a launch depends on the values of its parameters.
    pub fn depends_on_values(&self) -> bool {
        self.values
    }

    /// Returns the arrays that a launch as declared writes as a whole, by position.
    pub fn written(&self, given: &Given, launch: &Numbers<'_>) -> Vec<u32> {
        let known = known(given, launch);
        let mut examined = self.examined.load(Ordering::Relaxed);
        let mut written = vec![];
        for (&param, state) in &self.arrays {
            let is_whole = match state {
                State::Always => true,
                State::Open(_) if examined >= MAX_LAUNCHES => false,
                State::Open(leaves) => {
                    examined = self.examined.fetch_add(1, Ordering::Relaxed);
                    let never = |question: &Question| {
                        let question = at(question, &known);
                        matches!(question.answer(&WORK), Answer::Never(..))
                    };
                    leaves.iter().all(|ways| ways.iter().any(never))
                }
            };
            written.extend(is_whole.then_some(param));
        }
        written
    }
}

/// Returns what is a number in a launch.
pub(super) fn known(given: &Given, launch: &Numbers<'_>) -> Vec<(Linear, i128)> {
    let mut known: Vec<(Linear, i128)> = vec![];
    for (&(param, axis), form) in &given.extents {
        known.extend((launch.extent)(param, axis).map(|n| (form.clone(), n)));
    }
    for (&param, form) in &given.params {
        known.extend((launch.value)(param).map(|n| (form.clone(), n)));
    }
    if let Some(grid) = &given.grid {
        let all = grid.grid.iter().zip(launch.grid).chain(grid.block.iter().zip(launch.block));
        known.extend(all.map(|(form, n)| (form.clone(), i128::from(n))));
    }
    known.retain(|(form, _)| !form.terms().is_empty());
    known
}

/// Returns the question about a launch.
pub(super) fn at(question: &Question, known: &[(Linear, i128)]) -> Question {
    let mut question = question.clone();
    let copies: FxHashMap<Var, Var> = question.launch.iter().copied().collect();
    for (form, n) in known {
        if form.terms().iter().all(|(var, _)| copies.contains_key(var)) {
            let fact = equal(&replaced(form, &mut |var| variable(copies[&var])), &number(*n));
            question.problem.facts.push(fact.clone());
            question.related.iter_mut().for_each(|problem| problem.facts.push(fact.clone()));
        }
    }
    question
}
