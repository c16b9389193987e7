//! Finds loops that only wait for other threads (spin loops), and kernels whose threads may wait forever.
//!
//! Input: a function without calls. A loop only waits if an iteration that does not leave it changes nothing: neither memory, except by
//! atomic operations that find what they would write, nor locals that later iterations read. `while atomic_exchange(lock[0], 1) != 0 {}`
//! only waits; a loop that takes work by `atomic_add(next[0], 1)` does not.

use rustc_hash::FxHashSet;

use crate::ir::def::*;
use crate::ir::variance::{Variance, Variances, analyze};
use crate::ir::visit::each_stmt;
use crate::lang::ops::{AtomicOp, BarrierKind};

/// Returns whether a loop with this body waits by atomic operations for another thread, and does nothing else.
pub fn only_waits(f: &Function, body: &Block) -> bool {
    let (mut inner, mut written) = (FxHashSet::default(), FxHashSet::default());
    let mut looks = false;
    each_stmt(body, &mut |stmt| {
        inner.extend(stmt.kind.label());
        match &stmt.kind {
            StmtKind::Atomic { result: Some(_), .. } => looks = true,
            StmtKind::Write { local, .. } => {
                written.insert(*local);
            }
            _ => {}
        }
    });
    looks && LoopBody { f, inner, written }.is_idle(body)
}

/// Returns whether threads may wait forever on a GPU: by a spin loop, or at a barrier of the block or grid that some of them may not reach.
pub fn may_hang(f: &Function) -> bool {
    let mut spins = false;
    each_stmt(&f.body, &mut |stmt| spins |= matches!(&stmt.kind, StmtKind::Loop { body, .. } if only_waits(f, body)));
    spins || {
        let variances = analyze(f);
        has_divergent_barrier(&variances, &f.body, variances.returns)
    }
}

/// Returns whether a block contains a barrier that some threads may not reach. `divergent`: some threads do not reach the block itself.
fn has_divergent_barrier(variances: &Variances, block: &Block, divergent: bool) -> bool {
    block.iter().any(|stmt| {
        let branches = match &stmt.kind {
            StmtKind::Barrier { kind, .. } if *kind != BarrierKind::Warp => return divergent,
            StmtKind::If { cond, .. } => variances.exprs[*cond] != Variance::Uniform,
            StmtKind::For { start, end, step, label, .. } => {
                let ragged = [start, end, step].iter().any(|e| variances.exprs[**e] != Variance::Uniform);
                ragged || variances.parts(*label)
            }
            kind => kind.label().is_some_and(|label| variances.parts(label)),
        };
        stmt.kind.blocks().any(|block| has_divergent_barrier(variances, block, divergent || branches))
    })
}

/// A loop whose body is examined.
struct LoopBody<'a> {
    f: &'a Function,
    /// Labels that the body defines.
    inner: FxHashSet<Label>,
    /// Locals that the body writes.
    written: FxHashSet<LocalId>,
}

impl LoopBody<'_> {
    /// Returns whether the block changes nothing unless it leaves the loop.
    fn is_idle(&self, block: &Block) -> bool {
        let leaves = match block.last().map(|stmt| &stmt.kind) {
            Some(StmtKind::Break(label)) => !self.inner.contains(label),
            Some(StmtKind::Return(_)) => true,
            _ => false,
        };
        leaves
            || block.iter().all(|stmt| match &stmt.kind {
                StmtKind::Write { value, .. } => !self.accumulates(*value),
                StmtKind::Atomic { op, value, .. } => self.is_repeatable(*op, *value),
                StmtKind::Let(_) | StmtKind::Fence(_) | StmtKind::Warp { .. } | StmtKind::Assert { .. } => true,
                StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_) => true,
                StmtKind::If { .. } | StmtKind::For { .. } | StmtKind::Loop { .. } | StmtKind::Block { .. } => {
                    stmt.kind.blocks().all(|block| self.is_idle(block))
                }
                _ => false,
            })
    }

    /// Returns whether an atomic operation leaves memory as it is if the same thread has just performed it with the same value.
    fn is_repeatable(&self, op: AtomicOp, value: ExprId) -> bool {
        match op {
            AtomicOp::Add | AtomicOp::Sub | AtomicOp::Xor => matches!(self.f.exprs[value].kind, ExprKind::Const(0)),
            _ => !self.accumulates(value),
        }
    }

    /// Returns whether a value depends on a local that the loop writes, and so perhaps on earlier iterations.
    fn accumulates(&self, value: ExprId) -> bool {
        // Expressions share operands: each is visited once.
        let (mut visited, mut pending) = (FxHashSet::default(), vec![value]);
        while let Some(id) = pending.pop() {
            if !visited.insert(id) {
                continue;
            }
            match &self.f.exprs[id].kind {
                ExprKind::Read(local) if self.written.contains(local) => return true,
                kind => kind.operands(|operand| pending.push(operand)),
            }
        }
        false
    }
}
