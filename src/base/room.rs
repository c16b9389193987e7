//! Fallible allocation: a failed allocation unwinds with [`Lacking`] to the code that runs the script, where it becomes an
//! error of the program.
//!
//! Every buffer in proportion to user data is allocated here or as [`AlignedBytes`](super::aligned). Since systems overcommit
//! memory and later kill processes that use it, the available amount is queried before a large allocation.

use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
#[cfg(panic = "abort")]
use std::sync::atomic::{AtomicUsize, Ordering};

use super::stop;

/// Payload of the unwinding after a failed allocation.
pub struct Lacking {
    /// The requested size in bytes.
    pub wanted: u64,
}

/// Smaller allocations are made without querying the available memory.
const MUCH: usize = 64 << 20;

/// Amount of memory left to other processes.
const RESERVE: u64 = 64 << 20;

/// A query of the available memory in bytes, if known.
type Available = fn() -> Option<u64>;

static AVAILABLE: OnceLock<Available> = OnceLock::new();

/// Sets the query of available memory. Without one, only the allocator can refuse.
pub fn ask(available: Available) {
    // Only the first call has an effect.
    let _ = AVAILABLE.set(available);
}

/// Whether this many bytes are available, as far as is known.
pub fn has(bytes: usize) -> bool {
    let available = || AVAILABLE.get().and_then(|ask| ask());
    bytes < MUCH || available().is_none_or(|most| bytes as u64 <= most.saturating_sub(RESERVE))
}

/// The size of the last allocation that failed, in bytes: where a program is not built to unwind, that ends it.
#[cfg(panic = "abort")]
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// Returns the size of the allocation that ended the program, in bytes; 0 if that was something else.
#[cfg(panic = "abort")]
pub fn wanted() -> usize {
    WANTED.load(Ordering::Relaxed)
}

/// Reports that an allocation of this many bytes failed.
///
/// # Unwinds
/// with [`Lacking`].
pub fn lacking(bytes: usize) -> ! {
    #[cfg(panic = "abort")]
    WANTED.store(bytes, Ordering::Relaxed);
    resume_unwind(Box::new(Lacking { wanted: bytes as u64 }))
}

/// Allocates an empty vector of this capacity.
///
/// # Unwinds
/// with [`Lacking`] if there is not enough memory.
pub fn vec<T>(capacity: usize) -> Vec<T> {
    let bytes = capacity.saturating_mul(size_of::<T>());
    let mut items = Vec::new();
    if !has(bytes) || items.try_reserve_exact(capacity).is_err() {
        lacking(bytes);
    }
    items
}

/// Returns zeroed items, whose memory the system provides only when they are touched.
///
/// # Unwinds
/// like [`vec()`].
pub fn zeros<T: bytemuck::Zeroable>(count: usize) -> Vec<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    let layout = Layout::array::<T>(count).ok().filter(|layout| has(layout.size()));
    let Some(layout) = layout else { lacking(bytes) };
    if layout.size() == 0 {
        return Vec::new();
    }
    // SAFETY: the layout's size is nonzero.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        lacking(bytes);
    }
    // SAFETY: allocated like a vector of `count` items, which are zero and therefore valid.
    unsafe { Vec::from_raw_parts(start, count, count) }
}

/// Collects the items, at most `most`.
///
/// # Unwinds
/// like [`vec()`].
pub fn collect<T>(most: usize, from: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items = vec(most);
    items.extend(stop::polled(from).take(most));
    items
}

/// Returns a copy of the items.
///
/// # Unwinds
/// like [`vec()`].
pub fn copy<T: Copy>(from: &[T]) -> Vec<T> {
    let mut items = vec(from.len());
    append(&mut items, from);
    items
}

/// Reserves space for more items.
///
/// # Unwinds
/// like [`vec()`].
pub fn reserve<T>(items: &mut Vec<T>, more: usize) {
    let bytes = more.saturating_mul(size_of::<T>());
    if more > items.capacity() - items.len() && (!has(bytes) || items.try_reserve(more).is_err()) {
        lacking(bytes);
    }
}

/// Appends copies of items.
///
/// # Unwinds
/// like [`vec()`].
pub fn append<T: Copy>(items: &mut Vec<T>, from: &[T]) {
    reserve(items, from.len());
    for part in from.chunks((stop::MOVED / size_of::<T>().max(1)).max(1)) {
        stop::poll();
        items.extend_from_slice(part);
    }
}

/// A byte buffer with fallible growth, for use as a writer.
///
/// # Unwinds
/// like [`vec()`].
#[derive(Debug, Default)]
pub struct Sink(pub Vec<u8>);

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
        assert_eq!(wanted(|| drop(zeros::<u64>(1 << 58))), Some(1 << 61));
        assert_eq!(wanted(|| reserve(&mut vec![0u8], isize::MAX as usize)), Some(isize::MAX as u64));
        assert_eq!(wanted(|| drop(vec::<u64>(10))), None);
    }

    #[test]
    fn what_fits_is_there() {
        assert_eq!(copy(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(collect(2, 0..5), [0, 1]);
        assert_eq!((zeros::<u64>(3), zeros::<u8>(0)), (vec![0; 3], vec![]));
        let mut items = vec![1];
        append(&mut items, &[2, 3]);
        assert_eq!(items, [1, 2, 3]);
    }
}
