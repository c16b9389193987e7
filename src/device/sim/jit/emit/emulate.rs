//! What AVX2 has no instruction for, as sequences with the bits of AVX-512's instructions.
//!
//! Operands are not the last two scratch vectors, and a result is written by the last instruction that reads an operand.

use super::*;
use crate::device::sim::lane::Elem;

/// 2^31, 2^32 and 2^52, as floats.
const TWO_31: f32 = 2147483648.0;
const TWO_32: f32 = 4294967296.0;
const TWO_52: f64 = 4503599627370496.0;

impl Emit<'_> {
    /// An operation of two operands, under a mask or not.
    pub(super) fn vector_avx2(&mut self, op: V3, inst: &Inst, copy: usize) {
        let [a, b, _] = inst.args;
        let ty = self.ty(inst.dst);
        let (len, d) = (self.len(ty), self.vector_for(inst.dst, copy, V[0]));
        let x = self.vector(a, copy, V[1]);
        let to = if inst.mask == Value::NONE { d } else { V[0] };
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
        if inst.mask != Value::NONE {
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
                // The products of the halves that reach the lower 64 bits.
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
                // The sign comes to its bit, from where a subtraction extends it.
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

    /// A conversion that AVX2 does not have; returns false if it has. Overwrites the scratch vectors but `V[1]`.
    pub(super) fn convert_avx2(&mut self, (from, to): (Elem, Elem), d: Vreg, x: Vreg) -> bool {
        use Elem::*;
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

    /// `d` = the lower 16 bits of 4-byte lanes, in 16-bit lanes; with AVX2 those bits of them that are in `low`. There, `d` is not
    /// `V[3]`, which is overwritten.
    pub(super) fn pack_words(&mut self, d: Vreg, x: Vreg, low: u64) {
        let len = self.len(Ty::V32);
        if self.evex() {
            return self.asm.narrow(Narrow::DW, len, d, x, Masking::None);
        }
        // Packing saturates.
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

    /// `d` = the doubles of as many 4-byte integers.
    pub(super) fn doubles_of(&mut self, elem: Elem, d: Vreg, x: Vreg) {
        let long = self.long();
        if elem == Elem::I32 || self.evex() {
            let op = if elem == Elem::I32 { V2::CvtDqPd } else { V2::CvtUdqPd };
            return self.asm.v2(op, long, d, x, Masking::None);
        }
        let (sign, back) = (self.all(false, 1 << 31), self.all(true, f64::from(TWO_31).to_bits()));
        self.asm.v3(V3::Xor, Len::L128, d, x, sign, Masking::None);
        self.asm.v2(V2::CvtDqPd, long, d, d, Masking::None);
        self.asm.v3(V3::AddPd, long, d, d, back, Masking::None);
    }

    /// `d` = the 4-byte integers of its doubles, which are in their range, rounded toward zero.
    pub(super) fn truncated(&mut self, elem: Elem, d: Vreg, scratch: Vreg) {
        let long = self.long();
        if elem == Elem::I32 || self.evex() {
            let op = if elem == Elem::I32 { V2::CvttPdDq } else { V2::CvttPdUdq };
            return self.asm.v2(op, long, d, d, Masking::None);
        }
        // The mantissa of the sum with 2^52 is the integer.
        let shift = self.all(true, TWO_52.to_bits());
        self.asm.v2i(V2i::RoundPd, long, d, d, 3 | 8, Masking::None);
        self.asm.v3(V3::AddPd, long, d, d, shift, Masking::None);
        self.asm.extract128(scratch, d, 1);
        self.asm.v3i(V3i::ShufPs, Len::L128, d, d, scratch, 0x88, Masking::None);
    }

    /// The upper and the lower 16 bits are mantissas of numbers of their magnitude, whose sum is rounded once.
    fn unsigned_to_float(&mut self, d: Vreg, x: Vreg) {
        let len = self.len(Ty::V32);
        let (low, unit) = (self.all(false, 0xffff), self.all(false, 0x4b00_0000));
        self.asm.v3(V3::And, len, V[2], x, low, Masking::None);
        self.asm.v3(V3::Or, len, V[2], V[2], unit, Masking::None);
        let (unit, both) = (self.all(false, 0x5300_0000), self.all(false, 0x5300_0080));
        self.asm.v2i(V2i::ShrD, len, V[3], x, 16, Masking::None);
        self.asm.v3(V3::Or, len, V[3], V[3], unit, Masking::None);
        self.asm.v3(V3::SubPs, len, V[3], V[3], both, Masking::None);
        self.asm.v3(V3::AddPs, len, d, V[3], V[2], Masking::None);
    }

    /// As above, with halves of 32 bits, of which the upper one has a sign.
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

    /// Too large is the largest, no number is 0; too small is what the hardware answers, which is what it also answers to the others.
    fn float_to_int(&mut self, from: Elem, d: Vreg, x: Vreg) {
        let (wide, len) = (from == Elem::F64, self.len(from.vector()));
        let limit = self.all(wide, if wide { f64::from(TWO_31).to_bits() } else { TWO_31.to_bits().into() });
        self.asm.cmp_vex(wide, len, V[3], x, limit, 29);
        self.asm.cmp_vex(wide, len, V[4], x, x, 7);
        if wide {
            self.narrow_mask(V[3], V[3]);
            self.narrow_mask(V[4], V[4]);
        }
        self.asm.v2(if wide { V2::CvttPdDq } else { V2::CvttPsDq }, len, V[2], x, Masking::None);
        let len = self.len(Ty::V32);
        self.asm.v3(V3::Xor, len, V[2], V[2], V[3], Masking::None);
        self.asm.v3(V3::And, len, d, V[2], V[4], Masking::None);
    }

    /// Too large is all ones; what is negative or no number is 0.
    fn float_to_unsigned(&mut self, d: Vreg, x: Vreg) {
        let len = self.len(Ty::V32);
        let (half, end, zero) = (self.float(TWO_31), self.float(TWO_32), self.all(false, 0));
        // From 2^31 on, it is subtracted from the number and its bit is set again.
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
