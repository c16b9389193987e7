//! Reductions along an axis, in an order that depends only on the length of the axis.
//!
//! # Order
//! A reduction of `n` elements runs in rounds. A round has `m` results ([`round_results`]: `ceil(n / 64)` or slightly
//! more). Result `j` combines the elements `j`, `j + m`, `j + 2m`, … sequentially. The results are the elements of the
//! next round; the last round has one result. Therefore all devices compute bit-identical results, with any number of
//! workers.
//!
//! A sum of floats is computed in `f64` and rounded to its type once. Each result of a round needs at most 63
//! additions. The number of rounds `r` is `ceil(log64(n))` or one more. The error before the final rounding is
//! therefore at most `63 r 2^-53` times the sum of the magnitudes (2.1e-14 for a million elements).
//!
//! # Kernels
//! A round is a `threads` kernel. Its index space consists of the axes before the reduced one, the `m` results, and the
//! axes after the reduced one. Adjacent threads read adjacent elements. The first round computes the elements of the
//! reduced expression inline, so that they are not stored.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::array::{Array, DeferredWork, ElementType, Reader};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{self, internal_error};
use crate::graph::kernel_builder::{self, MAX_AXES, ReductionRound};
use crate::graph::library_kernels;
use crate::graph::node::{
    ElementwiseOp, MAX_OPS, MAX_PINNED_BYTES, ReductionNode, ReductionOp, ReductionShape, as_node,
};
use crate::graph::plan::{FusionPlan, OperandSource};
use crate::graph::residency::materialize_for;
use crate::graph::row_plan::round_results;
use crate::graph::row_planner;
use crate::graph::view::PIN_RATIO;
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};

/// Maximum length of an axis whose indices are computed in 32 bits.
pub(super) const MAX_I32_EXTENT: usize = 1 << 30;
/// Number of threads from which on a GPU has enough loads in flight, even if each thread issues only one load at a
/// time.
const ENOUGH_THREADS: usize = 1 << 17;
/// Minimum number of threads on a GPU for computing an expression inline in its reduction. With fewer threads, each
/// thread would compute too many elements sequentially.
const MIN_FUSED_THREADS: usize = 1 << 14;
/// Maximum number of scalars that are reduced on the host.
pub(super) const MAX_HOST_SCALARS: usize = 256;

/// Reduces the rows of an array of this shape (with the components of vectors as the last axis). `groups` has an entry
/// per axis: 0 before the rows, 1 along the rows, 2 after them. `None` if there are no rows, or if they are longer than
/// an axis may be.
pub(crate) fn reduce(
    context: &ExecContext,
    fold: &ReductionOp,
    array: &Array,
    shape: &[usize],
    groups: &[u8],
    rows: ReductionShape,
) -> HostResult<Option<Array>> {
    let ReductionShape { outer, len, inner } = rows;
    if len == 0 || outer * inner == 0 {
        return Ok(None);
    }
    let is_on_host = array.data().computed().is_some_and(|storage| storage.here().is_some());
    if outer * len * inner <= MAX_HOST_SCALARS && is_on_host {
        return reduce_on_host(fold, array, rows).map(Some);
    }
    if inner == 1 && row_planner::is_supported(outer, len) {
        return defer_reduction(context, fold, array, shape, rows).map(Some);
    }
    let reduced = reduce_in_rounds(context, fold, array, shape, groups, rows)?;
    reduced
        .map(|storage| Array::with_storage(ElementType::Scalar(fold.result), &[outer, 1, inner], storage))
        .transpose()
}

/// Defers a reduction of rows, so that one row-wise kernel can compute it together with the expressions that use it.
fn defer_reduction(
    context: &ExecContext,
    fold: &ReductionOp,
    array: &Array,
    shape: &[usize],
    rows: ReductionShape,
) -> HostResult<Array> {
    let mut size = evaluate::graph_size(array);
    if size.op_count + 1 > MAX_OPS {
        array.storage()?;
        size = evaluate::graph_size(array);
    }
    let folded = ReductionNode {
        op: *fold,
        array: array.clone(),
        shape: shape.to_vec(),
        rows: rows.outer,
        len: rows.len,
        op_count: size.op_count + 1,
        input_count: size.input_count,
        pinned_bytes: size.pinned_bytes,
        context: context.clone(),
        was_inlined: AtomicBool::new(false),
    };
    let result = Array::deferred(ElementType::Scalar(fold.result), &[rows.outer, 1, 1], Arc::new(folded))?;
    context.record_result(&result, std::iter::once(array))?;
    if array.byte_len() >= MIN_TRACKED_BYTES && array.byte_len() / PIN_RATIO >= result.byte_len() {
        context.pin(&result, array.byte_len(), MAX_PINNED_BYTES);
    }
    Ok(result)
}

/// Minimum number of bytes kept alive by a reduction that is tracked.
const MIN_TRACKED_BYTES: usize = 1 << 20;

