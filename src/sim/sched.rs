//! Scheduling of groups on workers: a thread pool that lives as long as the process, the order in which groups start,
//! and the collection of their output and faults.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use super::fault;
use super::frame::{GroupFrame, SimLaunch};
use super::warp_split::SplitStatus;
use clk_base::clock::Instant;
use clk_base::{alloc, threads};
use clk_runtime::stall::WorkerRegistration;
use clk_runtime::{BlockOrder, Fault, FaultKind, LaunchExtents, PrintedText};

/// A job that helper threads may join. The pointer `work` is valid until `CLOSED` is set in `state` and all helpers
/// have left.
struct HelperJob {
    work: *const (dyn Fn() + Sync),
    /// Number of helpers that are running the job. If the bit `CLOSED` is set, no further helper may join.
    state: AtomicUsize,
    /// Number of helpers that may still join.
    open_slots: AtomicUsize,
    /// The payload of a helper's panic, with which the panic resumes on the thread that started the job.
    panic_payload: Mutex<Option<Box<dyn Any + Send>>>,
}

const CLOSED: usize = 1 << (usize::BITS / 2);

// SAFETY: the work is `Sync`, and helpers dereference the pointer only between `enter` and `exit`, while the owner of
// the work waits.
unsafe impl Send for HelperJob {}
// SAFETY: as for `Send`: the work may be called by several threads at once.
unsafe impl Sync for HelperJob {}

impl HelperJob {
    fn enter(&self) -> bool {
        let mut places = self.open_slots.load(Ordering::Relaxed);
        loop {
            if places == 0 {
                return false;
            }
            match self.open_slots.compare_exchange_weak(places, places - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => places = now,
            }
        }
        if self.state.fetch_add(1, Ordering::Acquire) & CLOSED != 0 {
            self.state.fetch_sub(1, Ordering::Release);
            return false;
        }
        true
    }

    fn run_if_open(&self) {
        if self.enter() {
            // SAFETY: the work is alive: its owner waits for all helpers that have entered.
            let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*self.work)() }));
            if let (Err(payload), Ok(mut unwound)) = (done, self.panic_payload.lock()) {
                unwound.get_or_insert(payload);
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }
}

#[derive(Default)]
struct Pool {
    state: Mutex<PoolState>,
    wake: Condvar,
    /// Number of jobs so far, by which helpers detect a new job without taking the lock.
    epoch: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    job: Option<Arc<HelperJob>>,
    threads: usize,
}

/// Number of times that a helper polls for a job before it sleeps.
const SPINS_BEFORE_SLEEP: u32 = 2000;

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(Pool::default)
}

impl Pool {
    fn helper_loop(&'static self) {
        let mut seen_epoch = 0;
        loop {
            let mut spins = 0;
            while self.epoch.load(Ordering::Acquire) == seen_epoch && spins < SPINS_BEFORE_SLEEP {
                std::hint::spin_loop();
                spins += 1;
            }
            let Ok(mut state) = self.state.lock() else {
                return;
            };
            while self.epoch.load(Ordering::Acquire) == seen_epoch {
                state = match self.wake.wait(state) {
                    Ok(state) => state,
                    Err(_) => return,
                };
            }
            seen_epoch = self.epoch.load(Ordering::Acquire);
            let job = state.job.clone();
            drop(state);
            if let Some(job) = job {
                job.run_if_open();
            }
        }
    }

