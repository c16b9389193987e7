//! Utilities that several passes use: creating and renaming expressions, and queries about expressions and blocks.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::visit::{each_stmt, each_stmt_mut};
use clk_scalar::ScalarValue;
use clk_scalar::ops::MathFn;

/// Adds an expression; the caller adds its `Let`.
pub fn push(function: &mut Function, kind: ExprKind, ty: Ty, span: Span) -> ExprId {
    let id = function.exprs.push(Expr { kind, ty });
    function.spans.push(span);
    id
}

pub fn constant(function: &mut Function, value: ScalarValue) -> ExprId {
    push(function, ExprKind::Const(value.bits), Ty::Scalar(value.ty), Span::default())
}

pub fn let_stmt(function: &Function, id: ExprId) -> Stmt {
    Stmt { kind: StmtKind::Let(id), span: function.spans[id] }
}

/// A map of replacements: each use of a key is replaced by a use of its value.
#[derive(Default)]
pub struct Renames {
    map: FxHashMap<ExprId, ExprId>,
}

impl Renames {
    pub fn set(&mut self, from: ExprId, to: ExprId) {
        let to = self.resolve(to);
        if from != to {
            self.map.insert(from, to);
        }
    }

    pub fn resolve(&self, mut id: ExprId) -> ExprId {
        while let Some(&next) = self.map.get(&id) {
            id = next;
        }
        id
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Renames the operands of a statement; for a `Let`, also the operands of its expression.
    pub fn stmt(&self, function: &mut Function, kind: &mut StmtKind) {
        if let StmtKind::Let(id) = kind {
            function.exprs[*id].kind.operands_mut(|operand| *operand = self.resolve(*operand));
        }
        kind.operands_mut(|operand| *operand = self.resolve(*operand));
    }
}

/// Renames all operands in a function's body.
pub fn rename_all(function: &mut Function, renames: &Renames) {
    if renames.is_empty() {
        return;
    }
    let mut body = std::mem::take(&mut function.body);
    each_stmt_mut(&mut body, &mut |stmt| renames.stmt(function, &mut stmt.kind));
    function.body = body;
}

/// Returns the locals that a block writes, including loop counters.
pub fn written_locals(block: &[Stmt]) -> FxHashSet<LocalId> {
    let mut out = FxHashSet::default();
    each_stmt(block, &mut |stmt| match &stmt.kind {
        StmtKind::Write { local, .. } | StmtKind::For { local, .. } => {
            out.insert(*local);
        }
        _ => {}
    });
    out
}

/// Returns whether a block contains a `Break` or `Continue` with this label.
pub(crate) fn has_jump_to(block: &Block, label: Label) -> bool {
    let mut has_jump = false;
    each_stmt(block, &mut |stmt| {
        has_jump |= matches!(&stmt.kind, StmtKind::Break(l) | StmtKind::Continue(l) if *l == label);
    });
    has_jump
}

pub(crate) fn has_break(block: &Block, label: Label) -> bool {
    let mut found_break = false;
    each_stmt(block, &mut |stmt| found_break |= stmt.kind == StmtKind::Break(label));
    found_break
}

/// Returns whether all paths through a block leave it by a jump.
pub fn never_completes(block: &Block) -> bool {
    block.last().is_some_and(|last| match &last.kind {
        StmtKind::If { then, other, .. } => never_completes(then) && never_completes(other),
        kind => kind.is_jump(),
    })
}

/// Returns the number of statements in a block, including nested ones.
pub(crate) fn stmt_count(block: &Block) -> usize {
    let mut count = 0;
    each_stmt(block, &mut |_| count += 1);
    count
}

/// Returns a label number that is not in use.
pub(crate) fn next_label(block: &Block) -> u32 {
    let mut next = 0;
    each_stmt(block, &mut |stmt| {
        if let Some(label) = stmt.kind.label() {
            next = next.max(label.0.saturating_add(1));
        }
    });
    next
}

/// A predicate on expressions: whether evaluating the expression may be a fault.
pub(crate) type FaultPredicate = fn(&Function, ExprId) -> bool;

/// Returns whether evaluating an expression may be a fault that ends the launch: a load out of bounds, or an integer
/// division by zero.
pub(crate) fn may_fault(function: &Function, id: ExprId) -> bool {
    match &function.exprs[id].kind {
        ExprKind::Load { place, .. } => function.const_position(place).is_none(),
        ExprKind::Binary { op: BinOp::Div | BinOp::Rem, right, .. } => {
            let divisor = function.const_value(*right);
            function.exprs[id].ty.scalar().is_int() && divisor.is_none_or(|value| value.bits == 0)
        }
        _ => false,
    }
}

/// Like [`may_fault`], but for launches with checks: also returns `true` for signed arithmetic, shifts, and conversions
/// of floats to integers.
pub(crate) fn may_fault_checked(function: &Function, id: ExprId) -> bool {
    let expr = &function.exprs[id];
    let signed = expr.ty.scalar().is_int() && !expr.ty.scalar().is_unsigned();
    let checked = match &expr.kind {
        ExprKind::Binary { op: BinOp::Shl | BinOp::Shr, right, .. } => {
            let width = i128::from(expr.ty.scalar().bits());
            function.const_integer(*right).is_none_or(|amount| !(0..width).contains(&amount))
        }
        ExprKind::Binary { op: BinOp::Div | BinOp::Rem, right, .. } => {
            signed && function.const_integer(*right).is_none_or(|divisor| divisor == -1)
        }
        ExprKind::Binary { op, .. } => signed && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Pow),
        ExprKind::Unary { .. } | ExprKind::Math { function: MathFn::Abs | MathFn::Pow, .. } => signed,
        ExprKind::Convert(value) => expr.ty.scalar().is_int() && function.exprs[*value].ty.scalar().is_float(),
        ExprKind::Load { .. } => true,
        _ => false,
    };
    checked || may_fault(function, id)
}

/// Like [`may_fault_checked`], but for launches that stop at the first NaN: also returns `true` for operations whose
/// result is a float.
pub(crate) fn may_fault_trapping(function: &Function, id: ExprId) -> bool {
    let expr = &function.exprs[id];
    let computes = match &expr.kind {
        ExprKind::Binary { .. } | ExprKind::Convert(_) => true,
        ExprKind::Math { function, .. } => !function.preserves_finite(),
        _ => false,
    };
    computes && expr.ty.scalar().is_float() || may_fault_checked(function, id)
}
