//! Memory that may not be there. Input: how much is wanted. Output: room for it, or an unwinding with [`Lacking`], which says how
//! much was wanted, to whoever runs the script.
//!
//! The idea: every buffer that is as large as a user's data is made here or as [`AlignedBytes`](super::aligned), so that what
//! does not fit is an error of the program. The system promises more than it has and then ends whoever takes it at its word;
//! so it is asked how much it has before much is taken.

use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;

use super::stop;

/// The payload with which work unwinds for whose data there is no room.
pub(crate) struct Lacking {
    /// Bytes that were wanted.
    pub wanted: u64,
}

/// Less than this is taken without asking the system how much it has.
const MUCH: usize = 64 << 20;

/// What is left to others.
const RESERVE: u64 = 64 << 20;

/// How much the system has, if it tells.
type Available = fn() -> Option<u64>;

static AVAILABLE: OnceLock<Available> = OnceLock::new();

/// How to find out how much the system has. Without it, everything is taken that the system promises.
pub(crate) fn ask(available: Available) {
    // The first stays.
    let _ = AVAILABLE.set(available);
}

/// Whether the machine has so many bytes, as far as it tells.
pub(crate) fn has(bytes: usize) -> bool {
    let available = || AVAILABLE.get().and_then(|ask| ask());
    bytes < MUCH || available().is_none_or(|most| bytes as u64 <= most.saturating_sub(RESERVE))
}

/// Says that there is no room for so many bytes.
///
/// # Unwinds
/// with [`Lacking`].
pub(crate) fn lacking(bytes: usize) -> ! {
    resume_unwind(Box::new(Lacking { wanted: bytes as u64 }))
}

/// Room for so many items.
///
/// # Unwinds
/// with [`Lacking`] if there is none.
pub(crate) fn vec<T>(capacity: usize) -> Vec<T> {
    let bytes = capacity.saturating_mul(size_of::<T>());
    let mut items = Vec::new();
    if !has(bytes) || items.try_reserve_exact(capacity).is_err() {
        lacking(bytes);
    }
    items
}

/// So many copies of an item.
///
/// # Unwinds
/// as [`vec()`] does.
pub(crate) fn filled<T: Clone>(item: T, count: usize) -> Vec<T> {
    let mut items = vec(count);
    items.resize(count, item);
    items
}

/// So many items of zeros, most of which may never be touched: the system gives their memory when they are.
///
/// # Unwinds
/// as [`vec()`] does.
pub(crate) fn zeros<T: bytemuck::Zeroable>(count: usize) -> Vec<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    let layout = Layout::array::<T>(count).ok().filter(|layout| has(layout.size()));
    let Some(layout) = layout else { lacking(bytes) };
    if layout.size() == 0 {
        return Vec::new();
    }
    // SAFETY: the layout's size is not zero.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        lacking(bytes);
    }
    // SAFETY: allocated as a vector of so many items is, all of which are zeros, which such items may be.
    unsafe { Vec::from_raw_parts(start, count, count) }
}

/// The items, of which there are at most `most`.
///
/// # Unwinds
/// as [`vec()`] does.
pub(crate) fn collect<T>(most: usize, from: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items = vec(most);
    items.extend(stop::polled(from).take(most));
    items
}

/// A copy of the items.
///
/// # Unwinds
/// as [`vec()`] does.
pub fn copy<T: Copy>(from: &[T]) -> Vec<T> {
    let mut items = vec(from.len());
    append(&mut items, from);
    items
}

/// Room for so many more items.
///
/// # Unwinds
/// as [`vec()`] does.
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) {
    let bytes = more.saturating_mul(size_of::<T>());
    if more > items.capacity() - items.len() && (!has(bytes) || items.try_reserve(more).is_err()) {
        lacking(bytes);
    }
}

/// Copies items behind others.
///
/// # Unwinds
/// as [`vec()`] does.
pub(crate) fn append<T: Copy>(items: &mut Vec<T>, from: &[T]) {
    reserve(items, from.len());
    for part in from.chunks((stop::MOVED / size_of::<T>().max(1)).max(1)) {
        stop::poll();
        items.extend_from_slice(part);
    }
}

/// Bytes to write to, as long as there is room.
///
/// # Unwinds
/// as [`vec()`] does.
#[derive(Debug, Default)]
pub(crate) struct Sink(pub Vec<u8>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        append(&mut self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(work: impl FnOnce() + std::panic::UnwindSafe) -> Option<u64> {
        let payload = std::panic::catch_unwind(work).err()?;
        payload.downcast::<Lacking>().ok().map(|lacking| lacking.wanted)
    }

    #[test]
    fn what_does_not_fit_unwinds_with_its_size() {
        assert_eq!(wanted(|| drop(vec::<u64>(1 << 50))), Some(1 << 53));
        assert_eq!(wanted(|| drop(vec::<u64>(usize::MAX))), Some(u64::MAX));
        assert_eq!(wanted(|| drop(filled(0u8, 1 << 60))), Some(1 << 60));
        assert_eq!(wanted(|| drop(zeros::<u64>(1 << 58))), Some(1 << 61));
        assert_eq!(wanted(|| reserve(&mut vec![0u8], isize::MAX as usize)), Some(isize::MAX as u64));
        assert_eq!(wanted(|| drop(vec::<u64>(10))), None);
    }

    #[test]
    fn what_fits_is_there() {
        assert_eq!(copy(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(collect(2, 0..5), [0, 1]);
        assert_eq!(filled(7, 2), [7, 7]);
        assert_eq!((zeros::<u64>(3), zeros::<u8>(0)), (vec![0; 3], vec![]));
        let mut items = vec![1];
        append(&mut items, &[2, 3]);
        assert_eq!(items, [1, 2, 3]);
    }
}
