//! Emits atomics, which update the elements of a vector's active lanes in lane order.
//!
//! If no other worker thread accesses the memory, the code loads, changes and stores elements; otherwise, it uses
//! locked instructions. The code for shared memory needs no locked instructions. The code for global memory tests a
//! word of the frame. Updates that a side exit must undo are logged. If all lanes update the same element, the result
//! is unused and the order does not matter, the code first reduces the lanes to one value. Float minima, maxima and
//! sums call [`runtime_functions::update`].

use super::*;
use crate::jit::frame::{ADDRESS, ATOMIC_OFFSETS, ATOMIC_RESULTS, ATOMIC_VALUES, LOG, LOG_END, RECORD, SAVED_GPRS};
use crate::jit::register_allocation::ValueLocation;
use crate::jit::runtime_functions;
use crate::lir::{LaneElem, RegionInput};
use clk_scalar::ops::AtomicOp;

/// Additional scratch registers for the loop over lanes. Their contents are saved and restored.
const OLD: Gpr = Gpr::R12;
const NEW: Gpr = Gpr::R13;
const VALUE: Gpr = Gpr::R15;
const BORROWED: [Gpr; 3] = [OLD, NEW, VALUE];

/// Parameters of the loop over lanes.
struct AtomicLoop {
    op: AtomicOp,
    elem: LaneElem,
    /// Whether the result of the atomic (the old values) is used.
    keeps_old: bool,
    /// The register with the base address, or `None` if the base address is in the frame.
    base: Option<Gpr>,
}

impl AtomicLoop {
    fn size(&self) -> OperandSize {
        if self.elem.is_wide() { OperandSize::S64 } else { OperandSize::S32 }
    }

    fn scale(&self) -> u8 {
        if self.elem.is_wide() { 8 } else { 4 }
    }

    /// Returns the instruction that performs the whole update of an element, if one exists.
    fn alu(&self) -> Option<Alu> {
        Some(match self.op {
            AtomicOp::Add => Alu::Add,
            AtomicOp::Sub => Alu::Sub,
            AtomicOp::And => Alu::And,
            AtomicOp::Or => Alu::Or,
            AtomicOp::Xor => Alu::Xor,
            _ => return None,
        })
    }

    /// Returns the condition under which the operand of a minimum or maximum replaces the old value. It applies after
    /// comparing the operand with the old value.
    fn better(&self) -> ConditionCode {
        match (self.op, self.elem.is_signed()) {
            (AtomicOp::Min, true) => ConditionCode::L,
            (AtomicOp::Min, false) => ConditionCode::B,
            (_, true) => ConditionCode::G,
            (_, false) => ConditionCode::A,
        }
    }
}

