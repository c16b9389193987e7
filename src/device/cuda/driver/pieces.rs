//! One array, many threads: copies that are cut into pieces.

/// The address of bytes that scoped threads share; no two of them use the same part.
#[derive(Clone, Copy)]
pub(crate) struct Shared(pub *mut u8);
// SAFETY: whoever makes one gives each piece to one thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The address `offset` bytes on. (A method, so that closures capture the whole.)
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}
