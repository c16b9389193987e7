//! Calls that last: signal handlers of Python run meanwhile, and a fork waits for their end.
//!
//! Python runs handlers in its main thread only, between two instructions of its own. So a call of the main thread that may last runs on
//! another thread, and the main thread looks for signals until it is over. A short call runs where it is: the other thread would take
//! longer than the call. Which calls last is known from the call before; the first one compiles, and may last.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::signals::{self, Watch};
use crate::stack;

/// Time between two looks for signals.
const TICK: Duration = Duration::from_millis(20);

/// A call that takes this long is expected to do so the next time.
const LONG: Duration = Duration::from_millis(5);

/// The view that running work has of its caller.
pub struct Caller<'a> {
    begin: &'a (dyn Fn() + Sync),
    gives_up: &'a (dyn Fn() -> bool + Sync),
    /// The lowest address that script calls may reach.
    pub stack_end: usize,
}

impl Caller<'_> {
    /// Lets signals stop the run, which begins now.
    pub fn begin(&self) {
        (self.begin)();
    }

    /// Whether a signal has come that ends the call.
    pub fn gives_up(&self) -> bool {
        (self.gives_up)()
    }
}

/// Runs work that this flag stops, and updates whether it lasts. Returns the result, and the exception of a signal handler.
pub fn run<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    lasts: &AtomicBool,
    work: impl FnOnce(Caller<'_>) -> T + Send,
) -> (T, PyResult<()>) {
    let timed = |caller: Caller<'_>| {
        let begun = Instant::now();
        let done = counted(|| work(caller));
        lasts.store(begun.elapsed() >= LONG, Ordering::Relaxed);
        done
    };
    let is_attended = signals::is_main_thread() && (lasts.load(Ordering::Relaxed) || signals::has_own_handler(py));
    if is_attended { attended(py, stop, timed) } else { direct(py, stop, timed) }
}

/// Runs work on this thread. Ctrl-C stops it.
fn direct<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(Caller<'_>) -> T + Send,
) -> (T, PyResult<()>) {
    let watch = Watch::begin(stop.clone());
    let (begin, gives_up) = (|| watch.aim(), || watch.has_come());
    let call = |stack_end| work(Caller { begin: &begin, gives_up: &gives_up, stack_end });
    let done = py.detach(|| stack::call(call));
    (done, watch.settled(py))
}

/// Runs work on another thread, and signal handlers on this one. The first exception of a handler stops the work.
fn attended<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(Caller<'_>) -> T + Send,
) -> (T, PyResult<()>) {
    let is_interrupted = AtomicBool::new(false);
    let gives_up = || is_interrupted.load(Ordering::SeqCst);
    let begin = || {
        stop.store(false, Ordering::SeqCst);
        if gives_up() {
            stop.store(true, Ordering::SeqCst);
        }
    };
    let slot = Mutex::new(Some(work));
    let take = || slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut raised = Ok(());
    let done = std::thread::scope(|scope| {
        let (sender, mut receiver) = channel();
        let run = |sender: Sender<_>| {
            let caller = Caller { begin: &begin, gives_up: &gives_up, stack_end: stack::end() };
            let done = catch_unwind(AssertUnwindSafe(|| take().map(|work| work(caller))));
            // The receiver waits.
            let _ = sender.send(done);
        };
        // The thread keeps the sender, so that its end is noticed.
        stack::builder().spawn_scoped(scope, move || run(sender)).ok()?;
        loop {
            let waited = py.detach(move || (receiver.recv_timeout(TICK), receiver));
            receiver = waited.1;
            match waited.0 {
                Ok(done) => break done.unwrap_or_else(|panic| resume_unwind(panic)),
                Err(RecvTimeoutError::Timeout) if raised.is_ok() => {
                    raised = py.check_signals();
                    if raised.is_err() {
                        is_interrupted.store(true, Ordering::SeqCst);
                        stop.store(true, Ordering::SeqCst);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        }
    });
    match (done, take()) {
        // A signal at the very end.
        (Some(done), _) => (done, raised.and_then(|()| py.check_signals())),
        // There is no thread to be had.
        (None, Some(work)) => direct(py, stop, work),
        (None, None) => unreachable!("the thread sends its result"),
    }
}

/// The number of threads in work, whose locks a child of a fork would find locked forever.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that are about to fork.
static FORKING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How deep this thread is in work.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Time between two looks whether others are done: locks, which a child would inherit, are not used here.
const PAUSE: Duration = Duration::from_micros(100);

/// Does work that no fork interrupts. Called without the interpreter's lock, for which a fork may wait.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        }
    }
    loop {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        // Work within work of this thread would wait for itself.
        if FORKING.load(Ordering::SeqCst) == 0 || DEPTH.get() > 0 {
            break;
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        std::thread::sleep(PAUSE);
    }
    DEPTH.set(DEPTH.get() + 1);
    let _inside = Inside;
    work()
}

/// Waits until no other thread is in work, and keeps new work from beginning.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    py.detach(|| {
        FORKING.fetch_add(1, Ordering::SeqCst);
        while RUNNING.load(Ordering::SeqCst) > DEPTH.get() {
            std::thread::sleep(PAUSE);
        }
    });
}

#[pyfunction]
pub fn after_fork_in_parent() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// The child has only the thread that forked.
#[pyfunction]
pub fn after_fork_in_child() {
    RUNNING.store(DEPTH.get(), Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}
