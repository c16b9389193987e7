//! Open literals: array literals whose element type is determined at run time by the other operands. An example is
//! `[1, 2]` in `d + [1, 2]`, if `d` was loaded from a file.
//!
//! Input: the operands of an operation. Output: the values of the operands; open literals have the scalar type of the
//! other operands.

use crate::array::ElementType;
use crate::grad;
use crate::ops;
use crate::value::HostValue;
use clk_check::typed::{Dim, Expr, ExprKind, Type};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;

use super::context::{Eval, EvalContext};
use super::frame::HostFrame;

/// Returns whether the expression is an open literal.
pub(super) fn is_open_literal(expr: &Expr) -> bool {
    matches!(&expr.ty, Type::Array(array) if array.element == Type::Unknown) && expr.is_literal_array()
}

/// Returns the shape of an array literal with several axes, such as `[[1, 2], [3, 4]]`; `None` for other types. The
/// typed tree stores the elements of such a literal in one list without nesting.
pub(super) fn nested_shape(ty: &Type, count: usize) -> Option<Vec<i64>> {
    let Type::Array(array) = ty else { return None };
    let known = |d: &Dim| if let Dim::Known(n) = d { Some(*n) } else { None };
    let shape: Vec<i64> = array.dims.iter().map(known).collect::<Option<_>>()?;
    (shape.len() > 1 && shape.iter().product::<i64>() == count as i64).then_some(shape)
}

impl EvalContext<'_> {
    /// Replaces the value of each open literal among the operands. `what` is the name of the operation in error
    /// messages.
    pub(super) fn adapt_literals(
        &mut self,
        frame: &mut HostFrame,
        operands: &[&Expr],
        values: &mut [HostValue],
        what: &str,
    ) -> Eval<()> {
        let others = operands.iter().zip(&*values).filter(|(operand, _)| !is_open_literal(operand));
        let others: Vec<HostValue> = others.map(|(_, value)| grad::primal(value)).collect();
        let Some(scalar) = ops::common_scalar(&others.iter().collect::<Vec<_>>()) else { return Ok(()) };
        for (operand, value) in operands.iter().zip(values) {
            if is_open_literal(operand) {
                *value = self.literal_array(frame, operand, scalar, what)?;
            }
        }
        Ok(())
    }

    /// Like [`EvalContext::adapt_literals`], for the arguments of a builtin.
    pub(super) fn adapt_arguments(
        &mut self,
        frame: &mut HostFrame,
        args: &[Expr],
        values: &mut [HostValue],
        builtin: Builtin,
    ) -> Eval<()> {
        if !args.iter().any(is_open_literal) {
            return Ok(());
        }
        // The first argument of `select` is the condition, whose type does not depend on the other arguments.
        let first = usize::from(builtin == Builtin::Select).min(args.len());
        let operands: Vec<&Expr> = args[first..].iter().collect();
        self.adapt_literals(frame, &operands, &mut values[first..], &format!("`{}`", builtin.name()))
    }

    /// Evaluates an open literal with elements of this type.
    pub(super) fn literal_array(&mut self, frame: &mut HostFrame, expr: &Expr, scalar: Scalar, what: &str) -> Eval {
        let items = match &expr.kind {
            ExprKind::Array(items) => items,
            ExprKind::Builtin { args, .. } => args,
            _ => return Err(self.internal_error(expr.span, "this is not an array literal")),
        };
        let mut values = self.eval_all(frame, items)?;
        for (value, item) in values.iter_mut().zip(items) {
            *value = ops::adapt(value, scalar, what).map_err(|problem| self.problem(problem, item.span))?;
        }
        let flat = match &expr.kind {
            ExprKind::Array(_) => ops::literal(&self.exec, &values, Some(&ElementType::Scalar(scalar))),
            _ => ops::arange(&values),
        };
        let shaped = flat.and_then(|flat| match nested_shape(&expr.ty, values.len()) {
            Some(shape) if matches!(expr.kind, ExprKind::Array(_)) => ops::reshape(&flat, &shape),
            _ => Ok(flat),
        });
        shaped.map_err(|problem| self.problem(problem, expr.span))
    }
}
