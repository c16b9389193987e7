//! Stops a call on Ctrl-C. Python's own handler only sets a flag, which the interpreter checks after the call.
//!
//! While the main thread runs a call, Clk's handler sets the stop flag of the run and forwards the signal to Python's
//! handler. After the call, Python raises `KeyboardInterrupt`. The handler stays installed between calls, when it only
//! forwards the signal, because installing it takes longer than a small call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Whether Ctrl-C was pressed during the current call of the main thread.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The stop flag of the call that the main thread is running; null if it is running none.
static STOP_FLAG: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

/// The number of handlers that may be using [`STOP_FLAG`]. The system may run a handler on any thread that does not
/// block the signal, including threads of other libraries.
static ACTIVE_HANDLERS: AtomicUsize = AtomicUsize::new(0);

/// Guard of a call: handles Ctrl-C until it is dropped. It is active only on the main thread, because Python does not
/// interrupt other threads.
pub struct InterruptGuard {
    is_active: bool,
    /// The stop flag. This reference keeps it alive while the handler may set it.
    flag: Arc<AtomicBool>,
}

impl InterruptGuard {
    /// Begins to handle Ctrl-C for a call with this stop flag.
    pub fn new(flag: Arc<AtomicBool>) -> InterruptGuard {
        #[cfg(unix)]
        let is_active = unix::is_main_thread() && {
            INTERRUPTED.store(false, Ordering::SeqCst);
            unix::install()
        };
        #[cfg(not(unix))]
        let is_active = false;
        InterruptGuard { is_active, flag }
    }

    /// Must be called when the call begins to run. After that, Ctrl-C sets the stop flag; a Ctrl-C before that sets it
    /// now.
    pub fn arm(&self) {
        self.flag.store(false, Ordering::SeqCst);
        if self.is_active {
            STOP_FLAG.store(Arc::as_ptr(&self.flag).cast_mut(), Ordering::SeqCst);
            if INTERRUPTED.load(Ordering::SeqCst) {
                self.flag.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Returns whether Ctrl-C was pressed since the guard was created.
    pub fn is_interrupted(&self) -> bool {
        self.is_active && INTERRUPTED.load(Ordering::SeqCst)
    }

    /// Ends the handling of Ctrl-C. If Ctrl-C was pressed, runs Python's handler and returns its exception, which is
    /// `KeyboardInterrupt` by default.
    pub fn finish(self, py: Python<'_>) -> PyResult<()> {
        let is_interrupted = self.is_interrupted();
        drop(self);
        if is_interrupted { py.check_signals() } else { Ok(()) }
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        if self.is_active {
            STOP_FLAG.store(std::ptr::null_mut(), Ordering::SeqCst);
            // The flag may be freed after this, so wait for handlers that run on other threads. They only store a
            // value.
            while ACTIVE_HANDLERS.load(Ordering::SeqCst) > 0 {
                std::hint::spin_loop();
            }
        }
    }
}

/// Returns whether the current thread is the one in which Python runs signal handlers.
pub fn is_main_thread() -> bool {
    #[cfg(unix)]
    let is_main = unix::is_main_thread();
    #[cfg(not(unix))]
    let is_main = false;
    is_main
}

/// Returns whether the program has replaced Python's handler of Ctrl-C. Such a handler may return without an exception,
/// and the call must then continue.
pub fn has_own_handler(py: Python<'_>) -> bool {
    // Cached, since every call of the main thread uses these functions.
    static FUNCTIONS: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
    let load_functions = || {
        // `signal.getsignal` converts its result to an enum, which takes longer than a small call.
        let signal = py.import("_signal").or_else(|_| py.import("signal"))?;
        Ok::<_, PyErr>([signal.getattr("getsignal")?.unbind(), signal.getattr("default_int_handler")?.unbind()])
    };
    let is_replaced = || {
        let [getsignal, default_handler] = FUNCTIONS.get_or_try_init(py, load_functions)?;
        let handler = getsignal.bind(py).call1((SIGINT,))?;
        Ok::<_, PyErr>(handler.is_callable() && !handler.is(default_handler))
    };
    is_replaced().unwrap_or(false)
}

/// The signal number of Ctrl-C.
const SIGINT: i32 = 2;

#[cfg(unix)]
mod unix {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{ACTIVE_HANDLERS, INTERRUPTED, STOP_FLAG};

    thread_local! {
        static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    }

    /// Returns whether this is the first thread of the process, the only one in which Python runs signal handlers.
    pub fn is_main_thread() -> bool {
        let is_main = IS_MAIN.get().unwrap_or_else(query_is_main_thread);
        IS_MAIN.set(Some(is_main));
        is_main
    }

    #[cfg(target_os = "linux")]
    fn query_is_main_thread() -> bool {
        // SAFETY: both calls only return numbers.
        unsafe { i64::from(libc::getpid()) == libc::syscall(libc::SYS_gettid) }
    }

    #[cfg(target_vendor = "apple")]
    fn query_is_main_thread() -> bool {
        // SAFETY: only returns a number.
        unsafe { libc::pthread_main_np() != 0 }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn query_is_main_thread() -> bool {
        false
    }

    /// The handler that was installed before Clk's, to which Clk's handler forwards the signal.
    static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn handle_interrupt(signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
        ACTIVE_HANDLERS.fetch_add(1, Ordering::SeqCst);
        let stop = STOP_FLAG.load(Ordering::SeqCst);
        if !stop.is_null() {
            // SAFETY: while the pointer is set, an `InterruptGuard` keeps the flag. It waits for `ACTIVE_HANDLERS`
            // before it frees it.
            unsafe { (*stop).store(true, Ordering::SeqCst) };
        }
        ACTIVE_HANDLERS.fetch_sub(1, Ordering::SeqCst);
        let previous = PREVIOUS_HANDLER.load(Ordering::SeqCst);
        if previous != libc::SIG_DFL && previous != libc::SIG_IGN {
            // SAFETY: `install` has stored a handler of this signal, without `SA_SIGINFO`.
            unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(previous)(signal) };
        }
    }

    /// Installs the handler unless it is already installed. Returns false if the current handler is not Python's.
    pub fn install() -> bool {
        // SAFETY: zeroed structures are valid and live until the calls return; the handler only stores to
        // atomics and forwards the signal.
        unsafe {
            let mut previous: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGINT, std::ptr::null(), &raw mut previous) != 0 {
                return false;
            }
            let own: extern "C" fn(libc::c_int) = handle_interrupt;
            if previous.sa_sigaction == own as libc::sighandler_t {
                return true;
            }
            let is_other = previous.sa_flags & libc::SA_SIGINFO != 0;
            if is_other || previous.sa_sigaction == libc::SIG_DFL || previous.sa_sigaction == libc::SIG_IGN {
                return false;
            }
            PREVIOUS_HANDLER.store(previous.sa_sigaction, Ordering::SeqCst);
            let mut action = previous;
            action.sa_sigaction = own as libc::sighandler_t;
            libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) == 0
        }
    }
}
