//! Selection by masks on a GPU. Input: a mask and an array. Output: the selected elements, their positions, or a copy
//! with a value where the mask is true. A kernel of `std.scan` makes one pass over memory (stream compaction). If the
//! mask is a deferred comparison of an array with a number, the kernel evaluates the comparison itself, so that the
//! mask is not stored.

use std::sync::Arc;

use crate::array::{AlignedBytes, Array, ElementType, MAX_EXTENT, no_memory};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{defer, internal_error, to_extents};
use crate::graph::gather::MAX_HOST_ELEMENTS;
use crate::graph::library_kernels::{self, LibraryArgument};
use crate::graph::node::{ElementwiseOp, NodeOperand, as_node};
use crate::graph::residency::may_be_on_device;
use crate::graph::view::{ViewAxis, make_view, scalar_shape};
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue};

/// Number of threads per block, as in `std.scan`.
const THREADS: usize = 512;
/// Number of elements per thread.
const PER_THREAD: usize = 16;
/// Number of elements per thread for elements of more than 4 bytes. It is smaller because shared memory holds the
/// selected elements of a block.
const PER_THREAD_LARGE: usize = 8;
/// The result is first written to a buffer with space for all elements. The buffer is reallocated only if it is larger
/// than the selection by this factor.
const SPARSE_RATIO: usize = 4;

/// The predicate of a selection: a comparison function of `std.scan`, and its operands, an array and a number.
struct MaskPredicate {
    array: Array,
    function: &'static str,
    limit: ScalarValue,
}

impl MaskPredicate {
    fn from_mask(context: &ExecContext, mask: &Array) -> HostResult<MaskPredicate> {
        if let Some(compares) = MaskPredicate::from_comparison(mask) {
            context.forget_result(mask);
            return Ok(compares);
        }
        let by = mask.reinterpret_as(ElementType::Scalar(Scalar::U8), &[mask.count()])?;
        Ok(MaskPredicate { array: by, function: "marked", limit: ScalarValue::zero(Scalar::U8) })
    }

    /// Returns the predicate of a mask that is a deferred comparison of a computed array with a number; `None` for
    /// other masks.
    fn from_comparison(mask: &Array) -> Option<MaskPredicate> {
        let work = mask.data().work()?;
        let node = as_node(&*work)?;
        let (ElementwiseOp::Binary(op), operands) = (node.op, node.operands()) else { return None };
        let (array, shape, limit, op) = match &operands[..] {
            [NodeOperand::Array(array, shape), NodeOperand::Scalar(limit)] => (array, shape, limit, op),
            [NodeOperand::Scalar(limit), NodeOperand::Array(array, shape)] => (array, shape, limit, swap_operands(op)),
            _ => return None,
        };
        let is_plain = array.scalar() == Some(limit.ty) && array.element().lanes() == 1 && limit.ty != Scalar::Bool;
        let is_computed = shape == &node.shape && array.count() == mask.count() && array.data().computed().is_some();
        let holds = match op {
            BinaryOp::Eq => "equal",
            BinaryOp::Ne => "unequal",
            BinaryOp::Lt => "below",
            BinaryOp::Le => "at_most",
            BinaryOp::Gt => "above",
            BinaryOp::Ge => "at_least",
            _ => return None,
        };
        (is_plain && is_computed).then(|| MaskPredicate { array: array.clone(), function: holds, limit: *limit })
    }
}

