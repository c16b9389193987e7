//! Inserts fences that the source does not contain but that Clk's memory model requires, because CUDA's instructions
//! guarantee less ordering.
//!
//! Input: a kernel's body. Output: the statements that need a `__threadfence()` before them, and the warp operations
//! that need a `__syncwarp()` after them.
//!
//! - **Acquire.** If a thread uses the result of an atomic operation, its later accesses are ordered after the
//!   operation that wrote that value. CUDA's atomic operations are relaxed, so each such operation needs a fence after
//!   it. The fence is placed as late as possible, before the next access that other threads can see. The fence of a
//!   loop that polls one location is therefore after the loop, and an explicit fence of the program makes it
//!   unnecessary. Atomic operations in kernels without fences, and reductions in all kernels, order nothing and need no
//!   fence.
//! - **Warp operations** order the memory accesses of their threads, but CUDA's warp operations only exchange
//!   registers. A `__syncwarp()` is inserted if an access to an array before the last warp operation may conflict with
//!   an access to it after that operation. Two loads do not conflict, and neither do two reductions.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::plan::InliningPlan;
use clk_ir::def::*;
use clk_ir::visit::each_stmt;

#[derive(Default)]
pub(crate) struct Fences {
    /// For each statement, by number: the scope of the fence that must precede it.
    before: FxHashMap<u32, FenceScope>,
    /// Numbers of the warp operations that need a `__syncwarp()` after them.
    synced: FxHashSet<u32>,
}

impl Fences {
    pub fn before(&self, stmt: u32) -> Option<FenceScope> {
        self.before.get(&stmt).copied()
    }

    pub fn syncs(&self, warp: u32) -> bool {
        self.synced.contains(&warp)
    }
}

/// The kind of an access with regard to ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FenceAccess {
    Load,
    Store,
    /// An atomic operation whose result is unused. Reductions of one element commute.
    Reduction,
}

/// A pending acquire: an atomic operation whose result is used has been executed, and no fence since then.
#[derive(Clone, PartialEq)]
struct PendingAcquire {
    scope: FenceScope,
    /// The location of the atomic operation, if it is the only one. Accesses to the same location are ordered without a
    /// fence.
    place: Option<Place>,
}

/// The accesses to an array since the last barrier.
#[derive(Clone, Default, PartialEq)]
struct UnorderedAccesses {
    /// Whether some path from such an access to the current point contains no warp operation.
    has_unsynced_path: bool,
    /// The last warp operation on each of the other paths.
    last_warp_ops: BTreeSet<u32>,
}

/// The dataflow state at a point of the program, joined over all paths.
#[derive(Clone, Default, PartialEq)]
struct FenceState {
    pending_acquire: Option<PendingAcquire>,
    unordered: BTreeMap<(MemId, FenceAccess), UnorderedAccesses>,
}

impl FenceState {
    fn join(&mut self, other: &FenceState) {
        self.pending_acquire = match (self.pending_acquire.take(), &other.pending_acquire) {
            (Some(a), Some(b)) => {
                let scope = if b.scope == FenceScope::Device { b.scope } else { a.scope };
                Some(PendingAcquire { scope, place: a.place.filter(|p| b.place.as_ref() == Some(p)) })
            }
            (a, b) => a.or_else(|| b.clone()),
        };
        for (key, accesses) in &other.unordered {
            let own = self.unordered.entry(*key).or_default();
            own.has_unsynced_path |= accesses.has_unsynced_path;
            own.last_warp_ops.extend(&accesses.last_warp_ops);
        }
    }
}

fn join(to: &mut Option<FenceState>, from: Option<FenceState>) {
    match (to, from) {
        (Some(to), Some(from)) => to.join(&from),
        (to @ None, from) => *to = from,
        (_, None) => {}
    }
}

struct FencePlacement<'a> {
    f: &'a Function,
    plan: &'a InliningPlan,
    /// The scope at which atomic operations on global memory acquire, or `None` if they do not acquire.
    scope: Option<FenceScope>,
    warps: bool,
    stmt: u32,
    /// For each enclosing statement, the joined states at jumps out of it (`breaks`) and at jumps to its next
    /// iteration.
    breaks: FxHashMap<Label, Option<FenceState>>,
    continues: FxHashMap<Label, Option<FenceState>>,
    fences: Fences,
}

