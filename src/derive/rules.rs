//! Applies the derivative rules of [`clk_scalar::derivative`] to expressions of a kernel.

use std::convert::Infallible;

use super::error::NotDifferentiable;
use clk_ir::build::FunctionBuilder;
use clk_ir::def::*;
use clk_scalar::ScalarValue;
use clk_scalar::derivative::{self, Partial, TermAlgebra};
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

/// Emits expressions of a derived kernel that use values of the primal kernel.
pub(super) trait PrimalExprEmitter {
    fn builder(&mut self) -> &mut FunctionBuilder;
    /// Returns an expression for a value of the primal kernel at the current point.
    fn current_value(&mut self, id: ExprId) -> ExprId;
}

/// Adapts a [`PrimalExprEmitter`] to the interface of the rule table.
struct RuleTerms<'a, M>(&'a mut M);

impl<M: PrimalExprEmitter> TermAlgebra for RuleTerms<'_, M> {
    type Value = ExprId;
    type Error = Infallible;

    fn number(&mut self, like: &ExprId, number: f64) -> Result<ExprId, Infallible> {
        let ty = self.0.builder().ty(*like);
        Ok(constant(self.0.builder(), ty, number))
    }

    fn unary(&mut self, op: UnaryOp, value: &ExprId) -> Result<ExprId, Infallible> {
        let value = self.0.current_value(*value);
        Ok(self.0.builder().unary(op, value))
    }

    fn binary(&mut self, op: BinaryOp, left: &ExprId, right: &ExprId) -> Result<ExprId, Infallible> {
        let (left, right) = (self.0.current_value(*left), self.0.current_value(*right));
        // The rules do not contain matrix products, which have no DeviceIR operator.
        let op = BinOp::strict(op).unwrap_or(BinOp::Mul);
        Ok(self.0.builder().binary(op, left, right))
    }

    fn math(&mut self, function: MathFn, args: &[ExprId]) -> Result<ExprId, Infallible> {
        let args: Vec<ExprId> = args.iter().map(|&arg| self.0.current_value(arg)).collect();
        Ok(self.0.builder().math(function, &args))
    }

    fn select(&mut self, cond: &ExprId, then: &ExprId, other: &ExprId) -> Result<ExprId, Infallible> {
        let (cond, then, other) =
            (self.0.current_value(*cond), self.0.current_value(*then), self.0.current_value(*other));
        Ok(self.0.builder().select(cond, then, other))
    }
}

/// Emits a float constant in all lanes.
pub(super) fn constant(b: &mut FunctionBuilder, ty: Ty, number: f64) -> ExprId {
    let one = b.constant(ScalarValue::of(number).to_type(ty.scalar()));
    if let Ty::Vector(_, lanes) = ty { b.broadcast(one, lanes) } else { one }
}

/// Returns the operands of an operation for which there is a rule.
pub(super) fn operands(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Binary { left, right, .. } => vec![*left, *right],
        ExprKind::Math { args, .. } => args.clone(),
        _ => vec![],
    }
}

/// Returns `factor` times the partial derivative of an operation with respect to one operand; `None` if it is zero.
pub(super) fn times_partial<M: PrimalExprEmitter>(
    emitter: &mut M,
    f: &Function,
    id: ExprId,
    operand: usize,
    factor: ExprId,
) -> Result<Option<ExprId>, NotDifferentiable> {
    let result = match &f.exprs[id].kind {
        ExprKind::Binary { op, left, right } => {
            derivative::binary_partial(&mut RuleTerms(emitter), op.operator(), left, right, &id, operand)
        }
        ExprKind::Math { function, args } => {
            derivative::math_partial(&mut RuleTerms(emitter), *function, args, &id, operand)
        }
        _ => Ok(None),
    };
    let Ok(partial) = result;
    match partial {
        None => {
            Err(NotDifferentiable::new(f.spans[id], "Clk has no derivative of this operation", "use other functions"))
        }
        Some(Partial::Zero) => Ok(None),
        Some(Partial::One) => Ok(Some(factor)),
        Some(Partial::MinusOne) => Ok(Some(emitter.builder().unary(UnaryOp::Neg, factor))),
        Some(Partial::Times(partial)) => {
            let partial = emitter.current_value(partial);
            let partial = if is_length(f, id) { unless_zero(emitter, id, partial) } else { partial };
            let b = emitter.builder();
            let scalar = b.ty(factor).scalar();
            let partial = b.convert(partial, scalar);
            Ok(Some(b.binary(BinOp::Mul, factor, partial)))
        }
    }
}

/// Returns whether an expression is the square root of a sum of squares. At 0, its derivative is defined as 0, like the
/// derivatives of `abs` and `hypot`.
fn is_length(f: &Function, id: ExprId) -> bool {
    matches!(&f.exprs[id].kind, ExprKind::Math { function: MathFn::Sqrt, args } if is_sum_of_squares(f, args[0]))
}

fn is_sum_of_squares(f: &Function, id: ExprId) -> bool {
    match &f.exprs[id].kind {
        ExprKind::Binary { op: BinOp::Mul, left, right } => left == right,
        ExprKind::Binary { op: BinOp::Add, left, right } => is_sum_of_squares(f, *left) && is_sum_of_squares(f, *right),
        ExprKind::Const(bits) => ScalarValue { ty: f.exprs[id].ty.scalar(), bits: *bits }.as_f64() >= 0.0,
        ExprKind::Math { function: MathFn::Fma, args } => args[0] == args[1] && is_sum_of_squares(f, args[2]),
        _ => false,
    }
}

fn unless_zero<M: PrimalExprEmitter>(emitter: &mut M, id: ExprId, partial: ExprId) -> ExprId {
    let result = emitter.current_value(id);
    let b = emitter.builder();
    let ty = b.ty(partial);
    let zero = constant(b, ty, 0.0);
    let is_zero = b.binary(BinOp::Eq, result, zero);
    b.select(is_zero, zero, partial)
}
