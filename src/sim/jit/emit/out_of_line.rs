//! Emits cold code after the rest of the function: precise bounds checks for when a conservative check fails, polls of
//! the stop flag, and slow cases of operations.

use std::ops::Range;

use super::*;
use crate::jit::frame::{
    CHECKED_MEMORIES, CHECKED_MEMORY_WORDS, EXIT_RESULT, POLL, POLL_ARG, REPORT, REPORT_ACCESS, REPORT_ARG, RETURN,
    SOURCE_LANES, TICKS, WARP,
};
use crate::lir::{AddressForm, LaneComparison, LaneElem, MemoryWidth};

impl RegionEmitter<'_> {
    /// Emits a conditional jump to a cold path. Returns the label to which the cold path jumps back; the caller must
    /// bind it.
    pub(super) fn jump_cold_if(&mut self, cond: ConditionCode, cold: ColdPath) -> CodeLabel {
        let (cold_label, back) = (self.asm.label(), self.asm.label());
        self.asm.jcc(cond, cold_label);
        self.cold.push((cold, cold_label, back));
        back
    }

    /// Emits an unconditional jump to a cold path.
    pub(super) fn cold_always(&mut self, cold: ColdPath, back: CodeLabel) {
        let cold_label = self.asm.label();
        self.asm.jmp(cold_label);
        self.cold.push((cold, cold_label, back));
    }

    pub(super) fn cold_code(&mut self) {
        let mut polls = vec![];
        let stub = self.asm.label();
        for (cold, cold_label, back) in std::mem::take(&mut self.cold) {
            self.asm.bind(cold_label);
            match cold {
                ColdPath::One { mask, vectors } => {
                    for copy in vectors {
                        let mask = self.mask(mask, copy, K7);
                        self.mask_test(mask);
                        self.asm.jcc(ConditionCode::Ne, self.leave);
                    }
                }
                ColdPath::Row { inst, c, copy, vectors } => self.precise_row(&inst, c, copy, vectors),
                ColdPath::Rsqrt { x } => self.rsqrt_wide(x),
                ColdPath::Poll => {
                    self.asm.store_imm(OperandSize::S32, Self::slot(RETURN), polls.len() as i32);
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

    /// Checks the index of each lane, computed modulo 2^32 as in the interpreter. The `row` operand itself must fit in
    /// an `i32`.
    fn precise_row(&mut self, inst: &LaneInst, c: i32, copy: usize, vectors: Range<usize>) {
        let [row, _, extent] = inst.args;
        let len = self.len(LaneTy::V32);
        self.load_gpr(row, copy, Gpr::RAX);
        self.asm.movsxd(Gpr::RCX, Gpr::RAX);
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RCX, Gpr::RAX);
        self.asm.jcc(ConditionCode::Ne, self.leave);
        let pool = self.lane_multiples(0, c);
        for vector in vectors {
            let lane_offset = if self.shape.rows { 0 } else { vector * self.shape.width };
            self.asm.lea(OperandSize::S32, Gpr::RCX, Mem::at(X, lane_offset as i32));
            self.asm.imul_imm(OperandSize::S32, Gpr::RCX, Gpr::RCX, c);
            self.asm.alu(Alu::Add, OperandSize::S32, Gpr::RCX, Gpr::RAX);
            self.asm.broadcast_gpr(OperandSize::S32, len, V[1], Gpr::RCX, Masking::None);
            self.asm.v3(V3::AddD, len, V[1], V[1], pool, Masking::None);
            let bound = self.gpr(extent, vector, Gpr::RDX);
            self.asm.broadcast_gpr(OperandSize::S32, len, V[2], bound, Masking::None);
            let mask = self.lanes(inst, vector, K7);
            self.compare(LaneComparison::Ge, LaneElem::U32, K7, V[1], Src::Reg(V[2]), mask);
            self.mask_test(K7);
            self.asm.jcc(ConditionCode::Ne, self.leave);
        }
    }

    /// Emits a call that submits the hoisted reports to the sanitizer, and a side exit that is taken if one of the
    /// accesses might be a fault.
    pub(super) fn submit_reports(&mut self) {
        let live = self.live();
        self.save(&live);
        self.asm.mov(OperandSize::S64, Gpr::RDI, Self::slot(REPORT_ARG));
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(REPORT));
        self.asm.vzeroupper();
        self.asm.call(Gpr::RAX);
        self.asm.test(OperandSize::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(ConditionCode::Ne, self.leave);
        self.restore(&live);
        self.leave_if_forced();
    }

    /// Emits a call that tells the sanitizer which elements the active lanes are about to access, and a side exit that
    /// is taken if the access might be a fault.
    pub(super) fn report_access(&mut self, cell: MemoryWidth, form: AddressForm, note: u32, inst: &LaneInst) {
        self.leave_if_forced();
        let (none, over) = (self.asm.label(), self.asm.label());
        let only_loaded = self.region.read_only_memory_index(inst);
        let checked_word =
            only_loaded.filter(|&at| at < CHECKED_MEMORY_WORDS).map(|at| Self::slot(CHECKED_MEMORIES + 4 * at));
        if let Some(checked_word) = checked_word {
            self.asm.alu_mem(Alu::Cmp, OperandSize::S32, checked_word, 0);
            self.asm.jcc(ConditionCode::Ne, over);
        }
        for copy in 0..self.shape.vectors {
            let to = match form {
                AddressForm::Contiguous => self.row_address(inst.args[0], cell, copy),
                AddressForm::Uniform => self.element_address(inst.args[0], copy),
                _ => {
                    let (address, constant) = self.allocation.folds.root(inst.args[0]);
                    Mem::at(self.gpr(address, copy, Gpr::RAX), constant)
                }
            };
            self.asm.lea(OperandSize::S64, Gpr::RAX, to);
            self.asm.store(OperandSize::S64, Self::slot(SOURCE_LANES + 8 * copy as i32), Gpr::RAX);
        }
        let live = self.live();
        self.save(&live);
        if form.has_offsets() {
            self.lanes_to_frame(inst.args[1], WARP);
        }
        // All registers of live values have been saved, or have been read as operands.
        self.bits_of_batch(inst.mask, Gpr::RSI);
        self.asm.test(OperandSize::S64, Gpr::RSI, Gpr::RSI);
        self.asm.jcc(ConditionCode::E, none);
        self.asm.mov(OperandSize::S64, Gpr::RDI, Self::slot(REPORT_ARG));
        self.asm.mov(OperandSize::S64, Gpr::RDX, LANE);
        self.asm.mov_imm64(Gpr::RCX, note.into());
        // Pass the byte stride between lanes, or -1 if each lane has its own offset.
        let step = match form {
            AddressForm::Contiguous => cell.size(),
            AddressForm::Uniform => 0,
            _ => -1,
        };
        self.asm.mov(OperandSize::S32, Gpr::R8, step);
        self.asm.mov(OperandSize::S32, Gpr::R9, i32::from(only_loaded.is_some()));
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(REPORT_ACCESS));
        // SSE code in the called function is slow if the upper halves of vector registers are not zero.
        self.asm.vzeroupper();
        self.asm.call(Gpr::RAX);
        self.asm.alu(Alu::Cmp, OperandSize::S32, Gpr::RAX, EXIT_RESULT);
        self.asm.jcc(ConditionCode::E, self.leave);
        if let Some(checked_word) = checked_word {
            self.asm.store(OperandSize::S32, checked_word, Gpr::RAX);
        }
        self.asm.bind(none);
        self.restore(&live);
        self.asm.bind(over);
    }

    /// Emits code that calls the poll function with all registers saved, and then jumps back to the loop that polled.
    fn poll_stub(&mut self, polls: &[CodeLabel]) {
        let all = self.save_all();
        self.asm.mov(OperandSize::S64, Gpr::RDI, Self::slot(POLL_ARG));
        self.asm.mov(OperandSize::S64, Gpr::RAX, Self::slot(POLL));
        self.asm.call(Gpr::RAX);
        self.asm.test(OperandSize::S32, Gpr::RAX, Gpr::RAX);
        self.asm.jcc(ConditionCode::Ne, self.leave);
        self.asm.mov(OperandSize::S64, BUDGET, Self::slot(TICKS));
        self.restore(&all);
        self.asm.mov(OperandSize::S32, Gpr::RAX, Self::slot(RETURN));
        for (number, &back) in polls.iter().enumerate() {
            self.asm.alu(Alu::Cmp, OperandSize::S32, Gpr::RAX, number as i32);
            self.asm.jcc(ConditionCode::E, back);
        }
        self.asm.ud2();
    }
}
