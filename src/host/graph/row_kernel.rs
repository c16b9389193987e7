//! Builds the row-wise kernel of an expression with reductions of rows, from the plan of
//! [`row_planner`](crate::graph::row_planner).
//!
//! The parameters are the inputs, the result, the scalars, the number of rows, the length of a row, the number of
//! results of the first reduction round, and the minimum number of elements that each of these results combines.
//! Threads beyond the last row recompute the last row without storing it, so that all threads reach all barriers.

use crate::graph::kernel_builder::{UNROLL_FEW_THREADS, declare_scalars, emit_op, emit_strided_loop};
use crate::graph::node::ReductionOp;
use crate::graph::plan::OperandSource;
use crate::graph::row_plan::{MAX_ROW_LEN, MAX_ROWS, RowBlockShape, RowOp, RowPlan, RowVariance, TERMS_PER_RESULT};
use clk_ir::build::{FunctionBuilder, IrForRange, build_module};
use clk_ir::def::{
    Access, Axis, BinOp, BuiltinIndex, ElementLayout, ExprId, Extent, LaunchForm, LocalId, MemId, MemorySpace, Module,
    Ty, Unroll,
};
use clk_ir::typing::I32;
use clk_scalar::Scalar;
use clk_scalar::ops::{BarrierKind, MathFn};

/// Builds the kernel; `None` if an operation is not supported in kernels.
pub(super) fn row_kernel(plan: &RowPlan, division: RowBlockShape, result: Scalar) -> Option<Module> {
    let mut b = FunctionBuilder::new("rows");
    let rank = |spread: RowVariance| if spread == RowVariance::Element { 2 } else { 1 };
    let inputs = plan.inputs.iter().enumerate().map(|(i, input)| {
        b.array(format!("x{i}"), Access::In, ElementLayout::plain(Ty::Scalar(input.scalar)), rank(input.variance))
    });
    let inputs: Vec<MemId> = inputs.collect();
    let of_result = plan.steps.last()?.variance;
    let result = b.array("result", Access::Out, ElementLayout::plain(Ty::Scalar(result)), rank(of_result));
    let scalars = declare_scalars(&mut b, &plan.scalars);
    let sizes = [("rows", MAX_ROWS), ("len", MAX_ROW_LEN), ("results", division.results), ("each", TERMS_PER_RESULT)];
    let [rows, len, results, each] = sizes.map(|(name, most)| {
        let size = b.value(name, I32);
        if division.exact && name != "rows" {
            return b.i32(if name == "len" { division.results * TERMS_PER_RESULT } else { most } as i32);
        }
        let (least, most) = (b.i32(1), b.i32(most as i32));
        // The bounds let the range analysis prove that counters of loops over these sizes do not overflow.
        let size = b.math(MathFn::Min, &[size, most]);
        b.math(MathFn::Max, &[size, least])
    });
    let block = b.id(BuiltinIndex::Block, Axis::X);
    let (lane, within) = thread_position(&mut b, division);
    let (of_block, one) = (b.i32(division.rows as i32), b.i32(1));
    let first = b.binary(BinOp::Mul, block, of_block);
    let unclamped_row = b.binary(BinOp::Add, first, within);
    let last = b.binary(BinOp::Sub, rows, one);
    let row = if division.exact { unclamped_row } else { b.math(MathFn::Min, &[unclamped_row, last]) };
    let step_values = vec![None; plan.steps.len()];
    let loaded = vec![None; inputs.len()];
    let place = RowThreadPosition { row, lane, row_in_block: within, len, results, each };
    let cached = cache_inputs(&mut b, plan, division, &inputs, place);
    let mut emitter = RowKernelEmitter { plan, division, inputs, cached, scalars, place, step_values, loaded };
    let top = plan.steps.iter().map(|step| step.level).max().unwrap_or(0);
    emitter.emit_row_steps(&mut b, 0)?;
    for level in 1..=top {
        emitter.emit_pass(&mut b, level)?;
        emitter.emit_row_steps(&mut b, level)?;
    }
    let inside = b.binary(BinOp::Lt, unclamped_row, rows);
    let root = OperandSource::Step(plan.steps.len() - 1);
    let mut complete = Some(());
    if division.exact {
        complete = emitter.emit_store(&mut b, result, root);
    } else {
        b.if_then(inside, |b| complete = emitter.emit_store(b, result, root));
    }
    complete?;
    Some(build_module(Default::default(), b, LaunchForm::Grid))
}