pub(crate) fn place_fences(f: &Function, plan: &InliningPlan) -> Fences {
    let (mut scope, mut warps) = (None, false);
    each_stmt(&f.body, &mut |stmt| match stmt.kind {
        StmtKind::Fence(FenceScope::Device) => scope = Some(FenceScope::Device),
        StmtKind::Fence(FenceScope::Block) => {
            scope.get_or_insert(FenceScope::Block);
        }
        StmtKind::Warp { among: None, .. } => warps = true,
        _ => {}
    });
    if scope.is_none() && !warps {
        return Fences::default();
    }
    let (breaks, continues) = (FxHashMap::default(), FxHashMap::default());
    let mut search = FencePlacement { f, plan, scope, warps, stmt: 0, breaks, continues, fences: Fences::default() };
    search.block(&f.body, Some(FenceState::default()));
    search.fences
}

impl FencePlacement<'_> {
    /// Returns the state after a block, or `None` if the end of the block is unreachable.
    fn block(&mut self, block: &Block, mut state: Option<FenceState>) -> Option<FenceState> {
        for stmt in block {
            state = self.stmt(stmt, state);
        }
        state
    }

    fn stmt(&mut self, stmt: &Stmt, state: Option<FenceState>) -> Option<FenceState> {
        let number = self.stmt;
        self.stmt += 1;
        let Some(mut state) = state else {
            // Advance the statement number past the unreachable statement.
            stmt.kind.blocks().for_each(|inner| each_stmt(inner, &mut |_| self.stmt += 1));
            return None;
        };
        match &stmt.kind {
            StmtKind::Let(id) => self.value(*id, number, &mut state),
            StmtKind::Store { place, .. } => {
                self.insert_acquire_fence(number, &mut state);
                self.access(place.memory, FenceAccess::Store, &mut state);
            }
            StmtKind::Atomic { place, result, .. } => self.atomic(place, *result, number, &mut state),
            // A barrier also releases: threads that continue after it must see the writes that this thread has
            // acquired. So the pending acquire fence comes before it. All kinds of barriers order the memory accesses
            // of a warp.
            StmtKind::Barrier { .. } => {
                self.insert_acquire_fence(number, &mut state);
                state.unordered.clear();
            }
            // A warp operation with a mask does not synchronize with lanes outside the mask.
            StmtKind::Warp { among: Some(_), .. } => self.insert_acquire_fence(number, &mut state),
            StmtKind::Warp { .. } => {
                self.insert_acquire_fence(number, &mut state);
                if self.fences.syncs(number) {
                    state.unordered.clear();
                }
                for accesses in state.unordered.values_mut() {
                    *accesses = UnorderedAccesses { has_unsynced_path: false, last_warp_ops: BTreeSet::from([number]) };
                }
            }
            StmtKind::Fence(scope) => {
                state.pending_acquire = state
                    .pending_acquire
                    .take()
                    .filter(|acquire| *scope == FenceScope::Block && acquire.scope == FenceScope::Device);
            }
            StmtKind::If { then, other, .. } => {
                let mut exit = self.block(then, Some(state.clone()));
                let other = self.block(other, Some(state));
                join(&mut exit, other);
                return exit;
            }
            StmtKind::For { label, body, .. } => return self.iterations(*label, body, state, true),
            StmtKind::Loop { label, body, .. } => return self.iterations(*label, body, state, false),
            StmtKind::Block { label, body } => {
                self.breaks.insert(*label, None);
                let mut exit = self.block(body, Some(state));
                join(&mut exit, self.breaks.remove(label).flatten());
                return exit;
            }
            StmtKind::Break(label) => {
                join(self.breaks.entry(*label).or_default(), Some(state));
                return None;
            }
            StmtKind::Continue(label) => {
                join(self.continues.entry(*label).or_default(), Some(state));
                return None;
            }
            StmtKind::Return(_) => return None,
            StmtKind::Write { .. }
            | StmtKind::Call { .. }
            | StmtKind::Assert { .. }
            | StmtKind::Print { .. }
            | StmtKind::Declare(_) => {}
        }
        Some(state)
    }

    /// Analyzes a loop until the state at its head reaches a fixpoint. `counts`: the loop may run zero times.
    fn iterations(&mut self, label: Label, body: &Block, state: FenceState, counts: bool) -> Option<FenceState> {
        let first = self.stmt;
        let mut head = Some(state);
        loop {
            self.stmt = first;
            self.breaks.insert(label, None);
            self.continues.insert(label, None);
            let marks = (self.fences.before.len(), self.fences.synced.len());
            let mut next = self.block(body, head.clone());
            join(&mut next, self.continues.remove(&label).flatten());
            let mut exit = self.breaks.remove(&label).flatten();
            let mut next_head = head.clone();
            join(&mut next_head, next);
            let stable = next_head == head && marks == (self.fences.before.len(), self.fences.synced.len());
            head = next_head;
            if stable {
                if counts {
                    join(&mut exit, head);
                }
                return exit;
            }
        }
    }

    /// Returns whether several threads may access the elements of a memory and at least one of them writes.
    fn is_shared_between_threads(&self, memory: MemId) -> bool {
        match self.f.memories[memory].space {
            MemorySpace::Global { access, .. } | MemorySpace::Param { access, .. } => access != Access::In,
            MemorySpace::Shared => true,
            MemorySpace::Local | MemorySpace::Constant => false,
        }
    }

    fn value(&mut self, id: ExprId, number: u32, state: &mut FenceState) {
        // After an index is recomputed, the same expression may refer to a different location.
        if let Some(acquire) = &mut state.pending_acquire {
            acquire.place = acquire.place.take().filter(|place| !place.indices.contains(&id));
        }
        if let ExprKind::Load { place, .. } = &self.f.exprs[id].kind
            && self.is_shared_between_threads(place.memory)
        {
            self.insert_acquire_fence(number, state);
            self.access(place.memory, FenceAccess::Load, state);
        }
    }

    fn atomic(&mut self, place: &Place, result: Option<ExprId>, number: u32, state: &mut FenceState) {
        let memory = place.memory;
        if !self.is_shared_between_threads(memory) {
            return;
        }
        if state.pending_acquire.as_ref().is_some_and(|acquire| acquire.place.as_ref() != Some(place)) {
            self.insert_acquire_fence(number, state);
        }
        let used = result.is_some_and(|id| self.plan.is_used(id));
        self.access(memory, if used { FenceAccess::Store } else { FenceAccess::Reduction }, state);
        if let (true, Some(scope)) = (used, self.scope) {
            let shared = self.f.memories[memory].space == MemorySpace::Shared;
            let scope = if shared { FenceScope::Block } else { scope };
            state.pending_acquire = Some(PendingAcquire { scope, place: Some(place.clone()) });
        }
    }

    /// Inserts the pending acquire fence, if any, before this statement.
    fn insert_acquire_fence(&mut self, number: u32, state: &mut FenceState) {
        if let Some(acquire) = state.pending_acquire.take() {
            let scope = self.fences.before.entry(number).or_insert(acquire.scope);
            if acquire.scope == FenceScope::Device {
                *scope = FenceScope::Device;
            }
        }
    }

    fn access(&mut self, memory: MemId, kind: FenceAccess, state: &mut FenceState) {
        if !self.warps || !self.is_shared_between_threads(memory) {
            return;
        }
        let meets = |other: FenceAccess| other == FenceAccess::Store || kind == FenceAccess::Store || other != kind;
        for (_, accesses) in state.unordered.iter().filter(|((m, other), _)| *m == memory && meets(*other)) {
            self.fences.synced.extend(&accesses.last_warp_ops);
        }
        // A warp operation with a `__syncwarp()` orders all accesses before it.
        state.unordered.retain(|_, accesses| {
            accesses.last_warp_ops.retain(|warp| !self.fences.synced.contains(warp));
            accesses.has_unsynced_path || !accesses.last_warp_ops.is_empty()
        });
        state.unordered.entry((memory, kind)).or_default().has_unsynced_path = true;
    }
}
