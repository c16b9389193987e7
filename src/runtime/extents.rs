//! The extents of a launch.

/// The extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchExtents {
    /// Extents of a `LaunchForm::Threads` launch, one per index. The first index varies slowest. Unused indices have
    /// extent 1.
    Threads([u32; 3]),
    /// Extents of a `LaunchForm::Grid` launch, in the order x, y, z: blocks in the grid, and threads in a block.
    Grid { grid: [u32; 3], block: [u32; 3] },
}
