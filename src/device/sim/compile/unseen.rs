//! What a launch of one block, or of blocks of one warp, cannot show of a kernel: conflicts that take a second one.
//!
//! In: a kernel's body. Out: for each of the two a reason, if there is one. Checks judge all orders of the threads that a launch has; of
//! threads that it does not have they know nothing. Between blocks, something is there to go wrong where
//!
//! - a store's index does not depend on the block, so that each block stores there (unless a condition on the block is around it),
//! - a store's index comes out of memory or of an atomic operation, and may be that of another block,
//! - an element that one access names is stored under another name elsewhere in the kernel: `x[i] = x[i - 1]`,
//! - blocks talk to each other by a `fence()` and what atomic operations tell them.
//!
//! Between warps, where the threads of one are ordered by warp operations or `warp_barrier()` and share memory that they write.

use rustc_hash::FxHashSet;

use crate::device::sim::code::Unseen;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::ops::BarrierKind;

pub(crate) fn unseen(f: &Function, kernel: &Kernel) -> Unseen {
    if kernel.form != Form::Grid {
        return Unseen::default();
    }
    let mut search = Search { f, on_block: FxHashSet::default(), loaded: FxHashSet::default(), reason: None };
    search.depend();
    search.block(&f.body, false);
    search.renamed();
    search.protocol();
    Unseen { blocks: search.reason.take(), warps: search.warps() }
}

struct Search<'a> {
    f: &'a Function,
    /// Values that depend on the block.
    on_block: FxHashSet<ExprId>,
    /// Values that come out of memory that the kernel may write, or of an atomic operation, or of other threads.
    loaded: FxHashSet<ExprId>,
    reason: Option<String>,
}

impl Search<'_> {
    /// Fills the sets, by way of locals too.
    fn depend(&mut self) {
        let f = self.f;
        let (mut blocks, mut loads) = (FxHashSet::default(), FxHashSet::default());
        let mut results = FxHashSet::default();
        each_stmt(&f.body, &mut |stmt| {
            if let StmtKind::Atomic { result: Some(id), .. } | StmtKind::Warp { result: id, .. } = stmt.kind {
                results.insert(id);
            }
        });
        loop {
            let before = (self.on_block.len(), self.loaded.len(), blocks.len(), loads.len());
            for (id, expr) in f.exprs.iter() {
                let (mut block, mut load) = match &expr.kind {
                    ExprKind::Id(Id3::Block | Id3::Global, _) => (true, false),
                    ExprKind::Load { .. } => (false, true),
                    ExprKind::Read(local) => (blocks.contains(local), loads.contains(local)),
                    _ => (false, results.contains(&id)),
                };
                expr.kind.operands(|operand| {
                    block |= self.on_block.contains(&operand);
                    load |= self.loaded.contains(&operand);
                });
                self.on_block.extend(block.then_some(id));
                self.loaded.extend(load.then_some(id));
            }
            each_stmt(&f.body, &mut |stmt| {
                let mut flows = |local: LocalId, from: ExprId| {
                    blocks.extend(self.on_block.contains(&from).then_some(local));
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
            if before == (self.on_block.len(), self.loaded.len(), blocks.len(), loads.len()) {
                return;
            }
        }
    }

    fn is_global(&self, memory: MemId) -> bool {
        matches!(self.f.memories[memory].space, Space::Global { access, .. } if access != Access::In)
    }

    fn say(&mut self, reason: String) {
        self.reason.get_or_insert(reason);
    }

    /// Stores that two blocks may both do. `told`: only some blocks get here.
    fn block(&mut self, block: &[Stmt], told: bool) {
        for stmt in block {
            if let StmtKind::Store { place, .. } = &stmt.kind
                && self.is_global(place.memory)
                && !told
            {
                let name = &self.f.memories[place.memory].name;
                let any = |set: &FxHashSet<ExprId>| place.indices.iter().any(|index| set.contains(index));
                if any(&self.loaded) {
                    self.say(format!("where `{name}` is stored to depends on what was read"));
                } else if !any(&self.on_block) {
                    self.say(format!("each block stores to the same elements of `{name}`"));
                }
            }
            let told = told || matches!(&stmt.kind, StmtKind::If { cond, .. } if self.on_block.contains(cond));
            stmt.kind.blocks().for_each(|inner| self.block(inner, told));
        }
    }

    /// Elements that are stored to under one name and touched under another.
    fn renamed(&mut self) {
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
                let reason = format!("elements of `{name}` are stored to and read under different indices");
                return self.say(reason);
            }
        }
    }

    /// A fence for all, and atomic operations that tell something.
    fn protocol(&mut self) {
        let (mut fence, mut takes) = (false, None);
        each_stmt(&self.f.body, &mut |stmt| match &stmt.kind {
            StmtKind::Fence(Scope::Device) => fence = true,
            StmtKind::Atomic { place, result: Some(_), .. } if self.is_global(place.memory) => {
                takes.get_or_insert(place.memory);
            }
            _ => {}
        });
        if let (true, Some(memory)) = (fence, takes) {
            self.say(format!("blocks talk to each other by way of `{}`", self.f.memories[memory].name));
        }
    }

    fn warps(&self) -> Option<String> {
        let f = self.f;
        let (mut meets, mut stored, mut read) = (false, FxHashSet::default(), FxHashSet::default());
        each_stmt(&f.body, &mut |stmt| match &stmt.kind {
            StmtKind::Warp { .. } | StmtKind::Barrier { kind: BarrierKind::Warp, .. } => meets = true,
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
        let exchanged = |id: &MemId| f.memories[*id].space == Space::Shared && stored.contains(id) && read.contains(id);
        let memory = f.memories.iter().map(|(id, _)| id).find(exchanged)?;
        let name = &f.memories[memory].name;
        meets.then(|| format!("what orders the threads of one warp does not order two at `{name}`"))
    }
}
