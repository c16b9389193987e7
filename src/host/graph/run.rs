//! Deferring operations, computing small results at once, and launching the kernels of the others.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::stop;
use crate::device::profile;
use crate::device::storage::Storage;
use crate::device::{Arg, Control, DeviceError, Executable, Extents, Fault, FaultKind, fault_diagnostic};
use crate::host::array::broadcast::{Walk, strides};
use crate::host::array::{AlignedBytes, Array, Element, MAX_EXTENT, Work, byte_count, no_memory, shape_text};
use crate::host::graph::emit::{self, AXES};
use crate::host::graph::node::{Below, MOST, MOST_INPUTS, MOST_PINNED, Node, Op, Operand};
use crate::host::graph::picked::{Picked, picked_of};
use crate::host::graph::place::is_for_device;
use crate::host::graph::plan::{Plan, Source};
use crate::host::graph::site::{Held, Site};
use crate::host::graph::stream;
use crate::host::graph::view::{View, lattice, view_of};
use crate::host::problem::{Outcome, Problem};
use crate::ir::def::Module;
use crate::lang::scalar::dynamic::Failure;
use crate::lang::scalar::{Scalar, Value};
use crate::pass;

/// The most scalars of a result that is computed at once.
pub(super) const SMALL: usize = 64;

/// Bytes from which a result whose operands are on the host is worth being computed by a GPU.
pub(crate) const WORTH_MOVING: usize = 1 << 16;

/// Returns the result of an operation on arrays: small ones are computed at once, others deferred. The operands fit the operation,
/// and their shapes broadcast to `shape`, which has the components of vectors as a last axis. If the operation may fault, it is
/// computed before this returns.
pub(crate) fn defer(
    op: Op,
    operands: Vec<Operand>,
    scalar: Scalar,
    element: Element,
    shape: &[usize],
) -> Outcome<Array> {
    let lanes = element.lanes();
    let outer = if lanes > 1 { &shape[..shape.len().saturating_sub(1)] } else { shape };
    let bytes = byte_count(&element, outer)?;
    if bytes == 0 {
        return Array::zeros(element, outer);
    }
    if bytes / scalar.size() <= SMALL && operands.iter().all(is_here) {
        let mut result = Array::zeros(element, outer)?;
        now(op, &operands, shape, result.bytes_mut()?, scalar.size())?;
        return Ok(result);
    }
    let below = |operand: &Operand| array_of(operand).map_or(Below::STORED, below);
    let count = |operand: &Operand| (below(operand).size, below(operand).inputs);
    // What would make the graph too large is computed first, the largest part first.
    let (size, inputs, pinned) = loop {
        let (size, inputs) = operands.iter().map(count).fold((1, 0), |(a, b), (c, d)| (a + c, b + d));
        let pinned = operands.iter().fold(0, |all: usize, operand| all.saturating_add(below(operand).pinned));
        let largest = match size > MOST || inputs > MOST_INPUTS {
            true => operands.iter().max_by_key(|operand| count(operand)),
            false => operands.iter().filter(|_| pinned > MOST_PINNED).max_by_key(|operand| below(operand).pinned),
        };
        match largest {
            Some(Operand::Array(array, _)) => array.storage().map(drop)?,
            _ => break (size, inputs, pinned),
        }
    };
    let folds = operands.iter().any(|operand| below(operand).folds);
    let faults = op.may_fault(&operands);
    let kept: Vec<Array> = operands.iter().filter_map(array_of).cloned().collect();
    let site = Site::current();
    let node = Node {
        op,
        operands: operands.into(),
        scalar,
        shape: shape.to_vec(),
        size,
        inputs,
        pinned,
        site,
        folds,
        seen: AtomicBool::new(false),
        span: profile::place(),
    };
    let result = Array::deferred(element, outer, Arc::new(node))?;
    if faults {
        result.storage()?;
    } else {
        Held::keep(&result, kept.iter())?;
    }
    Ok(result)
}

/// Returns what is deferred below an array.
pub(super) fn below(array: &Array) -> Below {
    let Some(work) = array.data().work() else { return Below::STORED };
    let view = || view_of(&*work).map(View::below).or_else(|| picked_of(&*work).map(Picked::below));
    Below::of(&*work).or_else(view).unwrap_or(Below::STORED)
}