impl DeferredWork for ReductionNode {
    fn run(&self, _: usize, _: Reader) -> HostResult<Storage> {
        if let Some(storage) = row_planner::compute_reduction(self)? {
            return Ok(storage);
        }
        // The rows are the last axes.
        let mut inside = 1;
        let within = self.shape.iter().rev().take_while(|&&extent| {
            let is_inside = inside < self.len;
            inside *= extent;
            is_inside
        });
        let first = self.shape.len() - within.count();
        let groups: Vec<u8> = (0..self.shape.len()).map(|axis| u8::from(axis >= first)).collect();
        let rows = ReductionShape { outer: self.rows, len: self.len, inner: 1 };
        let reduced = reduce_in_rounds(&self.context, &self.op, &self.array, &self.shape, &groups, rows)?;
        reduced.ok_or_else(|| internal_error("a reduction of too many rows"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Like [`reduce()`], but computes the result immediately, with one kernel per round.
fn reduce_in_rounds(
    context: &ExecContext,
    fold: &ReductionOp,
    array: &Array,
    shape: &[usize],
    groups: &[u8],
    rows: ReductionShape,
) -> HostResult<Option<Storage>> {
    let ReductionShape { outer, len, inner } = rows;
    materialize_for_few_threads(context, array, outer * round_results(len) * inner)?;
    let Some(PlannedReduction { context, mut plan, mut element, mut axis }) =
        plan_reduction(context, array, shape, groups, rows, fold.accumulator.size())?
    else {
        return Ok(None);
    };
    let mut remaining = len;
    loop {
        let results = round_results(remaining);
        let is_last = results == 1;
        let result = if is_last { fold.result } else { fold.accumulator };
        let divide = is_last && fold.divisor.is_some();
        let index = if remaining > MAX_I32_EXTENT { Scalar::I64 } else { Scalar::I32 };
        let few_threads = outer * results * inner < ENOUGH_THREADS;
        let round = ReductionRound {
            element,
            axis,
            index,
            combine: fold.combine,
            accumulator: fold.accumulator,
            few_threads,
            divide,
            result,
        };
        let storage = launch_round(&plan, &round, remaining, results, fold.divisor, &context)?;
        if is_last {
            return Ok(Some(storage));
        }
        let array = Array::with_storage(ElementType::Scalar(result), &[outer, results, inner], storage)?;
        if inner == 1 && row_planner::can_finish(outer, results) {
            return row_planner::finish_reduction(fold, &array, outer, results, &context).map(Some);
        }
        PlannedReduction { plan, element, axis, .. } = PlannedReduction::for_results(&array, &context)?;
        remaining = results;
    }
}

/// Computes and stores the elements of an expression before its reduction if the reduction has only a few threads. On a
/// GPU, it is then faster to compute the elements with one thread each.
fn materialize_for_few_threads(context: &ExecContext, array: &Array, threads: usize) -> HostResult<()> {
    let is_expression = array.data().work().is_some_and(|work| as_node(&*work).is_some());
    if is_expression && threads < MIN_FUSED_THREADS && context.is_gpu() {
        materialize_for(array, context)?;
    }
    Ok(())
}

/// The plan of a reduction round.
pub(super) struct PlannedReduction {
    pub context: ExecContext,
    pub plan: FusionPlan,
    pub element: OperandSource,
    /// The axis of the plan along which elements are combined.
    pub axis: usize,
}

impl PlannedReduction {
    /// Plans the next round, which reduces the results of the previous round.
    fn for_results(results: &Array, context: &ExecContext) -> HostResult<PlannedReduction> {
        let (plan, element, kinds) = FusionPlan::for_axis_groups(results, results.shape(), &[0, 1, 2], context)?;
        let axis =
            kinds.iter().position(|kind| *kind == 1).ok_or_else(|| internal_error("a reduction without its axis"))?;
        Ok(PlannedReduction { context: context.clone(), plan, element, axis })
    }
}

/// Plans the first round of a reduction of an array; `None` if the axes cannot be merged into three. `size` is the size
/// of a result.
pub(super) fn plan_reduction(
    context: &ExecContext,
    array: &Array,
    shape: &[usize],
    groups: &[u8],
    rows: ReductionShape,
    size: usize,
) -> HostResult<Option<PlannedReduction>> {
    let (mut plan, mut element, mut kinds) = FusionPlan::for_axis_groups(array, shape, groups, context)?;
    let is_even = |kinds: &[u8]| kinds.windows(2).all(|pair| pair[0] != pair[1]);
    if !is_even(&kinds) {
        // An input has different strides along the axes of a group, which prevents merging. The stored array has a
        // single stride.
        materialize_for(array, context)?;
        (plan, element, kinds) = FusionPlan::for_axis_groups(array, shape, groups, context)?;
        if !is_even(&kinds) {
            return Ok(None);
        }
    }
    if rows.len == 1 {
        // A row of one element: add an axis of extent 1.
        let at = kinds.iter().take_while(|kind| **kind == 0).count();
        let single = kinds.is_empty() || plan.axes == [1];
        if single {
            kinds = vec![1];
        } else {
            plan.axes.insert(at, 1);
            plan.inputs.iter_mut().for_each(|input| input.strides.insert(at, 0));
            kinds.insert(at, 1);
        }
    }
    if plan.axes.len() > MAX_AXES {
        return Ok(None);
    }
    context.forget_result(array);
    let context = evaluate::plan_context(context, &plan, rows.outer * rows.len * rows.inner * size);
    let axis =
        kinds.iter().position(|kind| *kind == 1).ok_or_else(|| internal_error("a reduction without its axis"))?;
    Ok(Some(PlannedReduction { context, plan, element, axis }))
}

/// Runs one round, which reduces `len` elements along the axis to `round_results` elements.
fn launch_round(
    plan: &FusionPlan,
    round: &ReductionRound,
    len: usize,
    round_results: usize,
    divisor: Option<f64>,
    context: &ExecContext,
) -> HostResult<Storage> {
    let mut key = plan.cache_key();
    key.extend(match round.element {
        OperandSource::Input(i) => [250, i as u8],
        OperandSource::Step(i) => [251, i as u8],
        OperandSource::Scalar(_) | OperandSource::Constant(_) => return Err(internal_error("a reduction of a scalar")),
    });
    key.extend([round.axis as u8, round.index as u8, round.accumulator as u8, round.result as u8]);
    key.extend([u8::from(round.few_threads), u8::from(round.divide)]);
    key.extend(match round.combine {
        ElementwiseOp::Binary(op) => [0, op as u8],
        ElementwiseOp::Math(function) => [1, function as u8],
        _ => return Err(internal_error("a reduction by no operator")),
    });
    let executable = context.kernel(key, || {
        evaluate::load_kernel(context, kernel_builder::reduction_kernel(plan, round), plan.has_guards)
    })?;
    let mut axes = plan.axes.clone();
    axes[round.axis] = round_results;
    let mut storage = Storage::unset(axes.iter().product::<usize>() * round.result.size());
    let mut args = evaluate::input_args(plan)?;
    args.push(Arg::ArrayMut { storage: &mut storage, shape: evaluate::to_extents(&axes) });
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    args.extend(
        [round_results, len / round_results, len]
            .map(|n| Arg::Value(vec![ScalarValue::of(n as i64).to_type(round.index)])),
    );
    if let (true, Some(divisor)) = (round.divide, divisor) {
        args.push(Arg::Value(vec![ScalarValue::of(divisor).to_type(round.accumulator)]));
    }
    let mut space = [1; MAX_AXES];
    space.iter_mut().zip(&axes).for_each(|(slot, &n)| *slot = n as u32);
    library_kernels::launch(
        context,
        &*executable,
        LaunchExtents::Threads(space),
        &mut args,
        &round.result.into(),
        &axes,
    )?;
    drop(args);
    Ok(storage)
}

/// Reduces a small array on the host. The order of combination is the same as in the kernels.
fn reduce_on_host(
    fold: &ReductionOp,
    array: &Array,
    ReductionShape { outer, len, inner }: ReductionShape,
) -> HostResult<Array> {
    let scalar = array.scalar().ok_or_else(|| internal_error("a reduction of structs"))?;
    let bytes = array.bytes()?;
    let mut result = Array::zeros(fold.result, &[outer, 1, inner])?;
    let size = fold.result.size();
    for (column, place) in result.bytes_mut()?.chunks_exact_mut(size).enumerate() {
        let (block, within) = (column / inner, column % inner);
        let element = |row: usize| {
            let at = ((block * len + row) * inner + within) * scalar.size();
            ScalarValue::from_bytes(scalar, bytes.get(at..).unwrap_or(&[])).to_type(fold.accumulator)
        };
        let mut elements: Vec<ScalarValue> = (0..len).map(element).collect();
        loop {
            elements = combine_round(fold, &elements)?;
            if elements.len() <= 1 {
                break;
            }
        }
        let Some(mut total) = elements.first().copied() else { continue };
        if let Some(divisor) = fold.divisor {
            let divide = ElementwiseOp::Binary(clk_scalar::ops::BinaryOp::Div);
            total = divide
                .apply(&[total, ScalarValue::of(divisor).to_type(fold.accumulator)])
                .map_err(evaluate::scalar_error)?;
        }
        place.copy_from_slice(&total.to_type(fold.result).to_bytes()[..size]);
    }
    Ok(result)
}

/// Computes one round of a reduction of one row on the host.
fn combine_round(fold: &ReductionOp, elements: &[ScalarValue]) -> HostResult<Vec<ScalarValue>> {
    let results = round_results(elements.len());
    let column = |(j, first): (usize, &ScalarValue)| {
        let mut others = elements.iter().skip(j + results).step_by(results).copied();
        others.try_fold(*first, |total, x| fold.combine.apply(&[total, x]).map_err(evaluate::scalar_error))
    };
    elements.iter().take(results).enumerate().map(column).collect()
}
