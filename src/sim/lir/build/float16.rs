//! Builds operations on `f16` and `bf16`. A lane holds the 16 bits. Each operation computes in `f32` and rounds the
//! result, as `clk_scalar` specifies.
//!
//! Input: operations on 16-bit floats. Output: operations on `f32`, with conversions around them. `f16` conversions are
//! instructions; `bf16` conversions are integer arithmetic on the bits.

use super::affine_form::LaneAffine;
use super::*;
use clk_ir::def::BinOp;
use clk_scalar::ops::UnaryOp;

pub(super) fn is_half(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16 | Scalar::Bf16)
}

const SIGN: u64 = 0x8000;

impl RegionBuilder<'_> {
    fn bits(&mut self, bin: LaneBinOp, a: LaneValue, constant: u64) -> LaneValue {
        let constant = self.splat(false, constant);
        self.pure(LaneOp::Vector(bin, LaneElem::U32), LaneTy::V32, &[a, constant])
    }

    /// Converts the value to `f32`.
    fn half_to_f32(&mut self, scalar: Scalar, lane: &ComponentValue) -> ComponentValue {
        let bits = self.vector(lane, scalar);
        ComponentValue::Vector(match scalar {
            Scalar::F16 => self.pure(LaneOp::FromHalf, LaneTy::V32, &[bits]),
            _ => self.bits(LaneBinOp::Shl, bits, 16),
        })
    }

    /// Rounds a vector of `f32` to a 16-bit float type, ties to even. Returns a value that is not a vector unchanged.
    fn round_to_half(&mut self, scalar: Scalar, lane: ComponentValue) -> ComponentValue {
        let ComponentValue::Vector(x) = lane else { return lane };
        ComponentValue::Vector(match scalar {
            Scalar::F16 => self.pure(LaneOp::ToHalf, LaneTy::V32, &[x]),
            _ => {
                let upper = self.bits(LaneBinOp::Shr, x, 16);
                let last = self.bits(LaneBinOp::And, upper, 1);
                let bias = self.bits(LaneBinOp::Add, last, 0x7fff);
                let sum = self.pure(LaneOp::Vector(LaneBinOp::Add, LaneElem::U32), LaneTy::V32, &[x, bias]);
                let number = self.bits(LaneBinOp::Shr, sum, 16);
                let quiet = self.bits(LaneBinOp::Or, upper, 0x40);
                let nan = self.result(LaneOp::Compare(LaneComparison::Ne, LaneElem::F32), LaneTy::Mask, &[x, x]);
                self.result(LaneOp::Select, LaneTy::V32, &[nan, quiet, number])
            }
        })
    }

    /// Rounds an `f32` to TF32, as `clk_scalar` does.
    pub(super) fn rounded_to_tf32(&mut self, x: LaneValue) -> LaneValue {
        let shifted = self.bits(LaneBinOp::Shr, x, 13);
        let last = self.bits(LaneBinOp::And, shifted, 1);
        let bias = self.bits(LaneBinOp::Add, last, 0xfff);
        let number = self.pure(LaneOp::Vector(LaneBinOp::Add, LaneElem::U32), LaneTy::V32, &[x, bias]);
        let quiet = self.bits(LaneBinOp::Or, x, 0x40_0000);
        let nan = self.result(LaneOp::Compare(LaneComparison::Ne, LaneElem::F32), LaneTy::Mask, &[x, x]);
        let selected = self.result(LaneOp::Select, LaneTy::V32, &[nan, quiet, number]);
        self.bits(LaneBinOp::And, selected, 0xffff_e000)
    }

    pub(super) fn half_unary(&mut self, op: UnaryOp, scalar: Scalar, a: &ComponentValue) -> Option<ComponentValue> {
        let a = self.vector(a, scalar);
        (op == UnaryOp::Neg).then(|| ComponentValue::Vector(self.bits(LaneBinOp::Xor, a, SIGN)))
    }

    pub(super) fn half_binary(
        &mut self,
        op: BinOp,
        scalar: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        let (a, b) = (self.half_to_f32(scalar, a), self.half_to_f32(scalar, b));
        let result = self.binary(op, Scalar::F32, Scalar::F32, &a, &b)?;
        Some(self.round_to_half(scalar, result))
    }

    pub(super) fn half_math(
        &mut self,
        function: MathFn,
        scalar: Scalar,
        lanes: &[ComponentValue],
    ) -> Option<ComponentValue> {
        match (function, lanes) {
            // A 16-bit FMA rounds only once. Computing it in `f32` would round twice.
            (MathFn::Fma, _) => None,
            (MathFn::Abs, [a]) => {
                let a = self.vector(a, scalar);
                Some(ComponentValue::Vector(self.bits(LaneBinOp::And, a, SIGN - 1)))
            }
            _ => {
                let lanes: Vec<ComponentValue> = lanes.iter().map(|lane| self.half_to_f32(scalar, lane)).collect();
                let result = self.math(function, Scalar::F32, &lanes)?;
                Some(self.round_to_half(scalar, result))
            }
        }
    }

    /// Converts from or to a 16-bit float.
    pub(super) fn half_convert(&mut self, from: Scalar, to: Scalar, a: &ComponentValue) -> Option<ComponentValue> {
        if is_half(from) {
            if to == Scalar::Bool {
                let bits = self.vector(a, from);
                let (bits, zero) = (self.bits(LaneBinOp::And, bits, SIGN - 1), self.splat(false, 0));
                return Some(ComponentValue::Mask(self.result(
                    LaneOp::Compare(LaneComparison::Ne, LaneElem::U32),
                    LaneTy::Mask,
                    &[bits, zero],
                )));
            }
            let float = self.half_to_f32(from, a);
            return self.convert(Scalar::F32, to, &float);
        }
        let float = match (from, to) {
            (Scalar::Bool, _) => {
                let mask = self.mask_of(a)?;
                let one = if to == Scalar::F16 { 0x3c00 } else { 0x3f80 };
                let (one, zero) = (self.splat(false, one), self.splat(false, 0));
                return Some(ComponentValue::Vector(self.result(LaneOp::Select, LaneTy::V32, &[mask, one, zero])));
            }
            (Scalar::F32, _) => ComponentValue::Vector(self.vector(a, from)),
            (Scalar::I32 | Scalar::U32, Scalar::Bf16) => {
                let odd = self.round_to_odd(from, a);
                self.convert(from, Scalar::F32, &odd)?
            }
            // Conversion through `f32` is correct: an integer that `f32` cannot represent exactly becomes infinite as
            // an `f16` anyway.
            (Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 | Scalar::I32 | Scalar::U32, _) => {
                self.convert(from, Scalar::F32, a)?
            }
            _ => return None,
        };
        Some(self.round_to_half(to, float))
    }

    /// Returns an integer that rounds to the same `bf16` and that `f32` represents exactly. For large integers, the low
    /// bits are merged into one sticky bit (round to odd).
    fn round_to_odd(&mut self, scalar: Scalar, a: &ComponentValue) -> ComponentValue {
        let x = self.vector(a, scalar);
        let (most, below) = if scalar == Scalar::I32 { (1 << 25, 1 << 24) } else { (1 << 24, 0) };
        let (shifted, most) = (self.bits(LaneBinOp::Add, x, below), self.splat(false, most));
        let is_exact = self.result(LaneOp::Compare(LaneComparison::Le, LaneElem::U32), LaneTy::Mask, &[shifted, most]);
        let (high, low) = (self.bits(LaneBinOp::And, x, 0xffff_ff00), self.bits(LaneBinOp::And, x, 0xff));
        let low = self.bits(LaneBinOp::Add, low, 0xff);
        let joined = self.bits(LaneBinOp::And, low, 0x100);
        let odd = self.pure(LaneOp::Vector(LaneBinOp::Or, LaneElem::U32), LaneTy::V32, &[high, joined]);
        ComponentValue::Vector(self.result(LaneOp::Select, LaneTy::V32, &[is_exact, x, odd]))
    }

    /// Reinterprets the bits of a 16-bit value as another 16-bit type.
    pub(super) fn half_bitcast(&mut self, to: Scalar, a: &ComponentValue, from: Scalar) -> ComponentValue {
        let value = match a {
            ComponentValue::Bits(bits) => return self.constant_lane(to, *bits & 0xffff),
            ComponentValue::Affine(form) => self.linear_vector(&LaneAffine::clone(form)),
            lane => self.vector(lane, from),
        };
        ComponentValue::Vector(self.bits(LaneBinOp::And, value, 0xffff))
    }
}