pub(super) fn array_of(operand: &Operand) -> Option<&Array> {
    match operand {
        Operand::Array(array, _) => Some(array),
        Operand::Scalar(_) => None,
    }
}

/// Whether an operand's bytes are on the host.
fn is_here(operand: &Operand) -> bool {
    let here = |array: &Array| array.data().computed().is_some_and(|storage| storage.here().is_some());
    array_of(operand).is_none_or(here)
}

/// Computes an operation scalar by scalar.
pub(super) fn now(op: Op, operands: &[Operand], shape: &[usize], into: &mut [u8], size: usize) -> Outcome<()> {
    let mut places = into.chunks_exact_mut(size.max(1));
    let mut failure = None;
    each(operands, shape, |_, values| {
        match (op.apply(values), places.next()) {
            (Ok(result), Some(place)) => place.copy_from_slice(&result.to_bytes()[..size]),
            (Ok(_), None) => {}
            (Err(why), _) => failure = Some(why),
        }
        failure.is_none()
    })?;
    failure.map_or(Ok(()), |why| Err(failed(why)))
}

/// Returns the error for scalars that an operation has no result for.
pub(crate) fn failed(why: Failure) -> Problem {
    match why {
        Failure::DivisionByZero => Problem::new(ZERO, "integer division by zero"),
        Failure::Undefined => broken("an operation on types that it does not take"),
    }
}

/// Calls `look` with the position and the operands of each scalar of a result in order, while it returns true.
pub(crate) fn each(
    operands: &[Operand],
    shape: &[usize],
    mut look: impl FnMut(usize, &[Value]) -> bool,
) -> Outcome<()> {
    let count: usize = shape.iter().product();
    let number = operands.len().min(MOST_OPERANDS);
    let mut values = [Value::from_bits(Scalar::Bool, 0); MOST_OPERANDS];
    let mut bytes: [&[u8]; MOST_OPERANDS] = [&[]; MOST_OPERANDS];
    for (i, operand) in operands.iter().take(number).enumerate() {
        match operand {
            Operand::Scalar(value) => values[i] = *value,
            Operand::Array(array, _) => {
                let scalar = array.scalar().ok_or_else(|| broken("an array of structs"))?;
                values[i] = Value::from_bits(scalar, 0);
                bytes[i] = array.bytes()?;
            }
        }
    }
    let mut at = |position: usize, offsets: [usize; MOST_OPERANDS]| {
        for ((value, bytes), offset) in values.iter_mut().zip(bytes).zip(offsets) {
            if !bytes.is_empty() {
                *value = Value::from_bytes(value.ty, bytes.get(offset * value.ty.size()..).unwrap_or(&[]));
            }
        }
        look(position, &values[..number])
    };
    // Without repetition, an element's position is that of its operands.
    if operands.iter().all(|operand| matches!(operand, Operand::Scalar(_)) || operand.shape() == shape) {
        stop::polled(0..count).all(|position| at(position, [position; MOST_OPERANDS]));
        return Ok(());
    }
    let own = |i: usize| operands.get(i).map_or(vec![0; shape.len()], |operand| strides(operand.shape(), shape));
    let mut walk = Walk::new(shape, [own(0), own(1), own(2)]);
    for position in stop::polled(0..count) {
        if !at(position, walk.offsets()) {
            break;
        }
        walk.advance();
    }
    Ok(())
}

/// The most operands of an operation.
const MOST_OPERANDS: usize = 3;

/// The code of the error of an integer division by zero, whose operator finds the divisor.
pub(crate) const ZERO: &str = "E0506";

pub(super) fn broken(what: &str) -> Problem {
    Problem::new("E0999", format!("internal error: {what}")).help("please report this as a bug of Clk")
}

