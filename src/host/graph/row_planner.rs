//! Planner of row-wise kernels. Such a kernel computes an expression that contains reductions of its rows, such as
//! `exp(x - max) / sum`.
//!
//! # Idea
//! A reduction along the last axes is deferred ([`ReductionNode`]) like an elementwise operation. If an expression
//! contains reductions of the same rows, a group of threads computes each row in several passes. The first pass
//! computes the reductions of the inputs, the next one the reductions that depend on these results, and so on. The last
//! pass computes the elements of the result. Global memory is read only once if a row fits in the CPU's caches or in
//! the GPU's shared memory. No reduction or common subexpression is computed twice.
//!
//! Every value depends on the element, the row, the column, or none of them. Expressions with other kinds of
//! broadcasting, and rows that are too long or too few, are computed with [`plan`](crate::graph::plan) instead.
//!
//! # Order
//! Reductions use the same rounds as [`reduce`](mod@crate::graph::reduce), so that results are bit-identical. In
//! the first round, a thread combines the 64 elements of a result. The results are then combined in shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::{Array, ElementType};
use crate::graph::context::ExecContext;
use crate::graph::evaluate;
use crate::graph::library_kernels;
use crate::graph::memo::{DeferredKey, DeferredMemo};
use crate::graph::node::{
    DeferredNode, MAX_OPS, NodeOperand, ReductionNode, ReductionOp, as_node, as_reduction, non_unit_extents,
};
use crate::graph::plan::{OperandSource, is_kernel_constant};
use crate::graph::residency::materialize_for;
use crate::graph::row_kernel;
use crate::graph::row_plan::{
    MAX_ROW_LEN, MAX_ROWS, RowBlockShape, RowInput, RowOp, RowPlan, RowStep, RowVariance, round_results,
};
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};

/// Minimum number of rows.
const MIN_ROWS: usize = 64;
/// Maximum length of a row that one block reduces completely if there are few rows.
const MAX_FINISH_LEN: usize = 1 << 14;
/// Maximum number of reductions in a kernel.
const MAX_REDUCTIONS: usize = 4;

/// Computes the bytes of a node whose expression contains deferred reductions; `None` if one row-wise kernel cannot
/// compute it.
pub(super) fn compute_node(node: &DeferredNode) -> HostResult<Option<Storage>> {
    if !node.has_reductions {
        return Ok(None);
    }
    let Some((rows, len)) = reduced_rows(node, 0).filter(|&(rows, len)| is_supported(rows, len)) else {
        return Ok(None);
    };
    let count: usize = node.shape.iter().product();
    let spread = match count {
        _ if count == rows * len => RowVariance::Element,
        _ if count == rows => RowVariance::Row,
        _ => return Ok(None),
    };
    let mut planner = RowPlanner::new(rows, len, &node.context);
    if spread == RowVariance::Element && planner.row_axis(&node.shape).is_none() {
        return Ok(None);
    }
    let root = planner.add_node(spread, node)?;
    if !planner.is_result(root) || !planner.is_worth_it() {
        return Ok(None);
    }
    launch_rows(planner.plan, node.scalar, &node.context).map(Some)
}

/// Computes the bytes of a reduction; `None` if a row-wise kernel cannot compute it.
pub(super) fn compute_reduction(folded: &ReductionNode) -> HostResult<Option<Storage>> {
    if !is_supported(folded.rows, folded.len) {
        return Ok(None);
    }
    let mut planner = RowPlanner::new(folded.rows, folded.len, &folded.context);
    let root = planner.add_reduction(folded)?;
    if !planner.is_result(root) || !planner.is_worth_it() {
        return Ok(None);
    }
    launch_rows(planner.plan, folded.op.result, &folded.context).map(Some)
}

