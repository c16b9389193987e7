//! Gather: indexing by arrays of positions. Input: an array, lists of positions along some of its axes, and the slices
//! of its other axes. Output: a deferred array whose elements a kernel loads at these positions. A reduction on the
//! device immediately checks that all positions are in bounds. Therefore an error is reported at the right line, and
//! the deferred loads cannot fail.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::array::{Array, ArrayScalar, DeferredWork, MAX_EXTENT, Reader, byte_count};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{defer, graph_size, internal_error, run_plan};
use crate::graph::lazy_gather::{GatherSource, IndexList, LazyGather};
use crate::graph::node::{ElementwiseOp, GraphSize, MAX_INPUTS, MAX_OPS, NodeOperand, ReductionOp, ReductionShape};
use crate::graph::plan::FusionPlan;
use crate::graph::reduce::reduce;
use crate::graph::residency::{is_on_device, is_on_host, view_as_scalars};
use crate::graph::view::{PIN_RATIO, ViewAxis};
use crate::problem::HostResult;
use clk_base::alloc;
use clk_runtime::storage::Storage;
use clk_scalar::ops::BinaryOp;
use clk_scalar::with_integer;
use clk_scalar::{Scalar, ScalarValue};

/// Maximum number of elements of a result that the host gathers if all data are on the host. Tests use a small limit to
/// exercise the kernels.
pub(super) const MAX_HOST_ELEMENTS: usize = if cfg!(test) { 16 } else { 1 << 10 };

/// Gathers the elements of an array at these positions. `axes` has an entry for each axis of the array; `shape` is the
/// shape of the result. Returns `None` if the host should gather instead, or if a position is out of bounds.
pub(crate) fn gather(
    context: &ExecContext,
    array: &Array,
    axes: Vec<ViewAxis>,
    lists: Vec<IndexList>,
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let bytes = byte_count(array.element(), shape)?;
    let Some((source, last)) = view_as_scalars(array)? else { return Ok(None) };
    let extended = |shape: &[usize]| shape.iter().copied().chain(last).collect::<Vec<usize>>();
    let (source_shape, result_shape) = (extended(array.shape()), extended(shape));
    let axes: Vec<ViewAxis> = axes.into_iter().chain(last.map(|_| ViewAxis::full(shape.len()))).collect();
    let count = result_shape.iter().product::<usize>();
    let all = || std::iter::once(array).chain(lists.iter().map(|list| &list.positions));
    if bytes == 0
        || source_shape.iter().product::<usize>() > MAX_EXTENT
        || count <= MAX_HOST_ELEMENTS && all().all(is_on_host)
    {
        return Ok(None);
    }
    let context = &gather_context(context, array, bytes);
    for list in &lists {
        if !are_in_bounds(&list.positions, array.shape()[list.axis], context)? {
            return Ok(None);
        }
    }
    let scalar = source.scalar().ok_or_else(|| internal_error("a selection of structs"))?;
    let is_pinning = bytes <= array.byte_len() / PIN_RATIO;
    let pinned = if is_pinning { array.byte_len() } else { 0 };
    let (axes, lists) = replace_iota_lists(axes, lists);
    let operands: Vec<Array> =
        std::iter::once(array).chain(lists.iter().map(|list| &list.positions)).cloned().collect();
    let GraphSize { op_count: size, input_count: inputs, pinned_bytes: pinned, .. } = combined_size(&lists, pinned)?;
    let work = LazyGather {
        state: LazyGather::pending_state(source.clone(), lists.clone()),
        axes,
        source_shape,
        shape: result_shape,
        scalar,
        context: context.clone(),
        op_count: size,
        input_count: inputs,
        pinned_bytes: pinned,
        was_inlined: AtomicBool::new(false),
    };
    let work: Arc<dyn DeferredWork> = Arc::new(work);
    source.data().add_reader(&work);
    let result = Array::deferred(array.element().clone(), shape, work)?;
    if is_pinning && is_on_host(array) {
        // Compute the result now, because deferring it would keep a much larger array in memory.
        result.storage()?;
    } else {
        context.record_result(&result, operands.iter())?;
    }
    Ok(Some(result))
}

/// Replaces lists of the positions 0, 1, 2, … by a plain index along the result's axis. At least one list is kept.
fn replace_iota_lists(mut axes: Vec<ViewAxis>, mut lists: Vec<IndexList>) -> (Vec<ViewAxis>, Vec<IndexList>) {
    while let Some(found) = lists.iter().position(|list| list.positions.is_iota()).filter(|_| lists.len() > 1) {
        let list = lists.swap_remove(found);
        if let Some(axis) = axes.get_mut(list.axis) {
            *axis = ViewAxis::full(list.first_axis);
        }
    }
    (axes, lists)
}

/// Returns the one-hot mask of a list of positions: a matrix in which row `i` is true only in column `at[i]`. `None` if
/// a position is out of bounds.
pub(crate) fn one_hot_mask(context: &ExecContext, at: &Array, columns: usize) -> HostResult<Option<Array>> {
    let shape = [at.count(), columns];
    if byte_count(&Scalar::Bool.into(), &shape)? == 0 || columns > MAX_EXTENT || !are_in_bounds(at, columns, context)? {
        return Ok(None);
    }
    let (own, scalar) = ([at.count(), 1], Scalar::I32);
    let numbers: Vec<i32> = alloc::collect(columns, 0..columns as i32);
    let at = converted(context, at.with_shape(&own)?, scalar)?;
    let numbers = NodeOperand::Array(Array::from_shaped(&numbers, &[1, columns])?, vec![1, columns]);
    let operands = vec![NodeOperand::Array(at, own.to_vec()), numbers];
    defer(context, ElementwiseOp::Binary(BinaryOp::Eq), operands, Scalar::Bool, Scalar::Bool.into(), &shape).map(Some)
}