    /// Runs `work` on this thread and up to `helpers` others. Returns when all of them have finished it.
    fn run(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) {
        if helpers == 0 {
            return work();
        }
        // SAFETY: only erases the lifetime; `run` does not return before all helpers have left.
        let work_ptr: *const (dyn Fn() + Sync) = unsafe { std::mem::transmute(std::ptr::from_ref(work)) };
        let job = Arc::new(HelperJob {
            work: work_ptr,
            state: AtomicUsize::new(0),
            open_slots: AtomicUsize::new(helpers),
            panic_payload: Mutex::default(),
        });
        if let Ok(mut state) = self.state.lock() {
            while state.threads < helpers {
                let thread = std::thread::Builder::new().name("clk-sim".into());
                if threads::with_signals_blocked(|| thread.spawn(move || self.helper_loop())).is_err() {
                    break;
                }
                state.threads += 1;
            }
            state.job = Some(job.clone());
            self.epoch.fetch_add(1, Ordering::Release);
        }
        self.wake.notify_all();
        let guard = JobGuard(&job);
        work();
        drop(guard);
        let unwound = job.panic_payload.lock().ok().and_then(|mut unwound| unwound.take());
        if let Some(payload) = unwound {
            resume_unwind(payload);
        }
    }
}

/// Runs `work` on this thread and up to `helpers` others. Returns when all of them have finished it.
pub(super) fn run_shared(helpers: usize, work: &(dyn Fn() + Sync)) {
    pool().run(helpers, work);
}

/// Waits for the helpers when dropped, even if the work panics.
struct JobGuard<'a>(&'a HelperJob);

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.0.state.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins < 10_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Output and faults of groups.
#[derive(Default)]
struct Results {
    printed: Vec<(u64, String)>,
    fault: Option<(u64, Fault)>,
}

struct WorkProgress {
    next: AtomicU64,
    /// Groups from this number on need not run, because an earlier group has a fault.
    end: AtomicU64,
    results: Mutex<Results>,
}

/// Runs all groups of a launch.
pub(crate) fn run(launch: &SimLaunch<'_>, extents: &LaunchExtents) -> Result<PrintedText, Box<Fault>> {
    let units = launch.geometry.groups;
    let progress =
        WorkProgress { next: AtomicU64::new(0), end: AtomicU64::new(units), results: Mutex::new(Results::default()) };
    if launch.code.properties.cooperative {
        run_cooperative(launch, extents, &progress);
    } else if launch.reverse_order {
        run_backward(launch, extents, &progress);
    } else if launch.ops.len() > 1 {
        launch.control.progress.started.store(0, Ordering::Relaxed);
        launch.control.progress.total.store(units, Ordering::Relaxed);
        let window = launch.checks.as_ref().map_or(u64::MAX, |watch| watch.blocks_per_window());
        run_forward(launch, extents, &progress, 0..units.min(window));
        let mut next = window;
        while next < progress.end.load(Ordering::Relaxed) {
            launch.checks.iter().for_each(|watch| watch.next_window());
            run_forward(launch, extents, &progress, next..units.min(next + window));
            next += window;
        }
    }
    launch.control.progress.total.store(0, Ordering::Relaxed);
    let results = progress.results.into_inner().unwrap_or_else(|e| e.into_inner());
    finish(results)
}

/// Runs a range of groups in order, distributed over workers.
fn run_forward(launch: &SimLaunch<'_>, extents: &LaunchExtents, progress: &WorkProgress, groups: Range<u64>) {
    progress.next.store(groups.start, Ordering::Relaxed);
    let units = groups.end - groups.start;
    let mut workers = useful_workers(launch).min(units) as usize;
    // Use several workers if there are atomics: a group that waits for other groups has to run concurrently with them.
    if workers > 1 && launch.code.atomics.is_empty() && is_short(launch, extents, progress) {
        workers = 1;
    }
    // If blocks wait for earlier ones, each worker takes one block at a time. With batches, a block would wait until
    // another worker has finished a whole batch.
    let batch = if has_atomic_loads(launch) { 1 } else { (units / (workers as u64 * 16).max(1)).clamp(1, 64) };
    let work = || run_worker(launch, extents, progress, groups.end, batch, workers == 1);
    pool().run(workers.saturating_sub(1), &work);
}

/// Returns the number of workers to use. For `workers` = 0, that is the number of threads that the machine runs at
/// once.
pub fn worker_count(workers: usize) -> usize {
    match workers {
        0 => cores(),
        n => n,
    }
}

