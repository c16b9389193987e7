//! Emits masked memory accesses for both instruction sets: accesses to vectors and to contiguous elements, gathers, and
//! stores of one lane at a time.
//!
//! The code does not access the elements of lanes outside the mask; their addresses may be invalid.

use super::*;
use crate::jit::frame::{ADDRESS, CALL};
use crate::lir::MemoryWidth;

impl RegionEmitter<'_> {
    /// Removes the lanes from `d` that are not set in the interpreter's mask, which is in memory. Overwrites `V[0]`
    /// with AVX-512.
    pub(super) fn restrict_mask(&mut self, d: MaskRegister, lanes: Mem) {
        let len = self.len(LaneTy::V32);
        if self.evex() {
            self.asm.v2(V2::Move, len, V[0], lanes, Masking::Zero(d.k()));
            self.asm.testm(OperandSize::S32, len, d.k(), V[0], V[0], Some(d.k()));
        } else {
            // Each lane of the interpreter's mask is all ones or zero, like a lane of an AVX2 mask.
            self.asm.maskmov_load(OperandSize::S32, len, d.v(), d.v(), lanes);
        }
    }

    /// Stores a vector, or only its lanes in the mask. Overwrites `k7`.
    pub(super) fn store_lanes(&mut self, ty: LaneTy, to: Mem, x: Vreg, mask: Option<MaskRegister>) {
        let (len, wide) = (self.len(ty), ty == LaneTy::V64);
        let Some(mask) = mask else { return self.asm.vstore(wide, len, to, x, None) };
        if self.evex() {
            return self.asm.vstore(wide, len, to, x, Some(mask.k()));
        }
        let mask = self.mask_lanes(ty, mask);
        self.asm.maskmov_store(if wide { OperandSize::S64 } else { OperandSize::S32 }, len, to, mask, x);
    }

    /// Loads contiguous elements; lanes outside the mask become zero. With AVX2, overwrites `rax`, `rcx`, `k7`, `V[1]`
    /// and `V[2]`.
    pub(super) fn load_row(&mut self, cell: MemoryWidth, len: Len, d: Vreg, from: Mem, mask: Option<MaskRegister>) {
        let op = row_load(cell);
        let Some(mask) = mask else { return self.asm.v2(op, len, d, from, Masking::None) };
        if self.evex() {
            return self.asm.v2(op, len, d, from, Masking::Zero(mask.k()));
        }
        if let MemoryWidth::W4 | MemoryWidth::W8 = cell {
            let size = if cell == MemoryWidth::W8 { OperandSize::S64 } else { OperandSize::S32 };
            let mask = self.mask_lanes(cell.vector_ty(), mask);
            return self.asm.maskmov_load(size, len, d, mask, from);
        }
        let (some, done) = (self.asm.label(), self.asm.label());
        self.jump_unless_all(mask, some);
        self.asm.v2(op, len, d, from, Masking::None);
        self.asm.jmp(done);
        self.asm.bind(some);
        self.mask_move(K7, mask);
        self.asm.lea(OperandSize::S64, Gpr::RAX, from);
        let pool = self.lane_multiples(0, cell.size());
        self.asm.v2(V2::Move, len, V[1], pool, Masking::None);
        self.gather_narrow(cell, d, Gpr::RAX, V[1]);
        self.asm.bind(done);
    }

    /// Jumps unless the mask contains all lanes (AVX2). `rcx` then contains the mask's bits.
    fn jump_unless_all(&mut self, mask: MaskRegister, to: CodeLabel) {
        self.mask_bits(Gpr::RCX, mask);
        self.asm.alu(Alu::Cmp, OperandSize::S32, Gpr::RCX, (1 << self.shape.width) - 1);
        self.asm.jcc(ConditionCode::Ne, to);
    }

    /// Returns a word with a bit set for each lane of a vector.
    pub(super) fn all_bits(&self) -> u64 {
        (1 << self.shape.width) - 1
    }

    /// Stores contiguous elements. The address must not use `rcx` or `rdx`. Overwrites `rax`, `rcx`, `rdx`, `k6`, `k7`
    /// and `V[2]`.
    pub(super) fn store_row(&mut self, cell: MemoryWidth, ty: LaneTy, to: Mem, x: Vreg, mask: Option<MaskRegister>) {
        if let MemoryWidth::W4 | MemoryWidth::W8 = cell {
            return self.store_lanes(ty, to, x, mask);
        }
        let len = self.len(ty);
        if self.evex() {
            let op = if cell.size() == 1 { Narrow::DB } else { Narrow::DW };
            return self.asm.vstore_narrow(op, len, to, x, mask.map(MaskRegister::k));
        }
        let Some(mask) = mask else { return self.store_packed(cell, to, x) };
        let (some, done) = (self.asm.label(), self.asm.label());
        self.jump_unless_all(mask, some);
        self.store_packed(cell, to, x);
        self.asm.jmp(done);
        self.asm.bind(some);
        self.asm.lea(OperandSize::S64, Gpr::RAX, to);
        let pool = self.lane_multiples(0, cell.size());
        self.asm.v2(V2::Move, len, V[2], pool, Masking::None);
        self.store_each(cell, ty, x, Gpr::RAX, V[2]);
        self.asm.bind(done);
    }

    /// Narrows all lanes and stores them (AVX2). Overwrites `rcx`, `k6` and `V[2]`.
    fn store_packed(&mut self, cell: MemoryWidth, to: Mem, x: Vreg) {
        self.pack_words(V[2], x, if cell.size() == 1 { 0xff } else { 0xffff });
        if cell.size() == 1 {
            self.asm.v3(V3::PackUsWb, Len::L128, V[2], V[2], V[2], Masking::None);
        }
        let size = match self.shape.width as i32 * cell.size() {
            16 => return self.asm.vstore(false, Len::L128, to, V[2], None),
            8 => OperandSize::S64,
            _ => OperandSize::S32,
        };
        self.asm.to_gpr(size, Gpr::RCX, V[2]);
        self.asm.store(size, to, Gpr::RCX);
    }

    /// Gathers the elements at `base + index` for the lanes in `k7`; other lanes become zero. `stride`: the byte stride
    /// between lanes, if it is known. Overwrites `rax`, `rcx`, `k0` (with AVX-512), `k7`, `V[1]` and `V[2]`.
    pub(super) fn gather(&mut self, cell: MemoryWidth, d: Vreg, base: Gpr, index: Vreg, stride: Option<i32>) {
        let (len, done) = (self.len(cell.vector_ty()), self.asm.label());
        if self.evex() && stride.is_none_or(|stride| stride == cell.size()) {
            let (from, apart) = self.if_in_a_row(cell, base, index);
            self.load_row(cell, len, d, from, Some(K7));
            self.asm.jmp(done);
            self.asm.bind(apart);
        }
        let op = match cell {
            MemoryWidth::W4 => Some(Gather::DD),
            MemoryWidth::W8 => Some(Gather::DQ),
            _ => None,
        };
        match op {
            Some(op) => {
                self.asm.v3(V3::Xor, len, d, d, d, Masking::None);
                self.gather_words(op, len, d, VecMem { base, index, scale: 1, disp: 0 });
            }
            None => self.gather_narrow(cell, d, base, index),
        }
        self.asm.bind(done);
    }

    /// Emits a test whether the elements at `base + index` of the lanes in `k7` are contiguous, and a jump if they are
    /// not. This case is frequent even if it cannot be proved, and a contiguous access is much faster. Returns the
    /// address of the elements and the label to which the code jumps. Overwrites `rcx`, `k0` and `V[2]` (AVX-512).
    pub(super) fn if_in_a_row(&mut self, cell: MemoryWidth, base: Gpr, index: Vreg) -> (Mem, CodeLabel) {
        let (len, apart) = (self.len(LaneTy::V32), self.asm.label());
        let steps = self.lane_multiples(0, cell.size());
        self.asm.v2(V2::BroadcastD, len, V[2], index, Masking::None);
        self.asm.v3(V3::AddD, len, V[2], V[2], steps, Masking::None);
        self.asm.cmp(Cmp::D, len, K0.k(), V[2], index, 4, Some(K7.k()));
        self.mask_test(K0);
        self.asm.jcc(ConditionCode::Ne, apart);
        self.asm.to_gpr(OperandSize::S32, Gpr::RCX, index);
        self.asm.movsxd(Gpr::RCX, Gpr::RCX);
        (Mem::index(base, Gpr::RCX, 1, 0), apart)
    }

    /// Gathers the lanes in `k7`; other lanes are unchanged. Clears `k7`.
    pub(super) fn gather_words(&mut self, op: Gather, len: Len, d: Vreg, from: VecMem) {
        if self.evex() {
            return self.asm.gather(op, len, d, from, K7.k());
        }
        let mask = self.mask_lanes(if op == Gather::DQ { LaneTy::V64 } else { LaneTy::V32 }, K7);
        self.asm.gather_vex(op, len, d, from, mask);
    }

    /// Stores the lanes whose bits are set in `rcx`, in lane order, at the base plus their offsets. The base may be
    /// `rax`. Overwrites `rax`, `rcx` and `rdx`.
    pub(super) fn store_each(&mut self, cell: MemoryWidth, ty: LaneTy, x: Vreg, base: Gpr, offsets: Vreg) {
        if base == Gpr::RAX {
            self.asm.store(OperandSize::S64, Self::slot(ADDRESS), base);
        }
        self.asm.vstore(false, self.len(ty), Self::slot(CALL), x, None);
        self.asm.vstore(false, self.len(LaneTy::V32), Self::slot(CALL + 64), offsets, None);
        let (size, scale) = if ty == LaneTy::V64 { (OperandSize::S64, 8) } else { (OperandSize::S32, 4) };
        let (next, done) = (self.asm.label(), self.asm.label());
        self.asm.test(OperandSize::S32, Gpr::RCX, Gpr::RCX);
        self.asm.jcc(ConditionCode::E, done);
        self.asm.bind(next);
        self.asm.tzcnt(OperandSize::S32, Gpr::RAX, Gpr::RCX);
        self.asm.movsxd(Gpr::RDX, Mem::index(FRAME, Gpr::RAX, 4, CALL + 64));
        self.asm.mov(size, Gpr::RAX, Mem::index(FRAME, Gpr::RAX, scale, CALL));
        let to = if base == Gpr::RAX {
            self.asm.alu(Alu::Add, OperandSize::S64, Gpr::RDX, Self::slot(ADDRESS));
            Mem::at(Gpr::RDX, 0)
        } else {
            Mem::index(base, Gpr::RDX, 1, 0)
        };
        match cell.size() {
            1 => self.asm.store8(to, Gpr::RAX),
            2 => self.asm.store16(to, Gpr::RAX),
            _ => self.asm.store(size, to, Gpr::RAX),
        }
        // Clear the lowest bit of `rcx`.
        self.asm.lea(OperandSize::S32, Gpr::RDX, Mem::at(Gpr::RCX, -1));
        self.asm.alu(Alu::And, OperandSize::S32, Gpr::RCX, Gpr::RDX);
        self.asm.jcc(ConditionCode::Ne, next);
        self.asm.bind(done);
    }
}

fn row_load(cell: MemoryWidth) -> V2 {
    match cell {
        MemoryWidth::W4 => V2::Move,
        MemoryWidth::W8 => V2::MovePd,
        MemoryWidth::U8 => V2::ZxBd,
        MemoryWidth::I8 => V2::SxBd,
        MemoryWidth::U16 => V2::ZxWd,
        MemoryWidth::I16 => V2::SxWd,
    }
}
