//! Views, such as slices, transposes and flips: the elements of a view are elements of another array (its source) at
//! different indices. Views are deferred: a kernel that reads a view reads the source directly. The elements are copied
//! only if other code reads the bytes of the view.
//!
//! A later write to the source does not change the values of a view. Therefore a write first copies the elements of the
//! source's views if they are smaller than the source; otherwise it copies the source.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::strided::Lattice;
use crate::array::{AlignedBytes, Array, DeferredWork, ElementType, MAX_EXTENT, byte_count, no_memory};
use crate::graph::context::ExecContext;
use crate::graph::node::GraphSize;
use crate::graph::out_of_core;
use crate::graph::residency::{may_be_on_device, view_as_scalars};
use crate::problem::HostResult;
use clk_runtime::storage::Storage;
use clk_scalar::Scalar;

/// Maximum size in bytes of a view that is copied immediately if its source is on the host.
const EAGER_BYTES: usize = 1 << 10;

/// A view should not keep a source alive that is larger than the view by this factor. Such a view is copied immediately
/// if the source is on the host.
pub(super) const PIN_RATIO: usize = 16;
/// Minimum number of elements of a view with scattered elements for which a CPU uses a blocked copy. Otherwise each
/// read would access a different cache line.
const MIN_BLOCKED_COPY: usize = 1 << 12;

/// The indexing of one axis of an array by a reader, such as a view: the index is `start + step * i`, where `i` is the
/// reader's index along the reader's axis `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewAxis {
    pub start: usize,
    /// The step; 0 if the axis is read at a single index.
    pub step: isize,
    pub axis: usize,
}

impl ViewAxis {
    /// Returns the indexing of an axis at a single index.
    pub fn index(start: usize) -> ViewAxis {
        ViewAxis { start, step: 0, axis: 0 }
    }

    /// Returns the indexing of an axis by the whole reader's axis `axis`, in order.
    pub fn full(axis: usize) -> ViewAxis {
        ViewAxis { start: 0, step: 1, axis }
    }

    /// Composes two indexings: this axis is read by a view, which is read at the indices `reader`.
    pub fn compose(self, reader: &[ViewAxis]) -> ViewAxis {
        let Some(outer) = reader.get(self.axis).filter(|_| self.step != 0) else { return self };
        let start = self.start as isize + self.step * outer.start as isize;
        ViewAxis { start: start.max(0) as usize, step: self.step * outer.step, axis: outer.axis }
    }
}

/// Returns the offset and the strides at which a reader with the shape `shape` reads an array of the shape `own`.
pub(super) fn view_lattice(own: &[usize], axes: &[ViewAxis], shape: &[usize]) -> Lattice {
    let (mut offset, mut strides, mut stride) = (0, vec![0; shape.len()], 1);
    for (along, &len) in axes.iter().zip(own).rev() {
        offset += along.start * stride;
        // An axis of extent 1 is only read at index 0, so that its step is irrelevant.
        if along.step != 0
            && shape.get(along.axis).is_some_and(|&len| len != 1)
            && let Some(place) = strides.get_mut(along.axis)
        {
            *place += along.step * stride as isize;
        }
        stride *= len;
    }
    Lattice { shape: shape.to_vec(), offset, strides }
}

/// Converts indices into an array of the shape `given` to indices into the same array with the shape `own`. `None` if
/// the shapes differ in more than axes of extent 1.
pub(super) fn align_axes(own: &[usize], given: &[usize], axes: &[ViewAxis]) -> Option<Vec<ViewAxis>> {
    let mut others = given.iter().zip(axes).filter(|(len, _)| **len != 1);
    let aligned = own.iter().map(|&len| match len {
        1 => Some(ViewAxis::index(0)),
        _ => others.next().filter(|(other, _)| **other == len).map(|(_, along)| *along),
    });
    let aligned: Option<Vec<ViewAxis>> = aligned.collect();
    aligned.filter(|_| others.next().is_none())
}