/// Returns the number of workers for a launch: 1 if it is so small that waking further workers would take longer than
/// the launch.
fn useful_workers(launch: &SimLaunch<'_>) -> u64 {
    // When costs are counted, run blocks that wait for earlier blocks in order on one worker. Otherwise the number of
    // polling iterations would differ from launch to launch.
    if launch.counts.is_some() && has_atomic_loads(launch) {
        return 1;
    }
    let wanted = worker_count(launch.workers) as u64;
    // A loop can do any amount of work in little code, so only launches without loops count as small.
    let lanes = launch.geometry.groups * launch.geometry.max_lanes as u64;
    let work = lanes * launch.ops.len() as u64;
    if launch.code.properties.is_straight && work < 200_000 { 1 } else { wanted }
}

/// Returns whether the kernel has atomic loads, with which blocks wait for other blocks. An atomic load is a
/// compare-and-swap that stores the value with which it compares.
fn has_atomic_loads(launch: &SimLaunch<'_>) -> bool {
    launch.code.atomics.iter().any(|op| op.compare == op.value)
}

/// Time that it takes to wake the helpers, as measured.
const WAKE_TIME: Duration = Duration::from_micros(20);

/// Runs the first group. Returns whether all groups together would finish before the helpers are awake, if each group
/// takes as long as the first.
fn is_short(launch: &SimLaunch<'_>, extents: &LaunchExtents, progress: &WorkProgress) -> bool {
    let start = Instant::now();
    let worker = register_worker(launch);
    let mut frame = with_worker(GroupFrame::new(launch, true), &worker);
    let number = progress.next.fetch_add(1, Ordering::Relaxed);
    frame.start(number);
    frame.run();
    collect_results(&mut frame, number, extents, progress);
    let groups = launch.geometry.groups.min(u64::from(u32::MAX)) as u32;
    start.elapsed() * groups < WAKE_TIME
}

/// Returns the number of threads that this machine runs at once. It is cached because the query takes longer than a
/// small launch.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

/// Runs one worker: takes batches of consecutive groups up to group `end` and runs them.
fn run_worker(
    launch: &SimLaunch<'_>,
    extents: &LaunchExtents,
    progress: &WorkProgress,
    end: u64,
    batch: u64,
    alone: bool,
) {
    let worker = register_worker(launch);
    let mut frame = None;
    'work: loop {
        let first = progress.next.fetch_add(batch, Ordering::Relaxed);
        launch.control.progress.started.store(first, Ordering::Relaxed);
        for number in first..first + batch {
            if number >= progress.end.load(Ordering::Relaxed).min(end) {
                break 'work;
            }
            let frame = frame.get_or_insert_with(|| with_worker(GroupFrame::new(launch, alone), &worker));
            frame.start(number);
            // Check the stop flag before each group: a kernel without loops does not check it, and a launch may have
            // very many groups.
            if launch.control.stop.load(Ordering::Relaxed) {
                stop_before_start(frame);
            } else {
                frame.run();
            }
            collect_results(frame, number, extents, progress);
        }
    }
    if let Some(frame) = &mut frame {
        frame.add_sums();
    }
}

/// Registers this worker for stall detection if the kernel has loops that only wait for other threads. For a checked
/// launch, the checker detects stalls instead.
fn register_worker<'a>(launch: &SimLaunch<'a>) -> Option<WorkerRegistration<'a>> {
    if launch.code.properties.has_spin_loop && launch.checks.is_none() {
        launch.control.progress.stalls.register()
    } else {
        None
    }
}

/// Makes a frame record the loops in which its groups wait. The frame must not outlive the worker's registration.
fn with_worker<'a>(mut frame: GroupFrame<'a>, worker: &Option<WorkerRegistration<'_>>) -> GroupFrame<'a> {
    frame.group.polling.worker = worker.as_ref().map_or(std::ptr::null(), |registered| &raw const *registered.worker);
    frame
}

/// Stops a group before its first op, because the launch has been asked to stop.
#[cold]
fn stop_before_start(frame: &mut GroupFrame<'_>) {
    let span = frame.launch.code.source.kernel;
    frame.group.results.stop_at(FaultKind::Interrupted, span, 0, 0);
}

