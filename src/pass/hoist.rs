//! Loop-invariant code motion: expressions that have the same value in every iteration are computed once before the loop.
//!
//! Only expressions that cannot fault move, since the trip count may be zero. Loads stay. A read of a local moves if the loop
//! does not write it.

use rustc_hash::FxHashSet;

use super::edit::{Faults, may_fault, may_fault_checked, written};
use crate::base::stop;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

pub(crate) fn run(module: &mut Module) {
    run_with(module, may_fault);
}

/// The variant for runs with checks, in which more operations can fault.
pub(crate) fn run_checked(module: &mut Module) {
    run_with(module, may_fault_checked);
}

fn run_with(module: &mut Module, faults: Faults) {
    for (_, function) in module.functions.iter_mut() {
        let mut body = std::mem::take(&mut function.body);
        block(function, &mut body, faults);
        function.body = body;
    }
}

/// Inner loops first, so that expressions hoisted out of them may move further.
fn block(function: &Function, stmts: &mut Block, faults: Faults) {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in std::mem::take(stmts) {
        stop::poll();
        for inner in stmt.kind.blocks_mut() {
            block(function, inner, faults);
        }
        let mut changed = written(std::slice::from_ref(&stmt));
        if let StmtKind::For { body, .. } | StmtKind::Loop { body, .. } = &mut stmt.kind {
            let mut inside = Inside { function, exprs: defined(body), written: std::mem::take(&mut changed), faults };
            inside.take(body, &mut out);
        }
        out.push(stmt);
    }
    *stmts = out;
}

/// Returns the expressions that a loop's body evaluates.
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

/// What changes between the iterations of a loop.
struct Inside<'a> {
    function: &'a Function,
    exprs: FxHashSet<ExprId>,
    written: FxHashSet<LocalId>,
    faults: Faults,
}

impl Inside<'_> {
    /// Moves loop-invariant expressions from a block of the loop to `out`.
    fn take(&mut self, block: &mut Block, out: &mut Block) {
        let mut kept = Vec::with_capacity(block.len());
        for mut stmt in std::mem::take(block) {
            if let StmtKind::Let(id) = stmt.kind
                && self.is_fixed(id)
            {
                self.exprs.remove(&id);
                out.push(stmt);
                continue;
            }
            for inner in stmt.kind.blocks_mut() {
                self.take(inner, out);
            }
            kept.push(stmt);
        }
        *block = kept;
    }

    fn is_fixed(&self, id: ExprId) -> bool {
        let kind = &self.function.exprs[id].kind;
        let mut fixed = match kind {
            ExprKind::Read(local) => !self.written.contains(local),
            _ => kind.is_pure() && !(self.faults)(self.function, id),
        };
        kind.operands(|operand| fixed &= !self.exprs.contains(&operand));
        fixed
    }
}
