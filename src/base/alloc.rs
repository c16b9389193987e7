//! Fallible allocation: a failed allocation unwinds with [`AllocError`] to the code that runs the script, which reports
//! it as an error of the program.
//!
//! Every buffer whose size depends on user data is allocated here or as [`AlignedBytes`](super::aligned). Systems
//! overcommit memory and later kill processes that use it, so large allocations first query the available amount.

use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
#[cfg(panic = "abort")]
use std::sync::atomic::{AtomicUsize, Ordering};

use super::stop;

/// The unwind payload of a failed allocation.
pub struct AllocError {
    /// Requested size in bytes.
    pub requested: u64,
}

/// Minimum size in bytes for querying the available memory.
const LARGE: usize = 64 << 20;

/// Number of available bytes that large allocations leave to other processes.
const RESERVE: u64 = 64 << 20;

/// A function that returns the available memory in bytes; `None` if unknown.
type AvailableQuery = fn() -> Option<u64>;

static AVAILABLE_QUERY: OnceLock<AvailableQuery> = OnceLock::new();

/// Sets the function that returns the available memory. Without it, an allocation fails only if the allocator fails.
pub fn set_available_query(available: AvailableQuery) {
    // Only the first call has an effect.
    let _ = AVAILABLE_QUERY.set(available);
}

/// Returns whether this many bytes are available; true if unknown.
pub fn is_available(bytes: usize) -> bool {
    let available = || AVAILABLE_QUERY.get().and_then(|ask| ask());
    bytes < LARGE || available().is_none_or(|most| bytes as u64 <= most.saturating_sub(RESERVE))
}

/// Size in bytes of the last failed allocation, which ends a program that is built with `panic = "abort"`.
#[cfg(panic = "abort")]
static LAST_REQUESTED: AtomicUsize = AtomicUsize::new(0);

/// Returns the size in bytes of the allocation that ended the program; 0 if it ended for another reason.
#[cfg(panic = "abort")]
pub fn last_requested() -> usize {
    LAST_REQUESTED.load(Ordering::Relaxed)
}

/// Reports that an allocation of this many bytes failed.
///
/// # Unwinds
/// Unwinds with [`AllocError`].
pub fn fail(bytes: usize) -> ! {
    #[cfg(panic = "abort")]
    LAST_REQUESTED.store(bytes, Ordering::Relaxed);
    resume_unwind(Box::new(AllocError { requested: bytes as u64 }))
}

/// Allocates an empty vector of this capacity.
///
/// # Unwinds
/// Unwinds with [`AllocError`] if there is not enough memory.
pub fn vec<T>(capacity: usize) -> Vec<T> {
    let bytes = capacity.saturating_mul(size_of::<T>());
    let mut items = Vec::new();
    if !is_available(bytes) || items.try_reserve_exact(capacity).is_err() {
        fail(bytes);
    }
    items
}

/// Returns zeroed items. The system maps their pages on first access.
///
/// # Unwinds
/// Unwinds like [`vec()`].
pub fn zeros<T: bytemuck::Zeroable>(count: usize) -> Vec<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    let layout = Layout::array::<T>(count).ok().filter(|layout| is_available(layout.size()));
    let Some(layout) = layout else { fail(bytes) };
    if layout.size() == 0 {
        return Vec::new();
    }
    // SAFETY: the layout's size is nonzero.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        fail(bytes);
    }
    // SAFETY: allocated like a vector of `count` items, which are zero and therefore valid.
    unsafe { Vec::from_raw_parts(start, count, count) }
}

/// Collects at most `most` items.
///
/// # Unwinds
/// Unwinds like [`vec()`].
pub fn collect<T>(most: usize, from: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items = vec(most);
    items.extend(stop::polled(from).take(most));
    items
}

/// Returns a copy of the items.
///
/// # Unwinds
/// Unwinds like [`vec()`].
pub fn copy<T: Copy>(from: &[T]) -> Vec<T> {
    let mut items = vec(from.len());
    append(&mut items, from);
    items
}

/// Reserves space for `more` additional items.
///
/// # Unwinds
/// Unwinds like [`vec()`].
pub fn reserve<T>(items: &mut Vec<T>, more: usize) {
    let bytes = more.saturating_mul(size_of::<T>());
    if more > items.capacity() - items.len() && (!is_available(bytes) || items.try_reserve(more).is_err()) {
        fail(bytes);
    }
}

/// Appends copies of the items in `from`.
///
/// # Unwinds
/// Unwinds like [`vec()`].
pub fn append<T: Copy>(items: &mut Vec<T>, from: &[T]) {
    reserve(items, from.len());
    for chunk in from.chunks((stop::POLL_BYTES / size_of::<T>().max(1)).max(1)) {
        stop::poll();
        items.extend_from_slice(chunk);
    }
}

/// A growing byte buffer, for use as a writer. Growth unwinds if there is not enough memory.
///
/// # Unwinds
/// Unwinds like [`vec()`].
#[derive(Debug, Default)]
pub struct ByteSink(pub Vec<u8>);

impl io::Write for ByteSink {
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

    fn requested_size(work: impl FnOnce() + std::panic::UnwindSafe) -> Option<u64> {
        let payload = std::panic::catch_unwind(work).err()?;
        payload.downcast::<AllocError>().ok().map(|error| error.requested)
    }

    #[test]
    fn failed_allocations_unwind_with_their_size() {
        assert_eq!(requested_size(|| drop(vec::<u64>(1 << 50))), Some(1 << 53));
        assert_eq!(requested_size(|| drop(vec::<u64>(usize::MAX))), Some(u64::MAX));
        assert_eq!(requested_size(|| drop(zeros::<u64>(1 << 58))), Some(1 << 61));
        assert_eq!(requested_size(|| reserve(&mut vec![0u8], isize::MAX as usize)), Some(isize::MAX as u64));
        assert_eq!(requested_size(|| drop(vec::<u64>(10))), None);
    }

    #[test]
    fn allocations_have_their_contents() {
        assert_eq!(copy(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(collect(2, 0..5), [0, 1]);
        assert_eq!((zeros::<u64>(3), zeros::<u8>(0)), (vec![0; 3], vec![]));
        let mut items = vec![1];
        append(&mut items, &[2, 3]);
        assert_eq!(items, [1, 2, 3]);
    }
}
