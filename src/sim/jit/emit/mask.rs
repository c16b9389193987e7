//! Emits instructions on masks for both instruction sets: moves, logic, tests, comparisons and selections.
//!
//! The documentation of each method names the scratch vectors that its code overwrites with AVX2. It names scratch
//! masks by `k0`, `k6` and `k7`, which are scratch vectors with AVX2.

use super::super::register_allocation::ValueLocation;
use super::*;
use crate::lir::{LaneComparison, LaneElem};

/// Returns the comparison instruction and its predicate. Float comparisons use the predicates that do not signal
/// exceptions for quiet NaNs.
fn comparison(rel: LaneComparison, elem: LaneElem) -> (Cmp, u8) {
    let float = match rel {
        LaneComparison::Eq => 0,
        LaneComparison::Ne => 4,
        LaneComparison::Lt => 17,
        LaneComparison::Le => 18,
        LaneComparison::Ge => 29,
        LaneComparison::Gt => 30,
    };
    let integer = match rel {
        LaneComparison::Eq => 0,
        LaneComparison::Lt => 1,
        LaneComparison::Le => 2,
        LaneComparison::Ne => 4,
        LaneComparison::Ge => 5,
        LaneComparison::Gt => 6,
    };
    match elem {
        LaneElem::F32 => (Cmp::Ps, float),
        LaneElem::F64 => (Cmp::Pd, float),
        LaneElem::I32 => (Cmp::D, integer),
        LaneElem::U32 => (Cmp::Ud, integer),
        LaneElem::I64 => (Cmp::Q, integer),
        LaneElem::U64 => (Cmp::Uq, integer),
    }
}

/// Returns the vector operation that performs an operation on masks with AVX2.
fn on_vectors(op: Kop) -> V3 {
    match op {
        Kop::And => V3::And,
        Kop::Andn => V3::AndNot,
        Kop::Or => V3::Or,
        Kop::Xor => V3::Xor,
        Kop::Xnor => V3::EqD,
    }
}

