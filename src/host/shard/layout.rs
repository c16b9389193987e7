//! The layout of a sharded array: where it is cut along an axis, and which rows (indices along that axis) each shard
//! holds.
//!
//! Cuts are evenly spaced multiples of a granule (a number of rows). With `u` granules, shard `p` of `n` begins at
//! granule `p * u / n`, rounded down. So the sizes of shards differ by at most one granule. The last granule may be
//! shorter.

use std::ops::Range;
use std::sync::Arc;

/// If each shard has at least this number of rows, cuts are multiples of [`GRANULE`] by default. Then a block of most
/// kernels does not span two shards.
const MIN_GRANULE_ROWS: usize = 1024;
const GRANULE: usize = 64;

/// The division of an array into shards along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShardLayout {
    pub axis: usize,
    /// Number of rows of each neighbor that a shard additionally holds (ghost cells).
    pub halo: usize,
    /// The first row of each shard, followed by the length of the axis.
    pub cuts: Arc<[usize]>,
}

impl ShardLayout {
    /// Divides `len` rows evenly into `parts` shards, or one if `parts` is 0.
    pub fn even(axis: usize, len: usize, parts: usize, halo: usize, granule: Option<usize>) -> ShardLayout {
        let granule = granule.unwrap_or(if len / parts.max(1) >= MIN_GRANULE_ROWS { GRANULE } else { 1 }).max(1);
        let units = len.div_ceil(granule);
        let cut = |part: usize| (part * units / parts.max(1)).saturating_mul(granule).min(len);
        ShardLayout { axis, halo, cuts: (0..=parts.max(1)).map(cut).collect() }
    }

    pub fn parts(&self) -> usize {
        self.cuts.len().saturating_sub(1)
    }

    /// Returns the length of the axis.
    pub fn len(&self) -> usize {
        self.cuts.last().copied().unwrap_or(0)
    }

    /// Returns the rows that a shard owns.
    pub fn owned_rows(&self, part: usize) -> Range<usize> {
        self.cuts[part]..self.cuts[part + 1]
    }

    /// Returns the rows that a shard holds: the rows it owns and its halos.
    pub fn rows_with_halo(&self, part: usize) -> Range<usize> {
        let own = self.owned_rows(part);
        if own.is_empty() {
            return own;
        }
        own.start.saturating_sub(self.halo)..own.end.saturating_add(self.halo).min(self.len())
    }

    /// Returns the shards that own rows in a range, each with those rows.
    pub fn owners(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        (0..self.parts()).filter_map(move |part| {
            let own = self.owned_rows(part);
            let common = own.start.max(rows.start)..own.end.min(rows.end);
            (!common.is_empty()).then_some((part, common))
        })
    }

    /// Returns a layout with the same cuts along another axis.
    pub fn with_axis(&self, axis: usize) -> ShardLayout {
        ShardLayout { axis, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_balanced() {
        let cuts = |len, parts, granule| ShardLayout::even(0, len, parts, 1, granule).cuts.to_vec();
        assert_eq!(cuts(10, 3, None), [0, 3, 6, 10]);
        assert_eq!(cuts(3, 5, None), [0, 0, 1, 1, 2, 3]);
        assert_eq!(cuts(0, 2, None), [0, 0, 0]);
        assert_eq!(cuts(100, 3, Some(32)), [0, 32, 64, 100]);
        assert_eq!(cuts(5000, 2, None), [0, 2496, 5000], "at multiples of 64");
    }

    #[test]
    fn shards_contain_halo_rows() {
        let layout = ShardLayout::even(0, 10, 3, 2, None);
        assert_eq!([0, 1, 2].map(|part| layout.rows_with_halo(part)), [0..5, 1..8, 4..10]);
        assert_eq!(layout.owners(2..7).collect::<Vec<_>>(), [(0, 2..3), (1, 3..6), (2, 6..7)]);
        assert!(ShardLayout::even(0, 1, 2, 1, None).rows_with_halo(0).is_empty(), "an empty part needs nothing");
    }
}
