//! Byte buffers that are aligned to a cache line and always initialized. Their allocation can fail without ending the
//! program.
//!
//! The memory of large dropped buffers goes to a free list for reuse: the system takes longer to map new pages than a
//! kernel takes to write them.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{alloc, stop};

/// Alignment of every buffer in bytes: the size of a cache line and of a 512-bit vector register.
pub(crate) const ALIGN: usize = 64;

/// Minimum size in bytes of a buffer for which huge pages of 2 MB are requested.
const LARGE: usize = 4 << 20;

/// Minimum size in bytes of a buffer that is reused. If it were freed, the system would unmap it, and a later
/// allocation would cause a page fault for each page.
const WORTH_KEEPING: usize = 256 << 10;

/// Maximum number of bytes in the free list.
const MAX_SPARE_BYTES: usize = 512 << 20;

/// The free list, oldest buffer first.
static SPARE_BUFFERS: Mutex<Vec<SpareBuffer>> = Mutex::new(Vec::new());

/// Memory of a buffer that was dropped or is being allocated.
struct SpareBuffer {
    start: NonNull<u8>,
    len: usize,
    /// Whether the buffer was already in the free list at the last call of [`free_stale_buffers`].
    is_old: bool,
}

impl SpareBuffer {
    /// Converts the memory to a buffer. The caller must have initialized its bytes.
    fn into_buffer(self) -> AlignedBytes {
        let memory = ManuallyDrop::new(self);
        AlignedBytes { start: memory.start, len: memory.len, foreign_owner: None }
    }
}

// SAFETY: a `SpareBuffer` uniquely owns its memory.
unsafe impl Send for SpareBuffer {}

impl Drop for SpareBuffer {
    fn drop(&mut self) {
        free(self.start, self.len);
    }
}

fn lock_spare_buffers() -> MutexGuard<'static, Vec<SpareBuffer>> {
    SPARE_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a buffer of exactly this size from the free list. It still has the contents of its earlier use.
fn take_spare(len: usize) -> Option<SpareBuffer> {
    let mut buffers = lock_spare_buffers();
    let index = buffers.iter().rposition(|buffer| buffer.len == len)?;
    Some(buffers.remove(index))
}

/// Adds a dropped buffer to the free list and frees the oldest entries beyond the size limit.
fn recycle(start: NonNull<u8>, len: usize) {
    let mut buffers = lock_spare_buffers();
    buffers.push(SpareBuffer { start, len, is_old: false });
    let mut total: usize = buffers.iter().map(|buffer| buffer.len).sum();
    while total > MAX_SPARE_BYTES && !buffers.is_empty() {
        total -= buffers.remove(0).len;
    }
}

/// Frees all buffers that have been in the free list since the previous call.
///
/// A session calls this after each REPL entry. An entry can reuse the buffers of the previous entry, and buffers whose
/// sizes are not requested again are freed.
pub fn free_stale_buffers() {
    let mut buffers = lock_spare_buffers();
    buffers.retain(|buffer| !buffer.is_old);
    buffers.iter_mut().for_each(|buffer| buffer.is_old = true);
}

/// Empties the free list.
pub fn free_spare() {
    lock_spare_buffers().clear();
}

/// Returns whether this many bytes are available, after emptying the free list if necessary.
fn ensure_available(len: usize) -> bool {
    if alloc::is_available(len) {
        return true;
    }
    free_spare();
    alloc::is_available(len)
}

