//! Records which kernels were only launched at sizes that cannot reveal races between blocks or warps.
//!
//! Input: each launch of an execution with checks, and whether the kernel's signature allows a larger grid or block.
//! Output, in order of the first launch: kernels that never ran with several blocks, or never with several warps per
//! block, although their signature allows it.

use indexmap::IndexMap;

use clk_check::typed::KernelId;
use clk_runtime::{LargerDimensions, LaunchExtents};

/// Number of threads in a warp.
const WARP: u64 = 32;

/// Whether a kernel was never launched with several blocks, and never with several warps per block, although its
/// signature allows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncoveredSizes {
    pub blocks: bool,
    pub warps: bool,
}

/// Uncovered sizes of all kernels launched so far.
#[derive(Debug, Default)]
pub struct LaunchCoverage(IndexMap<KernelId, UncoveredSizes>);

impl LaunchCoverage {
    pub(super) fn record(&mut self, kernel: KernelId, extents: LaunchExtents, larger: LargerDimensions) {
        let LaunchExtents::Grid { grid, block } = extents else { return };
        let count = |extents: [u32; 3]| extents.iter().map(|&n| u64::from(n)).product::<u64>();
        let missed = self.0.entry(kernel).or_insert(UncoveredSizes { blocks: larger.grid, warps: larger.block });
        missed.blocks &= count(grid) <= 1;
        missed.warps &= count(block) <= WARP;
    }

    pub fn undercovered_kernels(&self) -> impl Iterator<Item = (KernelId, UncoveredSizes)> {
        self.0.iter().map(|(kernel, missed)| (*kernel, *missed)).filter(|(_, missed)| missed.blocks || missed.warps)
    }
}
