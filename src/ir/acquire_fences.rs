//! Finds where CUDA requires a fence so that an atomic operation acquires.
//!
//! If a thread uses the result of an atomic operation, Clk orders its later accesses after the operation that wrote
//! that value. CUDA's atomic operations are relaxed, so each such operation needs a fence after it. The fence is placed
//! as late as possible, before the next access that other threads can see. The fence of a loop that polls one location
//! is therefore after the loop, and an explicit fence of the program makes it unnecessary. Atomic operations in kernels
//! without fences, and reductions in all kernels, order nothing and need no fence.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::def::*;
use crate::forward_dataflow::{ForwardAnalysis, analyze_forward};
use crate::spin_loops::is_spin_loop;
use crate::visit::each_stmt;
use clk_base::source::Span;
use clk_scalar::ops::AtomicOp;

/// The fences that a kernel lacks.
#[derive(Default)]
pub struct AcquireFences {
    /// For each statement, by number: the scope of the fence that must precede it.
    before: FxHashMap<u32, FenceScope>,
}

impl AcquireFences {
    /// Returns the scope of the fence that must precede a statement, given its number in the order of [`each_stmt`].
    pub fn before(&self, stmt: u32) -> Option<FenceScope> {
        self.before.get(&stmt).copied()
    }
}

/// Finds the fences that a function without calls lacks. `is_used` tells whether the result of an atomic operation is
/// used.
pub fn find_acquire_fences(f: &Function, is_used: impl Fn(ExprId) -> bool) -> AcquireFences {
    AcquireAnalysis::new(f, is_used).map(|analysis| analysis.run().fences).unwrap_or_default()
}

/// A critical section that does not begin with a fence: an access follows the loop that takes a lock, and no fence
/// separates them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnfencedSection {
    /// The atomic operation that takes the lock.
    pub lock: Span,
    /// The first access of the section.
    pub access: Span,
    /// The scope of the fence that is missing.
    pub scope: FenceScope,
    memory: MemId,
}

/// Finds critical sections that do not begin with a fence. A critical section is between a spin loop, which takes a
/// lock, and an atomic operation on the same array, which releases it. CUDA lets accesses of the section come before
/// the loop. Barriers are taken for fences. In launches of one block, fences of the block suffice.
pub fn find_unfenced_sections(f: &Function, has_one_block: bool) -> Vec<UnfencedSection> {
    let Some(mut analysis) = AcquireAnalysis::new(f, |_| true) else { return vec![] };
    if has_one_block {
        analysis.scope = FenceScope::Block;
    }
    let mut sections: Vec<UnfencedSection> = analysis.run().unfenced.into_iter().collect();
    sections.dedup_by_key(|section| section.lock);
    sections
}

/// A pending acquire: an atomic operation whose result is used has been executed, and no fence since then.
#[derive(Clone, PartialEq)]
struct PendingAcquire {
    scope: FenceScope,
    /// The location of the atomic operation, if it is the only one. Accesses to the same location are ordered without a
    /// fence.
    place: Option<Place>,
}

/// A lock that has been taken.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TakenLock {
    /// The atomic operation that has taken it.
    atomic: Span,
    memory: MemId,
    /// The scope of the fence that must follow.
    scope: FenceScope,
}

#[derive(Clone, Default, PartialEq)]
struct AcquireState {
    pending: Option<PendingAcquire>,
    /// The locks after which the program has neither a fence nor an access that is not atomic.
    locks: BTreeSet<TakenLock>,
    /// The sections without a fence that have begun.
    sections: BTreeSet<UnfencedSection>,
}

struct AcquireAnalysis<'a, U> {
    f: &'a Function,
    is_used: U,
    /// The scope at which atomic operations on global memory acquire.
    scope: FenceScope,
    /// The results of the atomic operations in spin loops that take a lock: they change the element. Others wait for
    /// another thread.
    locks: FxHashSet<ExprId>,
    fences: AcquireFences,
    unfenced: BTreeSet<UnfencedSection>,
}

impl<'a, U: Fn(ExprId) -> bool> AcquireAnalysis<'a, U> {
    /// `None` if the function has no fence.
    fn new(f: &'a Function, is_used: U) -> Option<Self> {
        let mut scope = None;
        let mut locks = FxHashSet::default();
        each_stmt(&f.body, &mut |stmt| match &stmt.kind {
            StmtKind::Fence(FenceScope::Device) => scope = Some(FenceScope::Device),
            StmtKind::Fence(FenceScope::Block) => {
                scope.get_or_insert(FenceScope::Block);
            }
            StmtKind::Loop { body, .. } if is_spin_loop(f, body) => each_stmt(body, &mut |inner| {
                if let StmtKind::Atomic { op, value, compare, result: Some(result), .. } = inner.kind
                    && (op == AtomicOp::Exchange || compare.is_some_and(|compare| compare != value))
                {
                    locks.insert(result);
                }
            }),
            _ => {}
        });
        let (fences, unfenced) = (AcquireFences::default(), BTreeSet::new());
        Some(AcquireAnalysis { f, is_used, scope: scope?, locks, fences, unfenced })
    }

