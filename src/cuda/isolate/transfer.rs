//! Large copies through the slots of the shared segment. The program fills or empties some slots while the GPU copies
//! to or from others.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::driver::shared_ptr::SharedPtr;
use super::super::driver::{DevicePtr, DriverError, DriverResult};
use super::remote::{IsolatedGpu, WorkerLink, worker_gone};
use super::wire::{WorkerReply, WorkerRequest};
use clk_runtime::worker_process::{SLOT_BYTES, SLOTS};

/// Number of threads that copy between arrays and slots; one thread would copy at only a fraction of the bus bandwidth.
/// Each thread has its own slots.
const COPY_THREADS: usize = 4;
const SLOTS_EACH: usize = SLOTS / COPY_THREADS;

/// A part of a copy, which fits in a slot.
#[derive(Clone, Copy)]
struct TransferPart {
    start: usize,
    bytes: usize,
}

/// A large copy in progress.
struct Transfer<'a> {
    remote: &'a IsolatedGpu,
    /// The number of the worker that began the copy. If the worker is replaced, the copy has failed.
    generation: u64,
    next: AtomicUsize,
    bytes: usize,
}

impl Transfer<'_> {
    fn next_piece(&self) -> Option<TransferPart> {
        let start = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(SLOT_BYTES)?;
        (start < self.bytes).then(|| TransferPart { start, bytes: SLOT_BYTES.min(self.bytes - start) })
    }

    fn link(&self) -> DriverResult<std::sync::MutexGuard<'_, WorkerLink>> {
        let link = self.remote.link();
        if link.generation == self.generation { Ok(link) } else { Err(interrupted_copy()) }
    }

    fn begin(&self, request: &WorkerRequest<'_>) -> DriverResult {
        self.remote.send_message(&mut *self.link()?, &request.encode(), true)
    }

    /// Waits until the GPU no longer accesses a slot.
    fn settle(&self, slot: u32) -> DriverResult {
        let link = &mut *self.link()?;
        match self.remote.ask(link, &WorkerRequest::Settle { slot })? {
            // The reply came from a new worker, which did not perform the copy.
            WorkerReply::Done if link.generation != self.generation => Err(interrupted_copy()),
            WorkerReply::Done => Ok(()),
            _ => Err(worker_gone("it answers what was not asked".into())),
        }
    }
}

fn interrupted_copy() -> DriverError {
    worker_gone("it was replaced during a copy".into())
}

impl IsolatedGpu {
    fn transfer(
        &self,
        bytes: usize,
        copier: impl Fn(&Transfer<'_>, [u32; SLOTS_EACH]) -> DriverResult + Sync,
    ) -> DriverResult {
        let _slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let transfer = Transfer { remote: self, generation: self.link().generation, next: AtomicUsize::new(0), bytes };
        let own = |copier: usize| std::array::from_fn(|k| (copier * SLOTS_EACH + k) as u32);
        let copiers = bytes.div_ceil(SLOT_BYTES).min(COPY_THREADS);
        std::thread::scope(|scope| {
            let (transfer, copier) = (&transfer, &copier);
            let others: Vec<_> = (1..copiers).map(|k| scope.spawn(move || copier(transfer, own(k)))).collect();
            let first = copier(transfer, own(0));
            let others = others.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(interrupted_copy())));
            // Prefer the error about the lost worker to errors about interrupted copies.
            let mut answers: Vec<DriverResult> = std::iter::once(first).chain(others).collect();
            answers.sort_by_key(|answer| answer.as_ref().err().is_none_or(|refusal| *refusal == interrupted_copy()));
            answers.into_iter().find(Result::is_err).unwrap_or(Ok(()))
        })
    }

    /// Copies to the GPU and returns when the copy is done. If the worker is lost before, the array is still valid on
    /// the host.
    pub(super) fn upload_large(&self, to: DevicePtr, bytes: &[u8]) -> DriverResult {
        self.transfer(bytes.len(), |transfer, slots| {
            let mut busy = [false; SLOTS_EACH];
            for iteration in 0.. {
                let k = iteration % SLOTS_EACH;
                let Some(piece) = transfer.next_piece() else { break };
                if busy[k] {
                    transfer.settle(slots[k])?;
                }
                let place = self.segment.slot(slots[k]).ok_or_else(interrupted_copy)?;
                let part = &bytes[piece.start..piece.start + piece.bytes];
                // SAFETY: only this thread uses the slot, and the GPU no longer accesses it.
                unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place, part.len()) };
                let to = DevicePtr(to.0 + piece.start as u64);
                transfer.begin(&WorkerRequest::UploadSlot { to, slot: slots[k], bytes: piece.bytes as u32 })?;
                busy[k] = true;
            }
            slots.iter().zip(busy).filter(|(_, busy)| *busy).try_for_each(|(&slot, _)| transfer.settle(slot))
        })
    }

    pub(super) fn download_large(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult {
        let whole = bytes.len();
        let target = SharedPtr(bytes.as_mut_ptr());
        self.transfer(whole, |transfer, slots| {
            let mut busy: [Option<TransferPart>; SLOTS_EACH] = [None; SLOTS_EACH];
            for iteration in 0.. {
                let k = iteration % SLOTS_EACH;
                if let Some(piece) = busy[k].take() {
                    transfer.settle(slots[k])?;
                    let place = self.segment.slot(slots[k]).ok_or_else(interrupted_copy)?;
                    // SAFETY: the GPU no longer accesses the slot, and only this thread accesses this part of the
                    // target.
                    unsafe { std::ptr::copy_nonoverlapping(place, target.at(piece.start), piece.bytes) };
                }
                match transfer.next_piece() {
                    Some(piece) => {
                        let from = DevicePtr(from.0 + piece.start as u64);
                        transfer.begin(&WorkerRequest::DownloadSlot {
                            from,
                            slot: slots[k],
                            bytes: piece.bytes as u32,
                        })?;
                        busy[k] = Some(piece);
                    }
                    None if busy.iter().all(Option::is_none) => break,
                    None => {}
                }
            }
            Ok(())
        })
    }
}
