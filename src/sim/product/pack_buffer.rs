//! The packing buffer of a worker, which the worker reuses for later tile products.

use std::cell::RefCell;

use clk_base::aligned::AlignedBytes;

thread_local! {
    /// The packing buffer of this thread.
    static PACK_BUFFER: RefCell<Option<AlignedBytes>> = const { RefCell::new(None) };
}

/// Calls `f` with a buffer of `bytes` bytes with arbitrary contents. `None` if the memory cannot be allocated.
pub(crate) fn with_pack_buffer<R>(bytes: usize, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
    PACK_BUFFER.with_borrow_mut(|buffer| {
        if buffer.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
            *buffer = None;
            *buffer = Some(AlignedBytes::for_overwrite(bytes.next_power_of_two())?);
        }
        buffer.as_mut().map(|buffer| f(&mut buffer[..bytes]))
    })
}
