//! Activity analysis: finds the expressions, locals and memories that have a derivative (are active), and rejects
//! kernels that are not differentiable.
//!
//! Input: a kernel's body and its active parameters. Output: the floats that depend on these parameters. The analysis
//! ignores the execution order, so it may find too many. Step functions (`floor`, `sign`, …) and comparisons are
//! inactive, because their derivative is zero by convention.

use super::derived::{float_type_at, param_of};
use super::error::NotDifferentiable;
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::visit::{each_stmt, each_stmt_outside_products};
use clk_pass::is_gradient_barrier;
use clk_scalar::derivative::is_step;
use clk_scalar::ops::AtomicOp;

pub(super) struct Activity {
    pub exprs: Vec<bool>,
    pub locals: Vec<bool>,
    pub memories: Vec<bool>,
}

impl Activity {
    pub fn expr(&self, id: ExprId) -> bool {
        self.exprs.get(id.index()).copied().unwrap_or(false)
    }

    pub fn local(&self, id: LocalId) -> bool {
        self.locals[id.index()]
    }

    /// Returns whether a memory location has a derivative.
    pub fn place(&self, f: &Function, place: &Place) -> bool {
        self.memories[place.memory.index()] && float_type_at(f, place).is_some()
    }
}

/// Returns whether an array element contains floats.
pub(super) fn has_floats(layout: &ElementLayout) -> bool {
    layout.leaves.iter().any(|leaf| leaf.ty.scalar().is_float())
}

struct ActivityAnalysis<'a> {
    f: &'a Function,
    active: &'a [bool],
    activity: Activity,
    changed: bool,
}

pub(super) fn analyze_activity(f: &Function, active: &[bool]) -> Activity {
    let is_active = |param: u32| active.get(param as usize).copied().unwrap_or(false);
    let is_active_memory = |memory: &Memory| match memory.space {
        MemorySpace::Global { param, .. } => is_active(param) && has_floats(&memory.layout),
        _ => false,
    };
    let memories = f.memories.iter().map(|(_, memory)| is_active_memory(memory)).collect();
    let inactive = Activity { exprs: vec![false; f.exprs.len()], locals: vec![false; f.locals.len()], memories };
    let mut analysis = ActivityAnalysis { f, active, activity: inactive, changed: true };
    for (id, expr) in f.exprs.iter() {
        if let ExprKind::Param(_) = expr.kind {
            analysis.visit_expr(id);
        }
    }
    while std::mem::take(&mut analysis.changed) {
        each_stmt_outside_products(&f.body, &mut |stmt| analysis.stmt(&stmt.kind));
    }
    let mut activity = analysis.activity;
    drop_unread(f, active, &mut activity);
    activity
}

/// Marks arrays as inactive if the kernel only writes them and no derivative with respect to them is requested.
fn drop_unread(f: &Function, active: &[bool], activity: &mut Activity) {
    let mut read = vec![false; f.memories.len()];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind
            && let ExprKind::Load { place, .. } = &f.exprs[id].kind
        {
            read[place.memory.index()] = true;
        }
    });
    for (id, _) in f.memories.iter() {
        let is_requested = param_of(f, id).is_none_or(|param| active.get(param).copied().unwrap_or(false));
        activity.memories[id.index()] &= is_requested || read[id.index()];
    }
}

impl ActivityAnalysis<'_> {
    fn mark(list: &mut [bool], index: usize, changed: &mut bool) {
        if !std::mem::replace(&mut list[index], true) {
            *changed = true;
        }
    }

    fn visit_expr(&mut self, id: ExprId) {
        if self.depends_on_active(id) {
            Self::mark(&mut self.activity.exprs, id.index(), &mut self.changed);
        }
    }

    fn depends_on_active(&self, id: ExprId) -> bool {
        let expr = &self.f.exprs[id];
        if !expr.ty.scalar().is_float() {
            return false;
        }
        match &expr.kind {
            ExprKind::Param(param) => self.active.get(*param as usize).copied().unwrap_or(false),
            ExprKind::Read(local) => self.activity.locals[local.index()],
            ExprKind::Load { place, .. } => self.activity.memories[place.memory.index()],
            ExprKind::Math { function, .. } if is_step(*function) => false,
            ExprKind::Bitcast(_) | ExprKind::Result => false,
            kind => {
                let mut any = false;
                kind.operands(|operand| any |= self.activity.expr(operand));
                any
            }
        }
    }

    fn stmt(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Let(id) => self.visit_expr(*id),
            StmtKind::Write { local, value } if self.activity.expr(*value) => {
                Self::mark(&mut self.activity.locals, local.index(), &mut self.changed);
            }
            StmtKind::Store { place, value, .. } | StmtKind::Atomic { place, value, .. }
                if self.activity.expr(*value) =>
            {
                Self::mark(&mut self.activity.memories, place.memory.index(), &mut self.changed);
            }
            StmtKind::For {
                collective: Some(CollectiveLoop::Gemm(CollectiveGemm { sum, left, right, .. })), ..
            } if [left, right].into_iter().any(|factor| self.activity.memories[factor.index()]) => {
                Self::mark(&mut self.activity.memories, sum.index(), &mut self.changed);
            }
            StmtKind::Atomic { place, result: Some(result), .. }
                if self.activity.memories[place.memory.index()] && self.f.exprs[*result].ty.scalar().is_float() =>
            {
                Self::mark(&mut self.activity.exprs, result.index(), &mut self.changed);
            }
            StmtKind::Warp { value, result, .. }
                if self.activity.expr(*value) && self.f.exprs[*result].ty.scalar().is_float() =>
            {
                Self::mark(&mut self.activity.exprs, result.index(), &mut self.changed);
            }
            _ => {}
        }
    }
}

