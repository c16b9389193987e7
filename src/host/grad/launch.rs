//! Launches of kernels on values that are traced or not.
//!
//! In: a launch and one value per launch parameter (scalars, vectors, arrays). Out: the arrays that it writes. Forward, the kernel's
//! derivative is launched instead, which gives results and tangents; in reverse, a launch is a step of the tape, and its derivative is
//! launched on the way back. Derivatives of launches are launches, so that they are traced at lower levels like all else.

use std::sync::{Arc, PoisonError};

use super::apply::{apply, converted, reshaped};
use super::deed::Deed;
use super::form::Form;
use super::kernel::{Derivative, Direction, Kernel, Launch};
use super::pull::Part;
use super::sums;
use super::tape::{Auditor, Operand, Step, Tape, lost};
use super::wrap::{level_of, links, primal, traced};
use crate::derive::{self, Role};
use crate::device::{Arg, Control, Declared, Extents};
use crate::host::array::Array;
use crate::host::graph;
use crate::host::ops::{self, Reduce};
use crate::host::problem::{Elsewhere, Outcome, Problem};
use crate::host::value::{Link, Value};
use crate::ir::def::{Access, Form as Shape};
use crate::lang::scalar::{Scalar, Value as Number};

/// Runs a launch; returns its arrays that are written, in the order of the parameters.
pub(crate) fn launched(launch: &Launch, args: Vec<Value>) -> Outcome<Vec<Value>> {
    let Some(level) = level_of(&args) else { return plain(launch, args) };
    let kept: Vec<usize> = (0..args.len())
        .filter(|&at| launch.kernel.access(at) == Some(Access::Out) && matches!(args[at], Value::Traced(_)))
        .collect();
    if !kept.is_empty() {
        // What the kernel does not write keeps its value, and its derivative.
        let launch = Launch { kernel: launch.kernel.keeping(kept)?, ..launch.clone() };
        return launched(&launch, args);
    }
    let can = derive::can_be_active(&launch.kernel.module).into_iter().enumerate();
    if can
        .filter(|(param, can)| *can && is_written(&launch.kernel, *param))
        .any(|(param, _)| Form::of(&args[param]).is_none())
    {
        return Err(lost("this launch writes an array of structs"));
    }
    let (inner, links): (Vec<Value>, Vec<Option<Link>>) = args.iter().map(|arg| links(arg, level)).unzip();
    if let Some((auditor, link)) = Auditor::of(&links) {
        let active: Vec<bool> = links.iter().map(Option::is_some).collect();
        auditor.0.launch(launch, &inner, &active)?;
        let results = launched(launch, inner)?.into_iter();
        let linked = |result: Value| match Form::of(&result) {
            Some(_) => traced(result, level, link.clone()),
            None => result,
        };
        return Ok(results.map(linked).collect());
    }
    match Tape::of(&links) {
        Some(tape) => recorded(launch, inner, &links, &tape, level),
        None => {
            let tangents: Vec<Option<Value>> =
                links.into_iter().map(|link| link.and_then(Link::into_tangent)).collect();
            forward(launch, inner, &tangents, level)
        }
    }
}

fn is_written(kernel: &Kernel, param: usize) -> bool {
    kernel.access(param).is_some_and(|access| access != Access::In)
}

/// Which parameters are active: those that are traced, and the arrays that are written.
fn active(kernel: &Kernel, is_traced: impl Fn(usize) -> bool) -> Vec<bool> {
    let can = derive::can_be_active(&kernel.module).into_iter().enumerate();
    can.map(|(param, can)| can && (is_written(kernel, param) || is_traced(param))).collect()
}

fn plain(launch: &Launch, args: Vec<Value>) -> Outcome<Vec<Value>> {
    let kernel = &launch.kernel;
    let mut args = args;
    let mut given = Vec::with_capacity(args.len());
    let mut written = vec![];
    for (param, arg) in args.iter_mut().enumerate() {
        match arg {
            Value::Scalar(number) => given.push(Arg::Value(vec![*number])),
            Value::Vector(vector) => given.push(Arg::Value(vector.values().collect())),
            Value::Array(array) => {
                let shape = array.extents();
                if is_written(kernel, param) {
                    written.push(param);
                    given.push(Arg::ArrayMut { storage: array.storage_mut()?, shape });
                } else {
                    given.push(Arg::Array { storage: array.storage()?, shape });
                }
            }
            other => return Err(ops::operand::undefined("a launch", &[other])),
        }
    }
    let control = control(launch, &given);
    let done = kernel.executable()?.launch(launch.extents, &mut given, &control);
    drop(given);
    let said = done.map_err(|fault| graph::faulted(&fault))?;
    launch.said.lock().unwrap_or_else(PoisonError::into_inner).push_str(&said);
    Ok(written.into_iter().filter_map(|param| args.get(param).cloned()).collect())
}

