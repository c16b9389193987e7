//! Emits phases: loops over the batches of a block, and accesses to the phase slots.
//!
//! Input: a phase. Output: a loop over the batches of the block. A slot has the layout of a lane register of the
//! interpreter: the value of a lane is at the lane's number times its size. Masks and scalars are stored in the first
//! bytes of their vector's lanes.

use super::*;
use crate::lir::{LaneBinOp, PhaseSlot};

/// Returns the branch that skips the phase for a batch if all of its x coordinates are at least a limit. In this case,
/// all later batches can be skipped too.
fn skip_of_rest(body: &[LaneNode], extents: [u32; 3]) -> Option<(BranchCond, Exit)> {
    let (LaneNode::Block(exit, inner), before) = body.split_last()? else { return None };
    let &LaneNode::Branch(skip @ BranchCond::MaskEmpty(mask), to) = inner.first()? else { return None };
    let mut insts = vec![];
    for node in before {
        match node {
            // Only instructions without side effects may precede the branch.
            LaneNode::Inst(inst)
                if inst.dst != LaneValue::NONE && !matches!(inst.op, LaneOp::Atomic(..) | LaneOp::Warp(..)) =>
            {
                insts.push(inst)
            }
            _ => return None,
        }
    }
    let definition = |value: LaneValue| {
        let mut definitions = insts.iter().filter(|inst| inst.dst == value);
        definitions.next().copied().filter(|_| definitions.next().is_none())
    };
    // Recognizes the thread's x coordinate: the coordinate of the vector's first lane plus a vector that is the same in
    // all batches.
    let is_number = |value: LaneValue| {
        let Some(LaneInst {
            op: LaneOp::Vector(LaneBinOp::Add, LaneElem::I32 | LaneElem::U32), args: [a, b, _], ..
        }) = definition(value)
        else {
            return false;
        };
        let first = |v: LaneValue| {
            let from =
                definition(v).filter(|inst| inst.op == LaneOp::Broadcast).and_then(|inst| definition(inst.args[0]));
            from.is_some_and(|inst| inst.op == LaneOp::Coord(0))
        };
        let fixed = |v: LaneValue| {
            insts.iter().find(|inst| inst.dst == v).is_none_or(|inst| matches!(inst.op, LaneOp::Iota(_)))
        };
        first(*a) && fixed(*b) || first(*b) && fixed(*a)
    };
    let compare = definition(mask).filter(|inst| inst.mask == LaneValue::NONE)?;
    let [number, limit, _] = compare.args;
    // The limit must be the same for the whole block, so it must come from outside the phase.
    let is_lane_compare = compare.op == LaneOp::Compare(LaneComparison::Lt, LaneElem::I32) && is_limit(limit, &insts);
    (to == *exit && extents[1] * extents[2] == 1 && is_lane_compare && is_number(number)).then_some((skip, to))
}

/// Returns whether a vector is the same in all batches because it comes from outside the phase.
fn is_limit(value: LaneValue, insts: &[&LaneInst]) -> bool {
    let inside = |v: LaneValue| insts.iter().any(|inst| inst.dst == v);
    match insts.iter().find(|inst| inst.dst == value) {
        Some(inst) => inst.op == LaneOp::Broadcast && !inside(inst.args[0]),
        None => true,
    }
}

impl RegionEmitter<'_> {
    /// Emits the loop that runs a phase for each batch.
    pub(super) fn phase(&mut self, body: &[LaneNode]) {
        let Some(extents) = self.region.full_group else { return };
        let rows = std::mem::replace(&mut self.rows, reads_rows(body));
        self.in_batch = true;
        if !body.is_empty() {
            let end = self.asm.label();
            self.rest = skip_of_rest(body, extents).map(|(skip, exit)| (skip, exit, end));
            self.each_batch(extents, body);
            self.asm.bind(end);
            self.rest = None;
        }
        self.in_batch = false;
        self.rows = rows;
    }

    /// Returns the memory operand for a copy of a value in its phase slot.
    fn slot_address(&self, slot: PhaseSlot, ty: LaneTy, copy: usize) -> Mem {
        let (first, at) = ((copy * self.shape.width) as i32, self.allocation.phase_slots[slot.number as usize]);
        match ty {
            // Outside phases, use the value of the first batch.
            _ if !self.in_batch => Self::slot(at),
            LaneTy::V64 => Mem::index(FRAME, LANE, 2, at + 8 * first),
            _ => Mem::index(FRAME, LANE, 1, at + 4 * first),
        }
    }

    pub(super) fn save_slot(&mut self, slot: PhaseSlot, value: LaneValue) {
        let ty = self.ty(value);
        for copy in 0..self.copies(value) {
            let to = self.slot_address(slot, ty, copy);
            match ty {
                LaneTy::I32 | LaneTy::I64 => {
                    let x = self.gpr(value, copy, Gpr::RAX);
                    self.asm.store(self.size(value), to, x);
                }
                LaneTy::V32 | LaneTy::V64 => {
                    let x = self.vector(value, copy, V[0]);
                    self.asm.vstore(ty == LaneTy::V64, self.len(ty), to, x, None);
                }
                LaneTy::Mask => {
                    let mask = self.mask(value, copy, K7);
                    if self.evex() {
                        self.asm.kstore(to, mask.k());
                    } else {
                        self.asm.vstore(false, self.len(LaneTy::V32), to, mask.v(), None);
                    }
                }
            }
        }
    }

    pub(super) fn load_slot(&mut self, slot: PhaseSlot, value: LaneValue) {
        let ty = self.ty(value);
        for copy in 0..self.copies(value) {
            let from = self.slot_address(slot, ty, copy);
            match ty {
                LaneTy::I32 | LaneTy::I64 => {
                    let d = self.gpr_for(value, copy, Gpr::RAX);
                    self.asm.mov(self.size(value), d, from);
                    self.put_gpr(value, copy, d);
                }
                LaneTy::V32 | LaneTy::V64 => {
                    let d = self.vector_for(value, copy, V[0]);
                    self.asm.v2(V2::Move, self.len(ty), d, from, Masking::None);
                    self.put_vector(value, copy, d);
                }
                LaneTy::Mask => {
                    let d = self.mask_for(value, copy, K7);
                    if self.evex() {
                        self.asm.kload(d.k(), from);
                    } else {
                        self.asm.v2(V2::Move, self.len(LaneTy::V32), d.v(), from, Masking::None);
                    }
                    self.put_mask(value, copy, d);
                }
            }
        }
    }
}
