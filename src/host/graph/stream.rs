//! Arrays of the host that a GPU works on in parts, as they may be too large for its memory: a part that a kernel reads is copied to the GPU
//! by itself, and a part that is assigned is copied to its place.
//!
//! Input: a part of such an array whose elements lie in a row. Output: storage in the GPU's memory.
//!
//! # Reading ahead
//! A part that begins where the last one ended announces others behind it, of the same size. Threads copy them to the GPU while
//! kernels work on the second one: nothing in a script says so. There are two such copies at a time, made only into memory that is free. They
//! are found again by the array's [identity](crate::host::array::Data::identity), which a write to the array changes; and a writer waits for
//! the threads, which hold the array while they copy.
//!
//! # Page locks
//! Copies go by way of page-locked memory, at the speed at which the host's processor copies. The pages of a large array that is read in
//! parts are therefore locked meanwhile, from its end on: from there, and the next time, the bus reads and writes them itself.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::late::Late;
use crate::device::DeviceError;
use crate::device::storage::Storage;
use crate::host::array::strided::Lattice;
use crate::host::array::{Array, MAX_EXTENT, Work};
use crate::host::graph::ahead::{Ahead, Copy, Locking, Part};
use crate::host::graph::node::Operand;
use crate::host::graph::place::{is_far, is_here, prepare};
use crate::host::graph::site::Site;
use crate::host::problem::Outcome;

/// Parts of fewer bytes are copied on the host: there is nothing to gain by a copy of their own.
const WORTH_IT: usize = 1 << 16;

/// Returns whether parts of an array are copied between the host and a site's device by themselves: it is on the host alone, or yet nowhere
/// and too large to be on the device as a whole.
pub(super) fn is_fit(array: &Array, site: &Site) -> bool {
    array.byte_len() > WORTH_IT
        && site.device().is_remote()
        && !is_far(array)
        && (is_here(array) || is_too_large(array, site))
}

/// Returns whether an array cannot be on a site's device as a whole.
fn is_too_large(array: &Array, site: &Site) -> bool {
    let room = || site.device().memory().unwrap_or(u64::MAX) / 2;
    array.count() * array.element().lanes() > MAX_EXTENT || array.byte_len() as u64 > room()
}

/// Returns the bytes of a part of an array that a kernel reads if they are copied to the site's device by themselves: of an array that
/// could be there, the array is copied if the part is most of it.
pub(super) fn part(array: &Array, at: &Lattice, site: &Site) -> Option<Range<usize>> {
    let scalar = array.scalar().filter(|_| is_here(array) && is_fit(array, site))?;
    let bytes = in_a_row(at, scalar.size())?;
    (2 * bytes.len() < array.byte_len() || is_too_large(array, site)).then_some(bytes)
}

/// Returns the bytes of a part of an array, whose scalars are of `size` bytes, if they lie in a row and are worth a copy of their own.
fn in_a_row(at: &Lattice, size: usize) -> Option<Range<usize>> {
    let mut stride = 1;
    for (&len, &step) in at.shape.iter().zip(&at.strides).rev().filter(|(len, _)| **len != 1) {
        if step != stride as isize {
            return None;
        }
        stride *= len;
    }
    (stride * size >= WORTH_IT).then(|| at.offset * size..(at.offset + stride) * size)
}

/// Returns a part of an array in the memory of the site's device, and has the next part follow; `None` if the device does not copy
/// beside its kernels, or the array is not on the host.
pub(super) fn bring(site: &Site, array: &Array, bytes: Range<usize>) -> Outcome<Option<Storage>> {
    let Some(here) = array.data().computed().and_then(Storage::here).and_then(|here| here.get(bytes.clone())) else {
        return Ok(None);
    };
    let part = Part { of: array.data().identity(), bytes };
    let mut state = site.stream().state();
    // What is not what was expected is let go, as what is expected behind it.
    let found = state.ahead.iter().position(|ahead| ahead.part == part);
    let ahead = found.and_then(|at| state.ahead.drain(..=at).next_back());
    if ahead.is_none() {
        state.ahead.clear();
    }
    let come = ahead.and_then(|ahead| ahead.copy.result.get().clone().ok());
    let remote = match come {
        Some(remote) => remote,
        None => match site.device().expect(here.len(), false)? {
            Some(room) => room.copy(here)?,
            None => return Ok(None),
        },
    };
    let follows = |last: &Part| last.of == part.of && last.bytes.end == part.bytes.start;
    if state.last.as_ref().is_some_and(follows) {
        while state.ahead.len() < AHEAD
            && let Some(next) = read_ahead(site, array, state.ahead.back().map_or(&part, |last| &last.part))
        {
            state.ahead.push_back(next);
        }
        if state.locking.as_ref().is_none_or(|locking| locking.done.is_there()) {
            state.locking = lock(site, array);
        }
    }
    state.last = Some(part);
    let mut storage = Storage::zeros(here.len());
    storage.written_remotely(remote);
    Ok(Some(storage))
}

