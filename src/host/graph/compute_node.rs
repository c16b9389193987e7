//! Computes a deferred node when its result is needed: by a row-wise kernel if it contains row reductions, otherwise by
//! a fused kernel.

use std::any::Any;

use crate::array::{AlignedBytes, DeferredWork, ElementType, Reader, no_memory};
use crate::graph::donation;
use crate::graph::evaluate::{EAGER_SCALARS, compute_on_host, run_plan};
use crate::graph::node::{DeferredNode, NodeOperand, as_node};
use crate::graph::plan::{FusionPlan, OperandSource};
use crate::graph::row_planner;
use crate::problem::HostResult;
use clk_runtime::storage::Storage;

/// Maximum depth of the search for operands whose data are only on a device.
const SEARCH_DEPTH: usize = 4;

/// Returns whether an operand is computed from data that are on a device and not on the host.
fn needs_device_data(operand: &NodeOperand, depth: usize) -> bool {
    let NodeOperand::Array(array, _) = operand else { return false };
    if let Some(storage) = array.data().computed() {
        return storage.here().is_none() && storage.remote().is_some();
    }
    let of_node = |node: &DeferredNode| node.operands().iter().any(|operand| needs_device_data(operand, depth - 1));
    depth > 0 && array.data().work().is_some_and(|work| as_node(&*work).is_some_and(of_node))
}

impl DeferredWork for DeferredNode {
    fn run(&self, len: usize, reader: Reader) -> HostResult<Storage> {
        // Copying a few scalars to the host is faster than running a kernel. But if a kernel of the device will read
        // the result, the device computes it: the host then need not wait for earlier work.
        let runs_on_device =
            reader == Reader::Device && self.operands().iter().any(|operand| needs_device_data(operand, SEARCH_DEPTH));
        if len <= EAGER_SCALARS * self.scalar.size() && !runs_on_device {
            let mut bytes =
                AlignedBytes::zeroed(len).ok_or_else(|| no_memory(&ElementType::Scalar(self.scalar), &self.shape))?;
            compute_on_host(self.op, &self.operands(), &self.shape, &mut bytes, self.scalar.size())?;
            return Ok(Storage::of_bytes(bytes));
        }
        if let Some(storage) = row_planner::compute_node(self)? {
            return Ok(storage);
        }
        let mut plan = FusionPlan::for_node(self)?;
        let last = OperandSource::Step(plan.steps.len().saturating_sub(1));
        if let Some(storage) = donation::compute_in_place(self, &mut plan, last, len)? {
            return Ok(storage);
        }
        let wait = self.op.may_fault(&self.operands());
        run_plan(&plan, last, self.scalar, &self.shape, &self.context, len, wait)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
