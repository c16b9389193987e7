//! Gathers of elements that are smaller than a lane: the aligned words that contain the elements, which never touch another page
//! than they do, are gathered, and shifted into place.

use super::*;
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
        self.gather_words(Gather::DD, len, d, VecMem { base: Gpr::RAX, index: word, scale: 1, disp: 0 });
        self.asm.v3(V3::ShrvD, len, d, d, at, Masking::None);
        let unused = 32 - 8 * cell.size() as u8;
        self.asm.v2i(V2i::ShlD, len, d, d, unused, Masking::None);
        let back = if matches!(cell, Cell::I8 | Cell::I16) { V2i::SarD } else { V2i::ShrD };
        self.asm.v2i(back, len, d, d, unused, Masking::None);
    }
}
