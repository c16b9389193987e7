//! Atomic operations on elements of 4 and 8 bytes.
//!
//! Input: an atomic statement. Output: [`LaneOp::Atomic`]. For a compare-exchange, code before it moves the expected
//! values to the destination. Main idea: batches run sequentially, so the order in which lanes of different batches
//! update an element may differ from the interpreter's order. The result of a float sum depends on this order. Float
//! sums are therefore supported only if the region contains a single atomic on the memory, outside loops.

use super::access::{AddressBase, LeafAccess};
use super::*;
use crate::access_site::AccessKind;
use crate::lir::check_facts::AccessGuard;
use clk_ir::def::{MemorySpace, Place};
use clk_scalar::ops::AtomicOp;

/// The operands of an atomic statement, except the accessed element.
pub(super) struct AtomicOperands {
    pub op: AtomicOp,
    pub value: ExprId,
    pub compare: Option<ExprId>,
    pub result: Option<ExprId>,
}

impl RegionBuilder<'_> {
    pub(super) fn atomic(&mut self, update: &AtomicOperands, place: &Place) -> Option<()> {
        let AtomicOperands { op, value, compare, result } = *update;
        let LeafAccess { scalar, offset, .. } = self.leaf(place)?;
        let elem = LaneElem::from_scalar(scalar)?;
        if !self.is_supported_atomic(place.memory, op, elem, result.is_some()) {
            return None;
        }
        if elem.is_float() && matches!(op, AtomicOp::Add | AtomicOp::Sub) {
            self.float_sums.push(place.memory);
        }
        let touched = self.region_memory(place.memory);
        (touched.loads, touched.stores, touched.updates) = (true, true, true);
        let value = self.operand(value)?.into_iter().next()?;
        let value = self.vector(&value, scalar);
        let (indices, mut checks) = self.indices(place)?;
        let look = compare == Some(update.value);
        // The interpreter runs atomics without a result on checked memory. It checks all lanes at once, which is
        // cheaper than reporting each batch.
        let guard = self.outside.guards.memories.get(place.memory.index()).copied().unwrap_or_default();
        if guard == AccessGuard::Shared && result.is_none() && compare.is_none() {
            return None;
        }
        self.guard_update(
            place,
            &indices,
            &mut checks,
            if look { AccessKind::AtomicLoad } else { AccessKind::AtomicRmw },
        )?;
        // Passing a width of 1 byte yields an address form with byte offsets even if the elements are contiguous.
        let view = AddressBase::for_memory(place.memory);
        let mut target = self.access_address(place.memory, view, &indices, offset, MemoryWidth::U8, &mut checks)?;
        if target.form == AddressForm::Uniform {
            target.form = AddressForm::Indexed;
            target.offsets = self.splat(false, 0);
        }
        if target.form != AddressForm::Indexed {
            return None;
        }
        self.add_access_checks(place.memory, target, &checks);
        let dst = match (compare, result) {
            (Some(compare), _) => {
                let expected = self.operand(compare)?.into_iter().next()?;
                let expected = self.vector(&expected, scalar);
                let dst = self.variable(elem.vector_ty());
                self.push(LaneInst::new(LaneOp::Move, dst, &[expected]));
                dst
            }
            (None, Some(_)) => self.new_value(elem.vector_ty(), self.level(), false),
            (None, None) => LaneValue::NONE,
        };
        let args = [target.address, target.offsets, value];
        self.push(LaneInst::new(LaneOp::Atomic(op, elem), dst, &args).with_mask(self.flow.mask));
        if let Some(result) = result {
            let old = if compare.is_some() { self.result(LaneOp::Move, elem.vector_ty(), &[dst]) } else { dst };
            self.values.insert(result, vec![ComponentValue::Vector(old)]);
        }
        Some(())
    }

    fn is_supported_atomic(&self, memory: MemId, op: AtomicOp, elem: LaneElem, used: bool) -> bool {
        let guard = self.outside.guards.memories.get(memory.index()).copied().unwrap_or_default();
        let sums = matches!(op, AtomicOp::Add | AtomicOp::Sub);
        let touched = self.region.memories.iter().find(|m| m.memory == memory);
        let shared = guard == AccessGuard::Shared && self.memory(memory).space == MemorySpace::Shared;
        // With `--check`, the interpreter runs atomics on global arrays, sums that may overflow, and atomics whose
        // result is used. A result may determine which thread performs a later access, and that thread may depend on
        // the order of the batches.
        let is_reported =
            if elem.is_float() { self.outside.guards.nan } else { self.outside.guards.arithmetic && elem.is_signed() };
        let watched = guard != AccessGuard::Unchecked && (used || !shared) || sums && is_reported;
        let is_repeated = !self.flow.loops.is_empty() || touched.is_some_and(|m| m.updates || m.stores);
        let space = self.memory(memory).space;
        let is_common = matches!(space, MemorySpace::Global { .. } | MemorySpace::Shared);
        // A memory with a float sum may have no other atomic in the region.
        let reorders = elem.is_float() && sums && is_repeated || self.float_sums.contains(&memory);
        is_common && !reorders && !watched
    }
}
