//! Defers operations, computes small results immediately, and launches the kernels of fused expressions.

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::array::broadcast::{BroadcastIter, strides};
use crate::array::{
    AlignedBytes, Array, DeferredWork, ElementType, MAX_EXTENT, Reader, byte_count, no_memory, shape_text,
};
use crate::graph::context::ExecContext;
use crate::graph::kernel_builder::{self, MAX_AXES};
use crate::graph::lazy_gather::{LazyGather, as_gather};
use crate::graph::node::{DeferredNode, ElementwiseOp, GraphSize, MAX_INPUTS, MAX_OPS, MAX_PINNED_BYTES, NodeOperand};
use crate::graph::out_of_core;
use crate::graph::plan::{FusionPlan, OperandSource};
use crate::graph::view::{LazyView, as_view, view_lattice};
use crate::problem::{HostResult, RuntimeError};
use clk_base::source::Span;
use clk_base::stop;
use clk_ir::def::Module;
use clk_runtime::storage::Storage;
use clk_runtime::{
    Arg, Control, DeviceError, Executable, Fault, FaultKind, LaunchConfig, LaunchExtents, fault_diagnostic,
};
use clk_scalar::dynamic::ScalarError;
use clk_scalar::{Scalar, ScalarValue};

/// The maximum number of scalars in a result that is computed immediately.
pub(super) const EAGER_SCALARS: usize = 64;

/// The minimum size of a result that a GPU computes if all operands are on the host.
pub(crate) const MIN_UPLOAD_BYTES: usize = 1 << 16;

/// Returns the result of an elementwise operation. Small results, and operations that may fault, are computed
/// immediately; others are deferred. The caller has checked the types. The operands' shapes must broadcast to `shape`,
/// whose last axis is the components if elements are vectors.
pub(crate) fn defer(
    context: &ExecContext,
    op: ElementwiseOp,
    operands: Vec<NodeOperand>,
    scalar: Scalar,
    element: ElementType,
    shape: &[usize],
) -> HostResult<Array> {
    let lanes = element.lanes();
    let outer = if lanes > 1 { &shape[..shape.len().saturating_sub(1)] } else { shape };
    let bytes = byte_count(&element, outer)?;
    if bytes == 0 {
        return Array::zeros(element, outer);
    }
    if bytes / scalar.size() <= EAGER_SCALARS && operands.iter().all(is_operand_on_host) {
        let mut result = Array::zeros(element, outer)?;
        compute_on_host(op, &operands, shape, result.bytes_mut()?, scalar.size())?;
        return Ok(result);
    }
    let operand_size = |operand: &NodeOperand| as_array(operand).map_or(GraphSize::COMPUTED, graph_size);
    let count = |operand: &NodeOperand| (operand_size(operand).op_count, operand_size(operand).input_count);
    // If the graph is too large for one kernel, compute operands, the one with the largest graph first.
    let (size, inputs, pinned) = loop {
        let (size, inputs) = operands.iter().map(count).fold((1, 0), |(a, b), (c, d)| (a + c, b + d));
        let pinned =
            operands.iter().fold(0, |all: usize, operand| all.saturating_add(operand_size(operand).pinned_bytes));
        let largest = match size > MAX_OPS || inputs > MAX_INPUTS {
            true => operands.iter().max_by_key(|operand| count(operand)),
            false => operands
                .iter()
                .filter(|_| pinned > MAX_PINNED_BYTES)
                .max_by_key(|operand| operand_size(operand).pinned_bytes),
        };
        match largest {
            Some(NodeOperand::Array(array, _)) => array.storage().map(drop)?,
            _ => break (size, inputs, pinned),
        }
    };
    let folds = operands.iter().any(|operand| operand_size(operand).has_reductions);
    let may_fault = op.may_fault(&operands);
    let arrays: Vec<Array> = operands.iter().filter_map(as_array).cloned().collect();
    let node = DeferredNode {
        op,
        operands: operands.into(),
        scalar,
        shape: shape.to_vec(),
        op_count: size,
        input_count: inputs,
        pinned_bytes: pinned,
        context: context.clone(),
        has_reductions: folds,
        was_inlined: AtomicBool::new(false),
    };
    let result = Array::deferred(element, outer, Arc::new(node))?;
    if may_fault {
        result.storage()?;
    } else {
        context.record_result(&result, arrays.iter())?;
    }
    Ok(result)
}

/// Returns the size of the graph of deferred operations below an array.
pub(super) fn graph_size(array: &Array) -> GraphSize {
    let Some(work) = array.data().work() else { return GraphSize::COMPUTED };
    let view = || as_view(&*work).map(LazyView::graph_size).or_else(|| as_gather(&*work).map(LazyGather::graph_size));
    GraphSize::for_work(&*work).or_else(view).unwrap_or(GraphSize::COMPUTED)
}

