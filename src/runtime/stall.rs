//! Records the loop or the kernels that a launch waits for. The terminal shows them if the launch makes no progress.
//!
//! Input: the simulator's workers report spin loops in which all their threads wait, and GPUs report kernels that the
//! host waits for. Output: [`Stalls::spin`] and [`Stalls::kernels`]. Nothing is recorded unless [`Stalls::enable`] was
//! called.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clk_base::source::{FileId, Span};

/// The waits of the current launches.
#[derive(Debug, Default)]
pub struct Stalls {
    enabled: AtomicBool,
    /// Workers of the simulator that run a kernel with spin loops.
    workers: Mutex<Vec<Arc<WorkerStall>>>,
    kernels: Mutex<Option<(Instant, StalledKernels)>>,
}

/// Kernels queued on a GPU that may wait forever. The host waits for the end of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledKernels {
    pub device: String,
    pub names: Vec<String>,
}

/// Counts of how often one worker polled a spin loop. Only that worker writes them.
#[derive(Debug, Default)]
pub struct WorkerStall {
    /// Location of the spin loop: the file id in the upper 32 bits, the position in the lower 32 bits.
    place: AtomicU64,
    /// Number of polls at which a thread group's state was unchanged since the previous poll.
    waits: AtomicU64,
    /// Number of polls at which a thread group's state had changed.
    moves: AtomicU64,
}

impl WorkerStall {
    /// Records that a thread group still waits in the loop at this location.
    pub fn record_wait(&self, place: Span) {
        self.place.store(u64::from(place.file.0) << 32 | u64::from(place.start), Ordering::Relaxed);
        self.waits.store(self.waits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Records that a thread group has made progress.
    pub fn record_progress(&self) {
        self.moves.store(self.moves.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn place(&self) -> Span {
        let (place, waits) = (self.place.load(Ordering::Relaxed), self.waits.load(Ordering::Relaxed));
        debug_assert!(waits > 0, "a worker that has waited");
        let start = place as u32;
        Span { file: FileId((place >> 32) as u32), start, end: start }
    }
}

/// A snapshot of the counts of all workers.
#[derive(Clone, Debug, Default)]
pub struct WorkerCounts {
    workers: Vec<(Arc<WorkerStall>, u64, u64)>,
}

/// Keeps a worker registered until it is dropped.
pub struct WorkerRegistration<'a> {
    stalls: &'a Stalls,
    pub worker: Arc<WorkerStall>,
}

impl Drop for WorkerRegistration<'_> {
    fn drop(&mut self) {
        self.stalls.workers().retain(|worker| !Arc::ptr_eq(worker, &self.worker));
    }
}

/// A guard that exists while the host waits for kernels.
pub struct AwaitedKernels(Arc<Stalls>);

impl Drop for AwaitedKernels {
    fn drop(&mut self) {
        *self.0.awaited() = None;
    }
}

impl Stalls {
    /// Starts the recording of stalls.
    pub fn enable(&self) {
        self.enabled.store(true, Ordering::Relaxed);
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<WorkerStall>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, Option<(Instant, StalledKernels)>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a worker of a kernel with spin loops.
    pub fn register(&self) -> Option<WorkerRegistration<'_>> {
        if !self.is_enabled() {
            return None;
        }
        let worker = Arc::<WorkerStall>::default();
        self.workers().push(worker.clone());
        Some(WorkerRegistration { stalls: self, worker })
    }

    /// Records that the host waits for these kernels, until the returned guard is dropped.
    pub fn wait(self: &Arc<Stalls>, kernels: StalledKernels) -> AwaitedKernels {
        *self.awaited() = Some((Instant::now(), kernels));
        AwaitedKernels(self.clone())
    }

    pub fn counts(&self) -> WorkerCounts {
        let count = |worker: &Arc<WorkerStall>| {
            (worker.clone(), worker.waits.load(Ordering::Relaxed), worker.moves.load(Ordering::Relaxed))
        };
        WorkerCounts { workers: self.workers().iter().map(count).collect() }
    }

    /// Returns the location of a spin loop if no worker has made progress since the snapshot `since`.
    pub fn spin(&self, since: &WorkerCounts) -> Option<Span> {
        let now = self.counts().workers;
        let waits = |((worker, waits, moves), (before, old_waits, old_moves)): (
            &(Arc<WorkerStall>, _, _),
            &(Arc<WorkerStall>, _, _),
        )| { Arc::ptr_eq(worker, before) && waits > old_waits && moves == old_moves };
        let all = now.len() == since.workers.len() && now.iter().zip(&since.workers).all(waits);
        if all { now.first().map(|(worker, ..)| worker.place()) } else { None }
    }

    /// Returns the kernels that the host waits for, and how long it has waited.
    pub fn kernels(&self) -> Option<(Duration, StalledKernels)> {
        self.awaited().as_ref().map(|(since, kernels)| (since.elapsed(), kernels.clone()))
    }
}