impl RegionEmitter<'_> {
    pub(super) fn atomic(&mut self, op: AtomicOp, elem: LaneElem, inst: &LaneInst) {
        for copy in 0..self.copies(inst.mask) {
            let done = self.asm.label();
            let mask = self.mask(inst.mask, copy, K7);
            self.mask_bits(Gpr::RCX, mask);
            self.asm.test(OperandSize::S32, Gpr::RCX, Gpr::RCX);
            self.asm.jcc(ConditionCode::E, done);
            let len = self.len(self.ty(inst.args[2]));
            if self.ways.logged {
                self.leave_if_log_is_full();
            }
            let value = self.vector(inst.args[2], copy, V[0]);
            let combined = self.combining_op(op, elem, inst);
            match combined {
                Some(alu) => self.combine(alu, elem, inst, copy),
                None => self.asm.vstore(false, len, Self::slot(ATOMIC_VALUES), value, None),
            }
            let offsets = self.vector(inst.args[1], copy, V[0]);
            self.asm.vstore(false, self.len(LaneTy::V32), Self::slot(ATOMIC_OFFSETS), offsets, None);
            if inst.is_compare_exchange() {
                let expected = self.vector(inst.dst, copy, V[0]);
                self.asm.vstore(false, len, Self::slot(ATOMIC_RESULTS), expected, None);
            }
            let bitwise = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
            if elem.is_float() && !bitwise {
                self.update_by_call(op, elem, inst, copy);
            } else {
                self.update_lanes(op, elem, inst, copy);
            }
            if self.ways.logged {
                self.log_updates(elem, inst, copy, combined.is_some());
            }
            if inst.dst != LaneValue::NONE {
                let d = self.vector_for(inst.dst, copy, V[0]);
                self.asm.v2(V2::Move, len, d, Self::slot(ATOMIC_RESULTS), Masking::None);
                self.put_vector(inst.dst, copy, d);
            }
            self.asm.bind(done);
        }
    }

    /// If all lanes update the same element and the order does not matter, returns the operation that reduces the
    /// values of all lanes to one value.
    fn combining_op(&self, op: AtomicOp, elem: LaneElem, inst: &LaneInst) -> Option<Alu> {
        let is_single_element =
            inst.dst == LaneValue::NONE && !elem.is_float() && self.loc(inst.args[1], 0) == ValueLocation::Splat(0);
        match op {
            AtomicOp::Add | AtomicOp::Sub if is_single_element => Some(Alu::Add),
            AtomicOp::Or if is_single_element => Some(Alu::Or),
            AtomicOp::Xor if is_single_element => Some(Alu::Xor),
            _ => None,
        }
    }

    /// Reduces the values of the active lanes to one value, stores it in the first active lane, and clears the bits of
    /// the other lanes in `rcx`.
    fn combine(&mut self, alu: Alu, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let (ty, scale) = (elem.vector_ty(), if elem.is_wide() { 8 } else { 4 });
        let (len, size) = (self.len(ty), if elem.is_wide() { OperandSize::S64 } else { OperandSize::S32 });
        let mask = self.mask(inst.mask, copy, K7);
        let value = self.vector(inst.args[2], copy, V[1]);
        if self.evex() {
            let op = if elem.is_wide() { V2::MovePd } else { V2::Move };
            self.asm.v2(op, len, V[1], value, Masking::Zero(mask.k()));
        } else {
            let lanes = self.mask_lanes(ty, mask);
            self.asm.v3(V3::And, len, V[1], value, lanes, Masking::None);
        }
        self.asm.vstore(false, len, Self::slot(ATOMIC_VALUES), V[1], None);
        self.asm.mov(size, Gpr::RAX, Self::slot(ATOMIC_VALUES));
        for lane in 1..self.shape.width as i32 {
            self.asm.alu(alu, size, Gpr::RAX, Self::slot(ATOMIC_VALUES + lane * scale));
        }
        self.first_bit();
        self.asm.tzcnt(OperandSize::S32, Gpr::RDX, Gpr::RCX);
        self.asm.store(size, Mem::index(FRAME, Gpr::RDX, scale as u8, ATOMIC_VALUES), Gpr::RAX);
    }

    /// Clears all but the lowest bit of `rcx`. Overwrites `rdx`.
    fn first_bit(&mut self) {
        self.asm.mov(OperandSize::S32, Gpr::RDX, Gpr::RCX);
        self.asm.neg(OperandSize::S32, Gpr::RDX);
        self.asm.alu(Alu::And, OperandSize::S32, Gpr::RCX, Gpr::RDX);
    }

    /// Returns the frame word with the value of [`RegionInput::Exclusive`], or `None` if no other worker can access the
    /// memory.
    fn shared_flag(&self, inst: &LaneInst) -> Option<Mem> {
        let memory = self.region.atomic_memory(inst)?;
        (!self.ways.logged).then(|| Self::slot(self.layout.offset(RegionInput::Exclusive(memory))))
    }

    /// Updates the elements of the lanes whose bits are set in `rcx`.
    fn update_lanes(&mut self, op: AtomicOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let base = self.gpr(inst.args[0], copy, Gpr::RAX);
        let base = match base {
            Gpr::RAX => {
                self.asm.store(OperandSize::S64, Self::slot(ADDRESS), Gpr::RAX);
                None
            }
            base => Some(base),
        };
        let update = AtomicLoop { op, elem, keeps_old: inst.dst != LaneValue::NONE || self.ways.logged, base };
        let flag = self.shared_flag(inst);
        let saved = |register: Gpr| Self::slot(SAVED_GPRS + 8 * i32::from(register.0));
        BORROWED.iter().for_each(|&register| self.asm.store(OperandSize::S64, saved(register), register));
        let done = self.asm.label();
        match flag {
            None => self.each_lane(&update, false),
            Some(flag) => {
                let others = self.asm.label();
                self.asm.mov(OperandSize::S64, Gpr::RAX, flag);
                self.asm.test(OperandSize::S64, Gpr::RAX, Gpr::RAX);
                self.asm.jcc(ConditionCode::E, others);
                self.each_lane(&update, false);
                self.asm.jmp(done);
                self.asm.bind(others);
                self.each_lane(&update, true);
            }
        }
        self.asm.bind(done);
        BORROWED.iter().for_each(|&register| self.asm.mov(OperandSize::S64, register, saved(register)));
    }

    fn each_lane(&mut self, update: &AtomicLoop, locked: bool) {
        let next = self.asm.label();
        self.asm.bind(next);
        self.asm.tzcnt(OperandSize::S32, Gpr::RAX, Gpr::RCX);
        self.asm.movsxd(Gpr::RDX, Mem::index(FRAME, Gpr::RAX, 4, ATOMIC_OFFSETS));
        let to = match update.base {
            Some(base) => Mem::index(base, Gpr::RDX, 1, 0),
            None => {
                self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RDX, Self::slot(ADDRESS));
                Mem::at(Gpr::RDX, 0)
            }
        };
        let (size, scale) = (update.size(), update.scale());
        self.asm.mov(size, VALUE, Mem::index(FRAME, Gpr::RAX, scale, ATOMIC_VALUES));
        match (update.alu(), update.keeps_old, locked) {
            (Some(alu), false, false) => self.asm.alu_mem(alu, size, to, VALUE),
            (Some(alu), false, true) => self.asm.alu_locked(alu, size, to, VALUE),
            (_, _, false) => self.plain_lane(update, to),
            (_, _, true) => self.locked_lane(update, to),
        }
        // Clear the lowest bit of `rcx`.
        self.asm.lea(OperandSize::S32, Gpr::RDX, Mem::at(Gpr::RCX, -1));
        self.asm.alu(Alu::And, OperandSize::S32, Gpr::RCX, Gpr::RDX);
        self.asm.jcc(ConditionCode::Ne, next);
    }

    /// Updates an element that no other worker thread accesses. `rax` is the lane number.
    fn plain_lane(&mut self, update: &AtomicLoop, to: Mem) {
        let (size, result_slot) = (update.size(), Mem::index(FRAME, Gpr::RAX, update.scale(), ATOMIC_RESULTS));
        self.asm.mov(size, OLD, to);
        match update.op {
            AtomicOp::Exchange => self.asm.mov(size, NEW, VALUE),
            AtomicOp::CompareExchange => {
                self.asm.mov(size, NEW, OLD);
                self.asm.alu(Alu::Cmp, size, OLD, result_slot);
                self.asm.cmov(ConditionCode::E, size, NEW, VALUE);
            }
            _ => self.next_value(update, OLD),
        }
        self.asm.store(size, to, NEW);
        if update.keeps_old {
            self.asm.store(size, result_slot, OLD);
        }
    }

    /// Computes the new value from an old value.
    fn next_value(&mut self, update: &AtomicLoop, old: Gpr) {
        let size = update.size();
        self.asm.mov(size, NEW, old);
        match update.alu() {
            Some(alu) => self.asm.alu(alu, size, NEW, VALUE),
            None => {
                self.asm.alu(Alu::Cmp, size, VALUE, old);
                self.asm.cmov(update.better(), size, NEW, VALUE);
            }
        }
    }

    /// Updates an element that other worker threads may update concurrently. `rax` is the lane number.
    fn locked_lane(&mut self, update: &AtomicLoop, to: Mem) {
        let (size, lane) = (update.size(), OLD);
        self.asm.mov(OperandSize::S64, lane, Gpr::RAX);
        let result_slot = Mem::index(FRAME, lane, update.scale(), ATOMIC_RESULTS);
        let mut old = Gpr::RAX;
        match update.op {
            AtomicOp::Add | AtomicOp::Sub => {
                if update.op == AtomicOp::Sub {
                    self.asm.neg(size, VALUE);
                }
                self.asm.xadd_locked(size, to, VALUE);
                old = VALUE;
            }
            AtomicOp::Exchange => {
                self.asm.xchg(size, to, VALUE);
                old = VALUE;
            }
            AtomicOp::CompareExchange => {
                self.asm.mov(size, Gpr::RAX, result_slot);
                self.asm.cmpxchg_locked(size, to, VALUE);
            }
            _ => {
                let retry = self.asm.label();
                self.asm.mov(size, Gpr::RAX, to);
                self.asm.bind(retry);
                self.next_value(update, Gpr::RAX);
                self.asm.cmpxchg_locked(size, to, NEW);
                self.asm.jcc(ConditionCode::Ne, retry);
            }
        }
        if update.keeps_old {
            self.asm.store(size, result_slot, old);
        }
    }

    /// Emits a call of the runtime function that updates the elements of the lanes whose bits are set in `rcx`.
    fn update_by_call(&mut self, op: AtomicOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let mut live = self.live();
        // The results of the vectors that have already been updated are live as well.
        let copies = if inst.dst == LaneValue::NONE { 0 } else { self.copies(inst.dst) };
        let results = (0..copies).map(|copy| self.loc(inst.dst, copy));
        live.extend(results.filter(|loc| matches!(loc, ValueLocation::Vector(_))));
        let base = self.gpr(inst.args[0], copy, Gpr::RAX);
        self.save(&live);
        self.asm.mov(OperandSize::S64, Gpr::RSI, base);
        self.asm.mov(OperandSize::S32, Gpr::RDX, Gpr::RCX);
        match self.shared_flag(inst) {
            Some(flag) => self.asm.mov(OperandSize::S64, Gpr::RCX, flag),
            None => self.asm.mov(OperandSize::S32, Gpr::RCX, 1),
        }
        self.asm.lea(OperandSize::S64, Gpr::RDI, Self::slot(ATOMIC_VALUES));
        self.asm.mov_imm64(Gpr::RAX, runtime_functions::update(op, elem) as u64);
        self.asm.call(Gpr::RAX);
        self.restore(&live);
    }

    fn leave_if_log_is_full(&mut self) {
        self.asm.mov(OperandSize::S64, Gpr::RDX, Self::slot(LOG));
        self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RDX, RECORD);
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RDX, Self::slot(LOG_END));
        self.asm.jcc(ConditionCode::A, self.leave);
    }

    /// Logs the old values of the lanes' elements, or with `combined` only of the first active lane's element. See
    /// [`RECORD`] for the format.
    fn log_updates(&mut self, elem: LaneElem, inst: &LaneInst, copy: usize, combined: bool) {
        let record = |offset: i32| Mem::at(Gpr::RDX, offset);
        let mask = self.mask(inst.mask, copy, K7);
        self.mask_bits(Gpr::RCX, mask);
        if combined {
            self.first_bit();
        }
        self.asm.mov(OperandSize::S64, Gpr::RDX, Self::slot(LOG));
        self.asm.store(OperandSize::S32, record(8), Gpr::RCX);
        self.asm.store_imm(OperandSize::S32, record(12), if elem.is_wide() { 8 } else { 4 });
        let base = self.gpr(inst.args[0], copy, Gpr::RAX);
        self.asm.store(OperandSize::S64, record(0), base);
        let (len, offsets) = (self.len(elem.vector_ty()), self.len(LaneTy::V32));
        self.asm.v2(V2::Move, len, V[0], Self::slot(ATOMIC_RESULTS), Masking::None);
        self.asm.vstore(false, len, record(16), V[0], None);
        self.asm.v2(V2::Move, offsets, V[0], Self::slot(ATOMIC_OFFSETS), Masking::None);
        self.asm.vstore(false, offsets, record(80), V[0], None);
        self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RDX, RECORD);
        self.asm.store(OperandSize::S64, Self::slot(LOG), Gpr::RDX);
    }
}
