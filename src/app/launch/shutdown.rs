//! The conditions that make a server shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit;
use crate::interrupt::Interrupt;
use clk_base::stop;

/// The signals and requests that end a server: Ctrl-C, a termination signal, or a client's `stop`.
#[derive(Clone)]
pub struct ShutdownSignals {
    interrupt: Interrupt,
    asked: Arc<AtomicBool>,
}

impl ShutdownSignals {
    pub fn of(interrupt: &Interrupt) -> ShutdownSignals {
        ShutdownSignals { interrupt: interrupt.clone(), asked: Arc::default() }
    }

    /// Shuts the server down because a client has requested it.
    pub fn end(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        let interrupted = self.interrupt.is_set();
        if interrupted {
            // Stops running kernels. Pending replies are still sent.
            stop::acknowledge();
        }
        interrupted || self.asked.load(Ordering::SeqCst)
    }

    pub fn exit_code(&self) -> u8 {
        self.interrupt.exit_code().unwrap_or(exit::OK)
    }
}
