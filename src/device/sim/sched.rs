//! Scheduling of groups to workers: a thread pool that lives as long as the process, and the order in which blocks start and
//! report.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use super::fault;
use super::frame::{Frame, Launch};
use super::warp_split::Standing;
use crate::base::clock::Instant;
use crate::base::{room, threads};
use crate::device::stall::WorkerRegistration;
use crate::device::{BlockOrder, Extents, Fault, FaultKind, Output};

/// A launch that helper threads may join. The pointer is valid while `state` admits helpers.
struct Job {
    work: *const (dyn Fn() + Sync),
    /// The number of helpers inside; with the bit `CLOSED`, no more may enter.
    state: AtomicUsize,
    /// The number of helpers that may still enter.
    places: AtomicUsize,
    /// The payload of a panic in a helper, which resumes on the thread that started the work.
    unwound: Mutex<Option<Box<dyn Any + Send>>>,
}

const CLOSED: usize = 1 << (usize::BITS / 2);

// SAFETY: the work is `Sync`, and the pointer is only followed between `enter` and `exit`, while its owner waits.
unsafe impl Send for Job {}
// SAFETY: as for `Send`: the work may be called by several threads at once.
unsafe impl Sync for Job {}

impl Job {
    fn enter(&self) -> bool {
        let mut places = self.places.load(Ordering::Relaxed);
        loop {
            if places == 0 {
                return false;
            }
            match self.places.compare_exchange_weak(places, places - 1, Ordering::Relaxed, Ordering::Relaxed) {
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

    fn help(&self) {
        if self.enter() {
            // SAFETY: the work is alive: its owner waits for all that have entered before it returns.
            let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*self.work)() }));
            if let (Err(payload), Ok(mut unwound)) = (done, self.unwound.lock()) {
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
    /// Counts jobs, so that helpers can see a new one without the lock.
    epoch: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    job: Option<Arc<Job>>,
    threads: usize,
}

/// How often a helper polls for more work before it sleeps.
const SPINS: u32 = 2000;

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(Pool::default)
}

impl Pool {
    fn helper(&'static self) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            while self.epoch.load(Ordering::Acquire) == seen && spins < SPINS {
                std::hint::spin_loop();
                spins += 1;
            }
            let Ok(mut state) = self.state.lock() else {
                return;
            };
            while self.epoch.load(Ordering::Acquire) == seen {
                state = match self.wake.wait(state) {
                    Ok(state) => state,
                    Err(_) => return,
                };
            }
            seen = self.epoch.load(Ordering::Acquire);
            let job = state.job.clone();
            drop(state);
            if let Some(job) = job {
                job.help();
            }
        }
    }

    /// Runs `work` on this thread and up to `helpers` others; returns when all of them have finished it.
    fn run(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) {
        if helpers == 0 {
            return work();
        }
        // SAFETY: only erases the lifetime; `run` does not return before all helpers have left.
        let work_ptr: *const (dyn Fn() + Sync) = unsafe { std::mem::transmute(std::ptr::from_ref(work)) };
        let job = Arc::new(Job {
            work: work_ptr,
            state: AtomicUsize::new(0),
            places: AtomicUsize::new(helpers),
            unwound: Mutex::default(),
        });
        if let Ok(mut state) = self.state.lock() {
            while state.threads < helpers {
                let thread = std::thread::Builder::new().name("clk-sim".into());
                if threads::deaf(|| thread.spawn(move || self.helper())).is_err() {
                    break;
                }
                state.threads += 1;
            }
            state.job = Some(job.clone());
            self.epoch.fetch_add(1, Ordering::Release);
        }
        self.wake.notify_all();
        let guard = Closing(&job);
        work();
        drop(guard);
        let unwound = job.unwound.lock().ok().and_then(|mut unwound| unwound.take());
        if let Some(payload) = unwound {
            resume_unwind(payload);
        }
    }
}

/// Runs work on this thread and up to `helpers` others; returns when all of them have finished it.
pub(super) fn shared(helpers: usize, work: &(dyn Fn() + Sync)) {
    pool().run(helpers, work);
}

/// Waits for the helpers when dropped, also when the work panics.
struct Closing<'a>(&'a Job);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.0.state.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins < 10_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Output and faults of blocks.
#[derive(Default)]
struct Results {
    printed: Vec<(u64, String)>,
    fault: Option<(u64, Fault)>,
}

