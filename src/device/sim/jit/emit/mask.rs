//! Masks, with either instruction set: where they are, logic, tests, comparisons, and choices by them.
//!
//! With AVX2, what overwrites scratch vectors says so; a mask that is a scratch one counts as its vector.

use super::super::alloc::Loc;
use super::*;
use crate::device::sim::lane::{Elem, Rel};

/// Returns the comparison and its predicate. Floats compare quietly.
fn comparison(rel: Rel, elem: Elem) -> (Cmp, u8) {
    let float = match rel {
        Rel::Eq => 0,
        Rel::Ne => 4,
        Rel::Lt => 17,
        Rel::Le => 18,
        Rel::Ge => 29,
        Rel::Gt => 30,
    };
    let integer = match rel {
        Rel::Eq => 0,
        Rel::Lt => 1,
        Rel::Le => 2,
        Rel::Ne => 4,
        Rel::Ge => 5,
        Rel::Gt => 6,
    };
    match elem {
        Elem::F32 => (Cmp::Ps, float),
        Elem::F64 => (Cmp::Pd, float),
        Elem::I32 => (Cmp::D, integer),
        Elem::U32 => (Cmp::Ud, integer),
        Elem::I64 => (Cmp::Q, integer),
        Elem::U64 => (Cmp::Uq, integer),
    }
}

/// Returns the operation on vectors.
fn on_vectors(op: Kop) -> V3 {
    match op {
        Kop::And => V3::And,
        Kop::Andn => V3::AndNot,
        Kop::Or => V3::Or,
        Kop::Xor => V3::Xor,
        Kop::Xnor => V3::EqD,
    }
}

