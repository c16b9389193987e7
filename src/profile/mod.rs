//! What launches cost a GPU, in words: counts by line, the time that a launch takes at least, and advice.
//!
//! Input: the counts of a run on the simulator ([`device::profile`](crate::device)), and the sources. Output: rows and diagnostics. All counts are exact and of the
//! source's access pattern: one thread for each index, warps of 32 threads in the order of the linear thread index.

pub mod advice;
pub mod bound;
pub mod devices;
pub mod lines;
pub mod repair;

/// What the compiler of GPU code says of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub registers: u32,
    /// Bytes of spill stores and loads.
    pub spilled: u32,
    /// Static bytes of shared memory.
    pub shared: u32,
}