fn free(start: NonNull<u8>, len: usize) {
    if let (true, Ok(layout)) = (len > 0, Layout::from_size_align(len, ALIGN)) {
        // SAFETY: `zeroed` allocated it with the same layout.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

/// Advises the system to use huge pages (2 MB), which are much faster to zero and to translate than small pages. Has no
/// effect on systems without huge pages.
///
/// # Safety
/// The bytes must be allocated and not yet in use.
#[cfg(target_os = "linux")]
unsafe fn ask_for_large_pages(start: NonNull<u8>, len: usize) {
    const PAGE: usize = 4096;
    let padding = start.as_ptr().align_offset(PAGE);
    let Some(rest) = len.checked_sub(padding) else { return };
    // SAFETY: the range covers whole pages within the buffer, and the advice changes no bytes.
    unsafe { libc::madvise(start.as_ptr().add(padding).cast(), rest / PAGE * PAGE, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
unsafe fn ask_for_large_pages(_start: NonNull<u8>, _len: usize) {}

/// Owner of foreign memory; dropping it releases the memory.
pub(crate) type BufferOwner = Box<dyn Any + Send + Sync>;

/// A buffer of fixed size, aligned to [`ALIGN`] bytes, or to [`FOREIGN_ALIGN`] bytes for foreign memory.
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
    /// Set for foreign memory, such as an array of the program that embeds Clk.
    foreign_owner: Option<BufferOwner>,
}

/// Returns the maximum number of bytes that may be page-locked: three quarters of the machine's memory, because locked
/// pages cannot be swapped out for other processes.
pub fn max_lockable_bytes() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    #[cfg(unix)]
    let [pages, page] = unsafe { [libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)] };
    #[cfg(not(unix))]
    let [pages, page] = [1 << 19, 4096];
    let memory = usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(page).unwrap_or(0));
    memory / 4 * 3
}

/// The guards of each buffer, by the buffer's address. They are dropped before the memory is reused or freed.
static BUFFER_GUARDS: Mutex<BTreeMap<usize, Vec<BufferGuard>>> = Mutex::new(BTreeMap::new());

/// A resource tied to a buffer's memory, such as a page lock.
pub type BufferGuard = Box<dyn Any + Send>;

fn lock_buffer_guards() -> MutexGuard<'static, BTreeMap<usize, Vec<BufferGuard>>> {
    BUFFER_GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Minimum alignment of foreign memory in bytes: that of the largest element type, which the simulator relies on.
pub(crate) const FOREIGN_ALIGN: usize = 16;

// SAFETY: the buffer uniquely owns its memory, like a `Box<[u8]>`.
unsafe impl Send for AlignedBytes {}
// SAFETY: code with a shared reference can only read the memory.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Attaches a guard to a large buffer. The guard is dropped with the buffer.
    pub fn add_guard(&self, guard: BufferGuard) {
        debug_assert!(self.len >= LARGE && self.is_owned(), "only large owned buffers drop their guards");
        lock_buffer_guards().entry(self.start.as_ptr().addr()).or_default().push(guard);
    }

    /// Returns whether Clk allocated the memory. Several buffers can wrap the same foreign memory, so borrow
    /// guards cannot protect it.
    pub fn is_owned(&self) -> bool {
        self.foreign_owner.is_none()
    }

    /// Returns the number of guards attached to the buffer.
    pub fn guard_count(&self) -> usize {
        lock_buffer_guards().get(&self.start.as_ptr().addr()).map_or(0, Vec::len)
    }

    /// Returns whether a buffer of this size can be allocated.
    pub fn can_allocate(len: usize) -> bool {
        len < LARGE || ensure_available(len)
    }

    /// Allocates `len` zeros; `None` if there is not enough memory.
    pub fn zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(AlignedBytes { start: Self::dangling(), len, foreign_owner: None });
        }
        let layout = Layout::from_size_align(len, ALIGN).ok()?;
        let reused = if len < WORTH_KEEPING { None } else { take_spare(len) };
        let memory = match reused {
            Some(buffer) => buffer,
            None if len < LARGE => {
                // SAFETY: the layout's size is not zero.
                let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
                return Some(AlignedBytes { start, len, foreign_owner: None });
            }
            None => {
                if !ensure_available(len) {
                    return None;
                }
                // SAFETY: the layout's size is nonzero, and the memory is initialized before it is read.
                let start = NonNull::new(unsafe { alloc(layout) })?;
                // SAFETY: the buffer was just allocated.
                unsafe { ask_for_large_pages(start, len) };
                SpareBuffer { start, len, is_old: false }
            }
        };
        for offset in (0..len).step_by(stop::POLL_BYTES) {
            // If a stop request unwinds here, `memory` is dropped, which frees it.
            stop::poll();
            // SAFETY: the bytes are within the allocation.
            unsafe { memory.start.add(offset).write_bytes(0, stop::POLL_BYTES.min(len - offset)) };
        }
        Some(memory.into_buffer())
    }

    /// Allocates `len` bytes with unspecified contents (zeros, or those of an earlier use) for a caller that overwrites
    /// all of them.
    pub fn for_overwrite(len: usize) -> Option<Self> {
        let reused = if len < WORTH_KEEPING { None } else { take_spare(len) };
        reused.map_or_else(|| Self::zeroed(len), |buffer| Some(buffer.into_buffer()))
    }

    /// Wraps foreign memory that `foreign_owner` owns; `None` if its address is not a multiple of [`FOREIGN_ALIGN`].
    ///
    /// # Safety
    /// The bytes are initialized, and valid for reads until `foreign_owner` is dropped. While the buffer is borrowed
    /// mutably, they are also valid for writes and not accessed by any other code.
    pub unsafe fn from_foreign(start: NonNull<u8>, len: usize, foreign_owner: BufferOwner) -> Option<Self> {
        let is_aligned = start.addr().get().is_multiple_of(FOREIGN_ALIGN);
        is_aligned.then_some(AlignedBytes { start, len, foreign_owner: Some(foreign_owner) })
    }

    /// Allocates a copy of `bytes`; `None` if there is not enough memory.
    pub fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut copy = Self::for_overwrite(bytes.len())?;
        stop::copy(&mut copy, bytes);
        Some(copy)
    }

    /// Returns the bytes as atomic 32-bit words, without the last bytes that do not fill a word.
    pub fn words(&mut self) -> &[AtomicU32] {
        // SAFETY: the bytes are aligned, initialized and borrowed mutably, and an atomic has the same layout as its
        // integer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<AtomicU32>()) }
    }

    /// Like [`AlignedBytes::words`], but with 64-bit words.
    pub fn long_words(&mut self) -> &[AtomicU64] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<AtomicU64>()) }
    }

    /// Returns an aligned, dangling address for an empty buffer.
    fn dangling() -> NonNull<u8> {
        NonNull::<Aligned>::dangling().cast()
    }
}

