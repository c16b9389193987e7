//! A time limit for launches: after it the stop flag is set, and kernels that do not heed it are ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::threads;

/// How often the user's stop flag is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How long kernels have to heed the stop flag.
const GRACE: Duration = Duration::from_secs(2);

/// What ends kernels that heed no flag.
pub(super) type End = Arc<dyn Fn() + Send + Sync>;

/// A limit that is being watched, from a thread of its own.
pub(super) struct Watched {
    over: Arc<(Mutex<bool>, Condvar)>,
    late: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watched {
    /// Begins to watch: `stop` is set after so many seconds, or when the user's flag is.
    pub fn begin(seconds: f64, stop: Arc<AtomicBool>, user: Arc<AtomicBool>, end: Option<End>) -> Watched {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let late = Arc::new(AtomicBool::new(false));
        let (watched, found) = (over.clone(), late.clone());
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let watch = move || {
            let begin = Instant::now();
            let mut ended = watched.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !*ended {
                let passed = begin.elapsed();
                if passed > limit && !found.swap(true, Ordering::Relaxed) || user.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
                if passed.checked_sub(GRACE).is_some_and(|passed| passed > limit)
                    && let Some(end) = &end
                {
                    end();
                }
                ended = watched.1.wait_timeout(ended, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        // Without a thread there is no limit.
        let thread = threads::deaf(|| std::thread::Builder::new().name("clk limit".into()).spawn(watch)).ok();
        Watched { over, late, thread }
    }

    /// Ends the watch; returns whether the limit was exceeded.
    pub fn end(mut self) -> bool {
        self.stop();
        self.late.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stop();
    }
}