/// Returns the context in which to gather `bytes` bytes: a GPU, unless the array would have to be uploaded and is much
/// larger than the result.
fn gather_context(context: &ExecContext, array: &Array, bytes: usize) -> ExecContext {
    let needs_upload = array.data().computed().is_some() && !is_on_device(array);
    match context.host_context() {
        Some(host) if needs_upload && 2 * bytes < array.byte_len() => host,
        _ => context.clone(),
    }
}

/// Returns the size of the graph that consists of the gather and the computation of its positions. If that graph is too
/// large for one kernel, computes the positions first.
fn combined_size(lists: &[IndexList], pinned: usize) -> HostResult<GraphSize> {
    let sum = || {
        let each = lists.iter().map(|list| graph_size(&list.positions));
        let first = GraphSize { op_count: 1, input_count: 1, pinned_bytes: pinned, has_reductions: false };
        each.fold(first, |a, b| GraphSize {
            op_count: a.op_count + b.op_count + 1,
            input_count: a.input_count + b.input_count,
            pinned_bytes: a.pinned_bytes.saturating_add(b.pinned_bytes),
            has_reductions: false,
        })
    };
    if sum().op_count > MAX_OPS / 2 || sum().input_count > MAX_INPUTS / 2 {
        lists.iter().try_for_each(|list| list.positions.storage().map(drop))?;
    }
    Ok(sum())
}

/// Returns whether all integers of an array are valid positions along an axis of this length.
pub(super) fn are_in_bounds(at: &Array, len: usize, context: &ExecContext) -> HostResult<bool> {
    let scalar = at.scalar().ok_or_else(|| internal_error("structs as positions"))?;
    if at.data().has_index_bound(scalar, len) {
        return Ok(true);
    }
    let inside = if at.count() <= MAX_HOST_ELEMENTS && is_on_host(at) {
        with_integer!(scalar, T => check_on_host::<T>(at, len)?, _ => return Ok(false))
    } else {
        check_by_reduction(&context.without_collecting(), at, scalar, len)?
    };
    if inside && at.data().computed().is_some() {
        at.data().record_index_bound(scalar, len);
    }
    Ok(inside)
}

fn check_on_host<T: ArrayScalar>(at: &Array, len: usize) -> HostResult<bool> {
    // As unsigned numbers, negative positions and positions of type `u64` above the range of `i64` are large, so that
    // one comparison suffices.
    Ok(at.items::<T>()?.iter().all(|number| (number.to::<i64>() as u64) < len as u64))
}

/// Converts the elements of an array, unless they have the type already.
fn converted(context: &ExecContext, array: Array, to: Scalar) -> HostResult<Array> {
    if array.scalar() == Some(to) {
        return Ok(array);
    }
    let shape = array.shape().to_vec();
    let operands = vec![NodeOperand::Array(array, shape.clone())];
    defer(context, ElementwiseOp::Convert(to), operands, to, to.into(), &shape)
}

/// Checks on the device that all integers, interpreted as unsigned, are less than the length.
fn check_by_reduction(context: &ExecContext, at: &Array, scalar: Scalar, len: usize) -> HostResult<bool> {
    let shape = at.shape().to_vec();
    let convert = |array: Array, to: Scalar| converted(context, array, to);
    let numbers = match scalar {
        Scalar::I64 | Scalar::U64 => convert(at.clone(), Scalar::U64)?,
        Scalar::I8 | Scalar::I16 => convert(convert(at.clone(), Scalar::I32)?, Scalar::U32)?,
        _ => convert(at.clone(), Scalar::U32)?,
    };
    let limit = ScalarValue::of(len as u64).to_type(numbers.scalar().unwrap_or(Scalar::U32));
    let operands = vec![NodeOperand::Array(numbers, shape.clone()), NodeOperand::Scalar(limit)];
    let outside =
        defer(context, ElementwiseOp::Binary(BinaryOp::Ge), operands, Scalar::Bool, Scalar::Bool.into(), &shape)?;
    let any_set = ReductionOp {
        combine: ElementwiseOp::Binary(BinaryOp::BitOr),
        accumulator: Scalar::Bool,
        divisor: None,
        result: Scalar::Bool,
    };
    let rows = ReductionShape { outer: 1, len: at.count(), inner: 1 };
    match reduce(context, &any_set, &outside, &shape, &vec![1; shape.len()], rows)? {
        Some(found) => Ok(found.bytes()?.iter().all(|byte| *byte == 0)),
        None => Ok(false),
    }
}

/// Computes the elements of a deferred gather.
fn compute_gather(picked: &LazyGather, parts: &GatherSource, len: usize) -> HostResult<Storage> {
    let (plan, element) = FusionPlan::for_gather(picked, parts)?;
    run_plan(&plan, element, picked.scalar, &picked.shape, &picked.context, len, false)
}

impl DeferredWork for LazyGather {
    fn run(&self, len: usize, _: Reader) -> HostResult<Storage> {
        if let Some(parts) = self.pending_source() {
            return compute_gather(self, &parts, len);
        }
        self.take_computed().ok_or_else(|| internal_error("a selection that is computed twice"))
    }

    fn detach(&self, len: usize) -> HostResult<()> {
        let Some(parts) = self.pending_source() else { return Ok(()) };
        let computed = compute_gather(self, &parts, len)?;
        self.set_computed(computed);
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        self.pending_source().map_or(0, |_| self.shape.iter().product::<usize>() * self.scalar.size())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
