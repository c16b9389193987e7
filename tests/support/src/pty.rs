//! Runs `clk` on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that runs on a pseudo-terminal.
pub struct Session {
    child: Child,
    pub terminal: File,
    /// The output after the last text for which the test has waited.
    pub output: String,
}

impl Session {
    /// Starts a session of `clk` with this folder as its home.
    pub fn start(folder: &Path) -> Session {
        let mut command = Command::new(crate::binary());
        command.current_dir(folder).env("HOME", folder).env_remove("NO_COLOR").env_remove("XDG_STATE_HOME");
        Session::of(command, true)
    }

    /// Starts a command on a new pseudo-terminal. If `with_output`, its standard output goes to the terminal as well;
    /// otherwise it stays as `command` sets it.
    pub fn of(command: Command, with_output: bool) -> Session {
        Session::in_columns(command, with_output, 120)
    }

    /// Like [`Session::of`], in a terminal of this many columns.
    pub fn in_columns(mut command: Command, with_output: bool, columns: u16) -> Session {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers to two descriptors and a size are valid until the call returns.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "a pseudo-terminal");
        for side in [master, slave] {
            // Processes that other tests start meanwhile must not keep this terminal open.
            // SAFETY: changes a flag of a descriptor that `openpty` returned.
            assert_eq!(unsafe { libc::fcntl(side, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
        }
        // SAFETY: `openpty` returned both descriptors, which nothing else owns.
        let (terminal, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let side = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.env("TERM", "xterm-256color").stdin(side()).stderr(side());
        if with_output {
            command.stdout(side());
        }
        let child = command.spawn().expect("clk starts");
        Session { child, terminal, output: String::new() }
    }

    /// Interrupts the process, like Ctrl-C.
    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Reads until the process has ended; returns all output.
    pub fn rest(&mut self) -> &str {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end: {:?}", self.output);
            // Reading fails once all writers have closed the terminal.
            let over = match self.waits(Duration::from_millis(50)) {
                true => !self.try_read(),
                false => self.child.try_wait().expect("a state").is_some(),
            };
            if over {
                break;
            }
        }
        &self.output
    }

    /// Returns whether there is something to read within this time.
    pub fn waits(&self, within: Duration) -> bool {
        let mut ready = libc::pollfd { fd: self.terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: a pointer to one descriptor, which is valid until the call returns.
        unsafe { libc::poll(&raw mut ready, 1, within.as_millis() as libc::c_int) > 0 }
    }

    pub fn read(&mut self) {
        assert!(self.try_read(), "the terminal is read");
    }

    fn try_read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let Ok(count) = self.terminal.read(&mut bytes) else { return false };
        self.output.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    pub fn wait_for(&mut self, text: &str) {
        let start = Instant::now();
        while !self.output.contains(text) {
            assert!(start.elapsed() < Duration::from_secs(60), "{text:?} is not in {:?}", self.output);
            if self.waits(Duration::from_millis(100)) {
                self.read();
            }
        }
        self.output.clear();
    }

    /// Types a text; returns, for each key, the time until the last change on the screen.
    pub fn type_slowly(&mut self, text: &str) -> Vec<Duration> {
        let mut times = Vec::new();
        for c in text.chars() {
            let start = Instant::now();
            self.terminal.write_all(c.to_string().as_bytes()).expect("typed");
            assert!(self.waits(Duration::from_secs(10)), "an echo of {c:?}");
            let mut last = start.elapsed();
            self.read();
            while self.waits(Duration::from_millis(20)) {
                last = start.elapsed();
                self.read();
            }
            times.push(last);
        }
        times
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
