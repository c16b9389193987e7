//! Shared memory of a program and its worker: a control page, and slots for large copies.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the control page.
pub(crate) const CONTROL_BYTES: usize = 4096;
/// Bytes of one slot.
pub(crate) const SLOT_BYTES: usize = 4 << 20;
/// The number of slots.
pub(crate) const SLOTS: usize = 8;
/// Bytes of the whole segment.
pub(crate) const SEGMENT_BYTES: usize = CONTROL_BYTES + SLOTS * SLOT_BYTES;

/// Offset in the control page of the number of the last completed operation, written by the GPU.
pub(crate) const DONE: usize = 0;
/// Offset of the worker's word that an operation has failed whose error was not reported yet.
pub(crate) const FAILED: usize = 128;
/// Offset of the flag that kernels raise.
pub(crate) const FLAG: usize = 64;

/// A mapping of the shared memory. It has no name in the file system: only processes that receive its descriptor can access it.
pub struct Segment {
    file: OwnedFd,
    base: *mut u8,
}

// SAFETY: the mapping lives until the segment is dropped. Words of the control page are atomic; the protocol makes access to a
// slot exclusive.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a zeroed segment of fixed size: the size is sealed, so that a child cannot truncate it.
    pub fn create() -> io::Result<Segment> {
        // SAFETY: the name is a C string.
        let descriptor =
            unsafe { libc::memfd_create(c"clk-gpu".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), SEGMENT_BYTES as libc::off_t) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Self::map(file)
    }

    /// Maps the segment of a descriptor that the program passed.
    pub fn open(file: OwnedFd) -> io::Result<Segment> {
        // SAFETY: the descriptor is open; its file position does not matter, since it is never read or written.
        let length = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) };
        if length < SEGMENT_BYTES as libc::off_t {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the shared memory is too short"));
        }
        Self::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<Segment> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is long enough.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), SEGMENT_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Segment { file, base: base.cast() })
    }

    /// Returns the descriptor, for a child to inherit.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset < CONTROL_BYTES && offset.is_multiple_of(4));
        // SAFETY: it lies in the control page, which is only used word by word.
        unsafe { &*self.base.add(offset).cast() }
    }

    /// Returns the number of the last completed operation.
    pub fn done(&self) -> u32 {
        self.word(DONE).load(Ordering::Acquire)
    }

    pub(crate) fn set_done(&self, number: u32) {
        self.word(DONE).store(number, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.word(FAILED).load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_failed(&self, failed: bool) {
        self.word(FAILED).store(failed.into(), Ordering::Release);
    }

    pub fn flag(&self) -> u32 {
        self.word(FLAG).load(Ordering::Acquire)
    }

    pub fn lower_flag(&self) {
        self.word(FLAG).store(0, Ordering::Release);
    }

    /// Returns the control page.
    pub fn control(&self) -> *mut u8 {
        self.base
    }

    /// Returns the slots, which are contiguous.
    pub(crate) fn slots(&self) -> *mut u8 {
        self.base.wrapping_add(CONTROL_BYTES)
    }

    /// Returns the first byte of a slot; `None` if the number is out of range.
    pub(crate) fn slot(&self, slot: u32) -> Option<*mut u8> {
        let slot = slot as usize;
        (slot < SLOTS).then(|| self.slots().wrapping_add(slot * SLOT_BYTES))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: no references into it are left.
        unsafe { libc::munmap(self.base.cast(), SEGMENT_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_memory_that_keeps_its_size() {
        let ours = Segment::create().unwrap();
        let theirs = Segment::open(ours.descriptor().try_clone_to_owned().unwrap()).unwrap();
        theirs.set_done(7);
        assert_eq!(ours.done(), 7);
        let last = ours.slot(SLOTS as u32 - 1).unwrap();
        // SAFETY: both addresses are in the mappings, and nothing else accesses them.
        unsafe {
            last.add(SLOT_BYTES - 1).write(9);
            assert_eq!(theirs.slot(SLOTS as u32 - 1).unwrap().add(SLOT_BYTES - 1).read(), 9);
        }
        assert!(ours.slot(SLOTS as u32).is_none());
        // SAFETY: the descriptor is open.
        let cut = unsafe { libc::ftruncate(ours.descriptor().as_raw_fd(), 0) };
        assert!(cut < 0, "it cannot be cut short");
        assert!(Segment::open(tempfile::tempfile().unwrap().into()).is_err());
    }
}
