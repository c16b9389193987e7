//! Handling of Ctrl-C, SIGTERM and SIGHUP: sets a flag that running programs poll, and ends the process with the conventional
//! exit code.
//!
//! The signal handler only writes to a pipe; a thread reads it and sets the flag. If the flag is not noticed within [`MOMENT`],
//! the work is blocked in something that cannot poll (another library, a file that does not arrive), and this thread ends the
//! process, after cleanup. Only a session, which has more to lose, never ends at its first Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{exit, leftovers, progress};
use crate::base::stop;

/// Time for the running work to notice the flag before the process is ended.
const MOMENT: Duration = Duration::from_millis(120);
/// Time for it to finish once it has noticed.
const GRACE: Duration = Duration::from_secs(2);

/// The stop flag and the state of signal handling.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    stop: stop::Flag,
    /// Number of Ctrl-C since the last run began.
    pressed: Arc<AtomicU32>,
    /// Number of Ctrl-C that do not end the process.
    patience: Arc<AtomicU32>,
    /// Whether this is a session: a run that does not notice Ctrl-C is waited for.
    session: Arc<AtomicBool>,
    /// The number of the termination signal received; 0 for none.
    asked: Arc<AtomicI32>,
    /// Action at the second Ctrl-C if that does not end the process; returns whether it did anything.
    second: Arc<Mutex<Option<Second>>>,
}

type Second = Box<dyn Fn() -> bool + Send>;

/// What a signal requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Ctrl-C: stop the run.
    Stop,
    /// A termination signal, by number: end the process.
    End(i32),
}

impl Interrupt {
    /// Installs the handlers and starts the thread. If the system refuses (not known to happen where Clk runs), signals keep their
    /// default actions.
    pub fn listen() -> Self {
        let interrupt = Interrupt { patience: Arc::new(AtomicU32::new(1)), ..Interrupt::default() };
        signals::listen(interrupt.clone());
        interrupt
    }

    /// Switches to the behavior of sessions: a run that does not stop at once is waited for, and `borne` Ctrl-C do not end the
    /// process.
    pub fn be_patient(&self, borne: u32) {
        self.session.store(true, Ordering::SeqCst);
        self.patience.store(borne, Ordering::SeqCst);
    }

    /// Sets the action at the second Ctrl-C if that does not end the process.
    pub fn at_second(&self, act: impl Fn() -> bool + Send + 'static) {
        *self.second.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    pub fn flag(&self) -> stop::Flag {
        self.stop.clone()
    }

    pub fn is_set(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Returns the exit code of a run that was asked to stop; `None` if it was not.
    pub fn exit_code(&self) -> Option<u8> {
        self.is_set().then(|| self.ending().unwrap_or(exit::INTERRUPTED))
    }

    /// Returns the exit code for the termination signal received, if any.
    pub fn ending(&self) -> Option<u8> {
        match self.asked.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))),
        }
    }

    /// Resets Ctrl-C before the next run of a session. A termination signal stays in effect.
    pub fn clear(&self) {
        stop::forget();
        self.pressed.store(0, Ordering::SeqCst);
        self.stop.store(self.ending().is_some(), Ordering::SeqCst);
    }

    /// Handles a request; returns the deadline for noticing it, if there is one.
    fn take(&self, wish: Wish) -> Option<Instant> {
        let moment = Some(Instant::now() + MOMENT);
        if let Wish::End(signal) = wish {
            stop::forget();
            self.asked.store(signal, Ordering::SeqCst);
            self.stop.store(true, Ordering::SeqCst);
            return moment;
        }
        let first = !self.stop.swap(true, Ordering::SeqCst);
        let times = self.pressed.fetch_add(1, Ordering::SeqCst) + 1;
        if times > self.patience.load(Ordering::SeqCst) {
            end(exit::INTERRUPTED);
        }
        let second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if times > 1 && !second.as_ref().is_some_and(|act| act()) {
            say("still stopping; Ctrl-C once more ends clk, and the session with it\n");
        }
        moment.filter(|_| first && !self.session.load(Ordering::SeqCst))
    }

    /// Called at the deadline: returns a later deadline for work that has noticed the flag, else ends the process or does nothing.
    fn overdue(&self, since: Instant) -> Option<Instant> {
        let until = since + GRACE;
        if stop::is_heeded() && Instant::now() < until {
            return Some(until);
        }
        if let Some(code) = self.exit_code() {
            say("error[E0599]: interrupted\n");
            end(code);
        }
        None
    }
}

