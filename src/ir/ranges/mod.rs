//! Range analysis: which accesses of a kernel are in bounds, which operations cannot overflow, which divisors are not zero.
//!
//! An abstract interpretation of the body over intervals and launch constants ([`Fact`]). Conditions refine facts in
//! the branches they guard; loops are iterated, with widening, to a fixed point at their head. An access that is in bounds if two
//! launch constants are ordered is reported with that [`Bound`], which costs a device one comparison per launch instead of one
//! per access.

mod fact;
mod found;
mod transfer;
mod walk;

use crate::ir::def::Module;
pub use fact::{Fact, Symbol, type_range};
pub use found::{Bound, Given, Ranges, Setting, Site, Summary};
pub(crate) use transfer::rounded_up;

/// Analyzes the kernel's body, which contains no calls.
pub fn analyze(module: &Module, setting: Setting) -> Ranges {
    analyze_given(module, setting, None).0
}

/// As [`analyze`], of a kernel some of whose value parameters are no launch constants; returns also the fact about what it stores last.
pub fn analyze_given(module: &Module, setting: Setting, given: Option<&Given>) -> (Ranges, Option<Fact>) {
    let Some(function) = module.functions.get(module.kernel.body) else { return (Ranges::default(), None) };
    let mut walk = walk::Walk::new(function, setting, given);
    walk.run();
    let stored = walk.stored.take();
    let mut ranges = walk.found;
    // Of two bounds between the same two constants, the tighter one implies the other.
    ranges.assumptions.sort_by_key(|bound| (bound.left, bound.right, -bound.plus));
    ranges.assumptions.dedup_by_key(|bound| (bound.left, bound.right));
    (ranges, stored)
}
