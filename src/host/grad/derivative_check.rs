//! Gradient check of single operations: compares the forward and the reverse rule of each operation with finite
//! differences.
//!
//! Input: operations on values that are linked to a [`DerivativeAuditor`]. Output: an error for the first operation
//! whose rule is wrong, or that is not differentiable at its operands. The interpreter reports the error at the
//! operation's line.

use std::sync::Arc;

use super::apply::{apply, tangent};
use super::finite_difference::{DifferenceSteps, Slope};
use super::flatten::{dot, dot_magnitude, flatten, random_like, repeat_number, unflatten};
use super::kernel::GradLaunch;
use super::launch::{launch_forward, launch_reverse as launch_parts, launch_traced};
use super::tape::{AuditTarget, DerivativeAuditor, DerivativeCheck, TapeNode, TapeOperand};
use super::tape_op::TapeOp;
use super::trace_value::split_link;
use super::value_shape::ValueShape;
use super::vjp::{Cotangent, vjp};
use crate::graph::ExecContext;
use crate::ops;
use crate::problem::{HostResult, RuntimeError};
use crate::value::{GradLink, HostValue};
use clk_base::alloc;

/// Maximum relative error of a derivative.
const TOLERANCE: f64 = 1e-6;

/// Returns an auditor of operations on `f64`. Depending on `finds`, it reports the first operation with a wrong rule,
/// or the first one that is not differentiable at its operands.
pub(crate) fn auditor(finds: AuditTarget) -> Arc<DerivativeAuditor> {
    Arc::new(DerivativeAuditor(Box::new(finds)))
}

/// Contributions to the cotangents of operands, each with the position of its operand.
type CotangentParts = HostResult<Vec<(usize, Cotangent)>>;

/// An operation with its operands and results, and functions that evaluate it again, in forward mode, and in reverse
/// mode.
struct EvaluatedOp<'d> {
    args: &'d [HostValue],
    active: &'d [bool],
    results: &'d [HostValue],
    again: &'d dyn Fn(Vec<HostValue>) -> HostResult<Vec<HostValue>>,
    forward: &'d dyn Fn(&[Option<HostValue>]) -> HostResult<Vec<HostValue>>,
    reverse: &'d dyn Fn(&TapeNode, &[HostValue]) -> CotangentParts,
}

impl DerivativeCheck for AuditTarget {
    fn target(&self) -> AuditTarget {
        *self
    }

    fn check_op(
        &self,
        exec: &ExecContext,
        op: &TapeOp,
        args: &[HostValue],
        active: &[bool],
        result: &HostValue,
    ) -> HostResult<()> {
        let one = |adjoints: &[HostValue]| adjoints.first().cloned().unwrap_or(HostValue::Unit);
        check_derivative(
            exec,
            *self,
            &EvaluatedOp {
                args,
                active,
                results: std::slice::from_ref(result),
                again: &|args| apply(exec, op, args).map(|result| vec![result]),
                forward: &|tangents| tangent(exec, op, args, result, tangents).map(|tangent| vec![tangent]),
                reverse: &|step, adjoints| vjp(exec, op, step, one(adjoints), None),
            },
        )
    }

    fn check_launch(
        &self,
        exec: &ExecContext,
        launch: &GradLaunch,
        args: &[HostValue],
        active: &[bool],
    ) -> HostResult<()> {
        let results = launch_traced(exec, launch, args.to_vec())?;
        let forward_mode = |tangents: &[Option<HostValue>]| {
            let outputs = launch_forward(exec, launch, args.to_vec(), tangents, 1)?;
            let tangent = |result: HostValue| match split_link(&result, 1) {
                (_, Some(GradLink::Tangent(tangent))) => tangent,
                (value, _) => value,
            };
            Ok(outputs.into_iter().map(tangent).collect())
        };
        let reverse_mode = |step: &TapeNode, adjoints: &[HostValue]| {
            launch_parts(exec, launch, step, adjoints.iter().cloned().map(Some).collect())
        };
        let recompute = |args: Vec<HostValue>| launch_traced(exec, launch, args);
        check_derivative(
            exec,
            *self,
            &EvaluatedOp {
                args,
                active,
                results: &results,
                again: &recompute,
                forward: &forward_mode,
                reverse: &reverse_mode,
            },
        )
    }
}