/// Returns how to run a launch: arrays of a derivative may be larger than those of the kernel.
fn control(launch: &Launch, given: &[Arg<'_>]) -> Control {
    let count = |arg: &Arg<'_>| arg.shape().map(|shape| shape.iter().map(|&n| u64::from(n)).product::<u64>());
    let largest = given.iter().filter_map(count).max().unwrap_or(0);
    let declared = launch.control.declared.map(|known| Declared { largest: known.largest.max(largest), ..known });
    Control { declared, ..launch.control.clone() }
}

/// In how many parts the adjoint of a value is summed by the threads of a launch.
const PARTS: usize = 256;

/// Returns zeros of the form of a parameter.
fn zeros(value: &Value) -> Outcome<Value> {
    match (Form::of(value), primal(value)) {
        (Some(form), _) => form.zeros(),
        // Of structs.
        (None, Value::Array(array)) => Array::unplaced(array.element().clone(), array.shape()).map(Value::Array),
        (None, _) => Err(lost("a parameter without a derivative")),
    }
}

/// Returns zeros to which a launch adds the adjoint of a parameter; that of a value is an array of parts of a sum.
fn adjoint_zeros(value: &Value) -> Outcome<Value> {
    let Some(form) = Form::of(value) else { return zeros(value) };
    let shape = form.shape.or_else(|| Some(vec![PARTS]));
    Form { shape, scalar: derive::adjoint_scalar(form.scalar), ..form }.zeros()
}

/// Launches a derived kernel as the original; returns what it writes, with the roles.
fn run(launch: &Launch, kernel: &Arc<Kernel>, params: &[Role], args: Vec<Value>) -> Outcome<Vec<(Role, Value)>> {
    let results = launched(&Launch { kernel: kernel.clone(), ..launch.clone() }, args)?;
    let written = params.iter().enumerate().filter(|(at, _)| is_written(kernel, *at));
    Ok(written.map(|(_, role)| *role).zip(results).collect())
}

/// Launches the forward derivative.
pub(super) fn forward(
    launch: &Launch,
    inner: Vec<Value>,
    tangents: &[Option<Value>],
    level: u32,
) -> Outcome<Vec<Value>> {
    let kernel = &launch.kernel;
    let active = active(kernel, |param| tangents.get(param).is_some_and(Option::is_some));
    let derivative = kernel.derived(Direction::Forward, &active)?;
    let args = derivative.params.iter().map(|role| match *role {
        Role::Primal(param) => Ok(inner[param].clone()),
        Role::Tangent(param) => match &tangents[param] {
            Some(tangent) => Ok(tangent.clone()),
            None => zeros(&inner[param]),
        },
        Role::Adjoint(_) | Role::Extent(_) | Role::Sums(_) | Role::Tape(_) | Role::Counts => {
            Err(lost("a parameter of another direction"))
        }
    });
    let args = args.collect::<Outcome<Vec<Value>>>()?;
    let (mut plain, mut along) = (vec![None; inner.len()], vec![None; inner.len()]);
    for (role, result) in run(launch, &derivative.kernel, &derivative.params, args)? {
        match role {
            Role::Primal(param) => plain[param] = Some(result),
            Role::Tangent(param) => along[param] = Some(result),
            _ => {}
        }
    }
    let written = (0..inner.len()).filter(|&param| is_written(kernel, param));
    written
        .map(|param| match (plain[param].take(), along[param].take()) {
            (Some(result), Some(tangent)) => Ok(traced(result, level, Link::Tangent(tangent))),
            (Some(result), None) => Ok(result),
            _ => Err(lost("a result without a value")),
        })
        .collect()
}

/// Runs the launch, and adds it to the tape: a step, and behind it a node for each result.
fn recorded(
    launch: &Launch,
    inner: Vec<Value>,
    links: &[Option<Link>],
    tape: &Arc<Tape>,
    level: u32,
) -> Outcome<Vec<Value>> {
    let kernel = &launch.kernel;
    let nodes: Vec<Option<u32>> = links.iter().map(|link| link.as_ref().and_then(Link::node)).collect();
    // Refused where it is launched, and not on the way back.
    kernel.derived(Direction::Reverse, &active(kernel, |param| nodes[param].is_some()))?;
    let results = launched(launch, inner.clone())?;
    let operands = inner.into_iter().zip(nodes);
    let operands: Vec<Operand> =
        operands.map(|(value, node)| Operand { node, form: Form::of(&value), value: Some(value) }).collect();
    let form = Form { shape: Some(vec![results.len()]), scalar: Scalar::F64, lanes: 1 };
    tape.add(Step { deed: Some(Deed::Launch(launch.clone())), operands, result: None, form });
    let node = |result: Value| match Form::of(&result) {
        Some(form) => {
            let node = tape.add(Step { deed: None, operands: vec![], result: None, form });
            traced(result, level, Link::Node(tape.clone(), node))
        }
        None => {
            let form = Form { shape: None, scalar: Scalar::F64, lanes: 1 };
            tape.add(Step { deed: None, operands: vec![], result: None, form });
            result
        }
    };
    Ok(results.into_iter().map(node).collect())
}

/// Returns how many nodes behind the step of a launch are its results.
pub(super) fn count_of_results(launch: &Launch) -> usize {
    (0..launch.kernel.module.kernel.params.len()).filter(|&param| is_written(&launch.kernel, param)).count()
}

/// Launches the reverse derivative: adjoints of the results give those of the operands, with their positions.
pub(super) fn parts(launch: &Launch, step: &Step, adjoints: Vec<Option<Value>>) -> Outcome<Vec<(usize, Part)>> {
    let kernel = &launch.kernel;
    let inner: Vec<Value> = step.operands.iter().map(|o| o.value.clone().unwrap_or(Value::Unit)).collect();
    let is_active = active(kernel, |param| step.operands[param].node.is_some());
    let derivative = kernel.derived(Direction::Reverse, &is_active)?;
    let mut incoming: Vec<Option<Value>> = vec![None; inner.len()];
    let written = (0..inner.len()).filter(|&param| is_written(kernel, param));
    for (param, adjoint) in written.zip(adjoints) {
        if let (Some(adjoint), Some(form)) = (adjoint, Form::of(&inner[param])) {
            incoming[param] = Some(converted(&form.expanded(adjoint)?, derive::adjoint_scalar(form.scalar))?);
        }
    }
    let mut parts = vec![];
    for (kernel, params, of) in &derivative.gathers {
        let args = arguments(launch, params, &inner, &incoming, &[])?;
        let shape = Form::of(&inner[*of]).and_then(|form| form.shape).unwrap_or_default();
        parts.extend(adjoints_of(step, run(&over(launch, &shape), kernel, params, args)?)?);
    }
    if let Some(totals) = &derivative.totals {
        let args = arguments(launch, &totals.params, &inner, &incoming, &[])?;
        let fewer = over(launch, &sums::threads(&threads(launch)));
        let found = run(&fewer, &totals.kernel, &totals.params, args)?;
        if let Some((_, sums)) = found.into_iter().find(|(role, _)| matches!(role, Role::Sums(_))) {
            parts.extend(sums::parts(step, &totals.of, sums)?);
        }
    }
    if derivative.has_effect {
        let tapes = tapes(launch, &derivative, &inner)?;
        let args = arguments(launch, &derivative.params, &inner, &incoming, &tapes)?;
        parts.extend(adjoints_of(step, run(launch, &derivative.kernel, &derivative.params, args)?)?);
    }
    Ok(parts)
}

/// Returns a launch with another index space.
fn over(launch: &Launch, space: &[usize]) -> Launch {
    let mut extents = [1; 3];
    extents.iter_mut().zip(space).for_each(|(extent, &len)| *extent = len as u32);
    Launch { extents: Extents::Threads(extents), ..launch.clone() }
}

/// Returns the adjoints of operands that a launch has written.
fn adjoints_of(step: &Step, results: Vec<(Role, Value)>) -> Outcome<Vec<(usize, Part)>> {
    let mut parts = vec![];
    for (role, result) in results {
        let Role::Adjoint(param) = role else { continue };
        let operand = &step.operands[param];
        let (Some(_), Some(form)) = (operand.node, &operand.form) else { continue };
        let part = match form.shape {
            Some(_) => result,
            None => apply(&Deed::Reduce(Reduce::Sum, None), vec![result])?,
        };
        parts.push((param, Part::Whole(converted(&part, form.scalar)?)));
    }
    Ok(parts)
}

/// Returns the arguments of a derived kernel; `slots` are the tapes' first extents, one for each.
fn arguments(
    launch: &Launch,
    params: &[Role],
    inner: &[Value],
    incoming: &[Option<Value>],
    slots: &[usize],
) -> Outcome<Vec<Value>> {
    let (threads, mut left) = (threads(launch), slots.iter());
    let per_thread = |extent: usize| [&[extent], &threads[..]].concat();
    let argument = |role: &Role| match *role {
        Role::Primal(param) | Role::Tangent(param) => Ok(inner[param].clone()),
        Role::Adjoint(param) => match &incoming[param] {
            Some(adjoint) => Ok(adjoint.clone()),
            None => adjoint_zeros(&inner[param]),
        },
        Role::Extent(axis) => {
            let extent = threads.get(usize::from(axis)).copied().unwrap_or(1);
            Ok(Value::Scalar(Number::of(extent as i32)))
        }
        Role::Sums(count) => {
            Array::unplaced(Scalar::F64, &[&[count as usize], &sums::threads(&threads)[..]].concat()).map(Value::Array)
        }
        Role::Tape(scalar) => {
            let slots = left.next().copied().unwrap_or(0).max(1);
            Array::unplaced(scalar, &per_thread(slots)).map(Value::Array)
        }
        Role::Counts => Array::unplaced(Scalar::I32, &per_thread(slots.len())).map(Value::Array),
    };
    params.iter().map(argument).collect()
}

/// Returns the slots that a thread needs of each tape, as a launch counts them.
fn tapes(launch: &Launch, derivative: &Derivative, inner: &[Value]) -> Outcome<Vec<usize>> {
    let Some((kernel, params)) = &derivative.counting else { return Ok(vec![]) };
    let plain: Vec<Value> = inner.iter().map(primal).collect();
    let count = derivative.params.iter().filter(|role| matches!(role, Role::Tape(_))).count();
    let args = arguments(launch, params, &plain, &vec![None; plain.len()], &vec![0; count])?;
    let found = run(launch, kernel, params, args)?.into_iter().find(|(role, _)| *role == Role::Counts);
    let Some((_, counts)) = found else { return Err(lost("its tapes were not counted")) };
    let threads: usize = threads(launch).iter().product();
    if threads == 0 {
        return Ok(vec![0; count]);
    }
    let rows = reshaped(counts, &[count, threads])?;
    let Value::Array(most) = ops::reduce(Reduce::Max, &rows, Some(1))? else { return Ok(vec![]) };
    let Value::Array(least) = ops::reduce(Reduce::Min, &rows, Some(1))? else { return Ok(vec![]) };
    let (most, least) = (most.items::<i32>()?, least.items::<i32>()?);
    let counted = most.iter().zip(least.iter()).map(|(&most, &least)| match least {
        0.. => most as u64,
        // A count that has passed the end of its type.
        _ => 1 << 32,
    });
    let slots: Vec<u64> = counted.collect();
    fitting(derivative, &slots, threads as u64)?;
    Ok(slots.into_iter().map(|slots| usize::try_from(slots).unwrap_or(usize::MAX)).collect())
}

/// Refuses tapes that take too much memory.
fn fitting(derivative: &Derivative, slots: &[u64], threads: u64) -> Outcome<()> {
    let scalars = derivative.params.iter().filter_map(|role| match role {
        Role::Tape(scalar) => Some(scalar.size() as u64),
        _ => None,
    });
    let bytes: Vec<u64> = scalars.zip(slots).map(|(size, slots)| size * slots.saturating_mul(threads)).collect();
    let all = bytes.iter().sum();
    let limit = derivative.kernel.largest_tape();
    if all <= limit {
        return Ok(());
    }
    let worst = (0..bytes.len()).max_by_key(|&tape| bytes[tape]).unwrap_or(0);
    let Some(recorder) = derivative.recorders.get(worst) else { return Err(lost("its tapes are too large")) };
    let (all, limit) = (crate::device::size(all), crate::device::size(limit));
    let numbers = if recorder.numbers == 1 { "a number".into() } else { format!("{} numbers", recorder.numbers) };
    let says = format!(
        "this loop records {numbers} in each turn: up to {} in a thread, and there are {threads} threads",
        slots[worst]
    );
    let mut problem =
        Problem::new("E0723", format!("to go back over a loop takes a tape of {all}, and {limit} is the most"))
            .label("goes back over it")
            .help("launch the kernel for fewer turns at a time: of what is between launches, only the arrays are kept")
            .help("`jvp` keeps nothing, and `with_grad` states a derivative");
    problem.elsewhere = Some(Box::new(Elsewhere::Place(recorder.span, says)));
    Err(problem)
}

/// Returns the extents of an index space, or the number of threads of a grid.
fn threads(launch: &Launch) -> Vec<usize> {
    match (launch.extents, launch.kernel.module.kernel.form) {
        (Extents::Threads(extents), Shape::Threads { rank }) => {
            extents.iter().take(usize::from(rank)).map(|&n| n as usize).collect()
        }
        (Extents::Threads(extents), Shape::Grid) => vec![extents.iter().map(|&n| n as usize).product()],
        (Extents::Grid { grid, block }, _) => vec![grid.iter().chain(&block).map(|&n| n as usize).product()],
    }
}
