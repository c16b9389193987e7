//! Sequences with the exact results of `lang::scalar`: extremes, reciprocal roots, conversions, integer division; and called
//! functions.

use super::*;
use crate::device::sim::jit::alloc::Loc;
use crate::device::sim::jit::frame::{CALL, SAVED_GPRS, SAVED_MASKS, SAVED_VECTORS};
use crate::device::sim::jit::functions;
use crate::device::sim::lane::{Bin, Elem, Rel};
use crate::device::sim::lanes::{avx2, wide};
use crate::lang::ops::MathFn;

impl Emit<'_> {
    /// A NaN loses to a number, and -0 is below +0: the hardware's result, but `a` where `b` is a NaN, and where both are equal and
    /// the sign of `a` is the better one.
    pub(super) fn float_extreme(&mut self, bin: Bin, elem: Elem, inst: &Inst, copy: usize) {
        let [a, b, _] = inst.args;
        let (ty, wide) = (self.ty(inst.dst), elem.is_wide());
        let len = self.len(ty);
        let op = match (bin, wide) {
            (Bin::Min, false) => V3::MinPs,
            (Bin::Min, true) => V3::MinPd,
            (_, false) => V3::MaxPs,
            (_, true) => V3::MaxPd,
        };
        // The hardware takes its second operand if one is a NaN or both are equal.
        let settled =
            if self.settles(bin, wide, b) { Some((a, b)) } else { self.settles(bin, wide, a).then_some((b, a)) };
        if let Some((first, second)) = settled {
            let (x, d) = (self.vector(first, copy, V[1]), self.vector_for(inst.dst, copy, V[0]));
            let y = self.src(second, copy, V[2]);
            self.asm.v3(op, len, d, x, y, Masking::None);
            return self.put_vector(inst.dst, copy, d);
        }
        let (x, y) = (self.vector(a, copy, V[1]), self.vector(b, copy, V[2]));
        if !self.evex() {
            // Choices look at signs only.
            self.asm.cmp_vex(wide, len, V[4], y, y, 3);
            self.asm.cmp_vex(wide, len, V[3], x, y, 0);
            if bin == Bin::Min {
                self.asm.v3(V3::And, len, V[3], V[3], x, Masking::None);
            } else {
                self.asm.v3(V3::AndNot, len, V[3], x, V[3], Masking::None);
            }
            self.asm.v3(V3::Or, len, V[4], V[4], V[3], Masking::None);
            self.asm.v3(op, len, V[3], x, y, Masking::None);
            self.asm.blendv(wide, len, V[3], V[3], x, V[4]);
            return self.put_vector(inst.dst, copy, V[3]);
        }
        let (float, integer) = if wide { (Cmp::Pd, Cmp::Q) } else { (Cmp::Ps, Cmp::D) };
        self.asm.cmp(float, len, K7.k(), y, y, 3, None);
        self.asm.cmp(float, len, K6.k(), x, y, 0, None);
        let zero = self.all(wide, 0);
        let sign = if bin == Bin::Min { 1 } else { 5 };
        self.asm.cmp(integer, len, K6.k(), x, zero, sign, Some(K6.k()));
        self.mask_op(Kop::Or, K7, K7, K6);
        self.asm.v3(op, len, V[3], x, y, Masking::None);
        self.merge(ty, V[3], x, K7);
        self.put_vector(inst.dst, copy, V[3]);
    }

    /// Returns whether a value is a constant that is right wherever an extreme is not decided by order: a number, and if it is zero, the
    /// zero of the better sign.
    fn settles(&self, bin: Bin, wide: bool, value: Value) -> bool {
        let splat = self.region.setup.iter().find_map(|inst| match inst.op {
            Op::Splat(bits) if inst.dst == value => Some(bits),
            _ => None,
        });
        let (sign, infinity) = if wide { (1 << 63, 0x7ff << 52) } else { (1 << 31, 0x7f80_0000) };
        splat.is_some_and(|bits| {
            let magnitude = bits & (sign - 1);
            magnitude <= infinity && (magnitude != 0 || (bits & sign != 0) == (bin == Bin::Min))
        })
    }

    /// As `lanes::wide`: an estimate and a correction, perturbed up and down; where both do not round to the same number, or the
    /// operand is out of range, [`Cold::Rsqrt`] computes it in 64 bits. The estimate of AVX2 is less exact, as in `lanes::avx2`: its
    /// correction has another term, and more doubt.
    pub(super) fn rsqrt(&mut self, inst: &Inst, copy: usize) {
        let (len, evex) = (self.len(Ty::V32), self.evex());
        let x = self.vector(inst.args[0], copy, V[0]);
        let all = |emit: &mut Self, value: f32| emit.all(false, value.to_bits().into());
        self.asm.v2(if evex { V2::Rsqrt14Ps } else { V2::RsqrtPs }, len, V[1], x, Masking::None);
        self.asm.v3(V3::MulPs, len, V[2], V[1], V[1], Masking::None);
        self.asm.v2(V2::Move, len, V[3], V[1], Masking::None);
        self.asm.v3(V3::Fmsub213Ps, len, V[3], V[1], V[2], Masking::None);
        let one = all(self, 1.0);
        self.asm.v3(V3::Fnmadd213Ps, len, V[2], x, one, Masking::None);
        self.asm.v3(V3::Fnmadd231Ps, len, V[2], x, V[3], Masking::None);
        // The residual lies in V[2].
        let most = self.element(false, (if evex { 0.375f32 } else { 0.3125 }).to_bits().into());
        self.asm.v2(V2::BroadcastSs, len, V[3], most, Masking::None);
        if !evex {
            let third = all(self, 0.375);
            self.asm.v3(V3::Fmadd213Ps, len, V[3], V[2], third, Masking::None);
        }
        let half = all(self, 0.5);
        self.asm.v3(V3::Fmadd213Ps, len, V[3], V[2], half, Masking::None);
        self.asm.v3(V3::MulPs, len, V[3], V[3], V[1], Masking::None);
        let doubt = all(self, if evex { wide::DOUBT } else { avx2::DOUBT });
        self.asm.v3(V3::AddPs, len, V[4], V[2], doubt, Masking::None);
        self.asm.v3(V3::Fmadd213Ps, len, V[4], V[3], V[1], Masking::None);
        self.asm.v3(V3::SubPs, len, V[2], V[2], doubt, Masking::None);
        self.asm.v3(V3::Fmadd213Ps, len, V[2], V[3], V[1], Masking::None);
        self.rsqrt_is_doubtful(len, x);
        let back = self.cold_if(Cond::Ne, Cold::Rsqrt { x });
        self.asm.bind(back);
        self.put_vector(inst.dst, copy, V[4]);
    }

    /// Sets the flag E if `V[4]` and `V[2]` are the same, and `x` is in range: from the smallest normal number to 2^100.
    fn rsqrt_is_doubtful(&mut self, len: Len, x: Vreg) {
        let (least, range) = (0x0080_0000u32, 0x7100_0000u32);
        if self.evex() {
            self.asm.cmp(Cmp::Ps, len, K7.k(), V[4], V[2], 4, None);
            let (least, range) = (self.all(false, least.into()), self.all(false, range.into()));
            self.asm.v3(V3::SubD, len, V[3], x, least, Masking::None);
            self.asm.cmp(Cmp::Ud, len, K6.k(), V[3], range, 5, None);
            return self.mask_test_either(K7, K6);
        }
        self.asm.cmp_vex(false, len, V[2], V[4], V[2], 4);
        // With the sign flipped, unsigned order is signed order.
        let sign = 1 << 31;
        let (least, last) = (self.all(false, (least ^ sign).into()), self.all(false, ((range - 1) ^ sign).into()));
        self.asm.v3(V3::SubD, len, V[3], x, least, Masking::None);
        self.asm.v3(V3::GtD, len, V[3], V[3], last, Masking::None);
        self.asm.v3(V3::Or, len, V[2], V[2], V[3], Masking::None);
        self.asm.ptest(len, V[2], V[2]);
    }

    /// Computes the reciprocal root of `x` in 64 bits, into the last scratch register.
    pub(super) fn rsqrt_wide(&mut self, x: Vreg) {
        let (whole, long) = (self.len(Ty::V32), self.long());
        let half = |emit: &mut Self, from: Vreg, to: Vreg| {
            emit.asm.v2(V2::CvtPsPd, long, to, from, Masking::None);
            emit.asm.v2(V2::SqrtPd, long, to, to, Masking::None);
            let one = emit.element(true, 1f64.to_bits());
            emit.asm.v2(V2::BroadcastQ, long, V[4], one, Masking::None);
            emit.asm.v3(V3::DivPd, long, to, V[4], to, Masking::None);
            emit.asm.v2(V2::CvtPdPs, long, to, to, Masking::None);
        };
        half(self, x, V[1]);
        if self.has_halves() {
            self.upper_half(V[2], x);
            half(self, V[2], V[2]);
            self.join_halves(V[4], V[1], V[2]);
        } else {
            self.asm.v2(V2::Move, whole, V[4], V[1], Masking::None);
        }
    }

    pub(super) fn convert(&mut self, from: Elem, to: Elem, inst: &Inst, copy: usize) {
        use Elem::*;
        let a = inst.args[0];
        let (long, d) = (self.len(Ty::V64), self.vector_for(inst.dst, copy, V[0]));
        let (len, source) = (self.len(self.ty(inst.dst)), self.ty(a));
        let x = self.vector(a, copy, V[1]);
        if !self.evex() && self.convert_avx2((from, to), d, x) {
            return self.put_vector(inst.dst, copy, d);
        }
        let op = match (from, to) {
            (I32, F32) => (V2::CvtDqPs, len),
            (U32, F32) => (V2::CvtUdqPs, len),
            (F32, F64) => (V2::CvtPsPd, long),
            (F64, F32) => (V2::CvtPdPs, long),
            (I32, F64) => (V2::CvtDqPd, long),
            (U32, F64) => (V2::CvtUdqPd, long),
            (I64, F64) => (V2::CvtQqPd, long),
            (I32, I64 | U64) => (V2::SxDq, long),
            (U32, I64 | U64) => (V2::ZxDq, long),
            (I64 | U64, I32 | U32) => {
                self.asm.narrow(Narrow::QD, long, d, x, Masking::None);
                return self.put_vector(inst.dst, copy, d);
            }
            (F32 | F64, I32) => {
                // Too large is the largest, no number is 0; too small is what the hardware answers.
                let wide = from == F64;
                let (cmp, limit, op, length) = match wide {
                    true => (Cmp::Pd, 2147483648f64.to_bits(), V2::CvttPdDq, long),
                    false => (Cmp::Ps, 2147483648f32.to_bits().into(), V2::CvttPsDq, len),
                };
                let span = self.len(source);
                let limit = self.all(wide, limit);
                self.asm.cmp(cmp, span, K7.k(), x, limit, 29, None);
                self.asm.cmp(cmp, span, K6.k(), x, x, 3, None);
                self.asm.v2(op, length, V[2], x, Masking::None);
                let most = self.element(false, 0x7fff_ffff);
                self.asm.v2(V2::BroadcastD, len, V[2], most, Masking::Merge(K7.k()));
                let zero = self.element(false, 0);
                self.asm.v2(V2::BroadcastD, len, V[2], zero, Masking::Merge(K6.k()));
                return self.put_vector(inst.dst, copy, V[2]);
            }
            (F32, U32) => {
                // Too large is all ones, and so is what is negative or no number until it is made 0.
                let zero = self.all(false, 0);
                self.asm.cmp(Cmp::Ps, len, K7.k(), x, zero, 25, None);
                self.asm.v2(V2::CvttPsUdq, len, V[2], x, Masking::None);
                let zero = self.element(false, 0);
                self.asm.v2(V2::BroadcastD, len, V[2], zero, Masking::Merge(K7.k()));
                return self.put_vector(inst.dst, copy, V[2]);
            }
            _ => unreachable!("a conversion from {from:?} to {to:?} has no code"),
        };
        self.asm.v2(op.0, op.1, d, x, Masking::None);
        self.put_vector(inst.dst, copy, d);
    }

    /// Conversions between `f32` and the bits of an `f16`, which instructions have in 16-bit lanes.
    pub(super) fn convert_half(&mut self, inst: &Inst, copy: usize) {
        let len = self.len(Ty::V32);
        let x = self.vector(inst.args[0], copy, V[1]);
        if inst.op == Op::FromHalf {
            let d = self.vector_for(inst.dst, copy, V[0]);
            self.pack_words(V[2], x, 0xffff);
            self.asm.v2(V2::CvtPhPs, len, d, V[2], Masking::None);
            return self.put_vector(inst.dst, copy, d);
        }
        self.compare((Rel::Ne, Elem::F32), K7, x, Src::Reg(x), None);
        self.asm.cvt_ps_ph(len, V[2], x, 0, Masking::None);
        self.asm.v2(V2::ZxWd, len, V[2], V[2], Masking::None);
        // Of a NaN only the sign remains.
        let (sign, nan) = (self.all(false, 0x8000), self.all(false, 0x7e00));
        self.asm.v3(V3::And, len, V[3], V[2], sign, Masking::None);
        self.asm.v3(V3::Or, len, V[3], V[3], nan, Masking::None);
        self.merge(Ty::V32, V[2], V[3], K7);
        self.put_vector(inst.dst, copy, V[2]);
    }

    /// Division of 4-byte integers by way of `f64`, whose quotient is exact enough to truncate correctly.
    pub(super) fn vector_divide(&mut self, bin: Bin, elem: Elem, inst: &Inst, copy: usize) {
        let [a, b, _] = inst.args;
        let len = self.len(Ty::V32);
        let factor = self.splat_of(b).and_then(|divisor| reciprocal(divisor, elem.is_signed()));
        let x = self.vector(a, copy, V[0]);
        let y = if factor.is_none() || bin == Bin::Rem { self.vector(b, copy, V[1]) } else { V[1] };
        self.quotient(elem, V[2], (x, y, V[3]), factor);
        if self.has_halves() {
            self.upper_half(V[3], x);
            if factor.is_none() {
                self.upper_half(V[4], y);
            }
            self.quotient(elem, V[3], (V[3], V[4], V[4]), factor);
            self.join_halves(V[2], V[2], V[3]);
        }
        if bin == Bin::Rem {
            self.asm.v3(V3::MulD, len, V[2], V[2], y, Masking::None);
            self.asm.v3(V3::SubD, len, V[2], x, V[2], Masking::None);
        }
        self.put_vector(inst.dst, copy, V[2]);
    }

    /// Divides as many lanes as a register has doubles, which a factor may do as well; overwrites `spare`.
    fn quotient(&mut self, elem: Elem, d: Vreg, (x, y, spare): (Vreg, Vreg, Vreg), factor: Option<f64>) {
        let long = self.long();
        self.doubles_of(elem, d, x);
        match factor {
            Some(factor) => {
                let factor = self.all(true, factor.to_bits());
                self.asm.v3(V3::MulPd, long, d, d, factor, Masking::None);
            }
            None => {
                self.doubles_of(elem, spare, y);
                self.asm.v3(V3::DivPd, long, d, d, spare, Masking::None);
            }
        }
        self.truncated(elem, d, spare);
    }

    /// Returns the bits of a vector that is the same constant in all lanes.
    fn splat_of(&self, value: Value) -> Option<u32> {
        self.region.setup.iter().filter(|inst| inst.dst == value).find_map(|inst| match inst.op {
            Op::Splat(bits) => Some(bits as u32),
            _ => None,
        })
    }

    /// Returns the length of doubles for a vector of 4-byte lanes or for half of it.
    pub(super) fn long(&self) -> Len {
        if self.shape.width == 4 { Len::L256 } else { self.whole() }
    }

    /// Returns whether as many doubles as a vector has 4-byte lanes take two registers.
    pub(super) fn has_halves(&self) -> bool {
        4 * self.shape.width == self.whole().bytes()
    }

    /// `d` = the upper half of the 4-byte lanes of `a`.
    pub(super) fn upper_half(&mut self, d: Vreg, a: Vreg) {
        if self.evex() { self.asm.extract256(d, a, 1) } else { self.asm.extract128(d, a, 1) }
    }

    /// `d` = the lanes of `a`, and those of `b` as its upper half.
    pub(super) fn join_halves(&mut self, d: Vreg, a: Vreg, b: Vreg) {
        if self.evex() { self.asm.insert256(d, a, b, 1) } else { self.asm.insert128(Len::L256, d, a, b, 1) }
    }

    /// Calls a function for each vector, around which all live registers are saved.
    pub(super) fn call(&mut self, function: MathFn, inst: &Inst) {
        let live = self.live();
        self.save(&live);
        let len = self.len(Ty::V32);
        for copy in 0..self.copies(inst.dst) {
            for (number, &arg) in inst.args.iter().filter(|&&a| a != Value::NONE).enumerate() {
                // Only the first copy finds all operands in their registers.
                let x = self.saved_vector(arg, copy, &live);
                self.asm.vstore(false, len, Self::slot(CALL + 64 * number as i32), x, None);
            }
            self.asm.lea(Size::S64, Gpr::RDI, Self::slot(CALL));
            self.asm.mov_imm64(Gpr::RAX, functions::address(function, self.evex(), self.shape.width) as u64);
            self.asm.call(Gpr::RAX);
            self.asm.v2(V2::Move, len, V[0], Self::slot(CALL), Masking::None);
            match self.allocation.of(inst.dst, copy, self.copies(inst.dst)) {
                // Its register may be overwritten by the next call.
                Loc::Vector(n) => {
                    self.asm.vstore(false, len, Self::slot(SAVED_VECTORS + 64 * i32::from(n)), V[0], None)
                }
                _ => self.put_vector(inst.dst, copy, V[0]),
            }
        }
        self.restore(&live);
        for copy in 0..self.copies(inst.dst) {
            if let Loc::Vector(n) = self.allocation.of(inst.dst, copy, self.copies(inst.dst)) {
                let saved = Self::slot(SAVED_VECTORS + 64 * i32::from(n));
                self.asm.v2(V2::Move, len, Vreg(n), saved, Masking::None);
            }
        }
    }

    /// Reads a vector that may be in a register that a call has overwritten.
    fn saved_vector(&mut self, value: Value, copy: usize, live: &[Loc]) -> Vreg {
        let loc = self.allocation.of(value, copy, self.copies(value));
        if let Loc::Vector(n) = loc {
            if copy > 0 {
                debug_assert!(live.contains(&loc));
                let len = self.len(self.ty(value));
                let saved = Self::slot(SAVED_VECTORS + 64 * i32::from(n));
                self.asm.v2(V2::Move, len, V[0], saved, Masking::None);
                return V[0];
            }
            return Vreg(n);
        }
        self.vector(value, copy, V[0])
    }

    pub(super) fn save(&mut self, live: &[Loc]) {
        for loc in live {
            match *loc {
                Loc::Gpr(n) if is_volatile(n) => {
                    self.asm.store(Size::S64, Self::slot(SAVED_GPRS + 8 * i32::from(n)), Gpr(n));
                }
                Loc::Mask(n) => self.asm.kstore(Self::slot(SAVED_MASKS + 8 * i32::from(n)), Kreg(n)),
                Loc::Vector(n) => {
                    let len = self.whole();
                    self.asm.vstore(false, len, Self::slot(SAVED_VECTORS + 64 * i32::from(n)), Vreg(n), None);
                }
                _ => {}
            }
        }
    }

    pub(super) fn restore(&mut self, live: &[Loc]) {
        for loc in live {
            match *loc {
                Loc::Gpr(n) if is_volatile(n) => {
                    self.asm.mov(Size::S64, Gpr(n), Self::slot(SAVED_GPRS + 8 * i32::from(n)));
                }
                Loc::Mask(n) => self.asm.kload(Kreg(n), Self::slot(SAVED_MASKS + 8 * i32::from(n))),
                Loc::Vector(n) => {
                    let saved = Self::slot(SAVED_VECTORS + 64 * i32::from(n));
                    let len = self.whole();
                    self.asm.v2(V2::Move, len, Vreg(n), saved, Masking::None);
                }
                _ => {}
            }
        }
    }

    /// Saves the registers that a called function may overwrite, whatever they hold; returns them.
    pub(super) fn save_all(&mut self) -> Vec<Loc> {
        let (masks, vectors) = if self.evex() { (1..8, 0..32) } else { (0..0, 0..16) };
        let all = (0..16).map(Loc::Gpr).chain(masks.map(Loc::Mask)).chain(vectors.map(Loc::Vector)).collect::<Vec<_>>();
        self.save(&all);
        all
    }
}

