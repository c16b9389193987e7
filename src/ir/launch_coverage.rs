//! Finds hazards of a kernel that a launch with one block, or with one warp per block, cannot show.
//!
//! Input: a kernel's body. Output: a reason why one block is not enough, and a reason why one warp per block is not
//! enough, if there are any. The simulator's checks cover all interleavings of the threads of a launch, but a launch
//! with one block cannot show a conflict between blocks. Blocks may conflict if
//!
//! - the index of a store does not depend on the block and no condition on the block guards the store,
//! - the index of a store comes from memory or from an atomic operation, so another block may use the same index,
//! - an element is stored under one index and accessed under another: `x[i] = x[i - 1]`,
//! - blocks communicate by `fence()` and the results of atomic operations.
//!
//! Warps may conflict if warp operations or `warp_barrier()` order threads that exchange data through shared memory.

use rustc_hash::FxHashSet;

use crate::def::*;
use crate::visit::each_stmt;
use clk_scalar::ops::BarrierKind;

/// Reasons why launches with one block (`blocks`), or with one warp per block (`warps`), cannot show all hazards. The
/// text is used in notes.
#[derive(Clone, Debug, Default)]
pub struct CoverageGaps {
    pub blocks: Option<String>,
    pub warps: Option<String>,
}

pub fn find_coverage_gaps(f: &Function, kernel: &Kernel) -> CoverageGaps {
    if kernel.form != LaunchForm::Grid {
        return CoverageGaps::default();
    }
    let mut analysis =
        LaunchCoverageAnalysis { f, block_dependent: FxHashSet::default(), loaded: FxHashSet::default(), reason: None };
    analysis.compute_dependencies();
    analysis.check_stores(&f.body, false);
    analysis.check_index_mismatch();
    analysis.check_communication();
    CoverageGaps { blocks: analysis.reason.take(), warps: analysis.find_warp_gap() }
}

struct LaunchCoverageAnalysis<'a> {
    f: &'a Function,
    /// Values that depend on the block.
    block_dependent: FxHashSet<ExprId>,
    /// Values that come from writable memory, from an atomic operation or from other threads.
    loaded: FxHashSet<ExprId>,
    reason: Option<String>,
}

