//! Extents that are computed: `[f32; N * N]`, `grid(ceil_div(N, 64) * M)`. In: the expression. Out: the number that its arithmetic
//! means. An extent that is too large must not wrap around to one that fits.

use crate::check::typed::{Expr, ExprKind};
use crate::lang::ops::BinaryOp;

use super::frame::Frame;
use super::{Eval, Machine};

impl Machine<'_> {
    /// The value of an extent, computed without bounds. (Beyond 128 bits it stays at the bound, which no extent reaches.)
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
        self.integer(frame, expr).map(i128::from)
    }
}
