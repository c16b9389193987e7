//! Writing the elements of an expression into a part of an array, where the array is: assignments to slices, and joining arrays.

use std::sync::Arc;

use crate::device::storage::Storage;
use crate::host::array::{Array, Element, MAX_EXTENT, byte_count};
use crate::host::graph::node::Operand;
use crate::host::graph::place::{in_scalars, is_there};
use crate::host::graph::plan::{Part, Plan};
use crate::host::graph::run::{array_of, fill};
use crate::host::graph::site::Site;
use crate::host::graph::stream;
use crate::host::graph::view::{Along, in_units, lattice, with_lanes};
use crate::host::problem::Outcome;
use crate::lang::scalar::{Scalar, Value};

/// Bytes from which a part that has yet to be computed is computed where it belongs, rather than by itself and copied.
const WORTH_A_KERNEL: usize = 1 << 12;

/// Writes an operand of an array's element type, which broadcasts to `shape`, into the part of the array that a view of this shape
/// would show. Returns false if it has done nothing, as the bytes are on the host anyway: the caller copies them.
pub(crate) fn write_part(array: &mut Array, axes: &[Along], shape: &[usize], operand: &Operand) -> Outcome<bool> {
    let Some(scalar) = array.scalar() else { return write_structs(array, axes, shape, operand) };
    if array.data().computed().is_none() && Site::current().is_gpu() {
        // It is written where it is, not on the host.
        array.storage()?;
    }
    let lanes = array.element().lanes();
    let bytes = shape.iter().product::<usize>() * array.element().size();
    let site = Site::current();
    let (own, whole) = (with_lanes(array.element(), array.shape()), with_lanes(array.element(), shape));
    let mut axes = axes.to_vec();
    if lanes > 1 {
        axes.push(Along::all(shape.len()));
    }
    let at = lattice(&own, &axes, &whole);
    if stream::store(array, &at, operand, &site)? {
        return Ok(true);
    }
    // Zeros that are nowhere yet come to be where what is written is.
    let goes_there = array_of(operand).is_some_and(is_there) && bytes >= WORTH_A_KERNEL;
    let is_far = |storage: &Storage| storage.here().is_none() && (goes_there || storage.remote().is_some());
    let far = site.counts() || array.data().computed().is_some_and(is_far);
    let is_pending = array_of(operand).is_some_and(|value| value.data().computed().is_none())
        && bytes >= WORTH_A_KERNEL
        && !site.is_gpu();
    if bytes == 0 || array.count() * lanes > MAX_EXTENT || !(far && site.is_gpu() || is_pending) {
        return Ok(false);
    }
    let kept = at.strides.iter().zip(&whole).filter(|(_, len)| **len != 1);
    let strides: Vec<isize> = kept.map(|(stride, _)| *stride).collect();
    let part = || Part { offset: at.offset, strides: strides.clone() };
    let (mut plan, mut element) = Plan::into_part(operand, &whole, part(), &site)?;
    if plan.inputs.iter().any(|input| Arc::ptr_eq(input.array.data(), array.data())) {
        // What is read must not change meanwhile.
        let Some(value) = array_of(operand) else { return Ok(false) };
        value.storage()?;
        if !far || Arc::ptr_eq(value.data(), array.data()) {
            return Ok(false);
        }
        (plan, element) = Plan::into_part(operand, &whole, part(), &site)?;
    }
    let extent = [array.count() as u32 * lanes as u32];
    let storage = array.storage_mut()?;
    fill(&plan, element, (scalar, &whole), &site, (storage, &extent), false)?;
    Ok(true)
}

/// Writes an element of an array that only a GPU has, there; `bytes` are the element's. Returns false if it has done nothing: the array is
/// elsewhere, or so many elements are written one by one that the host should have it.
pub(crate) fn write_element(array: &mut Array, indices: &[usize], bytes: &[u8]) -> Outcome<bool> {
    if !is_there(array) || !Site::current().device().is_remote() {
        return Ok(false);
    }
    let Some(pokes) = array.storage()?.pokes() else { return Ok(false) };
    let axes: Vec<Along> = indices.iter().map(|&index| Along::at(index)).collect();
    let operand = match array.element() {
        Element::Scalar(scalar) => Operand::Scalar(Value::from_bytes(*scalar, bytes)),
        element => Operand::Array(Array::from_bytes(element.clone(), &[], bytes)?, with_lanes(element, &[])),
    };
    let written = write_part(array, &axes, &[], &operand)?;
    if let (true, Some(storage)) = (written, array.data().computed()) {
        storage.set_pokes(pokes + 1);
    }
    Ok(written)
}

