//! The lanes of a group that are active, and summaries of the masks that a group can make its current one.

use std::ops::Range;

use super::group_registers::CHUNK;

/// Summary of a mask: the chunks that contain active lanes, and whether all lanes are active.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaskInfo {
    pub lo: u32,
    pub hi: u32,
    pub full: bool,
    /// The active lanes as a range `first..end`, if they are known to be contiguous.
    pub active_row: Option<(u32, u32)>,
    /// The chunks with active lanes, as ranges. A range may include a few chunks without active lanes.
    pub ranges: LaneRanges,
}

/// Ranges of chunks, in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneRanges {
    pub count: u32,
    pub ranges: [(u16, u16); LANE_RANGES],
}

/// Maximum number of ranges in [`LaneRanges`]. If there are more, the last range covers all remaining chunks.
pub(crate) const LANE_RANGES: usize = 6;

impl LaneRanges {
    pub const NONE: LaneRanges = LaneRanges { count: 0, ranges: [(0, 0); LANE_RANGES] };

    pub fn single(lo: usize, hi: usize) -> LaneRanges {
        let mut one = LaneRanges { count: 1, ..LaneRanges::default() };
        one.ranges[0] = (lo as u16, hi as u16);
        one
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[(u16, u16)] {
        self.ranges.get(..self.count as usize).unwrap_or(&self.ranges)
    }

    /// Appends a range of chunks after the last range.
    #[inline(always)]
    pub fn push(&mut self, lo: usize, hi: usize) {
        let count = self.count as usize;
        if count < LANE_RANGES {
            self.ranges[count] = (lo as u16, hi as u16);
            self.count += 1;
        } else {
            self.ranges[LANE_RANGES - 1].1 = hi as u16;
        }
    }
}

/// The mask of the lanes that are active now; rule G2 of [`group`](super::group) applies to it.
#[derive(Clone, Copy)]
pub(crate) struct CurrentMask {
    /// The lanes of the mask, each 0 or !0.
    pub lanes: *const u32,
    /// The chunks of the mask: `lo..hi`.
    pub lo: usize,
    pub hi: usize,
    pub ranges: LaneRanges,
    /// Set if all lanes of the group are active.
    pub full: bool,
    /// Whether `first_lane` and `last_lane` are valid.
    ends_known: bool,
    /// Set if all lanes from `first_lane` to `last_lane` are known to be active.
    pub is_contiguous: bool,
    /// The first and the last active lane.
    pub first_lane: usize,
    pub last_lane: usize,
}

impl CurrentMask {
    /// Returns the mask of a group that has not started.
    pub fn unset() -> CurrentMask {
        CurrentMask {
            lanes: std::ptr::null(),
            lo: 0,
            hi: 0,
            ranges: LaneRanges::default(),
            full: true,
            ends_known: false,
            is_contiguous: false,
            first_lane: 0,
            last_lane: 0,
        }
    }

    /// Makes the mask with this summary and these lanes the current one.
    #[inline(always)]
    pub fn set(&mut self, info: &MaskInfo, lanes: *const u32) {
        (self.lo, self.hi, self.full) = (info.lo as usize, info.hi as usize, info.full);
        // Copy only the ranges in use, usually one. Reading the whole array shortly after some of its ranges were
        // written would stall, because store forwarding fails.
        self.ranges.count = info.ranges.count;
        self.ranges.ranges[0] = info.ranges.ranges[0];
        if info.ranges.count > 1 {
            self.ranges.ranges = info.ranges.ranges;
        }
        self.ends_known = info.active_row.is_some();
        self.is_contiguous = info.active_row.is_some();
        if let Some((from, to)) = info.active_row {
            (self.first_lane, self.last_lane) = (from as usize, to as usize - 1);
        }
        self.lanes = lanes;
    }

    /// Returns the chunks of the mask.
    #[inline(always)]
    pub fn chunks(&self) -> Range<usize> {
        self.lo..self.hi
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.lo >= self.hi
    }

    /// Returns the summary of the mask.
    #[inline(always)]
    pub fn info(&self) -> MaskInfo {
        MaskInfo {
            lo: self.lo as u32,
            hi: self.hi as u32,
            full: self.full,
            active_row: self.is_contiguous.then(|| (self.first_lane as u32, self.last_lane as u32 + 1)),
            ranges: self.ranges,
        }
    }

    /// Finds the first and the last active lane.
    #[inline(always)]
    pub fn find_ends(&mut self) {
        if self.ends_known {
            return;
        }
        self.ends_known = true;
        let ends = |chunk: usize| {
            // SAFETY: G2: a mask has room for all lanes of a column, and this chunk exists.
            let lanes = unsafe { self.lanes.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() };
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, &l)| bits | u32::from(l != 0) << i);
            (chunk * CHUNK + bits.trailing_zeros() as usize, chunk * CHUNK + bits.checked_ilog2().unwrap_or(0) as usize)
        };
        self.first_lane = ends(self.lo).0;
        self.last_lane = ends(self.hi - 1).1;
    }

    /// Returns the first and the last active lane.
    #[inline(always)]
    pub fn active_bounds(&mut self) -> (usize, usize) {
        self.find_ends();
        (self.first_lane, self.last_lane)
    }
}
