//! Kernel launches on values that may be traced.
//!
//! Input: a launch and one value per parameter (scalars, vectors, arrays). Output: the arrays that it writes. In
//! forward mode, the kernel's forward derivative is launched instead, which computes results and tangents. In reverse
//! mode, the launch is recorded on the tape, and the reverse sweep launches the reverse derivative. Derivatives of
//! launches are launches too, so that nested differentiation can trace them.

use std::sync::{Arc, PoisonError};

use super::apply::{apply, convert_to, reshape};
use super::kernel::{DerivedKernel, Direction, GradKernel, GradLaunch};
use super::tape::{DerivativeAuditor, GradTape, TapeNode, TapeOperand, not_differentiable};
use super::tape_op::TapeOp;
use super::thread_sums;
use super::trace_value::{level_of, primal, split_link, trace};
use super::value_shape::ValueShape;
use super::vjp::Cotangent;
use crate::array::Array;
use crate::graph::{self, ExecContext};
use crate::ops::{self, ReduceKind};
use crate::problem::{ErrorOrigin, HostResult, RuntimeError};
use crate::value::{GradLink, HostValue};
use clk_derive::DerivedParamRole;
use clk_ir::def::{Access, LaunchForm as Shape};
use clk_runtime::{
    Arg, DeviceError, EarlierFault, Fault, FaultKind, LaunchConfig, LaunchExtents, LaunchOrigin, SignaturePromise,
};
use clk_scalar::{Scalar, ScalarValue as Number};

/// Runs a launch on arguments that may be traced. Returns the arrays that it writes, in the order of the parameters.
pub(crate) fn launch_traced(
    exec: &ExecContext,
    launch: &GradLaunch,
    args: Vec<HostValue>,
) -> HostResult<Vec<HostValue>> {
    let Some(level) = level_of(&args) else { return launch_plain(launch, args) };
    let partly_written: Vec<usize> = (0..args.len())
        .filter(|&at| launch.kernel.access(at) == Some(Access::Out) && matches!(args[at], HostValue::Traced(_)))
        .collect();
    if !partly_written.is_empty() {
        // In an `out` array that the kernel writes only partly, the other elements keep their values and their
        // derivatives.
        let launch = GradLaunch { kernel: launch.kernel.with_preserved_outputs(partly_written)?, ..launch.clone() };
        return launch_traced(exec, &launch, args);
    }
    let can = clk_derive::can_be_active(&launch.kernel.module).into_iter().enumerate();
    if can
        .filter(|(param, can)| *can && is_written(&launch.kernel, *param))
        .any(|(param, _)| ValueShape::for_value(&args[param]).is_none())
    {
        return Err(not_differentiable("this launch writes an array of structs"));
    }
    let (inner, links): (Vec<HostValue>, Vec<Option<GradLink>>) = args.iter().map(|arg| split_link(arg, level)).unzip();
    if let Some((auditor, link)) = DerivativeAuditor::for_links(&links) {
        let active: Vec<bool> = links.iter().map(Option::is_some).collect();
        auditor.0.check_launch(exec, launch, &inner, &active)?;
        let results = launch_traced(exec, launch, inner)?.into_iter();
        let linked = |result: HostValue| match ValueShape::for_value(&result) {
            Some(_) => trace(result, level, link.clone()),
            None => result,
        };
        return Ok(results.map(linked).collect());
    }
    match GradTape::for_links(&links) {
        Some(tape) => record_launch(exec, launch, inner, &links, &tape, level),
        None => {
            let tangents: Vec<Option<HostValue>> =
                links.into_iter().map(|link| link.and_then(GradLink::into_tangent)).collect();
            launch_forward(exec, launch, inner, &tangents, level)
        }
    }
}

fn is_written(kernel: &GradKernel, param: usize) -> bool {
    kernel.access(param).is_some_and(|access| access != Access::In)
}

/// Returns for each parameter whether it is active: traced, or an array that the kernel writes.
fn active_params(kernel: &GradKernel, is_traced: impl Fn(usize) -> bool) -> Vec<bool> {
    let can = clk_derive::can_be_active(&kernel.module).into_iter().enumerate();
    can.map(|(param, can)| can && (is_written(kernel, param) || is_traced(param))).collect()
}

