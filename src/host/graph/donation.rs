//! Buffer donation: writes the result of an expression into the memory of an operand that has no other readers. Input:
//! a node that is about to be computed, and its plan. Output: the operand's storage, which now contains the result; or
//! `None` if no operand can be donated.
//!
//! An operand may be donated if all references to it are in operations that this kernel computes. In `x = x * 2.0 + y`,
//! the old value of `x` can be donated. The kernel must read each element of the operand only once, at the position
//! where it writes the element of the result.

use std::any::Any;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::array::{Array, Data, DeferredWork, Reader};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{PlanOutput, plan_context, run_plan_with_control};
use crate::graph::node::{DeferredNode, ElementwiseOp, NodeOperand, as_node};
use crate::graph::plan::{FusionPlan, OperandSource, PlanInput};
use crate::problem::{HostResult, RuntimeError};
use clk_base::stop;
use clk_runtime::Control;
use clk_runtime::storage::Storage;

/// Maximum cost of a donating kernel on a CPU, in scalar operations (about one second). Such a kernel ignores stop
/// requests, because a partly overwritten operand cannot be restored.
const MAX_UNINTERRUPTED_OPS: u64 = 1 << 32;
/// Cost of a floating-point math function, in scalar operations.
const MATH_FN_COST: usize = 16;

/// A reference to an array: operand number `operand` of a node. `work` is that node, or `None` for the node that is
/// being computed.
struct OperandSlot {
    work: Option<Arc<dyn DeferredWork>>,
    operand: usize,
}

type OperandSlots = FxHashMap<*const Data, Vec<OperandSlot>>;

/// Computes the bytes of a node in the storage of an operand. Returns `None`, without changing anything, if no operand
/// can be donated.
pub(super) fn compute_in_place(
    root: &DeferredNode,
    plan: &mut FusionPlan,
    element: OperandSource,
    len: usize,
) -> HostResult<Option<Storage>> {
    let context = plan_context(&root.context, plan, len);
    if len < context.min_donated_bytes() || !is_short(plan, &context, len / root.scalar.size()) {
        return Ok(None);
    }
    let can_donate = |i: &usize| can_reuse_input(plan, *i, root, len);
    let candidates: Vec<usize> = (0..plan.inputs.len()).filter(can_donate).collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    let mut slots = collect_operand_slots(root);
    // The plan holds one more reference.
    let is_last_use = |input: &PlanInput| {
        let data = input.array.data();
        slots.get(&Arc::as_ptr(data)).is_some_and(|slots_of_data| slots_of_data.len() + 1 == Arc::strong_count(data))
    };
    let Some(donor) = candidates.into_iter().find(|&i| is_last_use(&plan.inputs[i])) else { return Ok(None) };
    if context.device().memory().is_none() {
        // Read all inputs before the operand is overwritten, because reading may fail.
        plan.inputs.iter().try_for_each(|input| input.array.bytes().map(drop))?;
    }
    let slots = slots.remove(&Arc::as_ptr(plan.inputs[donor].array.data())).unwrap_or_default();
    let donated = DonatedOperand::take_from_plan(root, plan, donor, slots)?;
    donated.overwrite(root, plan, element, &context)
}

/// Returns whether a kernel takes so little time that it may ignore stop requests.
fn is_short(plan: &FusionPlan, context: &ExecContext, elements: usize) -> bool {
    let cost = |op: ElementwiseOp| if matches!(op, ElementwiseOp::Math(_)) { MATH_FN_COST } else { 1 };
    let total_cost = plan.steps.iter().map(|step| cost(step.op)).sum::<usize>();
    context.device().capabilities().asynchronous
        || (elements as u64).saturating_mul(total_cost as u64) <= MAX_UNINTERRUPTED_OPS
}

/// Returns whether the result of a node may overwrite input `i` of its plan, provided that the input has no other
/// references.
fn can_reuse_input(plan: &FusionPlan, i: usize, root: &DeferredNode, len: usize) -> bool {
    let input = &plan.inputs[i];
    let same = |other: &&PlanInput| Arc::ptr_eq(other.array.data(), input.array.data());
    // If the device memory is shared with another array, the device would copy the operand before writing it.
    let is_own = |storage: &Storage| match &*storage.remote() {
        Some(remote) => Arc::strong_count(remote) == 1,
        None => storage.here().is_some(),
    };
    input.offset.is_none()
        && input.gathers.is_empty()
        && input.scalar == root.scalar
        && input.strides.iter().all(|&stride| stride != 0)
        && !plan.has_guards
        && !root.op.may_fault(&root.operands())
        && plan.inputs.iter().filter(same).count() == 1
        && input.array.data().computed().is_some_and(|storage| storage.len() == len && is_own(storage))
}

