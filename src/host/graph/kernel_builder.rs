//! Builds the DeviceIR kernel of a plan. It is a `threads` kernel over the plan's axes: each thread computes one
//! element, or one result of a reduction round.
//!
//! An array that is read in order is an array parameter; its axes are the plan's axes along which its index advances.
//! An array that is read through a view is a 1-d parameter, followed by the offset and by the strides that are not 1.
//! The same holds for a result that is written to a window of an array. The remaining parameters are the scalars. If
//! the plan has more axes than an index space, the outer axes share the first index, and their extents are parameters
//! too.

use crate::graph::node::ElementwiseOp;
use crate::graph::plan::{FusionPlan, OperandSource, PlanInput};
use clk_ir::build::{FunctionBuilder, IrForRange, build_module};
use clk_ir::def::{Access, BinOp, ElementLayout, ExprId, LaunchForm, MemId, Module, Ty, Unroll};
use clk_ir::typing::I32;
use clk_scalar::ops::UnaryOp;
use clk_scalar::{Scalar, ScalarValue};

/// Unroll factor of reduction loops if there are few threads: the number of loads in flight per thread.
pub(super) const UNROLL_FEW_THREADS: Unroll = Unroll::By(16);
/// The maximum number of axes of an index space.
pub(super) const MAX_AXES: usize = 3;

/// Returns the number of leading axes that share the first index; 0 if each axis has its own index.
pub(super) fn folded_axes(axes: usize) -> usize {
    if axes > MAX_AXES { axes - (MAX_AXES - 1) } else { 0 }
}

/// Builds the kernel of an expression with elements of this type; `None` if an operation is not supported in kernels.
pub(super) fn expression_kernel(plan: &FusionPlan, root: OperandSource, result: Scalar) -> Option<Module> {
    let mut b = FunctionBuilder::new("expression");
    let mut inputs = declare_inputs(&mut b, plan);
    let layout = ElementLayout::plain(Ty::Scalar(result));
    let result = match &plan.output_window {
        None => {
            let access = if plan.donor.is_some() { Access::InOut } else { Access::Out };
            let (memory, axes) = (b.array("result", access, layout, plan.axes.len()), (0..plan.axes.len()).collect());
            KernelArray::in_order(memory, axes)
        }
        Some(part) => {
            let memory = b.array("result", Access::InOut, layout, 1);
            let view = Some(ViewParams::new(&mut b, "result", &part.strides));
            KernelArray { view, ..KernelArray::in_order(memory, moving_axes(&part.strides)) }
        }
    };
    if let Some(donor) = plan.donor {
        inputs.insert(donor, KernelArray::in_order(result.memory, (0..plan.axes.len()).collect()));
    }
    let scalars = declare_scalars(&mut b, &plan.scalars);
    let indices = emit_indices(&mut b, plan.axes.len());
    let value = emit_element(&mut b, plan, &inputs, &scalars, &indices, root)?;
    let at = result.position_indices(&mut b, &indices, &[]);
    b.store(result.memory, &at, value);
    Some(build_module(Default::default(), b, LaunchForm::Threads { rank: plan.axes.len().min(MAX_AXES) as u8 }))
}

/// An array parameter of a kernel.
struct KernelArray {
    memory: MemId,
    /// The plan's axes along which the array's index advances.
    axes: Vec<usize>,
    view: Option<ViewParams>,
    /// For gathers, the computed positions that are added to the index, and their strides; `None` for a stride of 1.
    gathers: Vec<(OperandSource, Option<ExprId>)>,
}

/// The scalar parameters that describe a view.
struct ViewParams {
    offset: ExprId,
    /// One stride for each axis along which the view advances; `None` for a stride of 1.
    strides: Vec<Option<ExprId>>,
}

