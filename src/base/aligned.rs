//! Byte buffers aligned to a cache line, initialized and allocated fallibly. Large ones are kept for a while when they are freed:
//! the system takes longer to provide new pages than a kernel takes to write them.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{room, stop};

/// Alignment of every buffer in bytes: a cache line and a 512-bit register.
pub(crate) const ALIGN: usize = 64;

/// Size in bytes from which a buffer uses huge pages: several of them fit in.
const LARGE: usize = 4 << 20;

/// Size in bytes from which the memory of a freed buffer is kept: the system would take it back, and provide it page by page.
const WORTH_KEEPING: usize = 256 << 10;

/// The most bytes that are kept of freed buffers.
const KEPT: usize = 512 << 20;

/// Freed buffers, the oldest first.
static SPARE: Mutex<Vec<Spare>> = Mutex::new(Vec::new());

/// The memory of a buffer that was dropped, or is not in use yet.
struct Spare {
    start: NonNull<u8>,
    len: usize,
    /// Whether it was spare at the last call of [`retire`].
    is_old: bool,
}

impl Spare {
    /// Returns it as a buffer; its bytes are initialized.
    fn used(self) -> AlignedBytes {
        let memory = ManuallyDrop::new(self);
        AlignedBytes { start: memory.start, len: memory.len, lender: None }
    }
}

// SAFETY: it is the only owner of its memory.
unsafe impl Send for Spare {}

impl Drop for Spare {
    fn drop(&mut self) {
        free(self.start, self.len);
    }
}

fn spare() -> MutexGuard<'static, Vec<Spare>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a spare buffer of this size, with the bytes of its earlier use.
fn reused(len: usize) -> Option<Spare> {
    let mut spare = spare();
    let found = spare.iter().rposition(|buffer| buffer.len == len)?;
    Some(spare.remove(found))
}

/// Keeps the memory of a dropped buffer, and frees the oldest ones beyond the limit.
fn keep(start: NonNull<u8>, len: usize) {
    let mut spare = spare();
    spare.push(Spare { start, len, is_old: false });
    let mut all: usize = spare.iter().map(|buffer| buffer.len).sum();
    while all > KEPT && !spare.is_empty() {
        all -= spare.remove(0).len;
    }
}

/// Frees the memory of buffers that were not used again since the last call. A session calls this between two entries: the next entry finds
/// the buffers of this one, and sizes that do not recur keep no memory.
pub fn retire() {
    let mut spare = spare();
    spare.retain(|buffer| !buffer.is_old);
    spare.iter_mut().for_each(|buffer| buffer.is_old = true);
}

/// Frees the memory of all dropped buffers.
pub fn free_spare() {
    spare().clear();
}

/// Returns whether this many bytes are available, if need be after freeing what is kept.
fn has_room(len: usize) -> bool {
    if room::has(len) {
        return true;
    }
    free_spare();
    room::has(len)
}

