//! Emits instructions on scalars.

use super::*;
use crate::jit::frame::{COORD_Y, COORD_Z};
use crate::lir::{LaneBinOp, LaneComparison, LaneElem};

/// Returns the condition code for a comparison of integers.
pub(super) fn condition(rel: LaneComparison, elem: LaneElem) -> ConditionCode {
    match (rel, elem.is_signed()) {
        (LaneComparison::Eq, _) => ConditionCode::E,
        (LaneComparison::Ne, _) => ConditionCode::Ne,
        (LaneComparison::Lt, true) => ConditionCode::L,
        (LaneComparison::Le, true) => ConditionCode::Le,
        (LaneComparison::Gt, true) => ConditionCode::G,
        (LaneComparison::Ge, true) => ConditionCode::Ge,
        (LaneComparison::Lt, false) => ConditionCode::B,
        (LaneComparison::Le, false) => ConditionCode::Be,
        (LaneComparison::Gt, false) => ConditionCode::A,
        (LaneComparison::Ge, false) => ConditionCode::Ae,
    }
}

impl RegionEmitter<'_> {
    pub(super) fn scalar_inst(&mut self, inst: &LaneInst) {
        if inst.op == LaneOp::AnyActive {
            return self.any(inst);
        }
        if matches!(inst.op, LaneOp::Const(_) | LaneOp::Input(_)) && !self.is_kept(inst.dst) {
            return;
        }
        for copy in 0..self.copies(inst.dst) {
            self.scalar_copy(inst, copy);
        }
    }

    fn scalar_copy(&mut self, inst: &LaneInst, copy: usize) {
        let [a, b, c] = inst.args;
        let (size, d) = (self.size(inst.dst), self.gpr_for(inst.dst, copy, Gpr::RAX));
        match inst.op {
            LaneOp::Const(bits) => {
                self.asm.mov_imm64(d, if size == OperandSize::S32 { u64::from(bits as u32) } else { bits as u64 })
            }
            LaneOp::Input(input) => self.asm.mov(size, d, Self::slot(self.layout.offset(input))),
            LaneOp::Coord(0) => {
                let lane_offset = if self.shape.rows { 0 } else { copy * self.shape.width };
                self.asm.lea(OperandSize::S32, d, Mem::at(X, lane_offset as i32));
            }
            LaneOp::Coord(axis) => {
                let base = if axis == 1 { COORD_Y } else { COORD_Z };
                self.asm.mov(size, d, Self::slot(base + 8 * copy as i32));
            }
            LaneOp::Scalar(bin, elem) => return self.scalar_binary(bin, elem, inst, copy),
            LaneOp::CompareScalar(rel, elem) => {
                let (x, y) = (self.gpr(a, copy, Gpr::RCX), self.rm(b, copy, Gpr::RDX));
                self.asm.alu(Alu::Cmp, self.size(a), x, y);
                self.asm.setcc(condition(rel, elem), Gpr::RAX);
                self.asm.movzx8(Gpr::RAX, Gpr::RAX);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            LaneOp::Sext => match self.rm(a, copy, Gpr::RCX) {
                Rm::Imm(v) => self.asm.mov_imm64(d, i64::from(v) as u64),
                rm => self.asm.movsxd(d, rm),
            },
            LaneOp::Zext | LaneOp::Trunc => match self.rm(a, copy, Gpr::RCX) {
                Rm::Imm(v) => self.asm.mov_imm64(d, u64::from(v as u32)),
                rm => self.asm.mov(OperandSize::S32, d, rm),
            },
            LaneOp::SelectScalar => {
                let (cond, y) = (self.gpr(a, copy, Gpr::RCX), self.gpr(b, copy, Gpr::RDX));
                self.load_gpr(c, copy, Gpr::RAX);
                self.asm.test(OperandSize::S32, cond, cond);
                self.asm.cmov(ConditionCode::Ne, size, Gpr::RAX, y);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            LaneOp::RowLimit(c) => {
                let off = i64::from(c.unsigned_abs()) * (self.shape.span() - 1);
                self.load_gpr(a, copy, Gpr::RAX);
                self.asm.alu(Alu::Sub, OperandSize::S64, Gpr::RAX, off as i32);
                self.asm.alu(Alu::Xor, OperandSize::S32, Gpr::RCX, Gpr::RCX);
                self.asm.test(OperandSize::S64, Gpr::RAX, Gpr::RAX);
                self.asm.cmov(ConditionCode::S, OperandSize::S64, Gpr::RAX, Gpr::RCX);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            LaneOp::FirstLane => {
                let x = self.vector(a, copy, V[0]);
                self.asm.to_gpr(size, d, x);
            }
            _ => self.load_gpr(a, copy, d),
        }
        self.put_gpr(inst.dst, copy, d);
    }

    fn scalar_binary(&mut self, bin: LaneBinOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let size = self.size(inst.dst);
        match bin {
            LaneBinOp::Div | LaneBinOp::Rem => return self.scalar_divide(bin, elem, inst, copy),
            LaneBinOp::Shl | LaneBinOp::Shr => return self.scalar_shift(bin, elem, inst, copy),
            LaneBinOp::Min | LaneBinOp::Max => {
                let y = self.gpr(b, copy, Gpr::RCX);
                self.load_gpr(a, copy, Gpr::RAX);
                self.asm.alu(Alu::Cmp, size, Gpr::RAX, y);
                let worse =
                    condition(if bin == LaneBinOp::Min { LaneComparison::Gt } else { LaneComparison::Lt }, elem);
                self.asm.cmov(worse, size, Gpr::RAX, y);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            LaneBinOp::Mul => {
                if let Some(factor) = self.imm(b) {
                    let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
                    let x = self.gpr(a, copy, Gpr::RCX);
                    self.multiply(size, d, x, factor);
                    return self.put_gpr(inst.dst, copy, d);
                }
            }
            LaneBinOp::Add => {
                let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
                if let Some(addend) = self.imm(b) {
                    let x = self.gpr(a, copy, Gpr::RCX);
                    self.asm.lea(size, d, Mem::at(x, addend));
                    return self.put_gpr(inst.dst, copy, d);
                }
                let (x, y) = (self.gpr(a, copy, Gpr::RCX), self.gpr(b, copy, Gpr::RDX));
                self.asm.lea(size, d, Mem::index(x, y, 1, 0));
                return self.put_gpr(inst.dst, copy, d);
            }
            _ => {}
        }
        self.load_gpr(a, copy, Gpr::RAX);
        let y = self.rm(b, copy, Gpr::RCX);
        match bin {
            LaneBinOp::Sub => self.asm.alu(Alu::Sub, size, Gpr::RAX, y),
            LaneBinOp::And => self.asm.alu(Alu::And, size, Gpr::RAX, y),
            LaneBinOp::Or => self.asm.alu(Alu::Or, size, Gpr::RAX, y),
            LaneBinOp::Xor => self.asm.alu(Alu::Xor, size, Gpr::RAX, y),
            _ => match y {
                Rm::Imm(v) => self.asm.imul_imm(size, Gpr::RAX, Gpr::RAX, v),
                y => self.asm.imul(size, Gpr::RAX, y),
            },
        }
        self.put_gpr(inst.dst, copy, Gpr::RAX);
    }

    fn multiply(&mut self, size: OperandSize, d: Gpr, a: Gpr, factor: i32) {
        match factor {
            2 | 4 | 8 | 16.. if (factor as u32).is_power_of_two() => {
                if d != a {
                    self.asm.mov(size, d, a);
                }
                self.asm.shift_imm(ShiftOp::Shl, size, d, factor.trailing_zeros() as u8);
            }
            _ => self.asm.imul_imm(size, d, a, factor),
        }
    }

    fn scalar_shift(&mut self, bin: LaneBinOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let size = self.size(inst.dst);
        let op = match bin {
            LaneBinOp::Shl => ShiftOp::Shl,
            _ if elem.is_signed() => ShiftOp::Sar,
            _ => ShiftOp::Shr,
        };
        let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
        let (x, y) = (self.gpr(a, copy, Gpr::RCX), self.gpr(b, copy, Gpr::RDX));
        self.asm.shift(op, size, d, x, y);
        self.put_gpr(inst.dst, copy, d);
    }

    /// Emits the division of `rdx:rax` by `rcx`.
    fn scalar_divide(&mut self, bin: LaneBinOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let size = self.size(inst.dst);
        self.load_gpr(b, copy, Gpr::RCX);
        self.load_gpr(a, copy, Gpr::RAX);
        if elem.is_signed() {
            self.asm.cdq(size);
            self.asm.idiv(size, Gpr::RCX);
        } else {
            self.asm.alu(Alu::Xor, OperandSize::S32, Gpr::RDX, Gpr::RDX);
            self.asm.div(size, Gpr::RCX);
        }
        self.put_gpr(inst.dst, copy, if bin == LaneBinOp::Div { Gpr::RAX } else { Gpr::RDX });
    }

    /// Emits code for [`LaneOp::AnyActive`]: whether a mask contains an active lane of the batch.
    fn any(&mut self, inst: &LaneInst) {
        for copy in 0..self.copies(inst.args[0]) {
            let (mask, active) = (self.mask(inst.args[0], copy, K6), self.mask(inst.mask, copy, K7));
            self.mask_op(Kop::And, K7, mask, active);
            if copy == 0 {
                self.mask_move(K0, K7);
            } else {
                self.mask_op(Kop::Or, K0, K0, K7);
            }
        }
        self.mask_test(K0);
        self.asm.setcc(ConditionCode::Ne, Gpr::RAX);
        self.asm.movzx8(Gpr::RAX, Gpr::RAX);
        self.put_gpr(inst.dst, 0, Gpr::RAX);
    }
}
