//! The parts of a sharded array: how it is cut up and put together, and how halos are exchanged.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::storage::{Arrival, Storage};
use crate::host::array::{Array, Element, SliceSpec, Work, no_memory};
use crate::host::graph::{self, Along, Operand, Site};
use crate::host::problem::Outcome;
use crate::host::shard::layout::Layout;
use crate::host::value::Value;

/// What has been moved between parts, for `--stats`.
#[derive(Debug, Default)]
pub struct Counts {
    /// Arrays that were put together as something reads them that does not know of parts, and their bytes.
    pub gathers: AtomicU64,
    pub gathered: AtomicU64,
    /// Rows that were copied to the halo of a neighbor, together for each side, and their bytes.
    pub exchanges: AtomicU64,
    pub exchanged: AtomicU64,
    /// Launches on parts.
    pub launches: AtomicU64,
}

impl Counts {
    fn add(count: &AtomicU64, bytes: &AtomicU64, more: usize) {
        count.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(more as u64, Ordering::Relaxed);
    }
}

/// The devices that have the parts of arrays.
#[derive(Clone)]
pub(crate) struct Team {
    pub sites: Arc<[Site]>,
    pub counts: Arc<Counts>,
}

impl Team {
    /// Returns whether both are the same devices.
    pub fn is(&self, other: &Team) -> bool {
        let same = |(a, b): (&Site, &Site)| Arc::ptr_eq(a.device(), b.device());
        self.sites.len() == other.sites.len() && self.sites.iter().zip(&*other.sites).all(same)
    }
}

/// An array in parts.
#[derive(Clone)]
pub(crate) struct Sharded(Arc<Inner>);

struct Inner {
    element: Element,
    shape: Vec<usize>,
    layout: Layout,
    team: Team,
    state: Mutex<State>,
}

/// The parts, each with the rows that it holds.
pub(crate) struct State {
    pub parts: Vec<Array>,
    /// Whether halos have the elements of their owners.
    pub fresh: bool,
}

/// Returns the parts of an array, if it is sharded.
pub(crate) fn of(array: &Array) -> Option<Sharded> {
    let work = array.data().lasting()?;
    let sharded = work.as_any().downcast_ref::<Sharded>()?;
    // Another view of the same bytes has no parts.
    let same = sharded.0.element == *array.element() && sharded.0.shape == array.shape();
    same.then(|| sharded.clone())
}

/// Cuts an array.
pub(crate) fn shard(array: &Array, layout: &Layout, team: &Team) -> Outcome<Array> {
    let cut = of(array);
    let part = |part: usize| match &cut {
        Some(sharded) => sharded.piece(layout.axis, layout.held(part), &team.sites[part]),
        None => {
            let _at = team.sites[part].clone().enter();
            stored(rows(array, layout.axis, layout.held(part))?)
        }
    };
    let parts = (0..layout.parts()).map(part).collect::<Outcome<Vec<Array>>>()?;
    Sharded::array(array.element().clone(), array.shape(), layout.clone(), team.clone(), State { parts, fresh: true })
}

/// Returns some rows of an array, as a view.
pub(crate) fn rows(array: &Array, axis: usize, rows: Range<usize>) -> Outcome<Array> {
    let mut axes: Vec<Along> = (0..array.rank()).map(Along::all).collect();
    axes[axis].start = rows.start;
    let mut shape = array.shape().to_vec();
    shape[axis] = rows.len();
    graph::view(array, axes, &shape)
}

/// Returns an array that is read on several devices as one that stays on a site's device: each has a copy of its own.
pub(crate) fn replica(array: &Array, site: &Site) -> Outcome<Array> {
    if !site.device().is_remote() {
        return Ok(array.clone());
    }
    let key = Arc::as_ptr(site.device()).cast::<()>().addr();
    let storage = array.storage()?;
    let copy = array.data().replica(key, || storage.duplicate());
    let copy = copy.ok_or_else(|| no_memory(array.element(), array.shape()))?;
    Ok(array.with_data(copy))
}

/// Computes an array, so that it holds no other one.
fn stored(array: Array) -> Outcome<Array> {
    array.storage()?;
    Ok(array)
}

