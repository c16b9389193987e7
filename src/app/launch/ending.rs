//! Shutdown of a server: the conditions that end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::app::exit;
use crate::app::interrupt::Interrupt;
use crate::base::stop;

/// The conditions that end a server: Ctrl-C, a termination signal, or a client's `stop`.
#[derive(Clone)]
pub struct Ending {
    interrupt: Interrupt,
    asked: Arc<AtomicBool>,
}

impl Ending {
    pub fn of(interrupt: &Interrupt) -> Ending {
        Ending { interrupt: interrupt.clone(), asked: Arc::default() }
    }

    /// Ends the server at a client's request.
    pub fn end(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        let interrupted = self.interrupt.is_set();
        if interrupted {
            // Running kernels are stopped; pending replies are still sent.
            stop::heed();
        }
        interrupted || self.asked.load(Ordering::SeqCst)
    }

    pub fn exit_code(&self) -> u8 {
        self.interrupt.exit_code().unwrap_or(exit::OK)
    }
}
