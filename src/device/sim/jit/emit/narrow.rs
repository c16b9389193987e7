//! Gathers and scatters of elements that are smaller than a lane.
//!
//! A gather loads the aligned words that contain the elements, which never touches another page than they do, and shifts them into
//! place. A scatter stores one element after the other, so that neighbors are neither read nor written.

use super::*;
use crate::device::sim::jit::alloc::Loc;
use crate::device::sim::jit::frame::CALL;
use crate::device::sim::lane::Cell;

impl Emit<'_> {
    /// Loads the elements at `base + index` into `d`, extended, for the lanes in `k7`, and zeros for others. Overwrites `rax`, `rcx`,
    /// `k7` and the second and third scratch vectors. Elements lie at multiples of their size.
    pub(super) fn gather_narrow(&mut self, cell: Cell, d: Vreg, base: Gpr, index: Vreg) {
        let len = self.len(Ty::V32);
        let (at, word) = (V[1], V[2]);
        debug_assert!(d != at && d != word, "{d:?} is a scratch vector");
        // Offsets are relative to the word that contains the first byte.
        if base != Gpr::RAX {
            self.asm.mov(Size::S64, Gpr::RAX, base);
        }
        self.asm.mov(Size::S32, Gpr::RCX, Gpr::RAX);
        self.asm.alu(Alu::And, Size::S32, Gpr::RCX, 3);
        self.asm.alu(Alu::And, Size::S64, Gpr::RAX, -4);
        self.asm.broadcast_gpr(Size::S32, len, word, Gpr::RCX, Masking::None);
        self.asm.v3(V3::AddD, len, at, index, word, Masking::None);
        let (words, bytes) = (self.all(false, !3 & 0xffff_ffff), self.all(false, 3));
        self.asm.v3(V3::And, len, word, at, words, Masking::None);
        self.asm.v3(V3::And, len, at, at, bytes, Masking::None);
        self.asm.v2i(V2i::ShlD, len, at, at, 3, Masking::None);
        self.asm.v3(V3::Xor, len, d, d, d, Masking::None);
        self.asm.gather(Gather::DD, len, d, VecMem { base: Gpr::RAX, index: word, scale: 1, disp: 0 }, K7);
        self.asm.v3(V3::ShrvD, len, d, d, at, Masking::None);
        let unused = 32 - 8 * cell.size() as u8;
        self.asm.v2i(V2i::ShlD, len, d, d, unused, Masking::None);
        let back = if matches!(cell, Cell::I8 | Cell::I16) { V2i::SarD } else { V2i::ShrD };
        self.asm.v2i(back, len, d, d, unused, Masking::None);
    }

    /// Stores the active lanes of a vector, the first one first.
    pub(super) fn scatter_narrow(&mut self, cell: Cell, inst: &Inst, copy: usize) {
        let [address, value, offsets] = inst.args;
        let len = self.len(Ty::V32);
        let (x, index) = (self.vector(value, copy, V[0]), self.vector(offsets, copy, V[1]));
        self.asm.vstore(false, len, Self::slot(CALL), x, None);
        self.asm.vstore(false, len, Self::slot(CALL + 64), index, None);
        let mask = self.mask(inst.mask, copy, K7);
        self.asm.kmov_to(Gpr::RCX, mask);
        let (next, done) = (self.asm.label(), self.asm.label());
        self.asm.test(Size::S32, Gpr::RCX, Gpr::RCX);
        self.asm.jcc(Cond::E, done);
        self.asm.bind(next);
        self.asm.tzcnt(Size::S32, Gpr::RAX, Gpr::RCX);
        self.asm.movsxd(Gpr::RDX, Mem::index(FRAME, Gpr::RAX, 4, CALL + 64));
        self.asm.mov(Size::S32, Gpr::RAX, Mem::index(FRAME, Gpr::RAX, 4, CALL));
        let to = match self.loc(address, copy) {
            Loc::Gpr(base) => Mem::index(Gpr(base), Gpr::RDX, 1, 0),
            Loc::Slot(base) | Loc::Input(base) => {
                self.asm.alu(Alu::Add, Size::S64, Gpr::RDX, Self::slot(base));
                Mem::at(Gpr::RDX, 0)
            }
            loc => unreachable!("an address in {loc:?}"),
        };
        match cell.size() {
            1 => self.asm.store8(to, Gpr::RAX),
            _ => self.asm.store16(to, Gpr::RAX),
        }
        // Clears the lowest bit.
        self.asm.lea(Size::S32, Gpr::RDX, Mem::at(Gpr::RCX, -1));
        self.asm.alu(Alu::And, Size::S32, Gpr::RCX, Gpr::RDX);
        self.asm.jcc(Cond::Ne, next);
        self.asm.bind(done);
    }
}