    fn run(mut self) -> Self {
        let body = &self.f.body;
        analyze_forward(&mut self, body, AcquireState::default());
        self
    }
}

impl<U: Fn(ExprId) -> bool> ForwardAnalysis for AcquireAnalysis<'_, U> {
    type State = AcquireState;

    fn join(state: &mut AcquireState, other: &AcquireState) {
        state.pending = match (state.pending.take(), &other.pending) {
            (Some(a), Some(b)) => {
                let place = a.place.filter(|p| b.place.as_ref() == Some(p));
                Some(PendingAcquire { scope: a.scope.max(b.scope), place })
            }
            (a, b) => a.or_else(|| b.clone()),
        };
        state.locks.extend(other.locks.iter().cloned());
        state.sections.extend(other.sections.iter().cloned());
    }

    fn visit(&mut self, stmt: &Stmt, number: u32, state: &mut AcquireState) {
        match &stmt.kind {
            StmtKind::Let(id) => {
                // After an index is recomputed, the same expression may refer to a different location.
                if let Some(acquire) = &mut state.pending {
                    acquire.place = acquire.place.take().filter(|place| !place.indices.contains(id));
                }
                if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind
                    && self.f.is_shared_between_threads(place.memory)
                {
                    self.insert_before_access(stmt.span, number, state);
                }
            }
            StmtKind::Store { place, .. } if self.f.is_shared_between_threads(place.memory) => {
                self.insert_before_access(stmt.span, number, state)
            }
            StmtKind::Atomic { place, result, .. } => self.visit_atomic(place, *result, stmt.span, number, state),
            // A barrier also releases: threads that continue after it must see the writes that this thread has
            // acquired. So the pending acquire fence comes before it. A warp operation with a mask does not synchronize
            // with lanes outside the mask.
            StmtKind::Barrier { .. } | StmtKind::Warp { .. } => {
                self.insert(number, state.pending.take());
                state.locks.clear();
            }
            StmtKind::Fence(scope) => {
                state.pending = state.pending.take().filter(|acquire| *scope < acquire.scope);
                state.locks.retain(|lock| *scope < lock.scope);
            }
            _ => {}
        }
    }
}

impl<U: Fn(ExprId) -> bool> AcquireAnalysis<'_, U> {
    fn visit_atomic(
        &mut self,
        place: &Place,
        result: Option<ExprId>,
        span: Span,
        number: u32,
        state: &mut AcquireState,
    ) {
        if !self.f.is_shared_between_threads(place.memory) {
            return;
        }
        if state.pending.as_ref().is_some_and(|acquire| acquire.place.as_ref() != Some(place)) {
            self.insert(number, state.pending.take());
        }
        let memory = place.memory;
        let is_shared = self.f.memories[memory].space == MemorySpace::Shared;
        let scope = if is_shared { FenceScope::Block } else { self.scope };
        if result.is_some_and(|id| (self.is_used)(id)) {
            state.pending = Some(PendingAcquire { scope, place: Some(place.clone()) });
        }
        if result.is_some_and(|result| self.locks.contains(&result)) {
            state.locks.insert(TakenLock { atomic: span, memory, scope });
        } else {
            // The lock is released.
            self.unfenced.extend(state.sections.iter().filter(|section| section.memory == memory).cloned());
            state.sections.retain(|section| section.memory != memory);
            state.locks.retain(|lock| lock.memory != memory);
        }
    }

    /// Inserts the pending fence before an access that is not atomic, with which sections of taken locks begin.
    fn insert_before_access(&mut self, access: Span, number: u32, state: &mut AcquireState) {
        let locks = std::mem::take(&mut state.locks).into_iter();
        state.sections.extend(locks.map(|TakenLock { atomic: lock, memory, scope }| UnfencedSection {
            lock,
            access,
            scope,
            memory,
        }));
        self.insert(number, state.pending.take());
    }

    /// Inserts a pending fence before a statement.
    fn insert(&mut self, number: u32, pending: Option<PendingAcquire>) {
        if let Some(acquire) = pending {
            let scope = self.fences.before.entry(number).or_insert(acquire.scope);
            *scope = acquire.scope.max(*scope);
        }
    }
}
