//! Visitors for everything to which expressions and statements refer: operands, results, blocks, memories, locals. Most
//! exist for shared and for mutable references.

use crate::def::*;
use clk_scalar::ops::AtomicOp;

/// Calls `$f` with each operand of an expression. Works for `&` and `&mut` through default binding modes; `$each`
/// iterates over a vector.
macro_rules! expr_operands {
    ($kind:expr, $f:ident, $each:ident) => {
        match $kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Id(..)
            | ExprKind::Index(_)
            | ExprKind::LaneIdx
            | ExprKind::WarpIdx
            | ExprKind::Extent(..)
            | ExprKind::Read(_)
            | ExprKind::Result => {}
            ExprKind::Load { place, .. } => place.indices.$each().for_each(&mut $f),
            ExprKind::Unary { value, .. }
            | ExprKind::Convert(value)
            | ExprKind::Bitcast(value)
            | ExprKind::Extract { value, .. } => $f(value),
            ExprKind::Binary { left, right, .. } => {
                $f(left);
                $f(right);
            }
            ExprKind::Math { args, .. } | ExprKind::Compose(args) => args.$each().for_each(&mut $f),
            ExprKind::Select { cond, then, other } => {
                $f(cond);
                $f(then);
                $f(other);
            }
        }
    };
}

/// Like `expr_operands`, for the operands of the statement itself. Excludes its results, its nested blocks and the
/// expression of a `Let`.
macro_rules! stmt_operands {
    ($kind:expr, $f:ident, $each:ident) => {
        match $kind {
            StmtKind::Let(_)
            | StmtKind::Fence(_)
            | StmtKind::Loop { .. }
            | StmtKind::Block { .. }
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Declare(_) => {}
            StmtKind::Write { value, .. } => $f(value),
            StmtKind::Store { place, value, .. } => {
                place.indices.$each().for_each(&mut $f);
                $f(value);
            }
            StmtKind::Atomic { place, value, compare, .. } => {
                place.indices.$each().for_each(&mut $f);
                $f(value);
                compare.$each().for_each(&mut $f);
            }
            StmtKind::Barrier { value, .. } => value.$each().for_each(&mut $f),
            StmtKind::Warp { value, lane, among, .. } => {
                $f(value);
                lane.$each().for_each(&mut $f);
                among.$each().for_each(&mut $f);
            }
            StmtKind::If { cond, .. } => $f(cond),
            StmtKind::For { start, end, step, collective, .. } => {
                $f(start);
                $f(end);
                $f(step);
                if let Some(CollectiveLoop::Copy(copy)) = collective {
                    for window in copy.axes.$each() {
                        match window {
                            AxisWindow::Index(index) => $f(index),
                            AxisWindow::Range { start, end, .. } => {
                                $f(start);
                                end.$each().for_each(&mut $f);
                            }
                        }
                    }
                }
            }
            StmtKind::Return(values) => values.$each().for_each(&mut $f),
            StmtKind::Call { args, .. } => args.$each().for_each(&mut $f),
            StmtKind::Assert { cond, message } => {
                $f(cond);
                for part in message.$each() {
                    if let MessageSegment::Value(value, _) = part {
                        $f(value);
                    }
                }
            }
            StmtKind::Print { parts } => {
                for part in parts.$each() {
                    if let MessageSegment::Value(value, _) = part {
                        $f(value);
                    }
                }
            }
        }
    };
}

macro_rules! stmt_results {
    ($kind:expr, $f:ident, $each:ident) => {
        match $kind {
            StmtKind::Atomic { result, .. } | StmtKind::Barrier { result, .. } => result.$each().for_each(&mut $f),
            StmtKind::Warp { result, .. } => $f(result),
            StmtKind::Call { results, .. } => results.$each().for_each(&mut $f),
            _ => {}
        }
    };
}

impl ExprKind {
    /// Calls `f` with each operand.
    pub fn operands(&self, mut f: impl FnMut(ExprId)) {
        let mut f = |id: &ExprId| f(*id);
        expr_operands!(self, f, iter);
    }

    pub fn operands_mut(&mut self, mut f: impl FnMut(&mut ExprId)) {
        expr_operands!(self, f, iter_mut);
    }

