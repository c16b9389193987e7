//! Background threads that block signals.
//!
//! The system delivers a signal to any thread that does not block it, but the handlers of an embedding program, such as
//! the Python interpreter, expect to run on the main thread.

/// Calls `start` with signals blocked. Threads that it starts inherit the blocked signals. A signal that arrives during
/// the call is handled after it.
pub fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    let _mask = unix::SignalMask::block();
    start()
}

#[cfg(unix)]
mod unix {
    /// The signals that ask a process to stop.
    const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

    /// Blocks [`SIGNALS`] in this thread until it is dropped.
    pub struct SignalMask(libc::sigset_t);

    impl SignalMask {
        pub fn block() -> Option<SignalMask> {
            // SAFETY: zeroed signal sets are valid, and the sets outlive the calls that initialize them.
            unsafe {
                let (mut blocked, mut previous): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
                libc::sigemptyset(&raw mut blocked);
                for signal in SIGNALS {
                    libc::sigaddset(&raw mut blocked, signal);
                }
                let status = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut previous);
                (status == 0).then_some(SignalMask(previous))
            }
        }
    }

    impl Drop for SignalMask {
        fn drop(&mut self) {
            // SAFETY: `block` initialized the set, and it outlives this call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Returns whether this thread blocks Ctrl-C.
    fn blocks_signals() -> bool {
        // SAFETY: the first call initializes the set, and it outlives both calls.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
            libc::sigismember(&raw const set, libc::SIGINT) == 1
        }
    }

    #[test]
    fn only_the_new_thread_blocks_signals() {
        let new = with_signals_blocked(|| std::thread::spawn(blocks_signals));
        assert!(!blocks_signals() && new.join().expect("the thread ends"));
    }
}
