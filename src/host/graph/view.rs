//! Views: arrays whose elements are those of another array at other indices, as slices, transposes and flips give them. They are
//! deferred: a kernel that reads one reads the other array at these indices, and only who looks at its bytes has them copied.
//!
//! # Writing
//! A view keeps the values that its array had when it was made. Whoever writes an array in place finds that others still read it,
//! and has its views copied first if they are smaller than the array, or else the array.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::source::Span;
use crate::device::profile::place;
use crate::device::storage::Storage;
use crate::host::array::strided::Lattice;
use crate::host::array::{AlignedBytes, Array, Element, MAX_EXTENT, Work, byte_count, no_memory};
use crate::host::graph::node::Below;
use crate::host::graph::place::{in_scalars, is_there};
use crate::host::graph::site::{Held, Site};
use crate::host::graph::stream;
use crate::host::problem::Outcome;
use crate::lang::scalar::Scalar;

/// The most bytes of a view that are copied at once, if they are on the host.
const SMALL: usize = 1 << 10;

/// A view of an array that is larger by this factor should not keep it in memory: it is copied at once, if the bytes are on the host.
pub(super) const MUCH: usize = 16;
/// Elements from which a processor copies a scattered view block by block, rather than to read each element from a cache line of its own.
const BLOCKED: usize = 1 << 12;

/// Where an array is read along one of its axes: at `start + step * i`, where `i` is the index along an axis of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Along {
    pub start: usize,
    /// 0 for a single index.
    pub step: isize,
    pub axis: usize,
}

impl Along {
    /// A single index.
    pub fn at(start: usize) -> Along {
        Along { start, step: 0, axis: 0 }
    }

    /// All of an axis of the reader, in order.
    pub fn all(axis: usize) -> Along {
        Along { start: 0, step: 1, axis }
    }

    /// Returns where a view is read that is itself read by another one.
    pub fn within(self, reader: &[Along]) -> Along {
        let Some(outer) = reader.get(self.axis).filter(|_| self.step != 0) else { return self };
        let start = self.start as isize + self.step * outer.start as isize;
        Along { start: start.max(0) as usize, step: self.step * outer.step, axis: outer.axis }
    }
}

