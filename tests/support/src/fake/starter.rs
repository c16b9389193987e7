//! Starts this test binary again as a child process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clk_runtime::worker_process::{Child, ChildRole, Process, SharedSegment, Starter};

#[derive(Default)]
pub struct Children {
    started: Mutex<Vec<(ChildRole, Arc<Started>)>>,
    /// If set, killing a child has no effect, so that children have to end by themselves.
    pub keep_alive: Arc<AtomicBool>,
    /// If set, no further child can be started.
    pub refuses: AtomicBool,
    /// If set, further children end before they are ready.
    pub ends_early: AtomicBool,
}

pub struct Started {
    process: Mutex<std::process::Child>,
    pub stopped: AtomicBool,
    /// If set, waiting for the end of the child gives up, as if the child had not ended.
    pub never_ends: AtomicBool,
    keep_alive: Arc<AtomicBool>,
}

impl Children {
    pub fn last(&self, role: ChildRole) -> Arc<Started> {
        let started = self.started.lock().unwrap();
        started.iter().rev().find(|(r, _)| *r == role).expect("a child").1.clone()
    }
}

impl Children {
    /// Kills the last child of a role, and returns when it has ended.
    pub fn end(&self, role: ChildRole) {
        let child = self.last(role);
        child.kill();
        child.wait();
    }
}

impl Started {
    pub fn is_running(&self) -> bool {
        self.process.lock().unwrap().try_wait().expect("known").is_none()
    }
}

impl Starter for Children {
    fn start(&self, role: ChildRole, _: u32, segment: &SharedSegment) -> io::Result<Process> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let (ours, theirs) = UnixStream::pair()?;
        let shared = segment.descriptor().as_raw_fd();
        let early = self.ends_early.load(Ordering::SeqCst);
        let mut command = Command::new(std::env::current_exe()?);
        let word = match role {
            _ if early => "early",
            ChildRole::Keeper => "keeper",
            ChildRole::Worker => "worker",
        };
        command.args(["--exact", "child_process", "--ignored", "--nocapture"]);
        command.env(super::VARIABLE, format!("{word} {shared}"));
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        // SAFETY: `fcntl` may be called between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::fcntl(shared, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let child = Arc::new(Started {
            process: Mutex::new(command.spawn()?),
            stopped: AtomicBool::new(false),
            never_ends: AtomicBool::new(false),
            keep_alive: self.keep_alive.clone(),
        });
        self.started.lock().unwrap().push((role, child.clone()));
        Ok(Process { socket: ours, child })
    }
}

impl Child for Started {
    fn kill(&self) {
        if !self.keep_alive.load(Ordering::SeqCst) {
            let _ = self.process.lock().unwrap().kill();
        }
    }

    fn wait(&self) -> Option<String> {
        if self.never_ends.load(Ordering::SeqCst) {
            return None;
        }
        loop {
            match self.process.lock().unwrap().try_wait().expect("known") {
                Some(status) => {
                    return Some(match status.code() {
                        Some(code) => format!("it ended with exit code {code}"),
                        None => format!("it ended by signal {}", status.signal().unwrap_or(0)),
                    });
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}
