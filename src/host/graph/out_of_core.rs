//! Out-of-core arrays: a GPU processes host arrays that may exceed its memory slice by slice. A slice that a kernel
//! reads is uploaded separately, and a computed slice is copied into the host array. Input: a slice of an array that is
//! contiguous in memory. Output: storage in the GPU's memory.
//!
//! Sequential reads trigger a prefetch: if a slice begins where the previous one ended, background threads upload the
//! next two slices of the same size while kernels run. Prefetches never evict other arrays. A write to the array
//! changes its [identity](crate::array::Data::identity), which invalidates prefetched slices.
//!
//! Uploads go through pinned memory. The pages of a large array that is read sequentially are pinned in the background,
//! beginning at its end. The device then transfers them directly (DMA).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::strided::Lattice;
use crate::array::{Array, DeferredWork, MAX_EXTENT};
use crate::graph::context::ExecContext;
use crate::graph::node::NodeOperand;
use crate::graph::prefetch::{ByteRange, PageLocking, PrefetchCopy, PrefetchedRange};
use crate::graph::residency::{is_on_device, is_on_host, materialize_for};
use crate::problem::HostResult;
use clk_base::background::Background;
use clk_runtime::DeviceError;
use clk_runtime::storage::Storage;

/// Minimum size in bytes of a slice that is transferred separately; smaller slices are copied on the host.
const MIN_TRANSFER: usize = 1 << 16;

/// Returns whether slices of an array are transferred separately. This is the case if the array is only on the host, or
/// if it has not been computed and is too large for the device.
pub(super) fn is_out_of_core(array: &Array, context: &ExecContext) -> bool {
    array.byte_len() > MIN_TRANSFER
        && context.device().memory().is_some()
        && !is_on_device(array)
        && (is_on_host(array) || is_too_large(array, context))
}

/// Returns whether an array is too large for the device of this context.
fn is_too_large(array: &Array, context: &ExecContext) -> bool {
    let budget = || context.device().memory().and_then(|memory| memory.size()).unwrap_or(u64::MAX) / 2;
    array.count() * array.element().lanes() > MAX_EXTENT || array.byte_len() as u64 > budget()
}

/// Returns the byte range to upload; `None` if the whole array should be uploaded instead. That is the case if the
/// array fits in device memory and at least half of it is needed.
pub(super) fn separate_upload(array: &Array, at: &Lattice, context: &ExecContext) -> Option<Range<usize>> {
    let scalar = array.scalar().filter(|_| is_on_host(array) && is_out_of_core(array, context))?;
    let bytes = contiguous_bytes(at, scalar.size())?;
    (2 * bytes.len() < array.byte_len() || is_too_large(array, context)).then_some(bytes)
}

/// Returns the byte range of a slice if it is contiguous and large enough for a separate transfer. `size` is the size
/// of a scalar.
fn contiguous_bytes(at: &Lattice, size: usize) -> Option<Range<usize>> {
    let mut stride = 1;
    for (&len, &step) in at.shape.iter().zip(&at.strides).rev().filter(|(len, _)| **len != 1) {
        if step != stride as isize {
            return None;
        }
        stride *= len;
    }
    (stride * size >= MIN_TRANSFER).then(|| at.offset * size..(at.offset + stride) * size)
}

/// Returns a slice of an array in device memory, and starts to prefetch the next slices. `None` if the device does not
/// support asynchronous uploads, or if the array is not on the host.
pub(super) fn upload_range(context: &ExecContext, array: &Array, bytes: Range<usize>) -> HostResult<Option<Storage>> {
    let Some(host_bytes) =
        array.data().computed().and_then(Storage::here).and_then(|host_bytes| host_bytes.get(bytes.clone()))
    else {
        return Ok(None);
    };
    let part = ByteRange { array_id: array.data().identity(), bytes };
    let mut state = context.prefetches().state();
    // Use the prefetched copy of this range, and drop ranges that were skipped. On a misprediction, drop all prefetched
    // ranges.
    let position = state.prefetches.iter().position(|prefetched| prefetched.range == part);
    let prefetched = position.and_then(|at| state.prefetches.drain(..=at).next_back());
    if prefetched.is_none() {
        state.prefetches.clear();
    }
    let arrived = prefetched.and_then(|prefetched| prefetched.copy.result.get().clone().ok());
    let remote = match arrived {
        Some(remote) => remote,
        None => {
            let Some(memory) = context.device().memory() else { return Ok(None) };
            match memory.reserve_upload(host_bytes.len(), false)? {
                Some(buffer) => buffer.copy(host_bytes)?,
                None => return Ok(None),
            }
        }
    };
    let follows = |last: &ByteRange| last.array_id == part.array_id && last.bytes.end == part.bytes.start;
    if state.last_read.as_ref().is_some_and(follows) {
        while state.prefetches.len() < MAX_PREFETCHES
            && let Some(next) = prefetch_next(context, array, state.prefetches.back().map_or(&part, |last| &last.range))
        {
            state.prefetches.push_back(next);
        }
        if state.page_lock.as_ref().is_none_or(|locking| locking.done.is_ready()) {
            state.page_lock = lock_pages(context, array);
        }
    }
    state.last_read = Some(part);
    let mut storage = Storage::zeros(host_bytes.len());
    storage.set_device_copy(remote);
    Ok(Some(storage))
}

