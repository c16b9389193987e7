//! A GPU behind processes of their own, so that a kernel which kills its context or never ends costs a process and not the
//! program.
//!
//! Two children work for the program. The *keeper* owns the GPU's memory and launches nothing, so nothing can go wrong with
//! it; the *worker* maps that memory and does all the rest. [`Remote`] is the driver that the program sees. It gives every part
//! of the memory an address of its own, which each worker translates to where it mapped it, and it sends operations without
//! waiting for an answer: what goes wrong with one is the answer to the next question.
//!
//! When the worker is lost, the next one maps the same memory and is sent again what had not come to its turn, launches
//! excepted. Programs and children speak over an unnamed pair of sockets and through an unnamed [`Segment`] of shared memory;
//! children end when the program does.

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

/// What names memory of one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub [u8; 64]);

/// What a driver does beyond [`Driver`] for processes that work together.
pub trait Shareable: Driver {
    /// Memory that other processes can map.
    fn allocate_shared(&self, bytes: u64) -> Answer<(Address, Handle)>;

    fn free_shared(&self, address: Address);

    /// Another process's memory as this one's.
    fn map(&self, handle: &Handle) -> Answer<Address>;

    fn unmap(&self, address: Address);

    /// Lets the GPU use memory of this process; where it finds it.
    ///
    /// # Safety
    /// The memory stays until the process ends.
    unsafe fn pin(&self, memory: *mut u8, bytes: usize) -> Answer<Address>;

    /// Copies to the GPU, in the stream's order.
    ///
    /// # Safety
    /// The bytes are pinned, and stay as they are until the copy is done.
    unsafe fn upload_pinned(&self, to: Address, from: *const u8, bytes: usize) -> Answer;

    /// Copies from the GPU, in the stream's order.
    ///
    /// # Safety
    /// The bytes are pinned, and nobody uses them until the copy is done.
    unsafe fn download_pinned(&self, from: Address, to: *mut u8, bytes: usize) -> Answer;

    /// Waits for a recorded event.
    fn wait_for(&self, event: Event) -> Answer;

    /// Writes a word once everything before is done.
    fn write_word(&self, address: Address, value: u32) -> Answer;
}

/// What a child is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Keeper,
    Worker,
}

/// Starts children. The app's, which may start processes.
pub trait Starter: Send + Sync {
    /// A child for the GPU of this number, which has `segment` and the other end of the socket.
    fn start(&self, role: Role, ordinal: u32, segment: &Segment) -> io::Result<Process>;
}

/// A child and the way to it.
pub struct Process {
    pub socket: UnixStream,
    pub child: Arc<dyn Child>,
}

/// A process that was started.
pub trait Child: Send + Sync {
    /// Ends it at once, if it has not ended.
    fn kill(&self);

    /// Waits until it has ended; how it did, as in "it ended by signal 9".
    fn wait(&self) -> String;

    /// Whether the user asked for its end.
    fn is_stopped(&self) -> bool;
}

/// What a child's driver is made of: what GPU there is, and its context.
pub trait Opener {
    /// What the GPU is, or why there is none.
    fn probe(&self) -> Result<Properties, String>;

    /// Makes its context.
    fn open(&self, properties: Properties) -> Answer<Arc<dyn Shareable>>;
}

/// Codes of refusals that do not come from the driver.
pub mod code {
    /// The worker ended.
    pub(crate) const ENDED: u32 = 0x1_0000;
    /// The worker was ended because the user asked for it.
    pub const STOPPED: u32 = 0x1_0001;
    /// There is no worker, and none could be started; or the keeper ended.
    pub const GONE: u32 = 0x1_0002;
}