pub(super) fn as_array(operand: &NodeOperand) -> Option<&Array> {
    match operand {
        NodeOperand::Array(array, _) => Some(array),
        NodeOperand::Scalar(_) => None,
    }
}

/// Whether the bytes of an operand are on the host.
fn is_operand_on_host(operand: &NodeOperand) -> bool {
    let is_on_host = |array: &Array| array.data().computed().is_some_and(|storage| storage.here().is_some());
    as_array(operand).is_none_or(is_on_host)
}

/// Computes an operation scalar by scalar on the host.
pub(super) fn compute_on_host(
    op: ElementwiseOp,
    operands: &[NodeOperand],
    shape: &[usize],
    into: &mut [u8],
    size: usize,
) -> HostResult<()> {
    let mut places = into.chunks_exact_mut(size.max(1));
    let mut failure = None;
    for_each_scalar(operands, shape, |_, values| {
        match (op.apply(values), places.next()) {
            (Ok(result), Some(place)) => place.copy_from_slice(&result.to_bytes()[..size]),
            (Ok(_), None) => {}
            (Err(why), _) => failure = Some(why),
        }
        failure.is_none()
    })?;
    failure.map_or(Ok(()), |why| Err(scalar_error(why)))
}

/// Converts the error of a scalar operation to a run-time error.
pub(crate) fn scalar_error(why: ScalarError) -> RuntimeError {
    match why {
        ScalarError::DivisionByZero => RuntimeError::new(DIVISION_BY_ZERO, "integer division by zero"),
        ScalarError::Undefined => internal_error("an operation on types that it does not take"),
    }
}

/// For each scalar of a result in order, calls `look` with its position and the operands, until `look` returns false.
pub(crate) fn for_each_scalar(
    operands: &[NodeOperand],
    shape: &[usize],
    mut look: impl FnMut(usize, &[ScalarValue]) -> bool,
) -> HostResult<()> {
    let count: usize = shape.iter().product();
    let number = operands.len().min(MAX_OPERANDS);
    let mut values = [ScalarValue::from_bits(Scalar::Bool, 0); MAX_OPERANDS];
    let mut bytes: [&[u8]; MAX_OPERANDS] = [&[]; MAX_OPERANDS];
    for (i, operand) in operands.iter().take(number).enumerate() {
        match operand {
            NodeOperand::Scalar(value) => values[i] = *value,
            NodeOperand::Array(array, _) => {
                let scalar = array.scalar().ok_or_else(|| internal_error("an array of structs"))?;
                values[i] = ScalarValue::from_bits(scalar, 0);
                bytes[i] = array.bytes()?;
            }
        }
    }
    let mut at = |position: usize, offsets: [usize; MAX_OPERANDS]| {
        for ((value, bytes), offset) in values.iter_mut().zip(bytes).zip(offsets) {
            if !bytes.is_empty() {
                *value = ScalarValue::from_bytes(value.ty, bytes.get(offset * value.ty.size()..).unwrap_or(&[]));
            }
        }
        look(position, &values[..number])
    };
    // Fast path: without broadcasting, an element has the same position in all operands.
    if operands.iter().all(|operand| matches!(operand, NodeOperand::Scalar(_)) || operand.shape() == shape) {
        stop::polled(0..count).all(|position| at(position, [position; MAX_OPERANDS]));
        return Ok(());
    }
    let own = |i: usize| operands.get(i).map_or(vec![0; shape.len()], |operand| strides(operand.shape(), shape));
    let mut walk = BroadcastIter::new(shape, [own(0), own(1), own(2)]);
    for position in stop::polled(0..count) {
        if !at(position, walk.offsets()) {
            break;
        }
        walk.advance();
    }
    Ok(())
}

/// The maximum number of operands of an operation.
const MAX_OPERANDS: usize = 3;

/// Error code of an integer division by zero. The caller adds the location of the divisor.
pub(crate) const DIVISION_BY_ZERO: &str = "E0506";

pub(super) fn internal_error(what: impl Display) -> RuntimeError {
    RuntimeError::new("E0999", format!("internal error: {what}")).help("please report this as a bug of Clk")
}

/// Copies the elements of a view. `is_sole_owner` is true if the view holds the only reference to its source.
fn copy_view(view: &LazyView, source: &Array, is_sole_owner: bool, len: usize, reader: Reader) -> HostResult<Storage> {
    if let (Some(bytes), Reader::Device) = (&view.separate_upload, reader)
        && let Some(storage) = out_of_core::upload_range(&view.context, source, bytes.clone())?
    {
        return Ok(storage);
    }
    let storage = source.data().computed();
    let is_remote = storage.is_some_and(|storage| storage.remote().is_some());
    if let Some(bytes) = storage
        .and_then(Storage::here)
        .filter(|_| !(is_remote && view.context.device().memory().is_some() || view.context.counts_launches()))
    {
        let new = AlignedBytes::for_overwrite(len);
        let mut copy = new.ok_or_else(|| no_memory(&ElementType::Scalar(view.scalar), &view.shape))?;
        let workers = view.context.control().workers;
        view_lattice(&view.source_shape, &view.axes, &view.shape).copy_out(
            bytes,
            view.scalar.size(),
            &mut copy,
            workers,
        );
        return Ok(Storage::of_bytes(copy));
    }
    let (plan, element) = FusionPlan::for_view(view, source, is_sole_owner)?;
    run_plan(&plan, element, view.scalar, &view.shape, &view.context, len, false)
}

