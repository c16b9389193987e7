//! Emits loads, stores, accesses to the interpreter's registers, and bounds checks.

use super::*;
use crate::jit::frame::{LOG, LOG_END, RECORD};
use crate::jit::memory_operands::ScaledAddress;
use crate::jit::register_allocation::ValueLocation;
use crate::jit::scalar_differences::ScalarDifference;
use crate::lir::{AddressForm, LaneBinOp, LaneComparison, LaneElem, MemoryWidth};

/// Maximum number of definitions that [`RegionEmitter::stride`] follows from a value to its operands.
const DEPTH: u32 = 8;

impl RegionEmitter<'_> {
    pub(super) fn memory_inst(&mut self, inst: &LaneInst) {
        match inst.op {
            LaneOp::Output(number) => return self.output(number, inst),
            LaneOp::LoadScalar(cell) => return self.load_scalar(cell, inst),
            _ => {}
        }
        let copies = match inst.op {
            LaneOp::Store(..) | LaneOp::StoreReg => self.shape.vectors,
            _ => self.copies(inst.dst),
        };
        for copy in 0..copies {
            match inst.op {
                LaneOp::Load(cell, form) => self.load(cell, form, inst, copy),
                LaneOp::Store(cell, form) => self.store(cell, form, inst, copy),
                LaneOp::LoadReg => {
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

    /// Returns the memory operand for a vector's lanes in a register of the interpreter.
    fn register(&mut self, address: LaneValue, ty: LaneTy, copy: usize) -> Mem {
        let base = self.gpr(address, 0, Gpr::RAX);
        let first = (copy * self.shape.width) as i32;
        if ty == LaneTy::V64 { Mem::index(base, LANE, 2, 8 * first) } else { Mem::index(base, LANE, 1, 4 * first) }
    }

    fn output(&mut self, number: u32, inst: &LaneInst) {
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

    fn load_scalar(&mut self, cell: MemoryWidth, inst: &LaneInst) {
        for copy in 0..self.copies(inst.dst) {
            let from = self.element_address(inst.args[0], copy);
            let d = self.gpr_for(inst.dst, copy, Gpr::RAX);
            self.load_cell(cell, d, from);
            self.put_gpr(inst.dst, copy, d);
        }
    }

    fn load_cell(&mut self, cell: MemoryWidth, d: Gpr, from: Mem) {
        match cell {
            MemoryWidth::W4 => self.asm.mov(OperandSize::S32, d, from),
            MemoryWidth::W8 => self.asm.mov(OperandSize::S64, d, from),
            MemoryWidth::U8 => self.asm.load_zx8(d, from),
            MemoryWidth::I8 => self.asm.load_sx8(d, from),
            MemoryWidth::U16 => self.asm.load_zx16(d, from),
            MemoryWidth::I16 => self.asm.load_sx16(d, from),
        }
    }

    /// Returns the memory operand for the element at an address. Overwrites `rax` and `rcx`.
    pub(super) fn element_address(&mut self, address: LaneValue, copy: usize) -> Mem {
        let (address, constant) = self.allocation.folds.root(address);
        let Some(ScaledAddress { base, index, scale }) = self.allocation.folds.sum(address) else {
            return Mem::at(self.gpr(address, copy, Gpr::RAX), constant);
        };
        match self.loc(index, copy) {
            ValueLocation::Gpr(index) => Mem::index(self.gpr(base, copy, Gpr::RAX), Gpr(index), scale, constant),
            _ => {
                let from = self.gpr(index, copy, Gpr::RAX);
                if from != Gpr::RAX {
                    self.asm.mov(OperandSize::S64, Gpr::RAX, from);
                }
                self.asm.shift_imm(ShiftOp::Shl, OperandSize::S64, Gpr::RAX, scale.ilog2() as u8);
                let base = self.rm(base, copy, Gpr::RCX);
                self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RAX, base);
                Mem::at(Gpr::RAX, constant)
            }
        }
    }

    /// Returns the memory operand for the contiguous elements of a vector's lanes. Overwrites `rax` and `rcx`.
    pub(super) fn row_address(&mut self, address: LaneValue, cell: MemoryWidth, copy: usize) -> Mem {
        if self.shape.rows {
            return self.element_address(address, copy);
        }
        let (address, constant) = self.allocation.folds.root(address);
        let base = self.gpr(address, copy, Gpr::RAX);
        Mem::index(base, X, cell.size() as u8, (copy * self.shape.width) as i32 * cell.size() + constant)
    }

    /// Returns the memory operand of a folded load. Overwrites `rax` and `rcx`.
    pub(super) fn folded_operand(&mut self, load: &LaneInst, copy: usize) -> Src {
        match load.op {
            LaneOp::Load(cell, AddressForm::Contiguous) => {
                let from = self.row_address(load.args[0], cell, copy);
                // Emit no prefetch that needs `rdx`, which the caller may be using.
                if self.prefetch.iteration_step(load.args[0]).is_none_or(|step| step.as_constant().is_some()) {
                    self.prefetch_next_block(load.args[0], from, false, copy);
                }
                Src::Mem(from)
            }
            _ => Src::Broadcast(self.element_address(load.args[0], copy)),
        }
    }

    /// Prefetches the cache line that the same access uses in the next block or iteration. Emits no prefetch for the
    /// next block in long loops, because the line would be evicted before its use.
    fn prefetch_next_block(&mut self, address: LaneValue, of: Mem, write: bool, copy: usize) {
        if let Some(step) = self.prefetch.iteration_step(address) {
            return self.prefetch_next_iteration(&step, of, write);
        }
        if self.loops > 0 {
            return;
        }
        if copy == 0 {
            let (root, constant) = self.allocation.folds.root(address);
            self.next_block = self.prefetch.block_distance(address, root, constant);
        }
        if let Some(disp) = self.next_block.and_then(|bytes| of.disp.checked_add(bytes)) {
            self.asm.prefetch(Mem { disp, ..of }, write);
        }
    }

    /// Prefetches the cache line that the next iteration of the loop around a phase accesses. Overwrites `rdx`.
    fn prefetch_next_iteration(&mut self, step: &ScalarDifference, of: Mem, write: bool) {
        match step.terms() {
            [] => {
                if let Some(disp) = i32::try_from(step.constant()).ok().and_then(|bytes| of.disp.checked_add(bytes)) {
                    self.asm.prefetch(Mem { disp, ..of }, write);
                }
            }
            &[(value, factor)] => {
                let (Ok(factor), true) = (i32::try_from(factor), self.loc(value, 0) != ValueLocation::None) else {
                    return;
                };
                self.load_gpr(value, 0, Gpr::RDX);
                if factor != 1 {
                    self.asm.imul_imm(OperandSize::S64, Gpr::RDX, Gpr::RDX, factor);
                }
                self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RDX, of.base);
                self.asm.prefetch(Mem { base: Gpr::RDX, ..of }, write);
            }
            _ => {}
        }
    }

    /// Like [`RegionEmitter::prefetch_next_iteration`], for a gather or scatter: prefetches the two cache lines from
    /// the first lane's element on. Overwrites `rcx` and `rdx`.
    fn prefetch_lanes(&mut self, address: LaneValue, base: Gpr, offsets: Vreg, write: bool) {
        let Some(step) = self.prefetch.iteration_step(address) else { return };
        self.asm.to_gpr(OperandSize::S32, Gpr::RCX, offsets);
        self.asm.movsxd(Gpr::RCX, Gpr::RCX);
        let first = Mem::index(base, Gpr::RCX, 1, 0);
        self.prefetch_next_iteration(&step, first, write);
        self.prefetch_next_iteration(&step, Mem { disp: 60, ..first }, write);
    }

    /// Returns the memory operand for a vector's lanes in a local array, in the column that is `columns` columns after
    /// the address.
    fn local_column(&mut self, address: LaneValue, cell: MemoryWidth, columns: i32, copy: usize) -> Mem {
        let base = self.gpr(address, copy, Gpr::RAX);
        let first = (copy * self.shape.width) as i32 * cell.size();
        Mem::index(base, LANE, (cell.size() / 4) as u8, columns * self.shape.column as i32 + first)
    }

    /// Returns the memory operand for a vector's elements, which are contiguous or in one column of a local array.
    fn contiguous(&mut self, cell: MemoryWidth, form: AddressForm, address: LaneValue, copy: usize) -> Mem {
        match form {
            AddressForm::LocalColumn(columns) => self.local_column(address, cell, columns, copy),
            _ => self.row_address(address, cell, copy),
        }
    }

    /// Returns the registers with the base address and the byte offsets of a gather or scatter. May overwrite `rax` and
    /// the second scratch vector.
    fn scattered_address(
        &mut self,
        cell: MemoryWidth,
        form: AddressForm,
        address: LaneValue,
        offsets: LaneValue,
        copy: usize,
    ) -> (Gpr, Vreg) {
        let index = self.vector(offsets, copy, V[1]);
        let AddressForm::LocalIndexed(columns) = form else {
            let (address, constant) = self.allocation.folds.root(address);
            let base = self.gpr(address, copy, Gpr::RAX);
            if constant == 0 {
                return (base, index);
            }
            self.asm.lea(OperandSize::S64, Gpr::RAX, Mem::at(base, constant));
            return (Gpr::RAX, index);
        };
        let first = self.local_column(address, cell, columns, copy);
        self.asm.lea(OperandSize::S64, Gpr::RAX, first);
        let lanes = self.lane_multiples(0, cell.size());
        self.asm.v3(V3::AddD, self.len(LaneTy::V32), V[1], index, lanes, Masking::None);
        (Gpr::RAX, V[1])
    }

    fn load(&mut self, cell: MemoryWidth, form: AddressForm, inst: &LaneInst, copy: usize) {
        let ty = self.ty(inst.dst);
        let len = self.len(ty);
        let d = self.vector_for(inst.dst, copy, V[0]);
        match form {
            AddressForm::Contiguous | AddressForm::LocalColumn(_) => {
                let from = self.contiguous(cell, form, inst.args[0], copy);
                self.prefetch_next_block(inst.args[0], from, false, copy);
                let mask = (inst.mask != LaneValue::NONE).then(|| self.active(inst, copy));
                self.load_row(cell, len, d, from, mask);
            }
            AddressForm::Uniform => self.load_one(cell, inst, copy, d, len),
            AddressForm::Indexed | AddressForm::LocalIndexed(_) => {
                let (base, index) = self.scattered_address(cell, form, inst.args[0], inst.args[1], copy);
                self.prefetch_lanes(inst.args[0], base, index, false);
                let mask = (inst.mask != LaneValue::NONE).then(|| self.active(inst, copy));
                self.lanes_to_k7(mask);
                let stride = self.stride_of(cell, form, inst.args[1]);
                self.gather(cell, V[0], base, index, stride);
                return self.put_vector(inst.dst, copy, V[0]);
            }
        }
        self.put_vector(inst.dst, copy, d);
    }

    fn load_one(&mut self, cell: MemoryWidth, inst: &LaneInst, copy: usize, d: Vreg, len: Len) {
        let from = self.element_address(inst.args[0], copy);
        let broadcast = match cell {
            MemoryWidth::W4 => Some(V2::BroadcastD),
            MemoryWidth::W8 => Some(V2::BroadcastQ),
            _ => None,
        };
        let mask = (inst.mask != LaneValue::NONE).then(|| self.active(inst, copy));
        if let (Some(op), true) = (broadcast, self.evex() || mask.is_none()) {
            return self.asm.v2(op, len, d, from, mask.map_or(Masking::None, |mask| Masking::Zero(mask.k())));
        }
        // Skip the load if no lane is active, because the address may be invalid.
        let skip = self.asm.label();
        if broadcast.is_some() {
            self.asm.v3(V3::Xor, len, d, d, d, Masking::None);
        } else {
            self.asm.alu(Alu::Xor, OperandSize::S32, Gpr::RCX, Gpr::RCX);
        }
        if let Some(mask) = mask {
            self.mask_test(mask);
            self.asm.jcc(ConditionCode::E, skip);
        }
        match broadcast {
            Some(op) => self.asm.v2(op, len, d, from, Masking::None),
            None => self.load_cell(cell, Gpr::RCX, from),
        }
        self.asm.bind(skip);
        if broadcast.is_none() {
            self.asm.broadcast_gpr(OperandSize::S32, len, d, Gpr::RCX, Masking::None);
        }
    }

    /// Returns the register with an instruction's mask, or `None` if the instruction applies to all lanes.
    pub(super) fn lanes(&mut self, inst: &LaneInst, copy: usize, scratch: MaskRegister) -> Option<MaskRegister> {
        (inst.mask != LaneValue::NONE).then(|| self.mask(inst.mask, copy, scratch))
    }

    /// Sets `k7` to the lanes of a mask, or all lanes.
    fn lanes_to_k7(&mut self, mask: Option<MaskRegister>) {
        match mask {
            Some(mask) => self.mask_move(K7, mask),
            None => self.mask_fill(K7, true),
        }
    }

    /// Returns the mask of a load. If all vectors of the batch share the loaded value, returns the union of their
    /// masks.
    fn active(&mut self, inst: &LaneInst, copy: usize) -> MaskRegister {
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

    fn store(&mut self, cell: MemoryWidth, form: AddressForm, inst: &LaneInst, copy: usize) {
        let value = inst.args[1];
        let ty = self.ty(value);
        if self.ways.logged && self.region.is_store_logged(inst) {
            self.log(cell, form, inst, copy);
        }
        let (x, mask) = (self.vector(value, copy, V[0]), self.lanes(inst, copy, K7));
        if !form.has_offsets() {
            let to = self.contiguous(cell, form, inst.args[0], copy);
            self.prefetch_next_block(inst.args[0], to, true, copy);
            return self.store_row(cell, ty, to, x, mask);
        }
        let (base, index) = self.scattered_address(cell, form, inst.args[0], inst.args[2], copy);
        let done = self.asm.label();
        if let Some(mask) = mask.filter(|_| self.evex()) {
            // Skip the store if the mask is empty: often only one thread of a block stores a value.
            self.mask_test(mask);
            self.asm.jcc(ConditionCode::E, done);
        }
        let not_contiguous = self.stride_of(cell, form, inst.args[2]).is_some_and(|stride| stride != cell.size());
        if self.evex() && not_contiguous {
            self.lanes_to_k7(mask);
        } else if self.evex() {
            self.lanes_to_k7(mask);
            let (to, not_contiguous) = self.if_in_a_row(cell, base, index);
            self.store_row(cell, ty, to, x, Some(K7));
            self.asm.jmp(done);
            self.asm.bind(not_contiguous);
        }
        if cell.size() < 4 || !self.evex() {
            self.bits_of_lanes(mask);
            self.store_each(cell, ty, x, base, index);
        } else {
            let (len, op) = (self.len(ty), if ty == LaneTy::V64 { Gather::DQ } else { Gather::DD });
            self.asm.scatter(op, len, VecMem { base, index, scale: 1, disp: 0 }, x, K7.k());
        }
        self.asm.bind(done);
    }

    /// Sets `rcx` to the bits of the mask, or to all ones for `None`: one bit for each lane.
    fn bits_of_lanes(&mut self, mask: Option<MaskRegister>) {
        match mask {
            Some(mask) => self.mask_bits(Gpr::RCX, mask),
            None => self.asm.mov_imm64(Gpr::RCX, self.all_bits()),
        }
    }

    /// Returns the byte stride between the elements of adjacent lanes, if it is a known constant.
    fn stride_of(&self, cell: MemoryWidth, form: AddressForm, offsets: LaneValue) -> Option<i32> {
        let stride = self.stride(offsets, DEPTH)?;
        Some(if matches!(form, AddressForm::LocalIndexed(_)) { stride.wrapping_add(cell.size()) } else { stride })
    }

    /// Returns the difference between adjacent lanes of a vector of 32-bit integers, if it is a known constant.
    fn stride(&self, value: LaneValue, depth: u32) -> Option<i32> {
        let inst = self.vectors.get(&value).filter(|inst| depth > 0 && inst.mask == LaneValue::NONE)?;
        let of = |k: usize| self.stride(inst.args[k], depth - 1);
        let splat = |k: usize| match self.vectors.get(&inst.args[k])?.op {
            LaneOp::Splat(bits) => Some(bits as u32 as i32),
            _ => None,
        };
        match inst.op {
            LaneOp::Iota(step) => Some(step),
            LaneOp::Splat(_) | LaneOp::Broadcast | LaneOp::BroadcastInput(_) => Some(0),
            LaneOp::Vector(LaneBinOp::Add, LaneElem::I32 | LaneElem::U32) => Some(of(0)?.wrapping_add(of(1)?)),
            LaneOp::Vector(LaneBinOp::Sub, LaneElem::I32 | LaneElem::U32) => Some(of(0)?.wrapping_sub(of(1)?)),
            LaneOp::Vector(LaneBinOp::Shl, LaneElem::I32 | LaneElem::U32) => {
                Some(of(0)?.wrapping_shl(splat(1)? as u32))
            }
            LaneOp::Vector(LaneBinOp::Mul, LaneElem::I32 | LaneElem::U32) => Some(of(0)?.wrapping_mul(splat(1)?)),
            _ => None,
        }
    }

    /// Writes the data that a store is about to overwrite to the undo log. See [`RECORD`] for the format.
    fn log(&mut self, cell: MemoryWidth, form: AddressForm, inst: &LaneInst, copy: usize) {
        let len = self.len(self.ty(inst.args[1]));
        self.asm.mov(OperandSize::S64, Gpr::RDX, Self::slot(LOG));
        self.asm.lea(OperandSize::S64, Gpr::RCX, Mem::at(Gpr::RDX, RECORD));
        self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RCX, Self::slot(LOG_END));
        self.asm.jcc(ConditionCode::A, self.leave);
        self.asm.store(OperandSize::S64, Self::slot(LOG), Gpr::RCX);
        let mask = self.lanes(inst, copy, K7);
        self.bits_of_lanes(mask);
        self.asm.store(OperandSize::S32, Mem::at(Gpr::RDX, 8), Gpr::RCX);
        self.asm.store_imm(OperandSize::S32, Mem::at(Gpr::RDX, 12), cell.size());
        if form.has_offsets() {
            let (base, index) = self.scattered_address(cell, form, inst.args[0], inst.args[2], copy);
            self.asm.store(OperandSize::S64, Mem::at(Gpr::RDX, 0), base);
            let offsets = self.len(LaneTy::V32);
            self.asm.vstore(false, offsets, Mem::at(Gpr::RDX, 80), index, None);
            self.lanes_to_k7(mask);
            self.gather(cell, V[3], base, index, None);
            return self.asm.vstore(false, len, Mem::at(Gpr::RDX, 16), V[3], None);
        }
        let from = self.contiguous(cell, form, inst.args[0], copy);
        self.asm.lea(OperandSize::S64, Gpr::RAX, from);
        self.asm.store(OperandSize::S64, Mem::at(Gpr::RDX, 0), Gpr::RAX);
        self.load_row(cell, len, V[3], Mem::at(Gpr::RAX, 0), mask);
        self.asm.vstore(false, len, Mem::at(Gpr::RDX, 16), V[3], None);
        let pool = self.lane_multiples(0, cell.size());
        let offsets = self.len(LaneTy::V32);
        self.asm.v2(V2::Move, offsets, V[2], pool, Masking::None);
        self.asm.vstore(false, offsets, Mem::at(Gpr::RDX, 80), V[2], None);
    }

    // Bounds checks

    pub(super) fn check(&mut self, inst: &LaneInst) {
        self.leave_if_forced();
        match inst.op {
            LaneOp::CheckUniform => self.check_one(inst),
            LaneOp::CheckRow(c) => self.check_row(c, inst),
            LaneOp::CheckLanes => self.check_lanes(inst),
            LaneOp::CheckRange => self.check_range(inst),
            LaneOp::ExitIfAny => self.leave_any(inst),
            _ => {
                for copy in 0..self.copies(inst.args[0]) {
                    let x = self.gpr(inst.args[0], copy, Gpr::RCX);
                    self.asm.test(self.size(inst.args[0]), x, x);
                    self.asm.jcc(ConditionCode::E, self.leave);
                }
            }
        }
    }

    fn check_one(&mut self, inst: &LaneInst) {
        let [index, extent, _] = inst.args;
        let copies = self.copies(index).max(self.copies(extent));
        for copy in 0..copies {
            let (x, y) = (self.gpr(index, copy, Gpr::RCX), self.rm(extent, copy, Gpr::RDX));
            self.asm.alu(Alu::Cmp, OperandSize::S64, x, y);
            if inst.mask == LaneValue::NONE {
                self.asm.jcc(ConditionCode::Ae, self.leave);
                continue;
            }
            let vectors = if copies == 1 { 0..self.shape.vectors } else { copy..copy + 1 };
            let back = self.jump_cold_if(ConditionCode::Ae, ColdPath::One { mask: inst.mask, vectors });
            self.asm.bind(back);
        }
    }

    fn check_row(&mut self, c: i32, inst: &LaneInst) {
        let [row, limit, _] = inst.args;
        for copy in 0..self.copies(row) {
            let x = self.gpr(row, copy, Gpr::RAX);
            self.first_index(c, x);
            let y = self.rm(limit, copy, Gpr::RDX);
            self.asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RCX, y);
            let vectors = if self.shape.rows { copy..copy + 1 } else { 0..self.shape.vectors };
            // If the row does not differ between vectors, one check covers all of them.
            let vectors = if self.copies(row) == 1 { 0..self.shape.vectors } else { vectors };
            let back = self.jump_cold_if(ConditionCode::Ae, ColdPath::Row { inst: *inst, c, copy, vectors });
            self.asm.bind(back);
        }
    }

    /// Sets `rcx` to the smallest index of the lanes that one check covers.
    fn first_index(&mut self, c: i32, row: Gpr) {
        let lowest_offset = if c < 0 { i64::from(c) * (self.shape.span() - 1) } else { 0 } as i32;
        match c {
            1 | 2 | 4 | 8 => self.asm.lea(OperandSize::S64, Gpr::RCX, Mem::index(row, X, c as u8, lowest_offset)),
            _ => {
                self.asm.imul_imm(OperandSize::S64, Gpr::RCX, X, c);
                self.asm.lea(OperandSize::S64, Gpr::RCX, Mem::index(row, Gpr::RCX, 1, lowest_offset));
            }
        }
    }

    fn check_lanes(&mut self, inst: &LaneInst) {
        let [index, extent, _] = inst.args;
        for copy in 0..self.shape.vectors {
            let mask = self.lanes(inst, copy, K7);
            let x = self.vector(index, copy, V[1]);
            let y = self.src(extent, copy, V[2]);
            let to = if copy == 0 { K6 } else { K7 };
            self.compare(LaneComparison::Ge, LaneElem::U32, to, x, y, mask);
            if copy > 0 {
                self.mask_op(Kop::Or, K6, K6, K7);
            }
        }
        self.mask_test(K6);
        self.asm.jcc(ConditionCode::Ne, self.leave);
    }

    fn check_range(&mut self, inst: &LaneInst) {
        let [low, high, extent] = inst.args;
        let x = self.gpr(low, 0, Gpr::RCX);
        self.asm.test(OperandSize::S64, x, x);
        self.asm.jcc(ConditionCode::S, self.leave);
        let (x, y) = (self.gpr(high, 0, Gpr::RCX), self.rm(extent, 0, Gpr::RDX));
        self.asm.alu(Alu::Cmp, OperandSize::S64, x, y);
        self.asm.jcc(ConditionCode::Ge, self.leave);
    }

    fn leave_any(&mut self, inst: &LaneInst) {
        if inst.mask == LaneValue::NONE {
            let copies = self.copies(inst.args[0]);
            for copy in (0..copies).step_by(2) {
                let first = self.mask(inst.args[0], copy, K6);
                let second = if copy + 1 < copies { self.mask(inst.args[0], copy + 1, K7) } else { first };
                self.mask_test_either(first, second);
                self.asm.jcc(ConditionCode::Ne, self.leave);
            }
            return;
        }
        for copy in 0..self.copies(inst.args[0]) {
            let (mask, active) = (self.mask(inst.args[0], copy, K6), self.mask(inst.mask, copy, K7));
            self.mask_op(Kop::And, K7, mask, active);
            self.mask_test(K7);
            self.asm.jcc(ConditionCode::Ne, self.leave);
        }
    }
}