/// Returns a number by which to multiply instead of dividing by an integer, for quotients that are truncated. It is 2^-50 larger than the
/// reciprocal, so that no multiple of the divisor comes out too small, and others, which are below the next one by a fraction of at least
/// the reciprocal, by less than 2^-17 of that too large.
fn reciprocal(divisor: u32, signed: bool) -> Option<f64> {
    let divisor = if signed { f64::from(divisor as i32) } else { f64::from(divisor) };
    (divisor != 0.0).then(|| 1.0 / divisor * (1.0 + 2f64.powi(-50)))
}

/// Returns whether a called function may overwrite a general-purpose register.
fn is_volatile(register: u8) -> bool {
    !matches!(register, 3 | 4 | 5 | 12..=15)
}

#[cfg(test)]
mod tests {
    use super::reciprocal;

    /// Around each multiple that is close to an end of the range, and around many others.
    #[test]
    fn products_with_reciprocals_are_truncated_quotients() {
        let divisors = (1..=70).chain([97, 641, 1000, 4099, 65535, 65537, 1_000_003, 0x7fff_fffe, 0x7fff_ffff]);
        for d in divisors.clone().chain(divisors.map(|d: i64| -d)) {
            let (signed, unsigned) = (reciprocal(d as u32, true).unwrap(), reciprocal(d as u32, false).unwrap());
            let u = d as u32;
            for k in 0..600u32 {
                let near = k.wrapping_mul(0x9e37_79b9).max(k);
                let starts = [
                    k,
                    u32::MAX - k,
                    0x8000_0000 - k,
                    0x7fff_ffff + k,
                    near,
                    near / u * u,
                    (near / u * u).wrapping_add(u - 1),
                ];
                let multiple = |x: u32| (x as i32).wrapping_div(d as i32).wrapping_mul(d as i32) as u32;
                let around = |x: u32| [x, x.wrapping_sub(1), multiple(x), multiple(x).wrapping_sub(1)];
                for x in starts.into_iter().flat_map(around) {
                    assert_eq!((f64::from(x) * unsigned) as u32, x / u, "{x} / {u}");
                    let quotient = f64::from(x as i32) * signed;
                    assert_eq!(quotient as i64, i64::from(x as i32) / d, "{} / {d}", x as i32);
                }
            }
        }
    }
}
