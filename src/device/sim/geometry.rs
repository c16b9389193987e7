//! The division of a launch into lane groups.

use super::code::{AXES, Code, Watched};
use super::group::{CHUNK, MAX_LANES, MAX_ROW};
use crate::device::Extents;
use crate::ir::owner::Owner;

/// The groups of a launch.
pub struct Geometry {
    /// As kernels see them: `block_dim` and `grid_dim`; for `threads` the group's own shape.
    pub block: [u32; 3],
    pub grid: [u32; 3],
    /// The extents of a `threads` launch, x first; blocks of a `grid` launch are never divided.
    extent: Option<[u32; 3]>,
    pub max_lanes: usize,
    pub units: u64,
}

/// One group.
pub(crate) struct Unit {
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
                let block = row_shape(extent, lanes_for(code, extent));
                let grid: [u32; 3] = std::array::from_fn(|k| extent[k].div_ceil(block[k].max(1)));
                let max_lanes = block.iter().map(|&n| n as usize).product();
                let units = grid.iter().map(|&n| u64::from(n)).product();
                Geometry { block, grid, extent: Some(extent), max_lanes, units }
            }
        }
    }

    /// Returns whether all groups have the same shape.
    pub(crate) fn is_even(&self) -> bool {
        self.extent.is_none()
    }

    /// Returns whether no two threads conflict on an array's elements: it is proved, or each element is accessed by one thread only.
    pub fn tells(&self, watched: &Watched, code: &Code) -> bool {
        watched.apart || self.is_own(&watched.own, code)
    }

    fn is_own(&self, owner: &Owner, code: &Code) -> bool {
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
        let [gx, gy, _] = self.grid.map(|n| n.max(1));
        // 64-bit divisions are slower.
        let block = match u32::try_from(number) {
            Ok(number) if number < gx => [number, 0, 0],
            Ok(number) => [number % gx, number / gx % gy, number / gx / gy],
            Err(_) => {
                let (row, x) = (number / u64::from(gx), number % u64::from(gx));
                [x as u32, (row % u64::from(gy)) as u32, (row / u64::from(gy)) as u32]
            }
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

/// Returns the number of a thread's warp in a group of this shape, and the thread's in its warp. `tile` is that of warps of a `threads` kernel;
/// others are blocks, whose threads are numbered along x, y and z.
pub(crate) fn warp(shape: [usize; AXES], at: [usize; AXES], tile: Option<[u32; 2]>) -> (u64, u64) {
    let [x, y, z, batch] = at.map(|c| c as u64);
    let [columns, rows, planes, _] = shape.map(|n| n as u64);
    let Some([width, height]) = tile else {
        let flat = x + columns * (y + rows * z);
        return (batch * (columns * rows * planes).div_ceil(32) + flat / 32, flat % 32);
    };
    // Groups begin at whole warps.
    let (width, height) = (u64::from(width), u64::from(height));
    let (right, down) = (x / width, y / height);
    (right + columns.div_ceil(width) * (down + rows.div_ceil(height) * z), x % width + width * (y % height))
}

/// Returns the sizes of groups: as many lanes as keep the registers within the first-level cache; more in one row where each op
/// runs once and for all lanes, if enough groups remain for many workers, which amortizes the cost of starting a group.
fn lanes_for(code: &Code, extent: [u32; 3]) -> Lanes {
    let budget = 24 * 1024 / (4 * code.touched_columns.max(1));
    let most = (budget / 64 * 64).clamp(256, MAX_LANES);
    let total: u64 = extent.iter().map(|&n| u64::from(n)).product();
    let long = (budget / 64 * 64).clamp(most, MAX_ROW);
    let many = total / long as u64 >= GROUPS;
    let undivided = code.straight && code.masks.len() == 1 && !code.checks.any();
    let most = if code.counted.is_some() { most / 2 } else { most };
    Lanes { most, row: if undivided && many { long } else { most }, tile: code.counted }
}

/// The number of groups that keeps many workers busy to the end.
const GROUPS: u64 = 512;

/// The largest number of lanes of a group.
struct Lanes {
    most: usize,
    /// If the group is one row.
    row: usize,
    /// Groups consist of whole tiles of so many lanes.
    tile: Option<[u32; 2]>,
}

/// Returns the length of the pieces that a longer row is divided into. Groups of one shape are faster in succession than groups
/// of two; where rows consist of whole chunks, so do the pieces.
fn piece(x: usize, lanes: usize) -> usize {
    let fewest = x.div_ceil(lanes);
    let whole = |piece: usize| !x.is_multiple_of(CHUNK) || piece.is_multiple_of(CHUNK);
    let even = (fewest..=fewest + fewest / 2).find(|&n| x.is_multiple_of(n) && whole(x / n));
    even.map_or(lanes, |n| x / n)
}

/// Returns the shape of a group: a box of whole rows, or a piece of a row.
fn row_shape(extent: [u32; 3], lanes: Lanes) -> [u32; 3] {
    let [x, y, z] = extent.map(|n| n as usize);
    let bx = match lanes.tile {
        _ if x <= lanes.row => x,
        Some(_) => lanes.row,
        None => piece(x, lanes.row),
    };
    let rows = (lanes.most / bx.max(1)).max(1);
    let by = match lanes.tile {
        Some([_, height]) => y.min(rows.next_multiple_of(height as usize)),
        None if bx < x => 1,
        None => y.min(rows),
    };
    let bz = if bx < x || by < y { 1 } else { z.min((lanes.most / (bx * by).max(1)).max(1)) };
    [bx as u32, by as u32, bz as u32]
}