impl ViewParams {
    fn new(b: &mut FunctionBuilder, name: &str, strides: &[isize]) -> ViewParams {
        let offset = b.value(format!("{name}_first"), I32);
        let stride = |(k, stride): (usize, &isize)| (*stride != 1).then(|| b.value(format!("{name}_step{k}"), I32));
        let strides = strides.iter().filter(|stride| **stride != 0).enumerate().map(stride).collect();
        ViewParams { offset, strides }
    }
}

impl KernelArray {
    fn in_order(memory: MemId, axes: Vec<usize>) -> KernelArray {
        KernelArray { memory, axes, view: None, gathers: Vec::new() }
    }

    /// Returns the array's indices at the element with these indices along the plan's axes. `picked` are the computed
    /// positions of gathers.
    fn position_indices(&self, b: &mut FunctionBuilder, indices: &[ExprId], picked: &[ExprId]) -> Vec<ExprId> {
        let mut own: Vec<ExprId> = self.axes.iter().map(|&axis| indices[axis]).collect();
        let Some(view) = &self.view else {
            if own.is_empty() {
                own.push(b.i32(0));
            }
            return own;
        };
        let mut position = view.offset;
        let picked = picked.iter().copied().zip(self.gathers.iter().map(|(_, stride)| stride));
        for (index, stride) in own.into_iter().zip(&view.strides).chain(picked) {
            // Only arrays whose element indices fit 32 bits have views.
            let index = b.convert(index, Scalar::I32);
            let distance = stride.map_or(index, |stride| b.binary(BinOp::Mul, index, stride));
            position = b.binary(BinOp::Add, position, distance);
        }
        vec![position]
    }
}

fn moving_axes(strides: &[isize]) -> Vec<usize> {
    (0..strides.len()).filter(|&k| strides[k] != 0).collect()
}

fn declare_inputs(b: &mut FunctionBuilder, plan: &FusionPlan) -> Vec<KernelArray> {
    let input = |(i, input): (usize, &PlanInput)| {
        let (axes, name, layout) =
            (moving_axes(&input.strides), format!("x{i}"), ElementLayout::plain(Ty::Scalar(input.scalar)));
        match input.offset {
            None => KernelArray::in_order(b.array(name, Access::In, layout, axes.len().max(1)), axes),
            Some(_) => {
                let memory = b.array(name.clone(), Access::In, layout, 1);
                let view = Some(ViewParams::new(b, &name, &input.strides));
                let pick = |(k, (source, stride)): (usize, &(OperandSource, usize))| {
                    (*source, (*stride != 1).then(|| b.value(format!("{name}_pick{k}"), I32)))
                };
                let picks = input.gathers.iter().enumerate().map(pick).collect();
                KernelArray { memory, axes, view, gathers: picks }
            }
        }
    };
    plan.parameter_inputs().map(input).collect()
}

/// Declares a kernel parameter for each scalar.
pub(super) fn declare_scalars(b: &mut FunctionBuilder, values: &[ScalarValue]) -> Vec<ExprId> {
    let scalars = values.iter().enumerate();
    scalars.map(|(i, value)| b.value(format!("s{i}"), Ty::Scalar(value.ty))).collect()
}

/// Emits the computation of the element at these indices.
fn emit_element(
    b: &mut FunctionBuilder,
    plan: &FusionPlan,
    inputs: &[KernelArray],
    scalars: &[ExprId],
    indices: &[ExprId],
    root: OperandSource,
) -> Option<ExprId> {
    let loaded = vec![None; inputs.len()];
    let mut values = ElementValues { inputs, scalars, indices, loaded, steps: Vec::with_capacity(plan.steps.len()) };
    for step in &plan.steps {
        let operands: Option<Vec<ExprId>> = step.sources.iter().map(|&source| values.get(b, source)).collect();
        values.steps.push(emit_op(b, step.op, &operands?)?);
    }
    values.get(b, root)
}

/// The values that the kernel has already computed for the current element.
struct ElementValues<'k> {
    inputs: &'k [KernelArray],
    scalars: &'k [ExprId],
    indices: &'k [ExprId],
    loaded: Vec<Option<ExprId>>,
    steps: Vec<ExprId>,
}