fn free(start: NonNull<u8>, len: usize) {
    if let (true, Ok(layout)) = (len > 0, Layout::from_size_align(len, ALIGN)) {
        // SAFETY: allocated by `zeroed` with the same layout.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

/// Advises the system to use huge pages (2 MB), which take a fraction of the time of as many small ones to zero and to
/// translate. Has no effect where the system has none.
///
/// # Safety
/// The bytes are allocated and not yet in use.
#[cfg(target_os = "linux")]
unsafe fn ask_for_large_pages(start: NonNull<u8>, len: usize) {
    const PAGE: usize = 4096;
    let before = start.as_ptr().align_offset(PAGE);
    let Some(inside) = len.checked_sub(before) else { return };
    // SAFETY: covers whole pages within the buffer; this is advice and changes no byte.
    unsafe { libc::madvise(start.as_ptr().add(before).cast(), inside / PAGE * PAGE, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
unsafe fn ask_for_large_pages(_start: NonNull<u8>, _len: usize) {}

/// What keeps memory that was lent: it is given back when this is dropped.
pub(crate) type Lender = Box<dyn Any + Send + Sync>;

/// A buffer of fixed size at an address that is a multiple of [`ALIGN`], or of [`LENT_ALIGN`] if it was lent.
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
    /// Set for memory of another owner, such as an array of the program that Clk is embedded in.
    lender: Option<Lender>,
}

/// Returns the most bytes whose pages may be locked: three quarters of the machine's memory, as what is locked cannot be moved out of
/// the way of others.
pub fn lockable() -> usize {
    // SAFETY: these calls have no conditions.
    #[cfg(unix)]
    let [pages, page] = unsafe { [libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)] };
    #[cfg(not(unix))]
    let [pages, page] = [1 << 19, 4096];
    let memory = usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(page).unwrap_or(0));
    memory / 4 * 3
}

/// What is dropped before the memory of a buffer may get another use, by the buffer's address.
static HELD: Mutex<BTreeMap<usize, Vec<Guard>>> = Mutex::new(BTreeMap::new());

/// What holds on to the memory of a buffer, such as a page lock.
pub type Guard = Box<dyn Any + Send>;

fn held() -> MutexGuard<'static, BTreeMap<usize, Vec<Guard>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Alignment in bytes that memory of other owners has to have: that of the largest element, and of what the simulator relies on.
pub(crate) const LENT_ALIGN: usize = 16;

// SAFETY: the buffer is the only owner of its memory, like a `Box<[u8]>`.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared references only read.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Keeps a guard of a large buffer's memory until the buffer is dropped.
    pub fn hold(&self, guard: Guard) {
        debug_assert!(self.len >= LARGE && self.is_own(), "others are not looked for");
        held().entry(self.start.as_ptr().addr()).or_default().push(guard);
    }

    /// Whether the memory has no other owner. One that is lent may be lent twice, so guards of it have no time of their own.
    pub fn is_own(&self) -> bool {
        self.lender.is_none()
    }

    /// Returns the number of guards.
    pub fn holds(&self) -> usize {
        held().get(&self.start.as_ptr().addr()).map_or(0, Vec::len)
    }

    /// Returns whether so many bytes can be allocated.
    pub fn fit(len: usize) -> bool {
        len < LARGE || has_room(len)
    }

    /// Allocates `len` zeros; `None` if there is not enough memory.
    pub fn zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(AlignedBytes { start: Self::dangling(), len, lender: None });
        }
        let layout = Layout::from_size_align(len, ALIGN).ok()?;
        let known = if len < WORTH_KEEPING { None } else { reused(len) };
        let memory = match known {
            Some(memory) => memory,
            None if len < LARGE => {
                // SAFETY: the layout's size is not zero.
                return Some(AlignedBytes { start: NonNull::new(unsafe { alloc_zeroed(layout) })?, len, lender: None });
            }
            None => {
                if !has_room(len) {
                    return None;
                }
                // SAFETY: the layout's size is nonzero, and the memory is initialized before it is read.
                let start = NonNull::new(unsafe { alloc(layout) })?;
                // SAFETY: the bytes are not yet in use.
                unsafe { ask_for_large_pages(start, len) };
                Spare { start, len, is_old: false }
            }
        };
        for first in (0..len).step_by(stop::MOVED) {
            // The memory is freed if a stop request unwinds.
            stop::poll();
            // SAFETY: within the allocation.
            unsafe { memory.start.add(first).write_bytes(0, stop::MOVED.min(len - first)) };
        }
        Some(memory.used())
    }

    /// Allocates `len` bytes for a writer that overwrites all of them: zeros, or what they were in an earlier use.
    pub fn unset(len: usize) -> Option<Self> {
        let known = if len < WORTH_KEEPING { None } else { reused(len) };
        known.map_or_else(|| Self::zeroed(len), |memory| Some(memory.used()))
    }

    /// Takes memory that `lender` keeps; `None` if its address is no multiple of [`LENT_ALIGN`].
    ///
    /// # Safety
    /// The bytes are initialized, and valid for reads until `lender` is dropped. They are valid for writes, too, and nobody else
    /// uses them, while the buffer is borrowed mutably.
    pub unsafe fn lent(start: NonNull<u8>, len: usize, lender: Lender) -> Option<Self> {
        let is_aligned = start.addr().get().is_multiple_of(LENT_ALIGN);
        is_aligned.then_some(AlignedBytes { start, len, lender: Some(lender) })
    }

    /// Allocates a copy of `bytes`; `None` if there is not enough memory.
    pub fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut copy = Self::unset(bytes.len())?;
        stop::copy(&mut copy, bytes);
        Some(copy)
    }

    /// Returns the bytes as words that several threads may write; those at the end that are no whole word are left out.
    pub fn words(&mut self) -> &[AtomicU32] {
        // SAFETY: the bytes are aligned, initialized and borrowed mutably, and an atomic is represented as its integer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<AtomicU32>()) }
    }

    /// As [`AlignedBytes::words`], of 64 bits.
    pub fn long_words(&mut self) -> &[AtomicU64] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<AtomicU64>()) }
    }

    /// Returns an aligned address for an empty buffer.
    fn dangling() -> NonNull<u8> {
        NonNull::<Aligned>::dangling().cast()
    }
}

