//! Finds spin loops, which only wait for other threads, and kernels whose threads may wait forever.
//!
//! Input: a function without calls. In a spin loop, an iteration that does not exit the loop has no effect: it writes
//! no local that a later iteration reads, and no memory except by atomic operations that store the value that is
//! already there. For example, `while atomic_exchange(lock[0], 1) != 0 {}` is a spin loop. A loop that fetches work by
//! `atomic_add(next[0], 1)` is not, because each iteration changes `next[0]`.

use rustc_hash::FxHashSet;

use crate::def::*;
use crate::variance::{Variance, Variances, analyze};
use crate::visit::each_stmt;
use clk_scalar::ops::{AtomicOp, BarrierKind};

/// Returns whether a loop with this body is a spin loop: it only polls memory by atomic operations.
pub fn is_spin_loop(f: &Function, body: &Block) -> bool {
    let (mut inner, mut written) = (FxHashSet::default(), FxHashSet::default());
    let mut polls = false;
    each_stmt(body, &mut |stmt| {
        inner.extend(stmt.kind.label());
        match &stmt.kind {
            StmtKind::Atomic { result: Some(_), .. } => polls = true,
            StmtKind::Write { local, .. } => {
                written.insert(*local);
            }
            _ => {}
        }
    });
    polls && LoopBody { f, inner, written }.is_idle(body)
}

/// Returns whether threads may wait forever on a GPU: in a spin loop, or at a block or grid barrier that some threads
/// may not reach.
pub fn may_hang(f: &Function) -> bool {
    let mut spins = false;
    each_stmt(&f.body, &mut |stmt| spins |= matches!(&stmt.kind, StmtKind::Loop { body, .. } if is_spin_loop(f, body)));
    spins || {
        let variances = analyze(f);
        has_divergent_barrier(&variances, &f.body, variances.has_early_return)
    }
}

/// Returns whether a block contains a barrier that some threads may not reach. If `divergent` is set, some threads may
/// not execute the block, so they may not reach its barriers either.
fn has_divergent_barrier(variances: &Variances, block: &Block, divergent: bool) -> bool {
    block.iter().any(|stmt| {
        let is_divergent = match &stmt.kind {
            StmtKind::Barrier { kind, .. } if *kind != BarrierKind::Warp => return divergent,
            StmtKind::If { cond, .. } => variances.exprs[*cond] != Variance::Uniform,
            StmtKind::For { start, end, step, label, .. } => {
                let has_varying_bounds = [start, end, step].iter().any(|e| variances.exprs[**e] != Variance::Uniform);
                has_varying_bounds || variances.has_divergent_exit(*label)
            }
            kind => kind.label().is_some_and(|label| variances.has_divergent_exit(label)),
        };
        stmt.kind.blocks().any(|block| has_divergent_barrier(variances, block, divergent || is_divergent))
    })
}

/// A loop that is examined to find out whether it is a spin loop.
struct LoopBody<'a> {
    f: &'a Function,
    /// Labels of statements inside the body.
    inner: FxHashSet<Label>,
    /// Locals that the body writes.
    written: FxHashSet<LocalId>,
}

impl LoopBody<'_> {
    /// Returns whether the block has no effect unless it exits the loop.
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

    /// Returns whether an atomic operation has no effect if the thread repeats it with the same value.
    fn is_repeatable(&self, op: AtomicOp, value: ExprId) -> bool {
        match op {
            AtomicOp::Add | AtomicOp::Sub | AtomicOp::Xor => matches!(self.f.exprs[value].kind, ExprKind::Const(0)),
            _ => !self.accumulates(value),
        }
    }

    /// Returns whether a value depends on a local that the loop writes, so it may depend on earlier iterations.
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
