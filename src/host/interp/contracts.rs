//! Tests of a kernel's `assume` clauses before a launch: conditions always; promises about arrays in runs with checks, and where
//! the device's code rests on them.
//!
//! Integers are computed exactly: `N * M < K` does not hold because a product was cut off.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Access, Assume, AssumeKind, Expr, ExprKind, Kernel, Promise, Type};
use crate::check::walk;
use crate::host::array::Array;
use crate::host::graph::integers::extremes;
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::promise::{self, Broken, broken};

use super::extent::Exact;
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};

impl Machine<'_> {
    /// Tests conditions, and in a run with checks promises about arrays.
    pub(super) fn contracts(
        &mut self,
        frame: &mut Frame,
        kernel: &Kernel,
        values: &[Option<Value>],
        span: Span,
    ) -> Eval<()> {
        self.conditions(frame, kernel, span)?;
        self.promises(frame, kernel, values, span)
    }

    /// Tests the conditions on sizes, constants and parameters.
    pub(super) fn conditions(&mut self, frame: &mut Frame, kernel: &Kernel, span: Span) -> Eval<()> {
        self.conditions_of(frame, kernel, &kernel.assumes, span)
    }

    /// As [`Machine::conditions`], of these.
    pub(super) fn conditions_of<'a>(
        &mut self,
        frame: &mut Frame,
        kernel: &Kernel,
        assumes: impl IntoIterator<Item = &'a Assume>,
        span: Span,
    ) -> Eval<()> {
        for assume in assumes {
            if let AssumeKind::Condition(condition) = &assume.kind
                && !self.exactly(|machine| machine.holds(frame, condition))?
            {
                let values = self.values_in(frame, kernel, condition);
                return Err(self.unmet(kernel, assume, values, span));
            }
        }
        Ok(())
    }

    /// Tests promises about arrays in a run with checks.
    pub(super) fn promises(
        &mut self,
        frame: &mut Frame,
        kernel: &Kernel,
        values: &[Option<Value>],
        span: Span,
    ) -> Eval<()> {
        if !self.interp.options.control.checks.memory {
            return Ok(());
        }
        kernel.assumes.iter().try_for_each(|assume| self.promise(frame, kernel, assume, values, span))
    }

    fn promise(
        &mut self,
        frame: &mut Frame,
        kernel: &Kernel,
        assume: &Assume,
        values: &[Option<Value>],
        span: Span,
    ) -> Eval<()> {
        let AssumeKind::Array { param, promise } = &assume.kind else { return Ok(()) };
        let Some(Some(Value::Array(array))) = values.get(*param as usize) else { return Ok(()) };
        let promise = self.with_values(frame, promise)?;
        let Some(scalar) = array.scalar() else { return Ok(()) };
        let bytes = array.bytes().map_err(|problem| self.problem(problem, span))?;
        let Some(found) = broken(promise, scalar, bytes) else { return Ok(()) };
        let name = &kernel.sig.params[*param as usize].name;
        let mut text = text(name, array, found);
        for expr in assume.exprs() {
            let values = self.values_in(frame, kernel, expr);
            text = if values.is_empty() { text } else { format!("{text}, and {values}") };
        }
        Err(self.unmet(kernel, assume, text, span))
    }

    fn with_values(&mut self, frame: &mut Frame, promise: &Promise) -> Eval<promise::Promise> {
        Ok(match promise {
            Promise::All { op, bound } => promise::Promise::All(*op, self.exact(frame, bound, Exact::Assumption)?),
            Promise::Ascending => promise::Promise::Ascending,
            Promise::Distinct => promise::Promise::Distinct,
            Promise::Permutation => promise::Promise::Permutation,
        })
    }

    /// Tests what is promised of how elements of arrays that the kernel reads compare with numbers, once per version of an array
    /// and on the device that has it; an error if an element breaks a promise.
    pub(super) fn ranges_kept(
        &mut self,
        frame: &mut Frame,
        kernel: &Kernel,
        values: &[Option<Value>],
        span: Span,
    ) -> Eval<()> {
        for assume in &kernel.assumes {
            let AssumeKind::Array { param, promise } = &assume.kind else { continue };
            let Some(Some(Value::Array(array))) = values.get(*param as usize) else { continue };
            if kernel.sig.params[*param as usize].access != Access::In || array.is_empty() {
                continue;
            }
            let promise = self.with_values(frame, promise)?;
            array.storage().map_err(|problem| self.problem(problem, span))?;
            let extremes = extremes(array).map_err(|problem| self.problem(problem, span))?;
            // Otherwise, an element says why.
            if !extremes.is_some_and(|extremes| promise::is_kept_within(promise, extremes, array.count())) {
                self.promise(frame, kernel, assume, values, span)?;
            }
        }
        Ok(())
    }

    fn holds(&mut self, frame: &mut Frame, condition: &Expr) -> Eval<bool> {
        match &condition.kind {
            ExprKind::Binary { op: BinaryOp::And, left, right } => {
                Ok(self.holds(frame, left)? && self.holds(frame, right)?)
            }
            ExprKind::Binary { op: BinaryOp::Or, left, right } => {
                Ok(self.holds(frame, left)? || self.holds(frame, right)?)
            }
            ExprKind::Unary { op: UnaryOp::Not, expr } => Ok(!self.holds(frame, expr)?),
            ExprKind::Binary { op, left, right } if op.is_comparison() && is_int(left) && is_int(right) => {
                Ok(promise::compares(
                    *op,
                    self.exact(frame, left, Exact::Assumption)?,
                    self.exact(frame, right, Exact::Assumption)?,
                ))
            }
            _ => self.truth(frame, condition),
        }
    }

    /// Writes the dimensions and parameters of an expression as `N is 5, k is 7`.
    fn values_in(&mut self, frame: &mut Frame, kernel: &Kernel, expr: &Expr) -> String {
        let mut named: Vec<(String, Expr)> = vec![];
        let sources = self.sources;
        walk::expr(expr, &mut |e| {
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
                && !named.iter().any(|(known, _)| *known == name)
            {
                named.push((name, e.clone()));
            }
        });
        let mut shown = vec![];
        for (name, expr) in named {
            if let Ok(value) = self.eval(frame, &expr)
                && let Some(value) = value.as_int()
            {
                shown.push(format!("`{name}` is {value}"));
            }
        }
        shown.join(", ")
    }

    fn unmet(&self, kernel: &Kernel, assume: &Assume, values: String, span: Span) -> Signal {
        let text = self.sources.slice(assume.span).split_whitespace().collect::<Vec<_>>().join(" ");
        let title = format!("`{}` assumes `{text}`, which is not so", kernel.name);
        let values = if values.is_empty() { "assumed here".to_string() } else { values };
        self.error(Diagnostic::error("E0525", title).at(assume.span, values).because(span, "launched here"))
    }
}

fn is_int(expr: &Expr) -> bool {
    matches!(&expr.ty, Type::Scalar(scalar) if scalar.is_int())
}

/// Says which element breaks a promise.
fn text(name: &str, array: &Array, found: Broken) -> String {
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
        Broken::Alone { index, value } => format!("{} is {value}", at(index)),
        Broken::Descends { index, value, before } => {
            format!("{} is {value}, less than {}, which is {before}", at(index), at(index - 1))
        }
        Broken::Again { index, value, first } => format!("{} and {} are both {value}", at(first), at(index)),
    }
}
