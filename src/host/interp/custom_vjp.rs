//! Calls of functions with a custom VJP (`with_grad`).
//!
//! Input: the call, with or without traced arguments. Output: its result. If arguments are traced, the function runs on
//! their untraced values, and its derivative is that of the rule:
//!
//! - In reverse mode, the tape records the call as one node, and the reverse sweep applies the rule.
//! - In forward mode, the tangent is the transpose of the rule, which exists because the rule is linear in the
//!   cotangent. The rule runs with a traced cotangent, and a reverse sweep over that run applies the transpose.
//! - Second derivatives differentiate the code of the rule.

use std::cell::RefCell;
use std::sync::Arc;

use crate::grad::{self, CustomVjpCall, GradTape};
use crate::problem::{HostResult, RuntimeError};
use crate::value::{GradLink, HostValue};
use clk_base::source::Span;
use clk_check::typed::{CustomVjp, Expr, Rule};
use clk_lower::GenericArgument;

use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;

/// A call of a function with a custom VJP, with the compile-time arguments and dimensions of the caller's frame.
struct CustomVjpSite {
    rule: Arc<Rule>,
    generics: Arc<[GenericArgument]>,
    dims: Vec<Option<i64>>,
    span: Span,
}

/// A call that a tape has recorded for the reverse sweep: its arguments and result, without links to that tape.
struct SavedCall {
    called: Arc<CustomVjpSite>,
    values: Vec<HostValue>,
    result: HostValue,
}

impl CustomVjpSite {
    /// Returns the leaves (floats, vectors and arrays) of the active arguments, which the rule differentiates.
    fn active_leaves(&self, values: &[HostValue]) -> Vec<HostValue> {
        let active = values.iter().zip(&self.rule.active).filter(|(_, active)| **active);
        active.flat_map(|(value, _)| grad::leaves(value)).collect()
    }

    /// Returns the arguments, with the leaves of active arguments replaced by `leaves`.
    fn replace_leaves(&self, values: &[HostValue], leaves: Vec<HostValue>) -> HostResult<Vec<HostValue>> {
        let mut leaves = leaves.into_iter();
        let one = |(value, active): (&HostValue, &bool)| match active {
            true => grad::wrap_leaves(value.clone(), &mut |leaf| Ok(leaves.next().unwrap_or(leaf))),
            false => Ok(value.clone()),
        };
        values.iter().zip(&self.rule.active).map(one).collect()
    }
}