impl DeferredWork for LazyView {
    fn run(&self, len: usize, reader: Reader) -> HostResult<Storage> {
        match self.source_or_copy() {
            Some(Ok(storage)) => Ok(storage),
            // If the view is the sole owner, there are two references: this one and the one of the view. The view keeps
            // its reference, so that it remains readable if the copy is interrupted.
            Some(Err(source)) => copy_view(self, &source, Arc::strong_count(source.data()) == 2, len, reader),
            None => Err(internal_error("a view that is copied twice")),
        }
    }

    fn detach(&self, len: usize) -> HostResult<()> {
        let Some(source) = self.source() else { return Ok(()) };
        let copied = copy_view(self, &source, false, len, Reader::Host)?;
        self.set_copied(copied);
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        self.source().map_or(0, |_| self.shape.iter().product::<usize>() * self.scalar.size())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Computes a plan into new storage of `len` bytes. With `wait`, waits for the kernel and reports its faults.
pub(super) fn run_plan(
    plan: &FusionPlan,
    element: OperandSource,
    scalar: Scalar,
    shape: &[usize],
    context: &ExecContext,
    len: usize,
    wait: bool,
) -> HostResult<Storage> {
    let mut storage = Storage::unset(len);
    let context = plan_context(context, plan, len);
    let output = PlanOutput { storage: &mut storage, extents: &[] };
    run_plan_into(plan, element, scalar, shape, &context, output, wait)?;
    Ok(storage)
}

/// The destination of a kernel's result.
pub(super) struct PlanOutput<'o> {
    pub storage: &'o mut Storage,
    /// If the result is written to a window of a larger array, the extents of that array. Unused otherwise.
    pub extents: &'o [u32],
}

/// Runs the kernel of a plan, which writes its result to `output`. The element type and the shape are only used in
/// out-of-memory errors.
pub(super) fn run_plan_into(
    plan: &FusionPlan,
    element: OperandSource,
    scalar: Scalar,
    shape: &[usize],
    context: &ExecContext,
    output: PlanOutput<'_>,
    wait: bool,
) -> HostResult<()> {
    run_plan_with_control(plan, element, scalar, shape, context, output, wait, context.control())
}

/// Like [`run_plan_into`], but with other options than the context's.
pub(super) fn run_plan_with_control(
    plan: &FusionPlan,
    element: OperandSource,
    scalar: Scalar,
    shape: &[usize],
    context: &ExecContext,
    output: PlanOutput<'_>,
    wait: bool,
    control: &Control,
) -> HostResult<()> {
    let mut key = plan.cache_key();
    key.extend(match element {
        OperandSource::Input(i) => [250, i as u8],
        OperandSource::Step(i) => [251, i as u8],
        OperandSource::Scalar(i) => [252, i as u8],
        OperandSource::Constant(_) => return Err(internal_error("an expression that is a constant")),
    });
    let executable = context.kernel(key, || {
        load_kernel(context, kernel_builder::expression_kernel(plan, element, scalar), plan.has_guards)
    })?;
    launch_plan(plan, &*executable, output, wait, control, context.location())?.map_err(|fault| match fault.kind {
        FaultKind::Device(DeviceError::NoHostMemory { .. }) => no_memory(&ElementType::Scalar(scalar), shape),
        _ => fault_error(&fault),
    })
}

/// Returns the context (CPU or GPU) in which to run a plan whose result has `len` bytes.
pub(super) fn plan_context(context: &ExecContext, plan: &FusionPlan, len: usize) -> ExecContext {
    choose_context(context, plan.inputs.iter().map(|input| &input.array), len)
}

/// Returns the context (CPU or GPU) in which to compute a result of `len` bytes from these arrays.
pub(super) fn choose_context<'a>(
    context: &ExecContext,
    mut operands: impl Iterator<Item = &'a Array>,
    len: usize,
) -> ExecContext {
    let is_remote = |array: &Array| array.data().computed().is_some_and(|storage| storage.remote().is_some());
    match context.host_context() {
        Some(host) if len < MIN_UPLOAD_BYTES && !operands.any(is_remote) => host,
        _ => context.clone(),
    }
}

