//! Instructions on vectors: arithmetic, conversions, comparisons. Input: one call per instruction. Output: bytes, by the forms in
//! the tables.

use super::buffer::{Assembler, Operand};
use super::form::{Form, Instruction, M0F, M38, NONE, P66, PF3, as_vector, mask_as_vector};
use super::operand::{Gpr, Kreg, Len, Masking, Size, Src, Vreg};
use super::tables::{Cmp, V2, V2i, V3, V3i, i3a, i38};

/// Stands for a source that is set afterwards.
const LATER: Vreg = Vreg(0);

impl Assembler {
    /// `d` = `op(a, b)`.
    pub(crate) fn v3(&mut self, op: V3, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, d, LATER).after(a).src(b.into()).masked(m));
    }

    /// `d` = `op(a)`. `len`: of the longer one, which is the source of conversions that narrow and otherwise the destination.
    pub(crate) fn v2(&mut self, op: V2, len: Len, d: Vreg, a: impl Into<Src>, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, d, LATER).src(a.into()).masked(m));
    }

    /// `d` = `op(a, imm)`. Shifts with VEX prefixes have no memory operand.
    pub(crate) fn v2i(&mut self, op: V2i, len: Len, d: Vreg, a: impl Into<Src>, imm: u8, m: Masking) {
        let form = op.form();
        let new = match form.digit {
            Some(digit) => Instruction::new(&op, form, len, Vreg(digit), LATER).after(d),
            None => Instruction::new(&op, form, len, d, LATER),
        };
        let new = new.src(a.into()).masked(m).imm(imm);
        let is_register = matches!(new.operand, Operand::Reg(_));
        debug_assert!(self.evex || form.digit.is_none() || is_register, "{op:?} with VEX prefix needs a register");
        self.emit(&new);
    }

    /// `d` = `op(a, b, imm)`; some read `d` as well.
    pub(crate) fn v3i(&mut self, op: V3i, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, imm: u8, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, d, LATER).after(a).src(b.into()).masked(m).imm(imm));
    }

    /// `d` = the lanes where the predicate `imm` holds, among those in `within` (AVX-512).
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

    /// `d` = the lanes where `a & b` is not zero (AVX-512).
    pub(crate) fn testm(&mut self, s: Size, len: Len, d: Kreg, a: Vreg, b: impl Into<Src>, within: Option<Kreg>) {
        self.test_lanes(Form::new(P66, M38, 0x27), (s, len), d, a, b.into(), within);
    }

    /// `d` = the lanes where `a & b` is zero (AVX-512).
    pub(crate) fn testnm(&mut self, s: Size, len: Len, d: Kreg, a: Vreg, b: impl Into<Src>, within: Option<Kreg>) {
        self.test_lanes(Form::new(PF3, M38, 0x27), (s, len), d, a, b.into(), within);
    }

    fn test_lanes(&mut self, form: Form, (s, len): (Size, Len), d: Kreg, a: Vreg, b: Src, within: Option<Kreg>) {
        let form = form.evex_only().w(s);
        let new = Instruction::new(&"vptestm", form, len, mask_as_vector(d), LATER).after(a).src(b);
        self.emit(&new.masked(within.into()));
    }

    /// `d` = all ones where the predicate `imm` holds for floats, and zero elsewhere (AVX2).
    pub(crate) fn cmp_vex(&mut self, double: bool, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, imm: u8) {
        let form = Form::new(if double { P66 } else { NONE }, M0F, 0xc2).vex_only();
        self.emit(&Instruction::new(&"vcmp", form, len, d, LATER).after(a).src(b.into()).imm(imm));
    }

    /// `d` = `b` where the sign of `mask` is set, and `a` elsewhere (AVX2).
    pub(crate) fn blendv(&mut self, double: bool, len: Len, d: Vreg, a: Vreg, b: impl Into<Src>, mask: Vreg) {
        debug_assert!(mask.0 < 16, "vblendv by {mask:?}");
        let form = i3a(0x4a + u8::from(double)).vex_only();
        self.emit(&Instruction::new(&"vblendv", form, len, d, LATER).after(a).src(b.into()).imm(mask.0 << 4));
    }

    /// `d` = the signs of the lanes (AVX2).
    pub(crate) fn movmsk(&mut self, double: bool, len: Len, d: Gpr, a: Vreg) {
        let form = Form::new(if double { P66 } else { NONE }, M0F, 0x50).vex_only();
        self.emit(&Instruction::new(&"vmovmsk", form, len, as_vector(d), a));
    }

    /// Sets the flag E if `a & b` is zero, and B if `!a & b` is (AVX2).
    pub(crate) fn ptest(&mut self, len: Len, a: Vreg, b: Vreg) {
        self.emit(&Instruction::new(&"vptest", i38(0x17).vex_only(), len, a, b));
    }

    /// Clears the upper parts of all vector registers below 16, as code without VEX prefixes expects.
    pub(crate) fn vzeroupper(&mut self) {
        self.put(&[0xc5, 0xf8, 0x77]);
    }
}
