//! Forwarding of locals: reads of locals with a known value become that value, from the last write or an earlier read.
//!
//! A value is known as long as no path to the read may have written the local since; after a branch or a loop only the values on
//! which all paths agree are known. Redundant and dead writes are removed by `dead`.

use rustc_hash::{FxHashMap, FxHashSet};

use super::edit::{Renames, breaks, never_completes, rename_all, written};
use crate::base::stop;
use crate::ir::def::*;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        let mut forward = Forward { function, renames: Renames::default(), visible: vec![] };
        let body = forward.block(body, &mut Known::default());
        let renames = forward.renames;
        function.body = body;
        rename_all(function, &renames);
    }
}

/// The known values of locals.
type Known = FxHashMap<LocalId, ExprId>;

struct Forward<'a> {
    function: &'a mut Function,
    renames: Renames,
    /// Expressions evaluated in the open blocks, outermost first.
    visible: Vec<FxHashSet<ExprId>>,
}

impl Forward<'_> {
    /// Walks a block; `known` becomes the state at its end, including values that are not visible outside.
    fn block(&mut self, block: Block, known: &mut Known) -> Block {
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

    fn stmt(&mut self, mut stmt: Stmt, known: &mut Known) -> Option<Stmt> {
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
                self.repeated(body, known);
            }
            StmtKind::Loop { body, .. } => self.repeated(body, known),
            StmtKind::Block { label, body } => {
                let changed = written(body);
                let mut inside = known.clone();
                *body = self.block(std::mem::take(body), &mut inside);
                if breaks(body, *label) {
                    known.retain(|local, _| !changed.contains(local));
                } else {
                    *known = inside;
                }
            }
            kind => kind.results(|id| self.define(id)),
        }
        Some(stmt)
    }

    /// Handles a loop's body: at its start and behind it, the locals that it writes are unknown.
    fn repeated(&mut self, body: &mut Block, known: &mut Known) {
        let changed = written(body);
        known.retain(|local, _| !changed.contains(local));
        let mut inside = known.clone();
        *body = self.block(std::mem::take(body), &mut inside);
    }
}
