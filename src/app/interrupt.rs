//! Handles Ctrl-C, SIGTERM and SIGHUP: sets a stop flag that running programs poll, and ends the process with the
//! conventional exit code.
//!
//! The signal handler only writes to a pipe. A thread reads the pipe and sets the flag. If the program does not poll
//! the flag within [`NOTICE_TIMEOUT`], it is blocked, for example in another library; the thread then cleans up and
//! ends the process. A session does not end at the first Ctrl-C, because its state would be lost.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{exit, progress, temp_files};
use clk_base::stop;

/// How long the program may take to poll the flag before the process is ended.
const NOTICE_TIMEOUT: Duration = Duration::from_millis(120);
/// How long the program may take to finish after it has polled the flag.
const GRACE: Duration = Duration::from_secs(2);

/// The stop flag and the state of signal handling.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    stop: stop::StopFlag,
    /// Number of times Ctrl-C was pressed since the last run began.
    pressed: Arc<AtomicU32>,
    /// Number of presses of Ctrl-C in one run that do not end the process immediately.
    patience: Arc<AtomicU32>,
    /// Whether this is a session, which waits for runs that do not poll the flag.
    session: Arc<AtomicBool>,
    /// The number of the termination signal received; 0 for none.
    asked: Arc<AtomicI32>,
    /// Whether the run was stopped for good, as by a time limit.
    stopped_for_good: Arc<AtomicBool>,
    /// Action at further presses of Ctrl-C that do not end the process. Returns whether it had an effect.
    second: Arc<Mutex<Option<SecondPressAction>>>,
}

type SecondPressAction = Box<dyn Fn() -> bool + Send>;

/// What a received signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignalRequest {
    /// Ctrl-C: stop the run.
    Stop,
    /// A termination signal, by number: end the process.
    End(i32),
}

impl Interrupt {
    /// Installs the signal handlers and starts the thread. If the system does not allow this, signals keep their
    /// default actions.
    pub fn listen() -> Self {
        let interrupt = Interrupt { patience: Arc::new(AtomicU32::new(1)), ..Interrupt::default() };
        signals::listen(interrupt.clone());
        interrupt
    }

    /// Switches to the behavior of sessions: waits for runs that do not poll the flag, and ends the process only after
    /// more than `borne` presses of Ctrl-C.
    pub fn be_patient(&self, borne: u32) {
        self.session.store(true, Ordering::SeqCst);
        self.patience.store(borne, Ordering::SeqCst);
    }

