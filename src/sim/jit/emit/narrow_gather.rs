//! Gathers elements of 1 or 2 bytes: gathers the aligned 4-byte words that contain them, and shifts the elements into
//! place. An aligned word is always in the same page as the element, so the access cannot fault.

use super::*;
use crate::lir::MemoryWidth;

impl RegionEmitter<'_> {
    /// Loads the elements at `base + index` for the lanes in `k7` and extends them to 4 bytes; other lanes become zero.
    /// Elements must be aligned. Overwrites `rax`, `rcx`, `k7` and the second and third scratch vectors.
    pub(super) fn gather_narrow(&mut self, cell: MemoryWidth, d: Vreg, base: Gpr, index: Vreg) {
        let len = self.len(LaneTy::V32);
        let (at, word) = (V[1], V[2]);
        debug_assert!(d != at && d != word, "{d:?} is a scratch vector");
        // Round the base down to a word boundary, and make the offsets relative to it.
        if base != Gpr::RAX {
            self.asm.mov(OperandSize::S64, Gpr::RAX, base);
        }
        self.asm.mov(OperandSize::S32, Gpr::RCX, Gpr::RAX);
        self.asm.alu(Alu::And, OperandSize::S32, Gpr::RCX, 3);
        self.asm.alu(Alu::And, OperandSize::S64, Gpr::RAX, -4);
        self.asm.broadcast_gpr(OperandSize::S32, len, word, Gpr::RCX, Masking::None);
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
        let back = if matches!(cell, MemoryWidth::I8 | MemoryWidth::I16) { V2i::SarD } else { V2i::ShrD };
        self.asm.v2i(back, len, d, d, unused, Masking::None);
    }
}
