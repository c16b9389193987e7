//! Import of GPU buffers that another library in the same process owns, such as arrays of PyTorch, CuPy or JAX. Kernels
//! use them in place.
//!
//! Input: an address, the stream whose work has to finish first, and an object that keeps the buffer alive. Output: an
//! array's memory on that GPU ([`Interop::import_buffer`](super::Interop::import_buffer)), which kernels read and write
//! in place.
//!
//! - An imported buffer is neither freed nor evicted to the host, because it has another owner.
//! - The device's later work waits for the owner's stream on the GPU; the host does not wait. If several arrays
//!   come from one stream, only one [`ImportedBuffer`] sets `after`.
//! - An array that shares a buffer with another array is copied before it is written (copy-on-write). To force this
//!   copy for a read-only buffer, its owner keeps a second array that shares the buffer.
//! - An assignment, or a write on the host, may move an array out of its imported buffer.
//!   [`Interop::write_back`](super::Interop::write_back) then copies the array's bytes to the buffer.
//! - The owner may reuse the buffer after the device has finished all its work
//!   ([`Device::finish`](super::Device::finish)). If the owner uses the buffer only on the stream `after`, that stream
//!   can wait instead of the host ([`Interop::order_streams_after`](super::Interop::order_streams_after)).

use std::any::Any;
use std::sync::Arc;

/// An object that keeps an imported buffer alive. It is dropped after the buffer's last use.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// A stream (queue of operations) of another library: the handle that the GPU's driver gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignStream(pub usize);

/// A buffer in GPU memory that another library owns.
#[derive(Clone)]
pub struct ImportedBuffer {
    /// The GPU's ordinal: the `N` of `gpu:N`.
    pub gpu: u32,
    pub address: u64,
    pub bytes: usize,
    /// The stream on which the owner has used the buffer. Kernels that use the buffer wait for the work that is
    /// queued there now. `None` if there is nothing to wait for.
    pub after: Option<ForeignStream>,
    /// Whether the owner will also use and free the buffer only on the stream `after`.
    pub in_order: bool,
    pub keep_alive: KeepAlive,
}
