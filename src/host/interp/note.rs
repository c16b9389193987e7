//! Keeping what expressions do with arrays, as they are evaluated.
//!
//! Input: an expression. Output: its value, and a [`Step`] in the interpreter's [`Trail`](super::trail::Trail). Idea: see there.

use std::mem;

use crate::base::source::Span;
use crate::check::typed::{Expr, ExprKind, LocalKind};
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
        let defined = self.defined(frame, expr, &value);
        let trail = &mut self.interp.trail;
        let is_array = |value: &Value| matches!(value, Value::Array(_));
        let is_known = |operand: &Operand| is_array(&operand.value) || operand.step.is_some();
        if (is_array(&value) || own.iter().any(is_known))
            && let Some(what) = What::of(self.program, expr)
        {
            trail.keep(Step { what, span: expr.span, operands: own, result: value.clone(), launches });
        }
        if within.is_some_and(|within| within.file == expr.span.file && within.contains(expr.span.start)) {
            let last = trail.steps.len().checked_sub(1).filter(|last| *last >= first);
            let step = defined.or(last.filter(|last| trail.steps[*last].gave(expr.span, &value)));
            trail.operands.push(Operand { span: expr.span, value: value.clone(), step });
        }
        Ok(value)
    }

    /// Returns the step that gave a number to the variable that an expression is, if that never changes.
    fn defined(&self, frame: &Frame, expr: &Expr, value: &Value) -> Option<usize> {
        let Value::Scalar(_) = value else { return None };
        let span = match expr.kind {
            ExprKind::Global(id) => Some(&self.program.globals[id]).filter(|own| !own.mutable)?.span,
            ExprKind::Local(id) => {
                let chunk = self.interp.trail.chunk.as_ref().map(|chunk| &chunk.body);
                let local = frame.body().or(chunk)?.locals.get(id)?;
                (!local.mutable && local.kind == LocalKind::Var).then_some(local.span)?
            }
            _ => return None,
        };
        self.interp.trail.definition(span, self.sources.text(span.file), value)
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
