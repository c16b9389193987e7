//! Memory of a GPU that another library of the process lends: arrays of torch, CuPy or JAX as arguments.
//!
//! Input: an address, whose work has to come first, and what keeps the memory. Output: the memory of an array as any other's on that
//! GPU ([`Device::lend`](super::Device::lend)), which kernels read and write in place.
//!
//! - Lent memory is neither freed nor moved to the host: it has another owner.
//! - All that the device does from then on waits for what the lender's stream has to do so far, by an event: nobody waits on the host. Of
//!   several arrays of one stream, one says so.
//! - An array that shares it is copied before it is written, as with memory of the device's own. Whoever lends memory that is only read
//!   keeps an array that shares it for as long.
//! - A script may give an array that is written other memory: by an assignment, or a write on the host.
//!   [`Device::give_back`](super::Device::give_back) copies then what the array holds to where it belongs, and does nothing otherwise.
//! - The lender may use it again when the device has done all that it had to do ([`Device::finish`](super::Device::finish)), and not before:
//!   unless all that he does is on the stream that was waited for, which may then wait itself ([`Device::pass_on`](super::Device::pass_on)).

use std::any::Any;
use std::sync::Arc;

/// What keeps memory: dropped when nothing uses that any more.
pub type Keeper = Arc<dyn Any + Send + Sync>;

/// A part of a GPU's memory that somebody else owns.
#[derive(Clone)]
pub struct Lent {
    /// The GPU's number: the `N` of `gpu:N`.
    pub gpu: u32,
    pub address: u64,
    pub bytes: usize,
    /// The stream, as CUDA knows it, whose work so far comes before any use; `None` if there is nothing to wait for.
    pub after: Option<usize>,
    /// Whether the lender's work from now on is on that stream, too, also what frees the memory.
    pub in_order: bool,
    pub keeper: Keeper,
}
