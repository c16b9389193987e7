//! The extents of a launch.

/// The extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extents {
    /// `Form::Threads`: the extent of each index (unused ones are 1); the first varies slowest.
    Threads([u32; 3]),
    /// `Form::Grid`: x, y, z.
    Grid { grid: [u32; 3], block: [u32; 3] },
}
