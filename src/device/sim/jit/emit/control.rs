//! The function around the body: one batch of lanes after the other; branches and loops.

use super::scalar::condition;
use super::*;
use crate::device::sim::jit::frame::{COORD_Y, COORD_Z, FORCED, MASK, NX, NY, ROW, ROW_END, TICKS, X_END, X_FIRST};
use crate::device::sim::lane::{Cond as When, Elem, Rel};

/// Registers that a function has to keep.
const KEPT: [Gpr; 6] = [Gpr::RBX, Gpr::RBP, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];

impl Emit<'_> {
    pub(super) fn function(&mut self) {
        KEPT.iter().for_each(|&r| self.asm.push(r));
        // Called functions want the stack aligned to 16 bytes.
        self.asm.alu(Alu::Sub, Size::S64, Gpr::RSP, 8);
        self.asm.mov(Size::S64, FRAME, Gpr::RDI);
        self.asm.mov(Size::S64, BUDGET, Self::slot(TICKS));
        let region = self.region;
        for inst in &region.setup {
            if !self.allocation.folds.covers(inst) {
                self.inst(inst);
            }
            self.position += 1;
        }
        let done = self.asm.label();
        if !self.in_batch {
            self.nodes(&region.body);
        } else if let Some(extents) = self.region.whole.filter(|extents| !extents.contains(&0)) {
            self.each_batch(extents, &region.body);
        } else if self.shape.rows {
            self.each_rows(done)
        } else {
            self.each_row(done)
        }
        self.asm.bind(done);
        let end = self.asm.label();
        self.asm.alu(Alu::Xor, Size::S32, Gpr::RAX, Gpr::RAX);
        self.asm.bind(end);
        self.asm.vzeroupper();
        self.asm.alu(Alu::Add, Size::S64, Gpr::RSP, 8);
        KEPT.iter().rev().for_each(|&r| self.asm.pop(r));
        self.asm.ret();
        self.cold_code();
        self.asm.bind(self.leave);
        self.asm.mov_imm64(Gpr::RAX, 1);
        self.asm.jmp(end);
    }

    /// Batches along each row.
    fn each_row(&mut self, done: Label) {
        let (row, along, next_row) = (self.asm.label(), self.asm.label(), self.asm.label());
        let lanes = (self.shape.width * self.shape.vectors) as i32;
        self.asm.bind(row);
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(ROW));
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RAX, Self::slot(ROW_END));
        self.asm.jcc(Cond::Ge, done);
        if self.rows {
            self.coordinates(0);
        }
        self.asm.mov(Size::S64, X, Self::slot(X_FIRST));
        self.first_lane();
        self.asm.bind(along);
        self.asm.alu(Alu::Cmp, Size::S64, X, Self::slot(X_END));
        self.asm.jcc(Cond::Ge, next_row);
        let region = self.region;
        self.nodes(&region.body);
        self.asm.bind(self.next);
        self.asm.alu(Alu::Add, Size::S64, X, lanes);
        self.asm.alu(Alu::Add, Size::S64, LANE, 4 * lanes);
        self.asm.jmp(along);
        self.asm.bind(next_row);
        self.asm.alu_mem(Alu::Add, Size::S64, Self::slot(ROW), 1);
        self.asm.jmp(row);
    }

    /// Batches of several rows.
    fn each_rows(&mut self, done: Label) {
        let rows = self.asm.label();
        self.asm.bind(rows);
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(ROW));
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RAX, Self::slot(ROW_END));
        self.asm.jcc(Cond::Ge, done);
        if self.rows {
            (0..self.shape.vectors).for_each(|copy| self.coordinates(copy));
        }
        self.asm.alu(Alu::Xor, Size::S32, X, X);
        self.first_lane();
        let region = self.region;
        self.nodes(&region.body);
        self.asm.bind(self.next);
        self.asm.alu_mem(Alu::Add, Size::S64, Self::slot(ROW), self.shape.vectors as i32);
        self.asm.jmp(rows);
    }

    /// Batches of a whole group of known extents, which they divide: lanes are numbered in the order of batches.
    pub(super) fn each_batch(&mut self, extents: [u32; 3], body: &[Node]) {
        let [nx, ny, nz] = extents.map(|n| n as i32);
        let lanes = (self.shape.width * self.shape.vectors) as i32;
        let rows = if self.shape.rows { self.shape.vectors } else { 1 };
        let count = i64::from(nx) * i64::from(ny) * i64::from(nz);
        self.asm.alu(Alu::Xor, Size::S32, LANE, LANE);
        if self.rows {
            for copy in 0..rows {
                self.asm.store_imm(Size::S64, Self::slot(COORD_Y + 8 * copy as i32), copy as i32);
                self.asm.store_imm(Size::S64, Self::slot(COORD_Z + 8 * copy as i32), 0);
            }
        }
        let (row, along) = (self.asm.label(), self.asm.label());
        self.asm.bind(row);
        self.asm.alu(Alu::Xor, Size::S32, X, X);
        self.asm.bind(along);
        self.nodes(body);
        if count == i64::from(lanes) {
            return;
        }
        self.asm.alu(Alu::Add, Size::S64, LANE, 4 * lanes);
        if !self.shape.rows && nx > lanes {
            self.asm.alu(Alu::Add, Size::S64, X, lanes);
            self.asm.alu(Alu::Cmp, Size::S64, X, nx);
            self.asm.jcc(Cond::B, along);
            if ny * nz == 1 {
                return;
            }
        }
        if self.rows {
            self.next_rows(rows, ny, nz);
        }
        self.asm.alu(Alu::Cmp, Size::S64, LANE, (4 * count) as i32);
        self.asm.jcc(Cond::B, row);
    }

    /// Advances the coordinates of rows. The number of rows in a plane is a multiple of what a batch has.
    fn next_rows(&mut self, rows: usize, ny: i32, nz: i32) {
        for copy in 0..rows {
            self.asm.alu_mem(Alu::Add, Size::S64, Self::slot(COORD_Y + 8 * copy as i32), rows as i32);
        }
        if nz == 1 {
            return;
        }
        let same = self.asm.label();
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(COORD_Y));
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RAX, ny);
        self.asm.jcc(Cond::B, same);
        for copy in 0..rows {
            self.asm.store_imm(Size::S64, Self::slot(COORD_Y + 8 * copy as i32), copy as i32);
            self.asm.alu_mem(Alu::Add, Size::S64, Self::slot(COORD_Z + 8 * copy as i32), 1);
        }
        self.asm.bind(same);
    }

    /// Computes four times the number of the first lane from row and x.
    fn first_lane(&mut self) {
        self.asm.mov(Size::S64, LANE, Self::slot(ROW));
        self.asm.imul(Size::S64, LANE, Self::slot(NX));
        self.asm.alu(Alu::Add, Size::S64, LANE, X);
        self.asm.shift_imm(Shift::Shl, Size::S64, LANE, 2);
    }

    /// Computes y and z of a vector's row. One that does not exist is taken for the last one: its mask is empty.
    fn coordinates(&mut self, copy: usize) {
        let flat = self.asm.label();
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(ROW));
        if copy > 0 {
            self.asm.alu(Alu::Add, Size::S64, Gpr::RAX, copy as i32);
            self.asm.mov(Size::S64, Gpr::RCX, Self::slot(ROW_END));
            self.asm.alu(Alu::Sub, Size::S64, Gpr::RCX, 1);
            self.asm.alu(Alu::Cmp, Size::S64, Gpr::RAX, Gpr::RCX);
            self.asm.cmov(Cond::G, Size::S64, Gpr::RAX, Gpr::RCX);
        }
        self.asm.alu(Alu::Xor, Size::S32, Gpr::RDX, Gpr::RDX);
        self.asm.mov(Size::S64, Gpr::RCX, Self::slot(NY));
        self.asm.store_imm(Size::S64, Self::slot(COORD_Z + 8 * copy as i32), 0);
        self.asm.store(Size::S64, Self::slot(COORD_Y + 8 * copy as i32), Gpr::RAX);
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RAX, Gpr::RCX);
        self.asm.jcc(Cond::B, flat);
        self.asm.div(Size::S64, Gpr::RCX);
        self.asm.store(Size::S64, Self::slot(COORD_Z + 8 * copy as i32), Gpr::RAX);
        self.asm.store(Size::S64, Self::slot(COORD_Y + 8 * copy as i32), Gpr::RDX);
        self.asm.bind(flat);
    }

    /// The masks of the lanes that exist and entered; goes on to the next batch if there are none.
    pub(super) fn entered(&mut self, inst: &Inst) {
        if self.region.whole.is_some() {
            return self.all_entered(inst);
        }
        let len = self.len(Ty::V32);
        let (end, from) = if self.shape.rows { (ROW_END, None) } else { (X_END, Some(X)) };
        self.asm.mov(Size::S64, Gpr::RAX, Self::slot(end));
        match from {
            Some(x) => self.asm.alu(Alu::Sub, Size::S64, Gpr::RAX, x),
            None => self.asm.alu(Alu::Sub, Size::S64, Gpr::RAX, Self::slot(ROW)),
        }
        self.asm.mov(Size::S64, Gpr::RDX, Self::slot(MASK));
        let vectors = self.shape.vectors;
        for copy in 0..vectors {
            let d = self.mask_for(inst.dst, copy, K7);
            let step = if self.shape.rows { 1 } else { self.shape.width };
            // Lanes that are left: of each, the number is below the distance to the end.
            let pool = self.multiples((copy * step) as i32, if self.shape.rows { 0 } else { 1 });
            self.asm.broadcast_gpr(Size::S32, len, V[1], Gpr::RAX, Masking::None);
            self.compare((Rel::Gt, Elem::I32), d, V[1], pool, None);
            let all = self.asm.label();
            self.asm.test(Size::S64, Gpr::RDX, Gpr::RDX);
            self.asm.jcc(Cond::E, all);
            let lanes = Mem::index(Gpr::RDX, LANE, 1, (4 * copy * self.shape.width) as i32);
            self.among(d, lanes);
            self.asm.bind(all);
            self.put_mask(inst.dst, copy, d);
            if copy == 0 {
                self.mask_move(K0, d);
            } else {
                self.mask_op(Kop::Or, K0, K0, d);
            }
        }
        self.mask_test(K0);
        self.asm.jcc(Cond::E, self.next);
    }

    /// In a whole group that is all lanes.
    fn all_entered(&mut self, inst: &Inst) {
        if !self.is_kept(inst.dst) {
            return;
        }
        for copy in 0..self.shape.vectors {
            let d = self.mask_for(inst.dst, copy, K7);
            if self.evex() {
                self.asm.mov_imm64(Gpr::RAX, self.all_bits());
                self.asm.kmov_from(d.k(), Gpr::RAX);
            } else {
                self.mask_fill(d, true);
            }
            self.put_mask(inst.dst, copy, d);
        }
    }

    pub(super) fn branch(&mut self, when: &When, to: Label) {
        match *when {
            When::Always => self.asm.jmp(to),
            When::Scalar(rel, elem, a, b) => {
                let (x, y) = (self.gpr(a, 0, Gpr::RCX), self.rm(b, 0, Gpr::RDX));
                self.asm.alu(Alu::Cmp, self.size(a), x, y);
                self.asm.jcc(condition(rel, elem), to);
            }
            When::None(mask) => {
                let vectors = self.copies(mask);
                let mut all = self.mask(mask, 0, K6);
                for copy in 1..vectors {
                    let other = self.mask(mask, copy, K7);
                    if copy + 1 == vectors {
                        self.mask_test_either(all, other);
                    } else {
                        self.mask_op(Kop::Or, K0, all, other);
                        all = K0;
                    }
                }
                if vectors == 1 {
                    self.mask_test(all);
                }
                self.asm.jcc(Cond::E, to);
            }
        }
    }

    /// A place at which the code can leave: in tests it does at the one that the entry has chosen.
    pub(super) fn leave_if_forced(&mut self) {
        if self.ways.forced {
            self.asm.alu_mem(Alu::Sub, Size::S64, Self::slot(FORCED), 1);
            self.asm.jcc(Cond::E, self.leave);
        }
    }

    /// The end of a loop's iteration: repeats it, and now and then looks whether to stop.
    pub(super) fn again(&mut self, top: Label) {
        self.leave_if_forced();
        self.asm.alu(Alu::Sub, Size::S64, BUDGET, 1);
        self.asm.jcc(Cond::Ne, top);
        self.cold_always(Cold::Poll, top);
    }
}
