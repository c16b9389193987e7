//! Background threads that handle no signals. In another program, such as Python's interpreter, a signal may be handled by any thread
//! that does not block it, and handlers of the main thread's work expect the main thread.

/// Runs code that starts threads: they inherit that signals are blocked. A signal that arrives meanwhile is handled afterwards.
pub fn deaf<T>(start: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    let _mask = unix::Mask::block();
    start()
}

#[cfg(unix)]
mod unix {
    /// The signals that are asked to end or stop work.
    const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

    /// Blocks [`SIGNALS`] in this thread until it is dropped.
    pub struct Mask(libc::sigset_t);

    impl Mask {
        pub fn block() -> Option<Mask> {
            // SAFETY: zeroed sets are valid memory, which the calls initialize; they live until the calls return.
            unsafe {
                let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
                libc::sigemptyset(&raw mut blocked);
                for signal in SIGNALS {
                    libc::sigaddset(&raw mut blocked, signal);
                }
                let done = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
                (done == 0).then_some(Mask(before))
            }
        }
    }

    impl Drop for Mask {
        fn drop(&mut self) {
            // SAFETY: the set was filled by the call that blocked, and lives until this one returns.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Whether this thread blocks Ctrl-C.
    fn is_deaf() -> bool {
        // SAFETY: the set is initialized by the first call, and lives until the second one returns.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
            libc::sigismember(&raw const set, libc::SIGINT) == 1
        }
    }

    #[test]
    fn only_the_new_thread_is_deaf() {
        let new = deaf(|| std::thread::spawn(is_deaf));
        assert!(!is_deaf() && new.join().expect("it ends"));
    }
}
