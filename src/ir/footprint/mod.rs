//! Symbolic footprints: which array elements a thread of a kernel accesses, as formulas over its coordinates, the
//! launch's sizes and its loop iterations.
//!
//! Input: the body of a kernel with all calls inlined, and a [`SymbolicLaunch`]. Output: a [`Footprint`].
//! [`property_obligations`] states properties of the footprint as queries to the solver [`clk_base::linear`]. A
//! footprint may contain accesses that no thread executes, so a proof is valid, but a counterexample must be confirmed
//! by a run. `docs/internals/footprints.md` explains the method and the vocabulary: obligation, copy of a variable,
//! derived variable, digit of an index, part of a coordinate.

mod analysis;
pub mod bounds;
pub(crate) mod def;
mod eval;
mod flat_index;
pub mod formula;
pub mod full_overwrite;
mod loops;
pub mod overflow_free;
pub mod partition;
pub mod proof_obligation;
pub mod property_obligations;
pub mod race_freedom;
mod row_split;
mod slice;
mod state;
pub mod vars;
pub mod warp_cost_bounds;
pub mod write_coverage;

use rustc_hash::FxHashSet;

pub use def::*;
pub use formula::{at_most, constant, number, single, variable};

use crate::def::{ExprId, Module};

/// Computes the footprint of the kernel's body. The results of the operations in `opaque` are treated as unknown. If
/// `unroll` is set, short loops are analyzed iteration by iteration.
pub(crate) fn footprint(
    module: &Module,
    launch: &SymbolicLaunch,
    opaque: &FxHashSet<ExprId>,
    overflow: SignedOverflow,
    unroll: bool,
) -> Footprint {
    let Some(function) = module.functions.get(module.kernel.body) else { return Footprint::default() };
    analysis::run(state::FootprintAnalysis::new(function, launch, opaque, overflow, unroll))
}
