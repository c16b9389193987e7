//! Which expressions, locals and memories have a derivative, regardless of the order of execution; and the refusals that follow.
//!
//! Input: a kernel's body and its active parameters. Output: floats that depend on them. Steps (`floor`, `sign`, …) and comparisons
//! have results whose derivative is zero by convention, so these are inactive.

use super::def::{float_at, param_of};
use super::lost::Lost;
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::visit::{each_deed, each_stmt};
use crate::lang::derivative::is_step;
use crate::lang::ops::AtomicOp;
use crate::pass::is_held;

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

    /// Whether the derivative of a memory location is followed.
    pub fn place(&self, f: &Function, place: &Place) -> bool {
        self.memories[place.memory.index()] && float_at(f, place).is_some()
    }
}

/// Returns whether an element has floats.
pub(super) fn has_floats(layout: &Layout) -> bool {
    layout.leaves.iter().any(|leaf| leaf.ty.scalar().is_float())
}

struct Search<'a> {
    f: &'a Function,
    active: &'a [bool],
    found: Activity,
    changed: bool,
}

pub(super) fn activity(f: &Function, active: &[bool]) -> Activity {
    let is_active = |param: u32| active.get(param as usize).copied().unwrap_or(false);
    let of_memory = |memory: &Memory| match memory.space {
        Space::Global { param, .. } => is_active(param) && has_floats(&memory.layout),
        _ => false,
    };
    let memories = f.memories.iter().map(|(_, memory)| of_memory(memory)).collect();
    let found = Activity { exprs: vec![false; f.exprs.len()], locals: vec![false; f.locals.len()], memories };
    let mut search = Search { f, active, found, changed: true };
    for (id, expr) in f.exprs.iter() {
        if let ExprKind::Param(_) = expr.kind {
            search.expr(id);
        }
    }
    while std::mem::take(&mut search.changed) {
        each_deed(&f.body, &mut |stmt| search.stmt(&stmt.kind));
    }
    let mut found = search.found;
    forget_unread(f, active, &mut found);
    found
}

/// Arrays that the kernel only writes, and whose derivative nobody wants, need none.
fn forget_unread(f: &Function, active: &[bool], found: &mut Activity) {
    let mut read = vec![false; f.memories.len()];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind
            && let ExprKind::Load { place, .. } = &f.exprs[id].kind
        {
            read[place.memory.index()] = true;
        }
    });
    for (id, _) in f.memories.iter() {
        let wanted = param_of(f, id).is_none_or(|param| active.get(param).copied().unwrap_or(false));
        found.memories[id.index()] &= wanted || read[id.index()];
    }
}

impl Search<'_> {
    fn mark(list: &mut [bool], index: usize, changed: &mut bool) {
        if !std::mem::replace(&mut list[index], true) {
            *changed = true;
        }
    }

    fn expr(&mut self, id: ExprId) {
        if self.value(id) {
            Self::mark(&mut self.found.exprs, id.index(), &mut self.changed);
        }
    }

    fn value(&self, id: ExprId) -> bool {
        let expr = &self.f.exprs[id];
        if !expr.ty.scalar().is_float() {
            return false;
        }
        match &expr.kind {
            ExprKind::Param(param) => self.active.get(*param as usize).copied().unwrap_or(false),
            ExprKind::Read(local) => self.found.locals[local.index()],
            ExprKind::Load { place, .. } => self.found.memories[place.memory.index()],
            ExprKind::Math { function, .. } if is_step(*function) => false,
            ExprKind::Bitcast(_) | ExprKind::Result => false,
            kind => {
                let mut any = false;
                kind.operands(|operand| any |= self.found.expr(operand));
                any
            }
        }
    }

    fn stmt(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Let(id) => self.expr(*id),
            StmtKind::Write { local, value } if self.found.expr(*value) => {
                Self::mark(&mut self.found.locals, local.index(), &mut self.changed);
            }
            StmtKind::Store { place, value, .. } | StmtKind::Atomic { place, value, .. } if self.found.expr(*value) => {
                Self::mark(&mut self.found.memories, place.memory.index(), &mut self.changed);
            }
            StmtKind::For { together: Some(Together::Product(Factors { sum, left, right, .. })), .. }
                if [left, right].into_iter().any(|factor| self.found.memories[factor.index()]) =>
            {
                Self::mark(&mut self.found.memories, sum.index(), &mut self.changed);
            }
            StmtKind::Atomic { place, result: Some(result), .. }
                if self.found.memories[place.memory.index()] && self.f.exprs[*result].ty.scalar().is_float() =>
            {
                Self::mark(&mut self.found.exprs, result.index(), &mut self.changed);
            }
            StmtKind::Warp { value, result, .. }
                if self.found.expr(*value) && self.f.exprs[*result].ty.scalar().is_float() =>
            {
                Self::mark(&mut self.found.exprs, result.index(), &mut self.changed);
            }
            _ => {}
        }
    }
}