/// Returns the indices at which an operand with the shape `shape` is read, if it is broadcast to the shape `reader` of
/// an operation that is computed at the indices `axes`.
pub(super) fn broadcast_axes(axes: &[ViewAxis], reader: &[usize], shape: &[usize]) -> Vec<ViewAxis> {
    let leading = reader.len().saturating_sub(shape.len());
    let operand_axis =
        |(&len, operand_axis): (&usize, &ViewAxis)| if len == 1 { ViewAxis::index(0) } else { *operand_axis };
    shape.iter().zip(axes.iter().skip(leading)).map(operand_axis).collect()
}

/// A deferred view.
pub(crate) struct LazyView {
    state: Mutex<ViewState>,
    /// The indexing of each axis of the source. Here and in the shapes, the components of vectors are an additional
    /// last axis.
    pub axes: Vec<ViewAxis>,
    /// The shape of the source array.
    pub source_shape: Vec<usize>,
    /// The shape of the view.
    pub shape: Vec<usize>,
    pub scalar: Scalar,
    pub context: ExecContext,
    /// The byte range of the source that the view covers, if this range is uploaded separately (out-of-core arrays).
    pub separate_upload: Option<Range<usize>>,
    /// Whether a kernel has already read the source of the view directly at a higher cost than reading a copy.
    pub was_inlined: AtomicBool,
}

enum ViewState {
    Pending(Array),
    /// The elements, which were copied early because the source was about to be written.
    Copied(Storage),
    Consumed,
}

/// Returns the deferred work as a view, if it is one.
pub(crate) fn as_view(work: &dyn DeferredWork) -> Option<&LazyView> {
    work.as_any().downcast_ref()
}

/// Returns the shape of an array in scalars: vectors have their components as an additional last axis.
pub(crate) fn scalar_shape(element: &ElementType, shape: &[usize]) -> Vec<usize> {
    let mut all = shape.to_vec();
    all.extend(Some(element.lanes()).filter(|&lanes| lanes > 1));
    all
}

/// Returns the source of a view, and the offset and strides at which the view reads it. `None` if the array is not a
/// view, or if its elements have been copied.
pub(super) fn strided_source(array: &Array) -> Option<(Array, Lattice)> {
    let work = array.data().work()?;
    let is_same = |view: &&LazyView| (&*view.shape, Some(view.scalar)) == (array.shape(), array.scalar());
    let view = as_view(&*work).filter(is_same).filter(|view| view.separate_upload.is_none())?;
    let source = view.source().filter(|source| source.scalar() == Some(view.scalar))?;
    Some((source, view_lattice(&view.source_shape, &view.axes, &view.shape)))
}

/// Returns a view of this shape. `axes` is the indexing of each axis of the array.
pub(crate) fn make_view(
    context: &ExecContext,
    array: &Array,
    axes: Vec<ViewAxis>,
    shape: &[usize],
) -> HostResult<Array> {
    let element = array.element().clone();
    let bytes = byte_count(&element, shape)?;
    if bytes == 0 {
        return Array::zeros(element, shape);
    }
    let is_whole = |(k, along): (usize, &ViewAxis)| *along == ViewAxis::full(k);
    if shape == array.shape() && axes.iter().enumerate().all(is_whole) {
        return Ok(array.clone());
    }
    if element.scalar().is_none() && may_be_on_device(context, array) {
        let Some((source, last)) = view_as_scalars(array)? else { return Array::zeros(element, shape) };
        let axes = axes.into_iter().chain(last.map(|_| ViewAxis::full(shape.len()))).collect();
        return make_scalar_view(context, &source, element, axes, shape, shape.iter().copied().chain(last).collect());
    }
    let lanes = element.lanes() > 1;
    let mut axes = axes;
    axes.extend(lanes.then(|| ViewAxis::full(shape.len())));
    let scalar_extents = scalar_shape(&element, shape);
    make_scalar_view(context, array, element, axes, shape, scalar_extents)
}

/// Returns a view of a column, such as a field of each struct. The column begins at byte `first` of each element. The
/// sizes of elements and columns are multiples of the scalar type `unit`. `None` if the array is on the host; the
/// caller must then copy the column.
pub(crate) fn column_view(
    context: &ExecContext,
    array: &Array,
    element: &ElementType,
    unit: Scalar,
    first: usize,
) -> HostResult<Option<Array>> {
    if !may_be_on_device(context, array) || array.is_empty() {
        return Ok(None);
    }
    let (source, axes, whole) = column_in_units(array, element, unit, first)?;
    make_scalar_view(context, &source, element.clone(), axes, array.shape(), whole).map(Some)
}

