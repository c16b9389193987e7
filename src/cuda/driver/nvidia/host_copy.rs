//! Blocks of pinned staging memory for copies between the host and a GPU, and the decision which copies use them.

use std::collections::BTreeMap;

use cudarc::driver::sys;

/// Size of a staging block in bytes. It is a fraction of a thread's share of the last-level cache.
pub(super) const STAGING_BYTES: usize = 2 << 20;
/// Minimum size in bytes of copies through staging memory. For smaller copies, the driver uses its own.
pub(super) const MIN_STAGED_BYTES: usize = 1 << 20;
/// A block of page-locked (pinned) staging memory, and the event that is reached when it can be reused.
pub(super) struct Staging {
    pub memory: *mut u8,
    /// The event that is reached when the block can be reused.
    pub done: sys::CUevent,
}

// SAFETY: only the thread that took the block out of the list uses it.
unsafe impl Send for Staging {}

/// A contiguous part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CopyPiece {
    /// Offset of the part in the copied bytes.
    pub start: usize,
    pub len: usize,
}

/// How host memory is copied. The driver rejects a copy of bytes that are only partly pinned or that several calls
/// pinned. It also returns before a copy of pinned bytes is done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostCopyMode {
    /// By the driver. None of the memory is pinned.
    Plain,
    /// Directly, one copy for each of these parts. All of the memory is pinned.
    Pinned(Vec<CopyPiece>),
    /// Through staging memory. Only a part of the memory is pinned.
    Staged,
}

/// Returns how to copy a range of host memory. `locked` maps the start of each pinned range to its length.
pub(super) fn host_copy_mode(locked: &BTreeMap<usize, usize>, start: usize, len: usize) -> HostCopyMode {
    let end = start + len;
    let overlaps_pinned = locked.range(..end).next_back().is_some_and(|(from, bytes)| from + bytes > start);
    if !overlaps_pinned {
        return HostCopyMode::Plain;
    }
    let (mut pieces, mut at) = (Vec::new(), start);
    while at < end {
        let range_end = locked.range(..=at).next_back().map(|(from, bytes)| (from + bytes).min(end));
        let Some(until) = range_end.filter(|until| *until > at) else { return HostCopyMode::Staged };
        pieces.push(CopyPiece { start: at - start, len: until - at });
        at = until;
    }
    HostCopyMode::Pinned(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_do_not_cross_the_end_of_pinned_ranges() {
        let locked = BTreeMap::from([(1000, 500), (1500, 500), (3000, 100)]);
        let host_copy_mode = |start, len| host_copy_mode(&locked, start, len);
        let piece = |start, len| CopyPiece { start, len };
        assert_eq!(
            [host_copy_mode(0, 1000), host_copy_mode(2000, 1000), host_copy_mode(3100, 7)],
            [HostCopyMode::Plain, HostCopyMode::Plain, HostCopyMode::Plain]
        );
        assert_eq!(host_copy_mode(1100, 100), HostCopyMode::Pinned(vec![piece(0, 100)]));
        assert_eq!(host_copy_mode(1400, 200), HostCopyMode::Pinned(vec![piece(0, 100), piece(100, 100)]));
        // These copies are small enough for the driver, but they overlap pinned ranges.
        for (start, len) in [(900, 101), (1999, 2), (0, 4000), (2999, 2), (1400, 700)] {
            assert_eq!(host_copy_mode(start, len), HostCopyMode::Staged, "{start} {len}");
        }
    }
}
