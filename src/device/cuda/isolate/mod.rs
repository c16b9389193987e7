//! GPU isolation: kernels run in a child process, so that a kernel that kills its context or never ends costs a process and not
//! the program.
//!
//! There are two children. The *keeper* owns the GPU memory and launches nothing, so that it cannot fail; the *worker* maps that
//! memory and does everything else. [`Remote`] is the driver that the program uses. It assigns its own addresses to memory, which
//! each worker translates to its mapping, and it sends operations without waiting for a reply: an error is returned as the reply
//! to the next question.
//!
//! When the worker is lost, a new one maps the same memory and receives the pending operations again, except launches. Program
//! and children communicate over an unnamed socket pair and an unnamed [`Segment`] of shared memory; children end when the
//! program does.

mod arenas;
mod journal;
mod recover;
mod remote;
mod segment;
mod serve;
mod transfer;
pub mod wire;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::driver::{Address, Answer, Driver, Event, Properties};

pub use remote::Remote;
pub use remote::{Starting, start};
pub use segment::Segment;
pub use serve::{keep, watch, work};

/// A handle of memory of one process for another (CUDA IPC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub [u8; 64]);

/// Driver functions beyond [`Driver`] for processes that share memory.
pub trait Shareable: Driver {
    /// Allocates memory that other processes can map.
    fn allocate_shared(&self, bytes: u64) -> Answer<(Address, Handle)>;

    fn free_shared(&self, address: Address);

    /// Maps memory of another process; returns its address here.
    fn map(&self, handle: &Handle) -> Answer<Address>;

    fn unmap(&self, address: Address);

    /// Makes host memory of this process accessible to the GPU; returns its device address.
    ///
    /// # Safety
    /// The memory stays mapped until the process ends.
    unsafe fn pin(&self, memory: *mut u8, bytes: usize) -> Answer<Address>;

    /// Copies to the GPU, in stream order.
    ///
    /// # Safety
    /// The bytes are pinned, and stay unchanged until the copy is done.
    unsafe fn upload_pinned(&self, to: Address, from: *const u8, bytes: usize) -> Answer;

    /// Copies from the GPU, in stream order.
    ///
    /// # Safety
    /// The bytes are pinned, and are not accessed until the copy is done.
    unsafe fn download_pinned(&self, from: Address, to: *mut u8, bytes: usize) -> Answer;

    /// Waits for a recorded event.
    fn wait_for(&self, event: Event) -> Answer;

    /// Writes a word once all earlier operations are done.
    fn write_word(&self, address: Address, value: u32) -> Answer;
}

/// The task of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Keeper,
    Worker,
}

/// Starts child processes. Implemented by the app, the only layer that may start processes.
pub trait Starter: Send + Sync {
    /// Starts a child for the GPU with this ordinal; it inherits `segment` and the other end of the socket.
    fn start(&self, role: Role, ordinal: u32, segment: &Segment) -> io::Result<Process>;
}

/// A child process and the connection to it.
pub struct Process {
    pub socket: UnixStream,
    pub child: Arc<dyn Child>,
}

/// A child process.
pub trait Child: Send + Sync {
    /// Kills it, unless it has ended.
    fn kill(&self);

    /// Waits until it has ended; returns how, as in "it ended by signal 9", or `None` if it has not ended within a time limit.
    fn wait(&self) -> Option<String>;

    /// Returns whether the user asked to stop it.
    fn is_stopped(&self) -> bool;
}

/// The GPU access of a child: the GPU's properties and context.
pub trait Opener {
    /// Returns the GPU's properties, or why there is none.
    fn probe(&self) -> Result<Properties, String>;

    /// Creates its context.
    fn open(&self, properties: Properties) -> Answer<Arc<dyn Shareable>>;
}

/// Codes of errors that do not come from the driver.
pub mod code {
    /// The worker ended.
    pub(crate) const ENDED: u32 = 0x1_0000;
    /// The worker was killed because the user asked to stop it.
    pub const STOPPED: u32 = 0x1_0001;
    /// There is no worker, and none could be started; or the keeper ended.
    pub const GONE: u32 = 0x1_0002;
}
