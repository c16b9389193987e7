//! A value that a background thread computes once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::alloc::AllocError;
use super::stop::{self, Stopped};
use super::threads;

/// Stack size of the thread in bytes, for compilers that recurse deeply. Unused stack costs address space only.
const STACK: usize = 64 << 20;

/// While a reader waits for the value, it polls: first after this interval, then after twice the previous interval, up
/// to the longest.
const FIRST_INTERVAL: Duration = Duration::from_micros(20);
const LONGEST_INTERVAL: Duration = Duration::from_millis(4);

type ComputeFn<T> = Box<dyn FnOnce() -> T + Send>;

/// Why the computation of a value unwound. Every reader of the value unwinds for the same reason.
enum ComputationFailure {
    OutOfMemory(u64),
    Stopped,
    /// A panic, with its message.
    Panic(String),
}

impl ComputationFailure {
    fn from_payload(payload: &(dyn Any + Send)) -> ComputationFailure {
        if let Some(error) = payload.downcast_ref::<AllocError>() {
            return ComputationFailure::OutOfMemory(error.requested);
        }
        if payload.is::<Stopped>() {
            return ComputationFailure::Stopped;
        }
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        ComputationFailure::Panic(text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default())
    }

    fn unwind(&self) -> ! {
        match self {
            ComputationFailure::OutOfMemory(requested) => resume_unwind(Box::new(AllocError { requested: *requested })),
            ComputationFailure::Stopped => resume_unwind(Box::new(Stopped)),
            ComputationFailure::Panic(text) => resume_unwind(Box::new(text.clone())),
        }
    }
}

/// A value computed once, by a background thread if one can be started. Readers wait for it.
pub struct Background<T> {
    value: Arc<OnceLock<Result<T, ComputationFailure>>>,
    compute: Arc<Mutex<Option<ComputeFn<T>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + Sync + 'static> Background<T> {
    /// Starts computing the value on a background thread with this name.
    pub fn start(name: &str, compute: impl FnOnce() -> T + Send + 'static) -> Self {
        let (value, compute) =
            (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Some(Box::new(compute) as ComputeFn<T>))));
        let (slot, maker) = (value.clone(), compute.clone());
        // Without a thread, the first reader computes the value.
        let builder = Builder::new().name(name.to_string()).stack_size(STACK);
        let thread = threads::with_signals_blocked(|| builder.spawn(move || compute_once(&slot, &maker))).ok();
        Background { value, compute, thread: Mutex::new(thread) }
    }

    /// Returns whether the computation has ended, with a value or by unwinding. If so, [`Background::get`] does not
    /// wait.
    pub fn is_ready(&self) -> bool {
        self.value.get().is_some()
    }

    /// Returns the value, waiting for it if necessary.
    ///
    /// # Unwinds
    /// Unwinds if the computation unwound.
    pub fn get(&self) -> &T {
        match self.value.get().unwrap_or_else(|| self.wait()) {
            Ok(value) => value,
            Err(failed) => failed.unwind(),
        }
    }

    fn wait(&self) -> &Result<T, ComputationFailure> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // A caller that can be canceled polls, because the computation may be inside a library that cannot be
        // interrupted.
        let mut pause = FIRST_INTERVAL;
        while stop::flag().is_some() && thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            stop::poll();
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_INTERVAL);
        }
        // The thread's result can be ignored, because `value` also stores panics.
        let _ = thread.take().map(JoinHandle::join);
        compute_once(&self.value, &self.compute);
        self.value.wait()
    }
}

/// Waits for the thread, because a library that still runs while the process exits would crash it. Does not wait after
/// a stop request was noticed.
impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if stop::is_acknowledged() {
            return;
        }
        // A panic has already been reported.
        let _ = thread.map(JoinHandle::join);
    }
}

/// Computes the value unless another thread has already taken the function. If the function unwinds, stores the reason;
/// otherwise readers would wait forever.
fn compute_once<T>(value: &OnceLock<Result<T, ComputationFailure>>, compute: &Mutex<Option<ComputeFn<T>>>) {
    let compute = compute.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(compute) = compute {
        let result =
            catch_unwind(AssertUnwindSafe(compute)).map_err(|payload| ComputationFailure::from_payload(&*payload));
        // Only the thread that took the function gets here, and only once, so no other thread has set the value.
        let _ = value.set(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc;

    #[test]
    fn all_readers_get_the_value() {
        let value = Background::start("late", || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            vec![1, 2, 3]
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(*value.get(), [1, 2, 3]));
            }
        });
    }

    #[test]
    fn all_readers_unwind_if_the_computation_does() {
        let requested_size = |background: &Background<u8>| {
            let payload = catch_unwind(AssertUnwindSafe(|| *background.get())).expect_err("it unwinds");
            payload.downcast_ref::<AllocError>().map(|error| error.requested)
        };
        let background = Background::start("late", || alloc::vec::<u8>(1 << 60).len() as u8);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(requested_size(&background), Some(1 << 60)));
            }
        });
        assert!(background.is_ready() && requested_size(&background) == Some(1 << 60), "later readers unwind as well");
        // The reason is also stored if a reader computes the value without a background thread.
        let compute: Arc<Mutex<Option<ComputeFn<u8>>>> =
            Arc::new(Mutex::new(Some(Box::new(|| resume_unwind(Box::new(Stopped))))));
        let background = Background { value: Arc::default(), compute, thread: Mutex::new(None) };
        for _ in 0..2 {
            let payload = catch_unwind(AssertUnwindSafe(|| *background.get())).expect_err("it unwinds");
            assert!(payload.is::<Stopped>());
        }
    }

    #[test]
    fn canceled_readers_do_not_wait() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let background = Background::start("late", move || wait.recv().is_ok());
        let flag = stop::StopFlag::new(true.into());
        assert!(stop::until_stopped(&flag, || *background.get()).is_err());
        go.send(()).expect("the thread waits");
        assert!(*background.get(), "a later reader gets the value");
    }
}