fn launch_plain(launch: &GradLaunch, args: Vec<HostValue>) -> HostResult<Vec<HostValue>> {
    let kernel = &launch.kernel;
    let mut args = args;
    let mut launch_args = Vec::with_capacity(args.len());
    let mut written = vec![];
    for (param, arg) in args.iter_mut().enumerate() {
        match arg {
            HostValue::Scalar(number) => launch_args.push(Arg::Value(vec![*number])),
            HostValue::Vector(vector) => launch_args.push(Arg::Value(vector.values().collect())),
            HostValue::Array(array) => {
                let shape = array.extents();
                if is_written(kernel, param) {
                    written.push(param);
                    launch_args.push(Arg::ArrayMut { storage: array.storage_mut()?, shape });
                } else {
                    launch_args.push(Arg::Array { storage: array.storage()?, shape });
                }
            }
            other => return Err(ops::operand::undefined("a launch", &[other])),
        }
    }
    let config = adjusted_config(launch, &launch_args);
    let outcome = kernel.executable()?.launch(&config, &mut launch_args, &launch.control);
    drop(launch_args);
    let print = |text: &str| launch.output.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    outcome
        .inspect_err(|fault| print(&fault.output))
        .map(|text| print(&text))
        .map_err(|fault| launch_error(launch, fault))?;
    Ok(written.into_iter().filter_map(|param| args.get(param).cloned()).collect())
}

/// Converts the fault of a launch to an error that has its own location.
fn launch_error(launch: &GradLaunch, fault: Box<Fault>) -> RuntimeError {
    match &fault.kind {
        FaultKind::Device(_) | FaultKind::Interrupted => graph::fault_error(&fault),
        _ => {
            let origin = LaunchOrigin::new(&launch.kernel.module.kernel, &launch.config);
            DeviceError::EarlierLaunch(Box::new(EarlierFault { fault: *fault, origin })).into()
        }
    }
}

