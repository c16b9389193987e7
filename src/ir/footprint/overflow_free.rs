//! Footprints that do not rely on operations that might overflow.
//!
//! Input: a kernel's body, a symbolic launch, and a function that proves obligations. Output: a footprint, and proofs
//! that all results on which it relies fit their types. If a result cannot be proved to fit, the analysis is repeated
//! with this result treated as unknown.

use rustc_hash::FxHashSet;

use super::def::{Footprint, OverflowRule, SignedOverflow, SymbolicLaunch};
use super::footprint;
use super::proof_obligation::ProofObligation;
use super::property_obligations;
use crate::def::Module;

/// The maximum number of repetitions of the analysis.
const MAX_ROUNDS: usize = 8;

/// A footprint that treats the results of operations that may overflow as unknown, a list of these operations, and
/// proofs that the other operations do not overflow.
pub struct OverflowFreeFootprint<C> {
    pub footprint: Footprint,
    /// Signed operations that may overflow and on which an index or condition depends.
    pub overflowing: Vec<ProofObligation>,
    /// Proofs that the other operations do not overflow.
    pub proofs: Vec<C>,
}

/// Computes the footprint, repeatedly, until all results on which it relies are proved to fit their types. `None` if
/// that takes too many repetitions of the analysis.
pub fn compute_overflow_free<C>(
    module: &Module,
    launch: &SymbolicLaunch,
    overflow: SignedOverflow,
    prove: &mut impl FnMut(&ProofObligation) -> Option<C>,
) -> Option<OverflowFreeFootprint<C>> {
    let mut opaque = FxHashSet::default();
    let mut unroll = true;
    let mut overflowing: Vec<ProofObligation> = vec![];
    for _ in 0..MAX_ROUNDS {
        let footprint = footprint(module, launch, &opaque, overflow, unroll);
        if footprint.stopped.is_some() && unroll {
            unroll = false;
            continue;
        }
        let (mut proofs, mut failed) = (vec![], false);
        for obligation in &footprint.obligations {
            if opaque.contains(&obligation.expr) {
                continue;
            }
            let question = property_obligations::overflow(&footprint, obligation, None);
            // That the launch has a thread matters only for products: all factors of the extents are then positive.
            let proof = prove(&question).or_else(|| {
                let has_products = !question.problem.products.is_empty();
                has_products
                    .then(|| property_obligations::overflow(&footprint, obligation, Some(launch)))
                    .and_then(|question| prove(&question))
            });
            match proof {
                Some(proof) => proofs.push(proof),
                None => {
                    failed = true;
                    opaque.insert(obligation.expr);
                    if obligation.rule == OverflowRule::Fault {
                        overflowing.push(question);
                    }
                }
            }
        }
        if !failed {
            return Some(OverflowFreeFootprint { footprint, overflowing, proofs });
        }
    }
    None
}
