//! Sharded arrays: creation, gathering, and halo exchange.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::{Array, DeferredWork, ElementType, Reader, SliceSpec, no_memory};
use crate::graph::{self, ExecContext, NodeOperand, ViewAxis};
use crate::problem::HostResult;
use crate::shard::layout::ShardLayout;
use crate::value::HostValue;
use clk_runtime::storage::{PendingTransfer, Storage};

/// Counters of transfers between shards, for `--stats`.
#[derive(Debug, Default)]
pub struct ShardTransferCounters {
    /// Number of arrays that were gathered for code that does not support shards.
    pub gathers: AtomicU64,
    /// Size of these arrays in bytes.
    pub gathered: AtomicU64,
    /// Number of transfers of rows to the halo of a neighbor, one for each side.
    pub exchanges: AtomicU64,
    /// Size of these rows in bytes.
    pub exchanged: AtomicU64,
    /// Number of kernel launches on shards.
    pub launches: AtomicU64,
}

impl ShardTransferCounters {
    fn add(count: &AtomicU64, bytes: &AtomicU64, more: usize) {
        count.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(more as u64, Ordering::Relaxed);
    }
}

/// The devices that hold the shards of arrays.
#[derive(Clone)]
pub(crate) struct ShardDevices {
    pub contexts: Arc<[ExecContext]>,
    pub counters: Arc<ShardTransferCounters>,
}

impl ShardDevices {
    /// Returns whether both have the same devices in the same order.
    pub fn has_same_devices(&self, other: &ShardDevices) -> bool {
        let same = |(a, b): (&ExecContext, &ExecContext)| Arc::ptr_eq(a.device(), b.device());
        self.contexts.len() == other.contexts.len() && self.contexts.iter().zip(&*other.contexts).all(same)
    }
}

/// A sharded array.
#[derive(Clone)]
pub(crate) struct Sharded(Arc<ShardedInner>);

struct ShardedInner {
    element: ElementType,
    shape: Vec<usize>,
    layout: ShardLayout,
    team: ShardDevices,
    state: Mutex<ShardState>,
}

/// The shards of an array. Each contains the rows that it owns and its halos.
pub(crate) struct ShardState {
    pub parts: Vec<Array>,
    /// Whether the halos are up to date: equal to the rows of the neighbors.
    pub fresh: bool,
}

/// Returns the sharded representation of an array; `None` if the array is not sharded.
pub(crate) fn as_sharded(array: &Array) -> Option<Sharded> {
    let work = array.data().persistent_work()?;
    let sharded = work.as_any().downcast_ref::<Sharded>()?;
    // An array that reinterprets the bytes of a sharded array with another type or shape is not sharded.
    let same = sharded.0.element == *array.element() && sharded.0.shape == array.shape();
    same.then(|| sharded.clone())
}

/// Divides an array into shards.
pub(crate) fn shard(array: &Array, layout: &ShardLayout, team: &ShardDevices) -> HostResult<Array> {
    let cut = as_sharded(array);
    let part = |part: usize| match &cut {
        Some(sharded) => sharded.gather_rows(layout.axis, layout.rows_with_halo(part), &team.contexts[part]),
        None => {
            let exec = &team.contexts[part];
            materialize(slice_rows(exec, array, layout.axis, layout.rows_with_halo(part))?)
        }
    };
    let parts = (0..layout.parts()).map(part).collect::<HostResult<Vec<Array>>>()?;
    Sharded::into_array(
        array.element().clone(),
        array.shape(),
        layout.clone(),
        team.clone(),
        ShardState { parts, fresh: true },
    )
}

/// Returns some rows of an array as a view.
pub(crate) fn slice_rows(exec: &ExecContext, array: &Array, axis: usize, rows: Range<usize>) -> HostResult<Array> {
    let mut axes: Vec<ViewAxis> = (0..array.rank()).map(ViewAxis::full).collect();
    axes[axis].start = rows.start;
    let mut shape = array.shape().to_vec();
    shape[axis] = rows.len();
    graph::make_view(exec, array, axes, &shape)
}

/// Returns the copy of an array for one of several devices that read it.
pub(crate) fn replicate(array: &Array, context: &ExecContext) -> HostResult<Array> {
    if context.device().memory().is_none() {
        return Ok(array.clone());
    }
    let key = Arc::as_ptr(context.device()).cast::<()>().addr();
    let storage = array.storage()?;
    let copy = array.data().replica(key, || storage.duplicate());
    let copy = copy.ok_or_else(|| no_memory(array.element(), array.shape()))?;
    Ok(array.with_data(copy))
}

/// Computes a deferred array, so that it references no other array.
fn materialize(array: Array) -> HostResult<Array> {
    array.storage()?;
    Ok(array)
}

