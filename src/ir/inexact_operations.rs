//! Lists the operations of a kernel whose results may differ between devices or runs: functions that are accurate to
//! some ULPs, and sums of floats in an unspecified order. A kernel without them computes the same bits everywhere, if
//! its results do not depend on the order of its threads.

use std::collections::BTreeMap;

use clk_base::source::Span;
use clk_scalar::ops::{AtomicOp, MathFn, WarpOp};

use crate::def::*;
use crate::visit::each_stmt;

/// The operations of a kernel that devices may round differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InexactOperations {
    /// The functions, each with the maximum error in ULPs.
    pub functions: BTreeMap<&'static str, u32>,
    /// The locations of atomic and warp-wide sums of floats.
    pub unordered_sums: Vec<Span>,
    /// Whether the kernel has matrix products with the rounding of tensor cores.
    pub tensor_cores: bool,
    /// Whether the kernel looks at the bits of computed floats. Those of NaNs are unspecified on GPUs.
    pub nan_bits: bool,
}

impl InexactOperations {
    pub fn of(module: &Module) -> InexactOperations {
        let mut found = InexactOperations::default();
        for (_, function) in module.functions.iter() {
            for (_, expr) in function.exprs.iter() {
                if let Some((name, ulps)) = inexact_function(expr) {
                    found.functions.insert(name, ulps);
                }
                found.nan_bits |= reads_bits(expr, function);
            }
            each_stmt(&function.body, &mut |stmt| {
                let operand = sum_operand(&stmt.kind).and_then(|id| function.exprs.get(id));
                if operand.is_some_and(|expr| expr.ty.scalar().is_float()) {
                    found.unordered_sums.push(stmt.span);
                }
                if let StmtKind::Warp { op: WarpOp::MatchAny, value, .. } = &stmt.kind {
                    found.nan_bits |= is_computed_float(*value, function);
                }
                let StmtKind::For { collective, .. } = &stmt.kind else { return };
                found.tensor_cores |= matches!(collective, Some(CollectiveLoop::Gemm(_)));
            });
        }
        found
    }

    /// Adds the operations of another instance of the kernel.
    pub fn merge(&mut self, other: InexactOperations) {
        self.functions.extend(other.functions);
        for span in other.unordered_sums {
            if !self.unordered_sums.contains(&span) {
                self.unordered_sums.push(span);
            }
        }
        self.tensor_cores |= other.tensor_cores;
        self.nan_bits |= other.nan_bits;
    }

    /// Returns whether each operation has the same result on all devices and in every run.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.unordered_sums.is_empty() && !self.tensor_cores
    }
}

/// Returns whether an expression depends on the sign or the payload of a float that may be a computed NaN.
fn reads_bits(expr: &Expr, function: &Function) -> bool {
    match &expr.kind {
        ExprKind::Bitcast(value) => !expr.ty.scalar().is_float() && is_computed_float(*value, function),
        ExprKind::Math { function: MathFn::Copysign, args } => args.iter().any(|arg| is_computed_float(*arg, function)),
        _ => false,
    }
}

/// Returns whether a value is a float that is neither loaded nor a constant. Variables may hold computed values.
fn is_computed_float(value: ExprId, function: &Function) -> bool {
    function.exprs.get(value).is_some_and(|expr| {
        expr.ty.scalar().is_float() && !matches!(expr.kind, ExprKind::Load { .. } | ExprKind::Const(_))
    })
}

/// Returns the operand of an atomic or warp-wide sum, whose order of additions is unspecified.
pub fn sum_operand(kind: &StmtKind) -> Option<ExprId> {
    match kind {
        StmtKind::Atomic { op: AtomicOp::Add | AtomicOp::Sub, value, .. }
        | StmtKind::Warp { op: WarpOp::ReduceAdd, value, .. } => Some(*value),
        _ => None,
    }
}

/// Returns the name and the maximum error of a function of floats that is not exact.
fn inexact_function(expr: &Expr) -> Option<(&'static str, u32)> {
    let function = match &expr.kind {
        ExprKind::Math { function, .. } if !function.is_exact() => *function,
        ExprKind::Binary { op: BinOp::Pow, .. } => MathFn::Pow,
        _ => return None,
    };
    expr.ty.scalar().is_float().then_some((function.row().name, function.max_ulps()))
}
