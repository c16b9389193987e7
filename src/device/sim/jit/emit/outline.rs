//! Code that is rarely reached, behind the rest: precise checks where a quick one of all lanes fails, polls, and slow cases.

use std::ops::Range;

use super::*;
use crate::device::sim::jit::frame::{
    ASKED, LEAVE, POLL, POLL_ARG, REPORT, REPORT_ARG, RETURN, SETTLED, SETTLED_WORDS, TICKS, TOUCH, WARP,
};
use crate::device::sim::lane::{Cell, Elem, Form, Rel};

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
        self.asm.vzeroupper();
        self.asm.call(Gpr::RAX);
        self.asm.test(Size::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(Cond::Ne, self.leave);
        self.restore(&live);
        self.leave_if_forced();
    }

    /// Tells the checker what the active lanes are about to access; leaves if it might have to report it.
    pub(super) fn touch(&mut self, (cell, form, note): (Cell, Form, u32), inst: &Inst) {
        self.leave_if_forced();
        let (none, over) = (self.asm.label(), self.asm.label());
        let only_loaded = self.region.only_loaded_by(inst);
        let settled = only_loaded.filter(|&at| at < SETTLED_WORDS).map(|at| Self::slot(SETTLED + 4 * at));
        if let Some(settled) = settled {
            self.asm.alu_mem(Alu::Cmp, Size::S32, settled, 0);
            self.asm.jcc(Cond::Ne, over);
        }
        for copy in 0..self.shape.vectors {
            let to = match form {
                Form::Row => self.row(inst.args[0], cell, copy),
                Form::One => self.at(inst.args[0], copy),
                _ => {
                    let (address, constant) = self.allocation.folds.root(inst.args[0]);
                    Mem::at(self.gpr(address, copy, Gpr::RAX), constant)
                }
            };
            self.asm.lea(Size::S64, Gpr::RAX, to);
            self.asm.store(Size::S64, Self::slot(ASKED + 8 * copy as i32), Gpr::RAX);
        }
        let live = self.live();
        self.save(&live);
        if form.has_offsets() {
            self.lanes_to_frame(inst.args[1], WARP);
        }
        // All registers that values can have are saved or in use by now.
        self.bits_of_batch(inst.mask, Gpr::RSI);
        self.asm.test(Size::S64, Gpr::RSI, Gpr::RSI);
        self.asm.jcc(Cond::E, none);
        self.asm.mov(Size::S64, Gpr::RDI, Self::slot(REPORT_ARG));
        self.asm.mov(Size::S64, Gpr::RDX, LANE);
        self.asm.mov_imm64(Gpr::RCX, note.into());
        // Bytes from each lane's element to the next; those with offsets of their own have none.
        let step = match form {
            Form::Row => cell.size(),
            Form::One => 0,
            _ => -1,
        };
        self.asm.mov(Size::S32, Gpr::R8, step);
        self.asm.mov(Size::S32, Gpr::R9, i32::from(only_loaded.is_some()));
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(TOUCH));
        // Functions that are not for vectors are slow while registers are in use as whole ones.
        self.asm.vzeroupper();
        self.asm.call(Gpr::RAX);
        self.asm.alu(Alu::Cmp, Size::S32, Gpr::RAX, LEAVE);
        self.asm.jcc(Cond::E, self.leave);
        if let Some(settled) = settled {
            self.asm.store(Size::S32, settled, Gpr::RAX);
        }
        self.asm.bind(none);
        self.restore(&live);
        self.asm.bind(over);
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
