//! Ctrl-C: the first asks the running program to stop, one too many ends the process.

#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the system's wish for the end sets.
#[cfg(unix)]
static ENDING: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The flag that a running program watches; Ctrl-C sets it.
#[derive(Clone, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    /// Ctrl-C since the last run began.
    pressed: Arc<AtomicU32>,
    /// So many are borne without ending the process.
    patience: Arc<AtomicU32>,
    /// What the second Ctrl-C does where it does not end the process; says whether it did anything.
    second: Arc<Mutex<Option<Second>>>,
}

type Second = Box<dyn Fn() -> bool + Send>;

impl Interrupt {
    /// Starts to listen. Where the system gives no way to (it never has failed on the systems Clk runs on), Ctrl-C keeps its
    /// usual meaning.
    pub fn listen() -> Self {
        let interrupt = Interrupt { patience: Arc::new(AtomicU32::new(1)), ..Interrupt::default() };
        let Interrupt { stop, pressed, patience, second } = interrupt.clone();
        let _ = ctrlc::set_handler(move || {
            stop.store(true, Ordering::SeqCst);
            let times = pressed.fetch_add(1, Ordering::SeqCst) + 1;
            let borne = patience.load(Ordering::SeqCst);
            if times > borne {
                std::process::exit(super::exit::INTERRUPTED.into());
            }
            let helped =
                times > 1 && second.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|f| f());
            if times > 1 && !helped {
                eprintln!("still stopping; Ctrl-C once more ends clk, and the session with it");
            }
        });
        interrupt
    }

    /// From now on the end that the system asks for (SIGTERM, SIGHUP) is an interrupt as well: what runs stops, and whoever
    /// waits for [`Interrupt::is_set`] tidies up.
    pub fn listen_to_the_system(&self) {
        #[cfg(unix)]
        if ENDING.set(self.stop.clone()).is_ok() {
            extern "C" fn note(_: libc::c_int) {
                if let Some(stop) = ENDING.get() {
                    stop.store(true, Ordering::SeqCst);
                }
            }
            let handler: extern "C" fn(libc::c_int) = note;
            for signal in [libc::SIGTERM, libc::SIGHUP] {
                // SAFETY: the handler reads a pointer that was set before and sets a flag, both atomically.
                unsafe { libc::signal(signal, handler as libc::sighandler_t) };
            }
        }
    }

    /// A session is worth more than a script: it takes a third Ctrl-C to end it.
    pub fn be_patient(&self) {
        self.patience.store(2, Ordering::SeqCst);
    }

    /// What the second Ctrl-C does where it does not end the process.
    pub fn at_second(&self, act: impl Fn() -> bool + Send + 'static) {
        *self.second.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
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
        self.pressed.store(0, Ordering::SeqCst);
    }
}
