//! The division of a launch into lane groups.

use super::code::{AXES, KernelProperties, KernelTables, TrackedMemory};
use super::group::{GroupPosition, MAX_LANES, MAX_ROW};
use super::group_registers::CHUNK;
use clk_ir::disjoint_writes::DisjointWrites;
use clk_runtime::LaunchExtents;

/// The lane groups of a launch.
pub struct GroupGeometry {
    /// For a `grid` kernel, its `block_dim` (`block`) and `grid_dim` (`grid`). For a `threads` kernel, the maximum
    /// shape of a group, and the number of groups along each axis.
    pub block: [u32; 3],
    pub grid: [u32; 3],
    /// The extents of a `threads` launch, x first. `None` for a `grid` launch, each of whose blocks is one group.
    extent: Option<[u32; 3]>,
    pub max_lanes: usize,
    pub groups: u64,
}

/// The position and shape of one group.
pub(crate) struct GroupUnit {
    pub position: GroupPosition,
    pub extents: [usize; AXES],
}

impl GroupGeometry {
    pub fn new(extents: &LaunchExtents, code: &KernelTables) -> GroupGeometry {
        match *extents {
            LaunchExtents::Grid { grid, block } => {
                let max_lanes = block.iter().map(|&n| n as usize).product();
                let units = if max_lanes == 0 { 0 } else { grid.iter().map(|&n| u64::from(n)).product() };
                GroupGeometry { block, grid, extent: None, max_lanes, groups: units }
            }
            LaunchExtents::Threads(n) => {
                let rank = usize::from(code.properties.threads.unwrap_or(1)).clamp(1, 3);
                let mut extent = [1; 3];
                for (axis, value) in extent.iter_mut().enumerate().take(rank) {
                    *value = n[rank - 1 - axis];
                }
                let block = group_shape(extent, lane_limit(code, extent));
                let grid: [u32; 3] = std::array::from_fn(|k| extent[k].div_ceil(block[k].max(1)));
                let max_lanes = block.iter().map(|&n| n as usize).product();
                let units = grid.iter().map(|&n| u64::from(n)).product();
                GroupGeometry { block, grid, extent: Some(extent), max_lanes, groups: units }
            }
        }
    }

    /// Returns whether all groups have the same shape.
    pub(crate) fn has_equal_groups(&self) -> bool {
        self.extent.is_none()
    }

    /// Returns whether no two threads conflict on an array's elements: either a proof shows this, or only one thread
    /// accesses each element.
    pub fn is_race_free(&self, watched: &TrackedMemory, properties: &KernelProperties) -> bool {
        watched.is_race_free || self.is_thread_private(&watched.owner, properties)
    }

    fn is_thread_private(&self, owner: &DisjointWrites, properties: &KernelProperties) -> bool {
        let rank = usize::from(properties.threads.unwrap_or(3)).clamp(1, 3);
        let owns_axes = |bits: u8| owner.axes & bits == bits;
        let axis = |k: usize| match self.extent {
            Some(extent) => extent[rank - 1 - k] <= 1 || owns_axes(DisjointWrites::thread_bit(k as u8)),
            None => {
                (self.block[k] <= 1 || owns_axes(DisjointWrites::thread_bit(k as u8)))
                    && (self.grid[k] <= 1 || owns_axes(DisjointWrites::block_bit(k as u8)))
            }
        };
        let is_whole_step = |&(k, step): &(u8, u32)| step.is_multiple_of(self.block[usize::from(k)].max(1));
        owner.axes != 0 && (0..rank).all(axis) && owner.steps.iter().all(is_whole_step)
    }