/// Writes to standard error if that does not block: the stopped work may hold the lock of the stream.
fn say(text: &str) {
    if !takes_text() {
        return;
    }
    progress::try_clear();
    #[cfg(unix)]
    // SAFETY: a text that lives until the call returns.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
    }
    #[cfg(not(unix))]
    eprint!("{text}");
}

/// Whether standard error accepts output without blocking.
#[cfg(unix)]
fn takes_text() -> bool {
    let mut asked = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: passes one structure that lives until the call returns.
    unsafe { libc::poll(&raw mut asked, 1, 0) > 0 && asked.revents & libc::POLLOUT != 0 }
}

#[cfg(not(unix))]
fn takes_text() -> bool {
    true
}

/// Ends the process without unwinding, but after cleanup.
fn end(code: u8) -> ! {
    leftovers::remove();
    if takes_text() {
        progress::leave();
    }
    super::tty::leave();
    super::exit::end(code)
}

#[cfg(unix)]
mod signals {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Instant;

    use super::{Interrupt, Wish};

    /// The write end of the pipe, for the handler.
    static PIPE: AtomicI32 = AtomicI32::new(-1);

    extern "C" fn note(signal: libc::c_int) {
        let byte = signal as u8;
        // SAFETY: `write` is async-signal-safe, and the byte lives until it returns. If the pipe is full, enough signals are queued
        // in it.
        unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
    }

    fn pipe() -> Option<(OwnedFd, OwnedFd)> {
        let mut ends = [0; 2];
        // SAFETY: passes an array for two descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return None;
        }
        for end in ends {
            // SAFETY: the descriptors are ours. `FD_CLOEXEC` keeps them from child processes; `O_NONBLOCK` keeps the handler from
            // blocking.
            unsafe {
                libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
            }
        }
        // SAFETY: the descriptors have no other owner.
        Some(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
    }

    pub(crate) fn listen(interrupt: Interrupt) {
        let Some((read, write)) = pipe() else { return };
        PIPE.store(write.as_raw_fd(), Ordering::SeqCst);
        let wait = move || {
            // The handler needs the write end for the lifetime of the process.
            let _write = write;
            wait(&read, &interrupt);
        };
        if std::thread::Builder::new().name("clk-signals".into()).spawn(wait).is_err() {
            return;
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            handle(signal);
        }
    }

    fn handle(signal: libc::c_int) {
        // SAFETY: zeroed structures are valid and live until the calls return; the handler only writes to a pipe.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            // `nohup clk …` must outlive its terminal.
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                return;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = note;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }

    fn wait(pipe: &OwnedFd, interrupt: &Interrupt) {
        // When the flag was set, and when to check whether it was noticed.
        let mut due: Option<(Instant, Instant)> = None;
        loop {
            let left = due.map(|(_, until)| until.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(-1, |left| left.as_millis().min(10_000) as libc::c_int + 1);
            let mut asked = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: passes one structure that lives until the call returns. An error is treated like a timeout.
            let ready = unsafe { libc::poll(&raw mut asked, 1, timeout) };
            for signal in (ready > 0).then(|| take(pipe.as_raw_fd())).into_iter().flatten() {
                let wish = if signal == libc::SIGINT { Wish::Stop } else { Wish::End(signal) };
                if let Some(until) = interrupt.take(wish) {
                    due = due.or(Some((Instant::now(), until)));
                }
            }
            if let Some((since, until)) = due
                && Instant::now() >= until
            {
                due = interrupt.overdue(since).map(|until| (since, until));
            }
        }
    }

    /// Returns the signals received.
    fn take(pipe: RawFd) -> Vec<libc::c_int> {
        let mut bytes = [0u8; 64];
        // SAFETY: the buffer has this length and lives until the call returns.
        let count = unsafe { libc::read(pipe, bytes.as_mut_ptr().cast(), bytes.len()) };
        bytes.iter().take(usize::try_from(count).unwrap_or(0)).map(|&byte| libc::c_int::from(byte)).collect()
    }
}

#[cfg(not(unix))]
mod signals {
    use super::{Interrupt, Wish};

    pub(crate) fn listen(interrupt: Interrupt) {
        let _ = ctrlc::set_handler(move || {
            if let Some(until) = interrupt.take(Wish::Stop) {
                let (interrupt, since) = (interrupt.clone(), std::time::Instant::now());
                std::thread::spawn(move || {
                    let mut due = Some(until);
                    while let Some(until) = due {
                        std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
                        due = interrupt.overdue(since);
                    }
                });
            }
        });
    }
}