/// Finishes a reduction in one launch: combines the `len` results that earlier rounds computed for each of the `rows`
/// rows.
pub(super) fn finish_reduction(
    fold: &ReductionOp,
    array: &Array,
    rows: usize,
    len: usize,
    context: &ExecContext,
) -> HostResult<Storage> {
    let mut planner = RowPlanner::new(rows, len, context);
    let source = planner.add_input(array, RowVariance::Element)?;
    planner.add_reduction_step(fold, source);
    launch_rows(planner.plan, fold.result, context)
}

/// Returns whether [`finish_reduction`] supports this number of rows of this length.
pub(super) fn can_finish(rows: usize, len: usize) -> bool {
    rows <= MAX_ROWS && (2..=MAX_FINISH_LEN).contains(&len)
}

pub(super) fn is_supported(rows: usize, len: usize) -> bool {
    (MIN_ROWS..=MAX_ROWS).contains(&rows) && (2..=MAX_ROW_LEN).contains(&len)
}

/// Returns the number and the length of the rows that the reductions in an expression reduce; `None` without
/// reductions. `depth` is the maximum depth of the search.
fn reduced_rows(node: &DeferredNode, depth: usize) -> Option<(usize, usize)> {
    node.operands().iter().find_map(|operand| {
        let NodeOperand::Array(array, _) = operand else { return None };
        let work = array.data().work()?;
        if let Some(folded) = as_reduction(&*work) {
            return Some((folded.rows, folded.len));
        }
        let inner = as_node(&*work).filter(|inner| inner.has_reductions && depth < MAX_OPS)?;
        reduced_rows(inner, depth + 1)
    })
}

struct RowPlanner<'s> {
    context: &'s ExecContext,
    plan: RowPlan,
    /// Maps deferred arrays to the steps that compute them.
    steps: DeferredMemo<RowVariance, usize>,
}