/// Returns the comparison that is equivalent after swapping the operands: `<` becomes `>`.
fn swap_operands(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

/// The source of the selected elements, as in `chosen` in `std.scan`.
enum SelectionSource {
    Positions,
    Array(Array),
    Compared,
}

/// Returns whether the context's device is a GPU that should select elements of the array by the mask, or write to
/// them. False if mask and array are on the host, which should then do it.
fn selects_on_gpu(context: &ExecContext, mask: &Array, array: &Array) -> bool {
    let is_on_device = may_be_on_device(context, mask) || may_be_on_device(context, array);
    let is_supported = mask.count() > 0 && mask.count() <= MAX_EXTENT - THREADS * PER_THREAD && !array.is_empty();
    // `is_gpu` may initialize a device, so it is called only if necessary.
    is_on_device && is_supported && context.is_gpu()
}

/// Returns the positions where the mask is true, in ascending order; `None` if the host should find them. `array` is
/// the array that will be indexed by them.
pub(crate) fn mask_positions(context: &ExecContext, mask: &Array, array: &Array) -> HostResult<Option<Array>> {
    if !selects_on_gpu(context, mask, array) {
        return Ok(None);
    }
    let at = run_selection(
        context,
        &MaskPredicate::from_mask(context, mask)?,
        SelectionSource::Positions,
        Scalar::I32.into(),
    )?;
    at.data().record_index_bound(Scalar::I32, mask.count());
    Ok(Some(at))
}

/// Returns the elements of an array, in order, for which a mask of the same shape is true. `None` if the selection
/// should use positions or the host instead.
pub(crate) fn select_by_mask(context: &ExecContext, array: &Array, mask: &Array) -> HostResult<Option<Array>> {
    let element = array.element().clone();
    let word = [Scalar::U8, Scalar::U16, Scalar::U32, Scalar::U64].into_iter().find(|w| w.size() == element.size());
    let (Some(word), true) = (word, array.shape() == mask.shape()) else { return Ok(None) };
    if !selects_on_gpu(context, mask, array) {
        return Ok(None);
    }
    array.storage()?;
    let predicate = MaskPredicate::from_mask(context, mask)?;
    let is_same =
        Arc::ptr_eq(predicate.array.data(), array.data()) && element == ElementType::Scalar(predicate.limit.ty);
    let from = match is_same {
        true => SelectionSource::Compared,
        false => SelectionSource::Array(array.reinterpret_as(ElementType::Scalar(word), &[array.count()])?),
    };
    context.forget_result(array);
    run_selection(context, &predicate, from, element).map(Some)
}

/// Runs the selection kernel. `element` is the element type of the result.
fn run_selection(
    context: &ExecContext,
    predicate: &MaskPredicate,
    from: SelectionSource,
    element: ElementType,
) -> HostResult<Array> {
    let count = predicate.array.count();
    let size = element.size();
    let each = if size > 4 { PER_THREAD_LARGE } else { PER_THREAD };
    let blocks = count.div_ceil(THREADS * each);
    let (scalar, mode) = match &from {
        SelectionSource::Positions => (Scalar::I32, 0),
        SelectionSource::Array(words) => (words.scalar().ok_or_else(|| internal_error("a selection of structs"))?, 1),
        SelectionSource::Compared => (predicate.limit.ty, 2),
    };
    let arguments = [
        LibraryArgument::Type(scalar),
        LibraryArgument::Type(predicate.limit.ty),
        LibraryArgument::Function(predicate.function, predicate.limit.ty),
        LibraryArgument::Number(mode),
        LibraryArgument::Number(each as i32),
    ];
    let executable = library_kernels::library_kernel(context, "chosen", &arguments)?;
    let (empty, mut block_totals) = (Storage::zeros(0), Storage::zeros(blocks * Scalar::U64.size()));
    let mut result = Storage::unset(count * size);
    let input = match &from {
        SelectionSource::Array(words) => Arg::Array { storage: words.storage()?, shape: to_extents(&[count]) },
        SelectionSource::Positions | SelectionSource::Compared => {
            Arg::Array { storage: &empty, shape: to_extents(&[0]) }
        }
    };
    let mut args = [
        Arg::Array { storage: predicate.array.storage()?, shape: to_extents(&[count]) },
        Arg::Value(vec![predicate.limit]),
        input,
        Arg::ArrayMut { storage: &mut block_totals, shape: to_extents(&[blocks]) },
        Arg::ArrayMut { storage: &mut result, shape: to_extents(&[count]) },
    ];
    let grid = LaunchExtents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS as u32, 1, 1] };
    library_kernels::launch(context, &*executable, grid, &mut args, &element, &[count])?;
    drop(args);
    let block_totals = Array::with_storage(ElementType::Scalar(Scalar::U64), &[blocks], block_totals)?;
    let total = block_totals.item(blocks - 1)?.and_then(|word| word.as_int());
    let total = total.map(|word| (word & 0xffff_ffff) as usize).filter(|&total| total <= count);
    let total = total.ok_or_else(|| internal_error("a count of marks"))?;
    if total == 0 {
        return Array::zeros(element, &[0]);
    }
    if total > count / SPARSE_RATIO {
        let result = match result.here().and_then(|bytes| bytes.get(..total * size)) {
            // The bytes are on the host if a simulator counts the costs of a GPU, because a simulator does not copy
            // arrays.
            Some(bytes) => {
                let bytes = AlignedBytes::copy_of(bytes).ok_or_else(|| no_memory(&element, &[total]))?;
                Storage::of_bytes(bytes)
            }
            None => {
                result.cut(total * size);
                result
            }
        };
        return Array::with_storage(element, &[total], result);
    }
    let result = Array::with_storage(element, &[count], result)?;
    let part = make_view(&context.without_collecting(), &result, vec![ViewAxis::full(0)], &[total])?;
    part.storage()?;
    Ok(part)
}

/// Returns a copy of the array in which elements are replaced by a value where the mask is true. The mask has the shape
/// of the array's first axes. `None` if mask and array are on the host, which should then write in place.
pub(crate) fn replace_where(
    context: &ExecContext,
    array: &Array,
    mask: &Array,
    value: ScalarValue,
) -> HostResult<Option<Array>> {
    let own = array.element().clone();
    let is_near = !may_be_on_device(context, array) && !may_be_on_device(context, mask);
    if own != ElementType::Scalar(value.ty) || is_near || array.count() <= MAX_HOST_ELEMENTS {
        return Ok(None);
    }
    let mut over = mask.shape().to_vec();
    over.resize(array.rank(), 1);
    let shape = scalar_shape(&own, array.shape());
    let operands = vec![
        NodeOperand::Array(mask.clone(), over),
        NodeOperand::Scalar(value),
        NodeOperand::Array(array.clone(), shape.clone()),
    ];
    defer(context, ElementwiseOp::Select, operands, value.ty, own, &shape).map(Some)
}
