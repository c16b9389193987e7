//! A pointer that several threads share to copy disjoint parts of one array.

/// The address of bytes that scoped threads share. Each thread accesses a disjoint part.
#[derive(Clone, Copy)]
pub(crate) struct SharedPtr(pub *mut u8);
// SAFETY: the creator of the pointer assigns each part of the bytes to only one thread.
unsafe impl Send for SharedPtr {}
// SAFETY: as above.
unsafe impl Sync for SharedPtr {}

impl SharedPtr {
    /// Returns the address at `offset`. This is a method so that closures capture the whole struct, which is `Sync`,
    /// rather than the raw pointer.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}