impl ElementValues<'_> {
    fn get(&mut self, b: &mut FunctionBuilder, source: OperandSource) -> Option<ExprId> {
        Some(match source {
            OperandSource::Scalar(i) => *self.scalars.get(i)?,
            OperandSource::Step(i) => *self.steps.get(i)?,
            OperandSource::Constant(value) => b.constant(value),
            OperandSource::Input(i) => match *self.loaded.get(i)? {
                Some(value) => value,
                None => {
                    let input = self.inputs.get(i)?;
                    // The recursion ends, because positions only depend on inputs and steps that precede this input in
                    // the plan.
                    let picked: Option<Vec<ExprId>> =
                        input.gathers.iter().map(|(source, _)| self.get(b, *source)).collect();
                    let at = input.position_indices(b, self.indices, &picked?);
                    let value = b.load(input.memory, &at);
                    self.loaded[i] = Some(value);
                    value
                }
            },
        })
    }
}

/// Emits a loop over the indices `first + k * step` for `k` in `1..count`. If `len` is given, also emits the index for
/// `k = count` after the loop, guarded by a check that it is less than `len`. `visit` emits the code for `k` and an
/// index.
pub(super) fn emit_strided_loop(
    b: &mut FunctionBuilder,
    first: ExprId,
    step: ExprId,
    count: ExprId,
    len: Option<ExprId>,
    unroll: Unroll,
    mut visit: impl FnMut(&mut FunctionBuilder, ExprId, ExprId) -> Option<()>,
) -> Option<()> {
    let mut complete = Some(());
    let one = b.constant(ScalarValue::of(1i32).to_type(b.ty(first).scalar()));
    let (label, local) = (b.label(), b.local("k", b.ty(first)));
    let body = b.in_block(|b| {
        let k = b.read(local);
        let distance = b.binary(BinOp::Mul, k, step);
        let at = b.binary(BinOp::Add, first, distance);
        complete = visit(b, k, at);
    });
    b.for_(label, local, IrForRange { start: one, end: count, step: one, inclusive: false }, unroll, body);
    complete?;
    let Some(len) = len else { return Some(()) };
    let distance = b.binary(BinOp::Mul, count, step);
    let last = b.binary(BinOp::Add, first, distance);
    let more = b.binary(BinOp::Lt, last, len);
    b.if_then(more, |b| complete = visit(b, count, last));
    complete
}

/// One round of a reduction. The last round also converts the results to their final type.
#[derive(Clone, Copy)]
pub(super) struct ReductionRound {
    pub element: OperandSource,
    /// The axis of the plan along which elements are reduced.
    pub axis: usize,
    /// The type of indices along the axis.
    pub index: Scalar,
    pub combine: ElementwiseOp,
    /// The type in which elements are accumulated.
    pub accumulator: Scalar,
    /// Whether there are too few threads for a GPU to hide the latency of their loads.
    pub few_threads: bool,
    /// Whether the result is divided by an additional parameter of the accumulator type.
    pub divide: bool,
    pub result: Scalar,
}

