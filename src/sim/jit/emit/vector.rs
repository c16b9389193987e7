//! Emits instructions on vectors.

use super::super::register_allocation::ValueLocation;
use super::*;
use crate::lir::{LaneBinOp, LaneElem, LaneUnaryOp};

/// Returns the instruction that implements an operation, if a single instruction suffices.
fn simple(bin: LaneBinOp, elem: LaneElem) -> Option<V3> {
    use LaneElem::*;
    let wide = elem.is_wide();
    let of = |narrow, double| Some(if wide { double } else { narrow });
    match (bin, elem) {
        (LaneBinOp::Add, F32 | F64) => of(V3::AddPs, V3::AddPd),
        (LaneBinOp::Sub, F32 | F64) => of(V3::SubPs, V3::SubPd),
        (LaneBinOp::Mul, F32 | F64) => of(V3::MulPs, V3::MulPd),
        (LaneBinOp::Div, F32 | F64) => of(V3::DivPs, V3::DivPd),
        (LaneBinOp::Add, _) => of(V3::AddD, V3::AddQ),
        (LaneBinOp::Sub, _) => of(V3::SubD, V3::SubQ),
        (LaneBinOp::Mul, _) => of(V3::MulD, V3::MulQ),
        (LaneBinOp::And, _) => of(V3::And, V3::AndQ),
        (LaneBinOp::Or, _) => of(V3::Or, V3::OrQ),
        (LaneBinOp::Xor, _) => of(V3::Xor, V3::XorQ),
        (LaneBinOp::Shl, _) => of(V3::ShlvD, V3::ShlvQ),
        (LaneBinOp::Shr, I32 | I64) => of(V3::SarvD, V3::SarvQ),
        (LaneBinOp::Shr, _) => of(V3::ShrvD, V3::ShrvQ),
        (LaneBinOp::Min, I32 | I64) => of(V3::MinSd, V3::MinSq),
        (LaneBinOp::Max, I32 | I64) => of(V3::MaxSd, V3::MaxSq),
        (LaneBinOp::Min, U32 | U64) => of(V3::MinUd, V3::MinUq),
        (LaneBinOp::Max, U32 | U64) => of(V3::MaxUd, V3::MaxUq),
        _ => None,
    }
}

