//! Code that is rarely reached, behind the rest: precise checks where a quick one of all lanes fails, polls, and slow cases.

use std::ops::Range;

use super::*;
use crate::device::sim::jit::frame::{POLL, POLL_ARG, REPORT, REPORT_ARG, RETURN, TICKS};
use crate::device::sim::lane::{Elem, Rel};

impl Emit<'_> {
    /// Jumps out of line on a condition; returns the label to bind where the code goes on.
    pub(super) fn cold_if(&mut self, cond: Cond, cold: Cold) -> Label {
        let (there, back) = (self.asm.label(), self.asm.label());
        self.asm.jcc(cond, there);
        self.cold.push((cold, there, back));
        back
    }

    /// Jumps out of line.
    pub(super) fn cold_always(&mut self, cold: Cold, back: Label) {
        let there = self.asm.label();
        self.asm.jmp(there);
        self.cold.push((cold, there, back));
    }

    pub(super) fn cold_code(&mut self) {
        let mut polls = vec![];
        let stub = self.asm.label();
        for (cold, there, back) in std::mem::take(&mut self.cold) {
            self.asm.bind(there);
            match cold {
                Cold::One { mask, vectors } => {
                    for copy in vectors {
                        let mask = self.mask(mask, copy, K7);
                        self.mask_test(mask);
                        self.asm.jcc(Cond::Ne, self.leave);
                    }
                }
                Cold::Row { inst, c, copy, vectors } => self.precise_row(&inst, c, copy, vectors),
                Cold::Rsqrt { x } => self.rsqrt_wide(x),
                Cold::Poll => {
                    self.asm.store_imm(Size::S32, Self::slot(RETURN), polls.len() as i32);
                    polls.push(back);
                    self.asm.jmp(stub);
                    continue;
                }
            }
            self.asm.jmp(back);
        }
        self.asm.bind(stub);
        if !polls.is_empty() {
            self.poll_stub(&polls);
        }
    }

    /// Compares the index of each lane, modulo 2^32 like the interpreter. The row itself has to be an `i32`.
    fn precise_row(&mut self, inst: &Inst, c: i32, copy: usize, vectors: Range<usize>) {
        let [row, _, extent] = inst.args;
        let len = self.len(Ty::V32);
        self.load_gpr(row, copy, Gpr::RAX);
        self.asm.movsxd(Gpr::RCX, Gpr::RAX);
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RCX, Gpr::RAX);
        self.asm.jcc(Cond::Ne, self.leave);
        let pool = self.multiples(0, c);
        for vector in vectors {
            let along = if self.shape.rows { 0 } else { vector * self.shape.width };
            self.asm.lea(Size::S32, Gpr::RCX, Mem::at(X, along as i32));
            self.asm.imul_imm(Size::S32, Gpr::RCX, Gpr::RCX, c);
            self.asm.alu(Alu::Add, Size::S32, Gpr::RCX, Gpr::RAX);
            self.asm.broadcast_gpr(Size::S32, len, V[1], Gpr::RCX, Masking::None);
            self.asm.v3(V3::AddD, len, V[1], V[1], pool, Masking::None);
            let bound = self.gpr(extent, vector, Gpr::RDX);
            self.asm.broadcast_gpr(Size::S32, len, V[2], bound, Masking::None);
            let mask = self.lanes(inst, vector, K7);
            self.compare((Rel::Ge, Elem::U32), K7, V[1], Src::Reg(V[2]), mask);
            self.mask_test(K7);
            self.asm.jcc(Cond::Ne, self.leave);
        }
    }

    /// Tells the checker of the region's accesses; leaves if it might have to report one.
    pub(super) fn report(&mut self) {
        let live = self.live();
        self.save(&live);
        self.asm.mov(Size::S64, Gpr::RDI, Self::slot(REPORT_ARG));
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(REPORT));
        self.asm.call(Gpr::RAX);
        self.asm.test(Size::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(Cond::Ne, self.leave);
        self.restore(&live);
        self.leave_if_forced();
    }

    /// Calls the poll with all registers saved, and returns to where it was needed.
    fn poll_stub(&mut self, polls: &[Label]) {
        let all = self.save_all();
        self.asm.mov(Size::S64, Gpr::RDI, Self::slot(POLL_ARG));
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(POLL));
        self.asm.call(Gpr::RAX);
        self.asm.test(Size::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(Cond::Ne, self.leave);
        self.asm.mov(Size::S64, BUDGET, Self::slot(TICKS));
        self.restore(&all);
        self.asm.mov(Size::S32, Gpr::RAX, Self::slot(RETURN));
        for (number, &back) in polls.iter().enumerate() {
            self.asm.alu(Alu::Cmp, Size::S32, Gpr::RAX, number as i32);
            self.asm.jcc(Cond::E, back);
        }
        self.asm.ud2();
    }
}
