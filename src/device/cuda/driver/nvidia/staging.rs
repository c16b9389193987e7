//! Large copies between the host and a GPU: through blocks of page-locked memory, which the bus reads and writes at its full speed. A few
//! threads fill or empty them, as one alone copies at a fraction of that speed. Memory whose pages are locked themselves is copied as it is.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{MutexGuard, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

use cudarc::driver::result as cu;
use cudarc::driver::sys;

use super::block::{self, PIECE, Piece, Staging, Way};
use super::{Nvidia, said};
use crate::base::aligned;
use crate::device::cuda::driver::pieces::Shared;
use crate::device::cuda::driver::{Address, Answer, Refusal};

/// The most threads that fill or empty staging memory.
const COPIERS: usize = 12;

/// A stream that the threads of one copy use.
#[derive(Clone, Copy)]
struct Handle(sys::CUstream);

// SAFETY: as of `Nvidia`, which owns the stream.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

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

    /// Copies in pieces, which a few threads share. Each has two blocks of staging memory: it works on one while the bus has the other.
    fn in_pieces(&self, bytes: usize, copy: &dyn Copying) -> Answer {
        let pieces = bytes.div_ceil(PIECE);
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
        let copiers = threads.min(COPIERS).min(pieces);
        let work = move |first: usize| {
            self.enter()?;
            let blocks = [self.take_staging()?, self.take_staging()?];
            let parts = (first..pieces).step_by(copiers).map(|k| (k * PIECE, PIECE.min(bytes - k * PIECE)));
            let outcome = in_turn(&blocks, parts, copy);
            blocks.into_iter().for_each(|block| self.give_staging(block));
            outcome
        };
        std::thread::scope(|scope| {
            let start = |first| Builder::new().spawn_scoped(scope, move || work(first)).map_err(|_| first);
            let workers: Vec<_> = (1..copiers).map(start).collect();
            let own = work(0);
            let of = |worker: Result<ScopedJoinHandle<'_, Answer>, usize>| match worker {
                Ok(worker) => worker.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // Where there are no more threads, this one does the work.
                Err(first) => work(first),
            };
            own.and(workers.into_iter().try_for_each(of))
        })
    }

    /// Copies to the GPU in the order of a stream.
    pub(super) fn upload_staged(&self, to: Address, bytes: &[u8], stream: sys::CUstream) -> Answer {
        self.in_pieces(bytes.len(), &Upload { to, bytes, stream: Handle(stream) })
    }

    /// Copies from the GPU after all operations of its stream; returns when the copy is done.
    pub(super) fn download_staged(&self, from: Address, bytes: &mut [u8]) -> Answer {
        let whole = bytes.len();
        self.in_pieces(whole, &Download { from, into: Shared(bytes.as_mut_ptr()), stream: Handle(self.stream) })
    }
}

/// Copies from and to memory whose pages are locked.
impl Nvidia {
    /// Locks pages of memory that stays until they are unlocked.
    pub(super) fn lock_pages(&self, bytes: &[u8]) -> Answer {
        let start = bytes.as_ptr();
        let all = self.locked().values().fold(bytes.len(), |all, len| all.saturating_add(*len));
        if all > aligned::lockable() {
            return Err(Refusal {
                call: "cuMemHostRegister".into(),
                code: Refusal::OUT_OF_MEMORY,
                name: "too much".into(),
            });
        }
        // SAFETY: the memory is allocated; registering it changes no byte.
        let locked = unsafe { sys::cuMemHostRegister_v2(start.cast_mut().cast(), bytes.len(), 0) }.result();
        said("cuMemHostRegister", locked)?;
        self.locked().insert(start.addr(), bytes.len());
        Ok(())
    }

