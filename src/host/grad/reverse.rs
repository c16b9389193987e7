//! Going back over a tape: adjoints of nodes, from those of results to those of parameters.

use std::sync::PoisonError;

use super::apply::apply;
use super::deed::{Deed, Ruled};
use super::form::Form;
use super::launch;
use super::pull::{Part, parts};
use super::tape::{Step, Tape};
use super::used;
use super::wrap::is_traced;
use crate::base::stop;
use crate::host::array::SliceSpec;
use crate::host::ops;
use crate::host::problem::{Elsewhere, Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;

/// Returns the adjoints of the nodes `wanted`, from those of `seeds`.
///
/// `rule` applies the rule of a call to the cotangents of its results.
pub(crate) fn pulled(
    tape: &Tape,
    seeds: Vec<(u32, Value)>,
    wanted: &[u32],
    rule: &mut dyn FnMut(&Ruled, Vec<Value>) -> Outcome<Vec<Value>>,
) -> Outcome<Vec<Value>> {
    let steps = tape.steps.lock().unwrap_or_else(PoisonError::into_inner);
    let mut adjoints: Vec<Option<Value>> = vec![None; steps.len()];
    let mut used: Vec<Option<Value>> = vec![None; steps.len()];
    for (node, seed) in seeds {
        add(&mut adjoints, node, &steps[node as usize].form, Part::Whole(seed))?;
    }
    for node in stop::polled((0..steps.len()).rev()) {
        back(&steps, (&mut adjoints, &mut used), node, rule).map_err(|problem| located(tape, node, problem))?;
    }
    let found = wanted.iter().map(|&node| {
        let form = &steps[node as usize].form;
        match adjoints[node as usize].take() {
            Some(adjoint) => form.expanded(adjoint),
            None => form.zeros(),
        }
    });
    found.collect()
}

/// Gives the adjoint of a step's results to its operands.
fn back(
    steps: &[Step],
    (adjoints, used): (&mut [Option<Value>], &mut [Option<Value>]),
    node: usize,
    rule: &mut dyn FnMut(&Ruled, Vec<Value>) -> Outcome<Vec<Value>>,
) -> Outcome<()> {
    let step = &steps[node];
    let Some(deed) = &step.deed else { return Ok(()) };
    let own = used[node].take();
    let found = match deed {
        Deed::Launch(launch) => {
            let results = node + 1..=node + launch::count_of_results(launch);
            let incoming: Vec<Option<Value>> = results.map(|result| adjoints[result].take()).collect();
            if incoming.iter().all(Option::is_none) {
                return Ok(());
            }
            launch::parts(launch, step, incoming)?
        }
        Deed::Stated(ruled) => {
            let results = node + 1..=node + ruled.results;
            if adjoints[results.clone()].iter().all(Option::is_none) {
                return Ok(());
            }
            let whole = |result: usize| match adjoints[result].take() {
                Some(adjoint) => steps[result].form.expanded(adjoint),
                None => steps[result].form.zeros(),
            };
            let incoming = results.map(whole).collect::<Outcome<Vec<Value>>>()?;
            rule(ruled, incoming)?.into_iter().map(Part::Whole).enumerate().collect()
        }
        deed => match adjoints[node].take() {
            Some(adjoint) => parts(deed, step, adjoint, own.as_ref())?,
            None => return Ok(()),
        },
    };
    for (position, part) in found {
        let operand = &step.operands[position];
        if let (Some(to), Some(form)) = (operand.node, &operand.form) {
            let at = to as usize;
            let (before, from) = (adjoints[at].is_some(), steps[at].deed.as_ref());
            used::add(&mut used[at], before, (step, position), from, own.as_ref())?;
            add(adjoints, to, form, part)?;
        }
    }
    Ok(())
}

/// Says at which line of the function a step stands in the way.
fn located(tape: &Tape, node: usize, mut problem: Problem) -> Problem {
    if let (None, Some(place)) = (&problem.elsewhere, tape.place(node)) {
        problem.elsewhere = Some(Box::new(Elsewhere::Line(place)));
    }
    problem
}

/// Adds a part to the adjoint of a node.
fn add(adjoints: &mut [Option<Value>], node: u32, form: &Form, part: Part) -> Outcome<()> {
    let slot = &mut adjoints[node as usize];
    let old = slot.take();
    *slot = Some(match (old, part) {
        (None, Part::Whole(value)) => value,
        (Some(old), Part::Whole(value)) => apply(&Deed::Binary(BinaryOp::Add), vec![old, value])?,
        (None, Part::At(specs, value)) if is_traced(&value) => place(form, specs, value)?,
        (None, Part::At(specs, value)) => written(form.zeros()?, &specs, &value)?,
        (Some(old), Part::At(specs, value)) if is_traced(&old) || is_traced(&value) => {
            apply(&Deed::Binary(BinaryOp::Add), vec![old, place(form, specs, value)?])?
        }
        (Some(old), Part::At(specs, value)) => {
            let old = form.expanded(old)?;
            let more = ops::binary(BinaryOp::Add, &ops::index(&old, &specs)?, &value)?;
            written(old, &specs, &more)?
        }
    });
    Ok(())
}

fn place(form: &Form, specs: Vec<SliceSpec>, value: Value) -> Outcome<Value> {
    apply(&Deed::Place(specs, form.shape().to_vec()), vec![value])
}

fn written(target: Value, specs: &[SliceSpec], value: &Value) -> Outcome<Value> {
    match target {
        // In place, as nobody else has it.
        Value::Array(mut array) => {
            ops::assign(&mut array, specs, value)?;
            Ok(Value::Array(array))
        }
        other => apply(&Deed::Write(specs.to_vec()), vec![other, value.clone()]),
    }
}
