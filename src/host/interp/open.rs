//! Array literals whose element type only the run knows: `d + [1, 2]` where `d` was loaded.
//!
//! Input: the operands of an operation. Output: their values, where such literals have the scalar type of the other operands.

use crate::check::typed::{Dim, Expr, ExprKind, Type};
use crate::host::array::Element;
use crate::host::grad;
use crate::host::ops;
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::scalar::Scalar;

use super::frame::Frame;
use super::machine::{Eval, Machine};

/// Returns whether the expression is such a literal.
pub(super) fn is_open(expr: &Expr) -> bool {
    matches!(&expr.ty, Type::Array(array) if array.element == Type::Unknown) && expr.is_literal_array()
}

/// Returns the shape of a literal of several axes, whose elements are one flat list in the tree.
pub(super) fn nested_shape(ty: &Type, count: usize) -> Option<Vec<i64>> {
    let Type::Array(array) = ty else { return None };
    let known = |d: &Dim| if let Dim::Known(n) = d { Some(*n) } else { None };
    let shape: Vec<i64> = array.dims.iter().map(known).collect::<Option<_>>()?;
    (shape.len() > 1 && shape.iter().product::<i64>() == count as i64).then_some(shape)
}

impl Machine<'_> {
    /// Replaces the values of literals among the operands. `what` names the operation in messages.
    pub(super) fn adapt_literals(
        &mut self,
        frame: &mut Frame,
        operands: &[&Expr],
        values: &mut [Value],
        what: &str,
    ) -> Eval<()> {
        let others = operands.iter().zip(&*values).filter(|(operand, _)| !is_open(operand));
        let others: Vec<Value> = others.map(|(_, value)| grad::primal(value)).collect();
        let Some(scalar) = ops::common_scalar(&others.iter().collect::<Vec<_>>()) else { return Ok(()) };
        for (operand, value) in operands.iter().zip(values) {
            if is_open(operand) {
                *value = self.literal_array(frame, operand, scalar, what)?;
            }
        }
        Ok(())
    }

    /// Like [`Machine::adapt_literals`], for the arguments of a builtin.
    pub(super) fn adapt_arguments(
        &mut self,
        frame: &mut Frame,
        args: &[Expr],
        values: &mut [Value],
        builtin: Builtin,
    ) -> Eval<()> {
        if !args.iter().any(is_open) {
            return Ok(());
        }
        // The condition has a type of its own.
        let first = usize::from(builtin == Builtin::Select).min(args.len());
        let operands: Vec<&Expr> = args[first..].iter().collect();
        self.adapt_literals(frame, &operands, &mut values[first..], &format!("`{}`", builtin.name()))
    }

    /// Returns the value of such a literal with elements of this type.
    pub(super) fn literal_array(&mut self, frame: &mut Frame, expr: &Expr, scalar: Scalar, what: &str) -> Eval {
        let items = match &expr.kind {
            ExprKind::Array(items) => items,
            ExprKind::Builtin { args, .. } => args,
            _ => return Err(self.broken(expr.span, "this is no array literal")),
        };
        let mut values = self.values(frame, items)?;
        for (value, item) in values.iter_mut().zip(items) {
            *value = ops::adapt(value, scalar, what).map_err(|problem| self.problem(problem, item.span))?;
        }
        let made = match &expr.kind {
            ExprKind::Array(_) => ops::literal(&values, Some(&Element::Scalar(scalar))),
            _ => ops::arange(&values),
        };
        let shaped = made.and_then(|flat| match nested_shape(&expr.ty, values.len()) {
            Some(shape) if matches!(expr.kind, ExprKind::Array(_)) => ops::reshape(&flat, &shape),
            _ => Ok(flat),
        });
        shaped.map_err(|problem| self.problem(problem, expr.span))
    }
}
