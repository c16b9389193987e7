//! Atomics: the active lanes of a vector, one after the other.
//!
//! Where no other worker sees the memory, elements are read, changed and written; else the processor does so without being
//! interrupted. Which it is, is known for shared memory, and otherwise a word that the entry fills in. What the code might have to undo is
//! logged: it only runs with memory that no other worker sees.
//!
//! Where all lanes update one element and nobody asks what they find, they do so at once, as far as the order does not matter.
//!
//! Minima and maxima of floats, and their sums, are computed by [`functions::update`].

use super::*;
use crate::device::sim::jit::alloc::Loc;
use crate::device::sim::jit::frame::{ADDRESS, FOUND, LOG, LOG_END, OFFSETS, RECORD, SAVED_GPRS, VALUES};
use crate::device::sim::jit::functions;
use crate::device::sim::lane::{Elem, Input};
use crate::lang::ops::AtomicOp;

/// More scratch registers in the loop over lanes: what they hold is saved.
const OLD: Gpr = Gpr::R12;
const NEW: Gpr = Gpr::R13;
const VALUE: Gpr = Gpr::R15;
const BORROWED: [Gpr; 3] = [OLD, NEW, VALUE];

/// What the loops over lanes need to know.
struct Update {
    op: AtomicOp,
    elem: Elem,
    /// What was there has to be kept.
    kept: bool,
    /// The register with the address to which the offsets are added; none if it is in the frame.
    base: Option<Gpr>,
}

impl Update {
    fn size(&self) -> Size {
        if self.elem.is_wide() { Size::S64 } else { Size::S32 }
    }

    fn scale(&self) -> u8 {
        if self.elem.is_wide() { 8 } else { 4 }
    }

    /// Returns the operation that does it all, if there is one.
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

    /// Returns the condition on which the new value is the operand, after a comparison of that with the old one.
    fn better(&self) -> Cond {
        match (self.op, self.elem.is_signed()) {
            (AtomicOp::Min, true) => Cond::L,
            (AtomicOp::Min, false) => Cond::B,
            (_, true) => Cond::G,
            (_, false) => Cond::A,
        }
    }
}

