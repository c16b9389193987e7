//! Layer 2: DeviceIR, the one form that every device runs.
pub mod build;
pub mod calls;
pub mod compact;
pub mod def;
pub mod ends;
pub mod filled;
pub mod footprint;
pub mod nan;
pub mod owner;
pub mod ranges;
pub mod spin;
pub mod text;
pub mod typing;
pub mod unseen;
pub mod variance;
pub mod verify;
pub mod visit;
pub mod warps;

pub use footprint::apart::Apart;
pub use footprint::inside::{Declared, MOST_ELEMENTS};
pub use footprint::whole::Numbers;

/// The input of a device: a verified kernel with all calls inlined, and the checks that it was prepared for.
pub struct Prepared {
    pub module: verify::Verified,
    pub checks: Checks,
    /// Its maker vouches that all accesses are in bounds, so that a GPU guards none. The simulator checks them all the same.
    pub in_bounds: bool,
    /// The simulator counts what warps cost: in runs with checks of memory the worst access of each place, in others everything.
    pub counted: Option<Counted>,
    /// It was not changed since it was lowered: it calls functions, and each variable of the source is a local.
    pub named: bool,
    /// What holds of launches of a kernel with a signature.
    pub declared: Option<Declared>,
}

impl Prepared {
    /// Returns a kernel of which no more is known than its body says.
    pub fn new(module: verify::Verified, checks: Checks) -> Prepared {
        Prepared { module, checks, in_bounds: false, counted: None, named: false, declared: None }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A kernel of the program, by its places in the source.
    Kernel,
    /// The derivative of one, by the same places.
    Derivative,
    /// One that computes an array expression of a script: all of it is of the place where that is.
    Expression,
}

/// The checks of a run, beyond the faults that always end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checks {
    /// Data races, reads of unwritten elements, divergence at barriers.
    pub memory: bool,
    /// Overflow, out-of-range shift amounts and conversions.
    pub arithmetic: bool,
    /// The origin of the first NaN or infinity.
    pub nan: bool,
}

impl Checks {
    /// Returns whether any check is on, so that passes have to preserve what it observes.
    pub fn any(self) -> bool {
        self.memory || self.arithmetic || self.nan
    }
}
