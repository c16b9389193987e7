//! What an expression or a statement refers to, for reading and for renaming: passes say only what they do with it.

use crate::ir::def::*;

/// Serves `&` and `&mut` alike: binding modes follow what is matched. `$each` walks a vector.
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

/// The operands of a statement itself; not its results, not what its blocks use. A `Let`'s expression is not its operand.
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
            StmtKind::For { start, end, step, .. } => {
                $f(start);
                $f(end);
                $f(step);
            }
            StmtKind::Return(values) => values.$each().for_each(&mut $f),
            StmtKind::Call { args, .. } => args.$each().for_each(&mut $f),
            StmtKind::Assert { cond, message } => {
                $f(cond);
                for part in message.$each() {
                    if let Part::Value(value, _) = part {
                        $f(value);
                    }
                }
            }
            StmtKind::Print { parts } => {
                for part in parts.$each() {
                    if let Part::Value(value, _) = part {
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
    /// Calls `f` with each expression this one is computed from.
    pub fn operands(&self, mut f: impl FnMut(ExprId)) {
        let mut f = |id: &ExprId| f(*id);
        expr_operands!(self, f, iter);
    }

    pub(crate) fn operands_mut(&mut self, mut f: impl FnMut(&mut ExprId)) {
        expr_operands!(self, f, iter_mut);
    }

    /// The memory it names.
    pub(crate) fn memory_mut(&mut self) -> Option<&mut MemId> {
        match self {
            ExprKind::Extent(memory, _) => Some(memory),
            ExprKind::Load { place, .. } => Some(&mut place.memory),
            _ => None,
        }
    }

    /// Whether it is computed from operands alone, so that equal operands give equal values anywhere in a thread.
    pub(crate) fn is_pure(&self) -> bool {
        !matches!(self, ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result)
    }
}

impl StmtKind {
    /// Calls `f` with each expression the statement itself uses (not its blocks, not its results; not what a `Let` evaluates).
    pub(crate) fn operands(&self, mut f: impl FnMut(ExprId)) {
        let mut f = |id: &ExprId| f(*id);
        stmt_operands!(self, f, iter);
    }

    pub(crate) fn operands_mut(&mut self, mut f: impl FnMut(&mut ExprId)) {
        stmt_operands!(self, f, iter_mut);
    }

    /// Calls `f` with each `ExprKind::Result` that the statement gives a value.
    pub(crate) fn results(&self, mut f: impl FnMut(ExprId)) {
        let mut f = |id: &ExprId| f(*id);
        stmt_results!(self, f, iter);
    }

    pub(crate) fn results_mut(&mut self, mut f: impl FnMut(&mut ExprId)) {
        stmt_results!(self, f, iter_mut);
    }

    /// The blocks inside.
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

    pub(crate) fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        let (first, second) = match self {
            StmtKind::If { then, other, .. } => (Some(then), Some(other)),
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                (Some(body), None)
            }
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Calls `f` with each memory the statement itself names.
    pub(crate) fn memories_mut(&mut self, mut f: impl FnMut(&mut MemId)) {
        match self {
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => f(&mut place.memory),
            StmtKind::Call { memories, .. } => memories.iter_mut().for_each(f),
            StmtKind::Declare(memory) => f(memory),
            _ => {}
        }
    }

    /// The local it sets: of a `Write` or a `For`.
    pub(crate) fn local_mut(&mut self) -> Option<&mut LocalId> {
        match self {
            StmtKind::Write { local, .. } | StmtKind::For { local, .. } => Some(local),
            _ => None,
        }
    }

    /// The label it defines.
    pub(crate) fn label(&self) -> Option<Label> {
        match self {
            StmtKind::For { label, .. } | StmtKind::Loop { label, .. } | StmtKind::Block { label, .. } => Some(*label),
            _ => None,
        }
    }

    /// Nothing behind it in its block runs.
    pub fn leaves(&self) -> bool {
        matches!(self, StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_))
    }
}

/// Calls `f` with every statement, outer ones before inner ones, in order.
pub fn each_stmt<'a>(block: &'a [Stmt], f: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in stmt.kind.blocks() {
            each_stmt(inner, f);
        }
    }
}

pub(crate) fn each_stmt_mut(block: &mut Block, f: &mut impl FnMut(&mut Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in stmt.kind.blocks_mut() {
            each_stmt_mut(inner, f);
        }
    }
}