/// Collects, for each array, the references to it from this node and from operations that only this node uses.
fn collect_operand_slots(root: &DeferredNode) -> OperandSlots {
    let mut slots = OperandSlots::default();
    let mut pending: Vec<Option<Arc<dyn DeferredWork>>> = vec![None];
    while let Some(work) = pending.pop() {
        let Some(node) = work.as_deref().map_or(Some(root), as_node) else { continue };
        for (operand, value) in node.operands().iter().enumerate() {
            let NodeOperand::Array(array, _) = value else { continue };
            let slots_of_data = slots.entry(Arc::as_ptr(array.data())).or_default();
            slots_of_data.push(OperandSlot { work: work.clone(), operand });
            if slots_of_data.len() == Arc::strong_count(array.data()) {
                pending.extend(array.data().work().filter(|work| as_node(&**work).is_some()).map(Some));
            }
        }
    }
    slots
}

/// The contents of an operand while a kernel overwrites them. If the kernel unwinds, the contents are lost: a later
/// reader gets an error.
struct Overwritten;

impl DeferredWork for Overwritten {
    fn run(&self, _: usize, _: Reader) -> HostResult<Storage> {
        let title = "the array was lost, because memory ran out while it was being overwritten";
        Err(RuntimeError::new("E0509", title).help("compute it again"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The operand whose storage is donated. A placeholder replaces it in the nodes that reference it.
struct DonatedOperand {
    array: Array,
    slots: Vec<OperandSlot>,
    donor: usize,
}

impl DonatedOperand {
    fn take_from_plan(
        root: &DeferredNode,
        plan: &mut FusionPlan,
        donor: usize,
        holders: Vec<OperandSlot>,
    ) -> HostResult<DonatedOperand> {
        let input = &mut plan.inputs[donor];
        let placeholder = Array::unplaced(input.scalar, &[0])?;
        let array = std::mem::replace(&mut input.array, placeholder);
        plan.donor = Some(donor);
        let lost = Array::deferred(array.element().clone(), array.shape(), Arc::new(Overwritten))?;
        let donated = DonatedOperand { array, slots: holders, donor };
        donated.set_operands(root, &lost);
        Ok(donated)
    }

    /// Sets the operand to this array in all nodes that reference it.
    fn set_operands(&self, root: &DeferredNode, array: &Array) {
        for slot in &self.slots {
            let node = slot.work.as_deref().map_or(Some(root), as_node);
            let mut operands = node.map(DeferredNode::operands_mut);
            if let Some(NodeOperand::Array(place, _)) = operands.as_mut().and_then(|all| all.get_mut(slot.operand)) {
                *place = array.clone();
            }
        }
    }

    /// Runs the kernel on the operand's storage. If that fails, restores the operand in the nodes.
    fn overwrite(
        mut self,
        root: &DeferredNode,
        plan: &mut FusionPlan,
        element: OperandSource,
        context: &ExecContext,
    ) -> HostResult<Option<Storage>> {
        let (kind, shape) = (self.array.element().clone(), self.array.shape().to_vec());
        let placeholder = Array::unplaced(root.scalar, &[0])?;
        let mut storage = match std::mem::replace(&mut self.array, placeholder).into_storage() {
            Ok(storage) => storage,
            // Another thread has acquired a reference in the meantime.
            Err(array) => {
                self.give_back(root, plan, array);
                return Ok(None);
            }
        };
        let control = Control { stop: Arc::default(), ..context.control().clone() };
        let outcome = stop::with_flag(None, || {
            let output = PlanOutput { storage: &mut storage, extents: &[] };
            run_plan_with_control(plan, element, root.scalar, &root.shape, context, output, false, &control)
        });
        match outcome {
            Ok(()) => Ok(Some(storage)),
            Err(problem) => {
                self.give_back(root, plan, Array::with_storage(kind, &shape, storage)?);
                Err(problem)
            }
        }
    }

    fn give_back(&self, root: &DeferredNode, plan: &mut FusionPlan, array: Array) {
        self.set_operands(root, &array);
        plan.donor = None;
        plan.inputs[self.donor].array = array;
    }
}
