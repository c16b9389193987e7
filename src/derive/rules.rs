//! The rules of [`lang::derivative`](crate::lang::derivative) for expressions of a kernel.

use std::convert::Infallible;

use super::lost::Lost;
use crate::ir::build::FunctionBuilder;
use crate::ir::def::*;
use crate::lang::derivative::{self, Partial, Terms};
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Value;

/// Something that makes expressions, and knows how an expression of the original kernel is called where it is now.
pub(super) trait Maker {
    fn builder(&mut self) -> &mut FunctionBuilder;
    fn here(&mut self, id: ExprId) -> ExprId;
}

/// A [`Maker`] as what makes the terms of the table's rules.
struct Made<'a, M>(&'a mut M);

impl<M: Maker> Terms for Made<'_, M> {
    type Value = ExprId;
    type Error = Infallible;

    fn number(&mut self, like: &ExprId, number: f64) -> Result<ExprId, Infallible> {
        let ty = self.0.builder().ty(*like);
        Ok(constant(self.0.builder(), ty, number))
    }

    fn unary(&mut self, op: UnaryOp, value: &ExprId) -> Result<ExprId, Infallible> {
        let value = self.0.here(*value);
        Ok(self.0.builder().unary(op, value))
    }

    fn binary(&mut self, op: BinaryOp, left: &ExprId, right: &ExprId) -> Result<ExprId, Infallible> {
        let (left, right) = (self.0.here(*left), self.0.here(*right));
        // All but products of matrices, of which there are none among the rules.
        let op = BinOp::strict(op).unwrap_or(BinOp::Mul);
        Ok(self.0.builder().binary(op, left, right))
    }

    fn math(&mut self, function: MathFn, args: &[ExprId]) -> Result<ExprId, Infallible> {
        let args: Vec<ExprId> = args.iter().map(|&arg| self.0.here(arg)).collect();
        Ok(self.0.builder().math(function, &args))
    }

    fn select(&mut self, cond: &ExprId, then: &ExprId, other: &ExprId) -> Result<ExprId, Infallible> {
        let (cond, then, other) = (self.0.here(*cond), self.0.here(*then), self.0.here(*other));
        Ok(self.0.builder().select(cond, then, other))
    }
}

/// Makes a number of a float type, in all lanes.
pub(super) fn constant(b: &mut FunctionBuilder, ty: Ty, number: f64) -> ExprId {
    let one = b.constant(Value::of(number).to_type(ty.scalar()));
    if let Ty::Vector(_, lanes) = ty { b.broadcast(one, lanes) } else { one }
}

/// Returns the operands of an operation that the table of rules is about.
pub(super) fn operands(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Binary { left, right, .. } => vec![*left, *right],
        ExprKind::Math { args, .. } => args.clone(),
        _ => vec![],
    }
}

/// Returns `factor` times the partial derivative of an operation of the table by one of its operands; none if that is zero.
pub(super) fn times_partial<M: Maker>(
    maker: &mut M,
    f: &Function,
    id: ExprId,
    operand: usize,
    factor: ExprId,
) -> Result<Option<ExprId>, Lost> {
    let found = match &f.exprs[id].kind {
        ExprKind::Binary { op, left, right } => {
            derivative::of_binary(&mut Made(maker), op.operator(), (left, right), &id, operand)
        }
        ExprKind::Math { function, args } => derivative::of_math(&mut Made(maker), *function, args, &id, operand),
        _ => Ok(None),
    };
    let Ok(found) = found;
    match found {
        None => Err(Lost::new(f.spans[id], "Clk has no derivative of this operation", "use other functions")),
        Some(Partial::Zero) => Ok(None),
        Some(Partial::One) => Ok(Some(factor)),
        Some(Partial::MinusOne) => Ok(Some(maker.builder().unary(UnaryOp::Neg, factor))),
        Some(Partial::Times(partial)) => {
            let partial = maker.here(partial);
            let partial = if is_length(f, id) { unless_zero(maker, id, partial) } else { partial };
            let b = maker.builder();
            let scalar = b.ty(factor).scalar();
            let partial = b.convert(partial, scalar);
            Ok(Some(b.binary(BinOp::Mul, factor, partial)))
        }
    }
}

/// Returns whether an expression is the root of a sum of squares, which has the derivative 0 where it is 0, as `abs` and `hypot` have.
fn is_length(f: &Function, id: ExprId) -> bool {
    matches!(&f.exprs[id].kind, ExprKind::Math { function: MathFn::Sqrt, args } if is_sum_of_squares(f, args[0]))
}

fn is_sum_of_squares(f: &Function, id: ExprId) -> bool {
    match &f.exprs[id].kind {
        ExprKind::Binary { op: BinOp::Mul, left, right } => left == right,
        ExprKind::Binary { op: BinOp::Add, left, right } => is_sum_of_squares(f, *left) && is_sum_of_squares(f, *right),
        ExprKind::Const(bits) => Value { ty: f.exprs[id].ty.scalar(), bits: *bits }.as_f64() >= 0.0,
        ExprKind::Math { function: MathFn::Fma, args } => args[0] == args[1] && is_sum_of_squares(f, args[2]),
        _ => false,
    }
}

fn unless_zero<M: Maker>(maker: &mut M, id: ExprId, partial: ExprId) -> ExprId {
    let result = maker.here(id);
    let b = maker.builder();
    let ty = b.ty(partial);
    let zero = constant(b, ty, 0.0);
    let is_zero = b.binary(BinOp::Eq, result, zero);
    b.select(is_zero, zero, partial)
}