/// Collects the output and the fault of a group.
fn collect_results(frame: &mut GroupFrame<'_>, number: u64, extents: &LaunchExtents, progress: &WorkProgress) {
    let g = &mut frame.group;
    if g.results.printed.is_empty() && g.results.stopped.is_none() {
        return;
    }
    let mut results = progress.results.lock().unwrap_or_else(|e| e.into_inner());
    if !g.results.printed.is_empty() {
        results.printed.push((number, std::mem::take(&mut g.results.printed)));
    }
    if let Some(stop) = g.results.stopped.take() {
        progress.end.fetch_min(number, Ordering::Relaxed);
        if results.fault.as_ref().is_none_or(|(n, _)| number < *n) {
            results.fault = Some((number, fault::group_fault(g, *stop, extents)));
        }
    }
}

/// Runs a cooperative launch: each block has a frame from the start, and the blocks are scheduled round-robin between
/// grid barriers.
fn run_cooperative(launch: &SimLaunch<'_>, extents: &LaunchExtents, progress: &WorkProgress) {
    let mut frames: Vec<GroupFrame<'_>> = alloc::vec(usize::try_from(launch.geometry.groups).unwrap_or(usize::MAX));
    let worker = register_worker(launch);
    for number in 0..launch.geometry.groups {
        let mut frame = with_worker(GroupFrame::new(launch, true), &worker);
        frame.start(number);
        if launch.control.stop.load(Ordering::Relaxed) {
            stop_before_start(&mut frame);
            return collect_results(&mut frame, number, extents, progress);
        }
        frames.push(frame);
    }
    let count = frames.len();
    loop {
        for k in 0..count {
            let number = if launch.reverse_order { count - 1 - k } else { k };
            let frame = &mut frames[number];
            if frame.status() != SplitStatus::Ready {
                continue;
            }
            if launch.control.stop.load(Ordering::Relaxed) {
                stop_before_start(frame);
            } else {
                frame.run();
            }
            collect_results(frame, number as u64, extents, progress);
            if number as u64 >= progress.end.load(Ordering::Relaxed) {
                return;
            }
        }
        if frames.iter().any(|f| f.status() == SplitStatus::Ready) {
            continue;
        }
        let waiting = frames.iter().filter(|f| f.status() == SplitStatus::Waiting).count();
        if waiting == 0 {
            return;
        }
        if waiting < frames.len() {
            return report_missed_barrier(&mut frames, waiting, extents, progress);
        }
        let time = frames.iter().map(GroupFrame::time).max().unwrap_or(0) + 1;
        let time = launch.checks.as_ref().map_or(time, |watch| watch.on_grid_barrier(time));
        frames.iter_mut().for_each(|frame| frame.resume_after_grid_barrier(time));
    }
}

/// Maximum number of blocks at each end of the grid that are active at once in a launch in reverse order. Blocks start
/// from the last block, and also from the first block, so that blocks that wait for earlier blocks make progress.
const MAX_ACTIVE_BLOCKS: usize = 24;
/// Back-off of a waiting block: the maximum number of scheduling rounds after which it runs again, and the number of
/// idle time slices that extend this delay by one round (`SLICES_PER_SKIP`).
const MAX_SKIPPED_ROUNDS: u64 = 64;
const SLICES_PER_SKIP: u64 = 8;

/// A block that has started and not yet ended.
struct ActiveBlock<'a> {
    /// Position in the order of blocks, counted from the end of that order.
    position: u64,
    frame: GroupFrame<'a>,
    /// The scheduling round in which the block runs next.
    round: u64,
    /// Number of consecutive time slices in which the block only waited.
    idle_slices: u64,
}