/// Copies the array's device memory if it is shared. The array can then be moved to another device without affecting
/// the original.
fn unshare_device_copy(array: Array) -> HostResult<Array> {
    let storage = array.storage()?;
    if storage.remote().is_none() {
        return Ok(array);
    }
    let copy = storage.duplicate().ok_or_else(|| no_memory(array.element(), array.shape()))?;
    Ok(array.with_data(Arc::new(copy.into())))
}

/// Writes rows into an array, starting at row `at`.
pub(crate) fn write_rows(
    exec: &ExecContext,
    array: &mut Array,
    axis: usize,
    at: usize,
    value: &Array,
) -> HostResult<()> {
    let mut axes: Vec<ViewAxis> = (0..array.rank()).map(ViewAxis::full).collect();
    axes[axis].start = at;
    let own = graph::scalar_shape(value.element(), value.shape());
    let operand = NodeOperand::Array(value.clone(), own);
    if graph::write_window(exec, array, &axes, value.shape(), &operand)? {
        return Ok(());
    }
    let mut specs = vec![SliceSpec::ALL; array.rank()];
    let end = at + value.shape()[axis];
    specs[axis] = SliceSpec::Range { start: Some(at as i64), end: Some(end as i64), inclusive: false, step: None };
    array.assign(&specs, &HostValue::Array(value.clone()))
}

impl Sharded {
    /// Returns an array that consists of these shards.
    pub fn into_array(
        element: ElementType,
        shape: &[usize],
        layout: ShardLayout,
        team: ShardDevices,
        mut state: ShardState,
    ) -> HostResult<Array> {
        state.fresh |= layout.halo == 0 || layout.parts() == 1;
        let inner =
            ShardedInner { element: element.clone(), shape: shape.to_vec(), layout, team, state: Mutex::new(state) };
        Array::deferred(element, shape, Arc::new(Sharded(Arc::new(inner))))
    }

    pub fn layout(&self) -> &ShardLayout {
        &self.0.layout
    }

    pub fn team(&self) -> &ShardDevices {
        &self.0.team
    }

    pub fn element(&self) -> &ElementType {
        &self.0.element
    }

    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn state(&self) -> MutexGuard<'_, ShardState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shards, and whether their halos are up to date.
    pub fn parts(&self) -> ShardState {
        let state = self.state();
        ShardState { parts: state.parts.clone(), fresh: state.fresh }
    }

    /// Returns each shard without its halos.
    pub fn own_parts(&self) -> HostResult<Vec<Array>> {
        let layout = &self.0.layout;
        let parts = self.parts().parts;
        let own = |(p, part): (usize, &Array)| {
            let exec = &self.0.team.contexts[p];
            let start = layout.rows_with_halo(p).start;
            slice_rows(exec, part, layout.axis, layout.owned_rows(p).start - start..layout.owned_rows(p).end - start)
        };
        parts.iter().enumerate().map(own).collect()
    }

    /// Returns a shard with its halos.
    pub fn part(&self, part: usize) -> Array {
        self.state().parts[part].clone()
    }

    /// Exchanges halos: copies rows from their owners to the halos of the neighbors, unless the halos are up to date.
    pub fn exchange_halos(&self) -> HostResult<()> {
        self.begin_exchange()?.map_or(Ok(()), HaloExchange::finish)
    }

    /// Begins a halo exchange; `None` if the halos are up to date. Starts the copies that devices can execute directly.
    pub fn begin_exchange(&self) -> HostResult<Option<HaloExchange>> {
        let layout = &self.0.layout;
        let mut state = self.state();
        if state.fresh {
            return Ok(None);
        }
        let mut exchange = HaloExchange { sharded: self.clone(), arrivals: vec![], host_copies: vec![] };
        for part in 0..layout.parts() {
            let (held, own) = (layout.rows_with_halo(part), layout.owned_rows(part));
            for side in [held.start..own.start, own.end..held.end] {
                for (owner, wanted) in layout.owners(side) {
                    match self.copy_rows_on_devices(&mut state.parts, owner, part, wanted.clone())? {
                        Some(arrival) => exchange.arrivals.push(arrival),
                        None => exchange.host_copies.push((owner, part, wanted)),
                    }
                }
            }
        }
        Ok(Some(exchange))
    }

