//! Loads that the reverse sweep can repeat instead of recording, because the memory still holds the value.
//!
//! Input: a kernel's body. Output: the loads of shared memory and local arrays that no later statement writes, nor a
//! later iteration of an enclosing loop. Without a race, another thread can store to the memory later only if threads
//! synchronize through flags; so in kernels with fences, or with atomics whose old value is used, no load is
//! reloadable. Operands of matrix products are excluded, because the reverse sweep fills them again.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_ir::def::*;
use clk_ir::visit::each_stmt;

/// Returns the loads whose values are still in memory during the reverse sweep.
pub(super) fn find_reloadable(f: &Function) -> FxHashSet<ExprId> {
    let mut analysis = ReloadAnalysis {
        f,
        number: 0,
        last_writes: FxHashMap::default(),
        excluded: FxHashSet::default(),
        loads: vec![],
    };
    analysis.block(&f.body, true);
    let mut has_flags = false;
    each_stmt(&f.body, &mut |stmt| {
        has_flags |= matches!(stmt.kind, StmtKind::Fence(_) | StmtKind::Atomic { result: Some(_), .. });
    });
    if has_flags {
        return FxHashSet::default();
    }
    let ReloadAnalysis { last_writes, excluded, loads, .. } = analysis;
    let is_reloadable = |number: u32, memory: MemId| {
        let is_candidate =
            matches!(f.memories[memory].space, MemorySpace::Shared | MemorySpace::Local) && !excluded.contains(&memory);
        is_candidate && last_writes.get(&memory).is_none_or(|&end| end < number)
    };
    loads.into_iter().filter(|&(number, _, memory)| is_reloadable(number, memory)).map(|(_, id, _)| id).collect()
}

struct ReloadAnalysis<'a> {
    f: &'a Function,
    /// The number of statements visited so far.
    number: u32,
    /// For each memory, the number of the last statement that writes it. For a write in a loop, this is the last
    /// statement of the outermost loop.
    last_writes: FxHashMap<MemId, u32>,
    excluded: FxHashSet<MemId>,
    /// The loads, each with the number of its statement.
    loads: Vec<(u32, ExprId, MemId)>,
}

impl ReloadAnalysis<'_> {
    fn block(&mut self, block: &[Stmt], outermost: bool) {
        for stmt in block {
            self.number += 1;
            match &stmt.kind {
                StmtKind::Let(id) => {
                    if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind {
                        self.loads.push((self.number, *id, place.memory));
                    }
                }
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => {
                    self.last_writes.insert(place.memory, self.number);
                }
                // An array that is declared in an inner block may be declared again before the reverse sweep.
                StmtKind::Declare(memory) if !outermost => drop(self.excluded.insert(*memory)),
                StmtKind::For {
                    collective: Some(CollectiveLoop::Gemm(CollectiveGemm { left, right, .. })), ..
                } => self.excluded.extend([*left, *right]),
                _ => {}
            }
            let first = self.number;
            stmt.kind.blocks().for_each(|inner| self.block(inner, false));
            if matches!(stmt.kind, StmtKind::For { .. } | StmtKind::Loop { .. }) {
                let last = self.number;
                self.last_writes.values_mut().filter(|end| **end > first).for_each(|end| *end = last);
            }
        }
    }
}