impl LaunchCoverageAnalysis<'_> {
    /// Computes `block_dependent` and `loaded`, including dependencies through locals.
    fn compute_dependencies(&mut self) {
        let f = self.f;
        let (mut blocks, mut loads) = (FxHashSet::default(), FxHashSet::default());
        let mut results = FxHashSet::default();
        each_stmt(&f.body, &mut |stmt| {
            if let StmtKind::Atomic { result: Some(id), .. } | StmtKind::Warp { result: id, .. } = stmt.kind {
                results.insert(id);
            }
        });
        loop {
            let before = (self.block_dependent.len(), self.loaded.len(), blocks.len(), loads.len());
            for (id, expr) in f.exprs.iter() {
                let (mut block, mut load) = match &expr.kind {
                    ExprKind::Id(BuiltinIndex::Block | BuiltinIndex::Global, _) => (true, false),
                    ExprKind::Load { .. } => (false, true),
                    ExprKind::Read(local) => (blocks.contains(local), loads.contains(local)),
                    _ => (false, results.contains(&id)),
                };
                expr.kind.operands(|operand| {
                    block |= self.block_dependent.contains(&operand);
                    load |= self.loaded.contains(&operand);
                });
                self.block_dependent.extend(block.then_some(id));
                self.loaded.extend(load.then_some(id));
            }
            each_stmt(&f.body, &mut |stmt| {
                let mut flows = |local: LocalId, from: ExprId| {
                    blocks.extend(self.block_dependent.contains(&from).then_some(local));
                    loads.extend(self.loaded.contains(&from).then_some(local));
                };
                match stmt.kind {
                    StmtKind::Write { local, value } => flows(local, value),
                    StmtKind::For { local, start, end, step, .. } => {
                        [start, end, step].into_iter().for_each(|e| flows(local, e));
                    }
                    _ => {}
                }
            });
            if before == (self.block_dependent.len(), self.loaded.len(), blocks.len(), loads.len()) {
                return;
            }
        }
    }

    fn is_global(&self, memory: MemId) -> bool {
        matches!(self.f.memories[memory].space, MemorySpace::Global { access, .. } if access != Access::In)
    }

    fn set_reason(&mut self, reason: String) {
        self.reason.get_or_insert(reason);
    }

    /// Finds stores by which two blocks may write the same element. `is_guarded` is set if an enclosing condition
    /// depends on the block.
    fn check_stores(&mut self, block: &[Stmt], is_guarded: bool) {
        for stmt in block {
            if let StmtKind::Store { place, .. } = &stmt.kind
                && self.is_global(place.memory)
                && !is_guarded
            {
                let name = &self.f.memories[place.memory].name;
                let any = |set: &FxHashSet<ExprId>| place.indices.iter().any(|index| set.contains(index));
                if any(&self.loaded) {
                    self.set_reason(format!("the index of a store to `{name}` depends on values from memory"));
                } else if !any(&self.block_dependent) {
                    self.set_reason(format!("each block stores to the same elements of `{name}`"));
                }
            }
            let is_guarded =
                is_guarded || matches!(&stmt.kind, StmtKind::If { cond, .. } if self.block_dependent.contains(cond));
            stmt.kind.blocks().for_each(|inner| self.check_stores(inner, is_guarded));
        }
    }

    /// Finds elements that are stored under one index and read under another.
    fn check_index_mismatch(&mut self) {
        let f = self.f;
        let mut places: Vec<(&Place, bool)> = vec![];
        each_stmt(&f.body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, .. } = &f.exprs[*id].kind {
                    places.push((place, false));
                }
            }
            StmtKind::Store { place, .. } => places.push((place, true)),
            _ => {}
        });
        for &(store, _) in places.iter().filter(|(place, stores)| *stores && self.is_global(place.memory)) {
            let other = |p: &Place| {
                let differ = |(a, b): (&ExprId, &ExprId)| a != b && f.exprs[*a].kind != f.exprs[*b].kind;
                p.memory == store.memory && p.indices.iter().zip(&store.indices).any(differ)
            };
            if places.iter().any(|&(place, stores)| !stores && other(place)) {
                let name = &f.memories[store.memory].name;
                let reason = format!("elements of `{name}` are stored and read with different indices");
                return self.set_reason(reason);
            }
        }
    }

    /// Finds communication between blocks: a device-wide fence and atomic operations whose results are used.
    fn check_communication(&mut self) {
        let (mut has_fence, mut atomic_target) = (false, None);
        each_stmt(&self.f.body, &mut |stmt| match &stmt.kind {
            StmtKind::Fence(FenceScope::Device) => has_fence = true,
            StmtKind::Atomic { place, result: Some(_), .. } if self.is_global(place.memory) => {
                atomic_target.get_or_insert(place.memory);
            }
            _ => {}
        });
        if let (true, Some(memory)) = (has_fence, atomic_target) {
            self.set_reason(format!("blocks communicate through `{}`", self.f.memories[memory].name));
        }
    }

    fn find_warp_gap(&self) -> Option<String> {
        let f = self.f;
        let (mut has_warp_sync, mut stored, mut read) = (false, FxHashSet::default(), FxHashSet::default());
        each_stmt(&f.body, &mut |stmt| match &stmt.kind {
            StmtKind::Warp { .. } | StmtKind::Barrier { kind: BarrierKind::Warp, .. } => has_warp_sync = true,
            StmtKind::Let(id) => {
                if let ExprKind::Load { place, .. } = &f.exprs[*id].kind {
                    read.insert(place.memory);
                }
            }
            StmtKind::Store { place, .. } => {
                stored.insert(place.memory);
            }
            _ => {}
        });
        let is_exchanged =
            |id: &MemId| f.memories[*id].space == MemorySpace::Shared && stored.contains(id) && read.contains(id);
        let memory = f.memories.iter().map(|(id, _)| id).find(is_exchanged)?;
        let name = &f.memories[memory].name;
        has_warp_sync.then(|| format!("warp synchronization does not order the accesses of two warps to `{name}`"))
    }
}
