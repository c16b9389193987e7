//! Layer 2: DeviceIR, the intermediate representation of kernels that every device executes.

#![allow(rustdoc::private_intra_doc_links)]

pub mod access_kind;
pub mod acquire_fences;
pub mod build;
pub mod def;
pub mod definite_init;
pub mod disjoint_writes;
pub mod footprint;
pub mod forward_dataflow;
pub mod inexact_operations;
pub mod inlined_calls;
pub mod launch_coverage;
pub mod memory_transactions;
pub mod nan_bits;
pub mod ranges;
pub mod renumber;
pub mod spin_loop_exits;
pub mod spin_loops;
pub mod text;
pub mod tiles;
pub mod typing;
pub mod variance;
pub mod verify;
pub mod visit;

pub use access_kind::AccessKind;
pub use footprint::bounds::{DeclaredLaunches, MAX_ELEMENTS};
pub use footprint::full_overwrite::LaunchNumbers;
pub use footprint::race_freedom::RaceFreedom;

/// The input of a device: a verified kernel, normally with all calls inlined, and the checks with which it may run.
pub struct PreparedKernel {
    pub module: verify::Verified,
    pub checks: Checks,
    /// Set if the kernel's creator guarantees that all accesses are in bounds, so a GPU needs no bounds checks. The
    /// simulator checks them anyway.
    pub in_bounds: bool,
    /// Set if the simulator counts warp costs. With memory checks, it records only the most expensive warp of each
    /// access; otherwise it adds up all warps.
    pub cost_counting: Option<CostCounting>,
    /// Set if the passes have not run: the kernel still calls functions, and each source variable is a local.
    pub is_unoptimized: bool,
    /// Facts about all launches that the kernel's signature allows. `None` for kernels without a signature.
    pub declared_launches: Option<DeclaredLaunches>,
}

impl PreparedKernel {
    /// Returns a kernel without additional facts about its launches.
    pub fn new(module: verify::Verified, checks: Checks) -> PreparedKernel {
        PreparedKernel {
            module,
            checks,
            in_bounds: false,
            cost_counting: None,
            is_unoptimized: false,
            declared_launches: None,
        }
    }
}

/// The code to which warp costs are attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostCounting {
    /// A kernel of the program. Costs are attributed to its source locations.
    Kernel,
    /// The adjoint kernel of a program's kernel. Costs are attributed to the source locations of the primal.
    Derivative,
    /// A kernel generated for an array expression of a script. All costs are attributed to the expression.
    Expression,
}

/// The checks with which a launch runs, in addition to the faults that always end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checks {
    /// Reports data races, reads of unwritten elements, and divergence at barriers.
    pub memory: bool,
    /// Reports overflow, and shift amounts or conversions that are out of range.
    pub arithmetic: bool,
    /// Stops at the operation that produces the first NaN or infinity.
    pub nan: bool,
}

impl Checks {
    /// Returns whether any check is enabled. Passes must then preserve the behavior that the checks report.
    pub fn any(self) -> bool {
        self.memory || self.arithmetic || self.nan
    }
}
