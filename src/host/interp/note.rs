//! Keeping what expressions do with arrays, as they are evaluated.
//!
//! Input: an expression. Output: its value, and a [`Step`] in the interpreter's [`Trail`](super::trail::Trail). Idea: see there.

use std::mem;

use crate::base::source::Span;
use crate::check::typed::Expr;
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;

use super::frame::Frame;
use super::machine::{Eval, Machine};
use super::trail::{Operand, Step, What};

impl Machine<'_> {
    /// Evaluates an expression, and keeps what it did.
    pub(super) fn noted(&mut self, frame: &mut Frame, expr: &Expr) -> Eval {
        let trail = &mut self.interp.trail;
        let outer = (mem::take(&mut trail.operands), trail.within.replace(expr.span));
        let first = trail.steps.len();
        let value = self.evaluate(frame, expr);
        // Those that are part of the expression have left its operands.
        let launches = self.interp.recorded.as_ref().map_or(0, Vec::len);
        let trail = &mut self.interp.trail;
        let (operands, within) = outer;
        let own = mem::replace(&mut trail.operands, operands);
        trail.within = within;
        let value = value?;
        let is_array = |value: &Value| matches!(value, Value::Array(_));
        if (is_array(&value) || own.iter().any(|operand| is_array(&operand.value)))
            && let Some(what) = What::of(self.program, expr)
        {
            trail.keep(Step { what, span: expr.span, operands: own, result: value.clone(), launches });
        }
        if within.is_some_and(|within| within.file == expr.span.file && within.contains(expr.span.start)) {
            let last = trail.steps.len().checked_sub(1).filter(|last| *last >= first);
            let step = last.filter(|last| trail.steps[*last].gave(expr.span, &value));
            trail.operands.push(Operand { span: expr.span, value: value.clone(), step });
        }
        Ok(value)
    }

    /// Keeps what `x += y` did, if `x` is a variable that holds an array.
    pub(super) fn note_update(&mut self, op: BinaryOp, operands: [(&Value, Span); 2], result: &Value) {
        let Some(recorded) = self.interp.recorded.as_ref().filter(|_| self.interp.tracing == 0) else { return };
        let (launches, [(_, place), (_, with)]) = (recorded.len(), operands);
        if !matches!(result, Value::Array(_)) {
            return;
        }
        let trail = &mut self.interp.trail;
        let step = trail.steps.len().checked_sub(1).filter(|last| trail.steps[*last].gave(with, operands[1].0));
        let operands =
            operands.map(|(value, span)| Operand { span, value: value.clone(), step: step.filter(|_| span == with) });
        trail.keep(Step {
            what: if op == BinaryOp::MatMul { What::Other("a product of matrices") } else { What::Binary(op) },
            span: place.to(with),
            operands: operands.into(),
            result: result.clone(),
            launches,
        });
    }
}
