//! What is around a place in a kernel: loops and conditions, from the outermost to the innermost.

use crate::base::source::Span;
use crate::check::typed::*;
use crate::check::walk;
use crate::lang::builtin::Builtin;
use crate::lang::ops::BarrierKind;

/// A loop or a condition around a place.
pub(super) struct Around<'a> {
    /// The condition of an `if` or a `while`, the range of a `for`.
    pub on: Option<&'a Expr>,
    pub block: &'a Block,
    pub is_loop: bool,
}

impl Around<'_> {
    /// Whether a place is in it.
    pub fn has(&self, at: Span) -> bool {
        at.is_in(self.block.span) || self.is_loop && self.on.is_some_and(|on| at.is_in(on.span))
    }

    /// Whether an iteration may end before the end of the loop's body.
    pub fn continues(&self) -> bool {
        let mut found = false;
        walk::stmts(self.block, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Continue));
        found
    }
}

/// Returns what is around a place.
pub(super) fn around(block: &Block, at: Span) -> Vec<Around<'_>> {
    let mut found = vec![];
    add(block, at, &mut found);
    found
}

fn add<'a>(block: &'a Block, at: Span, found: &mut Vec<Around<'a>>) {
    for stmt in block.stmts.iter().filter(|stmt| at.is_in(stmt.span)) {
        let is_loop = matches!(stmt.kind, StmtKind::For { .. } | StmtKind::While { .. } | StmtKind::Loop { .. });
        for (on, inner) in walk::inner(stmt) {
            enter(Around { on, block: inner, is_loop }, at, found);
        }
    }
    for (on, inner) in block.tail.iter().flat_map(|tail| walk::branches(tail)) {
        enter(Around { on, block: inner, is_loop: false }, at, found);
    }
}

fn enter<'a>(one: Around<'a>, at: Span, found: &mut Vec<Around<'a>>) {
    // The condition of a `while` is looked at in each iteration.
    if one.has(at) {
        let block = one.block;
        found.push(one);
        add(block, at, found);
    }
}

/// Whether a statement of a block is a barrier that all threads which come to it reach.
pub(super) fn is_barrier(stmt: &Stmt) -> bool {
    let mut found = false;
    let mut look = |e: &Expr| {
        found |= matches!(
            &e.kind,
            ExprKind::Builtin { builtin: Builtin::Barrier(kind), .. } if *kind != BarrierKind::Warp
        );
    };
    match &stmt.kind {
        StmtKind::Expr { expr, .. } if !matches!(expr.kind, ExprKind::If { .. } | ExprKind::Block(_)) => {
            walk::expr(expr, &mut look);
        }
        StmtKind::Let { value: Some(value), .. } => walk::expr(value, &mut look),
        _ => {}
    }
    found
}
