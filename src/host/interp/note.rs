//! Keeping what expressions do with arrays, as they are evaluated.
//!
//! Input: an expression. Output: its value, and a [`Step`] in the interpreter's [`Trail`](super::trail::Trail). Idea: see there.

use std::mem;

use crate::base::source::Span;
use crate::check::typed::{Expr, ExprKind, LocalId, LocalKind, Pattern};
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;

use super::frame::Frame;
use super::machine::{Eval, Machine};
use super::trail::{Operand, Step, Variable, What};

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
        let is_inner = within.is_some_and(|within| within.file == expr.span.file && within.contains(expr.span.start));
        // A statement's own number may be what a variable gets.
        let is_given = !is_inner && is_float(&value);
        if (is_array(&value) || is_given || own.iter().any(is_known))
            && let Some(what) = What::of(self.program, expr)
        {
            trail.keep(Step { what, span: expr.span, operands: own, result: value.clone(), launches });
        }
        if is_inner {
            let last = trail.steps.len().checked_sub(1).filter(|last| *last >= first);
            let step = defined.or(last.filter(|last| trail.steps[*last].gave(expr.span, &value)));
            trail.operands.push(Operand { span: expr.span, value: value.clone(), step });
        }
        Ok(value)
    }

    /// Returns the step that gave a number to the variable that an expression is.
    fn defined(&self, frame: &Frame, expr: &Expr, value: &Value) -> Option<usize> {
        let Value::Scalar(_) = value else { return None };
        let (span, is_mutable) = match expr.kind {
            ExprKind::Global(id) => Some(&self.program.globals[id]).map(|own| (own.span, own.mutable))?,
            ExprKind::Local(id) => {
                let chunk = self.interp.trail.chunk.as_ref().map(|chunk| &chunk.body);
                let local = frame.body().or(chunk)?.locals.get(id)?;
                (local.kind == LocalKind::Var).then_some((local.span, local.mutable))?
            }
            _ => return None,
        };
        let trail = &self.interp.trail;
        // What changes other numbers, which are in slots, nobody sees.
        if is_mutable && !is_float(value) {
            return None;
        }
        match variable(frame, expr).and_then(|own| trail.assigned.get(&own)) {
            Some(step) => step.filter(|step| trail.steps[*step].result == *value),
            None => trail.definition(span, self.sources.text(span.file), value),
        }
    }

    /// Keeps what `x += y` did, if `x` is a variable that holds an array or a number.
    pub(super) fn note_update(
        &mut self,
        frame: &Frame,
        op: BinaryOp,
        (place, old): (&Expr, &Value),
        (with, value): (Span, &Value),
        result: &Value,
    ) {
        let Some(recorded) = self.interp.recorded.as_ref().filter(|_| self.interp.tracing == 0) else { return };
        if !matches!(result, Value::Array(_)) && !is_float(result) {
            return;
        }
        let launches = recorded.len();
        let operands = vec![
            Operand { span: place.span, value: old.clone(), step: self.defined(frame, place, old) },
            Operand { span: with, value: value.clone(), step: self.interp.trail.gave_last(with, value) },
        ];
        let (what, span) = (What::Binary(op), place.span.to(with));
        self.interp.trail.keep(Step { what, span, operands, result: result.clone(), launches });
    }

    /// Keeps which step gave a variable its number: the last one, if that is the one at this place.
    pub(super) fn note_assigned(&mut self, frame: &Frame, place: &Expr, from: Option<Span>, value: &Value) {
        if self.interp.recorded.is_none() || self.interp.tracing > 0 || !is_float(value) {
            return;
        }
        let Some(own) = variable(frame, place) else { return };
        let trail = &mut self.interp.trail;
        let step = from.and_then(|from| trail.gave_last(from, value));
        trail.assigned.insert(own, step);
    }

    /// Forgets what was assigned to a variable of that name, which is now defined.
    pub(super) fn note_defined(&mut self, frame: &Frame, pattern: &Pattern) {
        match pattern {
            Pattern::Local(id) => self.interp.trail.assigned.remove(&local(frame, *id)),
            Pattern::Global(id) => self.interp.trail.assigned.remove(&Variable::Global(*id)),
            Pattern::Tuple(_) | Pattern::Discard => None,
        };
    }
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Scalar(number) if number.ty.is_float())
}

fn variable(frame: &Frame, expr: &Expr) -> Option<Variable> {
    match expr.kind {
        ExprKind::Global(id) => Some(Variable::Global(id)),
        ExprKind::Local(id) => Some(local(frame, id)),
        _ => None,
    }
}

fn local(frame: &Frame, id: LocalId) -> Variable {
    Variable::Local(std::ptr::from_ref(frame).addr(), id)
}
