//! A time limit for launches. When it expires, the stop flag is set; kernels that ignore the flag are killed after a
//! grace period.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clk_base::clock::Instant;
use clk_base::threads;

/// Interval at which the user's stop flag is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time after which kernels that have not reacted to the stop flag are killed.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Kills kernels that ignore the stop flag.
pub(super) type Killer = Arc<dyn Fn() + Send + Sync>;

/// A running time limit, enforced by its own thread.
pub(super) struct TimeLimit {
    ended: Arc<(Mutex<bool>, Condvar)>,
    exceeded: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TimeLimit {
    /// Starts a thread that sets `stop` after `seconds`, or earlier if `user`, the user's stop flag, is set. Calls
    /// `end` if kernels ignore the flag.
    pub fn begin(seconds: f64, stop: Arc<AtomicBool>, user: Arc<AtomicBool>, end: Option<Killer>) -> TimeLimit {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let late = Arc::new(AtomicBool::new(false));
        let (watched, exceeded_flag) = (over.clone(), late.clone());
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let watch = move || {
            let begin = Instant::now();
            let mut ended = watched.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !*ended {
                let elapsed = begin.elapsed();
                if elapsed > limit && !exceeded_flag.swap(true, Ordering::Relaxed) || user.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
                if elapsed.checked_sub(GRACE_PERIOD).is_some_and(|elapsed| elapsed > limit)
                    && let Some(end) = &end
                {
                    end();
                }
                ended = watched.1.wait_timeout(ended, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        // If the thread cannot be created, there is no time limit.
        let thread =
            threads::with_signals_blocked(|| std::thread::Builder::new().name("clk limit".into()).spawn(watch)).ok();
        TimeLimit { ended: over, exceeded: late, thread }
    }

    /// Ends the limit. Returns whether the time was exceeded.
    pub fn end(mut self) -> bool {
        self.stop();
        self.exceeded.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // The result is ignored, because the thread does not panic.
            let _ = thread.join();
        }
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.stop();
    }
}
