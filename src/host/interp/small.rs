//! Which kernels were launched only in sizes that cannot show what other sizes can.
//!
//! Input: each launch of a checked run, and which of its extents the signature leaves open. Output: the kernels of which no launch had
//! several blocks, or blocks of several warps, although others may, in the order of their first launches.

use indexmap::IndexMap;

use crate::check::typed::KernelId;
use crate::device::{Extents, Larger};

/// Threads of a warp.
const WARP: u64 = 32;

/// What launches of a kernel never had, although its signature allows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    pub blocks: bool,
    pub warps: bool,
}

/// The kernels launched so far.
#[derive(Debug, Default)]
pub struct Small(IndexMap<KernelId, Missed>);

impl Small {
    pub(super) fn saw(&mut self, kernel: KernelId, extents: Extents, larger: Larger) {
        let Extents::Grid { grid, block } = extents else { return };
        let count = |extents: [u32; 3]| extents.iter().map(|&n| u64::from(n)).product::<u64>();
        let missed = self.0.entry(kernel).or_insert(Missed { blocks: larger.grid, warps: larger.block });
        missed.blocks &= count(grid) <= 1;
        missed.warps &= count(block) <= WARP;
    }

    pub fn kernels(&self) -> impl Iterator<Item = (KernelId, Missed)> {
        self.0.iter().map(|(kernel, missed)| (*kernel, *missed)).filter(|(_, missed)| missed.blocks || missed.warps)
    }
}
