//! Large copies through the segment's slots: the program fills or empties some slots while the GPU copies others.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::driver::pieces::Shared;
use super::super::driver::{Address, Answer, Refusal};
use super::remote::{Link, Remote, gone};
use super::segment::{SLOT_BYTES, SLOTS};
use super::wire::{Reply, Request};

/// Threads that copy between arrays and slots: a single one copies at a fraction of the bus bandwidth. Each has its own slots.
const COPIERS: usize = 4;
const SLOTS_EACH: usize = SLOTS / COPIERS;

/// A part of a copy.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    bytes: usize,
}

/// A large copy in progress.
struct Transfer<'a> {
    remote: &'a Remote,
    /// The worker that it began with; if that is replaced, the copy has failed.
    generation: u64,
    next: AtomicUsize,
    bytes: usize,
}

impl Transfer<'_> {
    fn next_piece(&self) -> Option<Piece> {
        let start = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(SLOT_BYTES)?;
        (start < self.bytes).then(|| Piece { start, bytes: SLOT_BYTES.min(self.bytes - start) })
    }

    fn link(&self) -> Answer<std::sync::MutexGuard<'_, Link>> {
        let link = self.remote.link();
        if link.generation == self.generation { Ok(link) } else { Err(broken_off()) }
    }

    fn begin(&self, request: &Request<'_>) -> Answer {
        self.remote.tell(&mut *self.link()?, &request.encode(), true)
    }

    /// Waits until the GPU is done with a slot.
    fn settle(&self, slot: u32) -> Answer {
        let link = &mut *self.link()?;
        match self.remote.ask(link, &Request::Settle { slot })? {
            // The reply came from a new worker, which did not do the copy.
            Reply::Done if link.generation != self.generation => Err(broken_off()),
            Reply::Done => Ok(()),
            _ => Err(gone("it answers what was not asked".into())),
        }
    }
}

fn broken_off() -> Refusal {
    gone("it was replaced during a copy".into())
}

impl Remote {
    fn transfer(&self, bytes: usize, copier: impl Fn(&Transfer<'_>, [u32; SLOTS_EACH]) -> Answer + Sync) -> Answer {
        let _slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let transfer = Transfer { remote: self, generation: self.link().generation, next: AtomicUsize::new(0), bytes };
        let own = |copier: usize| std::array::from_fn(|k| (copier * SLOTS_EACH + k) as u32);
        let copiers = bytes.div_ceil(SLOT_BYTES).min(COPIERS);
        std::thread::scope(|scope| {
            let (transfer, copier) = (&transfer, &copier);
            let others: Vec<_> = (1..copiers).map(|k| scope.spawn(move || copier(transfer, own(k)))).collect();
            let first = copier(transfer, own(0));
            let others = others.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(broken_off())));
            // The loss itself is a better error than an interrupted copy.
            let mut answers: Vec<Answer> = std::iter::once(first).chain(others).collect();
            answers.sort_by_key(|answer| answer.as_ref().err().is_none_or(|refusal| *refusal == broken_off()));
            answers.into_iter().find(Result::is_err).unwrap_or(Ok(()))
        })
    }

    /// Returns when the copy is done: if the worker is lost before, the array is still valid on the host.
    pub(super) fn upload_large(&self, to: Address, bytes: &[u8]) -> Answer {
        self.transfer(bytes.len(), |transfer, slots| {
            let mut busy = [false; SLOTS_EACH];
            for iteration in 0.. {
                let k = iteration % SLOTS_EACH;
                let Some(piece) = transfer.next_piece() else { break };
                if busy[k] {
                    transfer.settle(slots[k])?;
                }
                let place = self.segment.slot(slots[k]).ok_or_else(broken_off)?;
                let part = &bytes[piece.start..piece.start + piece.bytes];
                // SAFETY: the slot is exclusive to this thread, and the GPU is done with it.
                unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place, part.len()) };
                let to = Address(to.0 + piece.start as u64);
                transfer.begin(&Request::UploadSlot { to, slot: slots[k], bytes: piece.bytes as u32 })?;
                busy[k] = true;
            }
            slots.iter().zip(busy).filter(|(_, busy)| *busy).try_for_each(|(&slot, _)| transfer.settle(slot))
        })
    }

    pub(super) fn download_large(&self, from: Address, bytes: &mut [u8]) -> Answer {
        let whole = bytes.len();
        let target = Shared(bytes.as_mut_ptr());
        self.transfer(whole, |transfer, slots| {
            let mut busy: [Option<Piece>; SLOTS_EACH] = [None; SLOTS_EACH];
            for iteration in 0.. {
                let k = iteration % SLOTS_EACH;
                if let Some(piece) = busy[k].take() {
                    transfer.settle(slots[k])?;
                    let place = self.segment.slot(slots[k]).ok_or_else(broken_off)?;
                    // SAFETY: the GPU is done with the slot, and this part of the target is exclusive to this thread.
                    unsafe { std::ptr::copy_nonoverlapping(place, target.at(piece.start), piece.bytes) };
                }
                match transfer.next_piece() {
                    Some(piece) => {
                        let from = Address(from.0 + piece.start as u64);
                        transfer.begin(&Request::DownloadSlot { from, slot: slots[k], bytes: piece.bytes as u32 })?;
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