#[repr(align(64))]
struct Aligned;

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len >= LARGE && self.is_own() {
            let guards = held().remove(&self.start.as_ptr().addr());
            drop(guards);
        }
        match self.lender.take() {
            Some(lender) => drop(lender),
            None if self.len < WORTH_KEEPING => free(self.start, self.len),
            None => keep(self.start, self.len),
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialized bytes start there, or none at an aligned address.
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
    fn large_buffers_are_used_again() {
        // Sizes that no other test has.
        for len in [LARGE + 3 * 4096, WORTH_KEEPING + 17] {
            let mut bytes = AlignedBytes::zeroed(len).unwrap();
            bytes.fill(7);
            drop(bytes);
            let again = AlignedBytes::unset(len).unwrap();
            assert!(again.iter().all(|&b| b == 7), "not what was freed last");
            drop(again);
            assert!(AlignedBytes::zeroed(len).unwrap().iter().all(|&b| b == 0));
        }
        let parts: Vec<_> = (0..3).map(|_| AlignedBytes::unset(KEPT / 2).unwrap()).collect();
        drop(parts);
        assert!(spare().iter().map(|buffer| buffer.len).sum::<usize>() <= KEPT);
    }

    #[test]
    fn buffers_that_do_not_recur_are_freed() {
        // A size that no other test has.
        let len = WORTH_KEEPING + 4711;
        let count = || spare().iter().filter(|buffer| buffer.len == len).count();
        drop([AlignedBytes::unset(len), AlignedBytes::unset(len)]);
        assert_eq!(count(), 2);
        retire();
        drop(AlignedBytes::unset(len));
        assert_eq!(count(), 2, "one of them was used since");
        retire();
        assert_eq!(count(), 1);
        retire();
        assert_eq!(count(), 0);
    }

    #[test]
    fn lent_memory_is_used_in_place_and_given_back() {
        use std::sync::Arc;
        let mut lender = Arc::new([[0u64; 2]; 2]);
        let start = NonNull::from(Arc::get_mut(&mut lender).unwrap()).cast::<u8>();
        let start = start.map_addr(|at| at.get().next_multiple_of(LENT_ALIGN).try_into().unwrap());
        // SAFETY: 16 bytes, of which nobody else knows before they are looked at below.
        let lent = unsafe { AlignedBytes::lent(start, 16, Box::new(lender.clone())) };
        lent.unwrap().fill(1);
        assert_eq!((lender.as_flattened().contains(&0x0101_0101_0101_0101), Arc::strong_count(&lender)), (true, 1));
        // SAFETY: as above.
        assert!(unsafe { AlignedBytes::lent(start.add(4), 4, Box::new(lender.clone())) }.is_none());
    }

    #[test]
    fn too_large_a_buffer_is_refused() {
        assert!(AlignedBytes::zeroed(usize::MAX).is_none());
        assert!(AlignedBytes::zeroed(isize::MAX as usize - 100).is_none());
    }
}
