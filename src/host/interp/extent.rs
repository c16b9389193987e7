//! Exact evaluation of extents such as `[f32; N * N]` and `grid(ceil_div(N, 64) * M)`, so that one that is too large cannot
//! wrap around to a valid one. What is not `+ - * /`, such as the operands of a function, is computed in its type, and must fit it.

use crate::check::typed::{Expr, ExprKind};
use crate::lang::ops::BinaryOp;

use super::frame::Frame;
use super::machine::{Eval, Machine};

impl Machine<'_> {
    /// Evaluates an extent in 128 bits; saturates at values that are out of range for every extent.
    pub(super) fn exact_extent(&mut self, frame: &mut Frame, expr: &Expr) -> Eval<i128> {
        if let ExprKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), left, right } = &expr.kind {
            let (left, right) = (self.exact_extent(frame, left)?, self.exact_extent(frame, right)?);
            return Ok(match op {
                BinaryOp::Add => left.saturating_add(right),
                BinaryOp::Sub => left.saturating_sub(right),
                _ => left.saturating_mul(right),
            });
        }
        if let ExprKind::Binary { op: BinaryOp::Div, left, right } = &expr.kind {
            let (left, right) = (self.exact_extent(frame, left)?, self.exact_extent(frame, right)?);
            if left >= 0 && right > 0 {
                return Ok(left / right);
            }
        }
        self.exactly(|machine| machine.integer(frame, expr)).map(i128::from)
    }
}