    pub fn group(&self, number: u64) -> GroupUnit {
        let [gx, gy, _] = self.grid.map(|n| n.max(1));
        // Use 32-bit divisions if possible, because 64-bit divisions are slower.
        let block = match u32::try_from(number) {
            Ok(number) if number < gx => [number, 0, 0],
            Ok(number) => [number % gx, number / gx % gy, number / gx / gy],
            Err(_) => {
                let (row, x) = (number / u64::from(gx), number % u64::from(gx));
                [x as u32, (row % u64::from(gy)) as u32, (row / u64::from(gy)) as u32]
            }
        };
        let first_index: [u32; 3] = std::array::from_fn(|k| block[k].wrapping_mul(self.block[k]));
        let mut extents = [1; AXES];
        for k in 0..3 {
            let left = self.extent.map_or(self.block[k], |e| self.block[k].min(e[k] - first_index[k]));
            extents[k] = left as usize;
        }
        GroupUnit { position: GroupPosition { block, first_index }, extents }
    }
}

/// Returns the index of a thread's warp in a group of this shape, and the thread's lane in the warp. For a `threads`
/// kernel, `tile` is the shape of a warp. Without `tile`, the group is a block, and its threads are numbered along x,
/// then y, then z.
pub(crate) fn warp_and_lane(shape: [usize; AXES], at: [usize; AXES], tile: Option<[u32; 2]>) -> (u64, u64) {
    let [x, y, z, batch] = at.map(|c| c as u64);
    let [columns, rows, planes, _] = shape.map(|n| n as u64);
    let Some([width, height]) = tile else {
        let flat = x + columns * (y + rows * z);
        return (batch * (columns * rows * planes).div_ceil(32) + flat / 32, flat % 32);
    };
    // Each group begins at a warp boundary, so coordinates within the group suffice.
    let (width, height) = (u64::from(width), u64::from(height));
    let (right, down) = (x / width, y / height);
    (right + columns.div_ceil(width) * (down + rows.div_ceil(height) * z), x % width + width * (y % height))
}

/// Returns the maximum number of lanes of a group, such that its registers fit into the L1 cache. A group that is one
/// row may have more lanes, to amortize the cost of starting a group, if the code is straight-line without masks and
/// checks and enough groups remain for many workers.
fn lane_limit(code: &KernelTables, extent: [u32; 3]) -> LaneLimit {
    let budget = 24 * 1024 / (4 * code.registers.stored_columns.max(1));
    let most = (budget / 64 * 64).clamp(256, MAX_LANES);
    let total: u64 = extent.iter().map(|&n| u64::from(n)).product();
    let long = (budget / 64 * 64).clamp(most, MAX_ROW);
    let many = total / long as u64 >= MIN_GROUPS;
    let undivided = code.properties.is_straight && code.registers.masks.len() == 1 && !code.events.checks.any();
    let most = if code.events.counted_warps.is_some() { most / 2 } else { most };
    LaneLimit { most, row: if undivided && many { long } else { most }, tile: code.events.counted_warps }
}

/// Minimum number of groups in a launch with long rows, so that many workers are busy until the launch ends.
const MIN_GROUPS: u64 = 512;

/// The maximum number of lanes of a group.
struct LaneLimit {
    most: usize,
    /// The maximum number of lanes if the group is one row.
    row: usize,
    /// If set, a group consists of whole warps, and each warp is a tile of threads with these extents (x, y).
    tile: Option<[u32; 2]>,
}

/// Returns the length of the groups into which a row of `x` lanes is divided. Prefers groups of equal length, because
/// consecutive groups of the same shape run faster. If the row consists of whole chunks, so does each group.
fn part_length(x: usize, lanes: usize) -> usize {
    let fewest = x.div_ceil(lanes);
    let whole = |piece: usize| !x.is_multiple_of(CHUNK) || piece.is_multiple_of(CHUNK);
    let even = (fewest..=fewest + fewest / 2).find(|&n| x.is_multiple_of(n) && whole(x / n));
    even.map_or(lanes, |n| x / n)
}

/// Returns the shape of a group: a box of whole rows, or part of a row.
fn group_shape(extent: [u32; 3], lanes: LaneLimit) -> [u32; 3] {
    let [x, y, z] = extent.map(|n| n as usize);
    let bx = match lanes.tile {
        _ if x <= lanes.row => x,
        Some(_) => lanes.row,
        None => part_length(x, lanes.row),
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