    pub(super) fn unlock_pages(&self, start: usize) {
        if self.locked().remove(&start).is_some() {
            // SAFETY: these pages were locked from this address on, and no copy is under way: each is waited for.
            let _ = unsafe { sys::cuMemHostUnregister(std::ptr::without_provenance_mut(start)) }.result();
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how memory is to be copied.
    pub(super) fn way(&self, start: usize, len: usize) -> Way {
        block::way(&self.locked(), start, len)
    }

    /// Begins to copy to the GPU in the order of a stream; the bytes stay until the copy is over.
    pub(super) fn upload_locked(&self, to: Address, bytes: &[u8], pieces: &[Piece], stream: sys::CUstream) -> Answer {
        pieces.iter().try_for_each(|&(start, len)| {
            let to = to.0 + start as u64;
            // SAFETY: the owner allocated at least this many bytes; those of the host stay, as required.
            said("cuMemcpyHtoDAsync", unsafe { cu::memcpy_htod_async(to, &bytes[start..start + len], stream) })
        })
    }

    /// As [`Nvidia::download_staged`].
    pub(super) fn download_locked(&self, from: Address, bytes: &mut [u8], pieces: &[Piece]) -> Answer {
        let begun = pieces.iter().try_for_each(|&(start, len)| {
            // SAFETY: the owner allocated at least this many bytes; those of the host stay until the copy is over, below.
            let copied =
                unsafe { cu::memcpy_dtoh_async(&mut bytes[start..start + len], from.0 + start as u64, self.stream) };
            said("cuMemcpyDtoHAsync", copied)
        });
        // SAFETY: the stream is alive.
        let waited = said("cuStreamSynchronize", unsafe { cu::stream::synchronize(self.stream) });
        begun.and(waited)
    }
}

/// A large copy, of which any thread does any piece.
trait Copying: Sync {
    /// Begins to copy a piece, by way of a block that nobody else has.
    fn begin(&self, block: &Staging, piece: Piece) -> Answer;

    /// Ends what was begun.
    fn end(&self, block: &Staging, piece: Piece) -> Answer;
}

/// Copies pieces by way of two blocks in turn.
fn in_turn(blocks: &[Staging; 2], pieces: impl Iterator<Item = Piece>, copy: &dyn Copying) -> Answer {
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
    fn settle(&self) -> Answer {
        // SAFETY: the event is alive.
        said("cuEventSynchronize", unsafe { cu::event::synchronize(self.done) })
    }

    /// Makes the end of what a stream does so far the moment at which it is free.
    fn free_behind(&self, stream: Handle) -> Answer {
        // SAFETY: event and stream are alive and of one context.
        said("cuEventRecord", unsafe { cu::event::record(self.done, stream.0) })
    }

    /// Returns the first bytes of the block, at most its size.
    ///
    /// # Safety
    /// Nobody else has the block, and it is free.
    #[allow(clippy::mut_from_ref, reason = "the memory is not the struct's own")]
    unsafe fn room(&self, len: usize) -> &mut [u8] {
        // SAFETY: it has `PIECE` bytes, which are the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.memory, len.min(PIECE)) }
    }
}

struct Upload<'b> {
    to: Address,
    bytes: &'b [u8],
    stream: Handle,
}

impl Copying for Upload<'_> {
    fn begin(&self, block: &Staging, (start, len): Piece) -> Answer {
        block.settle()?;
        // SAFETY: the block is this thread's, and free.
        let room = unsafe { block.room(len) };
        room.copy_from_slice(&self.bytes[start..start + len]);
        // SAFETY: the owner allocated at least this many bytes; the block stays unchanged until its event.
        let copied = unsafe { cu::memcpy_htod_async(self.to.0 + start as u64, &*room, self.stream.0) };
        said("cuMemcpyHtoDAsync", copied)?;
        block.free_behind(self.stream)
    }

    fn end(&self, _: &Staging, _: Piece) -> Answer {
        Ok(())
    }
}

struct Download {
    from: Address,
    into: Shared,
    stream: Handle,
}

impl Copying for Download {
    fn begin(&self, block: &Staging, (start, len): Piece) -> Answer {
        block.settle()?;
        // SAFETY: the block is this thread's, and free.
        let room = unsafe { block.room(len) };
        // SAFETY: the owner allocated at least this many bytes; the block is not read before its event.
        let copied = unsafe { cu::memcpy_dtoh_async(room, self.from.0 + start as u64, self.stream.0) };
        said("cuMemcpyDtoHAsync", copied)?;
        block.free_behind(self.stream)
    }

    fn end(&self, block: &Staging, (start, len): Piece) -> Answer {
        block.settle()?;
        // SAFETY: this part of the target is exclusive to this call.
        unsafe { std::ptr::copy_nonoverlapping(block.memory, self.into.at(start), len) };
        Ok(())
    }
}
