//! Script variables in slots while a loop of the script runs. In: a loop, and which variables surely have a value; out: its code
//! between the instructions that read the variables and write them back.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::source::Span;
use crate::check::typed::{Block, Body, Expr, ExprKind, GlobalId, Pattern, Stmt, StmtKind};
use crate::check::walk;
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

use super::build::Builder;
use super::{Op, Region, Resident, Slot};

/// The most variables of a loop that are kept in slots: all are written back where something else looks at them.
const MOST: usize = 16;

/// Script variables: which ones surely have a value when code names them, and which ones have a slot in the loop that is being built.
#[derive(Default)]
pub(super) struct Residents {
    settled: FxHashSet<GlobalId>,
    slots: FxHashMap<GlobalId, (Slot, Scalar)>,
    /// The region that is being built.
    region: Option<u32>,
}

impl Residents {
    /// Of a chunk: variables that have a value when it begins, and those that it declares with one.
    pub fn of_chunk(body: &Body, globals: &[Option<Value>]) -> Residents {
        let is_scalar = |value: &Option<Value>| matches!(value, Some(Value::Scalar(_)));
        let present = globals.iter().enumerate().filter(|(_, value)| is_scalar(value));
        let mut settled: FxHashSet<GlobalId> = present.map(|(at, _)| GlobalId::new(at)).collect();
        for stmt in &body.root.stmts {
            if let StmtKind::Let { pattern: Pattern::Global(id), value, .. } = &stmt.kind {
                match value {
                    Some(_) => settled.insert(*id),
                    None => settled.remove(id),
                };
            }
        }
        Residents { settled, ..Residents::default() }
    }
}

impl Builder<'_> {
    /// Returns the slot of a script variable that has one here.
    pub fn resident(&self, expr: &Expr, ty: Scalar) -> Option<Slot> {
        let ExprKind::Global(id) = &expr.kind else { return None };
        self.residents.slots.get(id).filter(|(_, own)| *own == ty).map(|(slot, _)| *slot)
    }

    /// Builds a loop, whose script variables have slots.
    pub fn with_residents(&mut self, stmt: &Stmt, build: impl FnOnce(&mut Self)) {
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
