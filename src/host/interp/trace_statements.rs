//! Records evaluated expressions, compound assignments and assignments in the provenance trace.
//!
//! Input: an expression. Output: its value, and a [`TraceStep`] in the interpreter's
//! [`ProvenanceTrace`](super::provenance::ProvenanceTrace).

use std::mem;

use crate::value::HostValue;
use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, LocalId, LocalKind, Pattern};
use clk_scalar::ops::BinaryOp;

use super::context::{Eval, EvalContext};
use super::frame::HostFrame;
use super::provenance::{TraceOp, TraceOperand, TraceStep, TracedVariable};

/// A compound assignment, such as `x += y`.
pub(super) struct CompoundAssignment<'e> {
    pub op: BinaryOp,
    /// The left side.
    pub place: &'e Expr,
    /// The location of the right side.
    pub value_span: Span,
}

impl EvalContext<'_> {
    /// Evaluates an expression and records it as a step of the trace.
    pub(super) fn eval_traced(&mut self, frame: &mut HostFrame, expr: &Expr) -> Eval {
        let trace = &mut self.interp.observers.provenance;
        let outer = (mem::take(&mut trace.operands), trace.enclosing.replace(expr.span));
        let first = trace.steps.len();
        let value = self.evaluate(frame, expr);
        // While `evaluate` ran, each direct subexpression added its value to `trace.operands`.
        let launches = self.interp.observers.recorded_launches.as_ref().map_or(0, Vec::len);
        let trace = &mut self.interp.observers.provenance;
        let (operands, within) = outer;
        let own = mem::replace(&mut trace.operands, operands);
        trace.enclosing = within;
        let value = value?;
        let defined = self.defining_step(frame, expr, &value);
        let trace = &mut self.interp.observers.provenance;
        let is_array = |value: &HostValue| matches!(value, HostValue::Array(_));
        let is_known = |operand: &TraceOperand| is_array(&operand.value) || operand.step.is_some();
        let is_inner = within.is_some_and(|within| within.file == expr.span.file && within.contains(expr.span.start));
        // A number that is the value of a whole statement is recorded, because it may be assigned to a variable.
        let is_assigned_number = !is_inner && is_float(&value);
        if (is_array(&value) || is_assigned_number || own.iter().any(is_known))
            && let Some(what) = TraceOp::of_expr(self.program, expr)
        {
            trace.add_step(TraceStep { op: what, span: expr.span, operands: own, result: value.clone(), launches });
        }
        if is_inner {
            let last = trace.steps.len().checked_sub(1).filter(|last| *last >= first);
            let step = defined.or(last.filter(|last| trace.steps[*last].produced(expr.span, &value)));
            trace.operands.push(TraceOperand { span: expr.span, value: value.clone(), step });
        }
        Ok(value)
    }

    /// If an expression is a variable that holds a number, returns the index of the step that produced the number.
    fn defining_step(&self, frame: &HostFrame, expr: &Expr, value: &HostValue) -> Option<usize> {
        let HostValue::Scalar(_) = value else { return None };
        let (span, is_mutable) = match expr.kind {
            ExprKind::Global(id) => Some(&self.program.globals[id]).map(|own| (own.span, own.mutable))?,
            ExprKind::Local(id) => {
                let chunk = self.interp.observers.provenance.chunk.as_ref().map(|chunk| &chunk.body);
                let local = frame.body().or(chunk)?.locals.get(id)?;
                (local.kind == LocalKind::Var).then_some((local.span, local.mutable))?
            }
            _ => return None,
        };
        let trace = &self.interp.observers.provenance;
        // Assignments to integer variables are not traced, because integers are in slots.
        if is_mutable && !is_float(value) {
            return None;
        }
        match traced_variable(frame, expr).and_then(|own| trace.assigned.get(&own)) {
            Some(step) => step.filter(|step| trace.steps[*step].result == *value),
            None => trace.definition_step(span, self.sources.text(span.file), value),
        }
    }

    /// Records a compound assignment, such as `x += y`, to a variable that holds an array or a float. `old` is the
    /// value of the left side before the assignment, and `value` is that of the right side.
    pub(super) fn trace_update(
        &mut self,
        frame: &HostFrame,
        update: CompoundAssignment<'_>,
        old: &HostValue,
        value: &HostValue,
        result: &HostValue,
    ) {
        let Some(recorded) =
            self.interp.observers.recorded_launches.as_ref().filter(|_| self.interp.derivatives.depth == 0)
        else {
            return;
        };
        if !matches!(result, HostValue::Array(_)) && !is_float(result) {
            return;
        }
        let CompoundAssignment { op, place, value_span } = update;
        let launches = recorded.len();
        let operands = vec![
            TraceOperand { span: place.span, value: old.clone(), step: self.defining_step(frame, place, old) },
            TraceOperand {
                span: value_span,
                value: value.clone(),
                step: self.interp.observers.provenance.last_step_for(value_span, value),
            },
        ];
        let (op, span) = (TraceOp::Binary(op), place.span.to(value_span));
        self.interp.observers.provenance.add_step(TraceStep { op, span, operands, result: result.clone(), launches });
    }

    /// Records which step produced the number that is assigned to a variable: the last step, if it is the expression at
    /// `from`, and otherwise an unknown step.
    pub(super) fn trace_assignment(&mut self, frame: &HostFrame, place: &Expr, from: Option<Span>, value: &HostValue) {
        if self.interp.observers.recorded_launches.is_none() || self.interp.derivatives.depth > 0 || !is_float(value) {
            return;
        }
        let Some(own) = traced_variable(frame, place) else { return };
        let trace = &mut self.interp.observers.provenance;
        let step = from.and_then(|from| trace.last_step_for(from, value));
        trace.assigned.insert(own, step);
    }

    /// Forgets the recorded assignment of a variable when its definition is executed again.
    pub(super) fn trace_definition(&mut self, frame: &HostFrame, pattern: &Pattern) {
        match pattern {
            Pattern::Local(id) => self.interp.observers.provenance.assigned.remove(&traced_local(frame, *id)),
            Pattern::Global(id) => self.interp.observers.provenance.assigned.remove(&TracedVariable::Global(*id)),
            Pattern::Tuple(_) | Pattern::Discard => None,
        };
    }
}

fn is_float(value: &HostValue) -> bool {
    matches!(value, HostValue::Scalar(number) if number.ty.is_float())
}

fn traced_variable(frame: &HostFrame, expr: &Expr) -> Option<TracedVariable> {
    match expr.kind {
        ExprKind::Global(id) => Some(TracedVariable::Global(id)),
        ExprKind::Local(id) => Some(traced_local(frame, id)),
        _ => None,
    }
}

fn traced_local(frame: &HostFrame, id: LocalId) -> TracedVariable {
    TracedVariable::Local(std::ptr::from_ref(frame).addr(), id)
}
