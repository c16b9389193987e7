//! Checks a kernel's `assume` clauses before a launch. Conditions are always checked. Promises about the elements of
//! arrays are checked under `--check`, or if the device's code depends on them.
//!
//! Integers in conditions are computed exactly, so overflow cannot make `N * M < K` true.

use crate::array::Array;
use crate::graph::integer_range::min_max;
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Access, ArrayPromise, Assume, AssumeKind, Expr, ExprKind, Kernel, Type};
use clk_check::visit;
use clk_scalar::array_assumption::{self, PromiseViolation, find_violation};
use clk_scalar::ops::{BinaryOp, UnaryOp};

use super::context::{Eval, EvalContext, Signal};
use super::exact_integers::ExactIntUse;
use super::frame::HostFrame;

impl EvalContext<'_> {
    /// Checks conditions and, if memory checks are enabled, promises about arrays.
    pub(super) fn check_contracts(
        &mut self,
        frame: &mut HostFrame,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        span: Span,
    ) -> Eval<()> {
        self.check_conditions(frame, kernel, span)?;
        self.check_array_promises(frame, kernel, values, span)
    }

    /// Checks the conditions on sizes, constants and parameters.
    pub(super) fn check_conditions(&mut self, frame: &mut HostFrame, kernel: &Kernel, span: Span) -> Eval<()> {
        self.check_assumes(frame, kernel, &kernel.assumes, span)
    }

    /// Like [`EvalContext::check_conditions`], but for the given `assume` clauses only.
    pub(super) fn check_assumes<'a>(
        &mut self,
        frame: &mut HostFrame,
        kernel: &Kernel,
        assumes: impl IntoIterator<Item = &'a Assume>,
        span: Span,
    ) -> Eval<()> {
        for assume in assumes {
            if let AssumeKind::Condition(condition) = &assume.kind
                && !self.with_arithmetic_checks(|machine| machine.condition_holds(frame, condition))?
            {
                let values = self.describe_operands(frame, kernel, condition);
                return Err(self.unmet_assumption_error(kernel, assume, values, span));
            }
        }
        Ok(())
    }

    /// Checks promises about arrays, if memory checks are enabled.
    pub(super) fn check_array_promises(
        &mut self,
        frame: &mut HostFrame,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        span: Span,
    ) -> Eval<()> {
        if !self.interp.options.control.checks.memory {
            return Ok(());
        }
        kernel.assumes.iter().try_for_each(|assume| self.check_array_promise(frame, kernel, assume, values, span))
    }

    fn check_array_promise(
        &mut self,
        frame: &mut HostFrame,
        kernel: &Kernel,
        assume: &Assume,
        values: &[Option<HostValue>],
        span: Span,
    ) -> Eval<()> {
        let AssumeKind::Array { param, promise } = &assume.kind else { return Ok(()) };
        let Some(Some(HostValue::Array(array))) = values.get(*param as usize) else { return Ok(()) };
        let promise = self.evaluate_promise(frame, promise)?;
        let Some(scalar) = array.scalar() else { return Ok(()) };
        let bytes = array.bytes().map_err(|problem| self.problem(problem, span))?;
        let Some(found) = find_violation(promise, scalar, bytes) else { return Ok(()) };
        let name = &kernel.sig.params[*param as usize].name;
        let mut text = broken_promise_text(name, array, found);
        for expr in assume.exprs() {
            let values = self.describe_operands(frame, kernel, expr);
            text = if values.is_empty() { text } else { format!("{text}, and {values}") };
        }
        Err(self.unmet_assumption_error(kernel, assume, text, span))
    }

    fn evaluate_promise(
        &mut self,
        frame: &mut HostFrame,
        promise: &ArrayPromise,
    ) -> Eval<array_assumption::PromiseValue> {
        Ok(match promise {
            ArrayPromise::All { op, bound } => {
                array_assumption::PromiseValue::All(*op, self.eval_exact(frame, bound, ExactIntUse::Assumption)?)
            }
            ArrayPromise::Ascending => array_assumption::PromiseValue::Ascending,
            ArrayPromise::Distinct => array_assumption::PromiseValue::Distinct,
            ArrayPromise::Permutation => array_assumption::PromiseValue::Permutation,
        })
    }

    /// Checks promises about the range of elements in arrays that the kernel only reads, by comparing the minimum and
    /// maximum. Each is computed on the device that holds the array, and again only after the array has changed.
    pub(super) fn check_promised_ranges(
        &mut self,
        frame: &mut HostFrame,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        span: Span,
    ) -> Eval<()> {
        for assume in &kernel.assumes {
            let AssumeKind::Array { param, promise } = &assume.kind else { continue };
            let Some(Some(HostValue::Array(array))) = values.get(*param as usize) else { continue };
            if kernel.sig.params[*param as usize].access != Access::In || array.is_empty() {
                continue;
            }
            let promise = self.evaluate_promise(frame, promise)?;
            array.storage().map_err(|problem| self.problem(problem, span))?;
            let extremes = min_max(&self.exec, array).map_err(|problem| self.problem(problem, span))?;
            // On a violation, this check finds an element that breaks the promise, for the error message.
            if !extremes
                .is_some_and(|(least, most)| array_assumption::holds_within(promise, least, most, array.count()))
            {
                self.check_array_promise(frame, kernel, assume, values, span)?;
            }
        }
        Ok(())
    }

    fn condition_holds(&mut self, frame: &mut HostFrame, condition: &Expr) -> Eval<bool> {
        match &condition.kind {
            ExprKind::Binary { op: BinaryOp::And, left, right } => {
                Ok(self.condition_holds(frame, left)? && self.condition_holds(frame, right)?)
            }
            ExprKind::Binary { op: BinaryOp::Or, left, right } => {
                Ok(self.condition_holds(frame, left)? || self.condition_holds(frame, right)?)
            }
            ExprKind::Unary { op: UnaryOp::Not, expr } => Ok(!self.condition_holds(frame, expr)?),
            ExprKind::Binary { op, left, right } if op.is_comparison() && is_int(left) && is_int(right) => {
                Ok(array_assumption::evaluate_comparison(
                    *op,
                    self.eval_exact(frame, left, ExactIntUse::Assumption)?,
                    self.eval_exact(frame, right, ExactIntUse::Assumption)?,
                ))
            }
            _ => self.eval_condition(frame, condition),
        }
    }

    /// Formats the dimensions and parameters in an expression: `N is 5, k is 7`.
    fn describe_operands(&mut self, frame: &mut HostFrame, kernel: &Kernel, expr: &Expr) -> String {
        let mut operands: Vec<(String, Expr)> = vec![];
        let sources = self.sources;
        visit::expr(expr, &mut |e| {
            let name = match &e.kind {
                ExprKind::Dim(i) => kernel.sig.dims.get(*i as usize).map(|dim| dim.name.to_string()),
                ExprKind::Local(id) => kernel.sig.params.get(id.index()).map(|param| param.name.to_string()),
                ExprKind::ConstParam(i) => kernel.sig.generics.get(*i as usize).map(|generic| generic.name.to_string()),
                ExprKind::Field { .. } | ExprKind::TupleField { .. } | ExprKind::Swizzle { .. } => {
                    Some(sources.slice(e.span).to_string())
                }
                _ => None,
            };
            if let Some(name) = name
                && !operands.iter().any(|(known, _)| *known == name)
            {
                operands.push((name, e.clone()));
            }
        });
        let mut shown = vec![];
        for (name, expr) in operands {
            if let Ok(value) = self.eval(frame, &expr)
                && let Some(value) = value.as_int()
            {
                shown.push(format!("`{name}` is {value}"));
            }
        }
        shown.join(", ")
    }

    fn unmet_assumption_error(&self, kernel: &Kernel, assume: &Assume, values: String, span: Span) -> Signal {
        let text = self.sources.slice(assume.span).split_whitespace().collect::<Vec<_>>().join(" ");
        let title = format!("`{}` assumes `{text}`, which is not so", kernel.name);
        let values = if values.is_empty() { "assumed here".to_string() } else { values };
        self.error(Diagnostic::error("E0525", title).at(assume.span, values).because(span, "launched here"))
    }
}

fn is_int(expr: &Expr) -> bool {
    matches!(&expr.ty, Type::Scalar(scalar) if scalar.is_int())
}

/// Describes the element that breaks a promise.
fn broken_promise_text(name: &str, array: &Array, found: PromiseViolation) -> String {
    let at = |index: usize| {
        let mut rest = index;
        let mut place: Vec<String> = vec![];
        for &extent in array.shape().iter().rev() {
            place.insert(0, (rest % extent.max(1)).to_string());
            rest /= extent.max(1);
        }
        format!("`{name}[{}]`", place.join(", "))
    };
    match found {
        PromiseViolation::InvalidElement { index, value } => format!("{} is {value}", at(index)),
        PromiseViolation::Descending { index, value, before } => {
            format!("{} is {value}, less than {}, which is {before}", at(index), at(index - 1))
        }
        PromiseViolation::Duplicate { index, value, first } => {
            format!("{} and {} are both {value}", at(first), at(index))
        }
    }
}
