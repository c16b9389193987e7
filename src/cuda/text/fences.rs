//! Inserts fences that the source does not contain but that Clk's memory model requires, because CUDA's instructions
//! guarantee less ordering.
//!
//! Input: a kernel's body. Output: the statements that need a `__threadfence()` before them
//! ([`clk_ir::acquire_fences`]), and the warp operations that need a `__syncwarp()` after them.
//!
//! Warp operations order the memory accesses of their threads, but CUDA's warp operations only exchange registers. A
//! `__syncwarp()` is inserted if an access to an array before the last warp operation may conflict with an access to it
//! after that operation. Two loads do not conflict, and neither do two reductions.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use super::plan::InliningPlan;
use clk_ir::acquire_fences::{AcquireFences, find_acquire_fences};
use clk_ir::def::*;
use clk_ir::forward_dataflow::{ForwardAnalysis, analyze_forward};
use clk_ir::visit::each_stmt;

#[derive(Default)]
pub(crate) struct Fences {
    acquire: AcquireFences,
    /// Numbers of the warp operations that need a `__syncwarp()` after them.
    synced: FxHashSet<u32>,
}

impl Fences {
    /// Returns the scope of the fence that must precede a statement.
    pub fn before(&self, stmt: u32) -> Option<FenceScope> {
        self.acquire.before(stmt)
    }

    pub fn syncs(&self, warp: u32) -> bool {
        self.synced.contains(&warp)
    }
}

pub(crate) fn place_fences(f: &Function, plan: &InliningPlan) -> Fences {
    let mut has_warp_operations = false;
    each_stmt(&f.body, &mut |stmt| has_warp_operations |= matches!(stmt.kind, StmtKind::Warp { among: None, .. }));
    let mut syncs = WarpSyncs { f, plan, synced: FxHashSet::default() };
    if has_warp_operations {
        analyze_forward(&mut syncs, &f.body, UnorderedAccesses::default());
    }
    Fences { acquire: find_acquire_fences(f, |id| plan.is_used(id)), synced: syncs.synced }
}

/// The kind of an access with regard to ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FenceAccess {
    Load,
    Store,
    /// An atomic operation whose result is unused. Reductions of one element commute.
    Reduction,
}

/// The accesses since the last barrier, by array and kind.
type UnorderedAccesses = BTreeMap<(MemId, FenceAccess), AccessPaths>;

/// The paths from accesses to the current point.
#[derive(Clone, Default, PartialEq)]
struct AccessPaths {
    /// Whether some path from such an access to the current point contains no warp operation.
    has_unsynced_path: bool,
    /// The last warp operation on each of the other paths.
    last_warp_ops: BTreeSet<u32>,
}

/// Finds the warp operations that need a `__syncwarp()`.
struct WarpSyncs<'a> {
    f: &'a Function,
    plan: &'a InliningPlan,
    synced: FxHashSet<u32>,
}

impl ForwardAnalysis for WarpSyncs<'_> {
    type State = UnorderedAccesses;

    fn join(state: &mut UnorderedAccesses, other: &UnorderedAccesses) {
        for (key, paths) in other {
            let own = state.entry(*key).or_default();
            own.has_unsynced_path |= paths.has_unsynced_path;
            own.last_warp_ops.extend(&paths.last_warp_ops);
        }
    }

    fn visit(&mut self, stmt: &Stmt, number: u32, unordered: &mut UnorderedAccesses) {
        match &stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind {
                    self.access(place.memory, FenceAccess::Load, unordered);
                }
            }
            StmtKind::Store { place, .. } => self.access(place.memory, FenceAccess::Store, unordered),
            StmtKind::Atomic { place, result, .. } => {
                let is_used = result.is_some_and(|id| self.plan.is_used(id));
                let kind = if is_used { FenceAccess::Store } else { FenceAccess::Reduction };
                self.access(place.memory, kind, unordered);
            }
            // All kinds of barriers order the memory accesses of a warp.
            StmtKind::Barrier { .. } => unordered.clear(),
            StmtKind::Warp { among: None, .. } => {
                if self.synced.contains(&number) {
                    unordered.clear();
                }
                for paths in unordered.values_mut() {
                    *paths = AccessPaths { has_unsynced_path: false, last_warp_ops: BTreeSet::from([number]) };
                }
            }
            _ => {}
        }
    }

    fn version(&self) -> usize {
        self.synced.len()
    }
}

impl WarpSyncs<'_> {
    fn access(&mut self, memory: MemId, kind: FenceAccess, unordered: &mut UnorderedAccesses) {
        if !self.f.is_shared_between_threads(memory) {
            return;
        }
        let meets = |other: FenceAccess| other == FenceAccess::Store || kind == FenceAccess::Store || other != kind;
        for (_, paths) in unordered.iter().filter(|((m, other), _)| *m == memory && meets(*other)) {
            self.synced.extend(&paths.last_warp_ops);
        }
        // A warp operation with a `__syncwarp()` orders all accesses before it.
        unordered.retain(|_, paths| {
            paths.last_warp_ops.retain(|warp| !self.synced.contains(warp));
            paths.has_unsynced_path || !paths.last_warp_ops.is_empty()
        });
        unordered.entry((memory, kind)).or_default().has_unsynced_path = true;
    }
}
