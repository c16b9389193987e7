//! The reverse sweep over a tape, which computes the adjoints of parameters from the adjoints of results.

use std::sync::PoisonError;

use super::apply::apply;
use super::launch;
use super::tape::{GradTape, TapeNode};
use super::tape_op::{CustomVjpCall, TapeOp};
use super::trace_value::is_traced;
use super::used_elements;
use super::value_shape::ValueShape;
use super::vjp::{Cotangent, vjp};
use crate::array::SliceSpec;
use crate::graph::ExecContext;
use crate::ops;
use crate::problem::{ErrorOrigin, HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::ops::BinaryOp;

/// Returns the adjoints of `nodes_of_interest`, given the adjoints of the `seeds`.
///
/// `rule` evaluates the custom VJP of a call, given the cotangents of its results.
pub(crate) fn reverse_sweep(
    exec: &ExecContext,
    tape: &GradTape,
    seeds: Vec<(u32, HostValue)>,
    nodes_of_interest: &[u32],
    rule: &mut dyn FnMut(&CustomVjpCall, Vec<HostValue>) -> HostResult<Vec<HostValue>>,
) -> HostResult<Vec<HostValue>> {
    let steps = tape.nodes.lock().unwrap_or_else(PoisonError::into_inner);
    let mut adjoints: Vec<Option<HostValue>> = vec![None; steps.len()];
    let mut used: Vec<Option<HostValue>> = vec![None; steps.len()];
    for (node, seed) in seeds {
        add_cotangent(exec, &mut adjoints, node, &steps[node as usize].shape, Cotangent::Whole(seed))?;
    }
    for node in stop::polled((0..steps.len()).rev()) {
        propagate(exec, &steps, &mut adjoints, &mut used, node, rule)
            .map_err(|problem| locate_error(tape, node, problem))?;
    }
    let adjoints_of_interest = nodes_of_interest.iter().map(|&node| {
        let form = &steps[node as usize].shape;
        match adjoints[node as usize].take() {
            Some(adjoint) => form.broadcast(exec, adjoint),
            None => form.zeros(),
        }
    });
    adjoints_of_interest.collect()
}

/// Propagates the adjoints of the results of an operation to its operands.
fn propagate(
    exec: &ExecContext,
    steps: &[TapeNode],
    adjoints: &mut [Option<HostValue>],
    used: &mut [Option<HostValue>],
    node: usize,
    rule: &mut dyn FnMut(&CustomVjpCall, Vec<HostValue>) -> HostResult<Vec<HostValue>>,
) -> HostResult<()> {
    let step = &steps[node];
    let Some(op) = &step.op else { return Ok(()) };
    let used_here = used[node].take();
    let cotangents = match op {
        TapeOp::Launch(launch) => {
            let results = node + 1..=node + launch::result_count(launch);
            let incoming: Vec<Option<HostValue>> = results.map(|result| adjoints[result].take()).collect();
            if incoming.iter().all(Option::is_none) {
                return Ok(());
            }
            launch::launch_reverse(exec, launch, step, incoming)?
        }
        TapeOp::CustomVjp(ruled) => {
            let results = node + 1..=node + ruled.results;
            if adjoints[results.clone()].iter().all(Option::is_none) {
                return Ok(());
            }
            let whole = |result: usize| match adjoints[result].take() {
                Some(adjoint) => steps[result].shape.broadcast(exec, adjoint),
                None => steps[result].shape.zeros(),
            };
            let incoming = results.map(whole).collect::<HostResult<Vec<HostValue>>>()?;
            rule(ruled, incoming)?.into_iter().map(Cotangent::Whole).enumerate().collect()
        }
        op => match adjoints[node].take() {
            Some(adjoint) => vjp(exec, op, step, adjoint, used_here.as_ref())?,
            None => return Ok(()),
        },
    };
    for (position, part) in cotangents {
        let operand = &step.operands[position];
        if let (Some(to), Some(form)) = (operand.node, &operand.shape) {
            let at = to as usize;
            let (has_adjoint, from) = (adjoints[at].is_some(), steps[at].op.as_ref());
            used_elements::merge_used(exec, &mut used[at], has_adjoint, step, position, from, used_here.as_ref())?;
            add_cotangent(exec, adjoints, to, form, part)?;
        }
    }
    Ok(())
}

/// Adds the source location of a recorded operation to an error that occurred in its derivative.
fn locate_error(tape: &GradTape, node: usize, mut problem: RuntimeError) -> RuntimeError {
    if let (None, Some(pad_slice)) = (&problem.origin, tape.statement_of(node)) {
        problem.origin = Some(Box::new(ErrorOrigin::FunctionLine(pad_slice)));
    }
    problem
}

/// Adds a contribution to the adjoint of a node.
fn add_cotangent(
    exec: &ExecContext,
    adjoints: &mut [Option<HostValue>],
    node: u32,
    form: &ValueShape,
    part: Cotangent,
) -> HostResult<()> {
    let slot = &mut adjoints[node as usize];
    let old = slot.take();
    *slot = Some(match (old, part) {
        (None, Cotangent::Whole(value)) => value,
        (Some(old), Cotangent::Whole(value)) => apply(exec, &TapeOp::Binary(BinaryOp::Add), vec![old, value])?,
        (None, Cotangent::At(specs, value)) if is_traced(&value) => pad_slice(exec, form, specs, value)?,
        (None, Cotangent::At(specs, value)) => write_in_place(exec, form.zeros()?, &specs, &value)?,
        (Some(old), Cotangent::At(specs, value)) if is_traced(&old) || is_traced(&value) => {
            apply(exec, &TapeOp::Binary(BinaryOp::Add), vec![old, pad_slice(exec, form, specs, value)?])?
        }
        (Some(old), Cotangent::At(specs, value)) => {
            let old = form.broadcast(exec, old)?;
            let more = ops::binary(exec, BinaryOp::Add, &ops::index(exec, &old, &specs)?, &value)?;
            write_in_place(exec, old, &specs, &more)?
        }
    });
    Ok(())
}

fn pad_slice(exec: &ExecContext, form: &ValueShape, specs: Vec<SliceSpec>, value: HostValue) -> HostResult<HostValue> {
    apply(exec, &TapeOp::PadSlice(specs, form.shape().to_vec()), vec![value])
}

fn write_in_place(
    exec: &ExecContext,
    target: HostValue,
    specs: &[SliceSpec],
    value: &HostValue,
) -> HostResult<HostValue> {
    match target {
        // The array is not shared, so that the contribution can be added in place.
        HostValue::Array(mut array) => {
            ops::assign(exec, &mut array, specs, value)?;
            Ok(HostValue::Array(array))
        }
        other => apply(exec, &TapeOp::Write(specs.to_vec()), vec![other, value.clone()]),
    }
}