impl EvalContext<'_> {
    pub(super) fn eval_custom_vjp(&mut self, frame: &mut HostFrame, stated: &CustomVjp, span: Span) -> Eval {
        let values = self.eval_all(frame, &stated.args)?;
        let (generics, dims) = (frame.generics.clone(), frame.dims.clone());
        self.call_custom_vjp(&Arc::new(CustomVjpSite { rule: stated.rule.clone(), generics, dims, span }), values)
    }

    fn call_custom_vjp(&mut self, called: &Arc<CustomVjpSite>, values: Vec<HostValue>) -> Eval {
        let is_lost = values.iter().zip(&called.rule.active).any(|(value, active)| !active && grad::is_traced(value));
        if is_lost {
            let problem = RuntimeError::new("E0720", "the derivative is lost here")
                .label("the custom derivative does not cover an argument");
            return Err(self.problem(problem, called.span));
        }
        let leaves = called.active_leaves(&values);
        let Some(level) = grad::level_of(&leaves) else {
            return self.eval_in_site(called, &called.rule.of, values, None);
        };
        let inner: Vec<HostValue> = values.iter().map(|value| grad::strip_levels(value, level)).collect();
        let result = self.call_custom_vjp(called, inner.clone())?;
        if let Some(tape) = grad::tape_of(&leaves, level) {
            let saved = SavedCall { called: called.clone(), values: inner, result: result.clone() };
            let ruled = CustomVjpCall { call: Arc::new(saved), results: grad::leaves(&result).len() };
            return self.locate_error(grad::record_call(&tape, level, ruled, &leaves, result), called.span);
        }
        let links: Vec<Option<GradLink>> = leaves.iter().map(|leaf| grad::split_link(leaf, level).1).collect();
        if let Some(link @ GradLink::Audit(_)) = links.iter().flatten().next() {
            let active: Vec<bool> = links.iter().map(Option::is_some).collect();
            let checked = self.check_rule(called, &inner, &result, link, &active);
            self.locate_error(checked, called.span)?;
            let linked = grad::wrap_leaves(result, &mut |leaf| Ok(grad::trace(leaf, level, link.clone())));
            return self.locate_error(linked, called.span);
        }
        let tangents = links.into_iter().map(|link| link.and_then(GradLink::into_tangent)).collect();
        let tangents = self.apply_transposed_rule(called, &inner, &result, tangents)?;
        self.locate_error(grad::with_tangents(result, tangents, level), called.span)
    }

    /// Evaluates the function or the rule (`what`) in a new frame with the given parameters.
    fn eval_in_site(
        &mut self,
        called: &CustomVjpSite,
        what: &Expr,
        values: Vec<HostValue>,
        cotangent: Option<HostValue>,
    ) -> Eval {
        let mut frame = HostFrame::new(called.generics.clone(), called.dims.clone());
        for (param, value) in called.rule.params.iter().zip(values) {
            *frame.local_mut(*param) = Some(value);
        }
        if let Some(cotangent) = cotangent {
            *frame.local_mut(called.rule.cotangent) = Some(cotangent);
        }
        self.eval(&mut frame, what)
    }

    /// Applies the rule. Returns the cotangents of all leaves of the active arguments.
    fn apply_rule(
        &mut self,
        called: &CustomVjpSite,
        values: &[HostValue],
        cotangent: HostValue,
    ) -> Eval<Vec<HostValue>> {
        let result = self.eval_in_site(called, &called.rule.back, values.to_vec(), Some(cotangent))?;
        let (cotangents, expected) = (grad::leaves(&result), called.active_leaves(values));
        let wrong = expected.iter().zip(&cotangents).find(|(expected, actual)| !grad::has_same_shape(expected, actual));
        let says = match wrong {
            Some((expected, actual)) => {
                let (expected, actual) = (grad::primal(expected).type_name(), grad::primal(actual).type_name());
                format!("the cotangent of a `{expected}` has its type and shape, and this rule gives `{actual}`")
            }
            None if expected.len() != cotangents.len() => {
                "this rule gives not one cotangent for each argument".to_string()
            }
            None => return Ok(cotangents),
        };
        let problem = RuntimeError::new("E0722", "a stated derivative does not fit its function").label(says);
        Err(self.problem(problem, called.rule.back.span))
    }

    /// Runs the reverse sweep over a tape.
    pub(super) fn run_reverse_sweep(
        &mut self,
        tape: &GradTape,
        seeds: Vec<(u32, HostValue)>,
        nodes: &[u32],
        span: Span,
    ) -> Eval<Vec<HostValue>> {
        let mut failed = None;
        let exec = self.exec.clone();
        let swept = grad::reverse_sweep(&exec, tape, seeds, nodes, &mut |ruled, adjoints| {
            let Some(kept) = ruled.call.downcast_ref::<SavedCall>() else { return Err(unknown_rule()) };
            let mut adjoints = adjoints.into_iter();
            let cotangent = grad::wrap_leaves(kept.result.clone(), &mut |leaf| Ok(adjoints.next().unwrap_or(leaf)))?;
            self.apply_rule(&kept.called, &kept.values, cotangent).map_err(|signal| {
                failed = Some(signal);
                unknown_rule()
            })
        });
        match failed {
            Some(signal) => Err(signal),
            None => self.locate_error(swept, span),
        }
    }

    /// Applies the transpose of the rule to the tangents of the arguments. Returns the tangents of the result, or an
    /// error if the rule is not linear in the cotangent.
    fn apply_transposed_rule(
        &mut self,
        called: &CustomVjpSite,
        values: &[HostValue],
        result: &HostValue,
        tangents: Vec<Option<HostValue>>,
    ) -> Eval<Vec<HostValue>> {
        self.interp.derivatives.depth += 1;
        let level = self.interp.derivatives.depth;
        let (tape, mut nodes) = (Arc::new(GradTape::default()), vec![]);
        let cotangent = grad::wrap_leaves(result.clone(), &mut |leaf| {
            let plain = grad::primal(&leaf);
            let ones = grad::repeat_number(1.0, grad::flatten(&plain)?.len());
            let (value, node) = tape.leaf(grad::unflatten(&plain, &ones, None)?, level)?;
            nodes.push(node);
            Ok(value)
        });
        let found = self.locate_error(cotangent, called.span).and_then(|cotangent| {
            let found = self.apply_rule(called, values, cotangent)?;
            let seeds = found.iter().zip(&tangents).filter_map(|(found, tangent)| {
                let node = grad::split_link(found, level).1?.node()?;
                Some((node, tangent.clone()?))
            });
            let seeds = seeds.collect();
            let transposed = self.run_reverse_sweep(&tape, seeds, &nodes, called.span)?;
            let linear = self.locate_error(is_linear(&found, &tangents, &transposed), called.span)?;
            match linear {
                true => Ok(transposed),
                false => {
                    let problem = RuntimeError::new("E0722", "a stated derivative has no forward mode")
                        .label("this rule is not linear in the cotangent")
                        .note("forward mode is the transpose of the rule, which only a linear one has");
                    Err(self.problem(problem, called.rule.back.span))
                }
            }
        });
        self.interp.derivatives.depth -= 1;
        found
    }

    /// Compares the rule with finite differences of the function.
    fn check_rule(
        &mut self,
        called: &Arc<CustomVjpSite>,
        values: &[HostValue],
        result: &HostValue,
        link: &GradLink,
        active: &[bool],
    ) -> HostResult<()> {
        let exec = self.exec.clone();
        let machine = RefCell::new(self);
        let plain = |signal: Signal| match signal {
            Signal::Error(error) => RuntimeError::new(error.code, error.title.clone()),
            _ => unknown_rule(),
        };
        let results = grad::leaves(result);
        let rerun = |leaves: Vec<HostValue>| {
            let values = called.replace_leaves(values, leaves)?;
            let result = machine.borrow_mut().call_custom_vjp(called, values).map_err(plain)?;
            Ok(grad::leaves(&result))
        };
        let forward = |tangents: &[Option<HostValue>]| {
            machine.borrow_mut().apply_transposed_rule(called, values, result, tangents.to_vec()).map_err(plain)
        };
        let reverse = |adjoints: &[HostValue]| {
            let mut adjoints = adjoints.iter().cloned();
            let cotangent = grad::wrap_leaves(result.clone(), &mut |leaf| Ok(adjoints.next().unwrap_or(leaf)))?;
            machine.borrow_mut().apply_rule(called, values, cotangent).map_err(plain)
        };
        let args = called.active_leaves(values);
        grad::check_custom_vjp(&exec, link, &args, active, &results, &rerun, &forward, &reverse)
    }
}

/// Tests numerically whether a rule can be linear in the cotangent. For a linear rule `R`, the dot product of `R(ones)`
/// and the tangents equals the sum of the elements of the transpose of `R` applied to the tangents.
fn is_linear(found: &[HostValue], tangents: &[Option<HostValue>], along: &[HostValue]) -> HostResult<bool> {
    let (mut sum, mut size) = (0.0, 0.0);
    for (found, tangent) in found.iter().zip(tangents) {
        let Some(tangent) = tangent else { continue };
        let (found, tangent) = (grad::flatten(&grad::primal(found))?, grad::flatten(&grad::primal(tangent))?);
        sum += grad::dot(&found, &tangent);
        size += grad::dot_magnitude(&found, &tangent);
    }
    for along in along {
        let along = grad::flatten(&grad::primal(along))?;
        sum -= along.iter().sum::<f64>();
        size += along.iter().map(|x| x.abs()).sum::<f64>();
    }
    // The tolerance allows for rounding in 16-bit types. If the difference is not finite, the test decides nothing.
    Ok(sum.abs() <= 0.05 * size || !sum.is_finite())
}

fn unknown_rule() -> RuntimeError {
    RuntimeError::new("E0999", "internal error: a rule that is not known")
}
