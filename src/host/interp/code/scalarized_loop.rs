//! Keeps script variables in slots while a loop of the script runs. Input: a loop. Output: its code, between
//! instructions that load the variables and store them back.

use rustc_hash::FxHashMap;

use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, GlobalId, Stmt};
use clk_check::visit;
use clk_scalar::Scalar;

use super::build::CodeBuilder;
use super::{HostOp, ScalarizedLoop, SlotIndex, SlotVariable};

/// Maximum number of slot variables of a loop. Storing them back is a cost of each node in the loop, because any other
/// code must see their current values.
const MAX_VARIABLES: usize = 16;

impl CodeBuilder<'_> {
    /// Returns the slot of a script variable, if it has one in the current loop.
    pub fn slot_of_variable(&self, expr: &Expr, ty: Scalar) -> Option<SlotIndex> {
        let ExprKind::Global(id) = &expr.kind else { return None };
        self.slot_variables.slots.get(id).filter(|(_, own)| *own == ty).map(|(slot, _)| *slot)
    }

    /// Builds a loop with `build`, with the scalar script variables of the loop in slots if possible.
    pub fn with_slot_variables(&mut self, stmt: &Stmt, build: impl FnOnce(&mut Self)) {
        self.code.loops_in_script = true;
        let variables = if self.slot_variables.slots.is_empty() { self.assign_slots(stmt) } else { Vec::new() };
        if variables.is_empty() || variables.len() > MAX_VARIABLES {
            return build(self);
        }
        let region = self.code.scalarized_loops.len() as u32;
        self.slot_variables.slots = variables.iter().map(|of| (of.id, (of.slot, of.ty))).collect();
        self.slot_variables.region = Some(region);
        self.code.scalarized_loops.push(ScalarizedLoop { first: 0, end: 0, variables });
        self.emit(HostOp::LoadVariables { region }, stmt.span);
        let first = self.next_pc();
        build(self);
        let end = self.next_pc();
        self.write_back_variables(stmt.span);
        (self.slot_variables.slots, self.slot_variables.region) = (FxHashMap::default(), None);
        if let Some(region) = self.code.scalarized_loops.get_mut(region as usize) {
            (region.first, region.end) = (first, end);
        }
    }

    /// Emits the instruction that stores the slots of the current loop back to its script variables.
    pub fn write_back_variables(&mut self, span: Span) {
        if let Some(region) = self.slot_variables.region {
            self.emit(HostOp::StoreVariables { region }, span);
        }
    }

    /// Assigns slots to the initialized scalar script variables that occur in a loop.
    fn assign_slots(&mut self, stmt: &Stmt) -> Vec<SlotVariable> {
        if self.slot_variables.initialized.is_empty() {
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
        visit::stmt_exprs(stmt, &mut note);
        ids.retain(|id| self.slot_variables.initialized.contains(id));
        let mut variables = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(global) = self.program.globals.get(id) else { continue };
            if let Some(ty) = self.scalar_of(&global.ty) {
                variables.push(SlotVariable { id, slot: self.temporary(), ty, mutable: global.mutable });
            }
        }
        variables
    }
}