/// Returns an array that shares what a device has of another one until one of them is elsewhere: a copy that goes to another device
/// leaves the other where it is.
fn apart(array: Array) -> Outcome<Array> {
    let storage = array.storage()?;
    if storage.remote().is_none() {
        return Ok(array);
    }
    let copy = storage.duplicate().ok_or_else(|| no_memory(array.element(), array.shape()))?;
    Ok(array.with_data(Arc::new(copy.into())))
}

/// Writes rows into an array, which begin at `at`.
pub(crate) fn put(array: &mut Array, axis: usize, at: usize, value: &Array) -> Outcome<()> {
    let mut axes: Vec<Along> = (0..array.rank()).map(Along::all).collect();
    axes[axis].start = at;
    let own = graph::with_lanes(value.element(), value.shape());
    let operand = Operand::Array(value.clone(), own);
    if graph::write_part(array, &axes, value.shape(), &operand)? {
        return Ok(());
    }
    let mut specs = vec![SliceSpec::ALL; array.rank()];
    let end = at + value.shape()[axis];
    specs[axis] = SliceSpec::Range { start: Some(at as i64), end: Some(end as i64), inclusive: false, step: None };
    array.assign(&specs, &Value::Array(value.clone()))
}

impl Sharded {
    /// Returns an array of these parts.
    pub fn array(element: Element, shape: &[usize], layout: Layout, team: Team, mut state: State) -> Outcome<Array> {
        state.fresh |= layout.halo == 0 || layout.parts() == 1;
        let inner = Inner { element: element.clone(), shape: shape.to_vec(), layout, team, state: Mutex::new(state) };
        Array::deferred(element, shape, Arc::new(Sharded(Arc::new(inner))))
    }

    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub fn team(&self) -> &Team {
        &self.0.team
    }

    pub fn element(&self) -> &Element {
        &self.0.element
    }

    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the parts as they are, and whether their halos are fresh.
    pub fn parts(&self) -> State {
        let state = self.state();
        State { parts: state.parts.clone(), fresh: state.fresh }
    }

    /// Returns the rows that each part owns.
    pub fn own_parts(&self) -> Outcome<Vec<Array>> {
        let layout = &self.0.layout;
        let parts = self.parts().parts;
        let own = |(p, part): (usize, &Array)| {
            let _at = self.0.team.sites[p].clone().enter();
            let start = layout.held(p).start;
            rows(part, layout.axis, layout.own(p).start - start..layout.own(p).end - start)
        };
        parts.iter().enumerate().map(own).collect()
    }

    /// Returns a part.
    pub fn part(&self, part: usize) -> Array {
        self.state().parts[part].clone()
    }

    /// Copies the rows to halos whose owners have changed them.
    pub fn refresh(&self) -> Outcome<()> {
        self.begin()?.map_or(Ok(()), Exchange::finish)
    }

    /// Begins to exchange halos; `None` if they are fresh. What devices can copy by themselves, they begin to copy now.
    pub fn begin(&self) -> Outcome<Option<Exchange>> {
        let layout = &self.0.layout;
        let mut state = self.state();
        if state.fresh {
            return Ok(None);
        }
        let mut exchange = Exchange { sharded: self.clone(), arrivals: vec![], left: vec![] };
        for part in 0..layout.parts() {
            let (held, own) = (layout.held(part), layout.own(part));
            for side in [held.start..own.start, own.end..held.end] {
                for (owner, wanted) in layout.owners(side) {
                    match self.copied(&mut state.parts, (owner, part), wanted.clone())? {
                        Some(arrival) => exchange.arrivals.push(arrival),
                        None => exchange.left.push((owner, part, wanted)),
                    }
                }
            }
        }
        Ok(Some(exchange))
    }

