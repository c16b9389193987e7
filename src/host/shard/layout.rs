//! Where an array is cut, and which rows of it a part holds.
//!
//! Cuts are even, at multiples of a granule: of `u` granules, part `p` of `n` begins at granule `p * u / n`, rounded down. So parts differ by one
//! granule at most, and the last one may have less.

use std::ops::Range;
use std::sync::Arc;

/// Rows for each part from which cuts lie at multiples of [`GRANULE`] by themselves: blocks of most kernels do not straddle them then.
const MANY: usize = 1024;
const GRANULE: usize = 64;

/// An array cut along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub axis: usize,
    /// The rows of its neighbors that a part has on each side.
    pub halo: usize,
    /// Where parts begin, and the length of the axis.
    pub cuts: Arc<[usize]>,
}

impl Layout {
    /// Cuts `len` rows into `parts`, of which there is at least one.
    pub fn even(axis: usize, len: usize, parts: usize, halo: usize, granule: Option<usize>) -> Layout {
        let granule = granule.unwrap_or(if len / parts.max(1) >= MANY { GRANULE } else { 1 }).max(1);
        let units = len.div_ceil(granule);
        let cut = |part: usize| (part * units / parts.max(1)).saturating_mul(granule).min(len);
        Layout { axis, halo, cuts: (0..=parts.max(1)).map(cut).collect() }
    }

    pub fn parts(&self) -> usize {
        self.cuts.len().saturating_sub(1)
    }

    /// Returns the length of the axis.
    pub fn len(&self) -> usize {
        self.cuts.last().copied().unwrap_or(0)
    }

    /// Returns the rows that a part owns.
    pub fn own(&self, part: usize) -> Range<usize> {
        self.cuts[part]..self.cuts[part + 1]
    }

    /// Returns the rows that a part has.
    pub fn held(&self, part: usize) -> Range<usize> {
        let own = self.own(part);
        if own.is_empty() {
            return own;
        }
        own.start.saturating_sub(self.halo)..own.end.saturating_add(self.halo).min(self.len())
    }

    /// Returns the parts that own rows of a range, with those rows.
    pub fn owners(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        (0..self.parts()).filter_map(move |part| {
            let own = self.own(part);
            let common = own.start.max(rows.start)..own.end.min(rows.end);
            (!common.is_empty()).then_some((part, common))
        })
    }

    /// Returns the same cuts along another axis.
    pub fn along(&self, axis: usize) -> Layout {
        Layout { axis, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_even() {
        let cuts = |len, parts, granule| Layout::even(0, len, parts, 1, granule).cuts.to_vec();
        assert_eq!(cuts(10, 3, None), [0, 3, 6, 10]);
        assert_eq!(cuts(3, 5, None), [0, 0, 1, 1, 2, 3]);
        assert_eq!(cuts(0, 2, None), [0, 0, 0]);
        assert_eq!(cuts(100, 3, Some(32)), [0, 32, 64, 100]);
        assert_eq!(cuts(5000, 2, None), [0, 2496, 5000], "at multiples of 64");
    }

    #[test]
    fn a_part_holds_rows_of_its_neighbors() {
        let layout = Layout::even(0, 10, 3, 2, None);
        assert_eq!([0, 1, 2].map(|part| layout.held(part)), [0..5, 1..8, 4..10]);
        assert_eq!(layout.owners(2..7).collect::<Vec<_>>(), [(0, 2..3), (1, 3..6), (2, 6..7)]);
        assert!(Layout::even(0, 1, 2, 1, None).held(0).is_empty(), "an empty part needs nothing");
    }
}
