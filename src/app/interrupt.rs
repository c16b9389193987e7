//! What asks clk to stop or to end: Ctrl-C, SIGTERM, SIGHUP. In: signals. Out: a flag that running programs watch, and the end of
//! the process with the conventional exit code.
//!
//! A thread waits for signals, so that little happens in their handler. It sets the flag that loops look at. Whoever has not
//! heeded it in a moment works in something that cannot look (another library, a file that does not come): the process
//! then ends around it, tidily. Only a session, which has more to lose, is never ended by its first Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{exit, leftovers, progress};
use crate::base::stop;

/// The time that work has to heed the flag, before the process ends around it.
const MOMENT: Duration = Duration::from_millis(120);
/// The time that it has to come to its end once it does.
const GRACE: Duration = Duration::from_secs(2);

/// The flag that a running program watches.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    stop: stop::Flag,
    /// Ctrl-C since the last run began.
    pressed: Arc<AtomicU32>,
    /// So many are borne without ending the process.
    patience: Arc<AtomicU32>,
    /// A run that does not heed Ctrl-C is waited for.
    session: Arc<AtomicBool>,
    /// The signal that has asked for the end; 0 for none.
    asked: Arc<AtomicI32>,
    /// What the second Ctrl-C does where it does not end the process; says whether it did anything.
    second: Arc<Mutex<Option<Second>>>,
}

type Second = Box<dyn Fn() -> bool + Send>;

/// What a signal means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Ctrl-C
    Stop,
    /// Of the system, by the number of its signal.
    End(i32),
}

impl Interrupt {
    /// Starts to listen. Where the system gives no way to (it never has failed on the systems Clk runs on), signals keep their
    /// usual meaning.
    pub fn listen() -> Self {
        let interrupt = Interrupt { patience: Arc::new(AtomicU32::new(1)), ..Interrupt::default() };
        signals::listen(interrupt.clone());
        interrupt
    }

    /// A session is worth more than a script: a run that does not stop at once is waited for, and it takes so many times Ctrl-C
    /// to end it.
    pub fn be_patient(&self, borne: u32) {
        self.session.store(true, Ordering::SeqCst);
        self.patience.store(borne, Ordering::SeqCst);
    }

    /// What the second Ctrl-C does where it does not end the process.
    pub fn at_second(&self, act: impl Fn() -> bool + Send + 'static) {
        *self.second.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    pub fn flag(&self) -> stop::Flag {
        self.stop.clone()
    }

    pub fn is_set(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// The exit code of a run that was asked to stop; none if it was not.
    pub fn exit_code(&self) -> Option<u8> {
        self.is_set().then(|| self.ending().unwrap_or(exit::INTERRUPTED))
    }

    /// The exit code that the system's wish for the end asks for.
    pub fn ending(&self) -> Option<u8> {
        match self.asked.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))),
        }
    }

    /// Forgets an earlier Ctrl-C, before the next run of a session. The system's wish stays.
    pub fn clear(&self) {
        stop::forget();
        self.pressed.store(0, Ordering::SeqCst);
        self.stop.store(self.ending().is_some(), Ordering::SeqCst);
    }

    /// Takes a wish in; until when it has to be heeded, if that matters.
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

    /// What is to be done when the time for heeding is over: nothing, or to wait until then.
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

/// Writes to standard error if that can be done at once: what has to be stopped may be at work there, and hold its lock.
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

/// Whether standard error takes something at once.
#[cfg(unix)]
fn takes_text() -> bool {
    let mut asked = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure, which lives until the call returns.
    unsafe { libc::poll(&raw mut asked, 1, 0) > 0 && asked.revents & libc::POLLOUT != 0 }
}

#[cfg(not(unix))]
fn takes_text() -> bool {
    true
}

/// Ends the process as it is, but tidily.
fn end(code: u8) -> ! {
    leftovers::remove();
    if takes_text() {
        progress::leave();
    }
    super::repl::leave_terminal();
    super::end(code)
}

#[cfg(unix)]
mod signals {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Instant;

    use super::{Interrupt, Wish};

    /// Where the handler writes the numbers of signals.
    static PIPE: AtomicI32 = AtomicI32::new(-1);

    extern "C" fn note(signal: libc::c_int) {
        let byte = signal as u8;
        // SAFETY: `write` may be called in handlers; one byte that lives until it returns. If the pipe is full, enough
        // signals wait in it.
        unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
    }

    fn pipe() -> Option<(OwnedFd, OwnedFd)> {
        let mut ends = [0; 2];
        // SAFETY: a place for two descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return None;
        }
        for end in ends {
            // SAFETY: descriptors that are ours. Programs that clk starts do not get them, and a handler never waits.
            unsafe {
                libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
            }
        }
        // SAFETY: nobody else has them.
        Some(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
    }

    pub(crate) fn listen(interrupt: Interrupt) {
        let Some((read, write)) = pipe() else { return };
        PIPE.store(write.as_raw_fd(), Ordering::SeqCst);
        let wait = move || {
            // The handler writes as long as the process lives.
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
        // SAFETY: structures of zeros are valid, and live until the calls return; the handler only writes to a pipe.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            // `nohup clk …` is to outlive its terminal.
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
        // Since when the flag is set, and when it is to be looked whether it was heeded.
        let mut due: Option<(Instant, Instant)> = None;
        loop {
            let left = due.map(|(_, until)| until.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(-1, |left| left.as_millis().min(10_000) as libc::c_int + 1);
            let mut asked = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure that lives until the call returns. An error is looked at as an end of the time.
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

    /// The signals that came.
    fn take(pipe: RawFd) -> Vec<libc::c_int> {
        let mut bytes = [0u8; 64];
        // SAFETY: a buffer of this length, which lives until the call returns.
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