impl Emit<'_> {
    pub(super) fn atomic(&mut self, op: AtomicOp, elem: Elem, inst: &Inst) {
        for copy in 0..self.copies(inst.mask) {
            let done = self.asm.label();
            let mask = self.mask(inst.mask, copy, K7);
            self.mask_bits(Gpr::RCX, mask);
            self.asm.test(Size::S32, Gpr::RCX, Gpr::RCX);
            self.asm.jcc(Cond::E, done);
            let len = self.len(self.ty(inst.args[2]));
            if self.ways.logged {
                self.leave_if_log_is_full();
            }
            let value = self.vector(inst.args[2], copy, V[0]);
            let alone = self.is_for_one(op, elem, inst);
            match alone {
                Some(alu) => self.combine(alu, elem, inst, copy),
                None => self.asm.vstore(false, len, Self::slot(VALUES), value, None),
            }
            let offsets = self.vector(inst.args[1], copy, V[0]);
            self.asm.vstore(false, self.len(Ty::V32), Self::slot(OFFSETS), offsets, None);
            if inst.compares() {
                let expected = self.vector(inst.dst, copy, V[0]);
                self.asm.vstore(false, len, Self::slot(FOUND), expected, None);
            }
            let bitwise = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
            if elem.is_float() && !bitwise {
                self.update_by_call(op, elem, inst, copy);
            } else {
                self.update_lanes(op, elem, inst, copy);
            }
            if self.ways.logged {
                self.log_updates(elem, inst, copy, alone.is_some());
            }
            if inst.dst != Value::NONE {
                let d = self.vector_for(inst.dst, copy, V[0]);
                self.asm.v2(V2::Move, len, d, Self::slot(FOUND), Masking::None);
                self.put_vector(inst.dst, copy, d);
            }
            self.asm.bind(done);
        }
    }

    /// Returns the operation by which the values of all lanes are combined, if they go to one element together.
    fn is_for_one(&self, op: AtomicOp, elem: Elem, inst: &Inst) -> Option<Alu> {
        let together = inst.dst == Value::NONE && !elem.is_float() && self.loc(inst.args[1], 0) == Loc::Splat(0);
        match op {
            AtomicOp::Add | AtomicOp::Sub if together => Some(Alu::Add),
            AtomicOp::Or if together => Some(Alu::Or),
            AtomicOp::Xor if together => Some(Alu::Xor),
            _ => None,
        }
    }

    /// Combines the values of the active lanes to one of the first active lane, whose bit alone stays in `rcx`.
    fn combine(&mut self, alu: Alu, elem: Elem, inst: &Inst, copy: usize) {
        let (ty, scale) = (elem.vector(), if elem.is_wide() { 8 } else { 4 });
        let (len, size) = (self.len(ty), if elem.is_wide() { Size::S64 } else { Size::S32 });
        let mask = self.mask(inst.mask, copy, K7);
        let value = self.vector(inst.args[2], copy, V[1]);
        if self.evex() {
            let op = if elem.is_wide() { V2::MovePd } else { V2::Move };
            self.asm.v2(op, len, V[1], value, Masking::Zero(mask.k()));
        } else {
            let lanes = self.mask_lanes(ty, mask);
            self.asm.v3(V3::And, len, V[1], value, lanes, Masking::None);
        }
        self.asm.vstore(false, len, Self::slot(VALUES), V[1], None);
        self.asm.mov(size, Gpr::RAX, Self::slot(VALUES));
        for lane in 1..self.shape.width as i32 {
            self.asm.alu(alu, size, Gpr::RAX, Self::slot(VALUES + lane * scale));
        }
        self.first_bit();
        self.asm.tzcnt(Size::S32, Gpr::RDX, Gpr::RCX);
        self.asm.store(size, Mem::index(FRAME, Gpr::RDX, scale as u8, VALUES), Gpr::RAX);
    }

    /// Clears all but the lowest bit of `rcx`. Overwrites `rdx`.
    fn first_bit(&mut self) {
        self.asm.mov(Size::S32, Gpr::RDX, Gpr::RCX);
        self.asm.neg(Size::S32, Gpr::RDX);
        self.asm.alu(Alu::And, Size::S32, Gpr::RCX, Gpr::RDX);
    }

    /// Returns where the frame says whether other workers might update the memory, unless it is known that none does.
    fn shared_flag(&self, inst: &Inst) -> Option<Mem> {
        let memory = self.region.updated(inst)?;
        (!self.ways.logged).then(|| Self::slot(self.layout.offset(Input::Alone(memory))))
    }

    /// The lanes whose bits are in `rcx`.
    fn update_lanes(&mut self, op: AtomicOp, elem: Elem, inst: &Inst, copy: usize) {
        let base = self.gpr(inst.args[0], copy, Gpr::RAX);
        let base = match base {
            Gpr::RAX => {
                self.asm.store(Size::S64, Self::slot(ADDRESS), Gpr::RAX);
                None
            }
            base => Some(base),
        };
        let update = Update { op, elem, kept: inst.dst != Value::NONE || self.ways.logged, base };
        let flag = self.shared_flag(inst);
        let saved = |register: Gpr| Self::slot(SAVED_GPRS + 8 * i32::from(register.0));
        BORROWED.iter().for_each(|&register| self.asm.store(Size::S64, saved(register), register));
        let done = self.asm.label();
        match flag {
            None => self.each_lane(&update, false),
            Some(flag) => {
                let others = self.asm.label();
                self.asm.mov(Size::S64, Gpr::RAX, flag);
                self.asm.test(Size::S64, Gpr::RAX, Gpr::RAX);
                self.asm.jcc(Cond::E, others);
                self.each_lane(&update, false);
                self.asm.jmp(done);
                self.asm.bind(others);
                self.each_lane(&update, true);
            }
        }
        self.asm.bind(done);
        BORROWED.iter().for_each(|&register| self.asm.mov(Size::S64, register, saved(register)));
    }

    fn each_lane(&mut self, update: &Update, locked: bool) {
        let next = self.asm.label();
        self.asm.bind(next);
        self.asm.tzcnt(Size::S32, Gpr::RAX, Gpr::RCX);
        self.asm.movsxd(Gpr::RDX, Mem::index(FRAME, Gpr::RAX, 4, OFFSETS));
        let to = match update.base {
            Some(base) => Mem::index(base, Gpr::RDX, 1, 0),
            None => {
                self.asm.alu(Alu::Add, Size::S64, Gpr::RDX, Self::slot(ADDRESS));
                Mem::at(Gpr::RDX, 0)
            }
        };
        let (size, scale) = (update.size(), update.scale());
        self.asm.mov(size, VALUE, Mem::index(FRAME, Gpr::RAX, scale, VALUES));
        match (update.alu(), update.kept, locked) {
            (Some(alu), false, false) => self.asm.alu_mem(alu, size, to, VALUE),
            (Some(alu), false, true) => self.asm.alu_locked(alu, size, to, VALUE),
            (_, _, false) => self.plain_lane(update, to),
            (_, _, true) => self.locked_lane(update, to),
        }
        // Clears the lowest bit.
        self.asm.lea(Size::S32, Gpr::RDX, Mem::at(Gpr::RCX, -1));
        self.asm.alu(Alu::And, Size::S32, Gpr::RCX, Gpr::RDX);
        self.asm.jcc(Cond::Ne, next);
    }

    /// Updates an element that nobody else accesses; `rax` is the lane.
    fn plain_lane(&mut self, update: &Update, to: Mem) {
        let (size, found) = (update.size(), Mem::index(FRAME, Gpr::RAX, update.scale(), FOUND));
        self.asm.mov(size, OLD, to);
        match update.op {
            AtomicOp::Exchange => self.asm.mov(size, NEW, VALUE),
            AtomicOp::CompareExchange => {
                self.asm.mov(size, NEW, OLD);
                self.asm.alu(Alu::Cmp, size, OLD, found);
                self.asm.cmov(Cond::E, size, NEW, VALUE);
            }
            _ => self.next_value(update, OLD),
        }
        self.asm.store(size, to, NEW);
        if update.kept {
            self.asm.store(size, found, OLD);
        }
    }

    /// Computes what follows an old value.
    fn next_value(&mut self, update: &Update, old: Gpr) {
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

    /// Updates an element that other workers may update meanwhile; `rax` is the lane.
    fn locked_lane(&mut self, update: &Update, to: Mem) {
        let (size, lane) = (update.size(), OLD);
        self.asm.mov(Size::S64, lane, Gpr::RAX);
        let found = Mem::index(FRAME, lane, update.scale(), FOUND);
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
                self.asm.mov(size, Gpr::RAX, found);
                self.asm.cmpxchg_locked(size, to, VALUE);
            }
            _ => {
                let again = self.asm.label();
                self.asm.mov(size, Gpr::RAX, to);
                self.asm.bind(again);
                self.next_value(update, Gpr::RAX);
                self.asm.cmpxchg_locked(size, to, NEW);
                self.asm.jcc(Cond::Ne, again);
            }
        }
        if update.kept {
            self.asm.store(size, found, old);
        }
    }

    /// Calls a function for the lanes whose bits are in `rcx`.
    fn update_by_call(&mut self, op: AtomicOp, elem: Elem, inst: &Inst, copy: usize) {
        let mut live = self.live();
        // Results of copies that are done, too.
        let copies = if inst.dst == Value::NONE { 0 } else { self.copies(inst.dst) };
        let results = (0..copies).map(|copy| self.loc(inst.dst, copy));
        live.extend(results.filter(|loc| matches!(loc, Loc::Vector(_))));
        let base = self.gpr(inst.args[0], copy, Gpr::RAX);
        self.save(&live);
        self.asm.mov(Size::S64, Gpr::RSI, base);
        self.asm.mov(Size::S32, Gpr::RDX, Gpr::RCX);
        match self.shared_flag(inst) {
            Some(flag) => self.asm.mov(Size::S64, Gpr::RCX, flag),
            None => self.asm.mov(Size::S32, Gpr::RCX, 1),
        }
        self.asm.lea(Size::S64, Gpr::RDI, Self::slot(VALUES));
        self.asm.mov_imm64(Gpr::RAX, functions::update(op, elem) as u64);
        self.asm.call(Gpr::RAX);
        self.restore(&live);
    }

    fn leave_if_log_is_full(&mut self) {
        self.asm.mov(Size::S64, Gpr::RDX, Self::slot(LOG));
        self.asm.alu(Alu::Add, Size::S64, Gpr::RDX, RECORD);
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RDX, Self::slot(LOG_END));
        self.asm.jcc(Cond::A, self.leave);
    }

    /// Logs what the lanes found, or `alone` the first one: see [`RECORD`].
    fn log_updates(&mut self, elem: Elem, inst: &Inst, copy: usize, alone: bool) {
        let record = |offset: i32| Mem::at(Gpr::RDX, offset);
        let mask = self.mask(inst.mask, copy, K7);
        self.mask_bits(Gpr::RCX, mask);
        if alone {
            self.first_bit();
        }
        self.asm.mov(Size::S64, Gpr::RDX, Self::slot(LOG));
        self.asm.store(Size::S32, record(8), Gpr::RCX);
        self.asm.store_imm(Size::S32, record(12), if elem.is_wide() { 8 } else { 4 });
        let base = self.gpr(inst.args[0], copy, Gpr::RAX);
        self.asm.store(Size::S64, record(0), base);
        let (len, offsets) = (self.len(elem.vector()), self.len(Ty::V32));
        self.asm.v2(V2::Move, len, V[0], Self::slot(FOUND), Masking::None);
        self.asm.vstore(false, len, record(16), V[0], None);
        self.asm.v2(V2::Move, offsets, V[0], Self::slot(OFFSETS), Masking::None);
        self.asm.vstore(false, offsets, record(80), V[0], None);
        self.asm.alu(Alu::Add, Size::S64, Gpr::RDX, RECORD);
        self.asm.store(Size::S64, Self::slot(LOG), Gpr::RDX);
    }
}
