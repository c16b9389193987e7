//! Cache of partition plans for sharded launches, so that a launch in a loop is planned only once.

use crate::shard::ShardLayout;
use clk_ir::PreparedKernel;
use clk_ir::def::StmtKind;
use clk_ir::footprint::partition::{LaunchPartition, PartitionCoordinate};
use clk_ir::visit::each_stmt;
use clk_lower::Instance;
use clk_runtime::LaunchExtents;

/// The inputs that determine how a launch is partitioned.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PartitionPlanKey {
    pub instance: Instance,
    pub extents: LaunchExtents,
    pub arrays: Vec<PartitionArrayArg>,
    /// Integer arguments: index of the kernel parameter, and value.
    pub values: Vec<(u32, i128)>,
}

/// An array argument of a sharded launch.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PartitionArrayArg {
    /// The index of the kernel parameter.
    pub param: u32,
    pub shape: Vec<usize>,
    /// How the array is sharded; `None` if it is not.
    pub layout: Option<ShardLayout>,
    /// Whether the launch allocates the array. A new array is sharded in the way in which the kernel writes it. An
    /// array of the caller keeps its sharding.
    pub is_new: bool,
}

/// The partition of a launch, and the parameters of the arrays that it overwrites completely.
pub(crate) struct PartitionPlan {
    pub partition: LaunchPartition,
    pub fully_written: Vec<u32>,
}

impl std::ops::Deref for PartitionPlan {
    type Target = LaunchPartition;

    fn deref(&self) -> &LaunchPartition {
        &self.partition
    }
}

/// Cache key of the kernel for one shard: the instance, the partitioned coordinate, the sharded axes by parameter,
/// whether accesses are proved in bounds, and the device's address.
pub(crate) type PartKernelKey = (Instance, PartitionCoordinate, Vec<(u32, u8)>, bool, usize);

/// Returns whether a kernel prints.
pub(super) fn kernel_prints(kernel: &PreparedKernel) -> bool {
    let mut prints = false;
    for (_, function) in kernel.module.functions.iter() {
        each_stmt(&function.body, &mut |stmt| prints |= matches!(stmt.kind, StmtKind::Print { .. }));
    }
    prints
}
