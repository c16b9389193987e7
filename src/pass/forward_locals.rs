//! Forwarding of locals: replaces a read of a local by the value of the last write or the previous read.
//!
//! A local's value is known until a statement may write the local. After a branch or a loop, a value is known only if
//! it is the same on all paths. `dead_code` later removes writes that are no longer read.

use rustc_hash::{FxHashMap, FxHashSet};

use super::edit::{Renames, has_break, never_completes, rename_all, written_locals};
use clk_base::stop;
use clk_ir::def::*;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        let mut forward = Forward { function, renames: Renames::default(), visible: vec![] };
        let body = forward.block(body, &mut KnownLocals::default());
        let renames = forward.renames;
        function.body = body;
        rename_all(function, &renames);
    }
}

/// The known values of locals.
type KnownLocals = FxHashMap<LocalId, ExprId>;

struct Forward<'a> {
    function: &'a mut Function,
    renames: Renames,
    /// The expressions evaluated so far in each open block, outermost first.
    visible: Vec<FxHashSet<ExprId>>,
}

impl Forward<'_> {
    /// Processes a block. `known` is updated to the values at its end, including values that are not visible outside
    /// the block.
    fn block(&mut self, block: Block, known: &mut KnownLocals) -> Block {
        self.visible.push(FxHashSet::default());
        let mut out = Vec::with_capacity(block.len());
        for stmt in block {
            if let Some(stmt) = self.stmt(stmt, known) {
                stop::poll();
                out.push(stmt);
            }
        }
        self.visible.pop();
        known.retain(|_, value| self.is_visible(*value));
        out
    }

    fn is_visible(&self, value: ExprId) -> bool {
        self.function.exprs[value].kind.is_free() || self.visible.iter().any(|block| block.contains(&value))
    }

    fn define(&mut self, id: ExprId) {
        if let Some(block) = self.visible.last_mut() {
            block.insert(id);
        }
    }

    fn stmt(&mut self, mut stmt: Stmt, known: &mut KnownLocals) -> Option<Stmt> {
        self.renames.stmt(self.function, &mut stmt.kind);
        match &mut stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Read(local) = self.function.exprs[*id].kind {
                    if let Some(&value) = known.get(&local) {
                        self.renames.set(*id, value);
                        return None;
                    }
                    known.insert(local, *id);
                }
                self.define(*id);
            }
            StmtKind::Write { local, value } => {
                if known.insert(*local, *value) == Some(*value) {
                    return None;
                }
            }
            StmtKind::If { then, other, .. } => {
                let mut after_then = known.clone();
                *then = self.block(std::mem::take(then), &mut after_then);
                let mut after_other = std::mem::take(known);
                *other = self.block(std::mem::take(other), &mut after_other);
                *known = match (never_completes(then), never_completes(other)) {
                    (true, _) => after_other,
                    (_, true) => after_then,
                    _ => {
                        after_then.retain(|local, value| after_other.get(local) == Some(value));
                        after_then
                    }
                };
            }
            StmtKind::For { body, local, .. } => {
                let local = *local;
                known.retain(|l, _| *l != local);
                self.forward_in_loop(body, known);
            }
            StmtKind::Loop { body, .. } => self.forward_in_loop(body, known),
            StmtKind::Block { label, body } => {
                let changed = written_locals(body);
                let mut body_state = known.clone();
                *body = self.block(std::mem::take(body), &mut body_state);
                if has_break(body, *label) {
                    known.retain(|local, _| !changed.contains(local));
                } else {
                    *known = body_state;
                }
            }
            kind => kind.results(|id| self.define(id)),
        }
        Some(stmt)
    }

    /// Processes a loop's body. The locals that it writes are unknown at its start and after the loop.
    fn forward_in_loop(&mut self, body: &mut Block, known: &mut KnownLocals) {
        let changed = written_locals(body);
        known.retain(|local, _| !changed.contains(local));
        let mut body_state = known.clone();
        *body = self.block(std::mem::take(body), &mut body_state);
    }
}