/// Builds the kernel of a reduction round with `m` results. The thread with index `j` along the axis combines the
/// elements `j`, `j + m`, `j + 2m`, …. The last parameters are `m`, the number of elements that every thread combines,
/// and the total number of elements along the axis.
pub(super) fn reduction_kernel(plan: &FusionPlan, round: &ReductionRound) -> Option<Module> {
    let mut b = FunctionBuilder::new("reduction");
    let inputs = declare_inputs(&mut b, plan);
    let result = b.array("result", Access::Out, ElementLayout::plain(Ty::Scalar(round.result)), plan.axes.len());
    let scalars = declare_scalars(&mut b, &plan.scalars);
    let [threads, each, len] = ["threads", "each", "len"].map(|name| b.value(name, Ty::Scalar(round.index)));
    let divisor = round.divide.then(|| b.value("divisor", Ty::Scalar(round.accumulator)));
    let indices: Vec<ExprId> = (0..plan.axes.len()).map(|k| b.index(k as u8)).collect();
    let own = b.convert(*indices.get(round.axis)?, round.index);
    let read = |b: &mut FunctionBuilder, at: ExprId| {
        let mut indices = indices.clone();
        indices[round.axis] = at;
        let value = emit_element(b, plan, &inputs, &scalars, &indices, round.element)?;
        Some(b.convert(value, round.accumulator))
    };
    let first = read(&mut b, own)?;
    let total = b.variable("total", first);
    let unroll = if round.few_threads { UNROLL_FEW_THREADS } else { Unroll::Auto };
    emit_strided_loop(&mut b, own, threads, each, Some(len), unroll, |b, _, at| {
        let (value, before) = (read(b, at)?, b.read(total));
        let value = emit_op(b, round.combine, &[before, value])?;
        b.write(total, value);
        Some(())
    })?;
    let mut value = b.read(total);
    if let Some(divisor) = divisor {
        value = b.binary(BinOp::Div, value, divisor);
    }
    let value = b.convert(value, round.result);
    b.store(result, &indices, value);
    Some(build_module(Default::default(), b, LaunchForm::Threads { rank: plan.axes.len() as u8 }))
}

/// One round of an arg-reduction along an axis.
#[derive(Clone, Copy)]
pub(super) struct ArgReduceRound {
    pub element: OperandSource,
    /// After the first round, the positions that earlier rounds found.
    pub position: Option<OperandSource>,
    pub axis: usize,
    pub index: Scalar,
    pub scalar: Scalar,
    pub largest: bool,
}

/// Builds the kernel of an arg-reduction round. The assignment of elements to threads and the last parameters are the
/// same as in [`reduction_kernel`]. It has two results: the best elements and their positions.
pub(super) fn arg_reduce_kernel(plan: &FusionPlan, round: &ArgReduceRound) -> Option<Module> {
    let mut b = FunctionBuilder::new("position");
    let inputs = declare_inputs(&mut b, plan);
    let result = |b: &mut FunctionBuilder, name: &str, scalar| {
        b.array(name, Access::Out, ElementLayout::plain(Ty::Scalar(scalar)), plan.axes.len())
    };
    let (elements, positions) = (result(&mut b, "elements", round.scalar), result(&mut b, "positions", Scalar::I32));
    let scalars = declare_scalars(&mut b, &plan.scalars);
    let [threads, each, len] = ["threads", "each", "len"].map(|name| b.value(name, Ty::Scalar(round.index)));
    let indices: Vec<ExprId> = (0..plan.axes.len()).map(|k| b.index(k as u8)).collect();
    let own = b.convert(*indices.get(round.axis)?, round.index);
    let read = |b: &mut FunctionBuilder, source: OperandSource, at: ExprId| {
        let mut indices = indices.clone();
        indices[round.axis] = at;
        emit_element(b, plan, &inputs, &scalars, &indices, source)
    };
    let first = read(&mut b, round.element, own)?;
    let place = match round.position {
        Some(source) => read(&mut b, source, own)?,
        None => b.constant(ScalarValue::of(0i32).to_type(round.index)),
    };
    let (best_value, place) = (b.variable("held", first), b.variable("place", place));
    emit_strided_loop(&mut b, own, threads, each, Some(len), Unroll::Auto, |b, number, at| {
        let value = read(b, round.element, at)?;
        let (so_far, best_place) = (b.read(best_value), b.read(place));
        let (is_replaced, position) = match round.position {
            Some(source) => {
                let position = read(b, source, at)?;
                (emit_beats(b, round, value, position, so_far, best_place), position)
            }
            None => (emit_beats_earlier(b, round, value, so_far), number),
        };
        let (value, position) = (b.select(is_replaced, value, so_far), b.select(is_replaced, position, best_place));
        b.write(best_value, value);
        b.write(place, position);
        Some(())
    })?;
    let (best_value, mut place) = (b.read(best_value), b.read(place));
    if round.position.is_none() {
        let distance = b.binary(BinOp::Mul, place, threads);
        let at = b.binary(BinOp::Add, own, distance);
        place = b.convert(at, Scalar::I32);
    }
    b.store(elements, &indices, best_value);
    b.store(positions, &indices, place);
    Some(build_module(Default::default(), b, LaunchForm::Threads { rank: plan.axes.len() as u8 }))
}