/// Reinterprets an array as an array of scalars of the type `unit`. Also returns the indexing of its axes by a column,
/// and the column's shape in scalars.
pub(super) fn column_in_units(
    array: &Array,
    element: &ElementType,
    unit: Scalar,
    first: usize,
) -> HostResult<(Array, Vec<ViewAxis>, Vec<usize>)> {
    let units = |bytes: usize| bytes / unit.size();
    let shape_with_last = |last: usize| [array.shape(), &[last]].concat();
    let source = array.reinterpret_as(ElementType::Scalar(unit), &shape_with_last(units(array.element().size())))?;
    let rank = array.rank();
    let mut axes: Vec<ViewAxis> = (0..rank).map(ViewAxis::full).collect();
    Ok(match units(element.size()) {
        1 => {
            axes.push(ViewAxis::index(units(first)));
            (source, axes, array.shape().to_vec())
        }
        several => {
            axes.push(ViewAxis { start: units(first), step: 1, axis: rank });
            (source, axes, shape_with_last(several))
        }
    })
}

/// Returns a view of one component of an array of vectors.
pub(crate) fn component_view(context: &ExecContext, array: &Array, scalar: Scalar, lane: usize) -> HostResult<Array> {
    let mut axes: Vec<ViewAxis> = (0..array.rank()).map(ViewAxis::full).collect();
    axes.push(ViewAxis::index(lane));
    if array.is_empty() {
        return Array::zeros(scalar, array.shape());
    }
    make_scalar_view(context, array, ElementType::Scalar(scalar), axes, array.shape(), array.shape().to_vec())
}

/// Creates a view with elements of this type. If the elements are vectors, `axes` includes an entry for the components.
/// `scalar_extents` is the shape of the view in scalars.
fn make_scalar_view(
    context: &ExecContext,
    array: &Array,
    element: ElementType,
    axes: Vec<ViewAxis>,
    shape: &[usize],
    scalar_extents: Vec<usize>,
) -> HostResult<Array> {
    let bytes = byte_count(&element, shape)?;
    let source_shape = scalar_shape(array.element(), array.shape());
    let lattice = view_lattice(&source_shape, &axes, &scalar_extents);
    let separate_upload = out_of_core::separate_upload(array, &lattice, context);
    let scalar = match array.scalar() {
        Some(scalar) if separate_upload.is_some() => scalar,
        Some(scalar)
            if !is_copied_eagerly(context, array, bytes) && source_shape.iter().product::<usize>() <= MAX_EXTENT =>
        {
            scalar
        }
        scalar => {
            let size = scalar.map_or(element.size(), Scalar::size);
            let mut copy = AlignedBytes::for_overwrite(bytes).ok_or_else(|| no_memory(&element, shape))?;
            lattice.copy_out(array.bytes()?, size, &mut copy, context.control().workers);
            return Array::of_aligned(element, shape, copy);
        }
    };
    let (source, axes, source_shape) = compose_with_view(array, axes, source_shape)?;
    let state = Mutex::new(ViewState::Pending(source.clone()));
    let view = LazyView {
        state,
        axes,
        source_shape,
        shape: scalar_extents,
        scalar,
        context: context.clone(),
        separate_upload,
        was_inlined: AtomicBool::new(false),
    };
    let work: Arc<dyn DeferredWork> = Arc::new(view);
    source.data().add_reader(&work);
    let result = Array::deferred(element, shape, work)?;
    context.record_result(&result, std::iter::once(array))?;
    Ok(result)
}

/// Returns whether a view of `bytes` bytes is copied when it is created.
fn is_copied_eagerly(context: &ExecContext, array: &Array, bytes: usize) -> bool {
    let Some(storage) = array.data().computed().filter(|storage| storage.here().is_some()) else { return false };
    // If the array is on a GPU too, a view is not copied, because the GPU can read it.
    let is_read_there =
        || context.counts_launches() || storage.remote().is_some() && context.device().memory().is_some();
    bytes <= EAGER_BYTES || bytes <= array.byte_len() / PIN_RATIO && !is_read_there()
}