#[repr(align(64))]
struct Aligned;

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len >= LARGE && self.is_owned() {
            let guards = lock_buffer_guards().remove(&self.start.as_ptr().addr());
            drop(guards);
        }
        match self.foreign_owner.take() {
            Some(foreign_owner) => drop(foreign_owner),
            None if self.len < WORTH_KEEPING => free(self.start, self.len),
            None => recycle(self.start, self.len),
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialized bytes, or is aligned and dangling if `len` is zero.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_and_aligned() {
        for len in [0, 1, 63, 64, 1000, WORTH_KEEPING, LARGE, LARGE + 4097] {
            let bytes = AlignedBytes::zeroed(len).unwrap();
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|&b| b == 0));
            assert_eq!(bytes.as_ptr() as usize % ALIGN, 0);
        }
    }

    #[test]
    fn large_buffers_are_reused() {
        // No other test uses buffers of these sizes, so no other test can take them from the free list.
        for len in [LARGE + 3 * 4096, WORTH_KEEPING + 17] {
            let mut bytes = AlignedBytes::zeroed(len).unwrap();
            bytes.fill(7);
            drop(bytes);
            let reused = AlignedBytes::for_overwrite(len).unwrap();
            assert!(reused.iter().all(|&b| b == 7), "the last freed buffer is reused");
            drop(reused);
            assert!(AlignedBytes::zeroed(len).unwrap().iter().all(|&b| b == 0));
        }
        let buffers: Vec<_> = (0..3).map(|_| AlignedBytes::for_overwrite(MAX_SPARE_BYTES / 2).unwrap()).collect();
        drop(buffers);
        assert!(lock_spare_buffers().iter().map(|buffer| buffer.len).sum::<usize>() <= MAX_SPARE_BYTES);
    }

    #[test]
    fn sizes_that_do_not_recur_are_freed() {
        // No other test uses buffers of this size, so no other test changes the count.
        let len = WORTH_KEEPING + 4711;
        let count = || lock_spare_buffers().iter().filter(|buffer| buffer.len == len).count();
        drop([AlignedBytes::for_overwrite(len), AlignedBytes::for_overwrite(len)]);
        assert_eq!(count(), 2);
        free_stale_buffers();
        drop(AlignedBytes::for_overwrite(len));
        assert_eq!(count(), 2, "one of the two was reused since the last call");
        free_stale_buffers();
        assert_eq!(count(), 1);
        free_stale_buffers();
        assert_eq!(count(), 0);
    }

    #[test]
    fn foreign_memory_is_used_in_place_and_released() {
        use std::sync::Arc;
        let mut foreign_owner = Arc::new([[0u64; 2]; 2]);
        let start = NonNull::from(Arc::get_mut(&mut foreign_owner).unwrap()).cast::<u8>();
        let start = start.map_addr(|at| at.get().next_multiple_of(FOREIGN_ALIGN).try_into().unwrap());
        // SAFETY: the 16 bytes are inside `foreign_owner`, and no other code accesses them until the buffer is dropped.
        let lent = unsafe { AlignedBytes::from_foreign(start, 16, Box::new(foreign_owner.clone())) };
        lent.unwrap().fill(1);
        assert_eq!(
            (foreign_owner.as_flattened().contains(&0x0101_0101_0101_0101), Arc::strong_count(&foreign_owner)),
            (true, 1)
        );
        // SAFETY: as above.
        assert!(unsafe { AlignedBytes::from_foreign(start.add(4), 4, Box::new(foreign_owner.clone())) }.is_none());
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(AlignedBytes::zeroed(usize::MAX).is_none());
        assert!(AlignedBytes::zeroed(isize::MAX as usize - 100).is_none());
    }
}
