//! Emits warp operations, which call a function for the lanes of a batch. A batch consists of whole warps.
//!
//! The code saves all live registers before the call and restores them after it. Operands and the result are passed in
//! the frame.

use super::*;
use crate::jit::frame::{SOURCE_LANES, WARP};
use crate::jit::runtime_functions;
use crate::lir::LaneElem;
use clk_scalar::ops::WarpOp;

impl RegionEmitter<'_> {
    pub(super) fn warp(&mut self, op: WarpOp, elem: LaneElem, inst: &LaneInst) {
        self.leave_if_forced();
        let live = self.live();
        self.save(&live);
        let [value, lane, _] = inst.args;
        let votes = self.ty(value) == LaneTy::Mask;
        if !votes {
            self.lanes_to_frame(value, WARP);
        }
        if lane != LaneValue::NONE {
            self.lanes_to_frame(lane, SOURCE_LANES);
        }
        // All registers of live values have been saved, or have been read as operands, so argument registers may be
        // overwritten.
        self.bits_of_batch(inst.mask, Gpr::RSI);
        if votes {
            self.bits_of_batch(value, Gpr::RDI);
            self.asm.mov(OperandSize::S64, Gpr::RCX, Gpr::RDI);
        }
        let (address, operation, elements) = runtime_functions::of_warp(op, elem);
        self.asm.mov(OperandSize::S64, Gpr::RDI, FRAME);
        self.asm.mov(OperandSize::S64, Gpr::RDX, LANE);
        self.asm.mov(OperandSize::S32, Gpr::R8, operation);
        self.asm.mov(OperandSize::S32, Gpr::R9, elements);
        self.asm.mov_imm64(Gpr::RAX, address as u64);
        self.asm.call(Gpr::RAX);
        self.asm.test(OperandSize::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(ConditionCode::Ne, self.leave);
        self.restore(&live);
        self.lanes_from_frame(inst.dst);
    }

    /// Returns the memory operand for a vector's lanes in a buffer of the frame.
    fn batch_slot(&self, at: i32, ty: LaneTy, copy: usize) -> Mem {
        let size = if ty == LaneTy::V64 { 8 } else { 4 };
        Self::slot(at + (copy * self.shape.width) as i32 * size)
    }

    pub(super) fn lanes_to_frame(&mut self, value: LaneValue, at: i32) {
        let ty = self.ty(value);
        for copy in 0..self.shape.vectors {
            let x = self.vector(value, copy, V[0]);
            let to = self.batch_slot(at, ty, copy);
            self.asm.vstore(false, self.len(ty), to, x, None);
        }
    }

    fn lanes_from_frame(&mut self, value: LaneValue) {
        let votes = self.ty(value) == LaneTy::Mask;
        let ty = if votes { LaneTy::V32 } else { self.ty(value) };
        let len = self.len(ty);
        for copy in 0..self.copies(value) {
            let from = self.batch_slot(WARP, ty, copy);
            if votes {
                self.asm.v2(V2::Move, len, V[1], from, Masking::None);
                let d = self.mask_for(value, copy, K7);
                self.mask_of_lanes(ty, d, V[1]);
                self.put_mask(value, copy, d);
            } else {
                let d = self.vector_for(value, copy, V[0]);
                self.asm.v2(V2::Move, len, d, from, Masking::None);
                self.put_vector(value, copy, d);
            }
        }
    }

    /// Sets `to` to the mask bits of all vectors in the batch, one bit per lane. Overwrites `rax`.
    pub(super) fn bits_of_batch(&mut self, mask: LaneValue, to: Gpr) {
        self.asm.alu(Alu::Xor, OperandSize::S32, to, to);
        for copy in (0..self.shape.vectors).rev() {
            let mask = self.mask(mask, copy, K7);
            self.mask_bits(Gpr::RAX, mask);
            // Clear the bits beyond the vector's lanes.
            self.asm.alu(Alu::And, OperandSize::S32, Gpr::RAX, (1 << self.shape.width) - 1);
            self.asm.shift_imm(ShiftOp::Shl, OperandSize::S64, to, self.shape.width as u8);
            self.asm.alu(Alu::Or, OperandSize::S64, to, Gpr::RAX);
        }
    }
}
