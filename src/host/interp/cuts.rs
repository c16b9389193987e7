//! How launches on parts of arrays are cut, as it is remembered: launches in loops are cut once.

use crate::host::shard::Layout;
use crate::ir::Prepared;
use crate::ir::def::StmtKind;
use crate::ir::footprint::parts::{Coordinate, Parted};
use crate::ir::visit::each_stmt;
use crate::lower::Instance;

/// How a launch is cut: what that depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    pub instance: Instance,
    pub extents: [u32; 6],
    /// By position of the argument: the shape of an array, and how it is cut; the value of an integer.
    pub arrays: Vec<(u32, Vec<usize>, Option<Layout>)>,
    pub values: Vec<(u32, i128)>,
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
