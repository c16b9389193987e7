//! Large copies between the host and a GPU through blocks of pinned memory, which the GPU accesses at full bus speed.
//! Several threads fill or empty the blocks, because one thread copies at only a fraction of that speed. Host memory
//! that is already pinned is copied directly.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{MutexGuard, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

use cudarc::driver::result as cu;
use cudarc::driver::sys;

use super::host_copy::{self, CopyPiece, HostCopyMode, STAGING_BYTES, Staging};
use super::{Nvidia, check_call};
use crate::driver::shared_ptr::SharedPtr;
use crate::driver::{DevicePtr, DriverError, DriverResult};
use clk_base::aligned;

/// Maximum number of threads that fill or empty staging blocks.
const MAX_COPY_THREADS: usize = 12;

/// Handle of the stream that the threads of one copy share.
#[derive(Clone, Copy)]
struct StreamHandle(sys::CUstream);

// SAFETY: as for `Nvidia`, which owns the stream.
unsafe impl Send for StreamHandle {}
// SAFETY: as above.
unsafe impl Sync for StreamHandle {}

impl Nvidia {
    fn take_staging(&self) -> DriverResult<Staging> {
        if let Some(free) = self.staging.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(free);
        }
        // SAFETY: the context is current.
        let memory = check_call("cuMemHostAlloc", unsafe { cu::malloc_host(STAGING_BYTES, 0) })?;
        let done = check_call("cuEventCreate", cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))?;
        Ok(Staging { memory: memory.cast(), done })
    }

    fn return_staging(&self, staging: Staging) {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).push(staging);
    }

    /// Divides a copy into parts, which several threads copy. Each thread has two staging blocks. It fills or empties
    /// one while the GPU accesses the other.
    fn copy_in_blocks(&self, bytes: usize, copy: &dyn StagedCopy) -> DriverResult {
        let pieces = bytes.div_ceil(STAGING_BYTES);
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
        let copiers = threads.min(MAX_COPY_THREADS).min(pieces);
        let work = move |first: usize| {
            self.enter()?;
            let blocks = [self.take_staging()?, self.take_staging()?];
            let parts = (first..pieces)
                .step_by(copiers)
                .map(|k| k * STAGING_BYTES)
                .map(|start| CopyPiece { start, len: STAGING_BYTES.min(bytes - start) });
            let outcome = alternate_blocks(&blocks, parts, copy);
            blocks.into_iter().for_each(|block| self.return_staging(block));
            outcome
        };
        std::thread::scope(|scope| {
            let start = |first| Builder::new().spawn_scoped(scope, move || work(first)).map_err(|_| first);
            let workers: Vec<_> = (1..copiers).map(start).collect();
            let own = work(0);
            let of = |worker: Result<ScopedJoinHandle<'_, DriverResult>, usize>| match worker {
                Ok(worker) => worker.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // If no thread can be started, copy on this thread.
                Err(first) => work(first),
            };
            own.and(workers.into_iter().try_for_each(of))
        })
    }

    /// Copies to the GPU through staging blocks, in stream order.
    pub(super) fn upload_staged(&self, to: DevicePtr, bytes: &[u8], stream: sys::CUstream) -> DriverResult {
        self.copy_in_blocks(bytes.len(), &Upload { to, bytes, stream: StreamHandle(stream) })
    }

    /// Copies from the GPU through staging blocks, after all earlier operations of its stream. Returns when the copy is
    /// done.
    pub(super) fn download_staged(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult {
        let whole = bytes.len();
        self.copy_in_blocks(
            whole,
            &Download { from, into: SharedPtr(bytes.as_mut_ptr()), stream: StreamHandle(self.stream) },
        )
    }
}

/// Copies from and to pinned host memory.
impl Nvidia {
    /// Pins the pages that contain these bytes. The bytes must not move until the pages are unpinned.
    pub(super) fn pin_pages(&self, bytes: &[u8]) -> DriverResult {
        let start = bytes.as_ptr();
        let all = self.locked().values().fold(bytes.len(), |all, len| all.saturating_add(*len));
        if all > aligned::max_lockable_bytes() {
            return Err(DriverError {
                call: "cuMemHostRegister".into(),
                code: DriverError::OUT_OF_MEMORY,
                name: "too much".into(),
            });
        }
        // SAFETY: the memory is allocated; registering it changes no byte.
        let locked = unsafe { sys::cuMemHostRegister_v2(start.cast_mut().cast(), bytes.len(), 0) }.result();
        check_call("cuMemHostRegister", locked)?;
        self.locked().insert(start.addr(), bytes.len());
        Ok(())
    }

