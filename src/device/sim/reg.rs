//! Indices of registers and masks in ops and tables, and the number of axes.

/// An index into a group's slots.
pub(crate) type Reg = u16;
/// An index into a group's masks.
pub(crate) type MaskId = u16;
/// The absence of a register or mask.
pub(crate) const NONE: u16 = u16::MAX;
/// Axes of a group: x, y, z, and the block within a batch of blocks.
pub(crate) const AXES: usize = 4;
