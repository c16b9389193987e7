//! What a launch waits for, to be shown while it makes no progress.
//!
//! Input: workers of the simulator report the loops in which they only wait for other threads, and GPUs the kernels whose end the host
//! waits for. Output: [`Stalls::spin`] and [`Stalls::kernels`]. Nothing is recorded unless somebody [wants](Stalls::want) to show it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::source::{FileId, Span};

/// What the current launches wait for.
#[derive(Debug, Default)]
pub struct Stalls {
    wanted: AtomicBool,
    /// Workers that run groups of a kernel with spin loops.
    workers: Mutex<Vec<Arc<Worker>>>,
    kernels: Mutex<Option<(Instant, Kernels)>>,
}

/// Kernels on a GPU that may wait forever, the last of which the host waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernels {
    pub device: String,
    pub names: Vec<String>,
}

/// What one worker does in loops that wait. Only that worker writes it.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// The file in the upper half, the position in the lower half.
    place: AtomicU64,
    /// How often it has found a group waiting as before, and how often it has not.
    waits: AtomicU64,
    moves: AtomicU64,
}

impl Worker {
    /// Records that a group still waits in the loop at this place.
    pub fn waits(&self, place: Span) {
        self.place.store(u64::from(place.file.0) << 32 | u64::from(place.start), Ordering::Relaxed);
        self.waits.store(self.waits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Records that a group has made progress.
    pub fn moves(&self) {
        self.moves.store(self.moves.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn place(&self) -> Span {
        let (place, waits) = (self.place.load(Ordering::Relaxed), self.waits.load(Ordering::Relaxed));
        debug_assert!(waits > 0, "a worker that has waited");
        let start = place as u32;
        Span { file: FileId((place >> 32) as u32), start, end: start }
    }
}

/// The counts of all workers at some time.
#[derive(Clone, Debug, Default)]
pub struct Look {
    workers: Vec<(Arc<Worker>, u64, u64)>,
}

/// The registration of a worker, until it is dropped.
pub(crate) struct Registered<'a> {
    stalls: &'a Stalls,
    pub worker: Arc<Worker>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.stalls.workers().retain(|worker| !Arc::ptr_eq(worker, &self.worker));
    }
}

/// The host waits for kernels, until this is dropped.
pub(crate) struct Awaited(Arc<Stalls>);

impl Drop for Awaited {
    fn drop(&mut self) {
        *self.0.awaited() = None;
    }
}

impl Stalls {
    /// Has stalls recorded from now on.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<Worker>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, Option<(Instant, Kernels)>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a worker of a kernel with spin loops.
    pub(crate) fn register(&self) -> Option<Registered<'_>> {
        if !self.is_wanted() {
            return None;
        }
        let worker = Arc::<Worker>::default();
        self.workers().push(worker.clone());
        Some(Registered { stalls: self, worker })
    }

    /// Records that the host waits for these kernels.
    pub(crate) fn wait(self: &Arc<Stalls>, kernels: Kernels) -> Awaited {
        *self.awaited() = Some((Instant::now(), kernels));
        Awaited(self.clone())
    }

    pub fn look(&self) -> Look {
        let counts = |worker: &Arc<Worker>| {
            (worker.clone(), worker.waits.load(Ordering::Relaxed), worker.moves.load(Ordering::Relaxed))
        };
        Look { workers: self.workers().iter().map(counts).collect() }
    }

    /// Returns a loop in which a group waits, if all workers have done nothing but wait since that look.
    pub fn spin(&self, since: &Look) -> Option<Span> {
        let now = self.look().workers;
        let waits =
            |((worker, waits, moves), (before, old_waits, old_moves)): (&(Arc<Worker>, _, _), &(Arc<Worker>, _, _))| {
                Arc::ptr_eq(worker, before) && waits > old_waits && moves == old_moves
            };
        let all = now.len() == since.workers.len() && now.iter().zip(&since.workers).all(waits);
        if all { now.first().map(|(worker, ..)| worker.place()) } else { None }
    }

    /// Returns the kernels that the host waits for, and for how long.
    pub fn kernels(&self) -> Option<(Duration, Kernels)> {
        self.awaited().as_ref().map(|(since, kernels)| (since.elapsed(), kernels.clone()))
    }
}
