//! Cache of the kernels that were compiled for a device.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::launch_cache::LaunchCache;
use super::partition_cache::{PartKernelKey, PartitionPlan, PartitionPlanKey};
use crate::grad;
use clk_check::typed::Type;
use clk_ir::PreparedKernel;
use clk_lower::{FunctionInstance, Instance};
use clk_runtime::{Executable, LaunchExtents};

/// Cache key of the kernel of an elementwise call: the function, and for each parameter the type of an element and
/// whether the argument is an array.
pub(crate) type MapKernelKey = (FunctionInstance, Vec<(Type, bool)>);

/// Compiled kernels of one device.
#[derive(Default)]
pub(crate) struct DeviceKernels {
    pub(super) loaded: FxHashMap<Instance, Arc<dyn Executable>>,
    pub(super) launch_cache: LaunchCache,
    /// For sharded launches: the kernels for whole arrays, the kernels for single shards, and the partition plans.
    pub(super) whole_kernels: FxHashMap<Instance, Arc<PreparedKernel>>,
    pub(super) part_kernels: FxHashMap<PartKernelKey, Arc<dyn Executable>>,
    pub(super) partition_plans: FxHashMap<PartitionPlanKey, Arc<PartitionPlan>>,
    /// Differentiable kernels. A kernel is either for all launches with the declared geometry (`None`), or for
    /// particular extents.
    pub(super) grad_kernels: FxHashMap<(Instance, Option<LaunchExtents>), Arc<grad::GradKernel>>,
    pub(super) grad_map_kernels: FxHashMap<MapKernelKey, Arc<grad::GradKernel>>,
    /// Kernels of elementwise calls, and whether they print.
    pub(super) map_kernels: FxHashMap<MapKernelKey, (Arc<dyn Executable>, bool)>,
}