/// Checks a call of a function with a custom VJP, if its operands are linked to an auditor. `active` marks the operands
/// that are differentiated.
pub(crate) fn check_custom_vjp(
    exec: &ExecContext,
    link: &GradLink,
    args: &[HostValue],
    active: &[bool],
    results: &[HostValue],
    recompute: &dyn Fn(Vec<HostValue>) -> HostResult<Vec<HostValue>>,
    forward: &dyn Fn(&[Option<HostValue>]) -> HostResult<Vec<HostValue>>,
    back: &dyn Fn(&[HostValue]) -> HostResult<Vec<HostValue>>,
) -> HostResult<()> {
    let Some((auditor, _)) = DerivativeAuditor::for_links(&[Some(link.clone())]) else { return Ok(()) };
    let reverse = |_: &TapeNode, adjoints: &[HostValue]| {
        Ok(back(adjoints)?.into_iter().map(Cotangent::Whole).enumerate().collect())
    };
    let finds = auditor.0.target();
    let outcome = check_derivative(
        exec,
        finds,
        &EvaluatedOp { args, active, results, again: recompute, forward, reverse: &reverse },
    );
    outcome.map_err(|problem| match finds {
        AuditTarget::WrongRules if problem.code == "E0721" => problem.label("the rule that is stated here is wrong"),
        _ => problem,
    })
}

fn check_derivative(exec: &ExecContext, finds: AuditTarget, done: &EvaluatedOp<'_>) -> HostResult<()> {
    // Operations with an integer result are not checked individually, but only as part of the whole function.
    if done.results.iter().any(|result| ValueShape::for_value(result).is_none()) {
        return Ok(());
    }
    let (mut directions, mut tangents) = (vec![], vec![]);
    for (at, (arg, active)) in done.args.iter().zip(done.active).enumerate() {
        let direction = if *active { random_like(&flatten(arg)?, at as u64 + 1) } else { vec![] };
        tangents.push(active.then(|| unflatten(arg, &direction, None)).transpose()?);
        directions.push(direction);
    }
    let values = all_numbers(done.results)?;
    let weights = random_like(&repeat_number(1.0, values.len()), 97);
    // The check skips forward mode if it fails, because a custom derivative need not support it.
    let forward = (done.forward)(&tangents).and_then(|tangents| all_numbers(&tangents)).ok();
    let forward = forward.map(|tangents| dot(&weights, &tangents));
    let (reverse, scale) = reverse_derivative(exec, done, &weights, &directions)?;
    let steps = DifferenceSteps {
        epsilon: f64::EPSILON,
        tolerance: TOLERANCE,
        scale: scale + forward.unwrap_or(0.0).abs(),
        size: dot_magnitude(&weights, &values),
    };
    let slope = steps.slope(|t| {
        let moved = done.args.iter().zip(&directions).zip(done.active);
        let args = moved.map(|((arg, direction), active)| match active {
            true => {
                let shifted: Vec<f64> = flatten(arg)?.iter().zip(direction).map(|(x, v)| x + t * v).collect();
                unflatten(arg, &shifted, None)
            }
            false => Ok(arg.clone()),
        });
        let args = args.collect::<HostResult<Vec<HostValue>>>()?;
        let Ok(results) = (done.again)(args) else { return Ok(None) };
        let change: f64 =
            all_numbers(&results)?.iter().zip(&values).zip(&weights).map(|((new, old), u)| u * (new - old)).sum();
        Ok::<_, RuntimeError>(Some(change))
    })?;
    match (finds, slope) {
        (AuditTarget::WrongRules, Slope::Smooth { value, noise }) => {
            let within = TOLERANCE * (scale + value.abs()) + noise;
            let is_right = |slope: f64| (slope - value).abs() <= within;
            let message = match (forward.is_none_or(is_right), is_right(reverse)) {
                (true, true) => return Ok(()),
                (true, _) => "the rule of reverse mode is wrong here",
                (_, true) => "the rule of forward mode is wrong here",
                _ => "the derivative of this is wrong",
            };
            Err(RuntimeError::new("E0721", message).label(message))
        }
        (AuditTarget::Kinks, Slope::Kink | Slope::Outside) => {
            Err(RuntimeError::new("E0721", "no derivative").label("this has no derivative there"))
        }
        _ => Ok(()),
    }
}

fn all_numbers(values: &[HostValue]) -> HostResult<Vec<f64>> {
    let mut all = vec![];
    for value in values {
        alloc::append(&mut all, &flatten(value)?);
    }
    Ok(all)
}

