//! Memory under masks, with either instruction set: vectors of lanes, rows of elements, gathers, and stores lane by lane.
//!
//! Lanes outside of the mask are not touched: they may lie where there is no memory.

use super::*;
use crate::device::sim::jit::frame::{ADDRESS, CALL};
use crate::device::sim::lane::Cell;

impl Emit<'_> {
    /// The lanes of `d` for which there is something in the interpreter's mask. Overwrites `V[0]` with AVX-512.
    pub(super) fn among(&mut self, d: Mask, lanes: Mem) {
        let len = self.len(Ty::V32);
        if self.evex() {
            self.asm.v2(V2::Move, len, V[0], lanes, Masking::Zero(d.k()));
            self.asm.testm(Size::S32, len, d.k(), V[0], V[0], Some(d.k()));
        } else {
            // The interpreter's masks are all ones or zero, too.
            self.asm.maskmov_load(Size::S32, len, d.v(), d.v(), lanes);
        }
    }

    /// Stores the lanes of a vector. Overwrites `k7`.
    pub(super) fn store_lanes(&mut self, ty: Ty, to: Mem, x: Vreg, mask: Option<Mask>) {
        let (len, wide) = (self.len(ty), ty == Ty::V64);
        let Some(mask) = mask else { return self.asm.vstore(wide, len, to, x, None) };
        if self.evex() {
            return self.asm.vstore(wide, len, to, x, Some(mask.k()));
        }
        let mask = self.mask_lanes(ty, mask);
        self.asm.maskmov_store(if wide { Size::S64 } else { Size::S32 }, len, to, mask, x);
    }

    /// Loads the elements of a row, and zeros outside of the mask. With AVX2, it overwrites `rax`, `rcx`, `k7`, `V[1]` and `V[2]`.
    pub(super) fn load_row(&mut self, cell: Cell, len: Len, d: Vreg, from: Mem, mask: Option<Mask>) {
        let op = row_load(cell);
        let Some(mask) = mask else { return self.asm.v2(op, len, d, from, Masking::None) };
        if self.evex() {
            return self.asm.v2(op, len, d, from, Masking::Zero(mask.k()));
        }
        if let Cell::W4 | Cell::W8 = cell {
            let size = if cell == Cell::W8 { Size::S64 } else { Size::S32 };
            let mask = self.mask_lanes(cell.vector(), mask);
            return self.asm.maskmov_load(size, len, d, mask, from);
        }
        let (some, done) = (self.asm.label(), self.asm.label());
        self.unless_all(mask, some);
        self.asm.v2(op, len, d, from, Masking::None);
        self.asm.jmp(done);
        self.asm.bind(some);
        self.mask_move(K7, mask);
        self.asm.lea(Size::S64, Gpr::RAX, from);
        let pool = self.multiples(0, cell.size());
        self.asm.v2(V2::Move, len, V[1], pool, Masking::None);
        self.gather_narrow(cell, d, Gpr::RAX, V[1]);
        self.asm.bind(done);
    }

    /// Jumps unless the mask has all lanes (AVX2). `rcx`: their bits.
    fn unless_all(&mut self, mask: Mask, to: Label) {
        self.mask_bits(Gpr::RCX, mask);
        self.asm.alu(Alu::Cmp, Size::S32, Gpr::RCX, (1 << self.shape.width) - 1);
        self.asm.jcc(Cond::Ne, to);
    }

    /// Returns a bit for each lane of a vector.
    pub(super) fn all_bits(&self) -> u64 {
        (1 << self.shape.width) - 1
    }

    /// Stores the elements of a row, whose address is not in `rcx` or `rdx`. Overwrites these, `rax`, `k6`, `k7` and `V[2]`.
    pub(super) fn store_row(&mut self, cell: Cell, ty: Ty, to: Mem, x: Vreg, mask: Option<Mask>) {
        if let Cell::W4 | Cell::W8 = cell {
            return self.store_lanes(ty, to, x, mask);
        }
        let len = self.len(ty);
        if self.evex() {
            let op = if cell.size() == 1 { Narrow::DB } else { Narrow::DW };
            return self.asm.vstore_narrow(op, len, to, x, mask.map(Mask::k));
        }
        let Some(mask) = mask else { return self.store_packed(cell, to, x) };
        let (some, done) = (self.asm.label(), self.asm.label());
        self.unless_all(mask, some);
        self.store_packed(cell, to, x);
        self.asm.jmp(done);
        self.asm.bind(some);
        self.asm.lea(Size::S64, Gpr::RAX, to);
        let pool = self.multiples(0, cell.size());
        self.asm.v2(V2::Move, len, V[2], pool, Masking::None);
        self.store_each(cell, (ty, x), Gpr::RAX, V[2]);
        self.asm.bind(done);
    }

    /// Narrows all lanes and stores them (AVX2). Overwrites `rcx`, `k6` and `V[2]`.
    fn store_packed(&mut self, cell: Cell, to: Mem, x: Vreg) {
        self.pack_words(V[2], x, if cell.size() == 1 { 0xff } else { 0xffff });
        if cell.size() == 1 {
            self.asm.v3(V3::PackUsWb, Len::L128, V[2], V[2], V[2], Masking::None);
        }
        let size = match self.shape.width as i32 * cell.size() {
            16 => return self.asm.vstore(false, Len::L128, to, V[2], None),
            8 => Size::S64,
            _ => Size::S32,
        };
        self.asm.to_gpr(size, Gpr::RCX, V[2]);
        self.asm.store(size, to, Gpr::RCX);
    }

    /// Loads the elements at `base + index` into `d` for the lanes in `k7`, and zeros for others. `stride`: bytes from each to the next,
    /// if they are known. Overwrites `rax`, `rcx`, `k0` (with
    /// AVX-512), `k7`, `V[1]` and `V[2]`.
    pub(super) fn gather(&mut self, cell: Cell, d: Vreg, base: Gpr, index: Vreg, stride: Option<i32>) {
        let (len, done) = (self.len(cell.vector()), self.asm.label());
        if self.evex() && stride.is_none_or(|stride| stride == cell.size()) {
            let (from, apart) = self.if_in_a_row(cell, base, index);
            self.load_row(cell, len, d, from, Some(K7));
            self.asm.jmp(done);
            self.asm.bind(apart);
        }
        let op = match cell {
            Cell::W4 => Some(Gather::DD),
            Cell::W8 => Some(Gather::DQ),
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

    /// Begins what is done where the elements at `base + index` of the lanes in `k7` follow one another, as they often do though
    /// nobody could know: an access to a row costs a fraction of one per lane. Returns their address, and the label for elsewhere.
    /// Overwrites `rcx`, `k0` and `V[2]` (AVX-512).
    pub(super) fn if_in_a_row(&mut self, cell: Cell, base: Gpr, index: Vreg) -> (Mem, Label) {
        let (len, apart) = (self.len(Ty::V32), self.asm.label());
        let steps = self.multiples(0, cell.size());
        self.asm.v2(V2::BroadcastD, len, V[2], index, Masking::None);
        self.asm.v3(V3::AddD, len, V[2], V[2], steps, Masking::None);
        self.asm.cmp(Cmp::D, len, K0.k(), V[2], index, 4, Some(K7.k()));
        self.mask_test(K0);
        self.asm.jcc(Cond::Ne, apart);
        self.asm.to_gpr(Size::S32, Gpr::RCX, index);
        self.asm.movsxd(Gpr::RCX, Gpr::RCX);
        (Mem::index(base, Gpr::RCX, 1, 0), apart)
    }

    /// Gathers the lanes in `k7`; others stay as they are. Clears `k7`.
    pub(super) fn gather_words(&mut self, op: Gather, len: Len, d: Vreg, from: VecMem) {
        if self.evex() {
            return self.asm.gather(op, len, d, from, K7.k());
        }
        let mask = self.mask_lanes(if op == Gather::DQ { Ty::V64 } else { Ty::V32 }, K7);
        self.asm.gather_vex(op, len, d, from, mask);
    }

    /// Stores the lanes whose bits are set in `rcx`, the first one first, at the base, which may be `rax`, plus their offsets.
    /// Overwrites `rax`, `rcx` and `rdx`.
    pub(super) fn store_each(&mut self, cell: Cell, (ty, x): (Ty, Vreg), base: Gpr, offsets: Vreg) {
        if base == Gpr::RAX {
            self.asm.store(Size::S64, Self::slot(ADDRESS), base);
        }
        self.asm.vstore(false, self.len(ty), Self::slot(CALL), x, None);
        self.asm.vstore(false, self.len(Ty::V32), Self::slot(CALL + 64), offsets, None);
        let (size, scale) = if ty == Ty::V64 { (Size::S64, 8) } else { (Size::S32, 4) };
        let (next, done) = (self.asm.label(), self.asm.label());
        self.asm.test(Size::S32, Gpr::RCX, Gpr::RCX);
        self.asm.jcc(Cond::E, done);
        self.asm.bind(next);
        self.asm.tzcnt(Size::S32, Gpr::RAX, Gpr::RCX);
        self.asm.movsxd(Gpr::RDX, Mem::index(FRAME, Gpr::RAX, 4, CALL + 64));
        self.asm.mov(size, Gpr::RAX, Mem::index(FRAME, Gpr::RAX, scale, CALL));
        let to = if base == Gpr::RAX {
            self.asm.alu(Alu::Add, Size::S64, Gpr::RDX, Self::slot(ADDRESS));
            Mem::at(Gpr::RDX, 0)
        } else {
            Mem::index(base, Gpr::RDX, 1, 0)
        };
        match cell.size() {
            1 => self.asm.store8(to, Gpr::RAX),
            2 => self.asm.store16(to, Gpr::RAX),
            _ => self.asm.store(size, to, Gpr::RAX),
        }
        // Clears the lowest bit.
        self.asm.lea(Size::S32, Gpr::RDX, Mem::at(Gpr::RCX, -1));
        self.asm.alu(Alu::And, Size::S32, Gpr::RCX, Gpr::RDX);
        self.asm.jcc(Cond::Ne, next);
        self.asm.bind(done);
    }
}

fn row_load(cell: Cell) -> V2 {
    match cell {
        Cell::W4 => V2::Move,
        Cell::W8 => V2::MovePd,
        Cell::U8 => V2::ZxBd,
        Cell::I8 => V2::SxBd,
        Cell::U16 => V2::ZxWd,
        Cell::I16 => V2::SxWd,
    }
}
