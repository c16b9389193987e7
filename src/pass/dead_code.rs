//! Dead code elimination: removes unused expressions that cannot fault, writes that are never read, branches and loops
//! without effect, statements after a jump, and branches of constant conditions.
//!
//! An unused expression is kept if it may fault, because faults are part of a kernel's semantics. Without checks, only
//! loads and integer divisions may fault. With checks enabled, every operation on which the checks report may fault.

use rustc_hash::FxHashSet;

use super::edit::{FaultPredicate, may_fault, may_fault_checked, may_fault_trapping, never_completes};
use clk_base::idset::IdSet;
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::visit::each_stmt;
use clk_scalar::exact;

pub(crate) fn run(module: &mut Module) {
    run_for(module, may_fault);
}

/// Like [`run`], but for launches with checks, where more operations can fault.
pub(crate) fn run_checked(module: &mut Module) {
    run_for(module, |function, id| may_fault_checked(function, id) && !is_safe_load(function, id));
}

/// Like [`run_checked`], but for launches that stop at the first NaN, where any operation on floats can fault.
pub(crate) fn run_trapping(module: &mut Module) {
    run_for(module, |function, id| may_fault_trapping(function, id) && !is_safe_load(function, id));
}

/// Returns whether an expression is an in-bounds load from a memory that is initialized before the kernel starts, so
/// that checks cannot report it.
fn is_safe_load(function: &Function, id: ExprId) -> bool {
    let ExprKind::Load { place, .. } = &function.exprs[id].kind else { return false };
    let is_initialized = matches!(
        function.memories[place.memory].space,
        MemorySpace::Constant
            | MemorySpace::Global { access: Access::In, .. }
            | MemorySpace::Param { access: Access::In, .. }
    );
    is_initialized && !may_fault(function, id)
}

/// Like [`run`], but for a kernel that repeats operations of a previously executed kernel, so none of them can fault.
pub(crate) fn run_for_recomputation(module: &mut Module) {
    run_for(module, |_, _| false);
}

fn run_for(module: &mut Module, faults: FaultPredicate) {
    for (_, function) in module.functions.iter_mut() {
        // Each round may expose more dead code: a removed write may have been the last use of an expression.
        loop {
            let mut elimination =
                DeadCodeElimination { function, faults, live: FxHashSet::default(), targets: vec![], changed: false };
            let mut body = std::mem::take(&mut elimination.function.body);
            elimination.mark_live(&body);
            let mut after = LiveLocals::default();
            elimination.sweep_block(&mut body, &mut after);
            let changed = elimination.changed;
            function.body = body;
            if !changed {
                break;
            }
        }
    }
}

/// The live locals at a program point: those whose value may still be read.
type LiveLocals = IdSet<Local>;

struct DeadCodeElimination<'a> {
    function: &'a mut Function,
    faults: FaultPredicate,
    /// The live expressions: those that are used.
    live: FxHashSet<ExprId>,
    /// The locals that are live at the targets of `Break` and `Continue`.
    targets: Vec<(Label, LiveLocals, LiveLocals)>,
    changed: bool,
}

