//! Finds hazards of a kernel that a launch of one block, or of blocks of one warp, cannot show.
//!
//! Input: a kernel's body. Output: a reason for each of the two, if there is one. The checks cover all interleavings of the
//! threads of a launch, but know nothing of threads that it does not have. Between blocks there is a potential conflict where
//!
//! - the index of a store does not depend on the block, so that each block stores to the same element (unless a condition on the
//!   block guards it),
//! - the index of a store comes from memory or from an atomic operation and may equal another block's,
//! - an element that one access names is stored to under another name elsewhere in the kernel: `x[i] = x[i - 1]`,
//! - blocks communicate by `fence()` and the results of atomic operations.
//!
//! Between warps there is one where threads of a warp are ordered by warp operations or `warp_barrier()` and share memory that
//! they write.

use rustc_hash::FxHashSet;

use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::ops::BarrierKind;

/// Why launches of one block, or of blocks of one warp, cannot show all hazards of a kernel, as text for notes.
#[derive(Clone, Debug, Default)]
pub struct Unseen {
    pub blocks: Option<String>,
    pub warps: Option<String>,
}

pub fn unseen(f: &Function, kernel: &Kernel) -> Unseen {
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
    /// Values that come from memory that the kernel may write, from an atomic operation or from other threads.
    loaded: FxHashSet<ExprId>,
    reason: Option<String>,
}

impl Search<'_> {
    /// Fills the sets, also by way of locals.
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

    /// Finds stores that two blocks may both execute. `told`: a condition on the block guards this code.
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

    /// Finds elements that are stored to under one name and accessed under another.
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

    /// Finds communication between blocks: a device-wide fence and atomic operations whose results are used.
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
