//! Runs calls so that Python's signal handlers can run during long ones, and so that `fork` waits for running calls.
//!
//! Python runs signal handlers on its main thread only, between bytecode instructions. So a long call of the main
//! thread runs on another thread, while the main thread checks for signals. Starting a thread costs more than a short
//! call, so a short call runs on the calling thread. A call is predicted to be long if the previous call of the same
//! function was long. The first call is predicted to be long, because it compiles.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::signals::{self, InterruptGuard};
use crate::stack;

/// The time between two checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum duration of a long call.
const LONG_CALL: Duration = Duration::from_millis(5);

/// Connects running work to the signals that its caller receives.
pub struct CallerSignals<'a> {
    begin: &'a (dyn Fn() + Sync),
    is_canceled: &'a (dyn Fn() -> bool + Sync),
    /// The lowest stack address that script calls may reach.
    pub stack_end: usize,
}

impl CallerSignals<'_> {
    /// Must be called when the work begins. After that, signals stop it.
    pub fn begin(&self) {
        (self.begin)();
    }

    /// Returns whether a signal has canceled the call.
    pub fn is_canceled(&self) -> bool {
        (self.is_canceled)()
    }
}

/// Runs work on this thread or another one, depending on the prediction `is_long`, which it then updates. Signals set
/// the flag `stop`. Returns the result of the work, and the exception of a signal handler.
pub fn run<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    is_long: &AtomicBool,
    work: impl FnOnce(CallerSignals<'_>) -> T + Send,
) -> (T, PyResult<()>) {
    let timed_work = |caller: CallerSignals<'_>| {
        let start = Instant::now();
        let result = without_fork(|| work(caller));
        is_long.store(start.elapsed() >= LONG_CALL, Ordering::Relaxed);
        result
    };
    let needs_thread = signals::is_main_thread() && (is_long.load(Ordering::Relaxed) || signals::has_own_handler(py));
    if needs_thread { run_on_thread(py, stop, timed_work) } else { run_here(py, stop, timed_work) }
}

/// Runs work on this thread. Ctrl-C stops it.
fn run_here<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(CallerSignals<'_>) -> T + Send,
) -> (T, PyResult<()>) {
    let guard = InterruptGuard::new(stop.clone());
    let (begin, is_canceled) = (|| guard.arm(), || guard.is_interrupted());
    let call = |stack_end| work(CallerSignals { begin: &begin, is_canceled: &is_canceled, stack_end });
    let result = py.detach(|| stack::call(call));
    (result, guard.finish(py))
}

/// Runs work on another thread, and signal handlers on this one. The first exception of a handler stops the work.
fn run_on_thread<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(CallerSignals<'_>) -> T + Send,
) -> (T, PyResult<()>) {
    let is_interrupted = AtomicBool::new(false);
    let is_canceled = || is_interrupted.load(Ordering::SeqCst);
    let begin = || {
        stop.store(false, Ordering::SeqCst);
        if is_canceled() {
            stop.store(true, Ordering::SeqCst);
        }
    };
    let slot = Mutex::new(Some(work));
    let take_work = || slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut handler_result = Ok(());
    let result = std::thread::scope(|scope| {
        let (sender, mut receiver) = channel();
        let run = |sender: Sender<_>| {
            let caller = CallerSignals { begin: &begin, is_canceled: &is_canceled, stack_end: stack::end() };
            let result = catch_unwind(AssertUnwindSafe(|| take_work().map(|work| work(caller))));
            let _ = sender.send(result);
        };
        // The thread owns the sender, so that the channel disconnects if the thread ends early.
        stack::builder().spawn_scoped(scope, move || run(sender)).ok()?;
        loop {
            let (received, returned_receiver) = py.detach(move || (receiver.recv_timeout(POLL_INTERVAL), receiver));
            receiver = returned_receiver;
            match received {
                Ok(result) => break result.unwrap_or_else(|panic| resume_unwind(panic)),
                Err(RecvTimeoutError::Timeout) if handler_result.is_ok() => {
                    handler_result = py.check_signals();
                    if handler_result.is_err() {
                        is_interrupted.store(true, Ordering::SeqCst);
                        stop.store(true, Ordering::SeqCst);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        }
    });
    match (result, take_work()) {
        // Check once more, because a signal may have arrived after the last check.
        (Some(result), _) => (result, handler_result.and_then(|()| py.check_signals())),
        // The thread could not be created.
        (None, Some(work)) => run_here(py, stop, work),
        (None, None) => unreachable!("the thread sends its result"),
    }
}

/// The number of running calls. `fork` waits until it is 0: locks that a call holds would stay locked forever in the
/// child.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that are about to fork.
static FORKING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of nested calls that this thread runs.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The time between two checks for running calls or forks. They are polled, because a forked child would inherit a lock
/// in its current state.
const FORK_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Runs work during which no other thread forks. Must be called without the interpreter's lock, since a forking thread
/// may wait for it.
pub fn without_fork<T>(work: impl FnOnce() -> T) -> T {
    struct RunningGuard;
    impl Drop for RunningGuard {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        }
    }
    loop {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        // A nested call must not wait: the fork waits for the outer call.
        if FORKING.load(Ordering::SeqCst) == 0 || DEPTH.get() > 0 {
            break;
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        std::thread::sleep(FORK_POLL_INTERVAL);
    }
    DEPTH.set(DEPTH.get() + 1);
    let _guard = RunningGuard;
    work()
}

/// Waits until no other thread runs a call, and prevents new calls.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    py.detach(|| {
        FORKING.fetch_add(1, Ordering::SeqCst);
        while RUNNING.load(Ordering::SeqCst) > DEPTH.get() {
            std::thread::sleep(FORK_POLL_INTERVAL);
        }
    });
}

/// Permits calls again.
#[pyfunction]
pub fn after_fork_in_parent() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// Resets the counters in a forked child, which has only the thread that forked.
#[pyfunction]
pub fn after_fork_in_child() {
    RUNNING.store(DEPTH.get(), Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}
