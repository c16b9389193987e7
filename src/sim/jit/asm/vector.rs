//! Encodes instructions on vectors: arithmetic, conversions, comparisons. Input: one call per instruction. Output:
//! bytes, according to the tables.

use super::buffer::{AsmOperand, Assembler};
use super::instruction_tables::{Cmp, V2, V2i, V3, V3i, i3a, i38};
use super::operand::{Gpr, Kreg, Len, Masking, OperandSize, Src, Vreg};
use super::vex_encoding::{Instruction, InstructionEncoding, M0F, M38, NONE, P66, PF3, as_vector, mask_as_vector};

/// Placeholder for a source that is set later.
const LATER: Vreg = Vreg(0);

impl Assembler {
    /// Computes `d = op(a, b)`.
    pub(crate) fn v3(&mut self, op: V3, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, d, LATER).after(a).src(b.into()).masked(m));
    }

    /// Computes `d = op(a)`. `len`: the length of the source for narrowing conversions, and otherwise of the
    /// destination.
    pub(crate) fn v2(&mut self, op: V2, len: Len, d: Vreg, a: impl Into<Src>, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, d, LATER).src(a.into()).masked(m));
    }

    /// Computes `d = op(a, imm)`. Shifts with VEX prefixes have no memory operand.
    pub(crate) fn v2i(&mut self, op: V2i, len: Len, d: Vreg, a: impl Into<Src>, imm: u8, m: Masking) {
        let form = op.form();
        let new = match form.digit {
            Some(digit) => Instruction::new(&op, form, len, Vreg(digit), LATER).after(d),
            None => Instruction::new(&op, form, len, d, LATER),
        };
        let new = new.src(a.into()).masked(m).imm(imm);
        let is_register = matches!(new.operand, AsmOperand::Reg(_));
        debug_assert!(self.evex || form.digit.is_none() || is_register, "{op:?} with VEX prefix needs a register");
        self.emit(&new);
    }

    /// Computes `d = op(a, b, imm)`. Some instructions also read `d`.
    pub(crate) fn v3i(&mut self, op: V3i, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, imm: u8, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, d, LATER).after(a).src(b.into()).masked(m).imm(imm));
    }

    /// Sets `d` to the lanes where the predicate `imm` holds, among those in `within` (AVX-512).
    pub(crate) fn cmp(
        &mut self,
        op: Cmp,
        len: Len,
        d: Kreg,
        a: Vreg,
        b: impl Into<Src>,
        imm: u8,
        within: Option<Kreg>,
    ) {
        let new = Instruction::new(&op, op.form(), len, mask_as_vector(d), LATER).after(a).src(b.into());
        self.emit(&new.masked(within.into()).imm(imm));
    }

    /// Sets `d` to the lanes where `a & b` is not zero (AVX-512).
    pub(crate) fn testm(
        &mut self,
        s: OperandSize,
        len: Len,
        d: Kreg,
        a: Vreg,
        b: impl Into<Src>,
        within: Option<Kreg>,
    ) {
        self.test_lanes(InstructionEncoding::new(P66, M38, 0x27).w(s), len, d, a, b.into(), within);
    }

    /// Sets `d` to the lanes where `a & b` is zero (AVX-512).
    pub(crate) fn testnm(
        &mut self,
        s: OperandSize,
        len: Len,
        d: Kreg,
        a: Vreg,
        b: impl Into<Src>,
        within: Option<Kreg>,
    ) {
        self.test_lanes(InstructionEncoding::new(PF3, M38, 0x27).w(s), len, d, a, b.into(), within);
    }

    /// Emits an AVX-512 instruction that tests lanes of `a & b`.
    fn test_lanes(&mut self, form: InstructionEncoding, len: Len, d: Kreg, a: Vreg, b: Src, within: Option<Kreg>) {
        let new = Instruction::new(&"vptestm", form.evex_only(), len, mask_as_vector(d), LATER).after(a).src(b);
        self.emit(&new.masked(within.into()));
    }

    /// Sets lanes of `d` to all ones if the predicate `imm` holds for the float lanes of `a` and `b`, otherwise to zero
    /// (AVX2).
    pub(crate) fn cmp_vex(&mut self, double: bool, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, imm: u8) {
        let form = InstructionEncoding::new(if double { P66 } else { NONE }, M0F, 0xc2).vex_only();
        self.emit(&Instruction::new(&"vcmp", form, len, d, LATER).after(a).src(b.into()).imm(imm));
    }

    /// Sets lanes of `d` to `b` if the sign bit of `mask` is set, otherwise to `a` (AVX2).
    pub(crate) fn blendv(&mut self, double: bool, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, mask: Vreg) {
        debug_assert!(mask.0 < 16, "vblendv by {mask:?}");
        let form = i3a(0x4a + u8::from(double)).vex_only();
        self.emit(&Instruction::new(&"vblendv", form, len, d, LATER).after(a).src(b.into()).imm(mask.0 << 4));
    }

    /// Sets `d` to the sign bits of the lanes, one bit per lane (AVX2).
    pub(crate) fn movmsk(&mut self, double: bool, len: Len, d: Gpr, a: Vreg) {
        let form = InstructionEncoding::new(if double { P66 } else { NONE }, M0F, 0x50).vex_only();
        self.emit(&Instruction::new(&"vmovmsk", form, len, as_vector(d), a));
    }

    /// Sets condition E if `a & b` is zero, and condition B if `!a & b` is zero (AVX2).
    pub(crate) fn ptest(&mut self, len: Len, a: Vreg, b: Vreg) {
        self.emit(&Instruction::new(&"vptest", i38(0x17).vex_only(), len, a, b));
    }

    /// Clears the bits above the lower 128 of the vector registers 0 to 15. Otherwise, SSE code without VEX prefixes is
    /// slow.
    pub(crate) fn vzeroupper(&mut self) {
        self.emit_bytes(&[0xc5, 0xf8, 0x77]);
    }
}
