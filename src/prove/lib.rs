//! Layer 6: proofs that a kernel is correct for every size, and counterexamples that a run confirms.
//!
//! Input: a kernel of a checked program. Output: a [`ProofReport`]. Each [`Property`] is *proved* for all sizes,
//! *refuted* by a run that violates it, or *unknown*, with the line and the reason. Footprints
//! ([`clk_ir::footprint`]) turn each property into obligations for the decision procedure [`clk_base::linear`].
//! `docs/internals/prover.md` describes the method, the assumptions of a proof, and contracts.

#![allow(rustdoc::private_intra_doc_links)]

mod array_contents;
mod assumed_sizes;
mod contract_trials;
mod evidence;
mod expectations;
mod f64_shadow;
mod instances;
mod order_comparison;
mod prover;
mod replay;
mod report;
mod unavoidable_faults;
mod unstated_lengths;
mod untested_sizes;

pub use assumed_sizes::fit_sizes;
pub use contract_trials::ContractTrials;
pub use evidence::RaceEvidence;
pub use expectations::check_expectations;
pub use instances::kernels_of_file;
pub use prover::{ProofOptions, prove_kernel, prove_kernel_until, prove_kernel_with};
pub use replay::ReplaySizes;
pub use report::{ProofReport, ProofVerdict, Property};
pub use unavoidable_faults::{UnavoidableFault, unavoidable_faults};
pub use untested_sizes::{UntestedSizes, settle_warnings};