/// Computes the derivative in these directions in reverse mode. Also returns the sum of the magnitudes of its terms.
fn reverse_derivative(
    exec: &ExecContext,
    done: &EvaluatedOp<'_>,
    weights: &[f64],
    directions: &[Vec<f64>],
) -> HostResult<(f64, f64)> {
    let mut left = weights;
    let mut adjoints = vec![];
    for result in done.results {
        let (own, others) = left.split_at(flatten(result)?.len().min(left.len()));
        adjoints.push(unflatten(result, own, None)?);
        left = others;
    }
    let operand = |(arg, active): (&HostValue, &bool)| TapeOperand {
        node: active.then_some(0),
        value: Some(arg.clone()),
        shape: ValueShape::for_value(arg),
    };
    let operands = done.args.iter().zip(done.active).map(operand).collect();
    let result = done.results.first().cloned();
    let form = result
        .as_ref()
        .and_then(ValueShape::for_value)
        .ok_or_else(|| RuntimeError::new("E0720", "the result is no float"))?;
    let step = TapeNode { op: None, operands, result, shape: form };
    let (mut sum, mut scale) = (0.0, 0.0);
    for (at, part) in (done.reverse)(&step, &adjoints)? {
        if !done.active[at] {
            continue;
        }
        let operand_direction = unflatten(&done.args[at], &directions[at], None)?;
        let (part, direction) = match part {
            Cotangent::Whole(value) => (value, operand_direction),
            Cotangent::At(specs, value) => (value, ops::index(exec, &operand_direction, &specs)?),
        };
        let Some(form) = ValueShape::for_value(&direction) else { continue };
        let (part, direction) = (flatten(&form.broadcast(exec, part)?)?, flatten(&direction)?);
        sum += dot(&part, &direction);
        scale += dot_magnitude(&part, &direction);
    }
    Ok((sum, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_scalar::ops::{BinaryOp, MathFn};

    fn array(numbers: &[f64]) -> HostValue {
        HostValue::Array(crate::array::Array::from_items(numbers).expect("an array"))
    }

    /// Checks an operation whose forward and reverse rules are deliberately wrong by the factors `forward` and
    /// `reverse`.
    fn check_scaled_rules(
        exec: &ExecContext,
        op: &TapeOp,
        args: &[HostValue],
        forward: f64,
        reverse: f64,
        finds: AuditTarget,
    ) -> HostResult<()> {
        let times = |value: &HostValue, by: f64| ops::binary(exec, BinaryOp::Mul, value, &HostValue::of(by));
        let result = apply(exec, op, args.to_vec())?;
        check_derivative(
            exec,
            finds,
            &EvaluatedOp {
                args,
                active: &vec![true; args.len()],
                results: std::slice::from_ref(&result),
                again: &|args| apply(exec, op, args).map(|result| vec![result]),
                forward: &|tangents| Ok(vec![times(&tangent(exec, op, args, &result, tangents)?, forward)?]),
                reverse: &|step, adjoints| vjp(exec, op, step, times(&adjoints[0], reverse)?, None),
            },
        )
    }

    #[test]
    fn wrong_custom_derivatives_are_found_in_each_mode() {
        let exec = &ExecContext::default();
        let (x, y) = (array(&[0.5, 2.0, -1.0]), array(&[3.0, 0.25, 1.5]));
        let deeds = [
            (TapeOp::Binary(BinaryOp::Mul), vec![x.clone(), y.clone()]),
            (TapeOp::Math(MathFn::Sin), vec![x.clone()]),
            (TapeOp::Flip(0), vec![x.clone()]),
            (TapeOp::Index(vec![crate::array::SliceSpec::At(1)]), vec![x.clone()]),
            (TapeOp::Concat(0), vec![x.clone(), y]),
        ];
        for (op, args) in deeds {
            let message_for = |forward, reverse| {
                check_scaled_rules(exec, &op, &args, forward, reverse, AuditTarget::WrongRules)
                    .map_err(|problem| problem.title)
            };
            assert_eq!(message_for(1.0, 1.0), Ok(()), "{op:?}");
            let text = |text: &str| Err(text.to_string());
            assert_eq!(message_for(1.0, 1.00001), text("the rule of reverse mode is wrong here"), "{op:?}");
            assert_eq!(message_for(0.5, 1.0), text("the rule of forward mode is wrong here"), "{op:?}");
            assert_eq!(message_for(2.0, 2.0), text("the derivative of this is wrong"), "{op:?}");
            assert_eq!(check_scaled_rules(exec, &op, &args, 1.0, 1.0, AuditTarget::Kinks), Ok(()), "{op:?}");
        }
        let kink =
            check_scaled_rules(exec, &TapeOp::Math(MathFn::Abs), &[array(&[0.0, 1.0])], 1.0, 1.0, AuditTarget::Kinks);
        assert_eq!(kink.map_err(|problem| problem.label), Err("this has no derivative there".to_string()));
    }
}