struct Progress {
    next: AtomicU64,
    /// Groups from here on need not run: a group before them has faulted.
    end: AtomicU64,
    results: Mutex<Results>,
}

/// Runs all groups of a launch.
pub(crate) fn run(launch: &Launch<'_>, extents: &Extents) -> Result<Output, Box<Fault>> {
    let units = launch.geometry.units;
    let progress =
        Progress { next: AtomicU64::new(0), end: AtomicU64::new(units), results: Mutex::new(Results::default()) };
    if launch.code.cooperative {
        cooperate(launch, extents, &progress);
    } else if launch.backward {
        backward(launch, extents, &progress);
    } else if launch.ops.len() > 1 {
        launch.control.progress.begun.store(0, Ordering::Relaxed);
        launch.control.progress.of.store(units, Ordering::Relaxed);
        let window = launch.watch.as_ref().map_or(u64::MAX, |watch| watch.window());
        forward(launch, extents, &progress, 0..units.min(window));
        let mut next = window;
        while next < progress.end.load(Ordering::Relaxed) {
            launch.watch.iter().for_each(|watch| watch.next_window());
            forward(launch, extents, &progress, next..units.min(next + window));
            next += window;
        }
    }
    launch.control.progress.of.store(0, Ordering::Relaxed);
    let results = progress.results.into_inner().unwrap_or_else(|e| e.into_inner());
    finish(results)
}

/// Runs some of the groups in order, spread over workers.
fn forward(launch: &Launch<'_>, extents: &Extents, progress: &Progress, groups: Range<u64>) {
    progress.next.store(groups.start, Ordering::Relaxed);
    let units = groups.end - groups.start;
    let mut workers = workers(launch).min(units) as usize;
    // A group that waits for others has to run concurrently with them.
    if workers > 1 && launch.code.atomics.is_empty() && is_short(launch, extents, progress) {
        workers = 1;
    }
    // Of blocks that wait for earlier ones, each worker takes the next: else it waits until another worker has done a whole batch.
    let batch = if loads_atomically(launch) { 1 } else { (units / (workers as u64 * 16).max(1)).clamp(1, 64) };
    let work = || worker(launch, extents, progress, groups.end, batch, workers == 1);
    pool().run(workers.saturating_sub(1), &work);
}

/// Returns a number of workers, where 0 means as many as the machine runs at once.
pub fn machine(workers: usize) -> usize {
    match workers {
        0 => cores(),
        n => n,
    }
}

/// Returns the number of workers that pay for the launch.
fn workers(launch: &Launch<'_>) -> u64 {
    // Blocks that wait for earlier ones find them done, one after the other: how often they look is no cost that another run has, too.
    if launch.counts.is_some() && loads_atomically(launch) {
        return 1;
    }
    let wanted = machine(launch.workers) as u64;
    // A loop can do any amount of work in little code, so that only loop-free launches count as small.
    let lanes = launch.geometry.units * launch.geometry.max_lanes as u64;
    let work = lanes * launch.ops.len() as u64;
    if launch.code.straight && work < 200_000 { 1 } else { wanted }
}

/// Whether there are atomic loads, by which blocks wait for others: they compare a place with a value and store the same one.
fn loads_atomically(launch: &Launch<'_>) -> bool {
    launch.code.atomics.iter().any(|op| op.compare == op.value)
}

/// The cost of waking helpers.
const WAKING: Duration = Duration::from_micros(20);

/// Runs the first group; returns whether the others, if they take as long, are done before helpers would be awake.
fn is_short(launch: &Launch<'_>, extents: &Extents, progress: &Progress) -> bool {
    let start = Instant::now();
    let worker = registered(launch);
    let mut frame = recorded(Frame::new(launch, true), &worker);
    let number = progress.next.fetch_add(1, Ordering::Relaxed);
    frame.start(number);
    frame.run();
    collect(&mut frame, number, extents, progress);
    let groups = launch.geometry.units.min(u64::from(u32::MAX)) as u32;
    start.elapsed() * groups < WAKING
}

/// Returns the number of threads that this machine runs at once, cached because the query takes longer than a small launch.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

