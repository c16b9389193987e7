//! Parameters and results of range analysis.

use rustc_hash::{FxHashMap, FxHashSet};

use super::fact::{Fact, Symbol};
use crate::base::arena::Id;
use crate::ir::def::*;

/// Assumptions about the launches that the analysis covers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// The largest extent, index and number of threads along an axis; 0 stands for the type's own limit.
    pub largest: u64,
    /// Threads of a block along x, y, z, if known.
    pub block: Option<[u32; 3]>,
    /// Accesses may be proved under a [`Bound`], to be checked at launch.
    pub assume: bool,
}

/// Value parameters that are no launch constants: from this position on the numbers of the block along x, y, z, then those with these
/// facts, then others. No array is empty.
#[derive(Clone, Debug)]
pub struct Given {
    pub from: u32,
    pub facts: Vec<Fact>,
}

/// `left + plus <= right`; without a symbol, a side is just its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bound {
    pub left: Option<Symbol>,
    pub plus: i64,
    pub right: Result<Symbol, u32>,
}

/// Statistics of the proofs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Loads, stores and atomics.
    pub accesses: u32,
    /// Those in bounds under an assumption about the launch.
    pub assumed: u32,
    /// Those that are in bounds in every launch that the kernel's signature describes, as far as that is not seen at once.
    pub declared: u32,
    /// Those that need a guard.
    pub guarded: u32,
    /// Integer divisions and remainders, and those that need a guard.
    pub divisions: u32,
    pub guarded_divisions: u32,
}

/// A site in a body: a load, or a statement, numbered from 0 in pre-order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    Load(ExprId),
    Stmt(u32),
}

/// The results of the analysis.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// By site, the axes whose index may be out of bounds.
    pub guards: FxHashMap<Site, Vec<u8>>,
    /// `+ - *`, negations, left shifts and absolute values of signed integers that do not overflow.
    pub exact: FxHashSet<ExprId>,
    /// Divisions whose divisor may be zero.
    pub zero_divisors: FxHashSet<ExprId>,
    /// Divisions that may divide the smallest integer by -1.
    pub overflowing_divisions: FxHashSet<ExprId>,
    /// Loops whose counter, one step beyond its last value, is still in range of its type; and whether they count up.
    pub roomy_loops: FxHashMap<Label, bool>,
    /// Shifts by an amount from 0 to less than the width.
    pub small_shifts: FxHashSet<ExprId>,
    pub assumptions: Vec<Bound>,
    pub summary: Summary,
}

impl Ranges {
    /// Takes the word of the kernel's maker that all accesses are in bounds.
    pub fn vouch(&mut self) {
        self.guards.clear();
        self.summary.guarded = 0;
    }

    /// Takes axes of accesses as proved to be in bounds.
    pub fn release(&mut self, proved: &FxHashMap<Site, Vec<u8>>) {
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

/// Returns the parameter that a memory of the kernel's body is.
pub(crate) fn parameter(function: &Function, memory: Id<Memory>) -> Option<u32> {
    match function.memories.get(memory)?.space {
        Space::Global { param, .. } => Some(param),
        Space::Shared | Space::Local | Space::Constant | Space::Param { .. } => None,
    }
}
