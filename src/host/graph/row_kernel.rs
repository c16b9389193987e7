//! The kernel of expressions with reductions of rows: see [`rows`](crate::host::graph::rows).
//!
//! The parameters are the inputs, the result, the scalars, and the numbers of rows, of elements of a row, of results of its first
//! round, and of elements that each of these has at least. A row beyond the last one is computed like the last one and not stored, so
//! that all threads meet at all barriers.

use crate::host::graph::emit::{FEW, operation, scalars, strided};
use crate::host::graph::node::Fold;
use crate::host::graph::plan::Source;
use crate::host::graph::row_plan::{Division, EACH, LONGEST, MOST_ROWS, RowPlan, Spread, What};
use crate::ir::build::{FunctionBuilder, Range, module};
use crate::ir::def::{
    Access, Axis, BinOp, ExprId, Extent, Form, Id3, Layout, LocalId, MemId, Module, Space, Ty, Unroll,
};
use crate::ir::typing::I32;
use crate::lang::ops::{BarrierKind, MathFn};
use crate::lang::scalar::Scalar;

/// Builds the kernel; `None` if an operation has no form in kernels.
pub(super) fn kernel(plan: &RowPlan, division: Division, result: Scalar) -> Option<Module> {
    let mut b = FunctionBuilder::new("rows");
    let rank = |spread: Spread| if spread == Spread::Element { 2 } else { 1 };
    let inputs = plan.inputs.iter().enumerate().map(|(i, input)| {
        b.array(format!("x{i}"), Access::In, Layout::plain(Ty::Scalar(input.scalar)), rank(input.spread))
    });
    let inputs: Vec<MemId> = inputs.collect();
    let of_result = plan.steps.last()?.spread;
    let result = b.array("result", Access::Out, Layout::plain(Ty::Scalar(result)), rank(of_result));
    let scalars = scalars(&mut b, &plan.scalars);
    let sizes = [("rows", MOST_ROWS), ("len", LONGEST), ("results", division.results), ("each", EACH)];
    let [rows, len, results, each] = sizes.map(|(name, most)| {
        let size = b.value(name, I32);
        if division.exact && name != "rows" {
            return b.i32(if name == "len" { division.results * EACH } else { most } as i32);
        }
        let (least, most) = (b.i32(1), b.i32(most as i32));
        // Tells the analysis of ranges that loops over them count up, and that their counters do not overflow.
        let size = b.math(MathFn::Min, &[size, most]);
        b.math(MathFn::Max, &[size, least])
    });
    let block = b.id(Id3::Block, Axis::X);
    let (lane, within) = place_in_block(&mut b, division);
    let (of_block, one) = (b.i32(division.rows as i32), b.i32(1));
    let first = b.binary(BinOp::Mul, block, of_block);
    let wanted = b.binary(BinOp::Add, first, within);
    let last = b.binary(BinOp::Sub, rows, one);
    let row = if division.exact { wanted } else { b.math(MathFn::Min, &[wanted, last]) };
    let known = vec![None; plan.steps.len()];
    let loaded = vec![None; inputs.len()];
    let place = Place { row, lane, within, len, results, each };
    let kept = keep(&mut b, plan, division, &inputs, place);
    let mut emitter = Emitter { plan, division, inputs, kept, scalars, place, known, loaded };
    let top = plan.steps.iter().map(|step| step.level).max().unwrap_or(0);
    emitter.of_rows(&mut b, 0)?;
    for level in 1..=top {
        emitter.pass(&mut b, level)?;
        emitter.of_rows(&mut b, level)?;
    }
    let inside = b.binary(BinOp::Lt, wanted, rows);
    let root = Source::Step(plan.steps.len() - 1);
    let mut complete = Some(());
    if division.exact {
        complete = emitter.store(&mut b, result, root);
    } else {
        b.if_then(inside, |b| complete = emitter.store(b, result, root));
    }
    complete?;
    Some(module(Default::default(), b, Form::Grid))
}

/// Returns the number of a thread in its row, and that of the row in the block.
fn place_in_block(b: &mut FunctionBuilder, division: Division) -> (ExprId, ExprId) {
    let thread = b.id(Id3::Thread, Axis::X);
    if division.is_wide() {
        return (thread, b.id(Id3::Thread, Axis::Y));
    }
    let threads = b.i32(division.threads as i32);
    (b.binary(BinOp::Rem, thread, threads), b.binary(BinOp::Div, thread, threads))
}