/// Emits the condition that an element replaces the best one so far: it is better, or the best one so far is NaN. The
/// best one so far must have an earlier position.
fn emit_beats_earlier(b: &mut FunctionBuilder, round: &ArgReduceRound, value: ExprId, so_far: ExprId) -> ExprId {
    if !round.scalar.is_float() {
        return b.binary(if round.largest { BinOp::Gt } else { BinOp::Lt }, value, so_far);
    }
    let order = if round.largest { BinOp::Le } else { BinOp::Ge };
    let (no_better, number) = (b.binary(order, value, so_far), b.binary(BinOp::Eq, value, value));
    let other = b.unary(UnaryOp::Not, no_better);
    b.binary(BinOp::And, other, number)
}

/// Like [`emit_beats_earlier`], but either of the two elements may have the earlier position.
fn emit_beats(
    b: &mut FunctionBuilder,
    round: &ArgReduceRound,
    value: ExprId,
    position: ExprId,
    best_value: ExprId,
    best_position: ExprId,
) -> ExprId {
    let is_better = b.binary(if round.largest { BinOp::Gt } else { BinOp::Lt }, value, best_value);
    let (alike, earlier) = (b.binary(BinOp::Eq, value, best_value), b.binary(BinOp::Lt, position, best_position));
    let first_of_both = b.binary(BinOp::And, alike, earlier);
    let is_replaced = b.binary(BinOp::Or, is_better, first_of_both);
    if !round.scalar.is_float() {
        return is_replaced;
    }
    let (none, number) = (b.binary(BinOp::Ne, best_value, best_value), b.binary(BinOp::Eq, value, value));
    // A number replaces a NaN. If both are NaN, the one with the smaller position wins.
    let any = b.binary(BinOp::Or, number, earlier);
    let replaces = b.binary(BinOp::And, none, any);
    b.binary(BinOp::Or, is_replaced, replaces)
}

/// Emits the index along each axis.
fn emit_indices(b: &mut FunctionBuilder, axes: usize) -> Vec<ExprId> {
    let folded_count = folded_axes(axes);
    if folded_count == 0 {
        return (0..axes).map(|k| b.index(k as u8)).collect();
    }
    let extents: Vec<ExprId> = (0..folded_count).map(|k| b.value(format!("n{k}"), I32)).collect();
    let mut rest = b.index(0);
    let mut indices = Vec::with_capacity(axes);
    for (k, &extent) in extents.iter().enumerate().rev() {
        indices.push(if k == 0 { rest } else { b.binary(BinOp::Rem, rest, extent) });
        if k > 0 {
            rest = b.binary(BinOp::Div, rest, extent);
        }
    }
    indices.reverse();
    indices.extend((1..MAX_AXES).map(|k| b.index(k as u8)));
    indices
}

pub(super) fn emit_op(b: &mut FunctionBuilder, op: ElementwiseOp, operands: &[ExprId]) -> Option<ExprId> {
    Some(match (op, operands) {
        (ElementwiseOp::Unary(op), [x]) => b.unary(op, *x),
        (ElementwiseOp::Binary(op), [x, y]) => b.binary(BinOp::strict(op)?, *x, *y),
        (ElementwiseOp::Math(function), operands) => b.math(function, operands),
        (ElementwiseOp::Convert(to), [x]) => b.convert(*x, to),
        (ElementwiseOp::Select, [cond, then, other]) => b.select(*cond, *then, *other),
        _ => return None,
    })
}
