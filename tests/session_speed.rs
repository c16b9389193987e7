//! How fast a session answers: from its start to the prompt, and from a key to the screen with 1,000 definitions in scope.
//! Measured, not judged: `cargo test --release --test session_speed -- --ignored --nocapture` prints the times.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A session at a pseudo-terminal.
struct Session {
    child: Child,
    terminal: File,
    seen: String,
}

impl Session {
    fn start(folder: &std::path::Path) -> Session {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: two places for descriptors and a size, all of which live until the call returns.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "a pseudo-terminal");
        // SAFETY: `openpty` gave both descriptors to us alone.
        let (terminal, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let side = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let child = Command::new(env!("CARGO_BIN_EXE_clk"))
            .current_dir(folder)
            .env("HOME", folder)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("XDG_STATE_HOME")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("clk starts");
        Session { child, terminal, seen: String::new() }
    }

    /// Whether something can be read within this time.
    fn waits(&self, within: Duration) -> bool {
        let mut ready = libc::pollfd { fd: self.terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which lives until the call returns.
        unsafe { libc::poll(&raw mut ready, 1, within.as_millis() as libc::c_int) > 0 }
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.terminal.read(&mut bytes).expect("the terminal is read");
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }

    fn wait_for(&mut self, text: &str) {
        let start = Instant::now();
        while !self.seen.contains(text) {
            assert!(start.elapsed() < Duration::from_secs(60), "{text:?} is not in {:?}", self.seen);
            if self.waits(Duration::from_millis(100)) {
                self.read();
            }
        }
        self.seen.clear();
    }

    /// Types a text, and gives the time from each key to the last of what it changed on the screen.
    fn type_slowly(&mut self, text: &str) -> Vec<Duration> {
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

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!("{what}: median {:.2} ms, 9 of 10 within {:.2} ms, most {:.2} ms", at(0.5), at(0.9), at(1.0));
}

#[test]
#[ignore = "prints times"]
fn how_fast_a_session_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut starts = Vec::new();
    for _ in 0..30 {
        let start = Instant::now();
        let mut session = Session::start(folder.path());
        session.wait_for("clk 1> ");
        starts.push(start.elapsed());
    }
    report("from the start to the prompt", starts);
    let definitions: String = (0..1000)
        .map(|i| format!("/// Number {i}.\nfn scaled_{i}(x: f32, y: f32) -> f32 {{ x * {i}.0 + y }}\n"))
        .collect();
    std::fs::write(folder.path().join("many.clk"), definitions).expect("written");
    let mut session = Session::start(folder.path());
    session.wait_for("clk 1> ");
    session.type_slowly(":load many.clk");
    session.terminal.write_all(b"\r").expect("typed");
    session.wait_for("clk 1> ");
    let times = session.type_slowly("let y = scaled_512(1.0, sqrt(2.0)) + scaled_77(clamp(3.0, 0.0, 1.0), 2.5)");
    report("a key, with 1,000 definitions", times);
    session.terminal.write_all(b"\r").expect("typed");
    session.wait_for("clk 2> ");
    session.type_slowly("let z = scaled_9");
    let start = Instant::now();
    session.terminal.write_all(b"\t").expect("typed");
    assert!(session.waits(Duration::from_secs(10)), "completions");
    println!("Tab: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
}
