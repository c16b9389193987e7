//! The memory that a worker packs the factors of tiles into: kept from one product to the next.

use std::cell::RefCell;

use crate::base::aligned::AlignedBytes;

thread_local! {
    /// What a worker packs factors into.
    static DESK: RefCell<Option<AlignedBytes>> = const { RefCell::new(None) };
}

/// Calls `f` with so many bytes, whatever they hold; `None` if there is no memory for them.
pub(crate) fn with_desk<R>(bytes: usize, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
    DESK.with_borrow_mut(|desk| {
        if desk.as_ref().is_none_or(|desk| desk.len() < bytes) {
            *desk = None;
            *desk = Some(AlignedBytes::unset(bytes.next_power_of_two())?);
        }
        desk.as_mut().map(|desk| f(&mut desk[..bytes]))
    })
}