/// Copies the elements of the block's rows to shared memory, of those inputs for which that is wanted.
fn keep(
    b: &mut FunctionBuilder,
    plan: &RowPlan,
    division: Division,
    inputs: &[MemId],
    place: Place,
) -> Vec<Option<MemId>> {
    let Place { row, within, len, .. } = place;
    let wanted = |i: usize| division.keeps(i);
    if !(0..inputs.len()).any(wanted) {
        return vec![None; inputs.len()];
    }
    let padding = b.i32(division.padding() as i32);
    let stride = if division.padding() == 0 { len } else { b.binary(BinOp::Add, len, padding) };
    let extents = [Extent::Known(division.rows as u32), Extent::Dynamic(stride)];
    let copies = plan.inputs.iter().enumerate().map(|(i, input)| {
        let layout = Layout::plain(Ty::Scalar(input.scalar));
        wanted(i).then(|| b.memory(format!("kept{i}"), Space::Shared, layout, extents.to_vec()))
    });
    let copies: Vec<Option<MemId>> = copies.collect();
    for_columns(b, division, place, |b, column| {
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

/// Visits the columns of a row that are a thread's.
fn for_columns(
    b: &mut FunctionBuilder,
    division: Division,
    place: Place,
    visit: impl FnOnce(&mut FunctionBuilder, ExprId),
) {
    let (label, local, step) = (b.label(), b.local("column", I32), b.i32(division.threads as i32));
    let body = b.in_block(|b| {
        let column = b.read(local);
        visit(b, column);
    });
    let range = Range { start: place.lane, end: place.len, step, inclusive: false };
    b.for_(label, local, range, if division.exact { Unroll::Never } else { Unroll::Auto }, body);
}

/// Where a thread is, and the sizes of its row.
#[derive(Clone, Copy)]
struct Place {
    row: ExprId,
    /// The thread's number in the row.
    lane: ExprId,
    /// The row's number in the block.
    within: ExprId,
    len: ExprId,
    results: ExprId,
    each: ExprId,
}

struct Emitter<'a> {
    plan: &'a RowPlan,
    division: Division,
    inputs: Vec<MemId>,
    /// Copies of the inputs in shared memory.
    kept: Vec<Option<MemId>>,
    scalars: Vec<ExprId>,
    place: Place,
    /// Values of steps of rows.
    known: Vec<Option<ExprId>>,
    /// Inputs that are the same for all of a row.
    loaded: Vec<Option<ExprId>>,
}

/// Values of an element that have been computed, by step and by input.
struct Memo {
    steps: Vec<Option<ExprId>>,
    inputs: Vec<Option<ExprId>>,
}

impl Emitter<'_> {
    /// Computes the steps of rows after so many passes, and at first the inputs of rows.
    fn of_rows(&mut self, b: &mut FunctionBuilder, level: usize) -> Option<()> {
        if level == 0 {
            for (i, input) in self.plan.inputs.iter().enumerate() {
                let at = match input.spread {
                    Spread::Row => self.place.row,
                    Spread::All => b.i32(0),
                    Spread::Element | Spread::Column => continue,
                };
                self.loaded[i] = Some(b.load(self.inputs[i], &[at]));
            }
        }
        for (i, step) in self.plan.steps.iter().enumerate() {
            if let (What::Apply(op, sources), Spread::Row) = (&step.what, step.spread)
                && step.level == level
            {
                let operands: Option<Vec<ExprId>> = sources.iter().map(|&source| self.of_row(b, source)).collect();
                self.known[i] = Some(operation(b, *op, &operands?)?);
            }
        }
        Some(())
    }

    /// Returns a value that is the same for all of a row.
    fn of_row(&self, b: &mut FunctionBuilder, source: Source) -> Option<ExprId> {
        match source {
            Source::Scalar(i) => self.scalars.get(i).copied(),
            Source::Constant(value) => Some(b.constant(value)),
            Source::Input(i) => *self.loaded.get(i)?,
            Source::Step(i) => *self.known.get(i)?,
        }
    }

    fn memo(&self) -> Memo {
        Memo { steps: vec![None; self.plan.steps.len()], inputs: vec![None; self.inputs.len()] }
    }

    /// Computes a value at a column.
    fn element(&self, b: &mut FunctionBuilder, source: Source, column: ExprId, memo: &mut Memo) -> Option<ExprId> {
        if let Some(value) = self.of_row(b, source) {
            return Some(value);
        }
        match source {
            Source::Input(i) => {
                if let Some(value) = memo.inputs[i] {
                    return Some(value);
                }
                let value = match (self.plan.inputs.get(i)?.spread, self.kept[i]) {
                    (_, Some(kept)) => b.load(kept, &[self.place.within, column]),
                    (Spread::Element, None) => b.load(self.inputs[i], &[self.place.row, column]),
                    _ => b.load(self.inputs[i], &[column]),
                };
                memo.inputs[i] = Some(value);
                Some(value)
            }
            Source::Step(i) => {
                if let Some(value) = memo.steps[i] {
                    return Some(value);
                }
                let What::Apply(op, sources) = &self.plan.steps.get(i)?.what else { return None };
                let mut operands = Vec::with_capacity(sources.len());
                for &source in sources {
                    operands.push(self.element(b, source, column, memo)?);
                }
                let value = operation(b, *op, &operands)?;
                memo.steps[i] = Some(value);
                Some(value)
            }
            Source::Scalar(_) | Source::Constant(_) => None,
        }
    }

    /// A pass over the row, which computes the reductions of this level.
    fn pass(&mut self, b: &mut FunctionBuilder, level: usize) -> Option<()> {
        let folds: Vec<(usize, Fold, Source, Option<usize>)> = self
            .plan
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.level == level)
            .filter_map(|(i, step)| match step.what {
                What::Fold(fold, source, divisor) => Some((i, fold, source, divisor)),
                What::Apply(..) => None,
            })
            .collect();
        if folds.is_empty() {
            return Some(());
        }
        let totals: Vec<LocalId> = folds.iter().map(|(_, fold, ..)| b.local("total", Ty::Scalar(fold.wide))).collect();
        let shares: Vec<MemId> =
            folds.iter().map(|(_, fold, ..)| self.shared(b, fold.wide, self.division.results)).collect();
        let Place { lane, within, results, .. } = self.place;
        let mut complete = Some(());
        let mut column = |b: &mut FunctionBuilder, from: ExprId| {
            complete = complete.and_then(|()| self.first_round(b, &folds, &totals, from));
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
            b.for_(label, local, Range { start: lane, end: results, step, inclusive: false }, Unroll::Never, body);
        } else if self.division.exact {
            column(b, lane);
        } else if self.division.threads > 1 {
            let busy = b.binary(BinOp::Lt, lane, results);
            b.if_then(busy, |b| column(b, lane));
        } else {
            column(b, lane);
        }
        complete?;
        let found: Vec<ExprId> = if self.division.threads > 1 {
            self.later_rounds(b, &folds, &shares)?
        } else {
            totals.iter().map(|&total| b.read(total)).collect()
        };
        for ((i, fold, _, divisor), mut value) in folds.into_iter().zip(found) {
            if let Some(divisor) = divisor {
                value = b.binary(BinOp::Div, value, *self.scalars.get(divisor)?);
            }
            self.known[i] = Some(b.convert(value, fold.result));
        }
        Some(())
    }

    fn shared(&self, b: &mut FunctionBuilder, scalar: Scalar, len: usize) -> MemId {
        let extents = vec![Extent::Known(self.division.rows as u32), Extent::Known(len as u32)];
        b.memory("shared", Space::Shared, Layout::plain(Ty::Scalar(scalar)), extents)
    }

    /// Combines the elements `from`, `from + results`, … of the row.
    fn first_round(
        &self,
        b: &mut FunctionBuilder,
        folds: &[(usize, Fold, Source, Option<usize>)],
        totals: &[LocalId],
        from: ExprId,
    ) -> Option<()> {
        let Place { len, results, each, .. } = self.place;
        let combine = |b: &mut FunctionBuilder, column: ExprId, begins: bool| {
            let mut memo = self.memo();
            for ((_, fold, source, _), total) in folds.iter().zip(totals) {
                let value = self.element(b, *source, column, &mut memo)?;
                let mut value = b.convert(value, fold.wide);
                if !begins {
                    let before = b.read(*total);
                    value = operation(b, fold.combine, &[before, value])?;
                }
                b.write(*total, value);
            }
            Some(())
        };
        combine(b, from, true)?;
        let unroll = match self.division {
            Division { exact: true, .. } => Unroll::Never,
            Division { few: true, .. } => FEW,
            _ => Unroll::Auto,
        };
        let len = (!self.division.exact).then_some(len);
        strided(b, (from, results), (each, len), unroll, |b, _, column| combine(b, column, false))
    }

    /// Combines what the first round has left in shared memory.
    fn later_rounds(
        &self,
        b: &mut FunctionBuilder,
        folds: &[(usize, Fold, Source, Option<usize>)],
        shares: &[MemId],
    ) -> Option<Vec<ExprId>> {
        let Place { lane, within, results, .. } = self.place;
        let (zero, one) = (b.i32(0), b.i32(1));
        b.barrier(BarrierKind::Block, None);
        let mut sources: Vec<MemId> = shares.to_vec();
        let mut count = results;
        if self.division.results > EACH {
            let (add, by) = (b.i32(EACH as i32 - 1), b.i32(EACH as i32));
            let more = b.binary(BinOp::Add, results, add);
            count = b.binary(BinOp::Div, more, by);
            let room = self.division.results / EACH;
            let next: Vec<MemId> = folds.iter().map(|(_, fold, ..)| self.shared(b, fold.wide, room)).collect();
            let busy = b.binary(BinOp::Lt, lane, count);
            let mut complete = Some(());
            b.if_then(busy, |b| {
                for (((_, fold, ..), from), to) in folds.iter().zip(&sources).zip(&next) {
                    let combined = self.combined(b, fold, *from, (lane, results, count));
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
        let ends: Vec<MemId> = folds.iter().map(|(_, fold, ..)| self.shared(b, fold.wide, 1)).collect();
        let is_first = b.binary(BinOp::Eq, lane, zero);
        let mut complete = Some(());
        b.if_then(is_first, |b| {
            for (((_, fold, ..), from), to) in folds.iter().zip(&sources).zip(&ends) {
                match self.combined(b, fold, *from, (zero, count, one)) {
                    Some(value) => b.store(*to, &[within, zero], value),
                    None => complete = None,
                }
            }
        });
        complete?;
        b.barrier(BarrierKind::Block, None);
        Some(ends.iter().map(|&end| b.load(end, &[within, zero])).collect())
    }

    /// Combines the results `from`, `from + step`, … of a row, of which there are `len`.
    fn combined(
        &self,
        b: &mut FunctionBuilder,
        fold: &Fold,
        results: MemId,
        (from, len, step): (ExprId, ExprId, ExprId),
    ) -> Option<ExprId> {
        let within = self.place.within;
        let first = b.load(results, &[within, from]);
        let total = b.variable("total", first);
        let mut complete = Some(());
        let (label, local, start) = (b.label(), b.local("k", I32), b.binary(BinOp::Add, from, step));
        let body = b.in_block(|b| {
            let at = b.read(local);
            let (before, value) = (b.read(total), b.load(results, &[within, at]));
            match operation(b, fold.combine, &[before, value]) {
                Some(value) => b.write(total, value),
                None => complete = None,
            }
        });
        b.for_(label, local, Range { start, end: len, step, inclusive: false }, Unroll::Auto, body);
        complete?;
        Some(b.read(total))
    }

    /// Stores the result of the row, or its elements.
    fn store(&self, b: &mut FunctionBuilder, result: MemId, root: Source) -> Option<()> {
        let Place { row, lane, .. } = self.place;
        if let Some(value) = self.of_row(b, root) {
            let zero = b.i32(0);
            let is_first = b.binary(BinOp::Eq, lane, zero);
            b.if_then(is_first, |b| b.store(result, &[row], value));
            return Some(());
        }
        let mut complete = Some(());
        for_columns(b, self.division, self.place, |b, column| match self.element(b, root, column, &mut self.memo()) {
            Some(value) => b.store(result, &[row, column], value),
            None => complete = None,
        });
        complete
    }
}
