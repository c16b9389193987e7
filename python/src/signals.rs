//! Ctrl-C during a call: Python's own handler only takes a note, which nobody reads before the call is over.
//!
//! While the main thread runs a call, a handler of ours sets the flag that stops the run, and passes the signal on to Python's.
//! After the call, Python raises `KeyboardInterrupt`. The handler stays between calls, when it only passes the signal on: to install it
//! for each call would take longer than a small call does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Whether Ctrl-C has come during the call of the main thread.
static COME: AtomicBool = AtomicBool::new(false);

/// The flag that stops the call of the main thread; null if none runs.
static STOP: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

/// The number of handlers that may be using [`STOP`]. The system may run a handler on any thread that does not block the signal, including
/// threads of other libraries.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// Watches for Ctrl-C until it is dropped; does nothing in other threads than the main one, which Python never interrupts.
pub struct Watch {
    watches: bool,
    /// Keeps the flag alive while the handler may set it.
    flag: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch for a run that this flag stops.
    pub fn begin(flag: Arc<AtomicBool>) -> Watch {
        #[cfg(unix)]
        let watches = unix::is_main_thread() && {
            COME.store(false, Ordering::SeqCst);
            unix::install()
        };
        #[cfg(not(unix))]
        let watches = false;
        Watch { watches, flag }
    }

    /// Lets Ctrl-C stop the run, which begins now.
    pub fn aim(&self) {
        self.flag.store(false, Ordering::SeqCst);
        if self.watches {
            STOP.store(Arc::as_ptr(&self.flag).cast_mut(), Ordering::SeqCst);
            if COME.load(Ordering::SeqCst) {
                self.flag.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Whether Ctrl-C has come.
    pub fn has_come(&self) -> bool {
        self.watches && COME.load(Ordering::SeqCst)
    }

    /// Raises what Ctrl-C raises, if it has come.
    pub fn settled(self, py: Python<'_>) -> PyResult<()> {
        let come = self.has_come();
        drop(self);
        if come { py.check_signals() } else { Ok(()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.watches {
            STOP.store(std::ptr::null_mut(), Ordering::SeqCst);
            // The flag may be freed next. A handler on this thread is over; one on another thread only has a store to make.
            while USERS.load(Ordering::SeqCst) > 0 {
                std::hint::spin_loop();
            }
        }
    }
}

/// Whether this is the thread in which Python runs signal handlers.
pub fn is_main_thread() -> bool {
    #[cfg(unix)]
    let is_main = unix::is_main_thread();
    #[cfg(not(unix))]
    let is_main = false;
    is_main
}

/// Whether the program handles Ctrl-C itself: its handler may let the call go on.
pub fn has_own_handler(py: Python<'_>) -> bool {
    // Every call of the main thread asks.
    static FUNCTIONS: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
    let find = || {
        // `signal.getsignal` makes an enumeration of the answer, which takes longer than a small call.
        let signal = py.import("_signal").or_else(|_| py.import("signal"))?;
        Ok::<_, PyErr>([signal.getattr("getsignal")?.unbind(), signal.getattr("default_int_handler")?.unbind()])
    };
    let is_own = || {
        let [get, usual] = FUNCTIONS.get_or_try_init(py, find)?;
        let own = get.bind(py).call1((SIGINT,))?;
        Ok::<_, PyErr>(own.is_callable() && !own.is(usual))
    };
    is_own().unwrap_or(false)
}

/// The number of Ctrl-C's signal.
const SIGINT: i32 = 2;

#[cfg(unix)]
mod unix {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{COME, STOP, USERS};

    thread_local! {
        static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    }

    /// Whether this is the first thread of the process, the only one in which Python runs signal handlers.
    pub fn is_main_thread() -> bool {
        let found = IS_MAIN.get().unwrap_or_else(look);
        IS_MAIN.set(Some(found));
        found
    }

    #[cfg(target_os = "linux")]
    fn look() -> bool {
        // SAFETY: both calls only return numbers.
        unsafe { i64::from(libc::getpid()) == libc::syscall(libc::SYS_gettid) }
    }

    #[cfg(target_vendor = "apple")]
    fn look() -> bool {
        // SAFETY: only returns a number.
        unsafe { libc::pthread_main_np() != 0 }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn look() -> bool {
        false
    }

    /// The handler that was there before, which the signal is passed on to.
    static BEFORE: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn note(signal: libc::c_int) {
        COME.store(true, Ordering::SeqCst);
        USERS.fetch_add(1, Ordering::SeqCst);
        let stop = STOP.load(Ordering::SeqCst);
        if !stop.is_null() {
            // SAFETY: the pointer is set only while a `Watch` keeps the flag, which waits for `USERS` before it lets go.
            unsafe { (*stop).store(true, Ordering::SeqCst) };
        }
        USERS.fetch_sub(1, Ordering::SeqCst);
        let before = BEFORE.load(Ordering::SeqCst);
        if before != libc::SIG_DFL && before != libc::SIG_IGN {
            // SAFETY: a handler that the system had for this signal, without `SA_SIGINFO`: see `install`.
            unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(before)(signal) };
        }
    }

    /// Installs the handler, unless it is there; false where Ctrl-C is not Python's.
    pub fn install() -> bool {
        // SAFETY: zeroed structures are valid and live until the calls return; the handler only stores to atomics and passes on.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGINT, std::ptr::null(), &raw mut before) != 0 {
                return false;
            }
            let own: extern "C" fn(libc::c_int) = note;
            if before.sa_sigaction == own as libc::sighandler_t {
                return true;
            }
            let is_other = before.sa_flags & libc::SA_SIGINFO != 0;
            if is_other || before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
                return false;
            }
            BEFORE.store(before.sa_sigaction, Ordering::SeqCst);
            let mut action = before;
            action.sa_sigaction = own as libc::sighandler_t;
            libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) == 0
        }
    }
}
