//! The kernel of a plan: a `threads` kernel over the plan's axes, whose threads compute one element each, or one round of a
//! reduction.
//!
//! An array that is read in order is a parameter with the axes along which it advances. One that is read as a view is a parameter
//! with a single axis, followed by the position of the first element and by the strides that are not 1, also those of positions that
//! the kernel computes. So is the result, if it goes into a part of an array.
//!
//! The parameters of an expression are the inputs but one that the result is written over, the result, the scalars and, if the plan has more axes than an index space, the extents of the
//! outer ones, which then share the first index.

use crate::host::graph::node::Op;
use crate::host::graph::plan::{Input, Plan, Source};
use crate::ir::build::{FunctionBuilder, Range, module};
use crate::ir::def::{Access, BinOp, ExprId, Form, Layout, MemId, Module, Ty, Unroll};
use crate::ir::typing::I32;
use crate::lang::ops::UnaryOp;
use crate::lang::scalar::{Scalar, Value};

/// The loads of a thread that are in flight together where threads are few.
pub(super) const FEW: Unroll = Unroll::By(16);
/// The most axes of an index space.
pub(super) const AXES: usize = 3;

/// Returns the number of leading axes that share the first index; 0 if all axes have one of their own.
pub(super) fn folded(axes: usize) -> usize {
    if axes > AXES { axes - (AXES - 1) } else { 0 }
}

/// Builds the kernel of an expression with elements of this type; `None` if an operation has no form in kernels.
pub(super) fn kernel(plan: &Plan, wanted: Source, result: Scalar) -> Option<Module> {
    let mut b = FunctionBuilder::new("expression");
    let mut inputs = inputs(&mut b, plan);
    let layout = Layout::plain(Ty::Scalar(result));
    let result = match &plan.part {
        None => {
            let access = if plan.donor.is_some() { Access::InOut } else { Access::Out };
            let (memory, axes) = (b.array("result", access, layout, plan.axes.len()), (0..plan.axes.len()).collect());
            Memory::in_order(memory, axes)
        }
        Some(part) => {
            let memory = b.array("result", Access::InOut, layout, 1);
            let view = Some(Steps::new(&mut b, "result", &part.strides));
            Memory { view, ..Memory::in_order(memory, advancing(&part.strides)) }
        }
    };
    if let Some(donor) = plan.donor {
        inputs.insert(donor, Memory::in_order(result.memory, (0..plan.axes.len()).collect()));
    }
    let scalars = scalars(&mut b, &plan.scalars);
    let indices = indices(&mut b, plan.axes.len());
    let value = element(&mut b, plan, (&inputs, &scalars), &indices, wanted)?;
    let at = result.at(&mut b, &indices, &[]);
    b.store(result.memory, &at, value);
    Some(module(Default::default(), b, Form::Threads { rank: plan.axes.len().min(AXES) as u8 }))
}

/// An array of a kernel.
struct Memory {
    memory: MemId,
    /// The axes along which it advances.
    axes: Vec<usize>,
    view: Option<Steps>,
    /// Where positions that are added come from, with their strides; `None` for a stride of 1.
    picks: Vec<(Source, Option<ExprId>)>,
}

/// The parameters of a view.
struct Steps {
    offset: ExprId,
    /// Per axis along which it advances; `None` for a stride of 1.
    strides: Vec<Option<ExprId>>,
}

impl Steps {
    fn new(b: &mut FunctionBuilder, name: &str, strides: &[isize]) -> Steps {
        let offset = b.value(format!("{name}_first"), I32);
        let stride = |(k, stride): (usize, &isize)| (*stride != 1).then(|| b.value(format!("{name}_step{k}"), I32));
        let strides = strides.iter().filter(|stride| **stride != 0).enumerate().map(stride).collect();
        Steps { offset, strides }
    }
}

impl Memory {
    fn in_order(memory: MemId, axes: Vec<usize>) -> Memory {
        Memory { memory, axes, view: None, picks: Vec::new() }
    }

    /// Returns the indices of the array for those of the axes, and for these positions.
    fn at(&self, b: &mut FunctionBuilder, indices: &[ExprId], picked: &[ExprId]) -> Vec<ExprId> {
        let mut own: Vec<ExprId> = self.axes.iter().map(|&axis| indices[axis]).collect();
        let Some(view) = &self.view else {
            if own.is_empty() {
                own.push(b.i32(0));
            }
            return own;
        };
        let mut position = view.offset;
        let picked = picked.iter().copied().zip(self.picks.iter().map(|(_, stride)| stride));
        for (index, stride) in own.into_iter().zip(&view.strides).chain(picked) {
            // A view lies in an array whose positions have 32 bits.
            let index = b.convert(index, Scalar::I32);
            let ahead = stride.map_or(index, |stride| b.binary(BinOp::Mul, index, stride));
            position = b.binary(BinOp::Add, position, ahead);
        }
        vec![position]
    }
}