/// Emits the index of the thread in its row, and the index of the row in its block.
fn thread_position(b: &mut FunctionBuilder, division: RowBlockShape) -> (ExprId, ExprId) {
    let thread = b.id(BuiltinIndex::Thread, Axis::X);
    if division.is_wide() {
        return (thread, b.id(BuiltinIndex::Thread, Axis::Y));
    }
    let threads = b.i32(division.threads as i32);
    (b.binary(BinOp::Rem, thread, threads), b.binary(BinOp::Div, thread, threads))
}

/// Emits code that copies the block's rows of the cached inputs to shared memory.
fn cache_inputs(
    b: &mut FunctionBuilder,
    plan: &RowPlan,
    division: RowBlockShape,
    inputs: &[MemId],
    place: RowThreadPosition,
) -> Vec<Option<MemId>> {
    let RowThreadPosition { row, row_in_block: within, len, .. } = place;
    let is_cached = |i: usize| division.is_cached(i);
    if !(0..inputs.len()).any(is_cached) {
        return vec![None; inputs.len()];
    }
    let padding = b.i32(division.padding() as i32);
    let stride = if division.padding() == 0 { len } else { b.binary(BinOp::Add, len, padding) };
    let extents = [Extent::Known(division.rows as u32), Extent::Dynamic(stride)];
    let copies = plan.inputs.iter().enumerate().map(|(i, input)| {
        let layout = ElementLayout::plain(Ty::Scalar(input.scalar));
        is_cached(i).then(|| b.memory(format!("kept{i}"), MemorySpace::Shared, layout, extents.to_vec()))
    });
    let copies: Vec<Option<MemId>> = copies.collect();
    emit_column_loop(b, division, place, |b, column| {
        for (&from, to) in inputs.iter().zip(&copies) {
            if let Some(to) = *to {
                let value = b.load(from, &[row, column]);
                b.store(to, &[within, column], value);
            }
        }
    });
    b.barrier(BarrierKind::Block, None);
    copies
}

/// Emits a loop over the columns of the row that this thread processes.
fn emit_column_loop(
    b: &mut FunctionBuilder,
    division: RowBlockShape,
    place: RowThreadPosition,
    visit: impl FnOnce(&mut FunctionBuilder, ExprId),
) {
    let (label, local, step) = (b.label(), b.local("column", I32), b.i32(division.threads as i32));
    let body = b.in_block(|b| {
        let column = b.read(local);
        visit(b, column);
    });
    let range = IrForRange { start: place.lane, end: place.len, step, inclusive: false };
    b.for_(label, local, range, if division.exact { Unroll::Never } else { Unroll::Auto }, body);
}

/// The emitted values that describe the thread's row and its position in it.
#[derive(Clone, Copy)]
struct RowThreadPosition {
    row: ExprId,
    /// Index of the thread among the threads of its row.
    lane: ExprId,
    /// Index of the row in the block.
    row_in_block: ExprId,
    len: ExprId,
    results: ExprId,
    each: ExprId,
}

struct RowKernelEmitter<'a> {
    plan: &'a RowPlan,
    division: RowBlockShape,
    inputs: Vec<MemId>,
    /// For each cached input, its copy in shared memory.
    cached: Vec<Option<MemId>>,
    scalars: Vec<ExprId>,
    place: RowThreadPosition,
    /// By step, the values of steps that have one value per row.
    step_values: Vec<Option<ExprId>>,
    /// By input, the loaded values of inputs that have one value per row.
    loaded: Vec<Option<ExprId>>,
}

