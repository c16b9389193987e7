//! Emits inline code for `f32` exponentials and logarithms with AVX-512. A call would have to save all live registers.
//!
//! Input: vectors of 4-byte lanes. Output: the `f64` operations of `clk_scalar::math32`, in the same order and with
//! the same constants, for one half of a vector at a time. Other functions, and all functions with AVX2, are called.

use super::*;
use crate::jit::frame::CALL;
use clk_scalar::math32::{EXPM1, LN_2, LN_2_HIGH, LN_2_LOW, LOG, LOG2_E, MAX_EXPONENT, ROUNDER, SQRT_HALF};
use clk_scalar::ops::MathFn;

impl RegionEmitter<'_> {
    /// Emits inline code for a function of each vector. Returns false if the function must be called instead.
    pub(super) fn exponential(&mut self, function: MathFn, inst: &LaneInst) -> bool {
        use MathFn::{Exp, Exp2, Exp10, Log, Log2, Log10};
        if !self.evex() || !matches!(function, Exp | Exp2 | Exp10 | Log | Log2 | Log10) {
            return false;
        }
        let half = if self.has_halves() { Len::L256 } else { self.len(LaneTy::V32) };
        for copy in 0..self.copies(inst.dst) {
            if self.has_halves() {
                let x = self.vector(inst.args[0], copy, V[0]);
                self.upper_half(V[0], x);
                self.exponential_of_half(function, V[0]);
                self.asm.vstore(false, half, Self::slot(CALL), V[0], None);
            }
            let x = self.vector(inst.args[0], copy, V[0]);
            self.exponential_of_half(function, x);
            if self.has_halves() {
                self.asm.v2(V2::Move, half, V[1], Self::slot(CALL), Masking::None);
                self.join_halves(V[0], V[0], V[1]);
            }
            self.put_vector(inst.dst, copy, V[0]);
        }
        true
    }

    /// Sets `V[0]` to the values of the function for the lower half of `x`.
    fn exponential_of_half(&mut self, function: MathFn, x: Vreg) {
        let len = self.long();
        self.asm.v2(V2::CvtPsPd, len, V[0], x, Masking::None);
        match function {
            MathFn::Exp => self.power_of_e(len),
            MathFn::Exp10 => {
                self.with(V3::MulPd, V[0], std::f64::consts::LN_10);
                self.power_of_e(len);
            }
            MathFn::Exp2 => self.power_of_two(len),
            _ => self.logarithm(function, len),
        }
        self.asm.v2(V2::CvtPdPs, len, V[0], V[0], Masking::None);
    }

    /// Computes `d = op(d, value)`.
    fn with(&mut self, op: V3, d: Vreg, value: f64) {
        self.with_bits(op, d, value.to_bits());
    }

    fn with_bits(&mut self, op: V3, d: Vreg, bits: u64) {
        let value = self.all(true, bits);
        self.asm.v3(op, self.long(), d, d, value, Masking::None);
    }

    /// Computes `d = op(a, b)`.
    fn of(&mut self, op: V3, d: Vreg, a: Vreg, b: Vreg) {
        self.asm.v3(op, self.long(), d, a, b, Masking::None);
    }

    fn fill(&mut self, d: Vreg, value: f64, within: Masking) {
        let value = self.element(true, value.to_bits());
        self.asm.v2(V2::BroadcastSd, self.long(), d, value, within);
    }

    /// Computes `V[0] = limited(V[0])`. The hardware's minimum and maximum return the second operand if either operand
    /// is a NaN.
    fn limit(&mut self) {
        self.fill(V[1], MAX_EXPONENT, Masking::None);
        self.of(V3::MinPd, V[0], V[1], V[0]);
        self.fill(V[1], -MAX_EXPONENT, Masking::None);
        self.of(V3::MaxPd, V[0], V[1], V[0]);
    }

    /// Computes `V[0] = exp64(V[0])`.
    fn power_of_e(&mut self, len: Len) {
        self.limit();
        let factor = self.all(true, LOG2_E.to_bits());
        self.asm.v3(V3::MulPd, len, V[1], V[0], factor, Masking::None);
        self.with(V3::AddPd, V[1], ROUNDER);
        let rounder = self.all(true, ROUNDER.to_bits());
        self.asm.v3(V3::SubPd, len, V[2], V[1], rounder, Masking::None);
        for part in [LN_2_HIGH, LN_2_LOW] {
            let part = self.all(true, part.to_bits());
            self.asm.v3(V3::MulPd, len, V[3], V[2], part, Masking::None);
            self.of(V3::SubPd, V[0], V[0], V[3]);
        }
        self.scaled();
    }

    /// Computes `V[0] = exp2_64(V[0])`.
    fn power_of_two(&mut self, len: Len) {
        self.limit();
        let rounder = self.all(true, ROUNDER.to_bits());
        self.asm.v3(V3::AddPd, len, V[1], V[0], rounder, Masking::None);
        self.asm.v3(V3::SubPd, len, V[2], V[1], rounder, Masking::None);
        self.of(V3::SubPd, V[0], V[0], V[2]);
        self.with(V3::MulPd, V[0], LN_2);
        self.scaled();
    }

    /// Computes `V[0] = s + s * expm1_core(V[0])`, where `s` is a power of two whose exponent is in the low bits of
    /// `V[1]`.
    fn scaled(&mut self) {
        self.terms(V[2], V[0], &EXPM1);
        self.of(V3::MulPd, V[2], V[0], V[2]);
        self.asm.v2i(V2i::ShlQ, self.long(), V[1], V[1], 52, Masking::None);
        self.with_bits(V3::AddQ, V[1], 1f64.to_bits());
        self.of(V3::MulPd, V[2], V[1], V[2]);
        self.of(V3::AddPd, V[0], V[1], V[2]);
    }

    /// Sets `d` to the polynomial of `x` with these coefficients.
    fn terms(&mut self, d: Vreg, x: Vreg, coefficients: &[f64]) {
        for (number, &coefficient) in coefficients.iter().rev().enumerate() {
            if number == 0 {
                self.fill(d, coefficient, Masking::None);
            } else {
                self.of(V3::MulPd, d, d, x);
                self.with(V3::AddPd, d, coefficient);
            }
        }
    }

    /// Sets `V[0]` to the logarithm of `V[0]`.
    fn logarithm(&mut self, function: MathFn, len: Len) {
        let bits = self.all(true, 1f64.to_bits().wrapping_sub(SQRT_HALF));
        self.asm.v3(V3::AddQ, len, V[1], V[0], bits, Masking::None);
        self.asm.v2i(V2i::ShrQ, len, V[1], V[1], 52, Masking::None);
        let exponent = self.all(true, 0x4330_0000_0000_0000);
        self.asm.v3(V3::OrQ, len, V[2], V[1], exponent, Masking::None);
        self.with(V3::SubPd, V[2], 4503599627370496.0 + 1023.0);
        self.with_bits(V3::SubQ, V[1], 1023);
        self.asm.v2i(V2i::ShlQ, len, V[1], V[1], 52, Masking::None);
        self.of(V3::SubQ, V[1], V[0], V[1]);
        // The exponent is in `V[2]` and the mantissa in `V[1]`.
        let one = self.all(true, 1f64.to_bits());
        self.asm.v3(V3::SubPd, len, V[3], V[1], one, Masking::None);
        self.with(V3::AddPd, V[1], 1.0);
        self.of(V3::DivPd, V[3], V[3], V[1]);
        self.of(V3::MulPd, V[1], V[3], V[3]);
        self.terms(V[4], V[1], &LOG);
        self.of(V3::MulPd, V[3], V[3], V[4]);
        match function {
            MathFn::Log => self.with(V3::MulPd, V[2], LN_2),
            MathFn::Log2 => self.with(V3::MulPd, V[3], LOG2_E),
            _ => {
                self.with(V3::MulPd, V[2], std::f64::consts::LOG10_2);
                self.with(V3::MulPd, V[3], std::f64::consts::LOG10_E);
            }
        }
        self.of(V3::AddPd, V[2], V[2], V[3]);
        // The logarithm of infinity or NaN is the operand itself; of zero, -infinity; of a negative number, NaN.
        for (limit, predicate, value) in
            [(f64::INFINITY, 21, None), (0.0, 0, Some(f64::NEG_INFINITY)), (0.0, 17, Some(f64::NAN))]
        {
            let limit = self.all(true, limit.to_bits());
            self.asm.cmp(Cmp::Pd, len, K7.k(), V[0], limit, predicate, None);
            match value {
                Some(value) => self.fill(V[2], value, Masking::Merge(K7.k())),
                None => self.asm.v2(V2::MovePd, len, V[2], V[0], Masking::Merge(K7.k())),
            }
        }
        self.asm.v2(V2::Move, len, V[0], V[2], Masking::None);
    }
}
