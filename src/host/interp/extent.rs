//! Exact evaluation of extents such as `[f32; N * N]` and `grid(ceil_div(N, 64) * M)`, and of the integers of `assume` clauses, so that
//! one that is too large cannot wrap around to a valid one. What is not `+ - *`, or `/` in an extent, such as the operands of a
//! function, is computed in its type, and must fit it.

use crate::base::diag::Diagnostic;
use crate::check::typed::{Expr, ExprKind};
use crate::lang::ops::BinaryOp;

use super::frame::Frame;
use super::machine::{Eval, Machine};

/// What an exact integer is for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Exact {
    /// Saturates at values that are out of range for every extent; quotients are exact, too.
    Extent,
    /// What exceeds 128 bits is an error.
    Assumption,
}

impl Machine<'_> {
    /// Evaluates an integer in 128 bits, with checks of what is computed in its type.
    pub(super) fn exact(&mut self, frame: &mut Frame, expr: &Expr, of: Exact) -> Eval<i128> {
        if let ExprKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), left, right } = &expr.kind {
            let (left, right) = (self.exact(frame, left, of)?, self.exact(frame, right, of)?);
            let (exact, saturated) = match op {
                BinaryOp::Add => (left.checked_add(right), left.saturating_add(right)),
                BinaryOp::Sub => (left.checked_sub(right), left.saturating_sub(right)),
                _ => (left.checked_mul(right), left.saturating_mul(right)),
            };
            return match of {
                Exact::Extent => Ok(saturated),
                Exact::Assumption => exact.ok_or_else(|| {
                    let title = "a number in an assumption is too large";
                    self.error(Diagnostic::error("E0525", title).at(expr.span, "this"))
                }),
            };
        }
        if let (Exact::Extent, ExprKind::Binary { op: BinaryOp::Div, left, right }) = (of, &expr.kind) {
            let (left, right) = (self.exact(frame, left, of)?, self.exact(frame, right, of)?);
            if left >= 0 && right > 0 {
                return Ok(left / right);
            }
        }
        let value = self.exactly(|machine| machine.eval(frame, expr))?;
        match value.as_int().filter(|_| of == Exact::Assumption) {
            Some(value) => Ok(value),
            None => self.as_integer(&value, expr.span).map(i128::from),
        }
    }

    /// Evaluates with all checks of arithmetic.
    pub(super) fn exactly<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let before = std::mem::replace(&mut self.interp.options.control.checks.arithmetic, true);
        let result = evaluate(self);
        self.interp.options.control.checks.arithmetic = before;
        result
    }
}
