//! Assumptions and results of range analysis.

use rustc_hash::{FxHashMap, FxHashSet};

use super::value_bounds::{LaunchConstant, ValueBounds};
use crate::def::*;
use clk_base::arena::Id;

/// Assumptions about the launches that the analysis covers.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeAssumptions {
    /// An upper bound on extents, indices and the number of threads along an axis. 0 means that only the type limits
    /// them.
    pub largest: u64,
    /// Threads per block along x, y, z, if known.
    pub block: Option<[u32; 3]>,
    /// Whether accesses may be proved under the assumption of a [`SymbolInequality`] that is checked at launch.
    pub assume: bool,
}

/// Describes the value parameters from position `first` on, which are not launch constants: the block's indices along
/// x, y and z, then parameters with the bounds `facts`, then parameters about which nothing is known. All arrays are
/// assumed to be nonempty.
#[derive(Clone, Debug)]
pub struct ParamFacts {
    pub first: u32,
    pub facts: Vec<ValueBounds>,
}

/// The inequality `left + plus <= right`. If `left` is `None`, the left side is `plus`; `right` may be a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolInequality {
    pub left: Option<LaunchConstant>,
    pub plus: i64,
    pub right: Result<LaunchConstant, u32>,
}

/// Numbers of accesses and divisions by outcome of the analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All loads, stores and atomics.
    pub accesses: u32,
    /// Accesses that are in bounds under an inequality checked at launch.
    pub assumed: u32,
    /// Accesses that were proved in bounds only for the launches that the kernel's signature allows.
    pub declared: u32,
    /// Accesses that need a bounds check.
    pub guarded: u32,
    /// Integer divisions and remainders.
    pub divisions: u32,
    /// Integer divisions and remainders that need a check.
    pub guarded_divisions: u32,
}

/// An access site in a body: a load expression, or a statement by its pre-order number (from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodySite {
    Load(ExprId),
    Stmt(u32),
}

/// The results of range analysis for a kernel.
#[derive(Clone, Debug, Default)]
pub struct RangeAnalysis {
    /// For each site, the axes whose index may be out of bounds.
    pub guards: FxHashMap<BodySite, Vec<u8>>,
    /// `+ - *`, negations, left shifts and absolute values of signed integers that cannot overflow.
    pub exact: FxHashSet<ExprId>,
    /// Divisions whose divisor may be zero.
    pub zero_divisors: FxHashSet<ExprId>,
    /// Divisions that may overflow, because they may divide the smallest integer by -1.
    pub overflowing_divisions: FxHashSet<ExprId>,
    /// Loops whose counter does not overflow even one step after its last value. The value is `true` if the loop counts
    /// up.
    pub non_overflowing_counters: FxHashMap<Label, bool>,
    /// Shifts by an amount that is at least 0 and less than the width of the type.
    pub in_range_shifts: FxHashSet<ExprId>,
    pub assumptions: Vec<SymbolInequality>,
    pub summary: Summary,
}

impl RangeAnalysis {
    /// Removes all bounds checks. Called if the kernel's creator guarantees that all accesses are in bounds.
    pub fn assume_in_bounds(&mut self) {
        self.guards.clear();
        self.summary.guarded = 0;
    }

    /// Removes the bounds checks of axes that were proved in bounds.
    pub fn remove_proved_guards(&mut self, proved: &FxHashMap<BodySite, Vec<u8>>) {
        for (site, axes) in proved {
            if let Some(open) = self.guards.get_mut(site) {
                open.retain(|axis| !axes.contains(axis));
            }
        }
        let before = self.guards.len();
        self.guards.retain(|_, open| !open.is_empty());
        let released = (before - self.guards.len()) as u32;
        self.summary.guarded -= released;
        self.summary.declared += released;
    }
}

/// Returns the position of the kernel parameter to which a memory of the body belongs.
pub(crate) fn parameter(function: &Function, memory: Id<Memory>) -> Option<u32> {
    match function.memories.get(memory)?.space {
        MemorySpace::Global { param, .. } => Some(param),
        MemorySpace::Shared | MemorySpace::Local | MemorySpace::Constant | MemorySpace::Param { .. } => None,
    }
}