/// How a derivative is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Forward,
    /// Of a derivative in reverse mode.
    ForwardAgain,
    Reverse,
}

/// Refuses a kernel whose derivative would not be right.
pub(super) fn refusal(kernel: &Kernel, f: &Function, activity: &Activity, mode: Mode) -> Result<(), Lost> {
    let mut found = ordered(kernel, f, activity, mode);
    each_stmt(&f.body, &mut |stmt| {
        if found.is_ok() {
            found = refused(f, activity, stmt, mode);
        }
    });
    found
}

const CONSTANT: &str = "`no_grad(x)` takes a value as a constant, if that is meant";

/// Refuses reads of what atomic operations of other threads change meanwhile: in another run they may come in another order.
fn ordered(kernel: &Kernel, f: &Function, activity: &Activity, mode: Mode) -> Result<(), Lost> {
    let mut updated = vec![false; f.memories.len()];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Atomic { op, place, .. } = &stmt.kind {
            let shared = f.memories[place.memory].space == Space::Shared;
            let takes = *op == AtomicOp::Exchange && mode == Mode::ForwardAgain;
            let last = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange) && !takes;
            updated[place.memory.index()] |= last || !(shared || kernel.cooperative);
        }
    });
    let mut found = Ok(());
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind
            && let ExprKind::Load { place, .. } = &f.exprs[id].kind
            && updated[place.memory.index()]
            && (mode == Mode::Reverse || activity.place(f, place))
            && found.is_ok()
        {
            found = Err(Lost::new(
                f.spans[id],
                "what is read here depends on the order of the atomic operations of other threads",
                "read it in another kernel, which begins when they are done",
            ));
        }
    });
    found
}

fn refused(f: &Function, activity: &Activity, stmt: &Stmt, mode: Mode) -> Result<(), Lost> {
    match &stmt.kind {
        StmtKind::Let(id) => match f.exprs[*id].kind {
            ExprKind::Convert(value) if activity.expr(value) && !f.exprs[*id].ty.scalar().is_float() => {
                let to = crate::ir::typing::name(f.exprs[*id].ty);
                Err(Lost::new(f.spans[*id], format!("this conversion to `{to}` has no derivative"), CONSTANT))
            }
            ExprKind::Bitcast(value) if activity.expr(value) && !is_held(f, *id) => {
                Err(Lost::new(f.spans[*id], "the bits of a float have no derivative", CONSTANT))
            }
            _ => Ok(()),
        },
        StmtKind::Atomic { op, place, value, result, .. } => {
            let is_active = activity.place(f, place) || activity.expr(*value);
            atomic(*op, is_active, result.is_some(), mode, stmt.span)
        }
        _ => Ok(()),
    }
}

fn atomic(op: AtomicOp, is_active: bool, result: bool, mode: Mode, span: Span) -> Result<(), Lost> {
    let sum = matches!(op, AtomicOp::Add | AtomicOp::Sub);
    if op == AtomicOp::Exchange && result && mode == Mode::ForwardAgain {
        return Ok(());
    }
    if is_active && op == AtomicOp::Exchange {
        return Err(Lost::new(
            span,
            "which thread takes the old value depends on their order",
            "in the gradient of a gradient: take `jvp` of the gradient, or promise that indices are `distinct`",
        ));
    }
    if is_active && !sum {
        return Err(Lost::new(
            span,
            "of the atomic operations on floats, only sums have a derivative",
            "reduce in another way, such as by a tree of `max` in shared memory",
        ));
    }
    if result && (is_active || mode == Mode::Reverse) {
        return Err(Lost::new(
            span,
            "the old value depends on the order of the threads, which is another one when the kernel runs again",
            "use an index that depends on the thread alone",
        ));
    }
    Ok(())
}
