//! The extents of a launch, and where it comes from.

use clk_base::source::Span;

/// The extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchExtents {
    /// Extents of a `LaunchForm::Threads` launch, one per index. The first index varies slowest. Unused indices have
    /// extent 1.
    Threads([u32; 3]),
    /// Extents of a `LaunchForm::Grid` launch, in the order x, y, z: blocks in the grid, and threads in a block.
    Grid { grid: [u32; 3], block: [u32; 3] },
}

/// What is kept of a launch to explain its fault later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchOrigin {
    /// The name of the kernel in the source; `None` if the launch computed a part of the source's index space.
    pub kernel: Option<Span>,
    pub extents: LaunchExtents,
    /// The statement that launched the kernel.
    pub launched: Span,
}
