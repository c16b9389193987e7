//! Instructions on scalars.

use super::*;
use crate::device::sim::jit::frame::{COORD_Y, COORD_Z};
use crate::device::sim::lane::{Bin, Elem, Rel};

/// Returns the condition of a comparison of integers.
pub(super) fn condition(rel: Rel, elem: Elem) -> Cond {
    match (rel, elem.is_signed()) {
        (Rel::Eq, _) => Cond::E,
        (Rel::Ne, _) => Cond::Ne,
        (Rel::Lt, true) => Cond::L,
        (Rel::Le, true) => Cond::Le,
        (Rel::Gt, true) => Cond::G,
        (Rel::Ge, true) => Cond::Ge,
        (Rel::Lt, false) => Cond::B,
        (Rel::Le, false) => Cond::Be,
        (Rel::Gt, false) => Cond::A,
        (Rel::Ge, false) => Cond::Ae,
    }
}

impl Emit<'_> {
    pub(super) fn scalar_inst(&mut self, inst: &Inst) {
        if inst.op == Op::Any {
            return self.any(inst);
        }
        if matches!(inst.op, Op::Const(_) | Op::Input(_)) && !self.is_kept(inst.dst) {
            return;
        }
        for copy in 0..self.copies(inst.dst) {
            self.scalar_copy(inst, copy);
        }
    }

    fn scalar_copy(&mut self, inst: &Inst, copy: usize) {
        let [a, b, c] = inst.args;
        let (size, d) = (self.size(inst.dst), self.gpr_for(inst.dst, copy, Gpr::RAX));
        match inst.op {
            Op::Const(bits) => {
                self.asm.mov_imm64(d, if size == Size::S32 { u64::from(bits as u32) } else { bits as u64 })
            }
            Op::Input(input) => self.asm.mov(size, d, Self::slot(self.layout.offset(input))),
            Op::Coord(0) => {
                let along = if self.shape.rows { 0 } else { copy * self.shape.width };
                self.asm.lea(Size::S32, d, Mem::at(X, along as i32));
            }
            Op::Coord(axis) => {
                let base = if axis == 1 { COORD_Y } else { COORD_Z };
                self.asm.mov(size, d, Self::slot(base + 8 * copy as i32));
            }
            Op::Scalar(bin, elem) => return self.scalar_binary(bin, elem, inst, copy),
            Op::Set(rel, elem) => {
                let (x, y) = (self.gpr(a, copy, Gpr::RCX), self.rm(b, copy, Gpr::RDX));
                self.asm.alu(Alu::Cmp, self.size(a), x, y);
                self.asm.setcc(condition(rel, elem), Gpr::RAX);
                self.asm.movzx8(Gpr::RAX, Gpr::RAX);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            Op::Sext => match self.rm(a, copy, Gpr::RCX) {
                Rm::Imm(v) => self.asm.mov_imm64(d, i64::from(v) as u64),
                rm => self.asm.movsxd(d, rm),
            },
            Op::Zext | Op::Trunc => match self.rm(a, copy, Gpr::RCX) {
                Rm::Imm(v) => self.asm.mov_imm64(d, u64::from(v as u32)),
                rm => self.asm.mov(Size::S32, d, rm),
            },
            Op::Choose => {
                let (cond, y) = (self.gpr(a, copy, Gpr::RCX), self.gpr(b, copy, Gpr::RDX));
                self.load_gpr(c, copy, Gpr::RAX);
                self.asm.test(Size::S32, cond, cond);
                self.asm.cmov(Cond::Ne, size, Gpr::RAX, y);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            Op::Limit(c) => {
                let off = i64::from(c.unsigned_abs()) * (self.shape.span() - 1);
                self.load_gpr(a, copy, Gpr::RAX);
                self.asm.alu(Alu::Sub, Size::S64, Gpr::RAX, off as i32);
                self.asm.alu(Alu::Xor, Size::S32, Gpr::RCX, Gpr::RCX);
                self.asm.test(Size::S64, Gpr::RAX, Gpr::RAX);
                self.asm.cmov(Cond::S, Size::S64, Gpr::RAX, Gpr::RCX);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            Op::FirstLane => {
                let x = self.vector(a, copy, V[0]);
                self.asm.to_gpr(size, d, x);
            }
            _ => self.load_gpr(a, copy, d),
        }
        self.put_gpr(inst.dst, copy, d);
    }

    fn scalar_binary(&mut self, bin: Bin, elem: Elem, inst: &Inst, copy: usize) {
        let [a, b, _] = inst.args;
        let size = self.size(inst.dst);
        match bin {
            Bin::Div | Bin::Rem => return self.scalar_divide(bin, elem, inst, copy),
            Bin::Shl | Bin::Shr => return self.scalar_shift(bin, elem, inst, copy),
            Bin::Min | Bin::Max => {
                let y = self.gpr(b, copy, Gpr::RCX);
                self.load_gpr(a, copy, Gpr::RAX);
                self.asm.alu(Alu::Cmp, size, Gpr::RAX, y);
                let worse = condition(if bin == Bin::Min { Rel::Gt } else { Rel::Lt }, elem);
                self.asm.cmov(worse, size, Gpr::RAX, y);
                return self.put_gpr(inst.dst, copy, Gpr::RAX);
            }
            Bin::Mul => {
                if let Some(factor) = self.imm(b) {
                    let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
                    let x = self.gpr(a, copy, Gpr::RCX);
                    self.multiply(size, d, x, factor);
                    return self.put_gpr(inst.dst, copy, d);
                }
            }
            Bin::Add => {
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
            Bin::Sub => self.asm.alu(Alu::Sub, size, Gpr::RAX, y),
            Bin::And => self.asm.alu(Alu::And, size, Gpr::RAX, y),
            Bin::Or => self.asm.alu(Alu::Or, size, Gpr::RAX, y),
            Bin::Xor => self.asm.alu(Alu::Xor, size, Gpr::RAX, y),
            _ => match y {
                Rm::Imm(v) => self.asm.imul_imm(size, Gpr::RAX, Gpr::RAX, v),
                y => self.asm.imul(size, Gpr::RAX, y),
            },
        }
        self.put_gpr(inst.dst, copy, Gpr::RAX);
    }

    fn multiply(&mut self, size: Size, d: Gpr, a: Gpr, factor: i32) {
        match factor {
            2 | 4 | 8 | 16.. if (factor as u32).is_power_of_two() => {
                if d != a {
                    self.asm.mov(size, d, a);
                }
                self.asm.shift_imm(Shift::Shl, size, d, factor.trailing_zeros() as u8);
            }
            _ => self.asm.imul_imm(size, d, a, factor),
        }
    }

    fn scalar_shift(&mut self, bin: Bin, elem: Elem, inst: &Inst, copy: usize) {
        let [a, b, _] = inst.args;
        let size = self.size(inst.dst);
        let op = match bin {
            Bin::Shl => Shift::Shl,
            _ if elem.is_signed() => Shift::Sar,
            _ => Shift::Shr,
        };
        let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
        let (x, y) = (self.gpr(a, copy, Gpr::RCX), self.gpr(b, copy, Gpr::RDX));
        self.asm.shift(op, size, d, x, y);
        self.put_gpr(inst.dst, copy, d);
    }

    /// `rdx:rax / rcx`
    fn scalar_divide(&mut self, bin: Bin, elem: Elem, inst: &Inst, copy: usize) {
        let [a, b, _] = inst.args;
        let size = self.size(inst.dst);
        self.load_gpr(b, copy, Gpr::RCX);
        self.load_gpr(a, copy, Gpr::RAX);
        if elem.is_signed() {
            self.asm.cdq(size);
            self.asm.idiv(size, Gpr::RCX);
        } else {
            self.asm.alu(Alu::Xor, Size::S32, Gpr::RDX, Gpr::RDX);
            self.asm.div(size, Gpr::RCX);
        }
        self.put_gpr(inst.dst, copy, if bin == Bin::Div { Gpr::RAX } else { Gpr::RDX });
    }

    /// Whether any active lane of the batch is in a mask.
    fn any(&mut self, inst: &Inst) {
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
        self.asm.setcc(Cond::Ne, Gpr::RAX);
        self.asm.movzx8(Gpr::RAX, Gpr::RAX);
        self.put_gpr(inst.dst, 0, Gpr::RAX);
    }
}
