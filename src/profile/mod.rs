//! What launches cost a GPU, in words: counts by line, the time that a launch takes at least, and advice.
//!
//! Input: the counts of a run on the simulator ([`device::profile`](crate::device)), and the sources. Output: rows and diagnostics. All counts are exact and of the
//! source's access pattern: one thread for each index, warps of 32 threads in the order of the linear thread index.

pub(crate) mod advice;
pub(crate) mod bound;
pub(crate) mod devices;
pub(crate) mod lines;
pub(crate) mod repair;

/// What the compiler of GPU code says of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub registers: u32,
    /// Bytes of spill stores and loads.
    pub spilled: u32,
    /// Static bytes of shared memory.
    pub shared: u32,
}
