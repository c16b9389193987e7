//! Large copies between the host and a GPU: through blocks of page-locked memory, which the bus reads and writes at its full speed. A few
//! threads fill or empty them, as one alone copies at a fraction of that speed.

use std::sync::PoisonError;

use cudarc::driver::result as cu;
use cudarc::driver::sys;

use super::{Nvidia, said};
use crate::device::cuda::driver::pieces::Shared;
use crate::device::cuda::driver::{Address, Answer};

/// Bytes of one block of staging memory.
const PIECE: usize = 8 << 20;
/// Copies of at least this size go through staging memory; the driver has its own for small ones.
pub(super) const STAGED: usize = 1 << 20;
/// Threads that fill staging memory: a single one copies at a fraction of the bus bandwidth.
const COPIERS: usize = 4;

/// A stream that the threads of one copy use.
#[derive(Clone, Copy)]
struct Handle(sys::CUstream);

// SAFETY: as of `Nvidia`, which owns the stream.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Returns the stream. (A method, so that closures capture the whole struct.)
    fn get(self) -> sys::CUstream {
        self.0
    }
}

/// Page-locked staging memory for copies, and the event after which it is free again.
pub(super) struct Staging {
    memory: *mut u8,
    done: sys::CUevent,
}

// SAFETY: it is owned by the thread that took it out of the list.
unsafe impl Send for Staging {}

impl Nvidia {
    fn take_staging(&self) -> Answer<Staging> {
        if let Some(free) = self.staging.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(free);
        }
        // SAFETY: the context is current.
        let memory = said("cuMemHostAlloc", unsafe { cu::malloc_host(PIECE, 0) })?;
        let done = said("cuEventCreate", cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))?;
        Ok(Staging { memory: memory.cast(), done })
    }

    fn give_staging(&self, staging: Staging) {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).push(staging);
    }

    /// Runs `piece` with offset and length of every part of a large copy, spread over a few threads with a block of staging
    /// memory each.
    fn in_pieces(&self, bytes: usize, piece: &(dyn Fn(&Staging, usize, usize) -> Answer + Sync)) -> Answer {
        let pieces = bytes.div_ceil(PIECE);
        let copiers = COPIERS.min(pieces);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..copiers)
                .map(|first| {
                    scope.spawn(move || {
                        self.enter()?;
                        let staging = self.take_staging()?;
                        let mut outcome = Ok(());
                        for k in (first..pieces).step_by(copiers) {
                            let start = k * PIECE;
                            outcome = piece(&staging, start, PIECE.min(bytes - start));
                            if outcome.is_err() {
                                break;
                            }
                        }
                        self.give_staging(staging);
                        outcome
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|w| w.join().unwrap_or(Ok(())))
        })
    }

    /// Waits until a block of staging memory is free again.
    fn settle(staging: &Staging) -> Answer {
        // SAFETY: the event is alive.
        said("cuEventSynchronize", unsafe { cu::event::synchronize(staging.done) })
    }

    fn record_done(staging: &Staging, stream: sys::CUstream) -> Answer {
        // SAFETY: event and stream are alive and of one context.
        said("cuEventRecord", unsafe { cu::event::record(staging.done, stream) })
    }

    /// Copies to the GPU in the order of a stream.
    pub(super) fn upload_staged(&self, to: Address, bytes: &[u8], stream: sys::CUstream) -> Answer {
        let stream = Handle(stream);
        self.in_pieces(bytes.len(), &|staging, start, len| {
            Self::settle(staging)?;
            // SAFETY: `len` is at most the size of a staging block, which is exclusive to this thread.
            let room = unsafe { std::slice::from_raw_parts_mut(staging.memory, len) };
            room.copy_from_slice(&bytes[start..start + len]);
            // SAFETY: the owner allocated at least this many bytes; the block stays unchanged until its event.
            let copied = unsafe { cu::memcpy_htod_async(to.0 + start as u64, &*room, stream.get()) };
            said("cuMemcpyHtoDAsync", copied)?;
            Self::record_done(staging, stream.get())
        })
    }

    /// Copies from the GPU after all operations of its stream; returns when the copy is done.
    pub(super) fn download_staged(&self, from: Address, bytes: &mut [u8]) -> Answer {
        let whole = bytes.len();
        let target = Shared(bytes.as_mut_ptr());
        let stream = Handle(self.stream);
        self.in_pieces(whole, &|staging, start, len| {
            Self::settle(staging)?;
            // SAFETY: `len` is at most the size of a staging block, which is exclusive to this thread.
            let room = unsafe { std::slice::from_raw_parts_mut(staging.memory, len) };
            // SAFETY: the owner allocated at least this many bytes; the block is not read before its event.
            let copied = unsafe { cu::memcpy_dtoh_async(room, from.0 + start as u64, self.stream) };
            said("cuMemcpyDtoHAsync", copied)?;
            Self::record_done(staging, stream.get())?;
            Self::settle(staging)?;
            // SAFETY: this part of the target is exclusive to this call.
            unsafe { std::ptr::copy_nonoverlapping(staging.memory, target.at(start), len) };
            Ok(())
        })
    }
}
