//! Dead code elimination: unused expressions that cannot fault, writes without a following read, branches and loops without
//! effect, statements behind a jump, branches of constant conditions.
//!
//! An unused expression stays if it may fault: faults are part of a kernel's semantics. Without checks, only loads and integer divisions
//! may fault. With checks, so may every operation that they report.

use rustc_hash::FxHashSet;

use super::edit::{Faults, integer_of, may_fault, may_fault_checked, may_fault_trapping, never_completes};
use crate::base::idset::IdSet;
use crate::base::stop;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

pub(crate) fn run(module: &mut Module) {
    run_for(module, may_fault);
}

/// The variant for runs with checks, in which more operations can fault.
pub(crate) fn run_checked(module: &mut Module) {
    run_for(module, |function, id| may_fault_checked(function, id) && !is_certain_load(function, id));
}

/// The variant for runs that trap the first NaN, in which any operation on floats can fault.
pub(crate) fn run_trapping(module: &mut Module) {
    run_for(module, |function, id| may_fault_trapping(function, id) && !is_certain_load(function, id));
}

/// Returns whether this is a load in bounds of memory that is written before the kernel begins.
fn is_certain_load(function: &Function, id: ExprId) -> bool {
    let ExprKind::Load { place, .. } = &function.exprs[id].kind else { return false };
    let is_given = matches!(
        function.memories[place.memory].space,
        Space::Constant | Space::Global { access: Access::In, .. } | Space::Param { access: Access::In, .. }
    );
    is_given && !may_fault(function, id)
}

/// As [`run`], of a kernel whose operations have all been done before, by another one, so that none of them faults.
pub(crate) fn run_repeated(module: &mut Module) {
    run_for(module, |_, _| false);
}

fn run_for(module: &mut Module, faults: Faults) {
    for (_, function) in module.functions.iter_mut() {
        // Each round may expose more: a removed write may have been the last use of an expression.
        loop {
            let mut dead = Dead { function, faults, live: FxHashSet::default(), targets: vec![], changed: false };
            let mut body = std::mem::take(&mut dead.function.body);
            dead.used(&body);
            let mut after = Locals::default();
            dead.block(&mut body, &mut after);
            let changed = dead.changed;
            function.body = body;
            if !changed {
                break;
            }
        }
    }
}

/// Live locals: their value may still be read.
type Locals = IdSet<Local>;

struct Dead<'a> {
    function: &'a mut Function,
    faults: Faults,
    /// Live expressions.
    live: FxHashSet<ExprId>,
    /// The locals that are live at the targets of `Break` and `Continue`.
    targets: Vec<(Label, Locals, Locals)>,
    changed: bool,
}

impl Dead<'_> {
    /// Marks the expressions that statements other than `Let` use, and their operands, as live.
    fn used(&mut self, body: &Block) {
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

    /// Walks a block backwards; `after` is the set of locals live behind it and becomes the set live at its start.
    fn block(&mut self, block: &mut Block, after: &mut Locals) {
        self.cut(block);
        let stmts = std::mem::take(block);
        let mut kept = Vec::with_capacity(stmts.len());
        for mut stmt in stmts.into_iter().rev() {
            stop::poll();
            if let Some(taken) = self.constant_branch(&mut stmt.kind) {
                self.changed = true;
                let mut taken = taken;
                self.block(&mut taken, after);
                kept.extend(taken.into_iter().rev());
                continue;
            }
            if self.needed(&mut stmt.kind, after) {
                kept.push(stmt);
            } else {
                self.changed = true;
            }
        }
        kept.reverse();
        self.cut(&mut kept);
        *block = kept;
    }

    /// Removes statements behind a jump.
    fn cut(&mut self, block: &mut Block) {
        let end = block.iter().position(|stmt| match &stmt.kind {
            StmtKind::If { then, other, .. } => never_completes(then) && never_completes(other),
            kind => kind.leaves(),
        });
        if let Some(end) = end
            && end + 1 < block.len()
        {
            block.truncate(end + 1);
            self.changed = true;
        }
    }

    /// Returns the taken branch of a constant condition.
    fn constant_branch(&self, kind: &mut StmtKind) -> Option<Block> {
        let StmtKind::If { cond, then, other } = kind else { return None };
        match self.function.exprs[*cond].kind {
            ExprKind::Const(0) => Some(std::mem::take(other)),
            ExprKind::Const(_) => Some(std::mem::take(then)),
            _ => None,
        }
    }

    /// Returns whether a statement has to stay.
    fn needed(&mut self, kind: &mut StmtKind, after: &mut Locals) -> bool {
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
                self.block(then, &mut before);
                self.block(other, after);
                after.join(&before);
                !then.is_empty() || !other.is_empty()
            }
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let iterations = trip_count(self.function, *start, *end, *step, *inclusive);
                if iterations == Some(0) {
                    return false;
                }
                let (label, local) = (*label, *local);
                // The loop writes it before each iteration, but with a trip count of zero it keeps its value.
                let is_read_later = after.contains(local);
                self.repeated(label, body, after);
                if !is_read_later {
                    after.remove(local);
                }
                let steps = integer_of(self.function, *step).is_some_and(|step| step != 0);
                !body.is_empty() || !steps
            }
            StmtKind::Loop { label, body, .. } => {
                self.repeated(*label, body, after);
                true
            }
            StmtKind::Block { label, body } => {
                self.targets.push((*label, after.clone(), Locals::default()));
                self.block(body, after);
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
                *after = Locals::default();
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

    /// Handles a loop's body: locals that it reads, or that are live at its jump targets, are live at its end too.
    fn repeated(&mut self, label: Label, body: &mut Block, after: &mut Locals) {
        let mut next = after.clone();
        each_stmt(body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                if let ExprKind::Read(local) = self.function.exprs[*id].kind {
                    next.insert(local);
                }
            }
            StmtKind::Break(outer) | StmtKind::Continue(outer) => {
                let target = self.targets.iter().find(|(l, ..)| l == outer);
                if let Some((_, end, again)) = target {
                    next.join(end);
                    next.join(again);
                }
            }
            _ => {}
        });
        self.targets.push((label, after.clone(), next.clone()));
        let mut inside = next.clone();
        self.block(body, &mut inside);
        self.targets.pop();
        *after = next;
    }
}

/// Returns the trip count of a `For` with constant bounds; `None` for others or if the step is zero.
pub fn trip_count(function: &Function, start: ExprId, end: ExprId, step: ExprId, inclusive: bool) -> Option<i128> {
    let start = integer_of(function, start)?;
    let (end, step) = (integer_of(function, end)?, integer_of(function, step)?);
    let span = if step > 0 { end - start } else { start - end } + i128::from(inclusive);
    match step {
        0 => None,
        _ if span <= 0 => Some(0),
        _ => Some((span + step.abs() - 1) / step.abs()),
    }
}
