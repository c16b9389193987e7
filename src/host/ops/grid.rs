//! Arrays as reductions see them.

/// An array viewed as `outer` blocks of `len` rows of `inner` scalars; the rows of each block are reduced to one.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub outer: usize,
    pub len: usize,
    pub inner: usize,
}
