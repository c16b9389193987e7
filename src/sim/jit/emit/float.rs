//! Emits float operations whose results are bit-identical to those of `clk_scalar`: minimum and maximum, reciprocal
//! square root, conversions, and calls of math functions. Also emits integer divisions, which are computed in `f64`.

use super::*;
use crate::jit::frame::{CALL, SAVED_GPRS, SAVED_MASKS, SAVED_VECTORS};
use crate::jit::register_allocation::ValueLocation;
use crate::jit::runtime_functions;
use crate::lanes::{avx2, wide};
use crate::lir::{LaneBinOp, LaneComparison, LaneElem};
use clk_scalar::ops::MathFn;

impl RegionEmitter<'_> {
    /// Emits a minimum or maximum. If one operand is a NaN, the result is the other operand, and -0 is less than +0.
    /// The code corrects the hardware's result in two cases: `b` is a NaN, or both operands are equal and `a` has the
    /// preferred sign.
    pub(super) fn float_extreme(&mut self, bin: LaneBinOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let (ty, wide) = (self.ty(inst.dst), elem.is_wide());
        let len = self.len(ty);
        let op = match (bin, wide) {
            (LaneBinOp::Min, false) => V3::MinPs,
            (LaneBinOp::Min, true) => V3::MinPd,
            (_, false) => V3::MaxPs,
            (_, true) => V3::MaxPd,
        };
        // The hardware returns its second operand if either operand is a NaN or both are equal.
        let is_decided = if self.decides_ties(bin, wide, b) {
            Some((a, b))
        } else {
            self.decides_ties(bin, wide, a).then_some((b, a))
        };
        if let Some((first, second)) = is_decided {
            let (x, d) = (self.vector(first, copy, V[1]), self.vector_for(inst.dst, copy, V[0]));
            let y = self.src(second, copy, V[2]);
            self.asm.v3(op, len, d, x, y, Masking::None);
            return self.put_vector(inst.dst, copy, d);
        }
        let (x, y) = (self.vector(a, copy, V[1]), self.vector(b, copy, V[2]));
        if !self.evex() {
            // Blend instructions test only the sign bits of the mask's lanes.
            self.asm.cmp_vex(wide, len, V[4], y, y, 3);
            self.asm.cmp_vex(wide, len, V[3], x, y, 0);
            if bin == LaneBinOp::Min {
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
        let sign = if bin == LaneBinOp::Min { 1 } else { 5 };
        self.asm.cmp(integer, len, K6.k(), x, zero, sign, Some(K6.k()));
        self.mask_op(Kop::Or, K7, K7, K6);
        self.asm.v3(op, len, V[3], x, y, Masking::None);
        self.merge(ty, V[3], x, K7);
        self.put_vector(inst.dst, copy, V[3]);
    }

    /// Returns whether the value is a constant that is the correct result whenever the operands are equal or one is a
    /// NaN. This holds unless the constant is a NaN or a zero with the wrong sign.
    fn decides_ties(&self, bin: LaneBinOp, wide: bool, value: LaneValue) -> bool {
        let splat = self.region.setup.iter().find_map(|inst| match inst.op {
            LaneOp::Splat(bits) if inst.dst == value => Some(bits),
            _ => None,
        });
        let (sign, infinity) = if wide { (1 << 63, 0x7ff << 52) } else { (1 << 31, 0x7f80_0000) };
        splat.is_some_and(|bits| {
            let magnitude = bits & (sign - 1);
            magnitude <= infinity && (magnitude != 0 || (bits & sign != 0) == (bin == LaneBinOp::Min))
        })
    }

    /// Emits a reciprocal square root, like `lanes::wide`: corrects the hardware's estimate, and rounds the result plus
    /// and minus its error bound. If the two rounded numbers differ, or the operand is out of range,
    /// [`ColdPath::Rsqrt`] computes the result in 64 bits. The estimate of AVX2 is less exact, so its correction has
    /// one more term and a larger error bound, as in `lanes::avx2`.
    pub(super) fn rsqrt(&mut self, inst: &LaneInst, copy: usize) {
        let (len, evex) = (self.len(LaneTy::V32), self.evex());
        let x = self.vector(inst.args[0], copy, V[0]);
        let all = |emit: &mut Self, value: f32| emit.all(false, value.to_bits().into());
        self.asm.v2(if evex { V2::Rsqrt14Ps } else { V2::RsqrtPs }, len, V[1], x, Masking::None);
        self.asm.v3(V3::MulPs, len, V[2], V[1], V[1], Masking::None);
        self.asm.v2(V2::Move, len, V[3], V[1], Masking::None);
        self.asm.v3(V3::Fmsub213Ps, len, V[3], V[1], V[2], Masking::None);
        let one = all(self, 1.0);
        self.asm.v3(V3::Fnmadd213Ps, len, V[2], x, one, Masking::None);
        self.asm.v3(V3::Fnmadd231Ps, len, V[2], x, V[3], Masking::None);
        // `V[2]` contains the residual of the estimate.
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
        let back = self.jump_cold_if(ConditionCode::Ne, ColdPath::Rsqrt { x });
        self.asm.bind(back);
        self.put_vector(inst.dst, copy, V[4]);
    }

    /// Sets condition E if `V[4]` equals `V[2]` and `x` is in range (from the smallest normal number to 2^100) in all
    /// lanes.
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
        // Flipping the sign bit maps unsigned order to signed order.
        let sign = 1 << 31;
        let (least, last) = (self.all(false, (least ^ sign).into()), self.all(false, ((range - 1) ^ sign).into()));
        self.asm.v3(V3::SubD, len, V[3], x, least, Masking::None);
        self.asm.v3(V3::GtD, len, V[3], V[3], last, Masking::None);
        self.asm.v3(V3::Or, len, V[2], V[2], V[3], Masking::None);
        self.asm.ptest(len, V[2], V[2]);
    }

    /// Computes the reciprocal square root of `x` in 64 bits, in the last scratch vector.
    pub(super) fn rsqrt_wide(&mut self, x: Vreg) {
        let (whole, long) = (self.len(LaneTy::V32), self.long());
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

    pub(super) fn convert(&mut self, from: LaneElem, to: LaneElem, inst: &LaneInst, copy: usize) {
        use LaneElem::*;
        let a = inst.args[0];
        let (long, d) = (self.len(LaneTy::V64), self.vector_for(inst.dst, copy, V[0]));
        let (len, source) = (self.len(self.ty(inst.dst)), self.ty(a));
        let x = self.vector(a, copy, V[1]);
        if !self.evex() && self.convert_avx2(from, to, d, x) {
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
                // Set the result to the largest integer for values that are too large, and to 0 for NaN. For values
                // that are too small, the hardware's result is correct.
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
                // The hardware returns all ones for values that are too large or negative, and for NaN. The result for
                // negative values and NaN must be 0.
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

    /// Emits conversions between `f32` and the bits of `f16`. The hardware instructions expect `f16` packed in 16-bit
    /// lanes.
    pub(super) fn convert_half(&mut self, inst: &LaneInst, copy: usize) {
        let len = self.len(LaneTy::V32);
        let x = self.vector(inst.args[0], copy, V[1]);
        if inst.op == LaneOp::FromHalf {
            let d = self.vector_for(inst.dst, copy, V[0]);
            self.pack_words(V[2], x, 0xffff);
            self.asm.v2(V2::CvtPhPs, len, d, V[2], Masking::None);
            return self.put_vector(inst.dst, copy, d);
        }
        self.compare(LaneComparison::Ne, LaneElem::F32, K7, x, Src::Reg(x), None);
        self.asm.cvt_ps_ph(len, V[2], x, 0, Masking::None);
        self.asm.v2(V2::ZxWd, len, V[2], V[2], Masking::None);
        // The payload of a NaN is replaced; only its sign is preserved.
        let (sign, nan) = (self.all(false, 0x8000), self.all(false, 0x7e00));
        self.asm.v3(V3::And, len, V[3], V[2], sign, Masking::None);
        self.asm.v3(V3::Or, len, V[3], V[3], nan, Masking::None);
        self.merge(LaneTy::V32, V[2], V[3], K7);
        self.put_vector(inst.dst, copy, V[2]);
    }

    /// Emits a division of 4-byte integers, computed in `f64`. Truncating the `f64` quotient yields the correct integer
    /// quotient.
    pub(super) fn vector_divide(&mut self, bin: LaneBinOp, elem: LaneElem, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let len = self.len(LaneTy::V32);
        let factor = self.splat_of(b).and_then(|divisor| reciprocal(divisor, elem.is_signed()));
        let x = self.vector(a, copy, V[0]);
        let y = if factor.is_none() || bin == LaneBinOp::Rem { self.vector(b, copy, V[1]) } else { V[1] };
        self.quotient(elem, V[2], x, y, V[3], factor);
        if self.has_halves() {
            self.upper_half(V[3], x);
            if factor.is_none() {
                self.upper_half(V[4], y);
            }
            self.quotient(elem, V[3], V[3], V[4], V[4], factor);
            self.join_halves(V[2], V[2], V[3]);
        }
        if bin == LaneBinOp::Rem {
            self.asm.v3(V3::MulD, len, V[2], V[2], y, Masking::None);
            self.asm.v3(V3::SubD, len, V[2], x, V[2], Masking::None);
        }
        self.put_vector(inst.dst, copy, V[2]);
    }

    /// Computes `d = x / y`, truncated, for the number of doubles that fit in a register. `factor`: the [`reciprocal`]
    /// of `y`, if `y` is a constant. Overwrites `spare`.
    fn quotient(&mut self, elem: LaneElem, d: Vreg, x: Vreg, y: Vreg, spare: Vreg, factor: Option<f64>) {
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
    fn splat_of(&self, value: LaneValue) -> Option<u32> {
        self.region.setup.iter().filter(|inst| inst.dst == value).find_map(|inst| match inst.op {
            LaneOp::Splat(bits) => Some(bits as u32),
            _ => None,
        })
    }

    /// Returns the vector length for doubles converted from a vector of 4-byte lanes, or from half of it.
    pub(super) fn long(&self) -> Len {
        if self.shape.width == 4 { Len::L256 } else { self.full_len() }
    }

    /// Returns whether converting a vector of 4-byte lanes to doubles needs two registers.
    pub(super) fn has_halves(&self) -> bool {
        4 * self.shape.width == self.full_len().bytes()
    }

    /// Sets `d` to the upper half of the 4-byte lanes of `a`.
    pub(super) fn upper_half(&mut self, d: Vreg, a: Vreg) {
        if self.evex() { self.asm.extract256(d, a, 1) } else { self.asm.extract128(d, a, 1) }
    }

    /// Sets the lower half of `d` to `a` and the upper half to `b`.
    pub(super) fn join_halves(&mut self, d: Vreg, a: Vreg, b: Vreg) {
        if self.evex() { self.asm.insert256(d, a, b, 1) } else { self.asm.insert128(Len::L256, d, a, b, 1) }
    }

    /// Emits a call of a math function for each vector. The code saves all live registers before each call and restores
    /// them after it.
    pub(super) fn call(&mut self, function: MathFn, inst: &LaneInst) {
        let live = self.live();
        self.save(&live);
        let len = self.len(LaneTy::V32);
        for copy in 0..self.copies(inst.dst) {
            for (number, &arg) in inst.args.iter().filter(|&&a| a != LaneValue::NONE).enumerate() {
                // An earlier call may have overwritten the register of an operand, so read the saved value.
                let x = self.saved_vector(arg, copy, &live);
                self.asm.vstore(false, len, Self::slot(CALL + 64 * number as i32), x, None);
            }
            self.asm.lea(OperandSize::S64, Gpr::RDI, Self::slot(CALL));
            self.asm.mov_imm64(Gpr::RAX, runtime_functions::address(function, self.evex(), self.shape.width) as u64);
            self.asm.call(Gpr::RAX);
            self.asm.v2(V2::Move, len, V[0], Self::slot(CALL), Masking::None);
            match self.allocation.of(inst.dst, copy, self.copies(inst.dst)) {
                // Save the result, because the next call may overwrite its register.
                ValueLocation::Vector(n) => {
                    self.asm.vstore(false, len, Self::slot(SAVED_VECTORS + 64 * i32::from(n)), V[0], None)
                }
                _ => self.put_vector(inst.dst, copy, V[0]),
            }
        }
        self.restore(&live);
        for copy in 0..self.copies(inst.dst) {
            if let ValueLocation::Vector(n) = self.allocation.of(inst.dst, copy, self.copies(inst.dst)) {
                let saved = Self::slot(SAVED_VECTORS + 64 * i32::from(n));
                self.asm.v2(V2::Move, len, Vreg(n), saved, Masking::None);
            }
        }
    }

    /// Returns a vector operand whose register an earlier call may have overwritten, from where it was saved.
    fn saved_vector(&mut self, value: LaneValue, copy: usize, live: &[ValueLocation]) -> Vreg {
        let loc = self.allocation.of(value, copy, self.copies(value));
        if let ValueLocation::Vector(n) = loc {
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

    pub(super) fn save(&mut self, live: &[ValueLocation]) {
        for loc in live {
            match *loc {
                ValueLocation::Gpr(n) if is_volatile(n) => {
                    self.asm.store(OperandSize::S64, Self::slot(SAVED_GPRS + 8 * i32::from(n)), Gpr(n));
                }
                ValueLocation::Mask(n) => self.asm.kstore(Self::slot(SAVED_MASKS + 8 * i32::from(n)), Kreg(n)),
                ValueLocation::Vector(n) => {
                    let len = self.full_len();
                    self.asm.vstore(false, len, Self::slot(SAVED_VECTORS + 64 * i32::from(n)), Vreg(n), None);
                }
                _ => {}
            }
        }
    }

    pub(super) fn restore(&mut self, live: &[ValueLocation]) {
        for loc in live {
            match *loc {
                ValueLocation::Gpr(n) if is_volatile(n) => {
                    self.asm.mov(OperandSize::S64, Gpr(n), Self::slot(SAVED_GPRS + 8 * i32::from(n)));
                }
                ValueLocation::Mask(n) => self.asm.kload(Kreg(n), Self::slot(SAVED_MASKS + 8 * i32::from(n))),
                ValueLocation::Vector(n) => {
                    let saved = Self::slot(SAVED_VECTORS + 64 * i32::from(n));
                    let len = self.full_len();
                    self.asm.v2(V2::Move, len, Vreg(n), saved, Masking::None);
                }
                _ => {}
            }
        }
    }

    /// Saves and returns all registers that a called function may overwrite.
    pub(super) fn save_all(&mut self) -> Vec<ValueLocation> {
        let (masks, vectors) = if self.evex() { (1..8, 0..32) } else { (0..0, 0..16) };
        let all = (0..16)
            .map(ValueLocation::Gpr)
            .chain(masks.map(ValueLocation::Mask))
            .chain(vectors.map(ValueLocation::Vector))
            .collect::<Vec<_>>();
        self.save(&all);
        all
    }
}

/// Returns an `f64` factor by which code multiplies to divide by an integer constant with truncation (cf. Granlund &
/// Montgomery 1994). The factor exceeds the reciprocal of the divisor by a relative 2^-50, so the product for an exact
/// multiple of the divisor is never too small. Any other quotient is below the next integer by at least the reciprocal.
/// Its error is less than 2^-17 of the reciprocal, so truncation yields the same integer.
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

    /// Tests the values around all multiples of the divisor near the ends of the range, and around many other
    /// multiples.
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
