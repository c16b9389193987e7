//! How the groups of a launch are divided into batches of vectors.
//!
//! Input: the shape of a launch's groups, and a region. Output: the shape of the batches that its machine code runs for.

use super::alloc::{MOST, Shape};
use crate::device::sim::geometry::Geometry;
use crate::device::sim::group::{CHUNK, WARP};
use crate::device::sim::isa::Isa;
use crate::device::sim::lane::Region;

/// Returns the number of 4-byte lanes of a vector.
fn widest(isa: Isa) -> usize {
    if isa == Isa::Avx512 { 16 } else { 8 }
}

/// How the groups of a launch are divided into vectors; code is compiled for each kind of division that occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    pub(super) isa: Isa,
    /// The lanes of a row, if there are several rows with as many lanes as some vectors have.
    row: Option<usize>,
    /// Lanes at once, at most: those of a few vectors, and not many more than there are.
    lanes: usize,
    /// Bytes of a column of 4-byte lanes in local arrays, if the code depends on them.
    pub(super) column: usize,
    /// There is code for [whole groups](Region::whole) with these extents.
    whole: Option<[u32; 3]>,
}

impl Division {
    pub fn of(isa: Isa, geometry: &Geometry, regions: &[Region]) -> Division {
        let [nx, ny, nz] = geometry.block.map(|n| n as usize);
        let rows = ny * nz;
        let widest = widest(isa);
        let row = (rows > 1 && (nx == widest || nx == widest / 2)).then_some(nx);
        let lanes = if row.is_some() { nx * rows } else { nx };
        let vectors = [MOST, MOST / 2].into_iter().find(|n| lanes >= n * widest).unwrap_or(1);
        // Groups of a launch of `threads` differ at its edges. Rows that batches do not divide have an end that needs masks.
        let whole = match (row, geometry.is_even()) {
            _ if lanes >> 28 != 0 => None,
            (Some(_), true) => Some(geometry.block),
            (None, true) if nx % widest == 0 => Some(geometry.block),
            (Some(_), false) => Some([0; 3]),
            (None, false) if nx % (vectors * widest) == 0 => Some([0; 3]),
            _ => None,
        };
        let own = regions.iter().any(Region::has_own);
        let column = if own { 4 * geometry.max_lanes.next_multiple_of(CHUNK) } else { 0 };
        Division { isa, row, lanes: vectors * widest, column, whole }
    }

    /// Returns the division without what only whole groups have.
    pub fn general(self) -> Division {
        Division { whole: None, ..self }
    }

    /// Returns the extents of whole groups, if there is code for them.
    pub fn whole(self) -> Option<[u32; 3]> {
        self.whole
    }

    /// Returns whether there can be code of a region: one with barriers needs whole groups of known extents, of whole vectors.
    pub fn has(self, region: &Region) -> bool {
        let divides = |extents: [u32; 3]| !extents.contains(&0) && self.shape(region, 1).divides(extents);
        !region.together || self.whole.is_some_and(divides)
    }

    /// Returns whether these groups are one batch of the region each.
    pub(super) fn is_one_batch(self, region: &Region, extents: [u32; 3]) -> bool {
        let lanes: usize = extents.map(|n| n as usize).iter().product();
        let shape = self.shape(region, MOST);
        let one = Shape { vectors: lanes / shape.width, ..shape };
        one.vectors <= MOST && one.divides(extents)
    }

    /// Returns the shape of a region's batches, of at most `most` vectors.
    pub(super) fn shape(self, region: &Region, most: usize) -> Shape {
        let widest = widest(self.isa) / if region.wide { 2 } else { 1 };
        let (width, lanes, rows) = match self.row {
            Some(row) if row <= widest => (row, self.lanes, true),
            Some(row) => (widest, row, false),
            None => (widest, self.lanes, false),
        };
        Shape { width, vectors: (lanes / width).min(most).max(least(region, width)), rows, column: self.column }
    }
}

/// Returns the least number of vectors in a batch: those of a warp, where there are operations among its lanes; those of the block, where
/// a region with barriers is not divided into phases.
pub(super) fn least(region: &Region, width: usize) -> usize {
    match region.whole {
        Some(extents) if region.together && !region.has_phases() => {
            let lanes: usize = extents.map(|n| n as usize).iter().product();
            lanes.div_ceil(width).max(1)
        }
        _ if region.has_warps() => WARP / width,
        _ => 1,
    }
}
