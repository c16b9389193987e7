//! A value that is computed by a background thread.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::stop;

/// Stack size of the thread: compilers recurse deeply. It is only address space until it is used.
const STACK: usize = 64 << 20;

/// Polling interval while waiting for the value; grows from the shorter to the longer one.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(4);

type Make<T> = Box<dyn FnOnce() -> T + Send>;

/// A value that is computed once, by a background thread if one can be started; readers wait for it.
pub struct Late<T> {
    value: Arc<OnceLock<T>>,
    make: Arc<Mutex<Option<Make<T>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + Sync + 'static> Late<T> {
    /// Starts computing the value.
    pub fn start(name: &str, make: impl FnOnce() -> T + Send + 'static) -> Self {
        let (value, make) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Some(Box::new(make) as Make<T>))));
        let (slot, maker) = (value.clone(), make.clone());
        // Without a thread, the value is computed when it is first requested.
        let thread = Builder::new().name(name.to_string()).stack_size(STACK).spawn(move || fill(&slot, &maker)).ok();
        Late { value, make, thread: Mutex::new(thread) }
    }

    /// Returns whether the value is there.
    pub fn is_there(&self) -> bool {
        self.value.get().is_some()
    }

    /// Returns the value, waiting for it if necessary.
    pub fn get(&self) -> &T {
        if let Some(value) = self.value.get() {
            return value;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // If the caller can be asked to stop, it polls, since the computation may be in a library that cannot be interrupted.
        let mut pause = SHORTEST;
        while stop::flag().is_some() && thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            stop::poll();
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST);
        }
        let thread = thread.take();
        if let Some(Err(panic)) = thread.map(JoinHandle::join) {
            resume_unwind(panic);
        }
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

/// Computes the value unless another thread has taken the function.
fn fill<T>(value: &OnceLock<T>, make: &Mutex<Option<Make<T>>>) {
    let make = make.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(make) = make {
        // Only one thread gets the function, so the slot is empty.
        let _ = value.set(make());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn who_is_asked_to_stop_waits_for_nothing() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let late = Late::start("late", move || wait.recv().is_ok());
        let flag = stop::Flag::new(true.into());
        assert!(stop::until_stopped(&flag, || *late.get()).is_err());
        go.send(()).expect("it waits");
        assert!(*late.get(), "the next one gets it");
    }
}
