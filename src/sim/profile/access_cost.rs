//! The cost of one access of one warp.
//!
//! Input: the participating lanes, and the offsets of their elements. Output: a [`AccessCost`], by the definitions of
//! [`memory_transactions`].

use clk_ir::def::{Scalar, Ty};
use clk_ir::memory_transactions::{self, LaneAddress, SECTOR};
use clk_runtime::profile::AccessCost;

/// A participating lane: its warp, its position in the warp, and the byte offset of its element.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveLane {
    pub warp: u32,
    pub place: u8,
    pub at: usize,
}

/// The lanes of one warp that perform an access, in ascending order.
pub(super) struct WarpLanes<'a> {
    pub lanes: &'a [ActiveLane],
    pub scalar: Scalar,
    pub components: u8,
}

impl WarpLanes<'_> {
    fn pieces(&self) -> Vec<(i128, i128)> {
        let ty = match self.components {
            0 | 1 => Ty::Scalar(self.scalar),
            lanes => Ty::Vector(self.scalar, lanes),
        };
        memory_transactions::split_access(ty, None)
    }

    fn spots(&self, begin: i128) -> Vec<LaneAddress> {
        let spot = |lane: &ActiveLane| LaneAddress { lane: lane.place.into(), origin: 0, at: lane.at as i128 + begin };
        self.lanes.iter().map(spot).collect()
    }

    /// Returns the cost of an access to shared memory.
    pub fn shared(&self, atomic: bool) -> AccessCost {
        let mut cost = self.base_cost(atomic);
        for (begin, size) in self.pieces() {
            let (passes, least) = memory_transactions::total_shared_transactions(&self.spots(begin), size, atomic);
            cost.passes += u64::from(passes);
            cost.least += u64::from(least);
        }
        cost
    }

    /// Returns the cost of an access to global memory, and the sum of `moved` over the memory instructions into which
    /// the access is split.
    pub fn global(&self, atomic: bool, mut moved: impl FnMut(&[LaneAddress], i128) -> u64) -> (AccessCost, u64) {
        let (mut cost, mut fetched) = (self.base_cost(atomic), 0);
        for (begin, size) in self.pieces() {
            let spots = self.spots(begin);
            let sectors = memory_transactions::touched_sectors(&spots, size);
            let lines = sectors.chunk_by(|a, b| a.1.div_euclid(4) == b.1.div_euclid(4));
            cost.sectors += sectors.len() as u64;
            cost.lines += lines.count() as u64;
            cost.fewest += (self.elements(1) * size as u64).div_ceil(SECTOR as u64);
            fetched += moved(&spots, size);
        }
        (cost, fetched)
    }

    fn base_cost(&self, atomic: bool) -> AccessCost {
        let size = self.scalar.size() * usize::from(self.components.max(1));
        AccessCost {
            requests: self.pieces().len() as u64,
            lanes: self.lanes.len() as u64,
            used: self.elements(size as u64),
            atomic_contention: if atomic { self.max_lanes_per_element() } else { 0 },
            stride: self.stride(),
            ..AccessCost::default()
        }
    }

    /// Returns the number of distinct elements that the lanes access, times `size`.
    fn elements(&self, size: u64) -> u64 {
        let mut all: Vec<usize> = self.lanes.iter().map(|lane| lane.at).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u64 * size
    }

    /// Returns the largest number of lanes that access the same element.
    fn max_lanes_per_element(&self) -> u64 {
        let mut all: Vec<usize> = self.lanes.iter().map(|lane| lane.at).collect();
        all.sort_unstable();
        all.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0) as u64
    }

    /// Returns the distance in bytes between the elements of adjacent lanes; 0 if it is not constant.
    fn stride(&self) -> i64 {
        let step = |pair: &[ActiveLane]| match pair {
            [a, b] if b.place == a.place + 1 => Some(b.at as i64 - a.at as i64),
            _ => None,
        };
        let mut steps = self.lanes.windows(2).map(step);
        match steps.next() {
            Some(Some(first)) if steps.all(|step| step == Some(first)) => first,
            _ => 0,
        }
    }
}
