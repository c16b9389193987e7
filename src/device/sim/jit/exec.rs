//! Executable memory. Input: machine code that does not depend on its address. Output: a page-aligned copy that can be called.
//!
//! The pages are written first and made executable afterwards: they are never both. Systems may forbid even that, so whoever
//! compiles asks [`allowed`] first and otherwise does without.

use std::ptr::NonNull;
use std::sync::OnceLock;

/// Machine code in executable memory, mapped until it is dropped.
#[derive(Debug)]
pub(crate) struct Exec {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody writes to the pages any more, and only their owner unmaps them.
unsafe impl Send for Exec {}
// SAFETY: as above: nobody writes to the pages any more.
unsafe impl Sync for Exec {}

#[cfg(unix)]
impl Exec {
    /// Copies this code into executable memory; `None` if it is empty or the system forbids it.
    pub(crate) fn new(code: &[u8]) -> Option<Exec> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a new mapping at an address that the system chooses touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), code.len(), access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // From here on, dropping it unmaps the pages.
        let exec = Exec { start: NonNull::new(start.cast())?, len: code.len() };
        // SAFETY: the mapping is new, writable and as long as the code.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), exec.start.as_ptr(), code.len()) };
        // SAFETY: the pages are this mapping's, and nothing refers to their content.
        let done = unsafe { libc::mprotect(start, code.len(), libc::PROT_READ | libc::PROT_EXEC) };
        (done == 0).then_some(exec)
    }
}

#[cfg(not(unix))]
impl Exec {
    /// Returns `None`: without `mmap` there is no executable memory yet.
    pub(crate) fn new(_code: &[u8]) -> Option<Exec> {
        None
    }
}

impl Exec {
    /// Returns the address of the first byte.
    pub(crate) fn entry(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Returns the number of bytes of code.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and whoever runs its code holds the value.
        #[cfg(unix)]
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.len);
        }
    }
}

/// Returns whether this process may make memory executable: the first call tries it.
pub(crate) fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        // mov eax, 42; ret
        let Some(exec) = Exec::new(&[0xb8, 42, 0, 0, 0, 0xc3]) else { return false };
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
        let exec = Exec::new(&code).expect("executable memory");
        assert_eq!(exec.len(), code.len());
        // SAFETY: the code is a complete function of this type.
        let add: extern "sysv64" fn(u32, u32) -> u32 = unsafe { std::mem::transmute(exec.entry()) };
        let sum = std::thread::scope(|scope| scope.spawn(|| add(40, 2)).join().expect("a result"));
        assert_eq!((sum, add(u32::MAX, 3)), (42, 2));
    }

    #[test]
    fn no_code_is_no_function() {
        assert!(Exec::new(&[]).is_none());
    }
}
