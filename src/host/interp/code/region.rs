//! Script variables in slots while a loop of the script runs. In: a loop; out: its code between the instructions that read the variables
//! and write them back.

use rustc_hash::FxHashMap;

use crate::base::source::Span;
use crate::check::typed::{Block, Expr, ExprKind, GlobalId, Stmt, StmtKind};
use crate::check::walk;
use crate::lang::scalar::Scalar;

use super::build::Builder;
use super::{Op, Region, Resident, Slot};

/// The most variables of a loop that are kept in slots: all are written back where something else looks at them.
const MOST: usize = 16;

impl Builder<'_> {
    /// Returns the slot of a script variable that has one here.
    pub fn resident(&self, expr: &Expr, ty: Scalar) -> Option<Slot> {
        let ExprKind::Global(id) = &expr.kind else { return None };
        self.residents.slots.get(id).filter(|(_, own)| *own == ty).map(|(slot, _)| *slot)
    }

    /// Builds a loop, whose script variables have slots.
    pub fn with_residents(&mut self, stmt: &Stmt, build: impl FnOnce(&mut Self)) {
        self.code.loops_in_script = true;
        let variables = if self.residents.slots.is_empty() { self.named(stmt) } else { Vec::new() };
        if variables.is_empty() || variables.len() > MOST {
            return build(self);
        }
        let region = self.code.regions.len() as u32;
        self.residents.slots = variables.iter().map(|of| (of.id, (of.slot, of.ty))).collect();
        self.residents.region = Some(region);
        self.code.regions.push(Region { first: 0, end: 0, variables });
        self.emit(Op::Enlist { region }, stmt.span);
        let first = self.here();
        build(self);
        let end = self.here();
        self.dismiss(stmt.span);
        (self.residents.slots, self.residents.region) = (FxHashMap::default(), None);
        if let Some(region) = self.code.regions.get_mut(region as usize) {
            (region.first, region.end) = (first, end);
        }
    }

    /// Writes the variables back that have slots here.
    pub fn dismiss(&mut self, span: Span) {
        if let Some(region) = self.residents.region {
            self.emit(Op::Dismiss { region }, span);
        }
    }

    /// Gives slots to the script variables that a loop names.
    fn named(&mut self, stmt: &Stmt) -> Vec<Resident> {
        if self.residents.settled.is_empty() {
            return Vec::new();
        }
        let mut ids: Vec<GlobalId> = Vec::new();
        let mut note = |expr: &Expr| {
            if let ExprKind::Global(id) = &expr.kind
                && !ids.contains(id)
            {
                ids.push(*id);
            }
        };
        each_expr(stmt, &mut note);
        ids.retain(|id| self.residents.settled.contains(id));
        let mut variables = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(global) = self.program.globals.get(id) else { continue };
            if let Some(ty) = self.scalar_of(&global.ty) {
                variables.push(Resident { id, slot: self.temporary(), ty, mutable: global.mutable });
            }
        }
        variables
    }
}

/// Visits the expressions of a loop.
fn each_expr(stmt: &Stmt, visit: &mut dyn FnMut(&Expr)) {
    let mut block = |block: &Block| walk::exprs(block, visit);
    match &stmt.kind {
        StmtKind::For { iter, body, .. } => {
            block(body);
            walk::expr(iter, visit);
        }
        StmtKind::While { cond, body, .. } => {
            block(body);
            walk::expr(cond, visit);
        }
        StmtKind::Loop { body } => block(body),
        _ => {}
    }
}