/// The mode of differentiation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DerivativeMode {
    Forward,
    /// Forward mode applied to an adjoint kernel.
    ForwardAgain,
    Reverse,
}

/// Rejects kernels that contain constructs without a correct derivative.
pub(super) fn check_differentiable(
    kernel: &Kernel,
    f: &Function,
    activity: &Activity,
    mode: DerivativeMode,
) -> Result<(), NotDifferentiable> {
    let mut result = check_atomic_order(kernel, f, activity, mode);
    each_stmt(&f.body, &mut |stmt| {
        if result.is_ok() {
            result = check_stmt(f, activity, stmt, mode);
        }
    });
    result
}

const CONSTANT: &str = "`no_grad(x)` treats a value as a constant, if you intend that";

/// Rejects reads of memory that other threads may update atomically before or after the read: the order may differ from
/// run to run, so the derivative kernel might read other values than the primal kernel.
fn check_atomic_order(
    kernel: &Kernel,
    f: &Function,
    activity: &Activity,
    mode: DerivativeMode,
) -> Result<(), NotDifferentiable> {
    let mut updated = vec![false; f.memories.len()];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Atomic { op, place, .. } = &stmt.kind {
            let shared = f.memories[place.memory].space == MemorySpace::Shared;
            let is_adjoint_exchange = *op == AtomicOp::Exchange && mode == DerivativeMode::ForwardAgain;
            let last = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange) && !is_adjoint_exchange;
            updated[place.memory.index()] |= last || !(shared || kernel.cooperative);
        }
    });
    let mut result = Ok(());
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind
            && let ExprKind::Load { place, .. } = &f.exprs[id].kind
            && updated[place.memory.index()]
            && (mode == DerivativeMode::Reverse || activity.place(f, place))
            && result.is_ok()
        {
            result = Err(NotDifferentiable::new(
                f.spans[id],
                "the value read here depends on the order of other threads' atomic operations",
                "read it in another kernel, which starts after they are done",
            ));
        }
    });
    result
}

fn check_stmt(f: &Function, activity: &Activity, stmt: &Stmt, mode: DerivativeMode) -> Result<(), NotDifferentiable> {
    match &stmt.kind {
        StmtKind::Let(id) => match f.exprs[*id].kind {
            ExprKind::Convert(value) if activity.expr(value) && !f.exprs[*id].ty.scalar().is_float() => {
                let to = f.exprs[*id].ty;
                Err(NotDifferentiable::new(
                    f.spans[*id],
                    format!("this conversion to `{to}` has no derivative"),
                    CONSTANT,
                ))
            }
            ExprKind::Bitcast(value) if activity.expr(value) && !is_gradient_barrier(f, *id) => {
                Err(NotDifferentiable::new(f.spans[*id], "the bits of a float have no derivative", CONSTANT))
            }
            _ => Ok(()),
        },
        StmtKind::Atomic { op, place, value, result, .. } => {
            let is_active = activity.place(f, place) || activity.expr(*value);
            check_atomic(*op, is_active, result.is_some(), mode, stmt.span)
        }
        _ => Ok(()),
    }
}

fn check_atomic(
    op: AtomicOp,
    is_active: bool,
    result: bool,
    mode: DerivativeMode,
    span: Span,
) -> Result<(), NotDifferentiable> {
    let sum = matches!(op, AtomicOp::Add | AtomicOp::Sub);
    if op == AtomicOp::Exchange && result && mode == DerivativeMode::ForwardAgain {
        return Ok(());
    }
    if is_active && op == AtomicOp::Exchange {
        return Err(NotDifferentiable::new(
            span,
            "which thread gets the old value depends on their order",
            "in the gradient of a gradient: take `jvp` of the gradient, or promise that indices are `distinct`",
        ));
    }
    if is_active && !sum {
        return Err(NotDifferentiable::new(
            span,
            "among atomic operations on floats, only sums have a derivative",
            "use another reduction, such as a tree of `max` in shared memory",
        ));
    }
    if result && (is_active || mode == DerivativeMode::Reverse) {
        return Err(NotDifferentiable::new(
            span,
            "the old value depends on the order of the threads, which may differ when the kernel runs again",
            "use an index that depends only on the thread",
        ));
    }
    Ok(())
}
