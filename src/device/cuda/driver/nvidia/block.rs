//! Blocks of page-locked memory, which copies between the host and a GPU go by way of, and which copies do.

use std::collections::BTreeMap;

use cudarc::driver::sys;

/// Bytes of one block of staging memory: a fraction of what a processor's last cache holds for each thread.
pub(super) const PIECE: usize = 2 << 20;
/// Copies of at least this size go through staging memory; the driver has its own for small ones.
pub(super) const STAGED: usize = 1 << 20;
/// Page-locked staging memory for copies, and the event after which it is free again.
pub(super) struct Staging {
    pub memory: *mut u8,
    /// Reached when the block is free again.
    pub done: sys::CUevent,
}

// SAFETY: it is owned by the thread that took it out of the list.
unsafe impl Send for Staging {}

/// The offset of a piece and its length, which is at most a block's.
pub(super) type Piece = (usize, usize);

/// How memory of the host is copied. The driver refuses a copy of bytes of which some are locked and others are not, or that were locked one
/// by one, and does not wait for one of locked bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By the driver alone: none of it is locked.
    Plain,
    /// All of it is locked, in these pieces.
    Locked(Vec<Piece>),
    /// By way of staging memory: a part of it is locked.
    Staged,
}

/// Returns how memory is to be copied of which these ranges are locked, by their starts.
pub(super) fn way(locked: &BTreeMap<usize, usize>, start: usize, len: usize) -> Way {
    let end = start + len;
    let is_touched = locked.range(..end).next_back().is_some_and(|(from, bytes)| from + bytes > start);
    if !is_touched {
        return Way::Plain;
    }
    let (mut pieces, mut at) = (Vec::new(), start);
    while at < end {
        let known = locked.range(..=at).next_back().map(|(from, bytes)| (from + bytes).min(end));
        let Some(until) = known.filter(|until| *until > at) else { return Way::Staged };
        pieces.push((at - start, until - at));
        at = until;
    }
    Way::Locked(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_goes_across_the_end_of_what_is_locked() {
        let locked = BTreeMap::from([(1000, 500), (1500, 500), (3000, 100)]);
        let way = |start, len| way(&locked, start, len);
        assert_eq!([way(0, 1000), way(2000, 1000), way(3100, 7)], [Way::Plain, Way::Plain, Way::Plain]);
        assert_eq!(way(1100, 100), Way::Locked(vec![(0, 100)]));
        assert_eq!(way(1400, 200), Way::Locked(vec![(0, 100), (100, 100)]));
        // Such copies are the driver's in the eyes of one who looks at their size alone.
        for (start, len) in [(900, 101), (1999, 2), (0, 4000), (2999, 2), (1400, 700)] {
            assert_eq!(way(start, len), Way::Staged, "{start} {len}");
        }
    }
}