    /// Sets the action at further presses of Ctrl-C that do not end the process.
    pub fn on_second_press(&self, act: impl Fn() -> bool + Send + 'static) {
        *self.second.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    pub fn flag(&self) -> stop::StopFlag {
        self.stop.clone()
    }

    pub fn is_set(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Returns whether [`Interrupt::stop_for_good`] was called.
    pub fn is_stopped_for_good(&self) -> bool {
        self.stopped_for_good.load(Ordering::SeqCst)
    }

    /// Returns the exit code of a run that was asked to stop; `None` if it was not asked.
    pub fn exit_code(&self) -> Option<u8> {
        self.is_set().then(|| self.exit_code_of_signal().unwrap_or(exit::INTERRUPTED))
    }

    /// Returns the exit code for the termination signal received, if any.
    pub fn exit_code_of_signal(&self) -> Option<u8> {
        match self.asked.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))),
        }
    }

    /// Sets the stop flag, which [`Interrupt::clear`] does not reset from now on.
    pub fn stop_for_good(&self) {
        self.stopped_for_good.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Forgets Ctrl-C before the next run of a session. A termination signal and a time limit remain in effect.
    pub fn clear(&self) {
        stop::reset_acknowledged();
        self.pressed.store(0, Ordering::SeqCst);
        self.stop.store(false, Ordering::SeqCst);
        // Another thread sets the flag after the reason, so checking the reasons last loses no request.
        if self.exit_code_of_signal().is_some() || self.stopped_for_good.load(Ordering::SeqCst) {
            self.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Handles a signal; returns the time by which the program must have polled the flag, if there is a limit.
    fn handle_request(&self, wish: SignalRequest) -> Option<Instant> {
        let moment = Some(Instant::now() + NOTICE_TIMEOUT);
        if let SignalRequest::End(signal) = wish {
            stop::reset_acknowledged();
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
            write_message("still stopping; Ctrl-C once more ends clk, and the session with it\n");
        }
        moment.filter(|_| first && !self.session.load(Ordering::SeqCst))
    }

    /// Called at the deadline for polling the flag, which was set at `since`. If the program has polled it, returns the
    /// deadline for finishing. Otherwise ends the process, unless the request was cleared meanwhile.
    fn overdue(&self, since: Instant) -> Option<Instant> {
        let deadline = since + GRACE;
        if stop::is_acknowledged() && Instant::now() < deadline {
            return Some(deadline);
        }
        if let Some(code) = self.exit_code() {
            write_message("error[E0599]: interrupted\n");
            end(code);
        }
        None
    }
}

/// Writes to standard error if that does not block. It bypasses the stream's lock, which the stopped program may hold.
fn write_message(text: &str) {
    if !accepts_output() {
        return;
    }
    progress::try_clear();
    #[cfg(unix)]
    // SAFETY: the text lives until the call returns.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
    }
    #[cfg(not(unix))]
    eprint!("{text}");
}

/// Whether standard error accepts output without blocking.
#[cfg(unix)]
fn accepts_output() -> bool {
    let mut request = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: passes one structure that lives until the call returns.
    unsafe { libc::poll(&raw mut request, 1, 0) > 0 && request.revents & libc::POLLOUT != 0 }
}

#[cfg(not(unix))]
fn accepts_output() -> bool {
    true
}

/// Ends the process without unwinding, after removing temporary files and restoring the terminal.
fn end(code: u8) -> ! {
    temp_files::remove_all();
    if accepts_output() {
        progress::leave();
    }
    super::tty::restore();
    super::exit::exit_immediately(code)
}

#[cfg(unix)]
mod signals {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Instant;

    use super::{Interrupt, SignalRequest};

    /// The write end of the pipe, which the signal handler uses.
    static PIPE: AtomicI32 = AtomicI32::new(-1);

    extern "C" fn note(signal: libc::c_int) {
        let byte = signal as u8;
        // SAFETY: `write` is async-signal-safe, and the byte lives until it returns. If the pipe is full, the byte is
        // lost, but enough signals are queued.
        unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
    }

    fn pipe() -> Option<(OwnedFd, OwnedFd)> {
        let mut ends = [0; 2];
        // SAFETY: passes an array for two descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return None;
        }
        for end in ends {
            // SAFETY: this process has just created the descriptors. `FD_CLOEXEC` keeps them from child processes;
            // `O_NONBLOCK` keeps the handler from blocking.
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
            // `nohup clk …` ignores SIGHUP so that the process outlives its terminal. This must not be changed.
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
        // When the flag was set, and when to check whether the program has polled it.
        let mut due: Option<(Instant, Instant)> = None;
        loop {
            let left = due.map(|(_, until)| until.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(-1, |left| left.as_millis().min(10_000) as libc::c_int + 1);
            let mut request = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: passes one structure that lives until the call returns. An error is treated like a timeout.
            let ready = unsafe { libc::poll(&raw mut request, 1, timeout) };
            for signal in (ready > 0).then(|| read_signals(pipe.as_raw_fd())).into_iter().flatten() {
                let requested = if signal == libc::SIGINT { SignalRequest::Stop } else { SignalRequest::End(signal) };
                if let Some(until) = interrupt.handle_request(requested) {
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

    /// Returns the numbers of the signals in the pipe.
    fn read_signals(pipe: RawFd) -> Vec<libc::c_int> {
        let mut bytes = [0u8; 64];
        // SAFETY: the buffer has this length and lives until the call returns.
        let count = unsafe { libc::read(pipe, bytes.as_mut_ptr().cast(), bytes.len()) };
        bytes.iter().take(usize::try_from(count).unwrap_or(0)).map(|&byte| libc::c_int::from(byte)).collect()
    }
}

#[cfg(not(unix))]
mod signals {
    use super::{Interrupt, SignalRequest};

    pub(crate) fn listen(interrupt: Interrupt) {
        let _ = ctrlc::set_handler(move || {
            if let Some(until) = interrupt.handle_request(SignalRequest::Stop) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limit_remains_in_effect() {
        let interrupt = Interrupt::default();
        interrupt.stop.store(true, Ordering::SeqCst);
        interrupt.clear();
        assert!(!interrupt.is_set());
        interrupt.stop_for_good();
        interrupt.clear();
        assert!(interrupt.is_set() && interrupt.is_stopped_for_good());
    }
}