fn advancing(strides: &[isize]) -> Vec<usize> {
    (0..strides.len()).filter(|&k| strides[k] != 0).collect()
}

fn inputs(b: &mut FunctionBuilder, plan: &Plan) -> Vec<Memory> {
    let input = |(i, input): (usize, &Input)| {
        let (axes, name, layout) =
            (advancing(&input.strides), format!("x{i}"), Layout::plain(Ty::Scalar(input.scalar)));
        match input.view {
            None => Memory::in_order(b.array(name, Access::In, layout, axes.len().max(1)), axes),
            Some(_) => {
                let memory = b.array(name.clone(), Access::In, layout, 1);
                let view = Some(Steps::new(b, &name, &input.strides));
                let pick = |(k, (source, stride)): (usize, &(Source, usize))| {
                    (*source, (*stride != 1).then(|| b.value(format!("{name}_pick{k}"), I32)))
                };
                let picks = input.picks.iter().enumerate().map(pick).collect();
                Memory { memory, axes, view, picks }
            }
        }
    };
    plan.read().map(input).collect()
}

/// Adds the parameters of scalars.
pub(super) fn scalars(b: &mut FunctionBuilder, values: &[Value]) -> Vec<ExprId> {
    let scalars = values.iter().enumerate();
    scalars.map(|(i, value)| b.value(format!("s{i}"), Ty::Scalar(value.ty))).collect()
}

/// Computes the element at these indices.
fn element(
    b: &mut FunctionBuilder,
    plan: &Plan,
    (inputs, scalars): (&[Memory], &[ExprId]),
    indices: &[ExprId],
    wanted: Source,
) -> Option<ExprId> {
    let loaded = vec![None; inputs.len()];
    let mut values = Values { inputs, scalars, indices, loaded, steps: Vec::with_capacity(plan.steps.len()) };
    for step in &plan.steps {
        let operands: Option<Vec<ExprId>> = step.sources.iter().map(|&source| values.get(b, source)).collect();
        values.steps.push(operation(b, step.op, &operands?)?);
    }
    values.get(b, wanted)
}

/// What a kernel has computed for an element.
struct Values<'k> {
    inputs: &'k [Memory],
    scalars: &'k [ExprId],
    indices: &'k [ExprId],
    loaded: Vec<Option<ExprId>>,
    steps: Vec<ExprId>,
}

impl Values<'_> {
    fn get(&mut self, b: &mut FunctionBuilder, source: Source) -> Option<ExprId> {
        Some(match source {
            Source::Scalar(i) => *self.scalars.get(i)?,
            Source::Step(i) => *self.steps.get(i)?,
            Source::Constant(value) => b.constant(value),
            Source::Input(i) => match *self.loaded.get(i)? {
                Some(value) => value,
                None => {
                    let input = self.inputs.get(i)?;
                    // Positions come from inputs and steps that were planned before the input.
                    let picked: Option<Vec<ExprId>> =
                        input.picks.iter().map(|(source, _)| self.get(b, *source)).collect();
                    let at = input.at(b, self.indices, &picked?);
                    let value = b.load(input.memory, &at);
                    self.loaded[i] = Some(value);
                    value
                }
            },
        })
    }
}

/// Visits the elements `own + step`, `own + 2·step`, … below `len`, of which there are `each - 1`, or one more if there may be, with their
/// numbers.
pub(super) fn strided(
    b: &mut FunctionBuilder,
    (own, step): (ExprId, ExprId),
    (each, len): (ExprId, Option<ExprId>),
    unroll: Unroll,
    mut visit: impl FnMut(&mut FunctionBuilder, ExprId, ExprId) -> Option<()>,
) -> Option<()> {
    let mut complete = Some(());
    let one = b.constant(Value::of(1i32).to_type(b.ty(own).scalar()));
    let (label, local) = (b.label(), b.local("k", b.ty(own)));
    let body = b.in_block(|b| {
        let k = b.read(local);
        let ahead = b.binary(BinOp::Mul, k, step);
        let at = b.binary(BinOp::Add, own, ahead);
        complete = visit(b, k, at);
    });
    b.for_(label, local, Range { start: one, end: each, step: one, inclusive: false }, unroll, body);
    complete?;
    let Some(len) = len else { return Some(()) };
    let ahead = b.binary(BinOp::Mul, each, step);
    let last = b.binary(BinOp::Add, own, ahead);
    let more = b.binary(BinOp::Lt, last, len);
    b.if_then(more, |b| complete = visit(b, each, last));
    complete
}

