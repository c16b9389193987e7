//! Assignment to slices, and concatenation: writes the elements of an expression into a slice of an array, on the
//! device on which the array resides.

use std::sync::Arc;

use crate::array::{Array, ElementType, MAX_EXTENT, byte_count};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{PlanOutput, as_array, run_plan_into};
use crate::graph::node::NodeOperand;
use crate::graph::out_of_core;
use crate::graph::plan::{FusionPlan, OutputWindow};
use crate::graph::residency::{may_be_on_device, view_as_scalars};
use crate::graph::view::{ViewAxis, column_in_units, scalar_shape, view_lattice};
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_scalar::{Scalar, ScalarValue};

/// Minimum size in bytes of a deferred operand that a kernel writes directly into the slice. Smaller operands are
/// computed separately and copied.
const MIN_KERNEL_BYTES: usize = 1 << 12;

/// Writes an operand, broadcast to `shape`, into the slice of the array that the axes describe, as for a view. Returns
/// false without changing anything if the bytes are on the host; the caller must then copy them.
pub(crate) fn write_window(
    context: &ExecContext,
    array: &mut Array,
    axes: &[ViewAxis],
    shape: &[usize],
    operand: &NodeOperand,
) -> HostResult<bool> {
    let Some(scalar) = array.scalar() else { return write_structs(context, array, axes, shape, operand) };
    if array.data().computed().is_none() && context.is_gpu() {
        // Computing the array first ensures that it is written on its device, and not on the host.
        array.storage()?;
    }
    let lanes = array.element().lanes();
    let bytes = shape.iter().product::<usize>() * array.element().size();
    let (own, whole) = (scalar_shape(array.element(), array.shape()), scalar_shape(array.element(), shape));
    let mut axes = axes.to_vec();
    if lanes > 1 {
        axes.push(ViewAxis::full(shape.len()));
    }
    let at = view_lattice(&own, &axes, &whole);
    if out_of_core::store_window(array, &at, operand, context)? {
        return Ok(true);
    }
    // An array of zeros that has no memory yet is allocated on the device of the operand.
    let value_is_on_device =
        as_array(operand).is_some_and(|array| may_be_on_device(context, array)) && bytes >= MIN_KERNEL_BYTES;
    let stays_on_device =
        |storage: &Storage| storage.here().is_none() && (value_is_on_device || storage.remote().is_some());
    let writes_on_device = context.counts_launches() || array.data().computed().is_some_and(stays_on_device);
    let is_pending = as_array(operand).is_some_and(|value| value.data().computed().is_none())
        && bytes >= MIN_KERNEL_BYTES
        && !context.is_gpu();
    if bytes == 0 || array.count() * lanes > MAX_EXTENT || !(writes_on_device && context.is_gpu() || is_pending) {
        return Ok(false);
    }
    let kept_strides = at.strides.iter().zip(&whole).filter(|(_, len)| **len != 1);
    let strides: Vec<isize> = kept_strides.map(|(stride, _)| *stride).collect();
    let part = || OutputWindow { offset: at.offset, strides: strides.clone() };
    let (mut plan, mut element) = FusionPlan::for_window(operand, &whole, part(), context)?;
    if plan.inputs.iter().any(|input| Arc::ptr_eq(input.array.data(), array.data())) {
        // The kernel must not overwrite elements that it reads.
        let Some(value) = as_array(operand) else { return Ok(false) };
        value.storage()?;
        if !writes_on_device || Arc::ptr_eq(value.data(), array.data()) {
            return Ok(false);
        }
        (plan, element) = FusionPlan::for_window(operand, &whole, part(), context)?;
    }
    let extent = [array.count() as u32 * lanes as u32];
    let output = PlanOutput { storage: array.storage_mut()?, extents: &extent };
    run_plan_into(&plan, element, scalar, &whole, context, output, false)?;
    Ok(true)
}

/// Writes one element of an array that is only on a GPU. Returns false without changing anything if the array is not
/// only on a GPU, or if it should be moved to the host because of the number of single elements written so far.
pub(crate) fn write_element(
    context: &ExecContext,
    array: &mut Array,
    indices: &[usize],
    bytes: &[u8],
) -> HostResult<bool> {
    if !may_be_on_device(context, array) || context.device().memory().is_none() {
        return Ok(false);
    }
    let Some(count) = array.storage()?.element_write_count() else { return Ok(false) };
    let axes: Vec<ViewAxis> = indices.iter().map(|&index| ViewAxis::index(index)).collect();
    let operand = match array.element() {
        ElementType::Scalar(scalar) => NodeOperand::Scalar(ScalarValue::from_bytes(*scalar, bytes)),
        element => NodeOperand::Array(Array::from_bytes(element.clone(), &[], bytes)?, scalar_shape(element, &[])),
    };
    let written = write_window(context, array, &axes, &[], &operand)?;
    if let (true, Some(storage)) = (written, array.data().computed()) {
        storage.set_element_write_count(count + 1);
    }
    Ok(written)
}