/// Runs batches of groups up to `end`.
fn worker(launch: &Launch<'_>, extents: &Extents, progress: &Progress, end: u64, batch: u64, alone: bool) {
    let worker = registered(launch);
    let mut frame = None;
    'work: loop {
        let first = progress.next.fetch_add(batch, Ordering::Relaxed);
        launch.control.progress.begun.store(first, Ordering::Relaxed);
        for number in first..first + batch {
            if number >= progress.end.load(Ordering::Relaxed).min(end) {
                break 'work;
            }
            let frame = frame.get_or_insert_with(|| recorded(Frame::new(launch, alone), &worker));
            frame.start(number);
            // A kernel may have no loop that checks the stop flag, and a launch very many groups.
            if launch.control.stop.load(Ordering::Relaxed) {
                interrupted(frame);
            } else {
                frame.run();
            }
            collect(frame, number, extents, progress);
        }
    }
    if let Some(frame) = &mut frame {
        frame.add_sums();
    }
}

/// Registers this worker, if the kernel has loops that only wait for other threads. Checks find such loops by themselves.
fn registered<'a>(launch: &Launch<'a>) -> Option<WorkerRegistration<'a>> {
    if launch.code.spins && launch.watch.is_none() { launch.control.progress.stalls.register() } else { None }
}

/// Has a frame record where its groups wait. The frame must not outlive the registration.
fn recorded<'a>(mut frame: Frame<'a>, worker: &Option<WorkerRegistration<'_>>) -> Frame<'a> {
    frame.group.worker = worker.as_ref().map_or(std::ptr::null(), |registered| &raw const *registered.worker);
    frame
}

/// Stops a group before it has run.
#[cold]
fn interrupted(frame: &mut Frame<'_>) {
    let span = frame.launch.code.span;
    fault::stop_at(&mut frame.group, FaultKind::Interrupted, span, 0, 0);
}

/// Collects the output and the fault of a group.
fn collect(frame: &mut Frame<'_>, number: u64, extents: &Extents, progress: &Progress) {
    let g = &mut frame.group;
    if g.printed.is_empty() && g.stopped.is_none() {
        return;
    }
    let mut results = progress.results.lock().unwrap_or_else(|e| e.into_inner());
    if !g.printed.is_empty() {
        results.printed.push((number, std::mem::take(&mut g.printed)));
    }
    if let Some(stop) = g.stopped.take() {
        progress.end.fetch_min(number, Ordering::Relaxed);
        if results.fault.as_ref().is_none_or(|(n, _)| number < *n) {
            results.fault = Some((number, fault::fault(g, *stop, extents)));
        }
    }
}

/// Runs a cooperative launch: all blocks are alive at once and are scheduled round-robin between grid barriers.
fn cooperate(launch: &Launch<'_>, extents: &Extents, progress: &Progress) {
    let mut frames: Vec<Frame<'_>> = room::vec(usize::try_from(launch.geometry.units).unwrap_or(usize::MAX));
    let worker = registered(launch);
    for number in 0..launch.geometry.units {
        let mut frame = recorded(Frame::new(launch, true), &worker);
        frame.start(number);
        if launch.control.stop.load(Ordering::Relaxed) {
            interrupted(&mut frame);
            return collect(&mut frame, number, extents, progress);
        }
        frames.push(frame);
    }
    let count = frames.len();
    loop {
        for k in 0..count {
            let number = if launch.backward { count - 1 - k } else { k };
            let frame = &mut frames[number];
            if frame.standing() != Standing::Ready {
                continue;
            }
            if launch.control.stop.load(Ordering::Relaxed) {
                interrupted(frame);
            } else {
                frame.run();
            }
            collect(frame, number as u64, extents, progress);
            if number as u64 >= progress.end.load(Ordering::Relaxed) {
                return;
            }
        }
        if frames.iter().any(|f| f.standing() == Standing::Ready) {
            continue;
        }
        let waiting = frames.iter().filter(|f| f.standing() == Standing::Waits).count();
        if waiting == 0 {
            return;
        }
        if waiting < frames.len() {
            return barrier_missed(&mut frames, waiting, extents, progress);
        }
        let time = frames.iter().map(Frame::time).max().unwrap_or(0) + 1;
        let time = launch.watch.as_ref().map_or(time, |watch| watch.grid_met(time));
        frames.iter_mut().for_each(|frame| frame.grid_met(time));
    }
}