/// Copies the elements of a view; `alone` says whether nobody else has the array that it looks at.
fn copy(view: &View, source: &Array, alone: bool, len: usize) -> Outcome<Storage> {
    let _place = view.site.counts().then(|| profile::standing_at(view.span));
    if let (Some(bytes), true) = (&view.streamed, is_for_device())
        && let Some(storage) = stream::bring(&view.site, source, bytes.clone())?
    {
        return Ok(storage);
    }
    let storage = source.data().computed();
    let far = storage.is_some_and(|storage| storage.remote().is_some());
    if let Some(bytes) =
        storage.and_then(Storage::here).filter(|_| !(far && view.site.device().is_remote() || view.site.counts()))
    {
        let new = AlignedBytes::unset(len);
        let mut copy = new.ok_or_else(|| no_memory(&Element::Scalar(view.scalar), &view.shape))?;
        let workers = view.site.control().workers;
        lattice(&view.from, &view.axes, &view.shape).copy_out(bytes, view.scalar.size(), &mut copy, workers);
        return Ok(Storage::of_bytes(copy));
    }
    let (plan, element) = Plan::of_view(view, source, alone)?;
    compute(&plan, element, (view.scalar, &view.shape), &view.site, len, false)
}

impl Work for View {
    fn run(&self, len: usize) -> Outcome<Storage> {
        match self.give() {
            Some(Ok(storage)) => Ok(storage),
            // It is held here and by the view, which may be read again if this does not end.
            Some(Err(source)) => copy(self, &source, Arc::strong_count(source.data()) == 2, len),
            None => Err(broken("a view that is copied twice")),
        }
    }

    fn settle(&self, len: usize) -> Outcome<()> {
        let Some(source) = self.source() else { return Ok(()) };
        let copied = copy(self, &source, false, len)?;
        self.release(copied);
        Ok(())
    }

    fn unsettled(&self) -> usize {
        self.source().map_or(0, |_| self.shape.iter().product::<usize>() * self.scalar.size())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Computes an array of this type and shape, which takes `len` bytes; `wait` says whether for faults is waited.
pub(super) fn compute(
    plan: &Plan,
    element: Source,
    (scalar, shape): (Scalar, &[usize]),
    site: &Site,
    len: usize,
    wait: bool,
) -> Outcome<Storage> {
    let mut storage = Storage::unset(len);
    let site = place(site, plan, len);
    fill(plan, element, (scalar, shape), site, (&mut storage, &[]), wait)?;
    Ok(storage)
}

/// Runs the kernel of a plan, which writes its result, or the part of an array with these extents, to a storage.
pub(super) fn fill(
    plan: &Plan,
    element: Source,
    (scalar, shape): (Scalar, &[usize]),
    site: &Site,
    into: (&mut Storage, &[u32]),
    wait: bool,
) -> Outcome<()> {
    let control = Control { wait, ..site.control().clone() };
    controlled(plan, element, (scalar, shape), site, into, &control)
}

/// As [`fill`], with a launch that is controlled in another way.
pub(super) fn controlled(
    plan: &Plan,
    element: Source,
    (scalar, shape): (Scalar, &[usize]),
    site: &Site,
    into: (&mut Storage, &[u32]),
    control: &Control,
) -> Outcome<()> {
    let mut key = plan.key();
    key.extend(match element {
        Source::Input(i) => [250, i as u8],
        Source::Step(i) => [251, i as u8],
        Source::Scalar(i) => [252, i as u8],
        Source::Constant(_) => return Err(broken("an expression that is a constant")),
    });
    let executable = site.kernel(key, || load(site, emit::kernel(plan, element, scalar), plan.guards))?;
    launch(plan, &*executable, into, control)?.map_err(|fault| match fault.kind {
        FaultKind::Device(DeviceError::NoHostMemory { .. }) => no_memory(&Element::Scalar(scalar), shape),
        _ => problem(&fault),
    })
}

/// Returns where a plan's result of so many bytes is computed.
pub(super) fn place<'s>(site: &'s Site, plan: &Plan, len: usize) -> &'s Site {
    nearest(site, plan.inputs.iter().map(|input| &input.array), len)
}

/// Returns where a result of so many bytes is computed from these arrays.
pub(super) fn nearest<'s, 'a>(site: &'s Site, mut operands: impl Iterator<Item = &'a Array>, len: usize) -> &'s Site {
    let far = |array: &Array| array.data().computed().is_some_and(|storage| storage.remote().is_some());
    match site.near() {
        Some(near) if len < WORTH_MOVING && !operands.any(far) => near,
        _ => site,
    }
}

