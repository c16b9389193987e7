//! Layer 2: DeviceIR, the one form that every device runs.
pub mod build;
pub(crate) mod calls;
pub(crate) mod compact;
pub mod def;
pub(crate) mod ranges;
pub mod text;
pub mod typing;
pub mod verify;
pub mod visit;

/// What a device is given: a verified kernel, all calls inlined, and what analysis knows of it.
pub struct Prepared {
    pub module: verify::Verified,
    pub facts: def::Facts,
    pub checks: Checks,
}

/// What a run looks for beyond the faults that always end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checks {
    /// Races, reads of what nobody wrote, where threads parted that should meet.
    pub memory: bool,
    /// Overflow, shift amounts, conversions out of range.
    pub arithmetic: bool,
    /// Where the first NaN or infinity comes from.
    pub nan: bool,
}

impl Checks {
    /// Whether the kernel has to be kept as it was written, so that a check sees all that it does.
    pub fn any(self) -> bool {
        self.memory || self.arithmetic || self.nan
    }
}
