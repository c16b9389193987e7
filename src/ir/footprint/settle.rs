//! Footprints that rest on no operation which might overflow.
//!
//! Input: a body, a launch in symbols, and a prover of questions. Output: the footprint with the proofs that what it follows fits its
//! types. The walk is repeated with what is not proved unknown, until all of the rest is.

use rustc_hash::FxHashSet;

use super::claim;
use super::def::{Footprint, Given, Strictness};
use super::footprint;
use super::question::Question;
use crate::ir::def::Module;

/// How often the walk is repeated because an operation turned out to be able to overflow.
const MAX_ROUNDS: usize = 8;

/// A footprint, and which operations may overflow.
pub struct Settled<C> {
    pub found: Footprint,
    /// Signed operations that an index or a condition depends on and that may overflow.
    pub overflowing: Vec<Question>,
    /// That the others do not.
    pub proofs: Vec<C>,
}

/// Walks the body until all results that are followed are proved to fit their types; `None` if that takes too many rounds.
pub fn settle<C>(module: &Module, given: &Given, prove: &mut impl FnMut(&Question) -> Option<C>) -> Option<Settled<C>> {
    let mut opaque = FxHashSet::default();
    let mut unroll = true;
    let mut overflowing: Vec<Question> = vec![];
    for _ in 0..MAX_ROUNDS {
        let found = footprint(module, given, &opaque, unroll);
        if found.stopped.is_some() && unroll {
            unroll = false;
            continue;
        }
        let (mut proofs, mut failed) = (vec![], false);
        for obligation in &found.obligations {
            if opaque.contains(&obligation.expr) {
                continue;
            }
            let question = claim::overflow(&found, obligation);
            match prove(&question) {
                Some(proof) => proofs.push(proof),
                None => {
                    failed = true;
                    opaque.insert(obligation.expr);
                    if obligation.strictness == Strictness::Fault {
                        overflowing.push(question);
                    }
                }
            }
        }
        if !failed {
            return Some(Settled { found, overflowing, proofs });
        }
    }
    None
}
