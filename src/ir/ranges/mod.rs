//! Range analysis: which accesses of a kernel are in bounds, which operations cannot overflow, which divisors are not zero.
//!
//! An abstract interpretation of the body over intervals and launch constants ([`Fact`](fact::Fact)). Conditions refine facts in
//! the branches they guard; loops are iterated, with widening, to a fixed point at their head. An access that is in bounds if two
//! launch constants are ordered is reported with that [`Bound`], which costs a device one comparison per launch instead of one
//! per access.

mod fact;
mod found;
mod transfer;
mod walk;

use crate::ir::def::Module;
pub(crate) use fact::{Symbol, type_range};
pub(crate) use found::{Bound, Ranges, Setting, Site, Summary};

/// Analyzes the kernel's body, which contains no calls.
pub(crate) fn analyze(module: &Module, setting: Setting) -> Ranges {
    let Some(function) = module.functions.get(module.kernel.body) else { return Ranges::default() };
    let mut walk = walk::Walk::new(function, setting);
    walk.run();
    let mut ranges = walk.found;
    // Of two bounds between the same two constants, the tighter one implies the other.
    ranges.assumptions.sort_by_key(|bound| (bound.left, bound.right, -bound.plus));
    ranges.assumptions.dedup_by_key(|bound| (bound.left, bound.right));
    ranges
}
