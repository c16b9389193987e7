//! Blocks of page-locked memory, which copies between the host and a GPU go by way of.

use cudarc::driver::sys;

/// Bytes of one block of staging memory: a fraction of what a processor's last cache holds for each thread.
pub(super) const PIECE: usize = 2 << 20;
/// Copies of at least this size go through staging memory; the driver has its own for small ones.
pub(super) const STAGED: usize = 1 << 20;
/// Page-locked staging memory for copies, and the event after which it is free again.
pub(super) struct Staging {
    pub memory: *mut u8,
    /// Reached when the block is free again.
    pub done: sys::CUevent,
}

// SAFETY: it is owned by the thread that took it out of the list.
unsafe impl Send for Staging {}
