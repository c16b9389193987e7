//! What a loop computes anew in every turn, though it is always the same, is computed once before it.
//!
//! Only what cannot fault moves, since the loop may not run at all. Loads stay where they are.
//! A read of a local moves if the loop does not write it.

use rustc_hash::FxHashSet;

use super::edit::{Faults, may_fault, may_fault_checked, written};
use crate::base::stop;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

pub(crate) fn run(module: &mut Module) {
    run_with(module, may_fault);
}

/// For runs with checks, which have more faults.
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

/// Inner loops first, so that what leaves them may go on outwards.
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

/// The expressions that a loop's body evaluates.
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

/// What the turns of a loop change.
struct Inside<'a> {
    function: &'a Function,
    exprs: FxHashSet<ExprId>,
    written: FxHashSet<LocalId>,
    faults: Faults,
}

impl Inside<'_> {
    /// Moves what depends on nothing inside from a block of the loop to `out`.
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