/// Parts that are on their way at a time: the bus goes on with one while a script takes the other.
const AHEAD: usize = 2;

/// Begins to copy the part behind this one; `None` if there is none, or no room for it.
fn read_ahead(site: &Site, array: &Array, part: &Part) -> Option<Ahead> {
    let start = part.bytes.end;
    let next = start..(start + part.bytes.len()).min(array.byte_len());
    if next.len() < WORTH_IT {
        return None;
    }
    let room = site.device().expect(next.len(), true).ok()??;
    let (bytes, source) = (next.clone(), array.clone());
    let result = Late::start("read ahead", move || {
        let here = source.data().computed().and_then(Storage::here).and_then(|here| here.get(bytes));
        let copied = here.map_or(Err(DeviceError::NoHostMemory { wanted: 0 }), |here| room.copy(here));
        // Before anybody sees the result: who waits for it is to have the array alone.
        drop(source);
        copied
    });
    let copy = Arc::new(Copy { bytes: next.len(), result });
    let reader: Arc<dyn Work> = copy.clone();
    array.data().read_by(&reader);
    Some(Ahead { part: Part { of: part.of, bytes: next }, copy })
}

/// Bytes that are locked at once.
const SLICE: usize = 256 << 20;
/// The alignment of slices: a page of the host.
const PAGE: usize = 4096;

/// Begins to lock the pages of an array that is large and read in parts one behind the other: what is read again is then copied without the
/// processor. Begins at its end, which is read last. `None` if there is nothing left to do, or the memory is lent.
fn lock(site: &Site, array: &Array) -> Option<Arc<Locking>> {
    let slices = array.byte_len().div_ceil(SLICE);
    let storage = array.data().computed()?;
    if slices < 2 || !storage.is_own() || storage.holds() >= slices {
        return None;
    }
    let (device, source, wanted) = (site.device().clone(), array.clone(), Arc::new(AtomicBool::new(false)));
    let asked = wanted.clone();
    let done = Late::start("page lock", move || {
        let storage = source.data().computed();
        let Some((storage, here)) = storage.and_then(|storage| Some((storage, storage.here()?))) else { return };
        let start = here.as_ptr().addr();
        let bound = |slice: usize| (start + slice * SLICE).next_multiple_of(PAGE).saturating_sub(start).min(here.len());
        while storage.holds() < slices && !asked.load(Ordering::Relaxed) {
            let slice = slices - 1 - storage.holds();
            let bytes = &here[if slice == 0 { 0 } else { bound(slice) }..bound(slice + 1)];
            // SAFETY: the storage keeps the guard until its memory is freed.
            match unsafe { device.lock(bytes) } {
                Some(guard) => storage.hold(guard),
                None => break,
            }
        }
        drop(source);
    });
    let locking = Arc::new(Locking { wanted, done });
    let reader: Arc<dyn Work> = locking.clone();
    array.data().read_by(&reader);
    Some(locking)
}

/// Writes an operand of the shape `whole` into a part of an array that the device does not have: what it has computed is copied
/// to its place. Returns false if it has done nothing.
pub(super) fn store(array: &mut Array, at: &Lattice, operand: &Operand, site: &Site) -> Outcome<bool> {
    let Some(scalar) = array.scalar().filter(|_| is_fit(array, site)) else { return Ok(false) };
    let (Some(bytes), Operand::Array(value, _)) = (in_a_row(at, scalar.size()), operand) else { return Ok(false) };
    if value.byte_len() != bytes.len() || Arc::ptr_eq(value.data(), array.data()) {
        return Ok(false);
    }
    prepare(value, site)?;
    let from = value.storage()?;
    let before = array.data().identity();
    if let Some(into) = array.storage_mut()?.bytes_mut()?.get_mut(bytes.clone()) {
        from.copy_to(into)?;
    }
    site.stream().rename(before, array.data().identity(), &bytes);
    Ok(true)
}
