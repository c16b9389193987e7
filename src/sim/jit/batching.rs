//! Divides the thread groups of a launch into batches of vectors.
//!
//! Input: the shape of a launch's groups, and a region. Output: the shape of the batches that the region's machine code
//! processes.

use super::register_allocation::{BatchShape, MAX_VECTORS};
use crate::geometry::GroupGeometry;
use crate::group::WARP;
use crate::group_registers::CHUNK;
use crate::lir::LaneRegion;
use clk_runtime::Isa;

/// Returns the number of 4-byte lanes in a vector.
fn lanes_per_vector(isa: Isa) -> usize {
    if isa == Isa::Avx512 { 16 } else { 8 }
}

/// How the groups of a launch are divided into vectors. Code is compiled once for each division that launches of the
/// kernel use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorDivision {
    pub(super) isa: Isa,
    /// The number of lanes in a row if a group has several rows and a row has the size of a vector; otherwise `None`.
    row: Option<usize>,
    /// Maximum number of lanes in a batch: a few vectors, and at most about as many lanes as the group has.
    lanes: usize,
    /// Size in bytes of a local array's column (one 4-byte value per lane), or 0 if the code does not depend on it.
    pub(super) column: usize,
    /// The extents of full groups for which there is [specialized](LaneRegion::full_group) code.
    full_group: Option<[u32; 3]>,
}

impl VectorDivision {
    pub fn of(isa: Isa, geometry: &GroupGeometry, regions: &[LaneRegion]) -> VectorDivision {
        let [nx, ny, nz] = geometry.block.map(|n| n as usize);
        let rows = ny * nz;
        let widest = lanes_per_vector(isa);
        let row = (rows > 1 && (nx == widest || nx == widest / 2)).then_some(nx);
        let lanes = if row.is_some() { nx * rows } else { nx };
        let vectors = [MAX_VECTORS, MAX_VECTORS / 2].into_iter().find(|n| lanes >= n * widest).unwrap_or(1);
        // In a `threads` launch, groups at the edges are smaller than other groups. Rows that batches do not divide
        // evenly need masks at their end.
        let full_group = match (row, geometry.has_equal_groups()) {
            _ if lanes >> 28 != 0 => None,
            (Some(_), true) => Some(geometry.block),
            (None, true) if nx % widest == 0 => Some(geometry.block),
            (Some(_), false) => Some([0; 3]),
            (None, false) if nx % (vectors * widest) == 0 => Some([0; 3]),
            _ => None,
        };
        let own = regions.iter().any(LaneRegion::has_local_arrays);
        let column = if own { 4 * geometry.max_lanes.next_multiple_of(CHUNK) } else { 0 };
        VectorDivision { isa, row, lanes: vectors * widest, column, full_group }
    }

    /// Returns the division for groups that may not be full.
    pub fn general(self) -> VectorDivision {
        VectorDivision { full_group: None, ..self }
    }

    /// Returns the extents of full groups, if there is specialized code for them.
    pub fn full_group(self) -> Option<[u32; 3]> {
        self.full_group
    }

    /// Returns whether a region can be compiled. A region with barriers requires full groups of known extents that
    /// consist of whole vectors.
    pub fn can_compile(self, region: &LaneRegion) -> bool {
        let divides = |extents: [u32; 3]| !extents.contains(&0) && self.shape(region, 1).divides(extents);
        !region.has_barriers || self.full_group.is_some_and(divides)
    }

    /// Returns whether each of these groups is a single batch of the region.
    pub(super) fn is_one_batch(self, region: &LaneRegion, extents: [u32; 3]) -> bool {
        let lanes: usize = extents.map(|n| n as usize).iter().product();
        let shape = self.shape(region, MAX_VECTORS);
        let one = BatchShape { vectors: lanes / shape.width, ..shape };
        one.vectors <= MAX_VECTORS && one.divides(extents)
    }

    /// Returns the shape of a region's batches, with at most `most` vectors.
    pub(super) fn shape(self, region: &LaneRegion, most: usize) -> BatchShape {
        let widest = lanes_per_vector(self.isa) / if region.wide { 2 } else { 1 };
        let (width, lanes, rows) = match self.row {
            Some(row) if row <= widest => (row, self.lanes, true),
            Some(row) => (widest, row, false),
            None => (widest, self.lanes, false),
        };
        BatchShape {
            width,
            vectors: (lanes / width).min(most).max(min_vectors(region, width)),
            rows,
            column: self.column,
        }
    }
}

/// Returns the minimum number of vectors in a batch. A region with warp operations needs a whole warp, and a region
/// with barriers that is not divided into phases needs the whole block.
pub(super) fn min_vectors(region: &LaneRegion, width: usize) -> usize {
    match region.full_group {
        Some(extents) if region.has_barriers && !region.has_phases() => {
            let lanes: usize = extents.map(|n| n as usize).iter().product();
            lanes.div_ceil(width).max(1)
        }
        _ if region.has_warp_ops() => WARP / width,
        _ => 1,
    }
}
