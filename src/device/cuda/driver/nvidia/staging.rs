//! Large copies between the host and a GPU: through blocks of page-locked memory, which the bus reads and writes at its full speed. A few
//! threads fill or empty them, as one alone copies at a fraction of that speed.

use std::sync::PoisonError;

use cudarc::driver::result as cu;
use cudarc::driver::sys;

use super::{Nvidia, said};
use crate::device::cuda::driver::pieces::Shared;
use crate::device::cuda::driver::{Address, Answer};

/// Bytes of one block of staging memory: a fraction of what a processor's last cache holds for each thread.
const PIECE: usize = 2 << 20;
/// Copies of at least this size go through staging memory; the driver has its own for small ones.
pub(super) const STAGED: usize = 1 << 20;
/// The most threads that fill or empty staging memory.
const COPIERS: usize = 12;

/// A stream that the threads of one copy use.
#[derive(Clone, Copy)]
struct Handle(sys::CUstream);

// SAFETY: as of `Nvidia`, which owns the stream.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Page-locked staging memory for copies, and the event after which it is free again.
pub(super) struct Staging {
    memory: *mut u8,
    /// Reached when the block is free again.
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
            let workers: Vec<_> = (0..copiers).map(|first| scope.spawn(move || work(first))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
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

/// The offset of a piece and its length, which is at most a block's.
type Piece = (usize, usize);

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