/// The values that the kernel has already computed for the current element, by step and by input.
struct ElementMemo {
    steps: Vec<Option<ExprId>>,
    inputs: Vec<Option<ExprId>>,
}

impl RowKernelEmitter<'_> {
    /// Emits the elementwise steps with one value per row that can be computed after `level` passes over the row. On
    /// level 0, also loads the inputs that have one value per row.
    fn emit_row_steps(&mut self, b: &mut FunctionBuilder, level: usize) -> Option<()> {
        if level == 0 {
            for (i, input) in self.plan.inputs.iter().enumerate() {
                let at = match input.variance {
                    RowVariance::Row => self.place.row,
                    RowVariance::All => b.i32(0),
                    RowVariance::Element | RowVariance::Column => continue,
                };
                self.loaded[i] = Some(b.load(self.inputs[i], &[at]));
            }
        }
        for (i, step) in self.plan.steps.iter().enumerate() {
            if let (RowOp::Apply(op, sources), RowVariance::Row) = (&step.op, step.variance)
                && step.level == level
            {
                let operands: Option<Vec<ExprId>> = sources.iter().map(|&source| self.row_value(b, source)).collect();
                self.step_values[i] = Some(emit_op(b, *op, &operands?)?);
            }
        }
        Some(())
    }

    /// Returns a value that is uniform in the row.
    fn row_value(&self, b: &mut FunctionBuilder, source: OperandSource) -> Option<ExprId> {
        match source {
            OperandSource::Scalar(i) => self.scalars.get(i).copied(),
            OperandSource::Constant(value) => Some(b.constant(value)),
            OperandSource::Input(i) => *self.loaded.get(i)?,
            OperandSource::Step(i) => *self.step_values.get(i)?,
        }
    }

    fn memo(&self) -> ElementMemo {
        ElementMemo { steps: vec![None; self.plan.steps.len()], inputs: vec![None; self.inputs.len()] }
    }

    /// Emits the value of the element in a column.
    fn emit_element(
        &self,
        b: &mut FunctionBuilder,
        source: OperandSource,
        column: ExprId,
        memo: &mut ElementMemo,
    ) -> Option<ExprId> {
        if let Some(value) = self.row_value(b, source) {
            return Some(value);
        }
        match source {
            OperandSource::Input(i) => {
                if let Some(value) = memo.inputs[i] {
                    return Some(value);
                }
                let value = match (self.plan.inputs.get(i)?.variance, self.cached[i]) {
                    (_, Some(kept)) => b.load(kept, &[self.place.row_in_block, column]),
                    (RowVariance::Element, None) => b.load(self.inputs[i], &[self.place.row, column]),
                    _ => b.load(self.inputs[i], &[column]),
                };
                memo.inputs[i] = Some(value);
                Some(value)
            }
            OperandSource::Step(i) => {
                if let Some(value) = memo.steps[i] {
                    return Some(value);
                }
                let RowOp::Apply(op, sources) = &self.plan.steps.get(i)?.op else { return None };
                let mut operands = Vec::with_capacity(sources.len());
                for &source in sources {
                    operands.push(self.emit_element(b, source, column, memo)?);
                }
                let value = emit_op(b, *op, &operands)?;
                memo.steps[i] = Some(value);
                Some(value)
            }
            OperandSource::Scalar(_) | OperandSource::Constant(_) => None,
        }
    }

    /// Emits a pass over the row that computes the reductions of this level.
    fn emit_pass(&mut self, b: &mut FunctionBuilder, level: usize) -> Option<()> {
        let folds: Vec<(usize, ReductionOp, OperandSource, Option<usize>)> = self
            .plan
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.level == level)
            .filter_map(|(i, step)| match step.op {
                RowOp::Reduce(fold, source, divisor) => Some((i, fold, source, divisor)),
                RowOp::Apply(..) => None,
            })
            .collect();
        if folds.is_empty() {
            return Some(());
        }
        let totals: Vec<LocalId> =
            folds.iter().map(|(_, fold, ..)| b.local("total", Ty::Scalar(fold.accumulator))).collect();
        let shares: Vec<MemId> =
            folds.iter().map(|(_, fold, ..)| self.shared_array(b, fold.accumulator, self.division.results)).collect();
        let RowThreadPosition { lane, row_in_block: within, results, .. } = self.place;
        let mut complete = Some(());
        let mut column = |b: &mut FunctionBuilder, from: ExprId| {
            complete = complete.and_then(|()| self.emit_first_round(b, &folds, &totals, from));
            if self.division.threads > 1 {
                for (share, total) in shares.iter().zip(&totals) {
                    let value = b.read(*total);
                    b.store(*share, &[within, from], value);
                }
            }
        };
        if self.division.results > self.division.threads {
            let (label, local, step) = (b.label(), b.local("j", I32), b.i32(self.division.threads as i32));
            let body = b.in_block(|b| {
                let from = b.read(local);
                column(b, from);
            });
            b.for_(label, local, IrForRange { start: lane, end: results, step, inclusive: false }, Unroll::Never, body);
        } else if self.division.exact {
            column(b, lane);
        } else if self.division.threads > 1 {
            let busy = b.binary(BinOp::Lt, lane, results);
            b.if_then(busy, |b| column(b, lane));
        } else {
            column(b, lane);
        }
        complete?;
        let totals_of_row: Vec<ExprId> = if self.division.threads > 1 {
            self.emit_later_rounds(b, &folds, &shares)?
        } else {
            totals.iter().map(|&total| b.read(total)).collect()
        };
        for ((i, fold, _, divisor), mut value) in folds.into_iter().zip(totals_of_row) {
            if let Some(divisor) = divisor {
                value = b.binary(BinOp::Div, value, *self.scalars.get(divisor)?);
            }
            self.step_values[i] = Some(b.convert(value, fold.result));
        }
        Some(())
    }

    fn shared_array(&self, b: &mut FunctionBuilder, scalar: Scalar, len: usize) -> MemId {
        let extents = vec![Extent::Known(self.division.rows as u32), Extent::Known(len as u32)];
        b.memory("shared", MemorySpace::Shared, ElementLayout::plain(Ty::Scalar(scalar)), extents)
    }

    /// Emits the first reduction round of a thread: combines the elements `from`, `from + results`, … of the row.
    fn emit_first_round(
        &self,
        b: &mut FunctionBuilder,
        folds: &[(usize, ReductionOp, OperandSource, Option<usize>)],
        totals: &[LocalId],
        from: ExprId,
    ) -> Option<()> {
        let RowThreadPosition { len, results, each, .. } = self.place;
        let combine = |b: &mut FunctionBuilder, column: ExprId, begins: bool| {
            let mut memo = self.memo();
            for ((_, fold, source, _), total) in folds.iter().zip(totals) {
                let value = self.emit_element(b, *source, column, &mut memo)?;
                let mut value = b.convert(value, fold.accumulator);
                if !begins {
                    let before = b.read(*total);
                    value = emit_op(b, fold.combine, &[before, value])?;
                }
                b.write(*total, value);
            }
            Some(())
        };
        combine(b, from, true)?;
        let unroll = match self.division {
            RowBlockShape { exact: true, .. } => Unroll::Never,
            RowBlockShape { has_few_blocks: true, .. } => UNROLL_FEW_THREADS,
            _ => Unroll::Auto,
        };
        let len = (!self.division.exact).then_some(len);
        emit_strided_loop(b, from, results, each, len, unroll, |b, _, column| combine(b, column, false))
    }

    /// Emits the later reduction rounds, which combine the results of the first round in shared memory.
    fn emit_later_rounds(
        &self,
        b: &mut FunctionBuilder,
        folds: &[(usize, ReductionOp, OperandSource, Option<usize>)],
        shares: &[MemId],
    ) -> Option<Vec<ExprId>> {
        let RowThreadPosition { lane, row_in_block: within, results, .. } = self.place;
        let (zero, one) = (b.i32(0), b.i32(1));
        b.barrier(BarrierKind::Block, None);
        let mut sources: Vec<MemId> = shares.to_vec();
        let mut count = results;
        if self.division.results > TERMS_PER_RESULT {
            let (add, by) = (b.i32(TERMS_PER_RESULT as i32 - 1), b.i32(TERMS_PER_RESULT as i32));
            let more = b.binary(BinOp::Add, results, add);
            count = b.binary(BinOp::Div, more, by);
            let capacity = self.division.results / TERMS_PER_RESULT;
            let next: Vec<MemId> =
                folds.iter().map(|(_, fold, ..)| self.shared_array(b, fold.accumulator, capacity)).collect();
            let busy = b.binary(BinOp::Lt, lane, count);
            let mut complete = Some(());
            b.if_then(busy, |b| {
                for (((_, fold, ..), from), to) in folds.iter().zip(&sources).zip(&next) {
                    let combined = self.emit_combine(b, fold, *from, lane, results, count);
                    match combined {
                        Some(value) => b.store(*to, &[within, lane], value),
                        None => complete = None,
                    }
                }
            });
            complete?;
            b.barrier(BarrierKind::Block, None);
            sources = next;
        }
        let ends: Vec<MemId> = folds.iter().map(|(_, fold, ..)| self.shared_array(b, fold.accumulator, 1)).collect();
        let is_first = b.binary(BinOp::Eq, lane, zero);
        let mut complete = Some(());
        b.if_then(is_first, |b| {
            for (((_, fold, ..), from), to) in folds.iter().zip(&sources).zip(&ends) {
                match self.emit_combine(b, fold, *from, zero, count, one) {
                    Some(value) => b.store(*to, &[within, zero], value),
                    None => complete = None,
                }
            }
        });
        complete?;
        b.barrier(BarrierKind::Block, None);
        Some(ends.iter().map(|&end| b.load(end, &[within, zero])).collect())
    }

    /// Emits a loop that combines the results `from`, `from + step`, … of a row, up to the index `len` (exclusive).
    fn emit_combine(
        &self,
        b: &mut FunctionBuilder,
        fold: &ReductionOp,
        results: MemId,
        from: ExprId,
        len: ExprId,
        step: ExprId,
    ) -> Option<ExprId> {
        let within = self.place.row_in_block;
        let first = b.load(results, &[within, from]);
        let total = b.variable("total", first);
        let mut complete = Some(());
        let (label, local, start) = (b.label(), b.local("k", I32), b.binary(BinOp::Add, from, step));
        let body = b.in_block(|b| {
            let at = b.read(local);
            let (before, value) = (b.read(total), b.load(results, &[within, at]));
            match emit_op(b, fold.combine, &[before, value]) {
                Some(value) => b.write(total, value),
                None => complete = None,
            }
        });
        b.for_(label, local, IrForRange { start, end: len, step, inclusive: false }, Unroll::Auto, body);
        complete?;
        Some(b.read(total))
    }

    /// Emits the stores of the result: one value per row, or the elements of the row.
    fn emit_store(&self, b: &mut FunctionBuilder, result: MemId, root: OperandSource) -> Option<()> {
        let RowThreadPosition { row, lane, .. } = self.place;
        if let Some(value) = self.row_value(b, root) {
            let zero = b.i32(0);
            let is_first = b.binary(BinOp::Eq, lane, zero);
            b.if_then(is_first, |b| b.store(result, &[row], value));
            return Some(());
        }
        let mut complete = Some(());
        emit_column_loop(b, self.division, self.place, |b, column| {
            match self.emit_element(b, root, column, &mut self.memo()) {
                Some(value) => b.store(result, &[row, column], value),
                None => complete = None,
            }
        });
        complete
    }
}
