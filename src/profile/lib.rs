//! Estimates the costs of launches on a GPU: counts by source line, the minimum time of a launch, and advice.
//!
//! Input: the counts of a run on the simulator ([`clk_runtime::profile`](clk_runtime)), and the sources. Output: tables
//! and diagnostics. All counts are exact for the accesses as written in the source, with one thread per index, and with
//! warps of 32 threads that have consecutive linear indices. A GPU compiler may eliminate or combine accesses.

#![allow(rustdoc::private_intra_doc_links)]

pub mod advice;
pub mod edits;
pub mod gpus;
pub mod lines;
pub mod roofline;

/// The resources that the GPU compiler reports for a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    pub registers: u32,
    /// Bytes of spill stores and loads of registers.
    pub spilled: u32,
    /// Bytes of statically allocated shared memory.
    pub shared: u32,
}