    /// Returns the memory to which the expression refers.
    pub fn memory_mut(&mut self) -> Option<&mut MemId> {
        match self {
            ExprKind::Extent(memory, _) => Some(memory),
            ExprKind::Load { place, .. } => Some(&mut place.memory),
            _ => None,
        }
    }

    /// Returns whether the value depends only on the operands. Two such expressions with equal operands have equal
    /// values anywhere in a thread.
    pub fn is_pure(&self) -> bool {
        !matches!(self, ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result)
    }
}

impl StmtKind {
    /// Calls `f` with each expression that the statement itself uses, without its blocks, its results and the
    /// expression of a `Let`.
    pub fn operands(&self, mut f: impl FnMut(ExprId)) {
        let mut f = |id: &ExprId| f(*id);
        stmt_operands!(self, f, iter);
    }

    pub fn operands_mut(&mut self, mut f: impl FnMut(&mut ExprId)) {
        stmt_operands!(self, f, iter_mut);
    }

    /// Calls `f` with each `ExprKind::Result` that the statement defines.
    pub fn results(&self, mut f: impl FnMut(ExprId)) {
        let mut f = |id: &ExprId| f(*id);
        stmt_results!(self, f, iter);
    }

    pub fn results_mut(&mut self, mut f: impl FnMut(&mut ExprId)) {
        stmt_results!(self, f, iter_mut);
    }

    /// Returns the nested blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let (first, second) = match self {
            StmtKind::If { then, other, .. } => (Some(then), Some(other)),
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                (Some(body), None)
            }
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        let (first, second) = match self {
            StmtKind::If { then, other, .. } => (Some(then), Some(other)),
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                (Some(body), None)
            }
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Calls `f` with each memory that the statement itself refers to.
    pub fn memories_mut(&mut self, mut f: impl FnMut(&mut MemId)) {
        match self {
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => f(&mut place.memory),
            StmtKind::Call { memories, .. } => memories.iter_mut().for_each(f),
            StmtKind::Declare(memory) => f(memory),
            StmtKind::For {
                collective: Some(CollectiveLoop::Gemm(CollectiveGemm { sum, left, right, .. })), ..
            } => [sum, left, right].into_iter().for_each(f),
            StmtKind::For { collective: Some(CollectiveLoop::Copy(copy)), .. } => {
                [&mut copy.to, &mut copy.from].into_iter().for_each(f)
            }
            _ => {}
        }
    }

    /// Returns the local that a `Write` or a `For` writes.
    pub fn local_mut(&mut self) -> Option<&mut LocalId> {
        match self {
            StmtKind::Write { local, .. } | StmtKind::For { local, .. } => Some(local),
            _ => None,
        }
    }

    /// Returns the label that the statement defines.
    pub fn label(&self) -> Option<Label> {
        match self {
            StmtKind::For { label, .. } | StmtKind::Loop { label, .. } | StmtKind::Block { label, .. } => Some(*label),
            _ => None,
        }
    }

    /// Returns whether the statement jumps, so that the following statements of its block are unreachable.
    pub fn is_jump(&self) -> bool {
        matches!(self, StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_))
    }
}

/// Calls `f` with every statement in pre-order.
pub fn each_stmt<'a>(block: &'a [Stmt], f: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in stmt.kind.blocks() {
            each_stmt(inner, f);
        }
    }
}

/// Like [`each_stmt`], but skips the bodies of loops that compute matrix products.
pub fn each_stmt_outside_products<'a>(block: &'a [Stmt], f: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        f(stmt);
        if !matches!(stmt.kind, StmtKind::For { collective: Some(CollectiveLoop::Gemm(_)), .. }) {
            stmt.kind.blocks().for_each(|inner| each_stmt_outside_products(inner, f));
        }
    }
}

pub fn each_stmt_mut(block: &mut Block, f: &mut impl FnMut(&mut Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in stmt.kind.blocks_mut() {
            each_stmt_mut(inner, f);
        }
    }
}

/// Returns whether the result of an atomic operation, or the final value in memory, depends on the order of the
/// threads.
pub fn depends_on_atomic_order(f: &Function, stmt: &StmtKind) -> bool {
    let StmtKind::Atomic { op, place, result, .. } = stmt else { return false };
    let is_float = f.memories[place.memory].layout.leaves[place.leaf as usize].ty.scalar().is_float();
    is_float || matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange) || result.is_some()
}