/// Runs a launch in reverse order: the last block starts first. Blocks that wait for other blocks run less often the
/// longer they have waited.
fn run_backward<'a>(launch: &'a SimLaunch<'a>, extents: &LaunchExtents, progress: &WorkProgress) {
    let units = launch.geometry.groups;
    let number_at = |place: u64| match launch.control.blocks {
        BlockOrder::InOrder => units - 1 - place,
        // Rotate the order only if all blocks can be active at once. Otherwise, blocks that other blocks wait for might
        // never start.
        BlockOrder::Rotated(by) if units <= MAX_ACTIVE_BLOCKS as u64 => (place + by) % units,
        BlockOrder::Reversed | BlockOrder::Rotated(_) => place,
    };
    let (mut first, mut last) = (0, units);
    let (mut started_last, mut started_first) = (0, 0);
    let mut alive: Vec<ActiveBlock<'a>> = vec![];
    let mut free_frames: Vec<GroupFrame<'a>> = vec![];
    let mut round = 0;
    while first < last || !alive.is_empty() {
        let mut begin = |alive: &mut Vec<ActiveBlock<'a>>, place: u64| {
            let mut frame = free_frames.pop().unwrap_or_else(|| GroupFrame::new(launch, true));
            frame.start(number_at(place));
            alive.push(ActiveBlock { position: place, frame, round, idle_slices: 0 });
        };
        while first < last && started_last < MAX_ACTIVE_BLOCKS {
            (last, started_last) = (last - 1, started_last + 1);
            begin(&mut alive, last);
        }
        if first < last && started_first < MAX_ACTIVE_BLOCKS && alive.iter().all(|block| block.idle_slices > 0) {
            begin(&mut alive, first);
            (first, started_first) = (first + 1, started_first + 1);
        }
        // Advance to the next round in which some block runs.
        round = alive.iter().map(|block| block.round).min().unwrap_or(0).max(round);
        // Blocks run in the order in which they started.
        let mut at = 0;
        while at < alive.len() {
            let block = &mut alive[at];
            if block.round > round {
                at += 1;
                continue;
            }
            let looks = block.frame.polling_slices();
            block.frame.run();
            collect_results(&mut block.frame, number_at(block.position), extents, progress);
            if progress.end.load(Ordering::Relaxed) < launch.geometry.groups {
                return;
            }
            if block.frame.status() == SplitStatus::Ready {
                block.idle_slices = if block.frame.polling_slices() == looks { 0 } else { block.idle_slices + 1 };
                block.round = round + (block.idle_slices / SLICES_PER_SKIP).clamp(1, MAX_SKIPPED_ROUNDS);
                at += 1;
                continue;
            }
            if block.position < first {
                started_first -= 1
            } else {
                started_last -= 1
            }
            free_frames.push(alive.remove(at).frame);
        }
        round += 1;
    }
}

/// Reports that some blocks wait at a grid barrier that other blocks did not reach before they ended.
fn report_missed_barrier(
    frames: &mut [GroupFrame<'_>],
    waiting: usize,
    extents: &LaunchExtents,
    progress: &WorkProgress,
) {
    let total = frames.len() as u32;
    let waiting_frame = frames.iter_mut().enumerate().find(|(_, f)| f.status() == SplitStatus::Waiting);
    if let Some((number, frame)) = waiting_frame {
        let op = frame.group.pause.next.wrapping_sub(1);
        // SAFETY: C3: a waiting frame is paused after the op of a grid barrier, which belongs to the code.
        let span = unsafe { (*op).y };
        let kind =
            FaultKind::Divergence { what: "grid_barrier", arrived: waiting as u32, expected: total, elsewhere: None };
        frame.group.results.stop_at(kind, span, 0, 0);
        collect_results(frame, number as u64, extents, progress);
    }
}

fn finish(mut results: Results) -> Result<PrintedText, Box<Fault>> {
    results.printed.sort_by_key(|(number, _)| *number);
    let last_group = results.fault.as_ref().map_or(u64::MAX, |(number, _)| *number);
    let mut output = String::new();
    for (number, text) in results.printed {
        if number <= last_group {
            output.push_str(&text);
        }
    }
    match results.fault {
        Some((_, fault)) => Err(Box::new(Fault { output, ..fault })),
        None => Ok(output),
    }
}
