//! Ctrl-C: the first asks the running program to stop, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag that a running program watches; Ctrl-C sets it.
#[derive(Clone, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts to listen. Where the system gives no way to (it never has failed on the systems Clk runs on), Ctrl-C keeps its
    /// usual meaning.
    pub fn listen() -> Self {
        let interrupt = Interrupt::default();
        let stop = interrupt.stop.clone();
        let _ = ctrlc::set_handler(move || {
            if stop.swap(true, Ordering::SeqCst) {
                std::process::exit(super::exit::INTERRUPTED.into());
            }
        });
        interrupt
    }

    pub fn flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    pub fn is_set(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Forgets an earlier Ctrl-C, before the next run of a session.
    pub fn clear(&self) {
        self.stop.store(false, Ordering::SeqCst);
    }
}
