//! Atomic operations on elements of 4 and 8 bytes.
//!
//! Input: the statement. Output: [`Op::Atomic`], with a value that has the expected ones in front of a compare-exchange. The idea: batches
//! run one after the other, so that lanes of different batches update an element in another order than the interpreter has. Sums of
//! floats are only taken where nothing else in the region can come between: one atomic on the memory, outside of loops.

use super::access::{Leaf, View};
use super::*;
use crate::device::sim::lane::guards::Guard;
use crate::device::sim::note::Touch;
use crate::ir::def::{Place, Space};
use crate::lang::ops::AtomicOp;

/// What an atomic does, besides where.
pub(super) struct Update {
    pub op: AtomicOp,
    pub value: ExprId,
    pub compare: Option<ExprId>,
    pub result: Option<ExprId>,
}

impl Builder<'_> {
    pub(super) fn atomic(&mut self, update: &Update, place: &Place) -> Option<()> {
        let Update { op, value, compare, result } = *update;
        let Leaf { scalar, offset, .. } = self.leaf(place)?;
        let elem = Elem::of(scalar)?;
        if !self.may_update(place.memory, op, elem, result.is_some()) {
            return None;
        }
        if elem.is_float() && matches!(op, AtomicOp::Add | AtomicOp::Sub) {
            self.sums.push(place.memory);
        }
        let touched = self.touched(place.memory);
        (touched.loads, touched.stores, touched.updates) = (true, true, true);
        let value = self.operand(value)?.into_iter().next()?;
        let value = self.vector(&value, scalar);
        let (indices, mut checks) = self.indices(place)?;
        let look = compare == Some(update.value);
        // The interpreter checks all lanes of an update at once, which costs less than to tell of each batch.
        let guard = self.guards.memories.get(place.memory.index()).copied().unwrap_or_default();
        if guard == Guard::Shared && result.is_none() && compare.is_none() {
            return None;
        }
        self.guard_update(place, &indices, &mut checks, if look { Touch::Look } else { Touch::Atomic })?;
        // Elements have more than one byte, so that the form has offsets also where they follow one another.
        let view = View::of(place.memory);
        let mut target = self.target(place.memory, view, &indices, offset, Cell::U8, &mut checks)?;
        if target.form == Form::One {
            target.form = Form::Lanes;
            target.offsets = self.splat(false, 0);
        }
        if target.form != Form::Lanes {
            return None;
        }
        self.note_access(place.memory, target, &checks);
        let dst = match (compare, result) {
            (Some(compare), _) => {
                let expected = self.operand(compare)?.into_iter().next()?;
                let expected = self.vector(&expected, scalar);
                let dst = self.variable(elem.vector());
                self.push(Inst::new(Op::Move, dst, &[expected]));
                dst
            }
            (None, Some(_)) => self.new_value(elem.vector(), self.level(), false),
            (None, None) => Value::NONE,
        };
        let args = [target.address, target.offsets, value];
        self.push(Inst::new(Op::Atomic(op, elem), dst, &args).under(self.mask));
        if let Some(result) = result {
            let old = if compare.is_some() { self.result(Op::Move, elem.vector(), &[dst]) } else { dst };
            self.values.insert(result, vec![Lane::Vector(old)]);
        }
        Some(())
    }

    fn may_update(&self, memory: MemId, op: AtomicOp, elem: Elem, used: bool) -> bool {
        let guard = self.guards.memories.get(memory.index()).copied().unwrap_or_default();
        let sums = matches!(op, AtomicOp::Add | AtomicOp::Sub);
        let touched = self.region.memories.iter().find(|m| m.memory == memory);
        let shared = guard == Guard::Shared && self.memory(memory).space == Space::Shared;
        // What `--check` records of other atomics, and sums that checks may report, are the interpreter's. So are those whose results decide
        // what comes next: batches run one after the other, so that it would be other threads that access an element.
        let is_reported = if elem.is_float() { self.guards.nan } else { self.guards.arithmetic && elem.is_signed() };
        let watched = guard != Guard::Free && (used || !shared) || sums && is_reported;
        let again = !self.loops.is_empty() || touched.is_some_and(|m| m.updates || m.stores);
        let space = self.memory(memory).space;
        let is_common = matches!(space, Space::Global { .. } | Space::Shared);
        // A float sum keeps its memory to itself.
        let reorders = elem.is_float() && sums && again || self.sums.contains(&memory);
        is_common && !reorders && !watched
    }
}
