//! Race freedom: finds arrays on which no launch has a race, so that race checks can skip them.
//!
//! Input: the kernel's body after all passes, and the launches that its signature allows. Output: for each memory,
//! whether no two threads race on it and, for shared memory, whether every element is written before it is read. The
//! results hold for launches whose threads all reach the same barriers.

use super::def::{SignedOverflow, SymbolicLaunch};
use super::overflow_free::compute_overflow_free;
use super::proof_obligation::{ObligationAnswer, ProofObligation};
use super::property_obligations;
use super::write_coverage::{self, InitializedRead};
use crate::def::*;
use clk_base::linear::SolverBudget;

/// Work limits: solver budget for one obligation, and the number of obligations for a kernel.
const WORK: SolverBudget = SolverBudget { cases: 250, exchanges: 5_000 };
const MAX_QUESTIONS: usize = 600;

/// The properties proved about a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaceFreedom {
    /// The memory is global or shared and writable, and no two threads race on it.
    pub is_free: bool,
    /// The memory is shared, and every element is written before it is read.
    pub is_filled: bool,
}

/// Returns the proved properties of each memory.
pub(super) fn prove_race_freedom(module: &Module, launch: &SymbolicLaunch) -> Vec<RaceFreedom> {
    let function = &module.functions[module.kernel.body];
    let mut questions_left = MAX_QUESTIONS;
    let mut prove = |question: &ProofObligation| {
        questions_left = questions_left.checked_sub(1)?;
        matches!(question.answer(&WORK), ObligationAnswer::Proved(..)).then_some(())
    };
    let analyzed = compute_overflow_free(module, launch, SignedOverflow::Possible, &mut prove)
        .filter(|analyzed| analyzed.footprint.stopped.is_none());
    let Some(footprint) = analyzed.map(|analyzed| analyzed.footprint) else {
        return function.memories.iter().map(|_| RaceFreedom::default()).collect();
    };
    let mut is_free = |(id, memory): (MemId, &Memory)| {
        let matters = match memory.space {
            MemorySpace::Global { access, .. } => access != Access::In,
            MemorySpace::Shared => true,
            MemorySpace::Local | MemorySpace::Constant | MemorySpace::Param { .. } => false,
        };
        let obligations = matters
            .then(|| property_obligations::race_freedom_of(function, launch, &footprint, &|memory| memory == id))
            .flatten();
        obligations.is_some_and(|obligations| obligations.iter().all(|question| prove(question).is_some()))
    };
    // The proofs of `is_filled` below assume race freedom, so it is proved first for all arrays.
    let free: Vec<bool> = function.memories.iter().map(&mut is_free).collect();
    let mut prove_memory = |((id, memory), is_free): ((MemId, &Memory), bool)| {
        let is_asked = is_free && memory.space == MemorySpace::Shared;
        let reads =
            is_asked.then(|| write_coverage::initialized_read_obligations(function, launch, &footprint, id)).flatten();
        let mut is_written = |read: &InitializedRead| read.obligations.iter().any(|question| prove(question).is_some());
        RaceFreedom { is_free, is_filled: reads.is_some_and(|reads| reads.iter().all(&mut is_written)) }
    };
    function.memories.iter().zip(free).map(&mut prove_memory).collect()
}