/// Loads the kernel of a plan on a site's device; `guards` says whether its loads are guarded.
pub(super) fn load(site: &Site, kernel: Option<Module>, guards: bool) -> Outcome<Arc<dyn Executable>> {
    let module = kernel.ok_or_else(|| broken("an operation without a kernel"))?;
    let mut prepared = pass::prepare(module).map_err(|why| broken(&why))?;
    // A plan's kernels have their indices from its shapes. Guards would end loops early, which keeps loads from being in flight together.
    prepared.in_bounds = !guards;
    Ok(site.load(prepared))
}

/// Returns the inputs of a plan as arguments.
pub(super) fn inputs(plan: &Plan) -> Outcome<Vec<Arg<'_>>> {
    let mut args = Vec::with_capacity(plan.inputs.len() + plan.scalars.len() + 5);
    for (_, input) in plan.read() {
        if let Some(offset) = input.view {
            let storage = input.array.storage()?;
            args.push(Arg::Array { storage, shape: vec![(storage.len() / input.scalar.size().max(1)) as u32] });
            args.extend(steps(offset, &input.strides));
            let strides = input.picks.iter().map(|(_, stride)| *stride).filter(|stride| *stride != 1);
            args.extend(strides.map(|n| Arg::Value(vec![Value::of(n as i32)])));
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

/// Returns the arguments of a view.
fn steps<'a>(offset: usize, strides: &[isize]) -> Vec<Arg<'a>> {
    let strides = strides.iter().filter(|stride| !matches!(stride, 0 | 1)).copied();
    std::iter::once(offset as isize).chain(strides).map(|n| Arg::Value(vec![Value::of(n as i32)])).collect()
}

pub(super) fn extents(axes: &[usize]) -> Vec<u32> {
    axes.iter().map(|&n| n as u32).collect()
}

/// Launches the kernel of a plan. The outer error is that of an input that cannot be read.
fn launch(
    plan: &Plan,
    executable: &dyn Executable,
    (storage, shape): (&mut Storage, &[u32]),
    control: &Control,
) -> Outcome<Result<(), Box<Fault>>> {
    let mut args = inputs(plan)?;
    match &plan.part {
        None => args.push(Arg::ArrayMut { storage, shape: extents(&plan.axes) }),
        Some(part) => {
            args.push(Arg::ArrayMut { storage, shape: shape.to_vec() });
            args.extend(steps(part.offset, &part.strides));
        }
    }
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    let folded = emit::folded(plan.axes.len());
    args.extend(plan.axes.iter().take(folded).map(|&n| Arg::Value(vec![Value::of(n as i32)])));
    let mut space = [1; 3];
    let first = plan.axes.iter().take(folded.max(1)).try_fold(1usize, |all, &n| all.checked_mul(n));
    let Some(first) = first.filter(|&n| n <= MAX_EXTENT) else {
        let title = format!("an expression over the axes {} is too large for one launch", shape_text(&plan.axes));
        return Err(Problem::new("E0520", title).help("compute it in parts"));
    };
    let rest = plan.axes.iter().skip(folded.max(1)).copied();
    for (slot, extent) in space.iter_mut().zip(std::iter::once(first).chain(rest).take(AXES)) {
        *slot = extent as u32;
    }
    Ok(executable.launch(Extents::Threads(space), &mut args, control).map(drop))
}

/// Returns a fault as a problem.
pub(crate) fn problem(fault: &Fault) -> Problem {
    match &fault.kind {
        FaultKind::Interrupted => {
            stop::poll();
            Problem::new("E0599", "interrupted")
        }
        FaultKind::DivisionByZero { .. } => failed(Failure::DivisionByZero),
        FaultKind::Device(error) => error.clone().into(),
        _ => {
            let diagnostic = fault_diagnostic(fault);
            Problem {
                notes: diagnostic.notes,
                help: diagnostic.help,
                ..Problem::new(diagnostic.code, diagnostic.title)
            }
        }
    }
}
