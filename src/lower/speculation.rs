//! Determines which expressions may be evaluated speculatively, that is, even if the program would not evaluate them:
//! those that have no side effects, cannot fault and have a low cost.

use super::context::{BodyLowering, LoweredLocal};
use clk_check::typed::{Block, Expr, ExprKind, Type};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

impl BodyLowering<'_, '_> {
    /// Returns whether a block consists only of a value that may be evaluated speculatively.
    pub(crate) fn simple_block(&self, block: &Block, budget: u32) -> bool {
        block.stmts.is_empty() && block.tail.as_ref().is_some_and(|tail| self.simple(tail, &mut budget.clone()))
    }

    /// Returns whether an expression may be evaluated speculatively; subtracts its cost from the budget.
    pub(crate) fn simple(&self, expr: &Expr, budget: &mut u32) -> bool {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Variable(_) => true,
            // A shared scalar is in memory, so reading it is a load.
            ExprKind::Local(id) => !matches!(self.slots.get(id), Some(LoweredLocal::Array(_)) | None),
            // Operations that a run-time check may report must not be evaluated speculatively.
            ExprKind::Unary { op: UnaryOp::Neg, .. } | ExprKind::Convert { .. } if self.unit.has_checks => false,
            ExprKind::Binary { op, .. } if self.unit.has_checks && !is_harmless(*op) => false,
            ExprKind::Builtin { builtin, .. } if self.unit.has_checks && is_reported(*builtin) => false,
            ExprKind::Unary { expr, .. }
            | ExprKind::Convert { expr, .. }
            | ExprKind::ConvertParam { expr, .. }
            | ExprKind::Bitcast { expr } => spend(budget, 1) && self.simple(expr, budget),
            ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                self.simple(base, budget)
            }
            ExprKind::Binary { op, left, right } => {
                spend(budget, self.cost(*op, right)) && self.simple(left, budget) && self.simple(right, budget)
            }
            ExprKind::Vector { parts } | ExprKind::Tuple(parts) | ExprKind::Struct { fields: parts, .. } => {
                parts.iter().all(|part| self.simple(part, budget))
            }
            ExprKind::Builtin { builtin, args, .. } => match cheap(*builtin) {
                Some(cost) => {
                    spend(budget, cost) && args.iter().all(|arg| self.is_array(arg) || self.simple(arg, budget))
                }
                None => false,
            },
            ExprKind::Block(block) => {
                block.stmts.is_empty() && block.tail.as_ref().is_some_and(|tail| self.simple(tail, budget))
            }
            _ => false,
        }
    }

    fn cost(&self, op: BinaryOp, right: &Expr) -> u32 {
        match op {
            BinaryOp::Div | BinaryOp::Rem if self.is_float(right) => 4,
            BinaryOp::Div | BinaryOp::Rem => match right.kind {
                ExprKind::Int(divisor) if divisor != 0 => 3,
                _ => u32::MAX,
            },
            BinaryOp::Pow | BinaryOp::MatMul => u32::MAX,
            _ => 1,
        }
    }

    fn is_float(&self, expr: &Expr) -> bool {
        match self.mono.ty(&expr.ty, expr.span) {
            Ok(Type::Scalar(s) | Type::Vector(s, _)) => s.is_float(),
            _ => false,
        }
    }
}

/// Returns whether an operator never triggers a run-time check.
fn is_harmless(op: BinaryOp) -> bool {
    let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
    op.is_comparison() || op.is_logical() || (op.is_bitwise() && !shift)
}

/// Returns whether a run-time check may report a cheap builtin, such as the absolute value of the smallest integer or a
/// sum that is infinite.
fn is_reported(builtin: Builtin) -> bool {
    matches!(builtin, Builtin::Math(MathFn::Abs | MathFn::Fma | MathFn::Tf32) | Builtin::Dot)
}

fn spend(budget: &mut u32, cost: u32) -> bool {
    match budget.checked_sub(cost) {
        Some(rest) => {
            *budget = rest;
            true
        }
        None => false,
    }
}

/// Returns the cost of a builtin that never faults and is cheap.
fn cheap(builtin: Builtin) -> Option<u32> {
    match builtin {
        Builtin::Math(function) => (function.row().cost == 1).then_some(1),
        Builtin::Select => Some(1),
        Builtin::Bitcast | Builtin::Len | Builtin::Shape | Builtin::NoGrad => Some(0),
        Builtin::Dot => Some(3),
        _ => None,
    }
}
