//! How launches on parts of arrays are cut, as it is remembered: launches in loops are cut once.

use crate::device::Extents;
use crate::host::shard::Layout;
use crate::ir::Prepared;
use crate::ir::def::StmtKind;
use crate::ir::footprint::parts::{Coordinate, Parted};
use crate::ir::visit::each_stmt;
use crate::lower::Instance;

/// The inputs that decide how a launch is cut.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    pub instance: Instance,
    pub extents: Extents,
    pub arrays: Vec<ArrayArg>,
    /// The integers, each with the position of its argument.
    pub values: Vec<(u32, i128)>,
}

/// An array argument of a launch.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ArrayArg {
    /// The position of the argument.
    pub param: u32,
    pub shape: Vec<usize>,
    /// How it is sharded.
    pub layout: Option<Layout>,
    /// Whether the launch allocates it. The writes of the kernel decide how such an array is cut; an array of the caller keeps its elements.
    pub is_new: bool,
}

/// How a launch is cut, and the arrays that it writes as a whole.
pub(crate) struct Plan {
    pub parted: Parted,
    pub filled: Vec<u32>,
}

impl std::ops::Deref for Plan {
    type Target = Parted;

    fn deref(&self) -> &Parted {
        &self.parted
    }
}

/// The kernel of a part: the instance, what it is cut along, the axes of cut arrays, whether accesses are in bounds, the device.
pub(crate) type PartKey = (Instance, Coordinate, Vec<(u32, u8)>, bool, usize);

/// Returns whether a kernel prints.
pub(super) fn prints(kernel: &Prepared) -> bool {
    let mut found = false;
    for (_, function) in kernel.module.functions.iter() {
        each_stmt(&function.body, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Print { .. }));
    }
    found
}
