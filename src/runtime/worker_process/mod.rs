//! Child processes in which a device runs its kernels, so that a kernel that destroys the state of its driver, or never
//! ends, costs a process and not the program. A back end defines the messages; this module has the processes and the
//! memory that they share with the program. `docs/internals/gpu-isolation.md` describes the protocol of the CUDA back
//! end.

mod segment;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

pub use segment::{CONTROL_BYTES, DONE, FLAG, SLOT_BYTES, SLOTS, SharedSegment};

/// The task of a child process: memory owner or worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildRole {
    /// Owns the device's memory and launches nothing.
    Keeper,
    /// Runs kernels on the memory of the owner.
    Worker,
}

/// Starts child processes. The app implements it, because only the app layer may start processes.
pub trait Starter: Send + Sync {
    /// Starts a child process for the device with this ordinal. The child inherits `segment` and the other end of the
    /// socket.
    fn start(&self, role: ChildRole, ordinal: u32, segment: &SharedSegment) -> io::Result<Process>;
}

/// A child process and the connection to it.
pub struct Process {
    /// The program's end of the connection.
    pub socket: UnixStream,
    /// The process.
    pub child: Arc<dyn Child>,
}

/// A child process that can be killed and waited for.
pub trait Child: Send + Sync {
    /// Kills the process, unless it has ended.
    fn kill(&self);

    /// Waits until the process has ended, and returns how it ended, for example "it ended by signal 9". Returns `None`
    /// if it has not ended within a time limit.
    fn wait(&self) -> Option<String>;

    /// Returns whether the user asked to stop the process.
    fn is_stopped(&self) -> bool;
}

/// Starts a thread that calls `gone` when the program has ended. This works even if the child is blocked in a driver
/// call that never returns.
pub fn watch(socket: &UnixStream, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let socket = socket.try_clone()?;
    let wait = move || {
        // Without requested events, `poll` reports only that the other end was closed.
        let mut end = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
        loop {
            // SAFETY: `end` is an array of one entry.
            let ready = unsafe { libc::poll(&raw mut end, 1, -1) };
            if ready > 0 {
                break;
            }
        }
        gone();
    };
    std::thread::Builder::new().name("program's end".into()).spawn(wait).map(drop)
}
