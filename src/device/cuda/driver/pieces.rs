//! A pointer that several threads share in order to copy disjoint parts of one array.

/// The address of bytes that scoped threads share; their parts are disjoint.
#[derive(Clone, Copy)]
pub(crate) struct Shared(pub *mut u8);
// SAFETY: its creator assigns each part to one thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Returns the address at `offset`. (A method, so that closures capture the whole struct.)
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}
