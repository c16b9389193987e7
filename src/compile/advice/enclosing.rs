//! Finds the loops and conditions that enclose a source location.

use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BarrierKind;

/// A loop or an `if` that encloses a source location.
pub(super) struct EnclosingBlock<'a> {
    /// The condition of an `if` or a `while`, or the range of a `for`.
    pub on: Option<&'a Expr>,
    pub block: &'a Block,
    pub is_loop: bool,
}

impl EnclosingBlock<'_> {
    /// Returns whether a location is inside this loop or `if`.
    pub fn contains(&self, at: Span) -> bool {
        at.is_in(self.block.span) || self.is_loop && self.on.is_some_and(|on| at.is_in(on.span))
    }

    /// Returns whether the body contains a `continue`.
    pub fn continues(&self) -> bool {
        let mut has_continue = false;
        visit::stmts(self.block, &mut |stmt| has_continue |= matches!(stmt.kind, StmtKind::Continue));
        has_continue
    }
}

/// Returns the loops and conditions that enclose a location, outermost first.
pub(super) fn enclosing_blocks(block: &Block, at: Span) -> Vec<EnclosingBlock<'_>> {
    let mut blocks = vec![];
    add_enclosing(block, at, &mut blocks);
    blocks
}

fn add_enclosing<'a>(block: &'a Block, at: Span, blocks: &mut Vec<EnclosingBlock<'a>>) {
    for stmt in block.stmts.iter().filter(|stmt| at.is_in(stmt.span)) {
        let is_loop = matches!(stmt.kind, StmtKind::For { .. } | StmtKind::While { .. } | StmtKind::Loop { .. });
        for (on, inner) in visit::inner(stmt) {
            enter_block(EnclosingBlock { on, block: inner, is_loop }, at, blocks);
        }
    }
    for (on, inner) in block.tail.iter().flat_map(|tail| visit::branches(tail)) {
        enter_block(EnclosingBlock { on, block: inner, is_loop: false }, at, blocks);
    }
}

fn enter_block<'a>(one: EnclosingBlock<'a>, at: Span, blocks: &mut Vec<EnclosingBlock<'a>>) {
    // The condition of a `while` counts as part of the loop, because it is evaluated in each iteration.
    if one.contains(at) {
        let block = one.block;
        blocks.push(one);
        add_enclosing(block, at, blocks);
    }
}

/// Returns whether a statement contains a block or grid barrier that it always executes.
pub(super) fn is_barrier(stmt: &Stmt) -> bool {
    let mut has_barrier = false;
    let mut look = |e: &Expr| {
        has_barrier |= matches!(
            &e.kind,
            ExprKind::Builtin { builtin: Builtin::Barrier(kind), .. } if *kind != BarrierKind::Warp
        );
    };
    match &stmt.kind {
        StmtKind::Expr { expr, .. } if !matches!(expr.kind, ExprKind::If { .. } | ExprKind::Block(_)) => {
            visit::expr(expr, &mut look);
        }
        StmtKind::Let { value: Some(value), .. } => visit::expr(value, &mut look),
        _ => {}
    }
    has_barrier
}
