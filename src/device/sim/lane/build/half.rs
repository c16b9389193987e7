//! `f16` and `bf16`: lanes hold their bits, and each operation computes in `f32` and rounds, as `lang::scalar` says.
//!
//! Input: operations on floats of 16 bits. Output: those on `f32`, with conversions around them. Those of `f16` are instructions; those
//! of `bf16` are arithmetic on bits.

use super::form::Linear;
use super::*;
use crate::ir::def::BinOp;
use crate::lang::ops::UnaryOp;

pub(super) fn is_half(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16 | Scalar::Bf16)
}

const SIGN: u64 = 0x8000;

impl Builder<'_> {
    fn bits(&mut self, bin: Bin, a: Value, constant: u64) -> Value {
        let constant = self.splat(false, constant);
        self.pure(Op::Vector(bin, Elem::U32), Ty::V32, &[a, constant])
    }

    /// Returns the value as an `f32`.
    fn widened(&mut self, scalar: Scalar, lane: &Lane) -> Lane {
        let bits = self.vector(lane, scalar);
        Lane::Vector(match scalar {
            Scalar::F16 => self.pure(Op::FromHalf, Ty::V32, &[bits]),
            _ => self.bits(Bin::Shl, bits, 16),
        })
    }

    /// Returns an `f32` rounded to nearest even. (What is no float stays as it is.)
    fn rounded(&mut self, scalar: Scalar, lane: Lane) -> Lane {
        let Lane::Vector(x) = lane else { return lane };
        Lane::Vector(match scalar {
            Scalar::F16 => self.pure(Op::ToHalf, Ty::V32, &[x]),
            _ => {
                let upper = self.bits(Bin::Shr, x, 16);
                let last = self.bits(Bin::And, upper, 1);
                let bias = self.bits(Bin::Add, last, 0x7fff);
                let sum = self.pure(Op::Vector(Bin::Add, Elem::U32), Ty::V32, &[x, bias]);
                let number = self.bits(Bin::Shr, sum, 16);
                let quiet = self.bits(Bin::Or, upper, 0x40);
                let nan = self.result(Op::Compare(Rel::Ne, Elem::F32), Ty::Mask, &[x, x]);
                self.result(Op::Select, Ty::V32, &[nan, quiet, number])
            }
        })
    }

    /// Returns an `f32` rounded to the grid of tf32, as `lang::scalar` does.
    pub(super) fn rounded_to_tf32(&mut self, x: Value) -> Value {
        let shifted = self.bits(Bin::Shr, x, 13);
        let last = self.bits(Bin::And, shifted, 1);
        let bias = self.bits(Bin::Add, last, 0xfff);
        let number = self.pure(Op::Vector(Bin::Add, Elem::U32), Ty::V32, &[x, bias]);
        let quiet = self.bits(Bin::Or, x, 0x40_0000);
        let nan = self.result(Op::Compare(Rel::Ne, Elem::F32), Ty::Mask, &[x, x]);
        let found = self.result(Op::Select, Ty::V32, &[nan, quiet, number]);
        self.bits(Bin::And, found, 0xffff_e000)
    }

    pub(super) fn half_unary(&mut self, op: UnaryOp, scalar: Scalar, a: &Lane) -> Option<Lane> {
        let a = self.vector(a, scalar);
        (op == UnaryOp::Neg).then(|| Lane::Vector(self.bits(Bin::Xor, a, SIGN)))
    }

    pub(super) fn half_binary(&mut self, op: BinOp, scalar: Scalar, a: &Lane, b: &Lane) -> Option<Lane> {
        let (a, b) = (self.widened(scalar, a), self.widened(scalar, b));
        let result = self.binary(op, (Scalar::F32, Scalar::F32), &a, &b)?;
        Some(self.rounded(scalar, result))
    }

    pub(super) fn half_math(&mut self, function: MathFn, scalar: Scalar, lanes: &[Lane]) -> Option<Lane> {
        match (function, lanes) {
            // Rounded once, to 16 bits: not by way of `f32`.
            (MathFn::Fma, _) => None,
            (MathFn::Abs, [a]) => {
                let a = self.vector(a, scalar);
                Some(Lane::Vector(self.bits(Bin::And, a, SIGN - 1)))
            }
            _ => {
                let lanes: Vec<Lane> = lanes.iter().map(|lane| self.widened(scalar, lane)).collect();
                let result = self.math(function, Scalar::F32, &lanes)?;
                Some(self.rounded(scalar, result))
            }
        }
    }

    /// Converts from or to a float of 16 bits.
    pub(super) fn half_convert(&mut self, from: Scalar, to: Scalar, a: &Lane) -> Option<Lane> {
        if is_half(from) {
            if to == Scalar::Bool {
                let bits = self.vector(a, from);
                let (bits, zero) = (self.bits(Bin::And, bits, SIGN - 1), self.splat(false, 0));
                return Some(Lane::Mask(self.result(Op::Compare(Rel::Ne, Elem::U32), Ty::Mask, &[bits, zero])));
            }
            let float = self.widened(from, a);
            return self.convert(Scalar::F32, to, &float);
        }
        let float = match (from, to) {
            (Scalar::Bool, _) => {
                let mask = self.mask_of(a)?;
                let one = if to == Scalar::F16 { 0x3c00 } else { 0x3f80 };
                let (one, zero) = (self.splat(false, one), self.splat(false, 0));
                return Some(Lane::Vector(self.result(Op::Select, Ty::V32, &[mask, one, zero])));
            }
            (Scalar::F32, _) => Lane::Vector(self.vector(a, from)),
            (Scalar::I32 | Scalar::U32, Scalar::Bf16) => {
                let odd = self.odd(from, a);
                self.convert(from, Scalar::F32, &odd)?
            }
            // What an `f32` does not hold is infinite as an `f16`.
            (Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 | Scalar::I32 | Scalar::U32, _) => {
                self.convert(from, Scalar::F32, a)?
            }
            _ => return None,
        };
        Some(self.rounded(to, float))
    }

    /// Returns an integer that an `f32` holds, and that rounds to the same `bf16`: of large ones, the last bits are joined to one.
    fn odd(&mut self, scalar: Scalar, a: &Lane) -> Lane {
        let x = self.vector(a, scalar);
        let (most, below) = if scalar == Scalar::I32 { (1 << 25, 1 << 24) } else { (1 << 24, 0) };
        let (shifted, most) = (self.bits(Bin::Add, x, below), self.splat(false, most));
        let held = self.result(Op::Compare(Rel::Le, Elem::U32), Ty::Mask, &[shifted, most]);
        let (high, low) = (self.bits(Bin::And, x, 0xffff_ff00), self.bits(Bin::And, x, 0xff));
        let low = self.bits(Bin::Add, low, 0xff);
        let joined = self.bits(Bin::And, low, 0x100);
        let odd = self.pure(Op::Vector(Bin::Or, Elem::U32), Ty::V32, &[high, joined]);
        Lane::Vector(self.result(Op::Select, Ty::V32, &[held, x, odd]))
    }

    /// Returns the bits of a 16-bit type as another.
    pub(super) fn half_bitcast(&mut self, to: Scalar, a: &Lane, from: Scalar) -> Lane {
        let value = match a {
            Lane::Bits(bits) => return self.constant_lane(to, *bits & 0xffff),
            Lane::Linear(form) => self.linear_vector(&Linear::clone(form)),
            lane => self.vector(lane, from),
        };
        Lane::Vector(self.bits(Bin::And, value, 0xffff))
    }
}
