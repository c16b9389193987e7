//! Types of register and mask indices in ops and tables.

/// The index of a register in a group's table of slots.
pub(crate) type Reg = u16;
/// The index of a mask in a group's table of masks.
pub(crate) type MaskId = u16;
/// The index that means "no register" or "no mask".
pub(crate) const NONE: u16 = u16::MAX;
/// Number of axes of a group: x, y, z, and the block within a batch of blocks.
pub(crate) const AXES: usize = 4;