impl RegionEmitter<'_> {
    /// Returns the register of a mask. Loads the mask into the scratch register if it has no register.
    pub(super) fn mask(&mut self, value: LaneValue, copy: usize, scratch: MaskRegister) -> MaskRegister {
        match self.loc(value, copy) {
            ValueLocation::Mask(n) | ValueLocation::Vector(n) => MaskRegister(n),
            ValueLocation::Slot(offset) => {
                self.load_mask(scratch, offset);
                scratch
            }
            loc => unreachable!("a mask in {loc:?}"),
        }
    }

    pub(super) fn mask_for(&self, value: LaneValue, copy: usize, scratch: MaskRegister) -> MaskRegister {
        match self.loc(value, copy) {
            ValueLocation::Mask(n) | ValueLocation::Vector(n) => MaskRegister(n),
            _ => scratch,
        }
    }

    pub(super) fn put_mask(&mut self, value: LaneValue, copy: usize, from: MaskRegister) {
        match self.loc(value, copy) {
            ValueLocation::Mask(n) | ValueLocation::Vector(n) => self.mask_move(MaskRegister(n), from),
            ValueLocation::Slot(offset) if self.evex() => self.asm.kstore(Self::slot(offset), from.k()),
            ValueLocation::Slot(offset) => {
                let len = self.len(LaneTy::V32);
                self.asm.vstore(false, len, Self::slot(offset), from.v(), None);
            }
            _ => {}
        }
    }

    fn load_mask(&mut self, to: MaskRegister, offset: i32) {
        if self.evex() {
            self.asm.kload(to.k(), Self::slot(offset));
        } else {
            let len = self.len(LaneTy::V32);
            self.asm.v2(V2::Move, len, to.v(), Self::slot(offset), Masking::None);
        }
    }

    /// Computes `to = from`.
    pub(super) fn mask_move(&mut self, to: MaskRegister, from: MaskRegister) {
        if to == from {
            return;
        }
        if self.evex() {
            self.asm.kmov(to.k(), from.k());
        } else {
            let len = self.len(LaneTy::V32);
            self.asm.v2(V2::Move, len, to.v(), from.v(), Masking::None);
        }
    }

    /// Computes `d = op(a, b)`.
    pub(super) fn mask_op(&mut self, op: Kop, d: MaskRegister, a: MaskRegister, b: MaskRegister) {
        if self.evex() {
            self.asm.kop(op, d.k(), a.k(), b.k());
        } else {
            let len = self.len(LaneTy::V32);
            self.asm.v3(on_vectors(op), len, d.v(), a.v(), b.v(), Masking::None);
        }
    }

    /// Sets `d` to all lanes, or none.
    pub(super) fn mask_fill(&mut self, d: MaskRegister, all: bool) {
        self.mask_op(if all { Kop::Xnor } else { Kop::Xor }, d, d, d);
    }

    /// Computes `d = !a`.
    pub(super) fn mask_not(&mut self, d: MaskRegister, a: MaskRegister) {
        if self.evex() {
            self.asm.knot(d.k(), a.k());
        } else {
            self.flip(d.v(), a.v());
        }
    }

    /// Computes `d = !a` for vector registers.
    fn flip(&mut self, d: Vreg, a: Vreg) {
        let (len, ones) = (self.full_len(), self.all(false, 0xffff_ffff));
        self.asm.v3(V3::Xor, len, d, a, ones, Masking::None);
    }

    /// Sets `d` to all lanes if the general-purpose register is all ones, and to no lanes if it is 0.
    pub(super) fn mask_of_gpr(&mut self, d: MaskRegister, from: Gpr) {
        if self.evex() {
            self.asm.kmov_from(d.k(), from);
        } else {
            let len = self.len(LaneTy::V32);
            self.asm.broadcast_gpr(OperandSize::S32, len, d.v(), from, Masking::None);
        }
    }

    /// Sets `d` to the bits of the mask, one for each lane.
    pub(super) fn mask_bits(&mut self, d: Gpr, a: MaskRegister) {
        if self.evex() {
            self.asm.kmov_to(d, a.k());
        } else {
            let len = self.len(LaneTy::V32);
            self.asm.movmsk(false, len, d, a.v());
        }
    }

    /// Sets condition E if the mask is empty.
    pub(super) fn mask_test(&mut self, a: MaskRegister) {
        if self.evex() {
            self.asm.kortest(a.k(), a.k());
        } else {
            let len = self.len(LaneTy::V32);
            self.asm.ptest(len, a.v(), a.v());
        }
    }

    /// Sets condition E if both masks are empty. Overwrites `k0`.
    pub(super) fn mask_test_either(&mut self, a: MaskRegister, b: MaskRegister) {
        if self.evex() {
            self.asm.kortest(a.k(), b.k());
        } else {
            self.mask_op(Kop::Or, K0, a, b);
            self.mask_test(K0);
        }
    }

    /// Sets `d` to the lanes of `x` that are not zero. With AVX2, overwrites `V[0]` and `V[2]`, and `x` must not be
    /// `V[0]`.
    pub(super) fn mask_of_lanes(&mut self, ty: LaneTy, d: MaskRegister, x: Vreg) {
        let (len, wide) = (self.len(ty), ty == LaneTy::V64);
        if self.evex() {
            return self.asm.testm(if wide { OperandSize::S64 } else { OperandSize::S32 }, len, d.k(), x, x, None);
        }
        let zero = self.all(false, 0);
        self.asm.v3(if wide { V3::EqQ } else { V3::EqD }, len, V[0], x, zero, Masking::None);
        if wide {
            self.narrow_mask(V[0], V[0]);
        }
        self.flip(d.v(), V[0]);
    }

    /// Sets `d` to the lanes in `within` for which the comparison holds. With AVX2, overwrites `V[0]` and `V[2]`, and
    /// `x` must not be `V[0]`.
    pub(super) fn compare(
        &mut self,
        rel: LaneComparison,
        elem: LaneElem,
        d: MaskRegister,
        x: Vreg,
        y: Src,
        within: Option<MaskRegister>,
    ) {
        let len = self.len(elem.vector_ty());
        if self.evex() {
            let (op, predicate) = comparison(rel, elem);
            return self.asm.cmp(op, len, d.k(), x, y, predicate, within.map(MaskRegister::k));
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
            let len = self.len(LaneTy::V32);
            self.asm.v3(V3::And, len, d.v(), to, within.v(), Masking::None);
        }
    }

    /// Compares integers with AVX2, which has only "equal" and signed "greater than".
    fn compare_integers(&mut self, rel: LaneComparison, elem: LaneElem, to: Vreg, x: Vreg, y: Src) {
        let len = self.len(elem.vector_ty());
        let (equal, greater) = if elem.is_wide() { (V3::EqQ, V3::GtQ) } else { (V3::EqD, V3::GtD) };
        let negated = match (rel, elem) {
            (LaneComparison::Eq | LaneComparison::Ne, _) => {
                self.asm.v3(equal, len, to, x, y, Masking::None);
                rel == LaneComparison::Ne
            }
            (_, LaneElem::U32) => {
                let most = matches!(rel, LaneComparison::Ge | LaneComparison::Lt);
                self.asm.v3(if most { V3::MaxUd } else { V3::MinUd }, len, V[0], x, y, Masking::None);
                self.asm.v3(equal, len, to, V[0], x, Masking::None);
                matches!(rel, LaneComparison::Lt | LaneComparison::Gt)
            }
            _ => {
                let (mut x, mut y) = (x, y);
                if elem == LaneElem::U64 {
                    let sign = self.all(true, 1 << 63);
                    self.asm.v3(V3::Xor, len, V[0], x, sign, Masking::None);
                    let other = self.in_register(len, y, V[2]);
                    self.asm.v3(V3::Xor, len, V[2], other, sign, Masking::None);
                    (x, y) = (V[0], Src::Reg(V[2]));
                }
                if matches!(rel, LaneComparison::Lt | LaneComparison::Ge) {
                    let other = self.in_register(len, y, V[2]);
                    (x, y) = (other, Src::Reg(x));
                }
                self.asm.v3(greater, len, to, x, y, Masking::None);
                matches!(rel, LaneComparison::Ge | LaneComparison::Le)
            }
        };
        if negated {
            self.flip(to, to);
        }
    }

    /// Sets `d` to the lower 4 bytes of each of the four 8-byte lanes of `a`. Overwrites `V[2]` (AVX2).
    pub(super) fn narrow_mask(&mut self, d: Vreg, a: Vreg) {
        self.asm.extract128(V[2], a, 1);
        self.asm.v3i(V3i::ShufPs, Len::L128, d, a, V[2], 0x88, Masking::None);
    }

    /// Returns the mask as a vector with lanes of this type, all ones or zero (AVX2). Overwrites `k7` for 8-byte lanes.
    pub(super) fn mask_lanes(&mut self, ty: LaneTy, mask: MaskRegister) -> Vreg {
        if ty != LaneTy::V64 {
            return mask.v();
        }
        self.asm.v2(V2::SxDq, Len::L256, K7.v(), mask.v(), Masking::None);
        K7.v()
    }

    /// Sets `d` to `yes` in the lanes of the mask, and `no` elsewhere. Overwrites `k7`.
    pub(super) fn choose(&mut self, ty: LaneTy, d: Vreg, no: Vreg, yes: Src, mask: MaskRegister) {
        let (len, wide) = (self.len(ty), ty == LaneTy::V64);
        if self.evex() {
            let op = if wide { V3::BlendQ } else { V3::BlendD };
            self.asm.v3(op, len, d, no, yes, Masking::Merge(mask.k()));
        } else {
            let mask = self.mask_lanes(ty, mask);
            self.asm.blendv(wide, len, d, no, yes, mask);
        }
    }

    /// Copies those lanes of `x` to `d` that are in the mask. Overwrites `k7`.
    pub(super) fn merge(&mut self, ty: LaneTy, d: Vreg, x: Vreg, mask: MaskRegister) {
        if self.evex() {
            let op = if ty == LaneTy::V64 { V2::MovePd } else { V2::Move };
            self.asm.v2(op, self.len(ty), d, x, Masking::Merge(mask.k()));
        } else {
            self.choose(ty, d, d, Src::Reg(x), mask);
        }
    }

    // LaneIR instructions on masks

    pub(super) fn mask_inst(&mut self, inst: &LaneInst) {
        for copy in 0..self.copies(inst.dst) {
            let d = self.mask_for(inst.dst, copy, K7);
            self.mask_copy(inst, copy, d);
            self.put_mask(inst.dst, copy, d);
        }
    }

    fn mask_copy(&mut self, inst: &LaneInst, copy: usize, d: MaskRegister) {
        let [a, b, _] = inst.args;
        match inst.op {
            LaneOp::Compare(rel, elem) => {
                let x = self.vector(a, copy, V[1]);
                let y = self.src(b, copy, V[2]);
                let within = (inst.mask != LaneValue::NONE).then(|| self.mask(inst.mask, copy, K6));
                self.compare(rel, elem, d, x, y, within);
            }
            LaneOp::MaskConst(all) => self.mask_fill(d, all),
            LaneOp::MaskFromScalar => {
                let x = self.gpr(a, copy, Gpr::RCX);
                self.asm.alu(Alu::Xor, OperandSize::S32, Gpr::RAX, Gpr::RAX);
                self.asm.alu(Alu::Cmp, OperandSize::S32, Gpr::RAX, x);
                self.asm.alu(Alu::Sbb, OperandSize::S32, Gpr::RAX, Gpr::RAX);
                self.mask_of_gpr(d, Gpr::RAX);
            }
            LaneOp::MaskFromLanes => {
                let x = self.vector(a, copy, V[1]);
                self.mask_of_lanes(self.ty(a), d, x);
            }
            LaneOp::MaskAnd => self.mask_binary(Kop::And, a, b, copy, d),
            LaneOp::MaskAndNot => self.mask_binary(Kop::Andn, b, a, copy, d),
            LaneOp::MaskOr => self.mask_binary(Kop::Or, a, b, copy, d),
            LaneOp::MaskXor => self.mask_binary(Kop::Xor, a, b, copy, d),
            LaneOp::MaskNot => {
                let x = self.mask(a, copy, K6);
                self.mask_not(d, x);
            }
            LaneOp::Move if inst.mask != LaneValue::NONE => {
                let active = self.mask(inst.mask, copy, K6);
                let old = self.mask(inst.dst, copy, K0);
                self.mask_op(Kop::Andn, K0, active, old);
                let new = self.mask(a, copy, K7);
                self.mask_op(Kop::And, K7, active, new);
                self.mask_op(Kop::Or, d, K0, K7);
            }
            LaneOp::Move => {
                let x = self.mask(a, copy, K6);
                self.mask_move(d, x);
            }
            _ => unreachable!("{:?} has no code", inst.op),
        }
    }

    fn mask_binary(&mut self, op: Kop, a: LaneValue, b: LaneValue, copy: usize, d: MaskRegister) {
        let (x, y) = (self.mask(a, copy, K6), self.mask(b, copy, K7));
        self.mask_op(op, d, x, y);
    }
}