impl<'s> RowPlanner<'s> {
    fn new(rows: usize, len: usize, context: &'s ExecContext) -> RowPlanner<'s> {
        let plan = RowPlan { rows, len, ..RowPlan::default() };
        RowPlanner { context, plan, steps: DeferredMemo::default() }
    }

    /// Returns whether a step is the last one, which is the result of the kernel.
    fn is_result(&self, step: Option<usize>) -> bool {
        step.is_some_and(|step| step + 1 == self.plan.steps.len())
    }

    /// Returns whether the plan has at least one and at most [`MAX_REDUCTIONS`] reductions.
    fn is_worth_it(&self) -> bool {
        let folds = self.plan.steps.iter().filter(|step| matches!(step.op, RowOp::Reduce(..))).count();
        (1..=MAX_REDUCTIONS).contains(&folds)
    }

    /// Splits the shape of the elements into rows: returns the first axis inside a row; `None` if the shape does not
    /// consist of such rows.
    fn row_axis(&self, shape: &[usize]) -> Option<usize> {
        let mut len = 1usize;
        for (axis, &extent) in shape.iter().enumerate().rev() {
            len = len.checked_mul(extent)?;
            if len == self.plan.len {
                return (shape[..axis].iter().product::<usize>() == self.plan.rows).then_some(axis);
            }
        }
        None
    }

    /// Returns the variance of an operand with the shape `shape`. An operation with the variance `of_user` and the
    /// result shape `user` reads it.
    fn operand_variance(&self, of_user: RowVariance, user: &[usize], shape: &[usize]) -> Option<RowVariance> {
        let leading = user.len().checked_sub(shape.len())?;
        let own: Vec<usize> = std::iter::repeat_n(1, leading).chain(shape.iter().copied()).collect();
        let whole = |own: &[usize], user: &[usize]| match own {
            _ if own == user => Some(true),
            _ if own.iter().all(|&n| n == 1) => Some(false),
            _ => None,
        };
        if of_user == RowVariance::Row {
            return whole(&own, user).map(|whole| if whole { RowVariance::Row } else { RowVariance::All });
        }
        let axis = self.row_axis(user)?;
        Some(match (whole(&own[..axis], &user[..axis])?, whole(&own[axis..], &user[axis..])?) {
            (true, true) => RowVariance::Element,
            (true, false) => RowVariance::Row,
            (false, true) => RowVariance::Column,
            (false, false) => RowVariance::All,
        })
    }

    fn level(&self, source: OperandSource) -> usize {
        match source {
            OperandSource::Step(i) => self.plan.steps.get(i).map_or(0, |step| step.level),
            _ => 0,
        }
    }

    /// Adds the operands and the operation of a node. Returns the index of its step.
    fn add_node(&mut self, spread: RowVariance, node: &DeferredNode) -> HostResult<Option<usize>> {
        let operands = node.operands();
        let mut sources = Vec::with_capacity(operands.len());
        for (position, operand) in operands.iter().enumerate() {
            sources.push(match operand {
                NodeOperand::Scalar(value) if is_kernel_constant(node.op, position, *value) => {
                    OperandSource::Constant(*value)
                }
                NodeOperand::Scalar(value) => OperandSource::Scalar(self.add_scalar(*value)),
                NodeOperand::Array(array, shape) => match self.array_source(spread, &node.shape, array, shape)? {
                    Some(source) => source,
                    None => return Ok(None),
                },
            });
        }
        let level = sources.iter().map(|&source| self.level(source)).max().unwrap_or(0);
        Ok(Some(self.add_step(RowStep { op: RowOp::Apply(node.op, sources), variance: spread, level })))
    }

    /// Adds a step unless an equal one exists. Returns its index.
    fn add_step(&mut self, step: RowStep) -> usize {
        let existing = self.plan.steps.iter().position(|existing| *existing == step);
        existing.unwrap_or_else(|| {
            self.plan.steps.push(step);
            self.plan.steps.len() - 1
        })
    }

    fn add_scalar(&mut self, value: ScalarValue) -> usize {
        let existing = self.plan.scalars.iter().position(|existing| *existing == value);
        existing.unwrap_or_else(|| {
            self.plan.scalars.push(value);
            self.plan.scalars.len() - 1
        })
    }

    /// Adds the operand of a reduction and the reduction. Returns the index of its step.
    fn add_reduction(&mut self, folded: &ReductionNode) -> HostResult<Option<usize>> {
        let Some(source) = self.array_source(RowVariance::Element, &folded.shape, &folded.array, &folded.shape)? else {
            return Ok(None);
        };
        Ok(Some(self.add_reduction_step(&folded.op, source)))
    }

    fn add_reduction_step(&mut self, fold: &ReductionOp, source: OperandSource) -> usize {
        let divisor = fold.divisor.map(|by| self.add_scalar(ScalarValue::of(by).to_type(fold.accumulator)));
        let level = self.level(source) + 1;
        self.add_step(RowStep { op: RowOp::Reduce(*fold, source, divisor), variance: RowVariance::Row, level })
    }

    fn array_source(
        &mut self,
        of_user: RowVariance,
        user: &[usize],
        array: &Array,
        shape: &[usize],
    ) -> HostResult<Option<OperandSource>> {
        let Some(spread) = self.operand_variance(of_user, user, shape) else { return Ok(None) };
        if let Some(work) = array.data().work()
            && matches!(spread, RowVariance::Element | RowVariance::Row)
        {
            let key = DeferredKey::new(array, spread);
            if let Some(step) = self.steps.get(&key) {
                return Ok(Some(OperandSource::Step(step)));
            }
            let is_first =
                |seen: &AtomicBool| !seen.swap(true, Ordering::Relaxed) || Arc::strong_count(array.data()) == 1;
            let step = match (as_node(&*work), as_reduction(&*work)) {
                (Some(node), _) if self.is_row_aligned(node, array, shape) && is_first(&node.was_inlined) => {
                    self.add_node(spread, node)?
                }
                (_, Some(folded))
                    if spread == RowVariance::Row
                        && self.reduces_same_rows(folded, array)
                        && is_first(&folded.was_inlined) =>
                {
                    self.add_reduction(folded)?
                }
                _ => return self.add_input(array, spread).map(Some),
            };
            let Some(step) = step else { return Ok(None) };
            self.steps.insert(key, array, work, step);
            return Ok(Some(OperandSource::Step(step)));
        }
        self.add_input(array, spread).map(Some)
    }

    /// Returns whether a node has exactly one element for each element, or for each row, of this plan, in the same
    /// order.
    fn is_row_aligned(&self, node: &DeferredNode, array: &Array, shape: &[usize]) -> bool {
        node.context.can_share_kernel(self.context)
            && array.scalar() == Some(node.scalar)
            && non_unit_extents(&node.shape).eq(non_unit_extents(shape))
    }

    fn reduces_same_rows(&self, folded: &ReductionNode, array: &Array) -> bool {
        folded.context.can_share_kernel(self.context)
            && array.scalar() == Some(folded.op.result)
            && (folded.rows, folded.len) == (self.plan.rows, self.plan.len)
    }

    fn add_input(&mut self, array: &Array, spread: RowVariance) -> HostResult<OperandSource> {
        materialize_for(array, self.context)?;
        let scalar = array.scalar().ok_or_else(|| evaluate::internal_error("an array of structs in an expression"))?;
        let same = |input: &RowInput| {
            Arc::ptr_eq(input.array.data(), array.data()) && input.scalar == scalar && input.variance == spread
        };
        if let Some(known) = self.plan.inputs.iter().position(same) {
            return Ok(OperandSource::Input(known));
        }
        self.plan.inputs.push(RowInput { array: array.clone(), scalar, variance: spread });
        Ok(OperandSource::Input(self.plan.inputs.len() - 1))
    }
}

/// Runs the kernel of a plan. `result` is the element type of its result.
fn launch_rows(plan: RowPlan, result: Scalar, context: &ExecContext) -> HostResult<Storage> {
    let (rows, len) = (plan.rows, plan.len);
    let is_row = plan.steps.last().is_some_and(|step| step.variance == RowVariance::Row);
    let shape = if is_row { vec![rows] } else { vec![rows, len] };
    let bytes = shape.iter().product::<usize>() * result.size();
    let read: usize = plan.inputs.iter().map(|input| input.array.byte_len()).max().unwrap_or(0);
    let context = evaluate::choose_context(context, plan.inputs.iter().map(|input| &input.array), bytes.max(read));
    let division =
        if context.caches_rows() { RowBlockShape::caching_rows(&plan) } else { RowBlockShape::for_plan(&plan) };
    let make = || evaluate::load_kernel(&context, row_kernel::row_kernel(&plan, division, result), false);
    let executable = context.kernel(plan.cache_key(division, result), make)?;
    let mut storage = Storage::unset(bytes);
    let mut args = Vec::with_capacity(plan.inputs.len() + plan.scalars.len() + 5);
    for input in &plan.inputs {
        let shape = match input.variance {
            RowVariance::Element => vec![rows, len],
            RowVariance::Row => vec![rows],
            RowVariance::Column => vec![len],
            RowVariance::All => vec![1],
        };
        args.push(Arg::Array { storage: input.array.storage()?, shape: evaluate::to_extents(&shape) });
    }
    args.push(Arg::ArrayMut { storage: &mut storage, shape: evaluate::to_extents(&shape) });
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    let results = round_results(len);
    args.extend([rows, len, results, len / results].map(|n| Arg::Value(vec![ScalarValue::of(n as i32)])));
    let grid = [rows.div_ceil(division.rows) as u32, 1, 1];
    let extents = LaunchExtents::Grid { grid, block: division.block() };
    library_kernels::launch(&context, &*executable, extents, &mut args, &ElementType::Scalar(result), &shape)?;
    drop(args);
    Ok(storage)
}