    pub(super) fn unpin_pages(&self, start: usize) {
        if self.locked().remove(&start).is_some() {
            // SAFETY: `pin_pages` pinned pages from this address on, and no copy is in progress, because every copy is
            // waited for.
            let _ = unsafe { sys::cuMemHostUnregister(std::ptr::without_provenance_mut(start)) }.result();
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how to copy a range of host memory.
    pub(super) fn host_copy_mode(&self, start: usize, len: usize) -> HostCopyMode {
        host_copy::host_copy_mode(&self.locked(), start, len)
    }

    /// Begins a copy of pinned memory to the GPU, in stream order. The caller must not free the bytes until the copy is
    /// done.
    pub(super) fn upload_pinned_ranges(
        &self,
        to: DevicePtr,
        bytes: &[u8],
        pieces: &[CopyPiece],
        stream: sys::CUstream,
    ) -> DriverResult {
        pieces.iter().try_for_each(|&CopyPiece { start, len }| {
            let to = to.0 + start as u64;
            // SAFETY: the owner allocated at least this many bytes, and the caller keeps the host's bytes until the
            // copy is done.
            check_call("cuMemcpyHtoDAsync", unsafe { cu::memcpy_htod_async(to, &bytes[start..start + len], stream) })
        })
    }

    /// Like [`Nvidia::download_staged`], for pinned memory.
    pub(super) fn download_pinned_ranges(
        &self,
        from: DevicePtr,
        bytes: &mut [u8],
        pieces: &[CopyPiece],
    ) -> DriverResult {
        let begun = pieces.iter().try_for_each(|&CopyPiece { start, len }| {
            // SAFETY: the owner allocated at least this many bytes, and the host's bytes exist until the wait below.
            let copied =
                unsafe { cu::memcpy_dtoh_async(&mut bytes[start..start + len], from.0 + start as u64, self.stream) };
            check_call("cuMemcpyDtoHAsync", copied)
        });
        // SAFETY: the stream is alive.
        let waited = check_call("cuStreamSynchronize", unsafe { cu::stream::synchronize(self.stream) });
        begun.and(waited)
    }
}

/// A large copy that is divided into parts, each of which any thread can perform.
trait StagedCopy: Sync {
    /// Begins the copy of a part through a block that only this thread uses.
    fn begin(&self, block: &Staging, piece: CopyPiece) -> DriverResult;

    /// Completes the copy of a part that [`StagedCopy::begin`] began.
    fn end(&self, block: &Staging, piece: CopyPiece) -> DriverResult;
}

/// Copies parts, using two blocks alternately.
fn alternate_blocks(
    blocks: &[Staging; 2],
    pieces: impl Iterator<Item = CopyPiece>,
    copy: &dyn StagedCopy,
) -> DriverResult {
    let mut begun = None;
    for (piece, block) in pieces.zip(blocks.iter().cycle()) {
        copy.begin(block, piece)?;
        if let Some((block, piece)) = begun.replace((block, piece)) {
            copy.end(block, piece)?;
        }
    }
    begun.map_or(Ok(()), |(block, piece)| copy.end(block, piece))
}

impl Staging {
    /// Waits until the block is free again.
    fn wait_until_free(&self) -> DriverResult {
        // SAFETY: the event is alive.
        check_call("cuEventSynchronize", unsafe { cu::event::synchronize(self.done) })
    }

    /// Records the event after which the block can be reused: the end of the stream's pending work.
    fn record_free_event(&self, stream: StreamHandle) -> DriverResult {
        // SAFETY: event and stream are alive and of one context.
        check_call("cuEventRecord", unsafe { cu::event::record(self.done, stream.0) })
    }

    /// Returns the first bytes of the block, at most its size.
    ///
    /// # Safety
    /// No other code uses the block, and it is free.
    #[allow(clippy::mut_from_ref, reason = "the memory is not the struct's own")]
    unsafe fn bytes_mut(&self, len: usize) -> &mut [u8] {
        // SAFETY: the block has `STAGING_BYTES` bytes, and only the caller uses them.
        unsafe { std::slice::from_raw_parts_mut(self.memory, len.min(STAGING_BYTES)) }
    }
}

struct Upload<'b> {
    to: DevicePtr,
    bytes: &'b [u8],
    stream: StreamHandle,
}

impl StagedCopy for Upload<'_> {
    fn begin(&self, block: &Staging, piece: CopyPiece) -> DriverResult {
        let CopyPiece { start, len } = piece;
        block.wait_until_free()?;
        // SAFETY: the block is this thread's, and free.
        let bytes_mut = unsafe { block.bytes_mut(len) };
        bytes_mut.copy_from_slice(&self.bytes[start..start + len]);
        // SAFETY: the owner allocated at least this many bytes, and the block is not changed before its event.
        let copied = unsafe { cu::memcpy_htod_async(self.to.0 + start as u64, &*bytes_mut, self.stream.0) };
        check_call("cuMemcpyHtoDAsync", copied)?;
        block.record_free_event(self.stream)
    }

    fn end(&self, _: &Staging, _: CopyPiece) -> DriverResult {
        Ok(())
    }
}

struct Download {
    from: DevicePtr,
    into: SharedPtr,
    stream: StreamHandle,
}

impl StagedCopy for Download {
    fn begin(&self, block: &Staging, piece: CopyPiece) -> DriverResult {
        let CopyPiece { start, len } = piece;
        block.wait_until_free()?;
        // SAFETY: the block is this thread's, and free.
        let bytes_mut = unsafe { block.bytes_mut(len) };
        // SAFETY: the owner allocated at least this many bytes, and the block is not read before its event.
        let copied = unsafe { cu::memcpy_dtoh_async(bytes_mut, self.from.0 + start as u64, self.stream.0) };
        check_call("cuMemcpyDtoHAsync", copied)?;
        block.record_free_event(self.stream)
    }

    fn end(&self, block: &Staging, piece: CopyPiece) -> DriverResult {
        block.wait_until_free()?;
        // SAFETY: no other call accesses this part of the target.
        unsafe { std::ptr::copy_nonoverlapping(block.memory, self.into.at(piece.start), piece.len) };
        Ok(())
    }
}