impl DeadCodeElimination<'_> {
    /// Marks the expressions used by statements other than `Let`, and their operands, as live.
    fn mark_live(&mut self, body: &Block) {
        let mut todo = Vec::new();
        each_stmt(body, &mut |stmt| {
            stmt.kind.operands(|id| todo.push(id));
            if let StmtKind::Let(id) = stmt.kind
                && (self.faults)(self.function, id)
            {
                todo.push(id);
            }
        });
        while let Some(id) = todo.pop() {
            if self.live.insert(id) {
                self.function.exprs[id].kind.operands(|operand| todo.push(operand));
            }
        }
    }

    /// Removes dead statements of a block, walking backward. `after` is the set of locals that are live after the
    /// block, and is updated to the set at its start.
    fn sweep_block(&mut self, block: &mut Block, after: &mut LiveLocals) {
        self.remove_unreachable(block);
        let stmts = std::mem::take(block);
        let mut needed = Vec::with_capacity(stmts.len());
        for mut stmt in stmts.into_iter().rev() {
            stop::poll();
            if let Some(mut branch) = self.constant_branch(&mut stmt.kind) {
                self.changed = true;
                self.sweep_block(&mut branch, after);
                needed.extend(branch.into_iter().rev());
                continue;
            }
            if self.is_needed(&mut stmt.kind, after) {
                needed.push(stmt);
            } else {
                self.changed = true;
            }
        }
        needed.reverse();
        self.remove_unreachable(&mut needed);
        *block = needed;
    }

    /// Removes statements after a jump.
    fn remove_unreachable(&mut self, block: &mut Block) {
        let end = block.iter().position(|stmt| match &stmt.kind {
            StmtKind::If { then, other, .. } => never_completes(then) && never_completes(other),
            kind => kind.is_jump(),
        });
        if let Some(end) = end
            && end + 1 < block.len()
        {
            block.truncate(end + 1);
            self.changed = true;
        }
    }

    /// If the statement is an `if` with a constant condition, returns the branch that is taken.
    fn constant_branch(&self, kind: &mut StmtKind) -> Option<Block> {
        let StmtKind::If { cond, then, other } = kind else { return None };
        match self.function.exprs[*cond].kind {
            ExprKind::Const(0) => Some(std::mem::take(other)),
            ExprKind::Const(_) => Some(std::mem::take(then)),
            _ => None,
        }
    }

    /// Returns whether a statement must be kept.
    fn is_needed(&mut self, kind: &mut StmtKind, after: &mut LiveLocals) -> bool {
        match kind {
            StmtKind::Let(id) => {
                let needed = self.live.contains(id) && !self.function.exprs[*id].kind.is_free();
                if let ExprKind::Read(local) = self.function.exprs[*id].kind
                    && needed
                {
                    after.insert(local);
                }
                needed
            }
            StmtKind::Write { local, .. } => after.remove(*local),
            StmtKind::If { then, other, .. } => {
                let mut before = after.clone();
                self.sweep_block(then, &mut before);
                self.sweep_block(other, after);
                after.join(&before);
                !then.is_empty() || !other.is_empty()
            }
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let iterations = trip_count(self.function, *start, *end, *step, *inclusive);
                if iterations == Some(0) {
                    return false;
                }
                let (label, local) = (*label, *local);
                // The loop writes its counter before each iteration. Without iterations, the counter keeps its previous
                // value, so that value may be read later.
                let is_read_later = after.contains(local);
                self.sweep_loop(label, body, after);
                if !is_read_later {
                    after.remove(local);
                }
                let steps = self.function.const_integer(*step).is_some_and(|step| step != 0);
                !body.is_empty() || !steps
            }
            StmtKind::Loop { label, body, .. } => {
                self.sweep_loop(*label, body, after);
                true
            }
            StmtKind::Block { label, body } => {
                self.targets.push((*label, after.clone(), LiveLocals::default()));
                self.sweep_block(body, after);
                self.targets.pop();
                !body.is_empty()
            }
            StmtKind::Break(label) => {
                let target = self.targets.iter().find(|(l, ..)| l == label);
                *after = target.map(|(_, end, _)| end.clone()).unwrap_or_default();
                true
            }
            StmtKind::Continue(label) => {
                let target = self.targets.iter().find(|(l, ..)| l == label);
                *after = target.map(|(_, _, next)| next.clone()).unwrap_or_default();
                true
            }
            StmtKind::Return(_) => {
                *after = LiveLocals::default();
                true
            }
            StmtKind::Barrier { result, .. } | StmtKind::Atomic { result, .. } => {
                if result.is_some_and(|id| !self.live.contains(&id)) {
                    self.drop_result(result);
                }
                true
            }
            StmtKind::Store { .. }
            | StmtKind::Warp { .. }
            | StmtKind::Fence(_)
            | StmtKind::Call { .. }
            | StmtKind::Assert { .. }
            | StmtKind::Print { .. }
            | StmtKind::Declare(_) => true,
        }
    }

    fn drop_result(&mut self, result: &mut Option<ExprId>) {
        *result = None;
        self.changed = true;
    }

    /// Handles a loop's body. Locals that an iteration may read are live at the end of the previous iteration.
    fn sweep_loop(&mut self, label: Label, body: &mut Block, after: &mut LiveLocals) {
        let mut next = after.clone();
        each_stmt(body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Read(local) = self.function.exprs[*id].kind {
                    next.insert(local);
                }
            }
            StmtKind::Break(outer) | StmtKind::Continue(outer) => {
                let target = self.targets.iter().find(|(l, ..)| l == outer);
                if let Some((_, end, next_iteration)) = target {
                    next.join(end);
                    next.join(next_iteration);
                }
            }
            _ => {}
        });
        self.targets.push((label, after.clone(), next.clone()));
        let mut body_end = next.clone();
        self.sweep_block(body, &mut body_end);
        self.targets.pop();
        *after = next;
    }
}

/// Returns the number of iterations of a `For`; `None` if bounds or step are not constants, or the step is zero.
pub fn trip_count(function: &Function, start: ExprId, end: ExprId, step: ExprId, inclusive: bool) -> Option<i128> {
    let constant = |id: ExprId| function.const_integer(id);
    exact::trip_count(constant(start)?, constant(end)?, constant(step)?, inclusive)
}