    /// Copies rows from their owner to the halo of another shard, if the rows are contiguous and the devices can copy
    /// directly.
    fn copy_rows_on_devices(
        &self,
        parts: &mut [Array],
        owner: usize,
        part: usize,
        rows: Range<usize>,
    ) -> HostResult<Option<PendingTransfer>> {
        let (layout, contexts) = (&self.0.layout, &self.0.team.contexts);
        let is_one = |&extent: &usize| extent == 1;
        let has_own_memory = |at: usize| contexts[at].device().memory().is_some();
        let far = has_own_memory(owner) && has_own_memory(part);
        if !far || !self.0.shape[..layout.axis].iter().all(is_one) {
            return Ok(None);
        }
        let row = self.0.element.size() * self.0.shape[layout.axis + 1..].iter().product::<usize>();
        let offset = |of: usize| (rows.start - layout.rows_with_halo(of).start) * row;
        let source = parts[owner].clone();
        let from = source.storage()?;
        let to = parts[part].storage_mut()?;
        let arrival = to.copy_on_devices(offset(part), from, offset(owner), rows.len() * row)?;
        if arrival.is_some() {
            let counts = &self.0.team.counters;
            ShardTransferCounters::add(&counts.exchanges, &counts.exchanged, rows.len() * row);
        }
        Ok(arrival)
    }

    /// Returns rows along an axis as an array on one device.
    pub fn gather_rows(&self, axis: usize, wanted: Range<usize>, context: &ExecContext) -> HostResult<Array> {
        let (layout, team) = (&self.0.layout, &self.0.team);
        let parts = self.parts().parts;
        let mut shape = self.0.shape.clone();
        shape[axis] = wanted.len();
        let mut pieces = vec![];
        let along_cut = if axis == layout.axis { wanted.clone() } else { 0..layout.len() };
        for (owner, common) in layout.owners(along_cut.clone()) {
            let exec = &team.contexts[owner];
            let first = layout.rows_with_halo(owner).start;
            let mut piece = slice_rows(exec, &parts[owner], layout.axis, common.start - first..common.end - first)?;
            if axis != layout.axis {
                piece = slice_rows(exec, &piece, axis, wanted.clone())?;
            }
            pieces.push((common.start - along_cut.start, unshare_device_copy(materialize(piece)?)?));
        }
        let exec = context;
        if let [(_, piece)] = &pieces[..]
            && piece.shape() == shape
        {
            return Ok(piece.clone());
        }
        let all: Vec<&Array> = pieces.iter().map(|(_, piece)| piece).collect();
        if context.device().memory().is_some()
            && let Some(whole) = graph::concatenate(exec, &all, layout.axis, &shape)?
        {
            return Ok(whole);
        }
        let mut whole = Array::unplaced(self.0.element.clone(), &shape)?;
        for (at, piece) in &pieces {
            write_rows(exec, &mut whole, layout.axis, *at, piece)?;
        }
        Ok(whole)
    }

    /// Gathers the whole array on the first device.
    pub fn gather_all(&self) -> HostResult<Array> {
        self.gather_rows(self.0.layout.axis, 0..self.0.layout.len(), &self.0.team.contexts[0])
    }
}

/// A halo exchange in progress. Until it has finished, the array must not be written, and halos must not be read.
pub(crate) struct HaloExchange {
    sharded: Sharded,
    arrivals: Vec<PendingTransfer>,
    /// Copies that devices cannot execute directly: owner, receiver, and rows.
    host_copies: Vec<(usize, usize, Range<usize>)>,
}

impl HaloExchange {
    /// Completes the exchange: executes the remaining copies, and makes the devices wait for all direct copies.
    pub fn finish(self) -> HostResult<()> {
        let (layout, team) = (&self.sharded.0.layout, &self.sharded.0.team);
        let mut state = self.sharded.state();
        let mut strips = vec![];
        for (owner, part, wanted) in self.host_copies {
            let exec = &team.contexts[owner];
            let first = layout.rows_with_halo(owner).start;
            let strip = slice_rows(exec, &state.parts[owner], layout.axis, wanted.start - first..wanted.end - first)?;
            strips.push((
                part,
                wanted.start - layout.rows_with_halo(part).start,
                unshare_device_copy(materialize(strip)?)?,
            ));
        }
        for (part, at, strip) in strips {
            let exec = &team.contexts[part];
            ShardTransferCounters::add(&team.counters.exchanges, &team.counters.exchanged, strip.byte_len());
            write_rows(exec, &mut state.parts[part], layout.axis, at, &strip)?;
        }
        for arrival in self.arrivals {
            arrival.settle()?;
        }
        state.fresh = true;
        Ok(())
    }
}

impl DeferredWork for Sharded {
    fn run(&self, len: usize, _: Reader) -> HostResult<Storage> {
        let counts = &self.0.team.counters;
        ShardTransferCounters::add(&counts.gathers, &counts.gathered, len);
        let storage = match self.gather_all()?.into_storage() {
            Ok(storage) => Some(storage),
            Err(shared) => shared.storage()?.duplicate(),
        };
        storage.ok_or_else(|| no_memory(&self.0.element, &self.0.shape))
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
