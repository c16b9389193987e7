//! Executable memory. Input: position-independent machine code. Output: a page-aligned copy that can be called.
//!
//! Pages are first writable and then executable, never both at the same time (W^X). Some systems forbid making pages
//! executable at all, so callers check [`allowed`] before they compile.

use std::ptr::NonNull;
use std::sync::OnceLock;

/// Machine code in executable memory. Dropping it unmaps the memory.
#[derive(Debug)]
pub(crate) struct ExecutableMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages are read-only, and only their owner unmaps them.
unsafe impl Send for ExecutableMemory {}
// SAFETY: as above: the pages are read-only.
unsafe impl Sync for ExecutableMemory {}

#[cfg(unix)]
impl ExecutableMemory {
    /// Copies code into executable memory. Returns `None` if the code is empty or the system forbids executable memory.
    pub(crate) fn new(code: &[u8]) -> Option<ExecutableMemory> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a new mapping at an address that the system chooses touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), code.len(), access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // From here on, dropping the value unmaps the pages.
        let exec = ExecutableMemory { start: NonNull::new(start.cast())?, len: code.len() };
        // SAFETY: the mapping is new, writable and as long as the code.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), exec.start.as_ptr(), code.len()) };
        // SAFETY: the pages are this mapping's, and nothing refers to their content.
        let done = unsafe { libc::mprotect(start, code.len(), libc::PROT_READ | libc::PROT_EXEC) };
        (done == 0).then_some(exec)
    }
}

#[cfg(not(unix))]
impl ExecutableMemory {
    /// Returns `None`: executable memory is not implemented for systems without `mmap`.
    pub(crate) fn new(_code: &[u8]) -> Option<ExecutableMemory> {
        None
    }
}

impl ExecutableMemory {
    /// Returns the address of the first byte.
    pub(crate) fn entry(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Returns the number of bytes of code.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for ExecutableMemory {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and callers of its code keep the value alive.
        #[cfg(unix)]
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.len);
        }
    }
}

/// Returns whether this process may make memory executable. The first call tests this by running a small function.
pub(crate) fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        // mov eax, 42; ret
        let Some(exec) = ExecutableMemory::new(&[0xb8, 42, 0, 0, 0, 0xc3]) else { return false };
        // SAFETY: the code is a complete function of this type.
        let answer: extern "sysv64" fn() -> u32 = unsafe { std::mem::transmute(exec.entry()) };
        answer() == 42
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_copied_and_runs() {
        if !allowed() {
            println!("skipped: the system forbids executable memory");
            return;
        }
        // mov eax, edi; add eax, esi; ret
        let code = [0x89, 0xf8, 0x01, 0xf0, 0xc3];
        let exec = ExecutableMemory::new(&code).expect("executable memory");
        assert_eq!(exec.len(), code.len());
        // SAFETY: the code is a complete function of this type.
        let add: extern "sysv64" fn(u32, u32) -> u32 = unsafe { std::mem::transmute(exec.entry()) };
        let sum = std::thread::scope(|scope| scope.spawn(|| add(40, 2)).join().expect("a result"));
        assert_eq!((sum, add(u32::MAX, 3)), (42, 2));
    }

    #[test]
    fn empty_code_is_rejected() {
        assert!(ExecutableMemory::new(&[]).is_none());
    }
}