/// Number of prefetched ranges: one is transferred while the script uses the other one.
const MAX_PREFETCHES: usize = 2;

/// Starts to prefetch the range after this one. `None` at the end of the array, or if there is not enough free memory.
fn prefetch_next(context: &ExecContext, array: &Array, part: &ByteRange) -> Option<PrefetchedRange> {
    let start = part.bytes.end;
    let next = start..(start + part.bytes.len()).min(array.byte_len());
    if next.len() < MIN_TRANSFER {
        return None;
    }
    let buffer = context.device().memory()?.reserve_upload(next.len(), true).ok()??;
    let (bytes, source) = (next.clone(), array.clone());
    let result = Background::start("read ahead", move || {
        let host_bytes = source.data().computed().and_then(Storage::here).and_then(|host_bytes| host_bytes.get(bytes));
        let copied =
            host_bytes.map_or(Err(DeviceError::NoHostMemory { wanted: 0 }), |host_bytes| buffer.copy(host_bytes));
        // The array is released before the result is published, so that a waiting writer then has the only reference.
        drop(source);
        copied
    });
    let copy = Arc::new(PrefetchCopy { bytes: next.len(), result });
    let reader: Arc<dyn DeferredWork> = copy.clone();
    array.data().add_reader(&reader);
    Some(PrefetchedRange { range: ByteRange { array_id: part.array_id, bytes: next }, copy })
}

/// Number of bytes that are pinned at a time.
const LOCK_SLICE: usize = 256 << 20;
/// The alignment of slices: the page size of the host.
const PAGE: usize = 4096;

/// Starts to pin the pages of a large array that is read sequentially, so that later transfers do not occupy the CPU.
/// Begins at the end of the array, which is read last. `None` if all pages are already pinned, or if the memory is
/// borrowed from another library.
fn lock_pages(context: &ExecContext, array: &Array) -> Option<Arc<PageLocking>> {
    let slices = array.byte_len().div_ceil(LOCK_SLICE);
    let storage = array.data().computed()?;
    if slices < 2 || !storage.is_own() || storage.holds() >= slices {
        return None;
    }
    let (device, source, stop) = (context.device().clone(), array.clone(), Arc::new(AtomicBool::new(false)));
    let stop_requested = stop.clone();
    let done = Background::start("page lock", move || {
        let storage = source.data().computed();
        let Some((storage, host_bytes)) = storage.and_then(|storage| Some((storage, storage.here()?))) else { return };
        let start = host_bytes.as_ptr().addr();
        let bound = |slice: usize| {
            (start + slice * LOCK_SLICE).next_multiple_of(PAGE).saturating_sub(start).min(host_bytes.len())
        };
        let Some(memory) = device.memory() else { return };
        while storage.holds() < slices && !stop_requested.load(Ordering::Relaxed) {
            let slice = slices - 1 - storage.holds();
            let bytes = &host_bytes[if slice == 0 { 0 } else { bound(slice) }..bound(slice + 1)];
            // SAFETY: the storage keeps the guard until its memory is freed.
            match unsafe { memory.pin(bytes) } {
                Some(guard) => storage.hold(guard),
                None => break,
            }
        }
        drop(source);
    });
    let locking = Arc::new(PageLocking { stop, done });
    let reader: Arc<dyn DeferredWork> = locking.clone();
    array.data().add_reader(&reader);
    Some(locking)
}

/// Computes an operand on the device, and copies it into the slice `at` of an out-of-core array. Returns false, without
/// changing anything, if the array is not out of core, or if the operand is not an array of the size of the slice.
pub(super) fn store_window(
    array: &mut Array,
    at: &Lattice,
    operand: &NodeOperand,
    context: &ExecContext,
) -> HostResult<bool> {
    let Some(scalar) = array.scalar().filter(|_| is_out_of_core(array, context)) else { return Ok(false) };
    let (Some(bytes), NodeOperand::Array(value, _)) = (contiguous_bytes(at, scalar.size()), operand) else {
        return Ok(false);
    };
    if value.byte_len() != bytes.len() || Arc::ptr_eq(value.data(), array.data()) {
        return Ok(false);
    }
    materialize_for(value, context)?;
    let from = value.storage()?;
    let old_id = array.data().identity();
    if let Some(into) = array.storage_mut()?.bytes_mut()?.get_mut(bytes.clone()) {
        from.copy_to(into)?;
    }
    context.prefetches().update_identity(old_id, array.data().identity(), &bytes);
    Ok(true)
}
