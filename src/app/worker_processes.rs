//! Worker processes, which run GPU kernels. If a kernel destroys its GPU context, only the worker process ends, not the
//! session.
//!
//! A worker process runs this binary with a hidden command. Its standard input is a socket to the parent process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::{exit, own_program};
use clk_runtime::worker_process::{self, Child, ChildRole, Process, SharedSegment, Starter};

/// The hidden commands: one for the process that owns GPU memory, and one for processes that run kernels.
pub(crate) const KEEPER_COMMAND: &str = "gpu-keeper";
pub(crate) const WORKER_COMMAND: &str = "gpu-worker";

/// All worker processes started by this process.
#[derive(Default)]
pub(crate) struct WorkerProcesses {
    workers: Mutex<Vec<Weak<StartedChild>>>,
}

impl WorkerProcesses {
    /// Ends the worker processes at the user's request; returns whether there were any.
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

impl Starter for WorkerProcesses {
    fn start(&self, role: ChildRole, ordinal: u32, segment: &SharedSegment) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let shared = segment.descriptor().as_raw_fd();
        let mut command = own_program::command();
        command.arg(match role {
            ChildRole::Keeper => KEEPER_COMMAND,
            ChildRole::Worker => WORKER_COMMAND,
        });
        command.arg(ordinal.to_string()).arg(shared.to_string());
        // The worker is in a process group of its own, so that Ctrl-C in the terminal reaches only the parent.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::inherit()).process_group(0);
        // SAFETY: `fcntl` may be called between fork and exec, and nothing is allocated.
        unsafe {
            command.pre_exec(move || match libc::fcntl(shared, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let process = command.spawn()?;
        let child = Arc::new(StartedChild {
            process: Mutex::new(process),
            how: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        if role == ChildRole::Worker {
            let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.retain(|worker| worker.strong_count() > 0);
            workers.push(Arc::downgrade(&child));
        }
        Ok(Process { socket: ours, child })
    }
}

struct StartedChild {
    process: Mutex<std::process::Child>,
    /// A description of how the process ended, once it has.
    how: Mutex<Option<String>>,
    stopped: AtomicBool,
}

/// How long to wait for a killed process to end. The driver needs about 0.1 s for this if a kernel is running.
const END_TIMEOUT: Duration = Duration::from_secs(10);

impl Child for StartedChild {
    fn kill(&self) {
        // Fails if the process has already ended.
        let _ = self.process.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    fn wait(&self) -> Option<String> {
        let begin = Instant::now();
        loop {
            if let Some(status_text) = &*self.how.lock().unwrap_or_else(PoisonError::into_inner) {
                return Some(status_text.clone());
            }
            // The lock is not held while waiting: another thread may want to kill the process.
            let ended = self.process.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            let status_text = match ended {
                Ok(Some(status)) => end(status),
                Ok(None) if begin.elapsed() < END_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Ok(None) => return None,
                Err(error) => format!("how it ended is not known: {error}"),
            };
            *self.how.lock().unwrap_or_else(PoisonError::into_inner) = Some(status_text);
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

/// Runs a child process of the GPU with this number until the program ends. The descriptor is that of the memory that
/// it shares with the program.
type ServeChild = fn(ChildRole, u32, UnixStream, OwnedFd) -> io::Result<()>;

/// If this process was started with a hidden command, runs it, and returns the exit code after the parent has ended.
/// `serve` runs the child process of a GPU.
pub(crate) fn run_hidden_command(arguments: &[OsString], serve: ServeChild) -> Option<u8> {
    let role = match arguments.get(1)?.to_str()? {
        KEEPER_COMMAND => ChildRole::Keeper,
        WORKER_COMMAND => ChildRole::Worker,
        _ => return None,
    };
    let number = |at: usize| arguments.get(at).and_then(|text| text.to_str()?.parse().ok());
    Some(main(serve, role, number(2).unwrap_or(0), number(3).map_or(-1, |n: u32| n as i32)))
}

fn main(serve: ServeChild, role: ChildRole, ordinal: u32, segment: i32) -> u8 {
    match run_child(serve, role, ordinal, segment) {
        Ok(()) => exit::OK,
        Err(error) => {
            eprintln!("clk: the GPU's process ends: {error}");
            exit::FAILURE
        }
    }
}

/// Ends the process without running the driver's exit handlers, which may wait for a kernel that never ends.
fn exit_without_handlers() {
    // SAFETY: the call only ends the process.
    unsafe { libc::_exit(exit::FAILURE.into()) }
}

fn run_child(serve: ServeChild, role: ChildRole, ordinal: u32, segment: i32) -> io::Result<()> {
    if segment <= libc::STDERR_FILENO {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this command is Clk's own"));
    }
    // SAFETY: the parent passed this descriptor only to this process. If it is not open, its first use fails.
    let segment = unsafe { OwnedFd::from_raw_fd(segment) };
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    worker_process::watch(&socket, exit_without_handlers)?;
    serve(role, ordinal, socket, segment)
}
