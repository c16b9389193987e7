//! Loop-invariant code motion: computes expressions that have the same value in every iteration once before the loop.
//!
//! Only expressions that cannot fault are moved, since the loop may have no iterations. Loads are not moved. A read of
//! a local is moved if the loop does not write the local.

use rustc_hash::FxHashSet;

use super::edit::{FaultPredicate, may_fault, may_fault_checked, written_locals};
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::visit::each_stmt;

pub(crate) fn run(module: &mut Module) {
    run_with(module, may_fault);
}

/// Like [`run`], but for launches with checks, where more operations can fault.
pub(crate) fn run_checked(module: &mut Module) {
    run_with(module, may_fault_checked);
}

fn run_with(module: &mut Module, faults: FaultPredicate) {
    for (_, function) in module.functions.iter_mut() {
        let mut body = std::mem::take(&mut function.body);
        block(function, &mut body, faults);
        function.body = body;
    }
}

/// Processes inner loops first, so that expressions hoisted out of them can be hoisted out of outer loops too.
fn block(function: &Function, stmts: &mut Block, faults: FaultPredicate) {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in std::mem::take(stmts) {
        stop::poll();
        for inner in stmt.kind.blocks_mut() {
            block(function, inner, faults);
        }
        let mut changed = written_locals(std::slice::from_ref(&stmt));
        if let StmtKind::For { body, .. } | StmtKind::Loop { body, .. } = &mut stmt.kind {
            let mut changes =
                LoopChanges { function, exprs: defined(body), written: std::mem::take(&mut changed), faults };
            changes.hoist_from(body, &mut out);
        }
        out.push(stmt);
    }
    *stmts = out;
}

/// Returns the expressions that a loop's body evaluates, including nested blocks.
fn defined(body: &Block) -> FxHashSet<ExprId> {
    let mut out = FxHashSet::default();
    each_stmt(body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind {
            out.insert(id);
        }
        stmt.kind.results(|id| {
            out.insert(id);
        });
    });
    out
}

/// The expressions and locals that may change from iteration to iteration.
struct LoopChanges<'a> {
    function: &'a Function,
    exprs: FxHashSet<ExprId>,
    written: FxHashSet<LocalId>,
    faults: FaultPredicate,
}

impl LoopChanges<'_> {
    /// Moves loop-invariant expressions from a block of the loop to `out`.
    fn hoist_from(&mut self, block: &mut Block, out: &mut Block) {
        let mut remaining = Vec::with_capacity(block.len());
        for mut stmt in std::mem::take(block) {
            if let StmtKind::Let(id) = stmt.kind
                && self.is_invariant(id)
            {
                self.exprs.remove(&id);
                out.push(stmt);
                continue;
            }
            for inner in stmt.kind.blocks_mut() {
                self.hoist_from(inner, out);
            }
            remaining.push(stmt);
        }
        *block = remaining;
    }

    fn is_invariant(&self, id: ExprId) -> bool {
        let kind = &self.function.exprs[id].kind;
        let mut fixed = match kind {
            ExprKind::Read(local) => !self.written.contains(local),
            _ => kind.is_pure() && !(self.faults)(self.function, id),
        };
        kind.operands(|operand| fixed &= !self.exprs.contains(&operand));
        fixed
    }
}
