//! The memory segment that the program shares with its worker: a control page, and slots for large copies.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of the control page in bytes.
pub const CONTROL_BYTES: usize = 4096;
/// Size of a slot in bytes.
pub const SLOT_BYTES: usize = 4 << 20;
/// The number of slots.
pub const SLOTS: usize = 8;
/// Size of the whole segment in bytes.
const SEGMENT_BYTES: usize = CONTROL_BYTES + SLOTS * SLOT_BYTES;

/// Offset in the control page of the number of the last completed operation, which the GPU writes.
pub const DONE: usize = 0;
/// Offset in the control page of the word that is set while an operation has failed and its error has not been
/// reported.
const FAILED: usize = 128;
/// Offset in the control page of the flag that kernels set.
pub const FLAG: usize = 64;

/// A mapping of the shared memory, which has no name in the file system: only processes that receive its descriptor can
/// access it.
///
/// The words of the control page are atomic. The segment does not control access to the slots. The program does: it
/// locks them during a copy, whose threads use different slots, and accesses or reuses a slot only after the worker has
/// replied that it no longer uses it.
pub struct SharedSegment {
    file: OwnedFd,
    base: *mut u8,
}

// SAFETY: the methods access only words of the control page, as atomics, and otherwise return raw pointers without
// accessing the memory. The mapping can be removed by any thread.
unsafe impl Send for SharedSegment {}
// SAFETY: as above.
unsafe impl Sync for SharedSegment {}

impl SharedSegment {
    /// Creates a zeroed segment. Its size is sealed, so that a child cannot truncate it.
    pub fn create() -> io::Result<SharedSegment> {
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
    pub fn open(file: OwnedFd) -> io::Result<SharedSegment> {
        // SAFETY: the descriptor is open. Its file position does not matter, because the file is never read or written
        // through it.
        let length = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) };
        if length < SEGMENT_BYTES as libc::off_t {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the shared memory is too short"));
        }
        Self::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<SharedSegment> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is long enough.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), SEGMENT_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedSegment { file, base: base.cast() })
    }

    /// Returns the descriptor of the segment, which a child process inherits.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset < CONTROL_BYTES && offset.is_multiple_of(4));
        // SAFETY: the word is in the control page, all of whose words are accessed atomically.
        unsafe { &*self.base.add(offset).cast() }
    }

    /// Returns the number of the last completed operation.
    pub fn done(&self) -> u32 {
        self.word(DONE).load(Ordering::Acquire)
    }

    /// Sets the number of the last completed operation.
    pub fn set_done(&self, number: u32) {
        self.word(DONE).store(number, Ordering::Release);
    }

    /// Returns whether an operation has failed and its error has not been reported.
    pub fn has_failed(&self) -> bool {
        self.word(FAILED).load(Ordering::Acquire) != 0
    }

    /// Sets the result of [`SharedSegment::has_failed`].
    pub fn set_failed(&self, failed: bool) {
        self.word(FAILED).store(failed.into(), Ordering::Release);
    }

    /// Returns the flag that kernels set.
    pub fn flag(&self) -> u32 {
        self.word(FLAG).load(Ordering::Acquire)
    }

    /// Clears the flag that kernels set.
    pub fn clear_flag(&self) {
        self.word(FLAG).store(0, Ordering::Release);
    }

    /// Returns the address of the control page.
    pub fn control(&self) -> *mut u8 {
        self.base
    }

    /// Returns the address of the slots, which are contiguous. Whoever accesses them ensures that nothing else does.
    pub fn slots(&self) -> *mut u8 {
        self.base.wrapping_add(CONTROL_BYTES)
    }

    /// Returns the address of a slot, or `None` if the number is out of range.
    pub fn slot(&self, slot: u32) -> Option<*mut u8> {
        let slot = slot as usize;
        (slot < SLOTS).then(|| self.slots().wrapping_add(slot * SLOT_BYTES))
    }
}

impl Drop for SharedSegment {
    fn drop(&mut self) {
        // SAFETY: no references into it are left.
        unsafe { libc::munmap(self.base.cast(), SEGMENT_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_share_memory_of_fixed_size() {
        let ours = SharedSegment::create().unwrap();
        let theirs = SharedSegment::open(ours.descriptor().try_clone_to_owned().unwrap()).unwrap();
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
        assert!(SharedSegment::open(tempfile::tempfile().unwrap().into()).is_err());
    }
}