    /// Copies rows from their owner to another part where they are contiguous and the devices do that by themselves.
    fn copied(
        &self,
        parts: &mut [Array],
        (owner, part): (usize, usize),
        rows: Range<usize>,
    ) -> Outcome<Option<Arrival>> {
        let (layout, sites) = (&self.0.layout, &self.0.team.sites);
        let is_one = |&extent: &usize| extent == 1;
        let far = sites[owner].device().is_remote() && sites[part].device().is_remote();
        if !far || !self.0.shape[..layout.axis].iter().all(is_one) {
            return Ok(None);
        }
        let row = self.0.element.size() * self.0.shape[layout.axis + 1..].iter().product::<usize>();
        let offset = |of: usize| (rows.start - layout.held(of).start) * row;
        let source = parts[owner].clone();
        let from = source.storage()?;
        let to = parts[part].storage_mut()?;
        let arrival = to.copy_part(offset(part), from, offset(owner), rows.len() * row)?;
        if arrival.is_some() {
            let counts = &self.0.team.counts;
            Counts::add(&counts.exchanges, &counts.exchanged, rows.len() * row);
        }
        Ok(arrival)
    }

    /// Returns rows along an axis as an array of a site.
    pub fn piece(&self, axis: usize, wanted: Range<usize>, site: &Site) -> Outcome<Array> {
        let (layout, team) = (&self.0.layout, &self.0.team);
        let parts = self.parts().parts;
        let mut shape = self.0.shape.clone();
        shape[axis] = wanted.len();
        let mut pieces = vec![];
        let along_cut = if axis == layout.axis { wanted.clone() } else { 0..layout.len() };
        for (owner, common) in layout.owners(along_cut.clone()) {
            let _at = team.sites[owner].clone().enter();
            let first = layout.held(owner).start;
            let mut piece = rows(&parts[owner], layout.axis, common.start - first..common.end - first)?;
            if axis != layout.axis {
                piece = rows(&piece, axis, wanted.clone())?;
            }
            pieces.push((common.start - along_cut.start, apart(stored(piece)?)?));
        }
        let _at = site.clone().enter();
        if let [(_, piece)] = &pieces[..]
            && piece.shape() == shape
        {
            return Ok(piece.clone());
        }
        let all: Vec<&Array> = pieces.iter().map(|(_, piece)| piece).collect();
        if site.device().is_remote()
            && let Some(whole) = graph::joined(&all, layout.axis, &shape)?
        {
            return Ok(whole);
        }
        let mut whole = Array::unplaced(self.0.element.clone(), &shape)?;
        for (at, piece) in &pieces {
            put(&mut whole, layout.axis, *at, piece)?;
        }
        Ok(whole)
    }

    /// Puts the array together, on the first device.
    pub fn whole(&self) -> Outcome<Array> {
        self.piece(self.0.layout.axis, 0..self.0.layout.len(), &self.0.team.sites[0])
    }
}

/// Halos that are being exchanged. Until that is finished, nobody may write the array or read a halo.
pub(crate) struct Exchange {
    sharded: Sharded,
    arrivals: Vec<Arrival>,
    /// What devices do not copy by themselves: owner, receiver and rows.
    left: Vec<(usize, usize, Range<usize>)>,
}

impl Exchange {
    /// Has all parts wait for their halos.
    pub fn finish(self) -> Outcome<()> {
        let (layout, team) = (&self.sharded.0.layout, &self.sharded.0.team);
        let mut state = self.sharded.state();
        let mut strips = vec![];
        for (owner, part, wanted) in self.left {
            let _at = team.sites[owner].clone().enter();
            let first = layout.held(owner).start;
            let strip = rows(&state.parts[owner], layout.axis, wanted.start - first..wanted.end - first)?;
            strips.push((part, wanted.start - layout.held(part).start, apart(stored(strip)?)?));
        }
        for (part, at, strip) in strips {
            let _at = team.sites[part].clone().enter();
            Counts::add(&team.counts.exchanges, &team.counts.exchanged, strip.byte_len());
            put(&mut state.parts[part], layout.axis, at, &strip)?;
        }
        for arrival in self.arrivals {
            arrival.settle()?;
        }
        state.fresh = true;
        Ok(())
    }
}

impl Work for Sharded {
    fn run(&self, len: usize) -> Outcome<Storage> {
        let counts = &self.0.team.counts;
        Counts::add(&counts.gathers, &counts.gathered, len);
        let storage = match self.whole()?.into_storage() {
            Ok(storage) => Some(storage),
            Err(shared) => shared.storage()?.duplicate(),
        };
        storage.ok_or_else(|| no_memory(&self.0.element, &self.0.shape))
    }

    fn lasts(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
