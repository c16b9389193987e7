//! Emulates AVX-512 instructions with AVX2, with bit-identical results.
//!
//! Operands must not be in the last two scratch vectors, which the sequences overwrite. The result may share a register
//! with an operand, because it is written after the last read of an operand.

use super::*;
use crate::lir::LaneElem;

/// The constants 2^31, 2^32 and 2^52 as floats.
const TWO_31: f32 = 2147483648.0;
const TWO_32: f32 = 4294967296.0;
const TWO_52: f64 = 4503599627370496.0;

impl RegionEmitter<'_> {
    /// Emits a vector operation with two operands, optionally masked.
    pub(super) fn vector_avx2(&mut self, op: V3, inst: &LaneInst, copy: usize) {
        let [a, b, _] = inst.args;
        let ty = self.ty(inst.dst);
        let (len, d) = (self.len(ty), self.vector_for(inst.dst, copy, V[0]));
        let x = self.vector(a, copy, V[1]);
        let to = if inst.mask == LaneValue::NONE { d } else { V[0] };
        match op {
            V3::MulQ | V3::SarvQ | V3::MinSq | V3::MaxSq | V3::MinUq | V3::MaxUq => {
                let y = self.vector(b, copy, V[2]);
                self.emulate(op, to, x, y);
            }
            _ => {
                let y = self.src(b, copy, V[2]);
                self.asm.v3(op, len, to, x, y, Masking::None);
            }
        }
        if inst.mask != LaneValue::NONE {
            let mask = self.mask(inst.mask, copy, K7);
            let old = self.vector(inst.dst, copy, V[1]);
            self.choose(ty, d, old, Src::Reg(V[0]), mask);
        }
        self.put_vector(inst.dst, copy, d);
    }

    fn emulate(&mut self, op: V3, d: Vreg, x: Vreg, y: Vreg) {
        let (len, sign) = (Len::L256, self.all(true, 1 << 63));
        match op {
            V3::MulQ => {
                // Add the products of 32-bit halves that contribute to the lower 64 bits of the product.
                self.asm.v2i(V2i::ShrQ, len, V[3], x, 32, Masking::None);
                self.asm.v3(V3::MulUdq, len, V[3], V[3], y, Masking::None);
                self.asm.v2i(V2i::ShrQ, len, V[4], y, 32, Masking::None);
                self.asm.v3(V3::MulUdq, len, V[4], V[4], x, Masking::None);
                self.asm.v3(V3::AddQ, len, V[3], V[3], V[4], Masking::None);
                self.asm.v2i(V2i::ShlQ, len, V[3], V[3], 32, Masking::None);
                self.asm.v3(V3::MulUdq, len, V[4], x, y, Masking::None);
                self.asm.v3(V3::AddQ, len, d, V[3], V[4], Masking::None);
            }
            V3::SarvQ => {
                // `(x ^ sign) - sign` extends the sign bit from its shifted position.
                self.asm.v2(V2::Move, len, V[3], sign, Masking::None);
                self.asm.v3(V3::ShrvQ, len, V[3], V[3], y, Masking::None);
                self.asm.v3(V3::ShrvQ, len, V[4], x, y, Masking::None);
                self.asm.v3(V3::Xor, len, V[4], V[4], V[3], Masking::None);
                self.asm.v3(V3::SubQ, len, d, V[4], V[3], Masking::None);
            }
            _ => {
                if matches!(op, V3::MinUq | V3::MaxUq) {
                    self.asm.v3(V3::Xor, len, V[3], x, sign, Masking::None);
                    self.asm.v3(V3::Xor, len, V[4], y, sign, Masking::None);
                    self.asm.v3(V3::GtQ, len, V[3], V[3], V[4], Masking::None);
                } else {
                    self.asm.v3(V3::GtQ, len, V[3], x, y, Masking::None);
                }
                let (no, yes) = if matches!(op, V3::MinSq | V3::MinUq) { (x, y) } else { (y, x) };
                self.asm.blendv(true, len, d, no, yes, V[3]);
            }
        }
    }

    /// Emits a conversion for which AVX2 has no instruction. Returns false if AVX2 has one. Overwrites the scratch
    /// vectors except `V[1]`.
    pub(super) fn convert_avx2(&mut self, from: LaneElem, to: LaneElem, d: Vreg, x: Vreg) -> bool {
        use LaneElem::*;
        match (from, to) {
            (U32, F32) => self.unsigned_to_float(d, x),
            (U32, F64) => self.doubles_of(U32, d, x),
            (I64, F64) => self.long_to_double(d, x),
            (I64 | U64, I32 | U32) => self.narrow_mask(d, x),
            (F32 | F64, I32) => self.float_to_int(from, d, x),
            (F32, U32) => self.float_to_unsigned(d, x),
            _ => return false,
        }
        true
    }

    /// Sets `d` to the lower 16 bits of 4-byte lanes, packed in 16-bit lanes. With AVX2, only the bits in `low` are
    /// preserved, `V[3]` is overwritten, and `d` must not be `V[3]`.
    pub(super) fn pack_words(&mut self, d: Vreg, x: Vreg, low: u64) {
        let len = self.len(LaneTy::V32);
        if self.evex() {
            return self.asm.narrow(Narrow::DW, len, d, x, Masking::None);
        }
        // The pack instruction saturates, so the upper bits are cleared first.
        let low = self.all(false, low);
        self.asm.v3(V3::And, len, d, x, low, Masking::None);
        let mut high = d;
        if len == Len::L256 {
            self.asm.extract128(V[3], d, 1);
            high = V[3];
        }
        self.asm.v3(V3::PackUsDw, Len::L128, d, d, high, Masking::None);
    }

    fn float(&mut self, value: f32) -> Src {
        self.all(false, value.to_bits().into())
    }

    /// Sets `d` to 4-byte integers converted to doubles (`f64`).
    pub(super) fn doubles_of(&mut self, elem: LaneElem, d: Vreg, x: Vreg) {
        let long = self.long();
        if elem == LaneElem::I32 || self.evex() {
            let op = if elem == LaneElem::I32 { V2::CvtDqPd } else { V2::CvtUdqPd };
            return self.asm.v2(op, long, d, x, Masking::None);
        }
        let (sign, back) = (self.all(false, 1 << 31), self.all(true, f64::from(TWO_31).to_bits()));
        self.asm.v3(V3::Xor, Len::L128, d, x, sign, Masking::None);
        self.asm.v2(V2::CvtDqPd, long, d, d, Masking::None);
        self.asm.v3(V3::AddPd, long, d, d, back, Masking::None);
    }

    /// Converts the doubles in `d` to 4-byte integers, rounded toward zero. All values must be in range.
    pub(super) fn truncated(&mut self, elem: LaneElem, d: Vreg, scratch: Vreg) {
        let long = self.long();
        if elem == LaneElem::I32 || self.evex() {
            let op = if elem == LaneElem::I32 { V2::CvttPdDq } else { V2::CvttPdUdq };
            return self.asm.v2(op, long, d, d, Masking::None);
        }
        // After adding 2^52, the mantissa of the double contains the integer.
        let shift = self.all(true, TWO_52.to_bits());
        self.asm.v2i(V2i::RoundPd, long, d, d, 3 | 8, Masking::None);
        self.asm.v3(V3::AddPd, long, d, d, shift, Masking::None);
        self.asm.extract128(scratch, d, 1);
        self.asm.v3i(V3i::ShufPs, Len::L128, d, d, scratch, 0x88, Masking::None);
    }

    /// Converts unsigned 32-bit integers to `f32`. Inserts the upper and the lower 16 bits into the mantissas of two
    /// floats with suitable exponents, and adds the floats. Only this addition rounds.
    fn unsigned_to_float(&mut self, d: Vreg, x: Vreg) {
        let len = self.len(LaneTy::V32);
        let (low, unit) = (self.all(false, 0xffff), self.all(false, 0x4b00_0000));
        self.asm.v3(V3::And, len, V[2], x, low, Masking::None);
        self.asm.v3(V3::Or, len, V[2], V[2], unit, Masking::None);
        let (unit, both) = (self.all(false, 0x5300_0000), self.all(false, 0x5300_0080));
        self.asm.v2i(V2i::ShrD, len, V[3], x, 16, Masking::None);
        self.asm.v3(V3::Or, len, V[3], V[3], unit, Masking::None);
        self.asm.v3(V3::SubPs, len, V[3], V[3], both, Masking::None);
        self.asm.v3(V3::AddPs, len, d, V[3], V[2], Masking::None);
    }

    /// Converts signed 64-bit integers to `f64`, like `unsigned_to_float` but with 32-bit halves, of which the upper
    /// one is signed.
    fn long_to_double(&mut self, d: Vreg, x: Vreg) {
        let len = Len::L256;
        let (low, unit) = (self.all(true, 0xffff_ffff), self.all(true, TWO_52.to_bits()));
        self.asm.v3(V3::And, len, V[2], x, low, Masking::None);
        self.asm.v3(V3::Or, len, V[2], V[2], unit, Masking::None);
        let (unit, both) = (self.all(true, 0x4530_0000_8000_0000), self.all(true, 0x4530_0000_8010_0000));
        self.asm.v2i(V2i::ShrQ, len, V[3], x, 32, Masking::None);
        self.asm.v3(V3::Xor, len, V[3], V[3], unit, Masking::None);
        self.asm.v3(V3::SubPd, len, V[3], V[3], both, Masking::None);
        self.asm.v3(V3::AddPd, len, d, V[3], V[2], Masking::None);
    }

    /// Converts floats to signed integers, with saturation; NaN becomes 0. The hardware returns the smallest integer
    /// for NaN and all values out of range, so the code corrects NaN and values that are too large.
    fn float_to_int(&mut self, from: LaneElem, d: Vreg, x: Vreg) {
        let (wide, len) = (from == LaneElem::F64, self.len(from.vector_ty()));
        let limit = self.all(wide, if wide { f64::from(TWO_31).to_bits() } else { TWO_31.to_bits().into() });
        self.asm.cmp_vex(wide, len, V[3], x, limit, 29);
        self.asm.cmp_vex(wide, len, V[4], x, x, 7);
        if wide {
            self.narrow_mask(V[3], V[3]);
            self.narrow_mask(V[4], V[4]);
        }
        self.asm.v2(if wide { V2::CvttPdDq } else { V2::CvttPsDq }, len, V[2], x, Masking::None);
        let len = self.len(LaneTy::V32);
        self.asm.v3(V3::Xor, len, V[2], V[2], V[3], Masking::None);
        self.asm.v3(V3::And, len, d, V[2], V[4], Masking::None);
    }

    /// Converts floats to unsigned integers. Values that are too large become all ones; negative values and NaN become
    /// 0.
    fn float_to_unsigned(&mut self, d: Vreg, x: Vreg) {
        let len = self.len(LaneTy::V32);
        let (half, end, zero) = (self.float(TWO_31), self.float(TWO_32), self.all(false, 0));
        // For values of at least 2^31, subtract 2^31 before the conversion and set the top bit after it.
        self.asm.cmp_vex(false, len, V[4], x, half, 29);
        self.asm.v3(V3::And, len, V[3], V[4], half, Masking::None);
        self.asm.v3(V3::SubPs, len, V[2], x, V[3], Masking::None);
        self.asm.v2(V2::CvttPsDq, len, V[2], V[2], Masking::None);
        let sign = self.all(false, 1 << 31);
        self.asm.v3(V3::And, len, V[3], V[4], sign, Masking::None);
        self.asm.v3(V3::Xor, len, V[2], V[2], V[3], Masking::None);
        self.asm.cmp_vex(false, len, V[3], x, end, 29);
        self.asm.v3(V3::Or, len, V[2], V[2], V[3], Masking::None);
        self.asm.cmp_vex(false, len, V[3], x, zero, 29);
        self.asm.v3(V3::And, len, d, V[2], V[3], Masking::None);
    }
}
