//! How a launch is cut into lane groups.

use super::code::{AXES, Code, Owner};
use super::group::{CHUNK, MAX_LANES};
use crate::device::Extents;

/// The groups of a launch.
pub struct Geometry {
    /// As kernels see them: `block_dim` and `grid_dim`; for `threads` the group's own shape.
    pub block: [u32; 3],
    pub grid: [u32; 3],
    /// All indices of a `threads` launch, x first; blocks of a `grid` launch are never cut.
    extent: Option<[u32; 3]>,
    pub max_lanes: usize,
    pub units: u64,
}

/// One group.
pub struct Unit {
    pub block: [u32; 3],
    pub first_index: [u32; 3],
    pub shape: [usize; AXES],
}

impl Geometry {
    pub fn new(extents: &Extents, code: &Code) -> Geometry {
        match *extents {
            Extents::Grid { grid, block } => {
                let max_lanes = block.iter().map(|&n| n as usize).product();
                let units = if max_lanes == 0 { 0 } else { grid.iter().map(|&n| u64::from(n)).product() };
                Geometry { block, grid, extent: None, max_lanes, units }
            }
            Extents::Threads(n) => {
                let rank = usize::from(code.threads.unwrap_or(1)).clamp(1, 3);
                let mut extent = [1; 3];
                for (axis, value) in extent.iter_mut().enumerate().take(rank) {
                    *value = n[rank - 1 - axis];
                }
                let block = row_shape(extent, lanes_for(code));
                let grid: [u32; 3] = std::array::from_fn(|k| extent[k].div_ceil(block[k].max(1)));
                let max_lanes = block.iter().map(|&n| n as usize).product();
                let units = grid.iter().map(|&n| u64::from(n)).product();
                Geometry { block, grid, extent: Some(extent), max_lanes, units }
            }
        }
    }

    /// Whether all groups have one shape.
    pub fn is_even(&self) -> bool {
        self.extent.is_none()
    }

    /// Whether an element that indices tell so much of is touched by one thread only.
    pub fn tells(&self, owner: &Owner, code: &Code) -> bool {
        let rank = usize::from(code.threads.unwrap_or(3)).clamp(1, 3);
        let told = |bits: u8| owner.axes & bits == bits;
        let axis = |k: usize| match self.extent {
            Some(extent) => extent[rank - 1 - k] <= 1 || told(Owner::thread(k as u8)),
            None => {
                (self.block[k] <= 1 || told(Owner::thread(k as u8)))
                    && (self.grid[k] <= 1 || told(Owner::block(k as u8)))
            }
        };
        let fits = |&(k, step): &(u8, u32)| step.is_multiple_of(self.block[usize::from(k)].max(1));
        owner.axes != 0 && (0..rank).all(axis) && owner.steps.iter().all(fits)
    }

    pub fn unit(&self, number: u64) -> Unit {
        let (gx, gy) = (u64::from(self.grid[0].max(1)), u64::from(self.grid[1].max(1)));
        let block = match number < gx {
            true => [number as u32, 0, 0],
            false => [(number % gx) as u32, (number / gx % gy) as u32, (number / gx / gy) as u32],
        };
        let first_index: [u32; 3] = std::array::from_fn(|k| block[k].wrapping_mul(self.block[k]));
        let mut shape = [1; AXES];
        for k in 0..3 {
            let left = self.extent.map_or(self.block[k], |e| self.block[k].min(e[k] - first_index[k]));
            shape[k] = left as usize;
        }
        Unit { block, first_index, shape }
    }
}

/// As many lanes as keep the registers within the first-level cache.
fn lanes_for(code: &Code) -> usize {
    let budget = 24 * 1024 / (4 * code.touched_columns.max(1));
    (budget / 64 * 64).clamp(256, MAX_LANES)
}

/// What a longer row is cut into. Groups of one shape follow one another faster than of two; where rows are of whole chunks,
/// so are the pieces.
fn piece(x: usize, lanes: usize) -> usize {
    let fewest = x.div_ceil(lanes);
    let whole = |piece: usize| !x.is_multiple_of(CHUNK) || piece.is_multiple_of(CHUNK);
    let even = (fewest..=fewest + fewest / 2).find(|&n| x.is_multiple_of(n) && whole(x / n));
    even.map_or(lanes, |n| x / n)
}

/// A box of whole rows, or a piece of a row.
fn row_shape(extent: [u32; 3], lanes: usize) -> [u32; 3] {
    let [x, y, z] = extent.map(|n| n as usize);
    let bx = if x <= lanes { x } else { piece(x, lanes) };
    let by = if bx < x { 1 } else { y.min((lanes / bx.max(1)).max(1)) };
    let bz = if bx < x || by < y { 1 } else { z.min((lanes / (bx * by).max(1)).max(1)) };
    [bx as u32, by as u32, bz as u32]
}
