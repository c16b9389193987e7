//! Child processes that run kernels, so that a kernel that destroys its GPU context costs a process and not the session.
//!
//! They run this binary again with hidden commands; their standard input is the socket to the parent.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::exit;
use crate::device::cuda::driver::nvidia::Numbered;
use crate::device::cuda::isolate::{self, Child, Process, Role, Segment, Starter};

/// The hidden commands, by role.
pub(crate) const KEEPER: &str = "gpu-keeper";
pub(crate) const WORKER: &str = "gpu-worker";

/// What starts this program again, if that is not the running binary: an interpreter that it is embedded in, and its arguments.
static RELAUNCH: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets what starts this program again; the first call counts.
pub(crate) fn relaunch_by(words: Vec<OsString>) {
    if !words.is_empty() {
        let _ = RELAUNCH.set(words);
    }
}

/// Returns the command that starts this program again.
fn relaunch() -> Command {
    match RELAUNCH.get().and_then(|words| words.split_first()) {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        // The running binary itself, even if its file has been replaced.
        None => {
            let mut command = Command::new("/proc/self/exe");
            command.arg0("clk");
            command
        }
    }
}

/// All worker processes started by this process.
#[derive(Default)]
pub(crate) struct Children {
    workers: Mutex<Vec<Weak<Started>>>,
}

impl Children {
    /// Ends the workers at the user's request; returns whether there were any.
    pub fn stop_workers(&self) -> bool {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for worker in workers.iter().filter_map(Weak::upgrade) {
            worker.stopped.store(true, Ordering::SeqCst);
            worker.kill();
            any = true;
        }
        any
    }
}

impl Starter for Children {
    fn start(&self, role: Role, ordinal: u32, segment: &Segment) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let shared = segment.descriptor().as_raw_fd();
        let mut command = relaunch();
        command.arg(match role {
            Role::Keeper => KEEPER,
            Role::Worker => WORKER,
        });
        command.arg(ordinal.to_string()).arg(shared.to_string());
        // In a process group of their own, so that Ctrl-C reaches only the parent.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::inherit()).process_group(0);
        // SAFETY: `fcntl` may be called between fork and exec, and nothing is allocated.
        unsafe {
            command.pre_exec(move || match libc::fcntl(shared, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let process = command.spawn()?;
        let child =
            Arc::new(Started { process: Mutex::new(process), how: Mutex::default(), stopped: AtomicBool::new(false) });
        if role == Role::Worker {
            let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.retain(|worker| worker.strong_count() > 0);
            workers.push(Arc::downgrade(&child));
        }
        Ok(Process { socket: ours, child })
    }
}

struct Started {
    process: Mutex<std::process::Child>,
    /// How the process ended, once known.
    how: Mutex<Option<String>>,
    stopped: AtomicBool,
}

/// Time limit for an ended process to disappear. The driver needs some 0.1 s if a kernel is running.
const LONGEST_END: Duration = Duration::from_secs(10);

impl Child for Started {
    fn kill(&self) {
        // Fails if the process has already ended.
        let _ = self.process.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    fn wait(&self) -> Option<String> {
        let begin = Instant::now();
        loop {
            if let Some(how) = &*self.how.lock().unwrap_or_else(PoisonError::into_inner) {
                return Some(how.clone());
            }
            // The lock is not held while waiting: another thread may want to kill the process.
            let ended = self.process.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            let how = match ended {
                Ok(Some(status)) => end(status),
                Ok(None) if begin.elapsed() < LONGEST_END => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Ok(None) => return None,
                Err(error) => format!("how it ended is not known: {error}"),
            };
            *self.how.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

fn end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it ended by signal {signal}"),
        (None, None) => "it ended".into(),
    }
}

/// Runs a hidden command if this process was started with one; returns the exit code when the parent is gone.
pub(crate) fn as_child(arguments: &[OsString]) -> Option<u8> {
    let role = match arguments.get(1)?.to_str()? {
        KEEPER => Role::Keeper,
        WORKER => Role::Worker,
        _ => return None,
    };
    let number = |at: usize| arguments.get(at).and_then(|text| text.to_str()?.parse().ok());
    Some(main(role, number(2).unwrap_or(0), number(3).map_or(-1, |n: u32| n as i32)))
}

fn main(role: Role, ordinal: u32, segment: i32) -> u8 {
    match serve(role, ordinal, segment) {
        Ok(()) => exit::OK,
        Err(error) => {
            eprintln!("clk: the GPU's process ends: {error}");
            exit::FAILURE
        }
    }
}

/// Ends the process without the driver's exit handlers, which may wait for a kernel that never ends.
fn end_at_once() {
    // SAFETY: only ends the process.
    unsafe { libc::_exit(exit::FAILURE.into()) }
}

fn serve(role: Role, ordinal: u32, segment: i32) -> io::Result<()> {
    if segment <= libc::STDERR_FILENO {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this command is Clk's own"));
    }
    // SAFETY: the parent passed this descriptor to this process alone; if it is not open, its first use fails.
    let segment = unsafe { OwnedFd::from_raw_fd(segment) };
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    isolate::watch(&socket, end_at_once)?;
    match role {
        Role::Keeper => isolate::keep(&Numbered(ordinal), socket),
        Role::Worker => isolate::work(&Numbered(ordinal), socket, Segment::open(segment)?),
    }
}
