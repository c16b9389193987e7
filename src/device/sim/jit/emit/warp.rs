//! Operations among the lanes of warps: a function is called for the lanes of a batch, which has whole warps.
//!
//! Around the call, all live registers are saved; operands and result lie in the frame.

use super::*;
use crate::device::sim::jit::frame::{ASKED, WARP};
use crate::device::sim::jit::functions;
use crate::device::sim::lane::Elem;
use crate::lang::ops::WarpOp;

impl Emit<'_> {
    pub(super) fn warp(&mut self, op: WarpOp, elem: Elem, inst: &Inst) {
        self.leave_if_forced();
        let live = self.live();
        self.save(&live);
        let [value, lane, _] = inst.args;
        let votes = self.ty(value) == Ty::Mask;
        if !votes {
            self.lanes_to_frame(value, WARP);
        }
        if lane != Value::NONE {
            self.lanes_to_frame(lane, ASKED);
        }
        // All registers that values can have are saved or in use by now; those of arguments are filled in last.
        self.bits_of_batch(inst.mask, Gpr::RSI);
        if votes {
            self.bits_of_batch(value, Gpr::RDI);
            self.asm.mov(Size::S64, Gpr::RCX, Gpr::RDI);
        }
        let (address, operation, elements) = functions::of_warp(op, elem);
        self.asm.mov(Size::S64, Gpr::RDI, FRAME);
        self.asm.mov(Size::S64, Gpr::RDX, LANE);
        self.asm.mov(Size::S32, Gpr::R8, operation);
        self.asm.mov(Size::S32, Gpr::R9, elements);
        self.asm.mov_imm64(Gpr::RAX, address as u64);
        self.asm.call(Gpr::RAX);
        self.asm.test(Size::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(Cond::Ne, self.leave);
        self.restore(&live);
        self.lanes_from_frame(inst.dst);
    }

    /// Returns where the frame has the lanes of a vector of the batch.
    fn batch_slot(&self, at: i32, ty: Ty, copy: usize) -> Mem {
        let size = if ty == Ty::V64 { 8 } else { 4 };
        Self::slot(at + (copy * self.shape.width) as i32 * size)
    }

    pub(super) fn lanes_to_frame(&mut self, value: Value, at: i32) {
        let ty = self.ty(value);
        for copy in 0..self.shape.vectors {
            let x = self.vector(value, copy, V[0]);
            let to = self.batch_slot(at, ty, copy);
            self.asm.vstore(false, self.len(ty), to, x, None);
        }
    }

    fn lanes_from_frame(&mut self, value: Value) {
        let votes = self.ty(value) == Ty::Mask;
        let ty = if votes { Ty::V32 } else { self.ty(value) };
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

    /// Puts the bits of a mask's lanes, of all vectors, into a register. Overwrites `rax`.
    pub(super) fn bits_of_batch(&mut self, mask: Value, to: Gpr) {
        self.asm.alu(Alu::Xor, Size::S32, to, to);
        for copy in (0..self.shape.vectors).rev() {
            let mask = self.mask(mask, copy, K7);
            self.mask_bits(Gpr::RAX, mask);
            // Lanes that the vector does not have.
            self.asm.alu(Alu::And, Size::S32, Gpr::RAX, (1 << self.shape.width) - 1);
            self.asm.shift_imm(Shift::Shl, Size::S64, to, self.shape.width as u8);
            self.asm.alu(Alu::Or, Size::S64, to, Gpr::RAX);
        }
    }
}
