//! GPU isolation: kernels run in a worker process. A kernel that corrupts its context or never ends costs only this
//! process, and the program continues.
//!
//! The *memory owner* process allocates the GPU memory. It launches no kernels, so no kernel can destroy its context.
//! The *worker* process maps that memory and does everything else. [`IsolatedGpu`] is the driver that the program uses.
//! `docs/internals/gpu-isolation.md` describes addresses, messages and recovery.

mod arenas;
mod journal;
mod recover;
mod remote;
mod serve;
mod transfer;
pub mod wire;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::driver::{DevicePtr, Driver, DriverResult, GpuUnavailable, Properties, StreamEvent};

pub use remote::IsolatedGpu;
pub use remote::{Starting, WorkerStartError, start};
pub use serve::{keep, work};

/// A handle by which one process maps memory of another (CUDA IPC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcHandle(#[serde(with = "serde_bytes")] pub [u8; 64]);

/// Driver functions beyond [`Driver`] for processes that share memory.
pub trait Shareable: Driver {
    /// Allocates memory that other processes can map.
    fn allocate_shared(&self, bytes: u64) -> DriverResult<(DevicePtr, IpcHandle)>;

    fn free_shared(&self, address: DevicePtr);

    /// Maps memory of another process. Returns its address in this process.
    fn map(&self, handle: &IpcHandle) -> DriverResult<DevicePtr>;

    fn unmap(&self, address: DevicePtr);

    /// Makes host memory of this process accessible to the GPU. Returns its device address.
    ///
    /// # Safety
    /// The memory stays mapped until the process ends.
    unsafe fn pin(&self, memory: *mut u8, bytes: usize) -> DriverResult<DevicePtr>;

    /// Copies pinned bytes to the GPU, in stream order.
    ///
    /// # Safety
    /// The bytes are pinned and do not change until the copy is done.
    unsafe fn upload_pinned(&self, to: DevicePtr, from: *const u8, bytes: usize) -> DriverResult;

    /// Copies from the GPU to pinned bytes, in stream order.
    ///
    /// # Safety
    /// The bytes are pinned, and nothing accesses them until the copy is done.
    unsafe fn download_pinned(&self, from: DevicePtr, to: *mut u8, bytes: usize) -> DriverResult;

    /// Waits for a recorded event.
    fn wait_for(&self, event: StreamEvent) -> DriverResult;

    /// Makes the GPU write a word once all earlier operations are done.
    fn write_word(&self, address: DevicePtr, value: u32) -> DriverResult;
}

/// Gives a child process access to its GPU: the GPU's properties and a context.
pub trait Opener {
    /// Returns the GPU's properties, or the reason why no GPU is available.
    fn probe(&self) -> Result<Properties, GpuUnavailable>;

    /// Creates a context of the GPU.
    fn open(&self, properties: Properties) -> DriverResult<Arc<dyn Shareable>>;
}

/// Values of [`DriverError::code`](super::driver::DriverError::code) for errors that do not come from the driver.
pub mod code {
    /// The worker process ended unexpectedly.
    pub(crate) const ENDED: u32 = 0x1_0000;
    /// The worker was killed because the user asked to stop it.
    pub const STOPPED: u32 = 0x1_0001;
    /// There is no worker and none could be started, or the memory owner ended.
    pub const GONE: u32 = 0x1_0002;
}
