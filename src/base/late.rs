//! A value that is computed by a background thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::room::Lacking;
use super::stop::{self, Stopped};
use super::threads;

/// Stack size of the thread: compilers recurse deeply. It is only address space until it is used.
const STACK: usize = 64 << 20;

/// Polling interval while waiting for the value; grows from the shorter to the longer one.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(4);

type Make<T> = Box<dyn FnOnce() -> T + Send>;

/// Why the computation of a value has unwound. Every reader unwinds for the same reason.
enum Failed {
    Lacking(u64),
    Stopped,
    /// A panic, with its message.
    Panic(String),
}

impl Failed {
    fn of(payload: &(dyn Any + Send)) -> Failed {
        if let Some(lacking) = payload.downcast_ref::<Lacking>() {
            return Failed::Lacking(lacking.wanted);
        }
        if payload.is::<Stopped>() {
            return Failed::Stopped;
        }
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        Failed::Panic(text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default())
    }

    fn unwind(&self) -> ! {
        match self {
            Failed::Lacking(wanted) => resume_unwind(Box::new(Lacking { wanted: *wanted })),
            Failed::Stopped => resume_unwind(Box::new(Stopped)),
            Failed::Panic(text) => resume_unwind(Box::new(text.clone())),
        }
    }
}

/// A value that is computed once, by a background thread if one can be started; readers wait for it.
pub struct Late<T> {
    value: Arc<OnceLock<Result<T, Failed>>>,
    make: Arc<Mutex<Option<Make<T>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + Sync + 'static> Late<T> {
    /// Starts computing the value.
    pub fn start(name: &str, make: impl FnOnce() -> T + Send + 'static) -> Self {
        let (value, make) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Some(Box::new(make) as Make<T>))));
        let (slot, maker) = (value.clone(), make.clone());
        // Without a thread, the value is computed when it is first requested.
        let builder = Builder::new().name(name.to_string()).stack_size(STACK);
        let thread = threads::deaf(|| builder.spawn(move || fill(&slot, &maker))).ok();
        Late { value, make, thread: Mutex::new(thread) }
    }

    /// Returns whether the value is there, or will never be: then [`Late::get`] does not wait.
    pub fn is_there(&self) -> bool {
        self.value.get().is_some()
    }

    /// Returns the value, waiting for it if necessary.
    ///
    /// # Unwinds
    /// if its computation has unwound.
    pub fn get(&self) -> &T {
        match self.value.get().unwrap_or_else(|| self.wait()) {
            Ok(value) => value,
            Err(failed) => failed.unwind(),
        }
    }

    fn wait(&self) -> &Result<T, Failed> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // If the caller can be asked to stop, it polls, since the computation may be in a library that cannot be interrupted.
        let mut pause = SHORTEST;
        while stop::flag().is_some() && thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            stop::poll();
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST);
        }
        // A panic is among the values.
        let _ = thread.take().map(JoinHandle::join);
        fill(&self.value, &self.make);
        self.value.wait()
    }
}

/// Waits for the thread: a library that is still running while the process exits would crash it. Does not wait after a stop
/// request has been noticed.
impl<T> Drop for Late<T> {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if stop::is_heeded() {
            return;
        }
        // A panic has already been reported.
        let _ = thread.map(JoinHandle::join);
    }
}

/// Computes the value unless another thread has taken the function. An unwinding is stored as well: otherwise readers would wait
/// forever.
fn fill<T>(value: &OnceLock<Result<T, Failed>>, make: &Mutex<Option<Make<T>>>) {
    let make = make.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(make) = make {
        let made = catch_unwind(AssertUnwindSafe(make)).map_err(|payload| Failed::of(&*payload));
        // Only one thread gets the function, so the slot is empty.
        let _ = value.set(made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::room;

    #[test]
    fn all_who_ask_get_the_one_value() {
        let late = Late::start("late", || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            vec![1, 2, 3]
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(*late.get(), [1, 2, 3]));
            }
        });
    }

    #[test]
    fn all_who_ask_unwind_if_the_maker_has() {
        let wanted = |late: &Late<u8>| {
            let payload = catch_unwind(AssertUnwindSafe(|| *late.get())).expect_err("it unwinds");
            payload.downcast_ref::<Lacking>().map(|lacking| lacking.wanted)
        };
        let late = Late::start("late", || room::vec::<u8>(1 << 60).len() as u8);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(wanted(&late), Some(1 << 60)));
            }
        });
        assert!(late.is_there() && wanted(&late) == Some(1 << 60), "later, too");
        // Also where there is no thread for it.
        let make: Arc<Mutex<Option<Make<u8>>>> =
            Arc::new(Mutex::new(Some(Box::new(|| resume_unwind(Box::new(Stopped))))));
        let late = Late { value: Arc::default(), make, thread: Mutex::new(None) };
        for _ in 0..2 {
            let payload = catch_unwind(AssertUnwindSafe(|| *late.get())).expect_err("it unwinds");
            assert!(payload.is::<Stopped>());
        }
    }

    #[test]
    fn who_is_asked_to_stop_waits_for_nothing() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let late = Late::start("late", move || wait.recv().is_ok());
        let flag = stop::Flag::new(true.into());
        assert!(stop::until_stopped(&flag, || *late.get()).is_err());
        go.send(()).expect("it waits");
        assert!(*late.get(), "the next one gets it");
    }
}