/// Returns the positions that a reader of this shape reads of an array of the shape `own`.
pub(super) fn lattice(own: &[usize], axes: &[Along], shape: &[usize]) -> Lattice {
    let (mut offset, mut strides, mut stride) = (0, vec![0; shape.len()], 1);
    for (along, &len) in axes.iter().zip(own).rev() {
        offset += along.start * stride;
        // An index along an axis of extent 1 is 0.
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

/// Returns how an array of the shape `own` is read if it is read as one of the shape `given`, which differs from it by axes of
/// extent 1 at most; `None` if it differs by others.
pub(super) fn align(own: &[usize], given: &[usize], axes: &[Along]) -> Option<Vec<Along>> {
    let mut others = given.iter().zip(axes).filter(|(len, _)| **len != 1);
    let found = own.iter().map(|&len| match len {
        1 => Some(Along::at(0)),
        _ => others.next().filter(|(other, _)| **other == len).map(|(_, along)| *along),
    });
    let found: Option<Vec<Along>> = found.collect();
    found.filter(|_| others.next().is_none())
}

/// Returns how an operand of this shape is read where a reader's element is computed.
pub(super) fn spread(axes: &[Along], reader: &[usize], shape: &[usize]) -> Vec<Along> {
    let ahead = reader.len().saturating_sub(shape.len());
    let along = |(&len, along): (&usize, &Along)| if len == 1 { Along::at(0) } else { *along };
    shape.iter().zip(axes.iter().skip(ahead)).map(along).collect()
}

/// A deferred view.
pub(crate) struct View {
    state: Mutex<State>,
    /// Along each axis of the array that is looked at; the components of vectors are a last axis, here and in the shapes.
    pub axes: Vec<Along>,
    /// The shape of the array that is looked at.
    pub from: Vec<usize>,
    /// The shape of the view.
    pub shape: Vec<usize>,
    pub scalar: Scalar,
    pub site: Site,
    /// The bytes of the array that the view shows, if they are copied to the device by themselves.
    pub streamed: Option<Range<usize>>,
    /// Whether a kernel has read through it in a way that takes longer than reading a copy.
    pub seen: AtomicBool,
    /// Where it was entered, if launches are counted.
    pub span: Span,
}

enum State {
    Pending(Array),
    /// Copied before anybody asked, as the array was to be written.
    Copied(Storage),
    Given,
}

/// Returns the view that deferred work is.
pub(crate) fn view_of(work: &dyn Work) -> Option<&View> {
    work.as_any().downcast_ref()
}

/// Returns the shape with the components of vectors as a last axis.
pub(crate) fn with_lanes(element: &Element, shape: &[usize]) -> Vec<usize> {
    let mut all = shape.to_vec();
    all.extend(Some(element.lanes()).filter(|&lanes| lanes > 1));
    all
}

/// Returns the array whose elements this one has at other positions, and which; `None` if it is no view, or has been copied.
pub(super) fn rearranged(array: &Array) -> Option<(Array, Lattice)> {
    let work = array.data().work()?;
    let is_same = |view: &&View| (&*view.shape, Some(view.scalar)) == (array.shape(), array.scalar());
    let view = view_of(&*work).filter(is_same).filter(|view| view.streamed.is_none())?;
    let source = view.source().filter(|source| source.scalar() == Some(view.scalar))?;
    Some((source, lattice(&view.from, &view.axes, &view.shape)))
}

/// Returns an array of this shape whose elements are those of another one, read as `axes` say, which has an entry for each axis of it.
pub(crate) fn view(array: &Array, axes: Vec<Along>, shape: &[usize]) -> Outcome<Array> {
    let element = array.element().clone();
    let bytes = byte_count(&element, shape)?;
    if bytes == 0 {
        return Array::zeros(element, shape);
    }
    let is_whole = |(k, along): (usize, &Along)| *along == Along::all(k);
    if shape == array.shape() && axes.iter().enumerate().all(is_whole) {
        return Ok(array.clone());
    }
    if element.scalar().is_none() && is_there(array) {
        let Some((source, last)) = in_scalars(array)? else { return Array::zeros(element, shape) };
        let axes = axes.into_iter().chain(last.map(|_| Along::all(shape.len()))).collect();
        return make(&source, element, axes, (shape, shape.iter().copied().chain(last).collect()));
    }
    let lanes = element.lanes() > 1;
    let mut axes = axes;
    axes.extend(lanes.then(|| Along::all(shape.len())));
    let whole = with_lanes(&element, shape);
    make(array, element, axes, (shape, whole))
}

/// Returns the elements of this type that begin at a byte of each element of an array; they are whole numbers of these scalars, as are
/// the array's. `None` if they are to be copied, as the array is on the host.
pub(crate) fn column(array: &Array, element: &Element, unit: Scalar, first: usize) -> Outcome<Option<Array>> {
    if !is_there(array) || array.is_empty() {
        return Ok(None);
    }
    let (source, axes, whole) = in_units(array, element, unit, first)?;
    make(&source, element.clone(), axes, (array.shape(), whole)).map(Some)
}

/// Returns an array as one of scalars, where a column of it is, and the column's shape in scalars.
pub(super) fn in_units(
    array: &Array,
    element: &Element,
    unit: Scalar,
    first: usize,
) -> Outcome<(Array, Vec<Along>, Vec<usize>)> {
    let units = |bytes: usize| bytes / unit.size();
    let of = |last: usize| [array.shape(), &[last]].concat();
    let source = array.seen_as(Element::Scalar(unit), &of(units(array.element().size())))?;
    let rank = array.rank();
    let mut axes: Vec<Along> = (0..rank).map(Along::all).collect();
    Ok(match units(element.size()) {
        1 => {
            axes.push(Along::at(units(first)));
            (source, axes, array.shape().to_vec())
        }
        several => {
            axes.push(Along { start: units(first), step: 1, axis: rank });
            (source, axes, of(several))
        }
    })
}

/// Returns the array of one component of an array of vectors.
pub(crate) fn component(array: &Array, scalar: Scalar, lane: usize) -> Outcome<Array> {
    let mut axes: Vec<Along> = (0..array.rank()).map(Along::all).collect();
    axes.push(Along::at(lane));
    if array.is_empty() {
        return Array::zeros(scalar, array.shape());
    }
    make(array, Element::Scalar(scalar), axes, (array.shape(), array.shape().to_vec()))
}

/// Makes a view with these elements; `axes` has an entry for the components of vectors, too, and `whole` is the shape in scalars.
fn make(array: &Array, element: Element, axes: Vec<Along>, (shape, whole): (&[usize], Vec<usize>)) -> Outcome<Array> {
    let bytes = byte_count(&element, shape)?;
    let from = with_lanes(array.element(), array.shape());
    let site = Site::current();
    let streamed = stream::part(array, &lattice(&from, &axes, &whole), &site);
    let scalar = match array.scalar() {
        Some(scalar) if streamed.is_some() => scalar,
        Some(scalar) if !is_copied_at_once(array, bytes) && from.iter().product::<usize>() <= MAX_EXTENT => scalar,
        scalar => {
            let size = scalar.map_or(element.size(), Scalar::size);
            let mut copy = AlignedBytes::unset(bytes).ok_or_else(|| no_memory(&element, shape))?;
            lattice(&from, &axes, &whole).copy_out(array.bytes()?, size, &mut copy, Site::current().control().workers);
            return Array::of_aligned(element, shape, copy);
        }
    };
    let (source, axes, from) = through(array, axes, from)?;
    let state = Mutex::new(State::Pending(source.clone()));
    let view =
        View { state, axes, from, shape: whole, scalar, site, streamed, seen: AtomicBool::new(false), span: place() };
    let work: Arc<dyn Work> = Arc::new(view);
    source.data().read_by(&work);
    let result = Array::deferred(element, shape, work)?;
    Held::keep(&result, std::iter::once(array))?;
    Ok(result)
}

/// Returns whether a view of so many bytes is copied when it is made.
fn is_copied_at_once(array: &Array, bytes: usize) -> bool {
    let Some(storage) = array.data().computed().filter(|storage| storage.here().is_some()) else { return false };
    // A GPU that has the array, too, reads the view there.
    let site = Site::current();
    let is_read_there = || site.counts() || storage.remote().is_some() && site.device().is_remote();
    bytes <= SMALL || bytes <= array.byte_len() / MUCH && !is_read_there()
}

/// Looks through an array that is itself a view. One that cannot be looked through, as it is seen in another shape, is copied now:
/// views of views of views would be read by as many nested calls.
fn through(array: &Array, axes: Vec<Along>, from: Vec<usize>) -> Outcome<(Array, Vec<Along>, Vec<usize>)> {
    if let Some(work) = array.data().work()
        && let Some(view) = view_of(&*work)
    {
        if view.streamed.is_some() {
            return Ok((array.clone(), axes, from));
        }
        if (array.scalar(), &view.shape) == (Some(view.scalar), &from)
            && let Some(source) = view.source()
        {
            let axes = view.axes.iter().map(|along| along.within(&axes)).collect();
            return Ok((source, axes, view.from.clone()));
        }
        array.storage()?;
    }
    Ok((array.clone(), axes, from))
}

impl View {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the array to copy from, which the view goes on looking at, or gives away what has been copied; `None` if it is gone.
    pub fn give(&self) -> Option<Result<Storage, Array>> {
        let mut state = self.state();
        if let State::Pending(source) = &*state {
            return Some(Err(source.clone()));
        }
        match std::mem::replace(&mut *state, State::Given) {
            State::Copied(storage) => Some(Ok(storage)),
            State::Pending(_) | State::Given => None,
        }
    }

    /// Looks at the array no longer, as its elements have been copied.
    pub fn release(&self, copied: Storage) {
        *self.state() = State::Copied(copied);
    }

    /// Returns the array that is looked at; `None` if the view has been copied.
    pub fn source(&self) -> Option<Array> {
        match &*self.state() {
            State::Pending(source) => Some(source.clone()),
            State::Copied(_) | State::Given => None,
        }
    }

    /// Returns whether a kernel should read through the view, which is the view of this array: what it computes for that, or what
    /// takes longer than reading a copy, is done once.
    pub fn reads_through(&self, array: &Array, computes: bool) -> bool {
        if self.streamed.is_some() {
            return false;
        }
        let is_scattered = self.is_scattered();
        let elements: usize = self.shape.iter().product();
        if is_scattered && elements >= BLOCKED && !self.site.is_gpu() {
            return false;
        }
        let is_costly = computes || is_scattered;
        !is_costly || !self.seen.swap(true, Ordering::Relaxed) || Arc::strong_count(array.data()) == 1
    }

    /// Returns whether reading through the view costs more than reading a copy: its neighbors are no neighbors in the array.
    fn is_scattered(&self) -> bool {
        let inner = self.shape.iter().rposition(|&len| len > 1);
        let lattice = lattice(&self.from, &self.axes, &self.shape);
        inner.is_some_and(|k| lattice.strides.get(k).is_some_and(|stride| stride.abs() > 1))
    }

    /// Returns what is deferred below the view.
    pub fn below(&self) -> Below {
        // A reduction is computed before a view of it is read.
        let Some(source) = self.source() else { return Below::STORED };
        let below = source.data().work().and_then(|work| Below::of(&*work)).unwrap_or(Below::STORED);
        let bytes = self.shape.iter().product::<usize>() * self.scalar.size();
        let pinned = if self.streamed.is_none() && bytes <= source.byte_len() / MUCH { source.byte_len() } else { 0 };
        Below { folds: false, pinned: below.pinned.saturating_add(pinned), ..below }
    }
}
