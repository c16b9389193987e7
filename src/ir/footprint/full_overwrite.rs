//! Full overwrites: arrays that a launch writes completely, so their previous contents do not matter.
//!
//! Input: the footprint of the body after all passes. Output: [`FullOverwrites`]: the arrays that every launch allowed
//! by the signature overwrites. For the other arrays, it contains obligations that are tried again for each launch,
//! with the sizes of that launch as additional facts.

use std::sync::atomic::{AtomicU32, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::{Footprint, FootprintAccess, FootprintAccessKind, SymbolicLaunch};
use super::formula::{equal, number, substitute, variable};
use super::proof_obligation::{ObligationAnswer, ProofObligation};
use super::write_coverage;
use crate::def::*;
use clk_base::linear::{AffineForm, SolverBudget, Var};

/// Work limits: solver budget for one obligation, and the number of obligations tried for a kernel without known launch
/// sizes.
const WORK: SolverBudget = SolverBudget { cases: 250, exchanges: 5_000 };
const MAX_QUESTIONS: usize = 100;
/// The maximum number of different launch sizes for which obligations are tried again.
const MAX_LAUNCHES: u32 = 64;

/// The arrays that launches overwrite completely and that the kernel does not read.
#[derive(Default)]
pub struct FullOverwrites {
    arrays: FxHashMap<u32, OverwriteState>,
    /// Whether an unproved obligation depends on the values of by-value parameters.
    needs_values: bool,
    examined: AtomicU32,
}

enum OverwriteState {
    Proved,
    /// Alternative obligations for each leaf (scalar or vector field) of the element. For a particular launch, one of
    /// the alternatives must be proved for every leaf.
    PerLaunch(Vec<Vec<ProofObligation>>),
}

/// The sizes and parameter values of a launch.
pub struct LaunchNumbers<'a> {
    pub extent: &'a dyn Fn(u32, u8) -> Option<i128>,
    pub value: &'a dyn Fn(u32) -> Option<i128>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

impl FullOverwrites {
    pub fn analyze(module: &Module, symbolic: &SymbolicLaunch, footprint: &Footprint) -> FullOverwrites {
        let mut questions_left = MAX_QUESTIONS;
        let mut prove = |question: &ProofObligation| {
            questions_left = questions_left.saturating_sub(1);
            questions_left > 0 && matches!(question.answer(&WORK), ObligationAnswer::Proved(..))
        };
        let function = &module.functions[module.kernel.body];
        let mut leaves: FxHashMap<MemId, Vec<Vec<ProofObligation>>> = FxHashMap::default();
        for (memory, ways) in
            write_coverage::coverage_obligations(function, symbolic, footprint, |access| access != Access::In)
        {
            leaves.entry(memory).or_default().push(ways);
        }
        let mut overwrites = FullOverwrites::default();
        for (memory, leaves) in leaves {
            let is_read =
                |access: &FootprintAccess| access.memory == memory && access.kind != FootprintAccessKind::Store;
            let MemorySpace::Global { param, .. } = function.memories[memory].space else { continue };
            if footprint.accesses.iter().any(is_read) || leaves.iter().any(Vec::is_empty) {
                continue;
            }
            let is_proved = leaves.iter().all(|ways| ways.iter().any(&mut prove));
            overwrites
                .arrays
                .insert(param, if is_proved { OverwriteState::Proved } else { OverwriteState::PerLaunch(leaves) });
        }
        overwrites.needs_values = overwrites.asks_for_values(symbolic);
        overwrites
    }

    fn asks_for_values(&self, symbolic: &SymbolicLaunch) -> bool {
        let vars = |form: &AffineForm| form.terms().iter().map(|&(var, _)| var).collect::<Vec<Var>>();
        let extent_vars: FxHashSet<Var> = symbolic.extents.values().flat_map(vars).collect();
        let values: FxHashSet<Var> =
            symbolic.params.values().flat_map(vars).filter(|var| !extent_vars.contains(var)).collect();
        let questions = self.arrays.values().flat_map(|state| match state {
            OverwriteState::Proved => &[][..],
            OverwriteState::PerLaunch(leaves) => leaves,
        });
        questions.flatten().any(|question| question.launch.iter().any(|(var, _)| values.contains(var)))
    }

    /// Returns whether the result for a launch depends on its parameter values.
    pub fn depends_on_values(&self) -> bool {
        self.needs_values
    }

    /// Returns the parameter positions of the arrays that a launch overwrites completely and that the kernel does not
    /// read.
    pub fn written(&self, symbolic: &SymbolicLaunch, launch: &LaunchNumbers<'_>) -> Vec<u32> {
        let values = known_values(symbolic, launch);
        let mut examined = self.examined.load(Ordering::Relaxed);
        let mut written = vec![];
        for (&param, state) in &self.arrays {
            let is_whole = match state {
                OverwriteState::Proved => true,
                OverwriteState::PerLaunch(_) if examined >= MAX_LAUNCHES => false,
                OverwriteState::PerLaunch(leaves) => {
                    examined = self.examined.fetch_add(1, Ordering::Relaxed);
                    let prove = |question: &ProofObligation| {
                        let question = instantiate(question, &values);
                        matches!(question.answer(&WORK), ObligationAnswer::Proved(..))
                    };
                    leaves.iter().all(|ways| ways.iter().any(prove))
                }
            };
            written.extend(is_whole.then_some(param));
        }
        written
    }
}

/// Returns the affine forms of extents, parameters and dimensions, with their values in a particular launch.
pub(super) fn known_values(symbolic: &SymbolicLaunch, launch: &LaunchNumbers<'_>) -> Vec<(AffineForm, i128)> {
    let mut values: Vec<(AffineForm, i128)> = vec![];
    for (&(param, axis), form) in &symbolic.extents {
        values.extend((launch.extent)(param, axis).map(|n| (form.clone(), n)));
    }
    for (&param, form) in &symbolic.params {
        values.extend((launch.value)(param).map(|n| (form.clone(), n)));
    }
    if let Some(grid) = &symbolic.grid {
        let all = grid.grid.iter().zip(launch.grid).chain(grid.block.iter().zip(launch.block));
        values.extend(all.map(|(form, n)| (form.clone(), i128::from(n))));
    }
    values.retain(|(form, _)| !form.terms().is_empty());
    values
}

/// Returns the obligation with the known values of a launch as additional facts.
pub(super) fn instantiate(question: &ProofObligation, values: &[(AffineForm, i128)]) -> ProofObligation {
    let mut question = question.clone();
    let copies: FxHashMap<Var, Var> = question.launch.iter().copied().collect();
    for (form, n) in values {
        if form.terms().iter().all(|(var, _)| copies.contains_key(var)) {
            let fact = equal(&substitute(form, &mut |var| variable(copies[&var])), &number(*n));
            question.problem.facts.push(fact.clone());
            question.related.iter_mut().for_each(|problem| problem.facts.push(fact.clone()));
        }
    }
    question
}
