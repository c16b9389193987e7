//! Emits the prologue and epilogue of the function, the loop over batches, branches, and loops.

use super::scalar::condition;
use super::*;
use crate::jit::frame::{COORD_Y, COORD_Z, FORCED_EXIT, MASK, NX, NY, ROW, ROW_END, TICKS, X_END, X_FIRST};
use crate::lir::{BranchCond, LaneComparison, LaneElem};

/// The callee-saved registers.
const CALLEE_SAVED: [Gpr; 6] = [Gpr::RBX, Gpr::RBP, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];

impl RegionEmitter<'_> {
    pub(super) fn function(&mut self) {
        CALLEE_SAVED.iter().for_each(|&r| self.asm.push(r));
        // Align the stack to 16 bytes, as called functions require.
        self.asm.alu(Alu::Sub, OperandSize::S64, Gpr::RSP, 8);
        self.asm.mov(OperandSize::S64, FRAME, Gpr::RDI);
        self.asm.mov(OperandSize::S64, BUDGET, Self::slot(TICKS));
        let region = self.region;
        for inst in &region.setup {
            if !self.allocation.folds.is_folded(inst) {
                self.inst(inst);
            }
            self.position += 1;
        }
        let done = self.asm.label();
        if !self.in_batch {
            self.nodes(&region.body);
        } else if let Some(extents) = self.region.full_group.filter(|extents| !extents.contains(&0)) {
            self.each_batch(extents, &region.body);
        } else if self.shape.rows {
            self.each_rows(done)
        } else {
            self.each_row(done)
        }
        self.asm.bind(done);
        let end = self.asm.label();
        self.asm.alu(Alu::Xor, OperandSize::S32, Gpr::RAX, Gpr::RAX);
        self.asm.bind(end);
        self.asm.vzeroupper();
        self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RSP, 8);
        CALLEE_SAVED.iter().rev().for_each(|&r| self.asm.pop(r));
        self.asm.ret();
        self.cold_code();
        self.asm.bind(self.leave);
        self.asm.mov_imm64(Gpr::RAX, 1);
        self.asm.jmp(end);
    }

    /// Emits the loop over batches. Each batch is part of one row.
    fn each_row(&mut self, done: CodeLabel) {
        let (row, along, next_row) = (self.asm.label(), self.asm.label(), self.asm.label());
        let lanes = (self.shape.width * self.shape.vectors) as i32;
        self.asm.bind(row);
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(ROW));
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RAX, Self::slot(ROW_END));
        self.asm.jcc(ConditionCode::Ge, done);
        if self.rows {
            self.coordinates(0);
        }
        self.asm.mov(OperandSize::S64, X, Self::slot(X_FIRST));
        self.first_lane();
        self.asm.bind(along);
        self.asm.alu(Alu::Cmp, OperandSize::S64, X, Self::slot(X_END));
        self.asm.jcc(ConditionCode::Ge, next_row);
        let region = self.region;
        self.nodes(&region.body);
        self.asm.bind(self.next);
        self.asm.alu(Alu::Add, OperandSize::S64, X, lanes);
        self.asm.alu(Alu::Add, OperandSize::S64, LANE, 4 * lanes);
        self.asm.jmp(along);
        self.asm.bind(next_row);
        self.asm.alu_mem(Alu::Add, OperandSize::S64, Self::slot(ROW), 1);
        self.asm.jmp(row);
    }

    /// Emits the loop over batches. Each batch consists of several rows.
    fn each_rows(&mut self, done: CodeLabel) {
        let rows = self.asm.label();
        self.asm.bind(rows);
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(ROW));
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RAX, Self::slot(ROW_END));
        self.asm.jcc(ConditionCode::Ge, done);
        if self.rows {
            (0..self.shape.vectors).for_each(|copy| self.coordinates(copy));
        }
        self.asm.alu(Alu::Xor, OperandSize::S32, X, X);
        self.first_lane();
        let region = self.region;
        self.nodes(&region.body);
        self.asm.bind(self.next);
        self.asm.alu_mem(Alu::Add, OperandSize::S64, Self::slot(ROW), self.shape.vectors as i32);
        self.asm.jmp(rows);
    }

    /// Emits the loop over the batches of a full group of known extents. Lane numbers increase from batch to batch.
    pub(super) fn each_batch(&mut self, extents: [u32; 3], body: &[LaneNode]) {
        let [nx, ny, nz] = extents.map(|n| n as i32);
        let lanes = (self.shape.width * self.shape.vectors) as i32;
        let rows = if self.shape.rows { self.shape.vectors } else { 1 };
        let count = i64::from(nx) * i64::from(ny) * i64::from(nz);
        self.asm.alu(Alu::Xor, OperandSize::S32, LANE, LANE);
        if self.rows {
            for copy in 0..rows {
                self.asm.store_imm(OperandSize::S64, Self::slot(COORD_Y + 8 * copy as i32), copy as i32);
                self.asm.store_imm(OperandSize::S64, Self::slot(COORD_Z + 8 * copy as i32), 0);
            }
        }
        let (row, along) = (self.asm.label(), self.asm.label());
        self.asm.bind(row);
        self.asm.alu(Alu::Xor, OperandSize::S32, X, X);
        self.asm.bind(along);
        self.nodes(body);
        if count == i64::from(lanes) {
            return;
        }
        self.asm.alu(Alu::Add, OperandSize::S64, LANE, 4 * lanes);
        if !self.shape.rows && nx > lanes {
            self.asm.alu(Alu::Add, OperandSize::S64, X, lanes);
            self.asm.alu(Alu::Cmp, OperandSize::S64, X, nx);
            self.asm.jcc(ConditionCode::B, along);
            if ny * nz == 1 {
                return;
            }
        }
        if self.rows {
            self.next_rows(rows, ny, nz);
        }
        self.asm.alu(Alu::Cmp, OperandSize::S64, LANE, (4 * count) as i32);
        self.asm.jcc(ConditionCode::B, row);
    }

    /// Advances y and z to the rows of the next batch. The number of rows in a plane must be a multiple of the number
    /// of rows in a batch.
    fn next_rows(&mut self, rows: usize, ny: i32, nz: i32) {
        for copy in 0..rows {
            self.asm.alu_mem(Alu::Add, OperandSize::S64, Self::slot(COORD_Y + 8 * copy as i32), rows as i32);
        }
        if nz == 1 {
            return;
        }
        let same = self.asm.label();
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(COORD_Y));
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RAX, ny);
        self.asm.jcc(ConditionCode::B, same);
        for copy in 0..rows {
            self.asm.store_imm(OperandSize::S64, Self::slot(COORD_Y + 8 * copy as i32), copy as i32);
            self.asm.alu_mem(Alu::Add, OperandSize::S64, Self::slot(COORD_Z + 8 * copy as i32), 1);
        }
        self.asm.bind(same);
    }

    /// Computes `LANE`, which is four times the number of the batch's first lane, from the row and x.
    fn first_lane(&mut self) {
        self.asm.mov(OperandSize::S64, LANE, Self::slot(ROW));
        self.asm.imul(OperandSize::S64, LANE, Self::slot(NX));
        self.asm.alu(Alu::Add, OperandSize::S64, LANE, X);
        self.asm.shift_imm(ShiftOp::Shl, OperandSize::S64, LANE, 2);
    }

    /// Computes y and z of a vector's row. A row beyond the end is replaced by the last row; the mask of its lanes is
    /// empty.
    fn coordinates(&mut self, copy: usize) {
        let flat = self.asm.label();
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(ROW));
        if copy > 0 {
            self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RAX, copy as i32);
            self.asm.mov(OperandSize::S64, Gpr::RCX, Self::slot(ROW_END));
            self.asm.alu(Alu::Sub, OperandSize::S64, Gpr::RCX, 1);
            self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RAX, Gpr::RCX);
            self.asm.cmov(ConditionCode::G, OperandSize::S64, Gpr::RAX, Gpr::RCX);
        }
        self.asm.alu(Alu::Xor, OperandSize::S32, Gpr::RDX, Gpr::RDX);
        self.asm.mov(OperandSize::S64, Gpr::RCX, Self::slot(NY));
        self.asm.store_imm(OperandSize::S64, Self::slot(COORD_Z + 8 * copy as i32), 0);
        self.asm.store(OperandSize::S64, Self::slot(COORD_Y + 8 * copy as i32), Gpr::RAX);
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RAX, Gpr::RCX);
        self.asm.jcc(ConditionCode::B, flat);
        self.asm.div(OperandSize::S64, Gpr::RCX);
        self.asm.store(OperandSize::S64, Self::slot(COORD_Z + 8 * copy as i32), Gpr::RAX);
        self.asm.store(OperandSize::S64, Self::slot(COORD_Y + 8 * copy as i32), Gpr::RDX);
        self.asm.bind(flat);
    }

    /// Computes the masks of the lanes that exist and that entered the region. If a batch has no such lanes, the code
    /// continues with the next batch.
    pub(super) fn entered(&mut self, inst: &LaneInst) {
        if self.region.full_group.is_some() {
            return self.all_entered(inst);
        }
        let len = self.len(LaneTy::V32);
        let (end, from) = if self.shape.rows { (ROW_END, None) } else { (X_END, Some(X)) };
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(end));
        match from {
            Some(x) => self.asm.alu(Alu::Sub, OperandSize::S64, Gpr::RAX, x),
            None => self.asm.alu(Alu::Sub, OperandSize::S64, Gpr::RAX, Self::slot(ROW)),
        }
        self.asm.mov(OperandSize::S64, Gpr::RDX, Self::slot(MASK));
        let vectors = self.shape.vectors;
        for copy in 0..vectors {
            let d = self.mask_for(inst.dst, copy, K7);
            let step = if self.shape.rows { 1 } else { self.shape.width };
            // A lane exists if its number in the batch is below the distance from the batch's start to the end of the
            // row.
            let pool = self.lane_multiples((copy * step) as i32, if self.shape.rows { 0 } else { 1 });
            self.asm.broadcast_gpr(OperandSize::S32, len, V[1], Gpr::RAX, Masking::None);
            self.compare(LaneComparison::Gt, LaneElem::I32, d, V[1], pool, None);
            let all = self.asm.label();
            self.asm.test(OperandSize::S64, Gpr::RDX, Gpr::RDX);
            self.asm.jcc(ConditionCode::E, all);
            let lanes = Mem::index(Gpr::RDX, LANE, 1, (4 * copy * self.shape.width) as i32);
            self.restrict_mask(d, lanes);
            self.asm.bind(all);
            self.put_mask(inst.dst, copy, d);
            if copy == 0 {
                self.mask_move(K0, d);
            } else {
                self.mask_op(Kop::Or, K0, K0, d);
            }
        }
        self.mask_test(K0);
        self.asm.jcc(ConditionCode::E, self.next);
    }

    /// Sets the entry masks to all lanes: in a full group, all lanes have entered.
    fn all_entered(&mut self, inst: &LaneInst) {
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

    pub(super) fn branch(&mut self, when: &BranchCond, to: CodeLabel) {
        match *when {
            BranchCond::Always => self.asm.jmp(to),
            BranchCond::Scalar(rel, elem, a, b) => {
                let (x, y) = (self.gpr(a, 0, Gpr::RCX), self.rm(b, 0, Gpr::RDX));
                self.asm.alu(Alu::Cmp, self.size(a), x, y);
                self.asm.jcc(condition(rel, elem), to);
            }
            BranchCond::MaskEmpty(mask) => {
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
                self.asm.jcc(ConditionCode::E, to);
            }
        }
    }

    /// Emits a possible side exit for tests: counts down, and takes the side exit when the count that the entry has
    /// chosen reaches zero.
    pub(super) fn leave_if_forced(&mut self) {
        if self.ways.forced {
            self.asm.alu_mem(Alu::Sub, OperandSize::S64, Self::slot(FORCED_EXIT), 1);
            self.asm.jcc(ConditionCode::E, self.leave);
        }
    }

    /// Emits the end of a loop iteration: jumps to the top, and polls the stop flag whenever the budget of iterations
    /// is used up.
    pub(super) fn loop_back(&mut self, top: CodeLabel) {
        self.leave_if_forced();
        self.asm.alu(Alu::Sub, OperandSize::S64, BUDGET, 1);
        self.asm.jcc(ConditionCode::Ne, top);
        self.cold_always(ColdPath::Poll, top);
    }
}