/// One round of a reduction: how elements are combined, and what becomes of the result of the last round.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub element: Source,
    /// The axis of the plan along which elements are combined.
    pub axis: usize,
    /// The type of indices along the axis.
    pub index: Scalar,
    pub combine: Op,
    /// The type in which they are combined.
    pub wide: Scalar,
    /// Whether threads are too few for a GPU to hide the time of their loads.
    pub few: bool,
    /// Divides by a last parameter of this type.
    pub divide: bool,
    pub result: Scalar,
}

/// Builds the kernel of a round: the thread with the index `j` along the axis combines the elements `j`, `j + m`, `j + 2m`, … of the
/// axis. Its last parameters are `m`, the number of elements that all threads have, and the number of all elements.
pub(super) fn round(plan: &Plan, round: &Round) -> Option<Module> {
    let mut b = FunctionBuilder::new("reduction");
    let inputs = inputs(&mut b, plan);
    let result = b.array("result", Access::Out, Layout::plain(Ty::Scalar(round.result)), plan.axes.len());
    let scalars = scalars(&mut b, &plan.scalars);
    let [threads, each, len] = ["threads", "each", "len"].map(|name| b.value(name, Ty::Scalar(round.index)));
    let divisor = round.divide.then(|| b.value("divisor", Ty::Scalar(round.wide)));
    let indices: Vec<ExprId> = (0..plan.axes.len()).map(|k| b.index(k as u8)).collect();
    let own = b.convert(*indices.get(round.axis)?, round.index);
    let read = |b: &mut FunctionBuilder, at: ExprId| {
        let mut indices = indices.clone();
        indices[round.axis] = at;
        let value = element(b, plan, (&inputs, &scalars), &indices, round.element)?;
        Some(b.convert(value, round.wide))
    };
    let first = read(&mut b, own)?;
    let total = b.variable("total", first);
    let unroll = if round.few { FEW } else { Unroll::Auto };
    strided(&mut b, (own, threads), (each, Some(len)), unroll, |b, _, at| {
        let (value, before) = (read(b, at)?, b.read(total));
        let value = operation(b, round.combine, &[before, value])?;
        b.write(total, value);
        Some(())
    })?;
    let mut value = b.read(total);
    if let Some(divisor) = divisor {
        value = b.binary(BinOp::Div, value, divisor);
    }
    let value = b.convert(value, round.result);
    b.store(result, &indices, value);
    Some(module(Default::default(), b, Form::Threads { rank: plan.axes.len() as u8 }))
}

/// One round of a search for the best elements along an axis, and their positions.
#[derive(Clone, Copy)]
pub(super) struct Best {
    pub element: Source,
    /// The positions of results of earlier rounds.
    pub position: Option<Source>,
    pub axis: usize,
    pub index: Scalar,
    pub scalar: Scalar,
    pub largest: bool,
}