/// Blocks that are alive at once, at most, when a launch runs backward: started from the last one on, and from the first one on
/// so that blocks that wait for earlier ones make progress.
const ALIVE: usize = 24;
/// Back-off of a waiting block: the most rounds that it sits out at a time, and the number of time slices spent waiting that add
/// one more round.
const REST: u64 = 64;
const TURNS: u64 = 8;

/// A block that has started.
struct Alive<'a> {
    /// Its place in the order of blocks, counted from the one that starts last.
    place: u64,
    frame: Frame<'a>,
    /// The round in which it runs next.
    round: u64,
    /// Time slices in which it only waited.
    waited: u64,
}

/// Starts the last block first. Blocks that wait for others are scheduled in between, less often the longer they wait.
fn backward<'a>(launch: &'a Launch<'a>, extents: &Extents, progress: &Progress) {
    let units = launch.geometry.units;
    let number_at = |place: u64| match launch.control.blocks {
        BlockOrder::InOrder => units - 1 - place,
        // With more blocks, those that other blocks wait for might never start.
        BlockOrder::Rotated(by) if units <= ALIVE as u64 => (place + by) % units,
        BlockOrder::Reversed | BlockOrder::Rotated(_) => place,
    };
    let (mut first, mut last) = (0, units);
    let (mut late, mut early) = (0, 0);
    let mut alive: Vec<Alive<'a>> = vec![];
    let mut spare: Vec<Frame<'a>> = vec![];
    let mut round = 0;
    while first < last || !alive.is_empty() {
        let mut begin = |alive: &mut Vec<Alive<'a>>, place: u64| {
            let mut frame = spare.pop().unwrap_or_else(|| Frame::new(launch, true));
            frame.start(number_at(place));
            alive.push(Alive { place, frame, round, waited: 0 });
        };
        while first < last && late < ALIVE {
            (last, late) = (last - 1, late + 1);
            begin(&mut alive, last);
        }
        if first < last && early < ALIVE && alive.iter().all(|block| block.waited > 0) {
            begin(&mut alive, first);
            (first, early) = (first + 1, early + 1);
        }
        // Advances to the next round in which a block is due.
        round = alive.iter().map(|block| block.round).min().unwrap_or(0).max(round);
        // Blocks run in the order in which they started.
        let mut at = 0;
        while at < alive.len() {
            let block = &mut alive[at];
            if block.round > round {
                at += 1;
                continue;
            }
            let looks = block.frame.looks();
            block.frame.run();
            collect(&mut block.frame, number_at(block.place), extents, progress);
            if progress.end.load(Ordering::Relaxed) < launch.geometry.units {
                return;
            }
            if block.frame.standing() == Standing::Ready {
                block.waited = if block.frame.looks() == looks { 0 } else { block.waited + 1 };
                block.round = round + (block.waited / TURNS).clamp(1, REST);
                at += 1;
                continue;
            }
            if block.place < first {
                early -= 1
            } else {
                late -= 1
            }
            spare.push(alive.remove(at).frame);
        }
        round += 1;
    }
}

/// Reports that some blocks wait at a grid barrier while others have ended without reaching it.
fn barrier_missed(frames: &mut [Frame<'_>], waiting: usize, extents: &Extents, progress: &Progress) {
    let total = frames.len() as u32;
    let found = frames.iter_mut().enumerate().find(|(_, f)| f.standing() == Standing::Waits);
    if let Some((number, frame)) = found {
        let op = frame.group.resume.wrapping_sub(1);
        // SAFETY: C3: a frame that waits is paused behind the op of a grid barrier, which is one of the code's.
        let span = unsafe { (*op).y };
        let kind =
            FaultKind::Divergence { what: "grid_barrier", arrived: waiting as u32, expected: total, elsewhere: None };
        fault::stop_at(&mut frame.group, kind, span, 0, 0);
        collect(frame, number as u64, extents, progress);
    }
}

fn finish(mut results: Results) -> Result<Output, Box<Fault>> {
    results.printed.sort_by_key(|(number, _)| *number);
    let until = results.fault.as_ref().map_or(u64::MAX, |(number, _)| *number);
    let mut output = String::new();
    for (number, text) in results.printed {
        if number <= until {
            output.push_str(&text);
        }
    }
    match results.fault {
        Some((_, fault)) => Err(Box::new(Fault { output, ..fault })),
        None => Ok(output),
    }
}
