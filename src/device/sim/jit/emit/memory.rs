//! Loads, stores, registers of the interpreter, and the checks in front of accesses.

use super::*;
use crate::device::sim::jit::alloc::Loc;
use crate::device::sim::jit::fold::Sum;
use crate::device::sim::jit::frame::{LOG, LOG_END, RECORD};
use crate::device::sim::jit::next::Step;
use crate::device::sim::lane::{Bin, Cell, Elem, Form, Rel};

/// How far definitions are followed.
const DEPTH: u32 = 8;

impl Emit<'_> {
    pub(super) fn memory_inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Output(number) => return self.output(number, inst),
            Op::LoadScalar(cell) => return self.load_scalar(cell, inst),
            _ => {}
        }
        let copies = match inst.op {
            Op::Store(..) | Op::StoreReg => self.shape.vectors,
            _ => self.copies(inst.dst),
        };
        for copy in 0..copies {
            match inst.op {
                Op::Load(cell, form) => self.load(cell, form, inst, copy),
                Op::Store(cell, form) => self.store(cell, form, inst, copy),
                Op::LoadReg => {
                    let from = self.register(inst.args[0], self.ty(inst.dst), copy);
                    let d = self.vector_for(inst.dst, copy, V[0]);
                    self.asm.v2(V2::Move, self.len(self.ty(inst.dst)), d, from, Masking::None);
                    self.put_vector(inst.dst, copy, d);
                }
                _ => {
                    let value = inst.args[1];
                    let (x, mask) = (self.vector(value, copy, V[0]), self.lanes(inst, copy, K7));
                    let to = self.register(inst.args[0], self.ty(value), copy);
                    self.store_lanes(self.ty(value), to, x, mask);
                }
            }
        }
    }

    /// Returns the address of a vector's lanes in a register of the interpreter.
    fn register(&mut self, address: Value, ty: Ty, copy: usize) -> Mem {
        let base = self.gpr(address, 0, Gpr::RAX);
        let first = (copy * self.shape.width) as i32;
        if ty == Ty::V64 { Mem::index(base, LANE, 2, 8 * first) } else { Mem::index(base, LANE, 1, 4 * first) }
    }

    fn output(&mut self, number: u32, inst: &Inst) {
        let (value, to) = (inst.args[0], Self::slot(self.layout.outputs + 8 * number as i32));
        let size = self.size(value);
        let x = if self.ty(value).is_scalar() {
            self.gpr(value, 0, Gpr::RAX)
        } else {
            let x = self.vector(value, 0, V[0]);
            self.asm.to_gpr(size, Gpr::RAX, x);
            Gpr::RAX
        };
        self.asm.store(size, to, x);
    }

    fn load_scalar(&mut self, cell: Cell, inst: &Inst) {
        for copy in 0..self.copies(inst.dst) {
            let from = self.at(inst.args[0], copy);
            let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
            self.load_cell(cell, d, from);
            self.put_gpr(inst.dst, copy, d);
        }
    }

    fn load_cell(&mut self, cell: Cell, d: Gpr, from: Mem) {
        match cell {
            Cell::W4 => self.asm.mov(Size::S32, d, from),
            Cell::W8 => self.asm.mov(Size::S64, d, from),
            Cell::U8 => self.asm.load_zx8(d, from),
            Cell::I8 => self.asm.load_sx8(d, from),
            Cell::U16 => self.asm.load_zx16(d, from),
            Cell::I16 => self.asm.load_sx16(d, from),
        }
    }

    /// Returns the element at an address. Overwrites `rax` and `rcx`.
    pub(super) fn at(&mut self, address: Value, copy: usize) -> Mem {
        let (address, constant) = self.allocation.folds.root(address);
        let Some(Sum { base, index, scale }) = self.allocation.folds.sum(address) else {
            return Mem::at(self.gpr(address, copy, Gpr::RAX), constant);
        };
        match self.loc(index, copy) {
            Loc::Gpr(index) => Mem::index(self.gpr(base, copy, Gpr::RAX), Gpr(index), scale, constant),
            _ => {
                let from = self.gpr(index, copy, Gpr::RAX);
                if from != Gpr::RAX {
                    self.asm.mov(Size::S64, Gpr::RAX, from);
                }
                self.asm.shift_imm(Shift::Shl, Size::S64, Gpr::RAX, scale.ilog2() as u8);
                let base = self.rm(base, copy, Gpr::RCX);
                self.asm.alu(Alu::Add, Size::S64, Gpr::RAX, base);
                Mem::at(Gpr::RAX, constant)
            }
        }
    }

    /// Returns the address of a vector's elements in a row. Overwrites `rax` and `rcx`.
    pub(super) fn row(&mut self, address: Value, cell: Cell, copy: usize) -> Mem {
        if self.shape.rows {
            return self.at(address, copy);
        }
        let (address, constant) = self.allocation.folds.root(address);
        let base = self.gpr(address, copy, Gpr::RAX);
        Mem::index(base, X, cell.size() as u8, (copy * self.shape.width) as i32 * cell.size() + constant)
    }

    /// Returns what a load reads, as an operand. Overwrites `rax` and `rcx`.
    pub(super) fn loaded(&mut self, load: &Inst, copy: usize) -> Src {
        match load.op {
            Op::Load(cell, Form::Row) => {
                let from = self.row(load.args[0], cell, copy);
                // What needs `rdx` is not fetched.
                if !matches!(self.ahead.next(load.args[0]), Some(Step::Times(..))) {
                    self.fetch(load.args[0], from, false, copy);
                }
                Src::Mem(from)
            }
            _ => Src::Broadcast(self.at(load.args[0], copy)),
        }
    }

    /// Fetches the cache line that the next block accesses in the same place, unless it would be replaced before: long loops have lines
    /// to themselves.
    fn fetch(&mut self, address: Value, of: Mem, write: bool, copy: usize) {
        if let Some(step) = self.ahead.next(address) {
            return self.fetch_next(step, of, write);
        }
        if self.loops > 0 {
            return;
        }
        if copy == 0 {
            let place = self.allocation.folds.root(address);
            self.next_block = self.ahead.fetch(address, place);
        }
        if let Some(disp) = self.next_block.and_then(|bytes| of.disp.checked_add(bytes)) {
            self.asm.prefetch(Mem { disp, ..of }, write);
        }
    }

    /// Fetches the line that the next iteration of the loop around a phase accesses. Overwrites `rdx`.
    fn fetch_next(&mut self, step: Step, of: Mem, write: bool) {
        match step {
            Step::Bytes(bytes) => {
                if let Some(disp) = i32::try_from(bytes).ok().and_then(|bytes| of.disp.checked_add(bytes)) {
                    self.asm.prefetch(Mem { disp, ..of }, write);
                }
            }
            Step::Times(value, factor) => {
                let (Ok(factor), true) = (i32::try_from(factor), self.loc(value, 0) != Loc::None) else { return };
                self.load_gpr(value, 0, Gpr::RDX);
                if factor != 1 {
                    self.asm.imul_imm(Size::S64, Gpr::RDX, Gpr::RDX, factor);
                }
                self.asm.alu(Alu::Add, Size::S64, Gpr::RDX, of.base);
                self.asm.prefetch(Mem { base: Gpr::RDX, ..of }, write);
            }
        }
    }

    /// The same for the elements at a base and offsets: the lines of a row that begins at the first lane's. Overwrites `rcx` and `rdx`.
    fn fetch_lanes(&mut self, address: Value, base: Gpr, offsets: Vreg, write: bool) {
        let Some(step) = self.ahead.next(address) else { return };
        self.asm.to_gpr(Size::S32, Gpr::RCX, offsets);
        self.asm.movsxd(Gpr::RCX, Gpr::RCX);
        let first = Mem::index(base, Gpr::RCX, 1, 0);
        self.fetch_next(step, first, write);
        self.fetch_next(step, Mem { disp: 60, ..first }, write);
    }

    /// Returns the address of a vector's lanes in a column of a local array, `columns` behind the one at an address.
    fn own(&mut self, address: Value, cell: Cell, columns: i32, copy: usize) -> Mem {
        let base = self.gpr(address, copy, Gpr::RAX);
        let first = (copy * self.shape.width) as i32 * cell.size();
        Mem::index(base, LANE, (cell.size() / 4) as u8, columns * self.shape.column as i32 + first)
    }

    /// Returns the address of contiguous elements.
    fn contiguous(&mut self, cell: Cell, form: Form, address: Value, copy: usize) -> Mem {
        match form {
            Form::Own(columns) => self.own(address, cell, columns, copy),
            _ => self.row(address, cell, copy),
        }
    }

    /// Returns the base and the offsets of elements anywhere; perhaps in `rax` and in the second scratch vector.
    fn scattered(&mut self, cell: Cell, form: Form, (address, offsets): (Value, Value), copy: usize) -> (Gpr, Vreg) {
        let index = self.vector(offsets, copy, V[1]);
        let Form::OwnLanes(columns) = form else {
            let (address, constant) = self.allocation.folds.root(address);
            let base = self.gpr(address, copy, Gpr::RAX);
            if constant == 0 {
                return (base, index);
            }
            self.asm.lea(Size::S64, Gpr::RAX, Mem::at(base, constant));
            return (Gpr::RAX, index);
        };
        let first = self.own(address, cell, columns, copy);
        self.asm.lea(Size::S64, Gpr::RAX, first);
        let lanes = self.multiples(0, cell.size());
        self.asm.v3(V3::AddD, self.len(Ty::V32), V[1], index, lanes, Masking::None);
        (Gpr::RAX, V[1])
    }

    fn load(&mut self, cell: Cell, form: Form, inst: &Inst, copy: usize) {
        let ty = self.ty(inst.dst);
        let len = self.len(ty);
        let d = self.vector_for(inst.dst, copy, V[0]);
        match form {
            Form::Row | Form::Own(_) => {
                let from = self.contiguous(cell, form, inst.args[0], copy);
                self.fetch(inst.args[0], from, false, copy);
                let mask = (inst.mask != Value::NONE).then(|| self.active(inst, copy));
                self.load_row(cell, len, d, from, mask);
            }
            Form::One => self.load_one(cell, inst, copy, d, len),
            Form::Lanes | Form::OwnLanes(_) => {
                let (base, index) = self.scattered(cell, form, (inst.args[0], inst.args[1]), copy);
                self.fetch_lanes(inst.args[0], base, index, false);
                let mask = (inst.mask != Value::NONE).then(|| self.active(inst, copy));
                self.lanes_to_k7(mask);
                let stride = self.stride_of(cell, form, inst.args[1]);
                self.gather(cell, V[0], base, index, stride);
                return self.put_vector(inst.dst, copy, V[0]);
            }
        }
        self.put_vector(inst.dst, copy, d);
    }

    fn load_one(&mut self, cell: Cell, inst: &Inst, copy: usize, d: Vreg, len: Len) {
        let from = self.at(inst.args[0], copy);
        let broadcast = match cell {
            Cell::W4 => Some(V2::BroadcastD),
            Cell::W8 => Some(V2::BroadcastQ),
            _ => None,
        };
        let mask = (inst.mask != Value::NONE).then(|| self.active(inst, copy));
        if let (Some(op), true) = (broadcast, self.evex() || mask.is_none()) {
            return self.asm.v2(op, len, d, from, mask.map_or(Masking::None, |mask| Masking::Zero(mask.k())));
        }
        // Without an active lane there need not be an element.
        let skip = self.asm.label();
        if broadcast.is_some() {
            self.asm.v3(V3::Xor, len, d, d, d, Masking::None);
        } else {
            self.asm.alu(Alu::Xor, Size::S32, Gpr::RCX, Gpr::RCX);
        }
        if let Some(mask) = mask {
            self.mask_test(mask);
            self.asm.jcc(Cond::E, skip);
        }
        match broadcast {
            Some(op) => self.asm.v2(op, len, d, from, Masking::None),
            None => self.load_cell(cell, Gpr::RCX, from),
        }
        self.asm.bind(skip);
        if broadcast.is_none() {
            self.asm.broadcast_gpr(Size::S32, len, d, Gpr::RCX, Masking::None);
        }
    }

    /// Returns the lanes that an instruction is for, in a register; `None`: all.
    pub(super) fn lanes(&mut self, inst: &Inst, copy: usize, scratch: Mask) -> Option<Mask> {
        (inst.mask != Value::NONE).then(|| self.mask(inst.mask, copy, scratch))
    }

    /// `k7` = the lanes of a mask, or all of them.
    fn lanes_to_k7(&mut self, mask: Option<Mask>) {
        match mask {
            Some(mask) => self.mask_move(K7, mask),
            None => self.mask_fill(K7, true),
        }
    }

    /// Returns the lanes that a load is for: those of all vectors, if they share it.
    fn active(&mut self, inst: &Inst, copy: usize) -> Mask {
        let vectors = self.copies(inst.mask);
        if self.copies(inst.dst) == vectors {
            return self.mask(inst.mask, copy, K7);
        }
        for vector in 0..vectors {
            let mask = self.mask(inst.mask, vector, K6);
            if vector == 0 {
                self.mask_move(K7, mask);
            } else {
                self.mask_op(Kop::Or, K7, K7, mask);
            }
        }
        K7
    }

    fn store(&mut self, cell: Cell, form: Form, inst: &Inst, copy: usize) {
        let value = inst.args[1];
        let ty = self.ty(value);
        if self.ways.logged && self.region.is_logged(inst) {
            self.log(cell, form, inst, copy);
        }
        let (x, mask) = (self.vector(value, copy, V[0]), self.lanes(inst, copy, K7));
        if !form.has_offsets() {
            let to = self.contiguous(cell, form, inst.args[0], copy);
            self.fetch(inst.args[0], to, true, copy);
            return self.store_row(cell, ty, to, x, mask);
        }
        let (base, index) = self.scattered(cell, form, (inst.args[0], inst.args[2]), copy);
        let done = self.asm.label();
        if let Some(mask) = mask.filter(|_| self.evex()) {
            // Often one thread of a block stores something.
            self.mask_test(mask);
            self.asm.jcc(Cond::E, done);
        }
        let apart = self.stride_of(cell, form, inst.args[2]).is_some_and(|stride| stride != cell.size());
        if self.evex() && apart {
            self.lanes_to_k7(mask);
        } else if self.evex() {
            self.lanes_to_k7(mask);
            let (to, apart) = self.if_in_a_row(cell, base, index);
            self.store_row(cell, ty, to, x, Some(K7));
            self.asm.jmp(done);
            self.asm.bind(apart);
        }
        if cell.size() < 4 || !self.evex() {
            self.bits_of_lanes(mask);
            self.store_each(cell, (ty, x), base, index);
        } else {
            let (len, op) = (self.len(ty), if ty == Ty::V64 { Gather::DQ } else { Gather::DD });
            self.asm.scatter(op, len, VecMem { base, index, scale: 1, disp: 0 }, x, K7.k());
        }
        self.asm.bind(done);
    }

    /// `rcx` = a bit for each of the lanes.
    fn bits_of_lanes(&mut self, mask: Option<Mask>) {
        match mask {
            Some(mask) => self.mask_bits(Gpr::RCX, mask),
            None => self.asm.mov_imm64(Gpr::RCX, self.all_bits()),
        }
    }

    /// Returns the bytes from each lane's element to the next, where they are known.
    fn stride_of(&self, cell: Cell, form: Form, offsets: Value) -> Option<i32> {
        let stride = self.stride(offsets, DEPTH)?;
        Some(if matches!(form, Form::OwnLanes(_)) { stride.wrapping_add(cell.size()) } else { stride })
    }

    /// Returns the difference between the lanes of a vector of 32-bit integers, where it is known.
    fn stride(&self, value: Value, depth: u32) -> Option<i32> {
        let inst = self.vectors.get(&value).filter(|inst| depth > 0 && inst.mask == Value::NONE)?;
        let of = |k: usize| self.stride(inst.args[k], depth - 1);
        let splat = |k: usize| match self.vectors.get(&inst.args[k])?.op {
            Op::Splat(bits) => Some(bits as u32 as i32),
            _ => None,
        };
        match inst.op {
            Op::Iota(step) => Some(step),
            Op::Splat(_) | Op::Broadcast | Op::BroadcastInput(_) => Some(0),
            Op::Vector(Bin::Add, Elem::I32 | Elem::U32) => Some(of(0)?.wrapping_add(of(1)?)),
            Op::Vector(Bin::Sub, Elem::I32 | Elem::U32) => Some(of(0)?.wrapping_sub(of(1)?)),
            Op::Vector(Bin::Shl, Elem::I32 | Elem::U32) => Some(of(0)?.wrapping_shl(splat(1)? as u32)),
            Op::Vector(Bin::Mul, Elem::I32 | Elem::U32) => Some(of(0)?.wrapping_mul(splat(1)?)),
            _ => None,
        }
    }

    /// Logs what a store overwrites: see [`RECORD`].
    fn log(&mut self, cell: Cell, form: Form, inst: &Inst, copy: usize) {
        let len = self.len(self.ty(inst.args[1]));
        self.asm.mov(Size::S64, Gpr::RDX, Self::slot(LOG));
        self.asm.lea(Size::S64, Gpr::RCX, Mem::at(Gpr::RDX, RECORD));
        self.asm.alu(Alu::Cmp, Size::S64, Gpr::RCX, Self::slot(LOG_END));
        self.asm.jcc(Cond::A, self.leave);
        self.asm.store(Size::S64, Self::slot(LOG), Gpr::RCX);
        let mask = self.lanes(inst, copy, K7);
        self.bits_of_lanes(mask);
        self.asm.store(Size::S32, Mem::at(Gpr::RDX, 8), Gpr::RCX);
        self.asm.store_imm(Size::S32, Mem::at(Gpr::RDX, 12), cell.size());
        if form.has_offsets() {
            let (base, index) = self.scattered(cell, form, (inst.args[0], inst.args[2]), copy);
            self.asm.store(Size::S64, Mem::at(Gpr::RDX, 0), base);
            let offsets = self.len(Ty::V32);
            self.asm.vstore(false, offsets, Mem::at(Gpr::RDX, 80), index, None);
            self.lanes_to_k7(mask);
            self.gather(cell, V[3], base, index, None);
            return self.asm.vstore(false, len, Mem::at(Gpr::RDX, 16), V[3], None);
        }
        let from = self.contiguous(cell, form, inst.args[0], copy);
        self.asm.lea(Size::S64, Gpr::RAX, from);
        self.asm.store(Size::S64, Mem::at(Gpr::RDX, 0), Gpr::RAX);
        self.load_row(cell, len, V[3], Mem::at(Gpr::RAX, 0), mask);
        self.asm.vstore(false, len, Mem::at(Gpr::RDX, 16), V[3], None);
        let pool = self.multiples(0, cell.size());
        let offsets = self.len(Ty::V32);
        self.asm.v2(V2::Move, offsets, V[2], pool, Masking::None);
        self.asm.vstore(false, offsets, Mem::at(Gpr::RDX, 80), V[2], None);
    }

    // Checks

    pub(super) fn check(&mut self, inst: &Inst) {
        self.leave_if_forced();
        match inst.op {
            Op::CheckOne => self.check_one(inst),
            Op::CheckRow(c) => self.check_row(c, inst),
            Op::CheckLanes => self.check_lanes(inst),
            Op::CheckRange => self.check_range(inst),
            Op::LeaveAny => self.leave_any(inst),
            _ => {
                for copy in 0..self.copies(inst.args[0]) {
                    let x = self.gpr(inst.args[0], copy, Gpr::RCX);
                    self.asm.test(self.size(inst.args[0]), x, x);
                    self.asm.jcc(Cond::E, self.leave);
                }
            }
        }
    }

    fn check_one(&mut self, inst: &Inst) {
        let [index, extent, _] = inst.args;
        let copies = self.copies(index).max(self.copies(extent));
        for copy in 0..copies {
            let (x, y) = (self.gpr(index, copy, Gpr::RCX), self.rm(extent, copy, Gpr::RDX));
            self.asm.alu(Alu::Cmp, Size::S64, x, y);
            if inst.mask == Value::NONE {
                self.asm.jcc(Cond::Ae, self.leave);
                continue;
            }
            let vectors = if copies == 1 { 0..self.shape.vectors } else { copy..copy + 1 };
            let back = self.cold_if(Cond::Ae, Cold::One { mask: inst.mask, vectors });
            self.asm.bind(back);
        }
    }

    fn check_row(&mut self, c: i32, inst: &Inst) {
        let [row, limit, _] = inst.args;
        for copy in 0..self.copies(row) {
            let x = self.gpr(row, copy, Gpr::RAX);
            self.first_index(c, x);
            let y = self.rm(limit, copy, Gpr::RDX);
            self.asm.alu(Alu::Cmp, Size::S64, Gpr::RCX, y);
            let vectors = if self.shape.rows { copy..copy + 1 } else { 0..self.shape.vectors };
            // Rows may share what does not depend on them.
            let vectors = if self.copies(row) == 1 { 0..self.shape.vectors } else { vectors };
            let back = self.cold_if(Cond::Ae, Cold::Row { inst: *inst, c, copy, vectors });
            self.asm.bind(back);
        }
    }

    /// Computes the smallest index of the lanes that one check covers, into `rcx`.
    fn first_index(&mut self, c: i32, row: Gpr) {
        let below = if c < 0 { i64::from(c) * (self.shape.span() - 1) } else { 0 } as i32;
        match c {
            1 | 2 | 4 | 8 => self.asm.lea(Size::S64, Gpr::RCX, Mem::index(row, X, c as u8, below)),
            _ => {
                self.asm.imul_imm(Size::S64, Gpr::RCX, X, c);
                self.asm.lea(Size::S64, Gpr::RCX, Mem::index(row, Gpr::RCX, 1, below));
            }
        }
    }

    fn check_lanes(&mut self, inst: &Inst) {
        let [index, extent, _] = inst.args;
        for copy in 0..self.shape.vectors {
            let mask = self.lanes(inst, copy, K7);
            let x = self.vector(index, copy, V[1]);
            let y = self.src(extent, copy, V[2]);
            let to = if copy == 0 { K6 } else { K7 };
            self.compare((Rel::Ge, Elem::U32), to, x, y, mask);
            if copy > 0 {
                self.mask_op(Kop::Or, K6, K6, K7);
            }
        }
        self.mask_test(K6);
        self.asm.jcc(Cond::Ne, self.leave);
    }

    fn check_range(&mut self, inst: &Inst) {
        let [low, high, extent] = inst.args;
        let x = self.gpr(low, 0, Gpr::RCX);
        self.asm.test(Size::S64, x, x);
        self.asm.jcc(Cond::S, self.leave);
        let (x, y) = (self.gpr(high, 0, Gpr::RCX), self.rm(extent, 0, Gpr::RDX));
        self.asm.alu(Alu::Cmp, Size::S64, x, y);
        self.asm.jcc(Cond::Ge, self.leave);
    }

    fn leave_any(&mut self, inst: &Inst) {
        if inst.mask == Value::NONE {
            let copies = self.copies(inst.args[0]);
            for copy in (0..copies).step_by(2) {
                let first = self.mask(inst.args[0], copy, K6);
                let second = if copy + 1 < copies { self.mask(inst.args[0], copy + 1, K7) } else { first };
                self.mask_test_either(first, second);
                self.asm.jcc(Cond::Ne, self.leave);
            }
            return;
        }
        for copy in 0..self.copies(inst.args[0]) {
            let (mask, active) = (self.mask(inst.args[0], copy, K6), self.mask(inst.mask, copy, K7));
            self.mask_op(Kop::And, K7, mask, active);
            self.mask_test(K7);
            self.asm.jcc(Cond::Ne, self.leave);
        }
    }
}