/// Returns the configuration of the launch of a derivative. The declared maximum sizes are adjusted, because its arrays
/// may be larger than the arrays of the kernel.
fn adjusted_config(launch: &GradLaunch, given: &[Arg<'_>]) -> LaunchConfig {
    let count = |arg: &Arg<'_>| arg.shape().map(|shape| shape.iter().map(|&n| u64::from(n)).product::<u64>());
    let largest = given.iter().filter_map(count).max().unwrap_or(0);
    let declared =
        launch.config.declared.map(|known| SignaturePromise { largest: known.largest.max(largest), ..known });
    LaunchConfig { declared, ..launch.config }
}

/// Number of partial sums for the adjoint of a scalar, to reduce contention between the threads that add to it.
const SUM_PARTS: usize = 256;

/// Returns zeros with the type and shape of an argument.
fn param_zeros(value: &HostValue) -> HostResult<HostValue> {
    match (ValueShape::for_value(value), primal(value)) {
        (Some(form), _) => form.zeros(),
        // The elements are structs.
        (None, HostValue::Array(array)) => {
            Array::unplaced(array.element().clone(), array.shape()).map(HostValue::Array)
        }
        (None, _) => Err(not_differentiable("a parameter without a derivative")),
    }
}

/// Returns the zeros to which a launch adds the adjoint of an argument. For a scalar, they are an array of partial
/// sums.
fn adjoint_zeros(value: &HostValue) -> HostResult<HostValue> {
    let Some(form) = ValueShape::for_value(value) else { return param_zeros(value) };
    let shape = form.shape.or_else(|| Some(vec![SUM_PARTS]));
    ValueShape { shape, scalar: clk_derive::adjoint_scalar(form.scalar), ..form }.zeros()
}

/// Launches a derived kernel. Returns the arrays that it writes, with the roles of their parameters.
fn run_derived(
    exec: &ExecContext,
    launch: &GradLaunch,
    kernel: &Arc<GradKernel>,
    params: &[DerivedParamRole],
    args: Vec<HostValue>,
) -> HostResult<Vec<(DerivedParamRole, HostValue)>> {
    let results = launch_traced(exec, &GradLaunch { kernel: kernel.clone(), ..launch.clone() }, args)?;
    let written = params.iter().enumerate().filter(|(at, _)| is_written(kernel, *at));
    Ok(written.map(|(_, role)| *role).zip(results).collect())
}

/// Launches the forward derivative.
pub(super) fn launch_forward(
    exec: &ExecContext,
    launch: &GradLaunch,
    inner: Vec<HostValue>,
    tangents: &[Option<HostValue>],
    level: u32,
) -> HostResult<Vec<HostValue>> {
    let kernel = &launch.kernel;
    let active = active_params(kernel, |param| tangents.get(param).is_some_and(Option::is_some));
    let derivative = kernel.derivatives(Direction::Forward, &active)?;
    let args = derivative.params.iter().map(|role| match *role {
        DerivedParamRole::Primal(param) => Ok(inner[param].clone()),
        DerivedParamRole::Tangent(param) => match &tangents[param] {
            Some(tangent) => Ok(tangent.clone()),
            None => param_zeros(&inner[param]),
        },
        DerivedParamRole::Adjoint(_)
        | DerivedParamRole::Extent(_)
        | DerivedParamRole::Sums(_)
        | DerivedParamRole::Tape(_)
        | DerivedParamRole::Counts => Err(not_differentiable("a parameter of another direction")),
    });
    let args = args.collect::<HostResult<Vec<HostValue>>>()?;
    let (mut plain, mut tangents_out) = (vec![None; inner.len()], vec![None; inner.len()]);
    for (role, result) in run_derived(exec, launch, &derivative.kernel, &derivative.params, args)? {
        match role {
            DerivedParamRole::Primal(param) => plain[param] = Some(result),
            DerivedParamRole::Tangent(param) => tangents_out[param] = Some(result),
            _ => {}
        }
    }
    let written = (0..inner.len()).filter(|&param| is_written(kernel, param));
    written
        .map(|param| match (plain[param].take(), tangents_out[param].take()) {
            (Some(result), Some(tangent)) => Ok(trace(result, level, GradLink::Tangent(tangent))),
            (Some(result), None) => Ok(result),
            _ => Err(not_differentiable("a result without a value")),
        })
        .collect()
}

/// Runs a launch and records it on the tape, as a node for the launch, followed by a node for each result.
fn record_launch(
    exec: &ExecContext,
    launch: &GradLaunch,
    inner: Vec<HostValue>,
    links: &[Option<GradLink>],
    tape: &Arc<GradTape>,
    level: u32,
) -> HostResult<Vec<HostValue>> {
    let kernel = &launch.kernel;
    let nodes: Vec<Option<u32>> = links.iter().map(|link| link.as_ref().and_then(GradLink::node)).collect();
    // The derivative is generated now, so that an error is reported at the launch and not in the reverse sweep.
    kernel.derivatives(Direction::Reverse, &active_params(kernel, |param| nodes[param].is_some()))?;
    let results = launch_traced(exec, launch, inner.clone())?;
    let operands = inner.into_iter().zip(nodes);
    let operands: Vec<TapeOperand> = operands
        .map(|(value, node)| TapeOperand { node, shape: ValueShape::for_value(&value), value: Some(value) })
        .collect();
    let form = ValueShape { shape: Some(vec![results.len()]), scalar: Scalar::F64, lanes: 1 };
    tape.push(TapeNode { op: Some(TapeOp::Launch(launch.clone())), operands, result: None, shape: form });
    let node = |result: HostValue| match ValueShape::for_value(&result) {
        Some(form) => {
            let node = tape.push(TapeNode { op: None, operands: vec![], result: None, shape: form });
            trace(result, level, GradLink::Node(tape.clone(), node))
        }
        None => {
            let form = ValueShape { shape: None, scalar: Scalar::F64, lanes: 1 };
            tape.push(TapeNode { op: None, operands: vec![], result: None, shape: form });
            result
        }
    };
    Ok(results.into_iter().map(node).collect())
}

/// Returns the number of results of a launch. On the tape, their nodes follow the node of the launch.
pub(super) fn result_count(launch: &GradLaunch) -> usize {
    (0..launch.kernel.module.kernel.params.len()).filter(|&param| is_written(&launch.kernel, param)).count()
}

/// Launches the reverse derivative, which computes the operands' cotangents from the results' cotangents.
pub(super) fn launch_reverse(
    exec: &ExecContext,
    launch: &GradLaunch,
    step: &TapeNode,
    adjoints: Vec<Option<HostValue>>,
) -> HostResult<Vec<(usize, Cotangent)>> {
    let kernel = &launch.kernel;
    let inner: Vec<HostValue> = step.operands.iter().map(|o| o.value.clone().unwrap_or(HostValue::Unit)).collect();
    let is_active = active_params(kernel, |param| step.operands[param].node.is_some());
    let derivative = kernel.derivatives(Direction::Reverse, &is_active)?;
    let mut incoming: Vec<Option<HostValue>> = vec![None; inner.len()];
    let written = (0..inner.len()).filter(|&param| is_written(kernel, param));
    for (param, adjoint) in written.zip(adjoints) {
        if let (Some(adjoint), Some(form)) = (adjoint, ValueShape::for_value(&inner[param])) {
            incoming[param] =
                Some(convert_to(exec, &form.broadcast(exec, adjoint)?, clk_derive::adjoint_scalar(form.scalar))?);
        }
    }
    let mut parts = vec![];
    for (kernel, params, of) in &derivative.gathers {
        let args = derived_args(launch, params, &inner, &incoming, &[])?;
        let shape = ValueShape::for_value(&inner[*of]).and_then(|form| form.shape).unwrap_or_default();
        parts.extend(collect_adjoints(
            exec,
            step,
            run_derived(exec, &with_index_space(launch, &shape), kernel, params, args)?,
        )?);
    }
    if let Some(totals) = &derivative.reductions {
        let args = derived_args(launch, &totals.params, &inner, &incoming, &[])?;
        let sum_launch = with_index_space(launch, &thread_sums::sum_extents(&index_space(launch)));
        let results = run_derived(exec, &sum_launch, &totals.kernel, &totals.params, args)?;
        if let Some((_, sums)) = results.into_iter().find(|(role, _)| matches!(role, DerivedParamRole::Sums(_))) {
            parts.extend(thread_sums::sum_cotangents(exec, step, &totals.targets, sums)?);
        }
    }
    if derivative.has_effect {
        let tapes = count_tape_slots(exec, launch, &derivative, &inner)?;
        let args = derived_args(launch, &derivative.params, &inner, &incoming, &tapes)?;
        parts.extend(collect_adjoints(
            exec,
            step,
            run_derived(exec, launch, &derivative.kernel, &derivative.params, args)?,
        )?);
    }
    Ok(parts)
}

/// Returns the launch with a different index space.
fn with_index_space(launch: &GradLaunch, space: &[usize]) -> GradLaunch {
    let mut extents = [1; 3];
    extents.iter_mut().zip(space).for_each(|(extent, &len)| *extent = len as u32);
    let config = LaunchConfig { extents: LaunchExtents::Threads(extents), is_part: true, ..launch.config };
    GradLaunch { config, ..launch.clone() }
}

/// Returns the adjoints of operands, from the arrays that a derivative's launch has written.
fn collect_adjoints(
    exec: &ExecContext,
    step: &TapeNode,
    results: Vec<(DerivedParamRole, HostValue)>,
) -> HostResult<Vec<(usize, Cotangent)>> {
    let mut parts = vec![];
    for (role, result) in results {
        let DerivedParamRole::Adjoint(param) = role else { continue };
        let operand = &step.operands[param];
        let (Some(_), Some(form)) = (operand.node, &operand.shape) else { continue };
        let part = match form.shape {
            Some(_) => result,
            None => apply(exec, &TapeOp::Reduce(ReduceKind::Sum, None), vec![result])?,
        };
        parts.push((param, Cotangent::Whole(convert_to(exec, &part, form.scalar)?)));
    }
    Ok(parts)
}

/// Returns the arguments of a derived kernel. `slots` are the numbers of slots per thread of the tapes, which are their
/// first extents.
fn derived_args(
    launch: &GradLaunch,
    params: &[DerivedParamRole],
    inner: &[HostValue],
    incoming: &[Option<HostValue>],
    slots: &[usize],
) -> HostResult<Vec<HostValue>> {
    let (threads, mut left) = (index_space(launch), slots.iter());
    let per_thread = |extent: usize| [&[extent], &threads[..]].concat();
    let argument = |role: &DerivedParamRole| match *role {
        DerivedParamRole::Primal(param) | DerivedParamRole::Tangent(param) => Ok(inner[param].clone()),
        DerivedParamRole::Adjoint(param) => match &incoming[param] {
            Some(adjoint) => Ok(adjoint.clone()),
            None => adjoint_zeros(&inner[param]),
        },
        DerivedParamRole::Extent(axis) => {
            let extent = threads.get(usize::from(axis)).copied().unwrap_or(1);
            Ok(HostValue::Scalar(Number::of(extent as i32)))
        }
        DerivedParamRole::Sums(count) => {
            Array::unplaced(Scalar::F64, &[&[count as usize], &thread_sums::sum_extents(&threads)[..]].concat())
                .map(HostValue::Array)
        }
        DerivedParamRole::Tape(scalar) => {
            let slots = left.next().copied().unwrap_or(0).max(1);
            Array::unplaced(scalar, &per_thread(slots)).map(HostValue::Array)
        }
        DerivedParamRole::Counts => Array::unplaced(Scalar::I32, &per_thread(slots.len())).map(HostValue::Array),
    };
    params.iter().map(argument).collect()
}

/// Returns the maximum number of slots that a thread needs in each tape. One launch counts them for all tapes.
fn count_tape_slots(
    exec: &ExecContext,
    launch: &GradLaunch,
    derivative: &DerivedKernel,
    inner: &[HostValue],
) -> HostResult<Vec<usize>> {
    let Some((kernel, params)) = &derivative.counting else { return Ok(vec![]) };
    let plain: Vec<HostValue> = inner.iter().map(primal).collect();
    let count = derivative.params.iter().filter(|role| matches!(role, DerivedParamRole::Tape(_))).count();
    let args = derived_args(launch, params, &plain, &vec![None; plain.len()], &vec![0; count])?;
    let counts_role = run_derived(exec, launch, kernel, params, args)?
        .into_iter()
        .find(|(role, _)| *role == DerivedParamRole::Counts);
    let Some((_, counts)) = counts_role else { return Err(not_differentiable("its tapes were not counted")) };
    let threads: usize = index_space(launch).iter().product();
    if threads == 0 {
        return Ok(vec![0; count]);
    }
    let rows = reshape(exec, counts, &[count, threads])?;
    let HostValue::Array(most) = ops::reduce(exec, ReduceKind::Max, &rows, Some(1))? else { return Ok(vec![]) };
    let HostValue::Array(least) = ops::reduce(exec, ReduceKind::Min, &rows, Some(1))? else { return Ok(vec![]) };
    let (most, least) = (most.items::<i32>()?, least.items::<i32>()?);
    let counted = most.iter().zip(least.iter()).map(|(&most, &least)| match least {
        0.. => most as u64,
        // The count has overflowed. This value is too large for any tape.
        _ => 1 << 32,
    });
    let slots: Vec<u64> = counted.collect();
    check_tape_size(derivative, &slots, threads as u64)?;
    Ok(slots.into_iter().map(|slots| usize::try_from(slots).unwrap_or(usize::MAX)).collect())
}

/// Returns an error if the tapes need too much memory.
fn check_tape_size(derivative: &DerivedKernel, slots: &[u64], threads: u64) -> HostResult<()> {
    let scalars = derivative.params.iter().filter_map(|role| match role {
        DerivedParamRole::Tape(scalar) => Some(scalar.size() as u64),
        _ => None,
    });
    let bytes: Vec<u64> = scalars.zip(slots).map(|(size, slots)| size * slots.saturating_mul(threads)).collect();
    let all = bytes.iter().sum();
    let limit = derivative.kernel.max_tape_bytes();
    if all <= limit {
        return Ok(());
    }
    let worst = (0..bytes.len()).max_by_key(|&tape| bytes[tape]).unwrap_or(0);
    let Some(recorder) = derivative.tape_loops.get(worst) else {
        return Err(not_differentiable("its tapes are too large"));
    };
    let (all, limit) = (clk_runtime::size(all), clk_runtime::size(limit));
    let numbers =
        if recorder.value_count == 1 { "a number".into() } else { format!("{} numbers", recorder.value_count) };
    let explanation = format!(
        "this loop records {numbers} in each iteration: up to {} in a thread, and there are {threads} threads",
        slots[worst]
    );
    let mut problem = RuntimeError::new(
        "E0723",
        format!("the reverse sweep over a loop needs a tape of {all}, and {limit} is the most"),
    )
    .label("differentiated in reverse mode here")
    .help("launch the kernel for fewer iterations at a time: between launches, only the arrays are kept")
    .help("`jvp` keeps nothing, and `with_grad` states a derivative");
    problem.origin = Some(Box::new(ErrorOrigin::KernelSource(recorder.span, explanation)));
    Err(problem)
}

/// Returns the extents of the launch's index space. For a grid, this is the total number of threads.
fn index_space(launch: &GradLaunch) -> Vec<usize> {
    match (launch.config.extents, launch.kernel.module.kernel.form) {
        (LaunchExtents::Threads(extents), Shape::Threads { rank }) => {
            extents.iter().take(usize::from(rank)).map(|&n| n as usize).collect()
        }
        (LaunchExtents::Threads(extents), Shape::Grid) => vec![extents.iter().map(|&n| n as usize).product()],
        (LaunchExtents::Grid { grid, block }, _) => vec![grid.iter().chain(&block).map(|&n| n as usize).product()],
    }
}
