//! Exact evaluation of extents, such as `[f32; N * N]` and `grid(ceil_div(N, 64) * M)`, and of integers in `assume`
//! clauses. `+`, `-` and `*`, and `/` in extents, are computed in 128 bits, so an extent that is too large cannot wrap
//! around to a valid one. Other operations are computed in the type of their operands, and overflow is an error.

use clk_base::diag::Diagnostic;
use clk_check::typed::{Expr, ExprKind};
use clk_scalar::ops::BinaryOp;

use super::context::{Eval, EvalContext};
use super::frame::HostFrame;

/// The use of an exact integer. It determines what happens if the integer overflows 128 bits.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ExactIntUse {
    /// An extent. Overflow saturates; the result is then too large for an extent, which is an error. Division is also
    /// computed in 128 bits.
    Extent,
    /// An integer in an `assume` clause. Overflow is an error.
    Assumption,
}

impl EvalContext<'_> {
    /// Evaluates an integer expression in 128 bits. Operations that are not computed in 128 bits are checked for
    /// overflow.
    pub(super) fn eval_exact(&mut self, frame: &mut HostFrame, expr: &Expr, usage: ExactIntUse) -> Eval<i128> {
        if let ExprKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), left, right } = &expr.kind {
            let (left, right) = (self.eval_exact(frame, left, usage)?, self.eval_exact(frame, right, usage)?);
            let (exact, saturated) = match op {
                BinaryOp::Add => (left.checked_add(right), left.saturating_add(right)),
                BinaryOp::Sub => (left.checked_sub(right), left.saturating_sub(right)),
                _ => (left.checked_mul(right), left.saturating_mul(right)),
            };
            return match usage {
                ExactIntUse::Extent => Ok(saturated),
                ExactIntUse::Assumption => exact.ok_or_else(|| {
                    let title = "a number in an assumption is too large";
                    self.error(Diagnostic::error("E0525", title).at(expr.span, "this"))
                }),
            };
        }
        if let (ExactIntUse::Extent, ExprKind::Binary { op: BinaryOp::Div, left, right }) = (usage, &expr.kind) {
            let (left, right) = (self.eval_exact(frame, left, usage)?, self.eval_exact(frame, right, usage)?);
            if left >= 0 && right > 0 {
                return Ok(left / right);
            }
        }
        let value = self.with_arithmetic_checks(|machine| machine.eval(frame, expr))?;
        match value.as_int().filter(|_| usage == ExactIntUse::Assumption) {
            Some(value) => Ok(value),
            None => self.as_integer(&value, expr.span).map(i128::from),
        }
    }

    /// Runs `evaluate` with all arithmetic checks enabled.
    pub(super) fn with_arithmetic_checks<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let before = std::mem::replace(&mut self.interp.options.control.checks.arithmetic, true);
        let result = evaluate(self);
        self.interp.options.control.checks.arithmetic = before;
        result
    }
}
