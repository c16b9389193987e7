//! The cost of one access of one warp.
//!
//! Input: the lanes that take part, and the offsets of their elements. Output: a [`Cost`], by the definitions of [`warps`].

use crate::device::profile::Cost;
use crate::ir::def::{Scalar, Ty};
use crate::ir::warps::{self, SECTOR, Spot};

/// A lane that takes part: its warp, its place there, and the offset of its element in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub warp: u32,
    pub place: u8,
    pub at: usize,
}

/// The lanes of one warp that make an access, in ascending order.
pub(super) struct Warp<'a> {
    pub lanes: &'a [Lane],
    pub scalar: Scalar,
    pub components: u8,
}

impl Warp<'_> {
    fn pieces(&self) -> Vec<(i128, i128)> {
        let ty = match self.components {
            0 | 1 => Ty::Scalar(self.scalar),
            lanes => Ty::Vector(self.scalar, lanes),
        };
        warps::pieces(ty, None)
    }

    fn spots(&self, begin: i128) -> Vec<Spot> {
        let spot = |lane: &Lane| Spot { lane: lane.place.into(), origin: 0, at: lane.at as i128 + begin };
        self.lanes.iter().map(spot).collect()
    }

    /// Returns what an access to shared memory costs.
    pub fn shared(&self, atomic: bool) -> Cost {
        let mut cost = self.common(atomic);
        for (begin, size) in self.pieces() {
            let (passes, least) = warps::all_passes(&self.spots(begin), size, atomic);
            cost.passes += u64::from(passes);
            cost.least += u64::from(least);
        }
        cost
    }

    /// Returns what an access to global memory costs, and what `moved` says of its pieces.
    pub fn global(&self, atomic: bool, mut moved: impl FnMut(&[Spot], i128) -> u64) -> (Cost, u64) {
        let (mut cost, mut fetched) = (self.common(atomic), 0);
        for (begin, size) in self.pieces() {
            let spots = self.spots(begin);
            let sectors = warps::sectors_of(&spots, size);
            let lines = sectors.chunk_by(|a, b| a.1.div_euclid(4) == b.1.div_euclid(4));
            cost.sectors += sectors.len() as u64;
            cost.lines += lines.count() as u64;
            cost.fewest += (self.elements(1) * size as u64).div_ceil(SECTOR as u64);
            fetched += moved(&spots, size);
        }
        (cost, fetched)
    }

    fn common(&self, atomic: bool) -> Cost {
        let size = self.scalar.size() * usize::from(self.components.max(1));
        Cost {
            requests: self.pieces().len() as u64,
            lanes: self.lanes.len() as u64,
            used: self.elements(size as u64),
            crowd: if atomic { self.crowd() } else { 0 },
            stride: self.stride(),
            ..Cost::default()
        }
    }

    /// Returns the number of different elements, times a size.
    fn elements(&self, size: u64) -> u64 {
        let mut all: Vec<usize> = self.lanes.iter().map(|lane| lane.at).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u64 * size
    }

    /// Returns the largest number of lanes at one element.
    fn crowd(&self) -> u64 {
        let mut all: Vec<usize> = self.lanes.iter().map(|lane| lane.at).collect();
        all.sort_unstable();
        all.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0) as u64
    }

    /// Returns the bytes from each lane to the next, if they are the same for all.
    fn stride(&self) -> i64 {
        let step = |pair: &[Lane]| match pair {
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