/// As [`write_part`], for structs, which are written as words.
fn write_structs(array: &mut Array, axes: &[Along], shape: &[usize], operand: &Operand) -> Outcome<bool> {
    let Some(value) = array_of(operand).filter(|_| is_there(array)) else { return Ok(false) };
    let (Some((source, Some(words))), Some((value, _))) = (in_scalars(array)?, in_scalars(value)?) else {
        return Ok(false);
    };
    let axes = [axes, &[Along::all(shape.len())]].concat();
    let own = value.shape().to_vec();
    written_as(array, source, &axes, &[shape, &[words]].concat(), &Operand::Array(value, own))
}

/// Writes a column of an array, whose elements begin at a byte of its elements, where the array is: both consist of whole numbers of
/// these scalars. Returns false as [`write_part`] does.
pub(crate) fn write_column(array: &mut Array, column: &Array, unit: Scalar, first: usize) -> Outcome<bool> {
    if !is_there(array) || array.is_empty() {
        return Ok(false);
    }
    let (source, axes, whole) = in_units(array, column.element(), unit, first)?;
    let value = column.seen_as(Element::Scalar(unit), &whole)?;
    written_as(array, source, &axes, &whole, &Operand::Array(value, whole.clone()))
}

/// Writes into an array as one of scalars, which is the only one that has its bytes meanwhile.
fn written_as(
    array: &mut Array,
    mut source: Array,
    axes: &[Along],
    shape: &[usize],
    operand: &Operand,
) -> Outcome<bool> {
    let (own, outer) = (array.element().clone(), array.shape().to_vec());
    *array = Array::unplaced(own.clone(), &[0])?;
    let written = write_part(&mut source, axes, shape, operand);
    *array = source.seen_as(own, &outer)?;
    written
}

/// Joins arrays along an axis to one of this shape; `None` if their bytes are on the host anyway: the caller copies them.
pub(crate) fn joined(parts: &[&Array], axis: usize, shape: &[usize]) -> Outcome<Option<Array>> {
    let Some(first) = parts.first() else { return Ok(None) };
    if first.scalar().is_none() && parts.iter().any(|part| is_there(part)) {
        let all = parts.iter().map(|part| in_scalars(part)).collect::<Outcome<Option<Vec<_>>>>()?;
        let Some((words, Some(last))) = all.and_then(|all| Some((all.clone(), all.first()?.1))) else {
            return Ok(None);
        };
        let words: Vec<&Array> = words.iter().map(|(part, _)| part).collect();
        let joined = joined(&words, axis, &[shape, &[last]].concat())?;
        return joined.map(|joined| joined.seen_as(first.element().clone(), shape)).transpose();
    }
    let here = |part: &&Array| part.data().computed().is_some_and(|storage| storage.here().is_some());
    let Some(scalar) = first.scalar().filter(|_| !parts.iter().all(here)) else { return Ok(None) };
    let bytes = byte_count(first.element(), shape)?;
    if bytes < WORTH_A_KERNEL || bytes / scalar.size() > MAX_EXTENT {
        return Ok(None);
    }
    let site = Site::current();
    let mut storage = Storage::unset(bytes);
    let whole = with_lanes(first.element(), shape);
    let mut start = 0;
    for part in parts {
        let own = with_lanes(part.element(), part.shape());
        let mut axes: Vec<Along> = (0..own.len()).map(Along::all).collect();
        axes[axis].start = start;
        start += own[axis];
        if own.contains(&0) {
            continue;
        }
        let at = lattice(&whole, &axes, &own);
        let kept = at.strides.iter().zip(&own).filter(|(_, len)| **len != 1);
        let place = Part { offset: at.offset, strides: kept.map(|(stride, _)| *stride).collect() };
        let (plan, element) = Plan::into_part(&Operand::Array((*part).clone(), own.clone()), &own, place, &site)?;
        let extent = [(bytes / scalar.size()) as u32];
        fill(&plan, element, (scalar, &own), &site, (&mut storage, &extent), false)?;
    }
    Array::with_storage(first.element().clone(), shape, storage).map(Some)
}