/// Builds the kernel of such a round, whose threads and last parameters are those of [`round`]; it has two results.
pub(super) fn best(plan: &Plan, round: &Best) -> Option<Module> {
    let mut b = FunctionBuilder::new("position");
    let inputs = inputs(&mut b, plan);
    let result = |b: &mut FunctionBuilder, name: &str, scalar| {
        b.array(name, Access::Out, Layout::plain(Ty::Scalar(scalar)), plan.axes.len())
    };
    let (elements, positions) = (result(&mut b, "elements", round.scalar), result(&mut b, "positions", Scalar::I32));
    let scalars = scalars(&mut b, &plan.scalars);
    let [threads, each, len] = ["threads", "each", "len"].map(|name| b.value(name, Ty::Scalar(round.index)));
    let indices: Vec<ExprId> = (0..plan.axes.len()).map(|k| b.index(k as u8)).collect();
    let own = b.convert(*indices.get(round.axis)?, round.index);
    let read = |b: &mut FunctionBuilder, source: Source, at: ExprId| {
        let mut indices = indices.clone();
        indices[round.axis] = at;
        element(b, plan, (&inputs, &scalars), &indices, source)
    };
    let first = read(&mut b, round.element, own)?;
    let place = match round.position {
        Some(source) => read(&mut b, source, own)?,
        None => b.constant(Value::of(0i32).to_type(round.index)),
    };
    let (held, place) = (b.variable("held", first), b.variable("place", place));
    strided(&mut b, (own, threads), (each, Some(len)), Unroll::Auto, |b, number, at| {
        let value = read(b, round.element, at)?;
        let (so_far, its) = (b.read(held), b.read(place));
        let (takes, position) = match round.position {
            Some(source) => {
                let position = read(b, source, at)?;
                (is_better(b, round, (value, position), (so_far, its)), position)
            }
            None => (is_later_better(b, round, value, so_far), number),
        };
        let (value, position) = (b.select(takes, value, so_far), b.select(takes, position, its));
        b.write(held, value);
        b.write(place, position);
        Some(())
    })?;
    let (held, mut place) = (b.read(held), b.read(place));
    if round.position.is_none() {
        let ahead = b.binary(BinOp::Mul, place, threads);
        let at = b.binary(BinOp::Add, own, ahead);
        place = b.convert(at, Scalar::I32);
    }
    b.store(elements, &indices, held);
    b.store(positions, &indices, place);
    Some(module(Default::default(), b, Form::Threads { rank: plan.axes.len() as u8 }))
}

/// Whether an element is taken in place of one at an earlier position: a number in place of a NaN, or a better one.
fn is_later_better(b: &mut FunctionBuilder, round: &Best, value: ExprId, so_far: ExprId) -> ExprId {
    if !round.scalar.is_float() {
        return b.binary(if round.largest { BinOp::Gt } else { BinOp::Lt }, value, so_far);
    }
    let order = if round.largest { BinOp::Le } else { BinOp::Ge };
    let (no_better, number) = (b.binary(order, value, so_far), b.binary(BinOp::Eq, value, value));
    let other = b.unary(UnaryOp::Not, no_better);
    b.binary(BinOp::And, other, number)
}

/// Whether an element with its position is taken in place of another, whichever comes first.
fn is_better(
    b: &mut FunctionBuilder,
    round: &Best,
    (value, position): (ExprId, ExprId),
    (so_far, its): (ExprId, ExprId),
) -> ExprId {
    let is_better = b.binary(if round.largest { BinOp::Gt } else { BinOp::Lt }, value, so_far);
    let (alike, earlier) = (b.binary(BinOp::Eq, value, so_far), b.binary(BinOp::Lt, position, its));
    let first_of_both = b.binary(BinOp::And, alike, earlier);
    let takes = b.binary(BinOp::Or, is_better, first_of_both);
    if !round.scalar.is_float() {
        return takes;
    }
    let (none, number) = (b.binary(BinOp::Ne, so_far, so_far), b.binary(BinOp::Eq, value, value));
    // A number is better than none, and of two that are none the first is taken.
    let any = b.binary(BinOp::Or, number, earlier);
    let replaces = b.binary(BinOp::And, none, any);
    b.binary(BinOp::Or, takes, replaces)
}

/// Returns the index along each axis.
fn indices(b: &mut FunctionBuilder, axes: usize) -> Vec<ExprId> {
    let folded = folded(axes);
    if folded == 0 {
        return (0..axes).map(|k| b.index(k as u8)).collect();
    }
    let extents: Vec<ExprId> = (0..folded).map(|k| b.value(format!("n{k}"), I32)).collect();
    let mut rest = b.index(0);
    let mut indices = Vec::with_capacity(axes);
    for (k, &extent) in extents.iter().enumerate().rev() {
        indices.push(if k == 0 { rest } else { b.binary(BinOp::Rem, rest, extent) });
        if k > 0 {
            rest = b.binary(BinOp::Div, rest, extent);
        }
    }
    indices.reverse();
    indices.extend((1..AXES).map(|k| b.index(k as u8)));
    indices
}

pub(super) fn operation(b: &mut FunctionBuilder, op: Op, operands: &[ExprId]) -> Option<ExprId> {
    Some(match (op, operands) {
        (Op::Unary(op), [x]) => b.unary(op, *x),
        (Op::Binary(op), [x, y]) => b.binary(BinOp::strict(op)?, *x, *y),
        (Op::Math(function), operands) => b.math(function, operands),
        (Op::Convert(to), [x]) => b.convert(*x, to),
        (Op::Select, [cond, then, other]) => b.select(*cond, *then, *other),
        _ => return None,
    })
}
