//! Loads of what a block has computed and keeps to its end: the mirror image reads that again instead of recording it.
//!
//! In: a kernel's body. Out: loads of shared memory and of local arrays that no statement behind them writes, also not in the next turn of a
//! loop. Another thread's store behind the load, in time but not in the text, needs flags to be no race: with fences, or
//! atomic operations whose old value is used, nothing is settled. Nor are factors of products, which the mirror image fills again.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::def::*;
use crate::ir::visit::each_stmt;

/// Returns the loads whose values are still in memory when the mirror image runs.
pub(super) fn settled(f: &Function) -> FxHashSet<ExprId> {
    let mut search = Search { f, number: 0, ends: FxHashMap::default(), never: FxHashSet::default(), loads: vec![] };
    search.block(&f.body, true);
    let mut flags = false;
    each_stmt(&f.body, &mut |stmt| {
        flags |= matches!(stmt.kind, StmtKind::Fence(_) | StmtKind::Atomic { result: Some(_), .. });
    });
    if flags {
        return FxHashSet::default();
    }
    let Search { ends, never, loads, .. } = search;
    let is_settled = |number: u32, memory: MemId| {
        let fits = matches!(f.memories[memory].space, Space::Shared | Space::Local) && !never.contains(&memory);
        fits && ends.get(&memory).is_none_or(|&end| end < number)
    };
    loads.into_iter().filter(|&(number, _, memory)| is_settled(number, memory)).map(|(_, id, _)| id).collect()
}

struct Search<'a> {
    f: &'a Function,
    /// Of statements so far.
    number: u32,
    /// The last statement that writes a memory, or is in an outermost loop that does.
    ends: FxHashMap<MemId, u32>,
    never: FxHashSet<MemId>,
    /// With their statements' numbers.
    loads: Vec<(u32, ExprId, MemId)>,
}

impl Search<'_> {
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
                    self.ends.insert(place.memory, self.number);
                }
                // An array of an inner block may not be there outside of it.
                StmtKind::Declare(memory) if !outermost => drop(self.never.insert(*memory)),
                StmtKind::For { together: Some(Together::Product(Factors { left, right, .. })), .. } => {
                    self.never.extend([*left, *right])
                }
                _ => {}
            }
            let first = self.number;
            stmt.kind.blocks().for_each(|inner| self.block(inner, false));
            if matches!(stmt.kind, StmtKind::For { .. } | StmtKind::Loop { .. }) {
                let last = self.number;
                self.ends.values_mut().filter(|end| **end > first).for_each(|end| *end = last);
            }
        }
    }
}
