//! Cooperative cancellation: loops poll a per-thread flag, and canceled work unwinds with [`Stopped`] to the code that
//! started it.
//!
//! Cancellation unwinds so that the functions between a loop and that code need not propagate an error that they could
//! not handle. The unwinding is not a panic: no panic hook is called and nothing is printed.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that requests a stop when it is true.
pub type StopFlag = Arc<AtomicBool>;

/// The unwind payload of canceled work.
pub struct Stopped;

/// Number of elements processed between two polls. It is so small that a stop request is noticed quickly even if the
/// operation per element is slow.
pub const POLL_INTERVAL: usize = 1 << 16;

thread_local! {
    static FLAG: RefCell<Option<StopFlag>> = const { RefCell::new(None) };
}

/// Whether any thread has noticed the last stop request.
static ACKNOWLEDGED: AtomicBool = AtomicBool::new(false);

/// Unwinds if a stop of this thread's work is requested.
pub fn poll() {
    let requested = FLAG.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    // Code that runs during another unwinding is cleanup and must complete.
    if requested && !std::thread::panicking() {
        acknowledge();
        resume_unwind(Box::new(Stopped));
    }
}

/// Records that the stop request was noticed.
pub fn acknowledge() {
    ACKNOWLEDGED.store(true, Ordering::SeqCst);
}

pub fn is_acknowledged() -> bool {
    ACKNOWLEDGED.load(Ordering::SeqCst)
}

/// Clears the record that a stop request was noticed. Called before new work starts.
pub fn reset_acknowledged() {
    ACKNOWLEDGED.store(false, Ordering::SeqCst);
}

/// Returns this thread's stop flag, which a caller passes to helper threads.
pub fn flag() -> Option<StopFlag> {
    FLAG.with_borrow(Clone::clone)
}

/// Calls `work` with this flag as the stop flag of the current thread.
pub fn with_flag<T>(flag: Option<StopFlag>, work: impl FnOnce() -> T) -> T {
    struct StopFlagGuard(Option<StopFlag>);
    impl Drop for StopFlagGuard {
        fn drop(&mut self) {
            FLAG.set(self.0.take());
        }
    }
    let _outer = StopFlagGuard(FLAG.replace(flag));
    work()
}

/// Calls `work` with this stop flag. Returns its result, or an error if it was stopped.
pub fn until_stopped<T>(flag: &StopFlag, work: impl FnOnce() -> T) -> Result<T, Stopped> {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    match catch_unwind(AssertUnwindSafe(|| with_flag(Some(flag.clone()), work))) {
        Ok(result) => Ok(result),
        Err(payload) => match payload.downcast::<Stopped>() {
            Ok(stopped) => Err(*stopped),
            Err(other) => resume_unwind(other),
        },
    }
}

/// Counts processed elements and polls after every [`POLL_INTERVAL`] elements.
#[derive(Debug, Default)]
pub struct Ticks(Cell<usize>);

impl Ticks {
    /// Records `count` processed elements.
    #[inline(always)]
    pub fn advance(&self, count: usize) {
        let processed = self.0.get().saturating_add(count);
        self.0.set(processed);
        if processed >= POLL_INTERVAL {
            self.poll_now();
        }
    }

    #[cold]
    fn poll_now(&self) {
        self.0.set(0);
        poll();
    }
}

/// Iterates over the items and polls at intervals of [`POLL_INTERVAL`] items.
pub fn polled<I: IntoIterator>(items: I) -> impl Iterator<Item = I::Item> {
    let ticks = Ticks::default();
    items.into_iter().inspect(move |_| ticks.advance(1))
}

/// Splits items into chunks, each with its start index, and polls before each chunk. The compiler can vectorize a loop
/// over a chunk because it contains no poll.
pub fn polled_chunks<T>(items: &[T]) -> impl Iterator<Item = (usize, &[T])> {
    items.chunks(POLL_INTERVAL).enumerate().map(|(number, chunk)| {
        poll();
        (number * POLL_INTERVAL, chunk)
    })
}

/// Like [`polled_chunks`], but with mutable access.
pub fn polled_chunks_mut<T>(items: &mut [T]) -> impl Iterator<Item = (usize, &mut [T])> {
    items.chunks_mut(POLL_INTERVAL).enumerate().map(|(number, chunk)| {
        poll();
        (number * POLL_INTERVAL, chunk)
    })
}

/// Number of bytes copied or cleared between two polls.
pub const POLL_BYTES: usize = 16 << 20;

/// Copies bytes between slices of the same length.
///
/// # Panics
/// Panics if the lengths differ, like [`slice::copy_from_slice`].
pub fn copy(to: &mut [u8], from: &[u8]) {
    if to.len() <= POLL_BYTES {
        return to.copy_from_slice(from);
    }
    assert_eq!(to.len(), from.len(), "both sides of a copy have the same length");
    for (to, from) in to.chunks_mut(POLL_BYTES).zip(from.chunks(POLL_BYTES)) {
        poll();
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stops_at_polls() {
        let flag = StopFlag::default();
        let count = |flag: &StopFlag| {
            let mut processed = 0usize;
            let result = until_stopped(flag, || {
                polled(0..10 * POLL_INTERVAL).for_each(|_| {
                    processed += 1;
                    if processed == POLL_INTERVAL / 2 {
                        flag.store(true, Ordering::Relaxed);
                    }
                });
            });
            (result.is_err(), processed)
        };
        let (stopped, processed) = count(&flag);
        assert!(stopped && processed < 2 * POLL_INTERVAL, "{processed}");
        assert!(is_acknowledged());
        poll(); // this thread has no flag
    }

    #[test]
    fn threads_and_nested_work_have_their_own_flag() {
        let (outer, inner) = (StopFlag::default(), StopFlag::new(true.into()));
        let ran = until_stopped(&outer, || {
            assert!(until_stopped(&inner, poll).is_err());
            poll();
            let helper = flag();
            std::thread::scope(|scope| scope.spawn(|| with_flag(helper, poll)).join().is_ok())
        });
        assert!(ran.is_ok_and(|helped| helped));
    }

    #[test]
    fn chunks_cover_all_items() {
        let items: Vec<usize> = (0..2 * POLL_INTERVAL + 3).collect();
        assert!(polled_chunks(&items).all(|(start, part)| part.iter().enumerate().all(|(i, &item)| item == start + i)));
        assert_eq!(polled_chunks(&items).map(|(_, part)| part.len()).sum::<usize>(), items.len());
        let from: Vec<u8> = (0..POLL_BYTES + 5).map(|i| i as u8).collect();
        let mut to = vec![0; from.len()];
        copy(&mut to, &from);
        assert!(to == from);
    }
}
