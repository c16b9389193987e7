//! Cooperative cancellation: loops poll a per-thread flag, and work that was asked to stop unwinds with [`Stopped`] to where it
//! was started.
//!
//! Unwinding is used because the callers in between could not do anything about an interrupt and should not have to pass it on.
//! It is not a panic: no hook runs and nothing is printed.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stop flag; set to request a stop.
pub type Flag = Arc<AtomicBool>;

/// Payload of the unwinding after a stop request.
pub struct Stopped;

/// Number of elements processed between two polls; short enough for any operation per element.
pub const PART: usize = 1 << 16;

thread_local! {
    static FLAG: RefCell<Option<Flag>> = const { RefCell::new(None) };
}

/// Whether work has noticed the last stop request.
static HEEDED: AtomicBool = AtomicBool::new(false);

/// Unwinds if this thread's work was asked to stop.
pub fn poll() {
    let asked = FLAG.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    // Code that runs during another unwinding is cleanup.
    if asked && !std::thread::panicking() {
        heed();
        resume_unwind(Box::new(Stopped));
    }
}

/// Records that the stop request was noticed.
pub fn heed() {
    HEEDED.store(true, Ordering::SeqCst);
}

pub fn is_heeded() -> bool {
    HEEDED.load(Ordering::SeqCst)
}

/// Resets the record before the next run.
pub fn forget() {
    HEEDED.store(false, Ordering::SeqCst);
}

/// Returns this thread's flag, for helper threads.
pub fn flag() -> Option<Flag> {
    FLAG.with_borrow(Clone::clone)
}

/// Runs work with this flag as the thread's.
pub fn watched<T>(flag: Option<Flag>, work: impl FnOnce() -> T) -> T {
    struct Outer(Option<Flag>);
    impl Drop for Outer {
        fn drop(&mut self) {
            FLAG.set(self.0.take());
        }
    }
    let _outer = Outer(FLAG.replace(flag));
    work()
}

/// Runs work with this flag until it completes or is stopped: for tests of the layers above.
pub fn until_stopped<T>(flag: &Flag, work: impl FnOnce() -> T) -> Result<T, Stopped> {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    match catch_unwind(AssertUnwindSafe(|| watched(Some(flag.clone()), work))) {
        Ok(result) => Ok(result),
        Err(payload) => match payload.downcast::<Stopped>() {
            Ok(stopped) => Err(*stopped),
            Err(other) => resume_unwind(other),
        },
    }
}

/// Counts processed elements and polls at intervals.
#[derive(Debug, Default)]
pub struct Ticks(Cell<usize>);

impl Ticks {
    /// Records `count` processed elements.
    #[inline(always)]
    pub fn pass(&self, count: usize) {
        let passed = self.0.get().saturating_add(count);
        self.0.set(passed);
        if passed >= PART {
            self.look();
        }
    }

    #[cold]
    fn look(&self) {
        self.0.set(0);
        poll();
    }
}

/// Iterates over the items, polling at intervals.
pub fn polled<I: IntoIterator>(items: I) -> impl Iterator<Item = I::Item> {
    let ticks = Ticks::default();
    items.into_iter().inspect(move |_| ticks.pass(1))
}

/// Splits items into parts, each with its start index, and polls before each: for loops that are to be vectorized.
pub fn parts<T>(items: &[T]) -> impl Iterator<Item = (usize, &[T])> {
    items.chunks(PART).enumerate().map(|(number, part)| {
        poll();
        (number * PART, part)
    })
}

/// As [`parts`], with mutable access.
pub fn parts_mut<T>(items: &mut [T]) -> impl Iterator<Item = (usize, &mut [T])> {
    items.chunks_mut(PART).enumerate().map(|(number, part)| {
        poll();
        (number * PART, part)
    })
}

/// Number of bytes moved between two polls.
pub const MOVED: usize = 16 << 20;

/// Copies bytes between slices of the same length.
///
/// # Panics
/// if the lengths differ, like [`slice::copy_from_slice`].
pub fn copy(to: &mut [u8], from: &[u8]) {
    if to.len() <= MOVED {
        return to.copy_from_slice(from);
    }
    assert_eq!(to.len(), from.len(), "both sides of a copy are as long");
    for (to, from) in to.chunks_mut(MOVED).zip(from.chunks(MOVED)) {
        poll();
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stops_where_it_looks() {
        let flag = Flag::default();
        let count = |flag: &Flag| {
            let mut seen = 0usize;
            let result = until_stopped(flag, || {
                polled(0..10 * PART).for_each(|_| {
                    seen += 1;
                    if seen == PART / 2 {
                        flag.store(true, Ordering::Relaxed);
                    }
                });
            });
            (result.is_err(), seen)
        };
        let (stopped, seen) = count(&flag);
        assert!(stopped && seen < 2 * PART, "{seen}");
        assert!(is_heeded());
        poll(); // this thread has no flag
    }

    #[test]
    fn threads_and_nested_work_have_their_own_flag() {
        let (outer, inner) = (Flag::default(), Flag::new(true.into()));
        let ran = until_stopped(&outer, || {
            assert!(until_stopped(&inner, poll).is_err());
            poll();
            let helper = flag();
            std::thread::scope(|scope| scope.spawn(|| watched(helper, poll)).join().is_ok())
        });
        assert!(ran.is_ok_and(|helped| helped));
    }

    #[test]
    fn parts_are_the_whole() {
        let items: Vec<usize> = (0..2 * PART + 3).collect();
        assert!(parts(&items).all(|(start, part)| part.iter().enumerate().all(|(i, &item)| item == start + i)));
        assert_eq!(parts(&items).map(|(_, part)| part.len()).sum::<usize>(), items.len());
        let from: Vec<u8> = (0..MOVED + 5).map(|i| i as u8).collect();
        let mut to = vec![0; from.len()];
        copy(&mut to, &from);
        assert!(to == from);
    }
}