/// Loads the kernel of a plan. With `guards`, its loads are bounds-checked.
pub(super) fn load_kernel(
    context: &ExecContext,
    kernel: Option<Module>,
    guards: bool,
) -> HostResult<Arc<dyn Executable>> {
    let module = kernel.ok_or_else(|| internal_error("an operation without a kernel"))?;
    let mut prepared = clk_pass::prepare(module).map_err(internal_error)?;
    // Without gathers, all indices are in bounds by construction. Bounds checks could end loops early, which would
    // prevent the compiler from issuing several loads at once.
    prepared.in_bounds = !guards;
    Ok(context.load(prepared))
}

/// Returns the inputs of a plan as kernel arguments.
pub(super) fn input_args(plan: &FusionPlan) -> HostResult<Vec<Arg<'_>>> {
    let mut args = Vec::with_capacity(plan.inputs.len() + plan.scalars.len() + 5);
    for (_, input) in plan.parameter_inputs() {
        if let Some(offset) = input.offset {
            let storage = input.array.storage()?;
            args.push(Arg::Array { storage, shape: vec![(storage.len() / input.scalar.size().max(1)) as u32] });
            args.extend(view_args(offset, &input.strides));
            let strides = input.gathers.iter().map(|(_, stride)| *stride).filter(|stride| *stride != 1);
            args.extend(strides.map(|n| Arg::Value(vec![ScalarValue::of(n as i32)])));
            continue;
        }
        let axes = plan.axes.iter().zip(&input.strides);
        let mut own: Vec<u32> = axes.filter(|(_, stride)| **stride != 0).map(|(n, _)| *n as u32).collect();
        if own.is_empty() {
            own.push(1);
        }
        args.push(Arg::Array { storage: input.array.storage()?, shape: own });
    }
    Ok(args)
}

/// Returns the kernel arguments of a view: its offset and strides.
fn view_args<'a>(offset: usize, strides: &[isize]) -> Vec<Arg<'a>> {
    let strides = strides.iter().filter(|stride| !matches!(stride, 0 | 1)).copied();
    std::iter::once(offset as isize).chain(strides).map(|n| Arg::Value(vec![ScalarValue::of(n as i32)])).collect()
}

pub(super) fn to_extents(axes: &[usize]) -> Vec<u32> {
    axes.iter().map(|&n| n as u32).collect()
}

/// Launches the kernel of a plan. The outer error is that of an input that cannot be read; the inner one is the fault
/// of the launch.
fn launch_plan(
    plan: &FusionPlan,
    executable: &dyn Executable,
    output: PlanOutput<'_>,
    wait: bool,
    control: &Control,
    location: Span,
) -> HostResult<Result<(), Box<Fault>>> {
    let PlanOutput { storage, extents } = output;
    let mut args = input_args(plan)?;
    match &plan.output_window {
        None => args.push(Arg::ArrayMut { storage, shape: to_extents(&plan.axes) }),
        Some(part) => {
            args.push(Arg::ArrayMut { storage, shape: extents.to_vec() });
            args.extend(view_args(part.offset, &part.strides));
        }
    }
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    let folded_axes = kernel_builder::folded_axes(plan.axes.len());
    args.extend(plan.axes.iter().take(folded_axes).map(|&n| Arg::Value(vec![ScalarValue::of(n as i32)])));
    let mut space = [1; 3];
    let first = plan.axes.iter().take(folded_axes.max(1)).try_fold(1usize, |all, &n| all.checked_mul(n));
    let Some(first) = first.filter(|&n| n <= MAX_EXTENT) else {
        let title = format!("an expression over the axes {} is too large for one launch", shape_text(&plan.axes));
        return Err(RuntimeError::new("E0520", title).help("compute it in parts"));
    };
    let rest = plan.axes.iter().skip(folded_axes.max(1)).copied();
    for (slot, extent) in space.iter_mut().zip(std::iter::once(first).chain(rest).take(MAX_AXES)) {
        *slot = extent as u32;
    }
    let config = LaunchConfig { wait, ..LaunchConfig::new(LaunchExtents::Threads(space), location) };
    Ok(executable.launch(&config, &mut args, control).map(drop))
}

/// Converts a fault to a run-time error.
pub(crate) fn fault_error(fault: &Fault) -> RuntimeError {
    match &fault.kind {
        FaultKind::Interrupted => {
            stop::poll();
            RuntimeError::new("E0599", "interrupted")
        }
        FaultKind::DivisionByZero { .. } => scalar_error(ScalarError::DivisionByZero),
        FaultKind::Device(error) => error.clone().into(),
        _ => {
            let diagnostic = fault_diagnostic(fault);
            RuntimeError {
                notes: diagnostic.notes,
                help: diagnostic.help,
                ..RuntimeError::new(diagnostic.code, diagnostic.title)
            }
        }
    }
}