impl Emit<'_> {
    /// Returns a mask in a register: its own, or this one.
    pub(super) fn mask(&mut self, value: Value, copy: usize, scratch: Mask) -> Mask {
        match self.loc(value, copy) {
            Loc::Mask(n) | Loc::Vector(n) => Mask(n),
            Loc::Slot(offset) => {
                self.load_mask(scratch, offset);
                scratch
            }
            loc => unreachable!("a mask in {loc:?}"),
        }
    }

    pub(super) fn mask_for(&self, value: Value, copy: usize, scratch: Mask) -> Mask {
        match self.loc(value, copy) {
            Loc::Mask(n) | Loc::Vector(n) => Mask(n),
            _ => scratch,
        }
    }

    pub(super) fn put_mask(&mut self, value: Value, copy: usize, from: Mask) {
        match self.loc(value, copy) {
            Loc::Mask(n) | Loc::Vector(n) => self.mask_move(Mask(n), from),
            Loc::Slot(offset) if self.evex() => self.asm.kstore(Self::slot(offset), from.k()),
            Loc::Slot(offset) => {
                let len = self.len(Ty::V32);
                self.asm.vstore(false, len, Self::slot(offset), from.v(), None);
            }
            _ => {}
        }
    }

    fn load_mask(&mut self, to: Mask, offset: i32) {
        if self.evex() {
            self.asm.kload(to.k(), Self::slot(offset));
        } else {
            let len = self.len(Ty::V32);
            self.asm.v2(V2::Move, len, to.v(), Self::slot(offset), Masking::None);
        }
    }

    /// `to` = `from`.
    pub(super) fn mask_move(&mut self, to: Mask, from: Mask) {
        if to == from {
            return;
        }
        if self.evex() {
            self.asm.kmov(to.k(), from.k());
        } else {
            let len = self.len(Ty::V32);
            self.asm.v2(V2::Move, len, to.v(), from.v(), Masking::None);
        }
    }

    /// `d` = `op(a, b)`.
    pub(super) fn mask_op(&mut self, op: Kop, d: Mask, a: Mask, b: Mask) {
        if self.evex() {
            self.asm.kop(op, d.k(), a.k(), b.k());
        } else {
            let len = self.len(Ty::V32);
            self.asm.v3(on_vectors(op), len, d.v(), a.v(), b.v(), Masking::None);
        }
    }

    /// `d` = all lanes, or none.
    pub(super) fn mask_fill(&mut self, d: Mask, all: bool) {
        self.mask_op(if all { Kop::Xnor } else { Kop::Xor }, d, d, d);
    }

    /// `d` = `!a`.
    pub(super) fn mask_not(&mut self, d: Mask, a: Mask) {
        if self.evex() {
            self.asm.knot(d.k(), a.k());
        } else {
            self.flip(d.v(), a.v());
        }
    }

    /// `d` = `!a`, of vectors.
    fn flip(&mut self, d: Vreg, a: Vreg) {
        let (len, ones) = (self.whole(), self.all(false, 0xffff_ffff));
        self.asm.v3(V3::Xor, len, d, a, ones, Masking::None);
    }

    /// All lanes or none: those of a register that is all ones or 0.
    pub(super) fn mask_of_gpr(&mut self, d: Mask, from: Gpr) {
        if self.evex() {
            self.asm.kmov_from(d.k(), from);
        } else {
            let len = self.len(Ty::V32);
            self.asm.broadcast_gpr(Size::S32, len, d.v(), from, Masking::None);
        }
    }

    /// `d` = a bit for each lane.
    pub(super) fn mask_bits(&mut self, d: Gpr, a: Mask) {
        if self.evex() {
            self.asm.kmov_to(d, a.k());
        } else {
            let len = self.len(Ty::V32);
            self.asm.movmsk(false, len, d, a.v());
        }
    }

    /// Sets the flag E if there is no lane in the mask.
    pub(super) fn mask_test(&mut self, a: Mask) {
        if self.evex() {
            self.asm.kortest(a.k(), a.k());
        } else {
            let len = self.len(Ty::V32);
            self.asm.ptest(len, a.v(), a.v());
        }
    }

    /// Sets the flag E if there is no lane in either mask. Overwrites `k0`.
    pub(super) fn mask_test_either(&mut self, a: Mask, b: Mask) {
        if self.evex() {
            self.asm.kortest(a.k(), b.k());
        } else {
            self.mask_op(Kop::Or, K0, a, b);
            self.mask_test(K0);
        }
    }

    /// `d` = the lanes of `x` that are not zero. With AVX2, `x` is not `V[0]`, and `V[0]` and `V[2]` are overwritten.
    pub(super) fn mask_of_lanes(&mut self, ty: Ty, d: Mask, x: Vreg) {
        let (len, wide) = (self.len(ty), ty == Ty::V64);
        if self.evex() {
            return self.asm.testm(if wide { Size::S64 } else { Size::S32 }, len, d.k(), x, x, None);
        }
        let zero = self.all(false, 0);
        self.asm.v3(if wide { V3::EqQ } else { V3::EqD }, len, V[0], x, zero, Masking::None);
        if wide {
            self.narrow_mask(V[0], V[0]);
        }
        self.flip(d.v(), V[0]);
    }

    /// `d` = the lanes where the relation holds, among those in `within`. With AVX2, `x` is not `V[0]`, and `V[0]` and `V[2]` are
    /// overwritten.
    pub(super) fn compare(&mut self, (rel, elem): (Rel, Elem), d: Mask, x: Vreg, y: Src, within: Option<Mask>) {
        let len = self.len(elem.vector());
        if self.evex() {
            let (op, predicate) = comparison(rel, elem);
            return self.asm.cmp(op, len, d.k(), x, y, predicate, within.map(Mask::k));
        }
        let to = if within.is_some() || elem.is_wide() { V[0] } else { d.v() };
        if elem.is_float() {
            let (_, predicate) = comparison(rel, elem);
            self.asm.cmp_vex(elem.is_wide(), len, to, x, y, predicate);
        } else {
            self.compare_integers(rel, elem, to, x, y);
        }
        if elem.is_wide() {
            self.narrow_mask(if within.is_some() { to } else { d.v() }, to);
        }
        if let Some(within) = within {
            let len = self.len(Ty::V32);
            self.asm.v3(V3::And, len, d.v(), to, within.v(), Masking::None);
        }
    }

    /// There are only "equal" and "greater than" of signed integers.
    fn compare_integers(&mut self, rel: Rel, elem: Elem, to: Vreg, x: Vreg, y: Src) {
        let len = self.len(elem.vector());
        let (equal, greater) = if elem.is_wide() { (V3::EqQ, V3::GtQ) } else { (V3::EqD, V3::GtD) };
        let negated = match (rel, elem) {
            (Rel::Eq | Rel::Ne, _) => {
                self.asm.v3(equal, len, to, x, y, Masking::None);
                rel == Rel::Ne
            }
            (_, Elem::U32) => {
                let most = matches!(rel, Rel::Ge | Rel::Lt);
                self.asm.v3(if most { V3::MaxUd } else { V3::MinUd }, len, V[0], x, y, Masking::None);
                self.asm.v3(equal, len, to, V[0], x, Masking::None);
                matches!(rel, Rel::Lt | Rel::Gt)
            }
            _ => {
                let (mut x, mut y) = (x, y);
                if elem == Elem::U64 {
                    let sign = self.all(true, 1 << 63);
                    self.asm.v3(V3::Xor, len, V[0], x, sign, Masking::None);
                    let other = self.in_register(len, y, V[2]);
                    self.asm.v3(V3::Xor, len, V[2], other, sign, Masking::None);
                    (x, y) = (V[0], Src::Reg(V[2]));
                }
                if matches!(rel, Rel::Lt | Rel::Ge) {
                    let other = self.in_register(len, y, V[2]);
                    (x, y) = (other, Src::Reg(x));
                }
                self.asm.v3(greater, len, to, x, y, Masking::None);
                matches!(rel, Rel::Ge | Rel::Le)
            }
        };
        if negated {
            self.flip(to, to);
        }
    }

    /// `d` = the low halves of the four 8-byte lanes of `a`. Overwrites `V[2]` (AVX2).
    pub(super) fn narrow_mask(&mut self, d: Vreg, a: Vreg) {
        self.asm.extract128(V[2], a, 1);
        self.asm.v3i(V3i::ShufPs, Len::L128, d, a, V[2], 0x88, Masking::None);
    }

    /// Returns the mask for lanes of this type (AVX2). Overwrites `k7` if they have 8 bytes.
    pub(super) fn mask_lanes(&mut self, ty: Ty, mask: Mask) -> Vreg {
        if ty != Ty::V64 {
            return mask.v();
        }
        self.asm.v2(V2::SxDq, Len::L256, K7.v(), mask.v(), Masking::None);
        K7.v()
    }

    /// `d` = `yes` in the lanes of the mask, and `no` in others. Overwrites `k7`.
    pub(super) fn choose(&mut self, ty: Ty, d: Vreg, no: Vreg, yes: Src, mask: Mask) {
        let (len, wide) = (self.len(ty), ty == Ty::V64);
        if self.evex() {
            let op = if wide { V3::BlendQ } else { V3::BlendD };
            self.asm.v3(op, len, d, no, yes, Masking::Merge(mask.k()));
        } else {
            let mask = self.mask_lanes(ty, mask);
            self.asm.blendv(wide, len, d, no, yes, mask);
        }
    }

    /// The lanes of `d` that are in the mask become those of `x`. Overwrites `k7`.
    pub(super) fn merge(&mut self, ty: Ty, d: Vreg, x: Vreg, mask: Mask) {
        if self.evex() {
            let op = if ty == Ty::V64 { V2::MovePd } else { V2::Move };
            self.asm.v2(op, self.len(ty), d, x, Masking::Merge(mask.k()));
        } else {
            self.choose(ty, d, d, Src::Reg(x), mask);
        }
    }

    // Instructions

    pub(super) fn mask_inst(&mut self, inst: &Inst) {
        for copy in 0..self.copies(inst.dst) {
            let d = self.mask_for(inst.dst, copy, K7);
            self.mask_copy(inst, copy, d);
            self.put_mask(inst.dst, copy, d);
        }
    }

    fn mask_copy(&mut self, inst: &Inst, copy: usize, d: Mask) {
        let [a, b, _] = inst.args;
        match inst.op {
            Op::Compare(rel, elem) => {
                let x = self.vector(a, copy, V[1]);
                let y = self.src(b, copy, V[2]);
                let within = (inst.mask != Value::NONE).then(|| self.mask(inst.mask, copy, K6));
                self.compare((rel, elem), d, x, y, within);
            }
            Op::MaskConst(all) => self.mask_fill(d, all),
            Op::MaskOf => {
                let x = self.gpr(a, copy, Gpr::RCX);
                self.asm.alu(Alu::Xor, Size::S32, Gpr::RAX, Gpr::RAX);
                self.asm.alu(Alu::Cmp, Size::S32, Gpr::RAX, x);
                self.asm.alu(Alu::Sbb, Size::S32, Gpr::RAX, Gpr::RAX);
                self.mask_of_gpr(d, Gpr::RAX);
            }
            Op::MaskOfLanes => {
                let x = self.vector(a, copy, V[1]);
                self.mask_of_lanes(self.ty(a), d, x);
            }
            Op::MaskAnd => self.mask_binary(Kop::And, (a, b), copy, d),
            Op::MaskWithout => self.mask_binary(Kop::Andn, (b, a), copy, d),
            Op::MaskOr => self.mask_binary(Kop::Or, (a, b), copy, d),
            Op::MaskXor => self.mask_binary(Kop::Xor, (a, b), copy, d),
            Op::MaskNot => {
                let x = self.mask(a, copy, K6);
                self.mask_not(d, x);
            }
            Op::Move if inst.mask != Value::NONE => {
                let active = self.mask(inst.mask, copy, K6);
                let old = self.mask(inst.dst, copy, K0);
                self.mask_op(Kop::Andn, K0, active, old);
                let new = self.mask(a, copy, K7);
                self.mask_op(Kop::And, K7, active, new);
                self.mask_op(Kop::Or, d, K0, K7);
            }
            Op::Move => {
                let x = self.mask(a, copy, K6);
                self.mask_move(d, x);
            }
            _ => unreachable!("{:?} has no code", inst.op),
        }
    }

    fn mask_binary(&mut self, op: Kop, (a, b): (Value, Value), copy: usize, d: Mask) {
        let (x, y) = (self.mask(a, copy, K6), self.mask(b, copy, K7));
        self.mask_op(op, d, x, y);
    }
}