impl RegionEmitter<'_> {
    pub(super) fn vector_inst(&mut self, inst: &LaneInst) {
        if matches!(inst.op, LaneOp::Splat(_) | LaneOp::BroadcastInput(_)) {
            return self.constant(inst);
        }
        for copy in 0..self.copies(inst.dst) {
            self.vector_copy(inst, copy);
        }
    }

    /// Loads a constant vector into its register, if it has one. All copies share the register.
    fn constant(&mut self, inst: &LaneInst) {
        if !self.is_kept(inst.dst) {
            return;
        }
        let d = self.vector_for(inst.dst, 0, V[0]);
        let ty = self.ty(inst.dst);
        match inst.op {
            LaneOp::Splat(bits) => self.load_constant(ty, ValueLocation::Splat(bits), d),
            LaneOp::BroadcastInput(input) => self.load_constant(ty, ValueLocation::Input(self.layout.offset(input)), d),
            _ => {}
        }
        self.put_vector(inst.dst, 0, d);
    }

    fn vector_copy(&mut self, inst: &LaneInst, copy: usize) {
        let [a, b, c] = inst.args;
        let (ty, len) = (self.ty(inst.dst), self.len(self.ty(inst.dst)));
        let d = self.vector_for(inst.dst, copy, V[0]);
        match inst.op {
            LaneOp::Broadcast => {
                let size = self.size(inst.dst);
                let x = self.gpr(a, copy, Gpr::RCX);
                self.asm.broadcast_gpr(size, len, d, x, Masking::None);
            }
            LaneOp::Iota(step) => {
                let pool = self.lane_multiples(0, step);
                self.asm.v2(V2::Move, len, d, pool, Masking::None);
            }
            LaneOp::Move if inst.mask != LaneValue::NONE => {
                let mask = self.mask(inst.mask, copy, K7);
                if d == V[0] {
                    self.load_vector(inst.dst, copy, d);
                }
                let x = self.vector(a, copy, V[1]);
                self.merge(ty, d, x, mask);
            }
            LaneOp::Move => self.load_vector(a, copy, d),
            LaneOp::Vector(bin, elem) => return self.vector_binary(bin, elem, inst, copy),
            LaneOp::Unary(un, elem) => return self.unary(un, elem, inst, copy),
            LaneOp::Fma(elem) => return self.fma(elem, inst, copy),
            LaneOp::Convert(from, to) => return self.convert(from, to, inst, copy),
            LaneOp::FromHalf | LaneOp::ToHalf => return self.convert_half(inst, copy),
            LaneOp::Select => {
                let mask = self.mask(a, copy, K7);
                let no = self.vector(c, copy, V[1]);
                let yes = self.src(b, copy, V[2]);
                self.choose(ty, d, no, yes, mask);
            }
            LaneOp::LanesFromMask if self.evex() => {
                let mask = self.mask(a, copy, K7);
                self.asm.v3i(V3i::TernlogD, len, d, d, d, 0xff, Masking::Zero(mask.k()));
            }
            LaneOp::LanesFromMask => {
                let mask = self.mask(a, copy, K7);
                return self.put_vector(inst.dst, copy, mask.v());
            }
            _ => unreachable!("{:?} has no code", inst.op),
        }
        self.put_vector(inst.dst, copy, d);
    }

    fn vector_binary(&mut self, bin: LaneBinOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let (len, d) = (self.len(self.ty(inst.dst)), self.vector_for(inst.dst, copy, V[0]));
        if let Some(op) = simple(bin, elem) {
            if !self.evex() {
                return self.vector_avx2(op, inst, copy);
            }
            let x = self.vector(a, copy, V[1]);
            let mut masking = Masking::None;
            if inst.mask != LaneValue::NONE {
                masking = Masking::Merge(self.mask(inst.mask, copy, K7).k());
                if d == V[0] {
                    self.load_vector(inst.dst, copy, d);
                }
            }
            let y = self.src(b, copy, V[2]);
            self.asm.v3(op, len, d, x, y, masking);
            return self.put_vector(inst.dst, copy, d);
        }
        match bin {
            LaneBinOp::Min | LaneBinOp::Max => self.float_extreme(bin, elem, inst, copy),
            _ => self.vector_divide(bin, elem, inst, copy),
        }
    }

    fn unary(&mut self, un: LaneUnaryOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let a = inst.args[0];
        let (len, wide) = (self.len(self.ty(inst.dst)), elem.is_wide());
        let d = self.vector_for(inst.dst, copy, V[0]);
        let sign = if wide { 1 << 63 } else { 1 << 31 };
        match un {
            LaneUnaryOp::Neg | LaneUnaryOp::Abs if elem.is_float() => {
                let x = self.vector(a, copy, V[1]);
                let bits = if un == LaneUnaryOp::Neg { sign } else { sign - 1 };
                let all = self.all(wide, bits);
                let op = match (un, wide) {
                    (LaneUnaryOp::Neg, false) => V3::Xor,
                    (LaneUnaryOp::Neg, true) => V3::XorQ,
                    (_, false) => V3::And,
                    (_, true) => V3::AndQ,
                };
                self.asm.v3(op, len, d, x, all, Masking::None);
            }
            LaneUnaryOp::Abs => {
                let x = self.src(a, copy, V[1]);
                self.asm.v2(if wide { V2::AbsQ } else { V2::AbsD }, len, d, x, Masking::None);
            }
            LaneUnaryOp::Sqrt => {
                let x = self.src(a, copy, V[1]);
                self.asm.v2(if wide { V2::SqrtPd } else { V2::SqrtPs }, len, d, x, Masking::None);
            }
            LaneUnaryOp::Floor | LaneUnaryOp::Ceil | LaneUnaryOp::Trunc | LaneUnaryOp::Round => {
                let mode = match un {
                    LaneUnaryOp::Floor => 1,
                    LaneUnaryOp::Ceil => 2,
                    LaneUnaryOp::Trunc => 3,
                    _ => 0,
                };
                let x = self.src(a, copy, V[1]);
                let op = if wide { V2i::RoundPd } else { V2i::RoundPs };
                self.asm.v2i(op, len, d, x, mode | 8, Masking::None);
            }
            LaneUnaryOp::Rsqrt => return self.rsqrt(inst, copy),
            LaneUnaryOp::Neg => unreachable!("{:?} has no code", inst.op),
        }
        self.put_vector(inst.dst, copy, d);
    }

    fn fma(&mut self, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, c] = inst.args;
        let len = self.len(self.ty(inst.dst));
        let (add, mul) =
            if elem.is_wide() { (V3::Fmadd231Pd, V3::Fmadd213Pd) } else { (V3::Fmadd231Ps, V3::Fmadd213Ps) };
        let d = self.vector_for(inst.dst, copy, V[0]);
        let (x, y, z) = (self.vector(a, copy, V[1]), self.vector_for(b, copy, V[4]), self.vector_for(c, copy, V[4]));
        if d == z && d != V[0] {
            let y = self.src(b, copy, V[2]);
            self.asm.v3(add, len, d, x, y, Masking::None);
        } else if d == x {
            let y = self.vector(b, copy, V[2]);
            let z = self.src(c, copy, V[3]);
            self.asm.v3(mul, len, d, y, z, Masking::None);
        } else if d == y && d != V[0] {
            let z = self.src(c, copy, V[2]);
            self.asm.v3(mul, len, d, x, z, Masking::None);
        } else {
            self.load_vector(c, copy, d);
            let y = self.src(b, copy, V[2]);
            self.asm.v3(add, len, d, x, y, Masking::None);
        }
        self.put_vector(inst.dst, copy, d);
    }
}
