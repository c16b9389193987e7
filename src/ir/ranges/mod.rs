//! Range analysis: finds accesses that are in bounds, operations that cannot overflow, and divisors that are not zero.
//!
//! Input: a kernel's body without calls. Output: [`RangeAnalysis`]. The body is interpreted abstractly over intervals
//! with symbolic upper bounds ([`ValueBounds`]). Conditions refine the branches that they guard; loops are iterated
//! with widening to a fixpoint. Some accesses are in bounds if one launch constant is at most another. The analysis
//! reports such a [`SymbolInequality`], and the device checks it once per launch instead of checking every access.

mod interpreter;
mod results;
mod transfer;
mod value_bounds;

use crate::def::Module;
pub use results::{BodySite, ParamFacts, RangeAnalysis, RangeAssumptions, Summary, SymbolInequality};
pub(crate) use transfer::match_ceil_div;
pub use value_bounds::{LaunchConstant, ValueBounds};

/// Analyzes the kernel's body, which contains no calls.
pub fn analyze(module: &Module, assumptions: RangeAssumptions) -> RangeAnalysis {
    analyze_with_facts(module, assumptions, None).0
}

/// Like [`analyze`], but `param_facts` describes value parameters that are not launch constants. Also returns the
/// bounds of the value that the last store writes.
pub fn analyze_with_facts(
    module: &Module,
    assumptions: RangeAssumptions,
    param_facts: Option<&ParamFacts>,
) -> (RangeAnalysis, Option<ValueBounds>) {
    let Some(function) = module.functions.get(module.kernel.body) else { return (RangeAnalysis::default(), None) };
    let mut walker = interpreter::RangeWalker::new(function, assumptions, param_facts);
    walker.run();
    let stored = walker.stored.take();
    let mut ranges = walker.analysis;
    // If two inequalities compare the same constants, the tighter one implies the other.
    ranges.assumptions.sort_by_key(|bound| (bound.left, bound.right, -bound.plus));
    ranges.assumptions.dedup_by_key(|bound| (bound.left, bound.right));
    (ranges, stored)
}