/// Like [`write_window`], but for structs. They are written as words (unsigned integers).
fn write_structs(
    context: &ExecContext,
    array: &mut Array,
    axes: &[ViewAxis],
    shape: &[usize],
    operand: &NodeOperand,
) -> HostResult<bool> {
    let Some(value) = as_array(operand).filter(|_| may_be_on_device(context, array)) else { return Ok(false) };
    let (Some((source, Some(words))), Some((value, _))) = (view_as_scalars(array)?, view_as_scalars(value)?) else {
        return Ok(false);
    };
    let axes = [axes, &[ViewAxis::full(shape.len())]].concat();
    let own = value.shape().to_vec();
    write_as_scalars(context, array, source, &axes, &[shape, &[words]].concat(), &NodeOperand::Array(value, own))
}

/// Writes a column, such as a field of each struct, of an array on a GPU. The column begins at byte `first` of each
/// element. The sizes of elements and columns are multiples of the scalar type `unit`. Returns false in the same cases
/// as [`write_window`].
pub(crate) fn write_column(
    context: &ExecContext,
    array: &mut Array,
    column: &Array,
    unit: Scalar,
    first: usize,
) -> HostResult<bool> {
    if !may_be_on_device(context, array) || array.is_empty() {
        return Ok(false);
    }
    let (source, axes, whole) = column_in_units(array, column.element(), unit, first)?;
    let value = column.reinterpret_as(ElementType::Scalar(unit), &whole)?;
    write_as_scalars(context, array, source, &axes, &whole, &NodeOperand::Array(value, whole.clone()))
}

/// Writes into an array through a reinterpretation of it as scalars. During the write, the reinterpretation has the
/// only reference to the bytes.
fn write_as_scalars(
    context: &ExecContext,
    array: &mut Array,
    mut source: Array,
    axes: &[ViewAxis],
    shape: &[usize],
    operand: &NodeOperand,
) -> HostResult<bool> {
    let (own, outer) = (array.element().clone(), array.shape().to_vec());
    *array = Array::unplaced(own.clone(), &[0])?;
    let written = write_window(context, &mut source, axes, shape, operand);
    *array = source.reinterpret_as(own, &outer)?;
    written
}

/// Concatenates arrays along an axis. `None` if their bytes are on the host; the caller must then copy them.
pub(crate) fn concatenate(
    context: &ExecContext,
    parts: &[&Array],
    axis: usize,
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let Some(first) = parts.first() else { return Ok(None) };
    if first.scalar().is_none() && parts.iter().any(|part| may_be_on_device(context, part)) {
        let all = parts.iter().map(|part| view_as_scalars(part)).collect::<HostResult<Option<Vec<_>>>>()?;
        let Some((words, Some(last))) = all.and_then(|all| Some((all.clone(), all.first()?.1))) else {
            return Ok(None);
        };
        let words: Vec<&Array> = words.iter().map(|(part, _)| part).collect();
        let joined = concatenate(context, &words, axis, &[shape, &[last]].concat())?;
        return joined.map(|joined| joined.reinterpret_as(first.element().clone(), shape)).transpose();
    }
    let is_on_host = |part: &&Array| part.data().computed().is_some_and(|storage| storage.here().is_some());
    let Some(scalar) = first.scalar().filter(|_| !parts.iter().all(is_on_host)) else { return Ok(None) };
    let bytes = byte_count(first.element(), shape)?;
    if bytes < MIN_KERNEL_BYTES || bytes / scalar.size() > MAX_EXTENT {
        return Ok(None);
    }
    let mut storage = Storage::unset(bytes);
    let whole = scalar_shape(first.element(), shape);
    let mut start = 0;
    for part in parts {
        let own = scalar_shape(part.element(), part.shape());
        let mut axes: Vec<ViewAxis> = (0..own.len()).map(ViewAxis::full).collect();
        axes[axis].start = start;
        start += own[axis];
        if own.contains(&0) {
            continue;
        }
        let at = view_lattice(&whole, &axes, &own);
        let kept_strides = at.strides.iter().zip(&own).filter(|(_, len)| **len != 1);
        let place = OutputWindow { offset: at.offset, strides: kept_strides.map(|(stride, _)| *stride).collect() };
        let (plan, element) =
            FusionPlan::for_window(&NodeOperand::Array((*part).clone(), own.clone()), &own, place, context)?;
        let extent = [(bytes / scalar.size()) as u32];
        let output = PlanOutput { storage: &mut storage, extents: &extent };
        run_plan_into(&plan, element, scalar, &own, context, output, false)?;
    }
    Array::with_storage(first.element().clone(), shape, storage).map(Some)
}