/// If the array is itself a view, composes the indexings and returns the original source. If the view has been
/// reshaped, they cannot be composed, and the view is copied now. This prevents chains of views, whose evaluation would
/// need deep recursion.
fn compose_with_view(
    array: &Array,
    axes: Vec<ViewAxis>,
    from: Vec<usize>,
) -> HostResult<(Array, Vec<ViewAxis>, Vec<usize>)> {
    if let Some(work) = array.data().work()
        && let Some(view) = as_view(&*work)
    {
        if view.separate_upload.is_some() {
            return Ok((array.clone(), axes, from));
        }
        if (array.scalar(), &view.shape) == (Some(view.scalar), &from)
            && let Some(source) = view.source()
        {
            let axes = view.axes.iter().map(|along| along.compose(&axes)).collect();
            return Ok((source, axes, view.source_shape.clone()));
        }
        array.storage()?;
    }
    Ok((array.clone(), axes, from))
}

impl LazyView {
    fn state(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the source of the view (`Err`), or takes the copy that was made early (`Ok`). `None` if the copy was
    /// already taken.
    pub fn source_or_copy(&self) -> Option<Result<Storage, Array>> {
        let mut state = self.state();
        if let ViewState::Pending(source) = &*state {
            return Some(Err(source.clone()));
        }
        match std::mem::replace(&mut *state, ViewState::Consumed) {
            ViewState::Copied(storage) => Some(Ok(storage)),
            ViewState::Pending(_) | ViewState::Consumed => None,
        }
    }

    /// Stores the copy, and releases the source.
    pub fn set_copied(&self, copied: Storage) {
        *self.state() = ViewState::Copied(copied);
    }

    /// Returns the source; `None` if the view has been copied.
    pub fn source(&self) -> Option<Array> {
        match &*self.state() {
            ViewState::Pending(source) => Some(source.clone()),
            ViewState::Copied(_) | ViewState::Consumed => None,
        }
    }

    /// Returns whether a kernel should read the source of the view directly. `array` is the array of the view, and
    /// `computes` whether the kernel would compute the source inline. If reading a copy would be cheaper, only the
    /// first kernel reads the source directly.
    pub fn should_read_through(&self, array: &Array, computes: bool) -> bool {
        if self.separate_upload.is_some() {
            return false;
        }
        let is_scattered = self.is_scattered();
        let elements: usize = self.shape.iter().product();
        if is_scattered && elements >= MIN_BLOCKED_COPY && !self.context.is_gpu() {
            return false;
        }
        let is_costly = computes || is_scattered;
        !is_costly || !self.was_inlined.swap(true, Ordering::Relaxed) || Arc::strong_count(array.data()) == 1
    }

    /// Returns whether reading the source of the view is more expensive than reading a copy, because neighboring
    /// elements of the view are not adjacent in the source.
    fn is_scattered(&self) -> bool {
        let inner = self.shape.iter().rposition(|&len| len > 1);
        let lattice = view_lattice(&self.source_shape, &self.axes, &self.shape);
        inner.is_some_and(|k| lattice.strides.get(k).is_some_and(|stride| stride.abs() > 1))
    }

    /// Returns the size of the graph from which the view is computed.
    pub fn graph_size(&self) -> GraphSize {
        // `has_reductions` is false, because a reduction is computed before a view of it is read.
        let Some(source) = self.source() else { return GraphSize::COMPUTED };
        let size = source.data().work().and_then(|work| GraphSize::for_work(&*work)).unwrap_or(GraphSize::COMPUTED);
        let bytes = self.shape.iter().product::<usize>() * self.scalar.size();
        let pinned = if self.separate_upload.is_none() && bytes <= source.byte_len() / PIN_RATIO {
            source.byte_len()
        } else {
            0
        };
        GraphSize { has_reductions: false, pinned_bytes: size.pinned_bytes.saturating_add(pinned), ..size }
    }
}
