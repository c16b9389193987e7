//! Emulates a step of a tensor core, the sum of an accumulator and a group of products, with ordinary arithmetic.
//!
//! Input: an `f32` accumulator and a group of pairs of `f16` or `bf16` factors, or half as many pairs of `f32` factors
//! that are rounded to `tf32`. Output: the `f32` result of the MMA instruction. The products are exact in `f64`. All
//! terms are truncated to a common grid: multiples of a power of two that is a fixed number of bits below the largest
//! exponent. Therefore their sum is exact too. The [`TensorCoreModel`] determines the number of terms and bits.

use super::context::BodyLowering;
use clk_base::source::Span;
use clk_ir::def::{BinOp, ExprId, ExprKind, MmaPrecision, Scalar, Ty};
use clk_scalar::ScalarValue;
use clk_scalar::ops::MathFn;
use clk_scalar::tensor_core_model::TensorCoreModel;

/// A number of products that is a whole number of groups for all models of tensor cores.
pub(super) const GROUP: u32 = clk_ir::tiles::TERM_GROUP;

/// The exponent that represents zero. It is less than the exponent of any product.
const NONE: i32 = -1000;
/// A lower bound for the largest exponent. It is used if all terms are zero.
const LEAST: i32 = -300;

/// The arithmetic of a matrix product.
#[derive(Clone, Copy, Debug)]
pub(super) enum MmaFormat {
    /// The arithmetic of a model of tensor cores, for operands of a float type with these bit fields.
    TensorCore(FloatFields, TensorCoreModel),
    /// Adds the terms in order, in `f32`.
    Rounded,
    /// Adds the terms in order, in `f64`.
    Exact,
}

/// The bit fields of an operand's or the accumulator's float type: the number of fraction and exponent bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatFields {
    fraction: u32,
    exponent: u32,
    bits: Scalar,
}

const SINGLE: FloatFields = FloatFields { fraction: 23, exponent: 8, bits: Scalar::U32 };

impl MmaFormat {
    /// Returns the arithmetic for operands of a 16-bit float type; `None` for other types.
    pub fn of(scalar: Scalar, sums: MmaPrecision) -> Option<MmaFormat> {
        let fields = match scalar {
            Scalar::F16 => FloatFields { fraction: 10, exponent: 5, bits: Scalar::U16 },
            Scalar::Bf16 => FloatFields { fraction: 7, exponent: 8, bits: Scalar::U16 },
            _ => return None,
        };
        Some(MmaFormat::adding(fields, sums))
    }

    /// Returns the arithmetic for `f32` operands that are rounded to `tf32`. Their last 13 bits are zero, so their
    /// products are exact.
    pub fn tf32(sums: MmaPrecision) -> MmaFormat {
        MmaFormat::adding(SINGLE, sums)
    }

    fn adding(fields: FloatFields, sums: MmaPrecision) -> MmaFormat {
        match sums {
            MmaPrecision::TensorCore(cores) => MmaFormat::TensorCore(fields, cores),
            MmaPrecision::Sequential => MmaFormat::Rounded,
        }
    }

    /// Returns the number of products in a step.
    pub fn group(self) -> u32 {
        match self {
            MmaFormat::TensorCore(fields, cores) => cores.group(fields.bits.size()),
            // The products are added one by one, so the result does not depend on the size of the groups.
            MmaFormat::Rounded | MmaFormat::Exact => GROUP,
        }
    }

    /// Returns the precision that DeviceIR records for the product.
    pub fn sums(self) -> MmaPrecision {
        match self {
            MmaFormat::TensorCore(_, cores) => MmaPrecision::TensorCore(cores),
            MmaFormat::Rounded | MmaFormat::Exact => MmaPrecision::Sequential,
        }
    }
}

/// Returns whether tensor cores multiply operands of this type without rounding them.
pub(super) fn is_narrow_factor(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16 | Scalar::Bf16)
}

impl BodyLowering<'_, '_> {
    /// Computes the sum of `before`, the accumulator, and the products.
    pub(super) fn tensor_step(
        &mut self,
        format: MmaFormat,
        before: ExprId,
        terms: &[(ExprId, ExprId)],
        span: Span,
    ) -> ExprId {
        match format {
            MmaFormat::TensorCore(fields, cores) => self.truncated_step(fields, cores.kept_bits(), before, terms, span),
            MmaFormat::Rounded => terms.iter().fold(before, |sum, &(a, b)| {
                let (a, b) = (self.out.convert(a, Scalar::F32, span), self.out.convert(b, Scalar::F32, span));
                self.math(MathFn::Fma, &[a, b, sum], span)
            }),
            MmaFormat::Exact => terms.iter().fold(before, |sum, &(a, b)| self.math(MathFn::Fma, &[a, b, sum], span)),
        }
    }

    /// Like `tensor_step`, for the arithmetic of tensor cores. The operands have these bit fields, and terms are
    /// truncated `kept_bits` bits below the largest exponent.
    fn truncated_step(
        &mut self,
        fields: FloatFields,
        kept_bits: i32,
        before: ExprId,
        terms: &[(ExprId, ExprId)],
        span: Span,
    ) -> ExprId {
        let mut largest = self.exponent_of(SINGLE, before, span);
        let least = self.out.i32(LEAST, span);
        largest = self.math(MathFn::Max, &[largest, least], span);
        for &(a, b) in terms {
            let (a, b) = (self.exponent_of(fields, a, span), self.exponent_of(fields, b, span));
            let sum = self.out.binary(BinOp::Add, a, b, span);
            largest = self.math(MathFn::Max, &[largest, sum], span);
        }
        let up = self.power(largest, -1, kept_bits, span);
        let mut sum = self.truncate_to_grid(before, up, span);
        for &(a, b) in terms {
            let (a, b) = (self.out.convert(a, Scalar::F64, span), self.out.convert(b, Scalar::F64, span));
            let product = self.out.binary(BinOp::Mul, a, b, span);
            let part = self.truncate_to_grid(product, up, span);
            sum = self.out.binary(BinOp::Add, sum, part, span);
        }
        // Adding positive zero turns a sum of negative zeros into a positive zero.
        let zero = self.out.zero(Ty::Scalar(Scalar::F64), span);
        let sum = self.out.binary(BinOp::Add, sum, zero, span);
        let down = self.power(largest, 1, -kept_bits, span);
        let exact = self.out.binary(BinOp::Mul, sum, down, span);
        self.toward_zero(exact, span)
    }

    /// Returns the exponent of a float. A subnormal number has the exponent of the smallest normal one.
    fn exponent_of(&mut self, format: FloatFields, value: ExprId, span: Span) -> ExprId {
        let bits = self.out.value(ExprKind::Bitcast(value), Ty::Scalar(format.bits), span);
        let bits = self.out.convert(bits, Scalar::U32, span);
        let number = |this: &mut Self, n: u32| this.out.constant(ScalarValue::of(n), span);
        let (by, mask) = (number(self, format.fraction), number(self, (1 << format.exponent) - 1));
        let shifted = self.out.binary(BinOp::Shr, bits, by, span);
        let field = self.out.binary(BinOp::And, shifted, mask, span);
        let field = self.out.convert(field, Scalar::I32, span);
        let one = self.out.i32(1, span);
        let field = self.math(MathFn::Max, &[field, one], span);
        let bias = self.out.i32((1 << (format.exponent - 1)) - 1, span);
        let exponent = self.out.binary(BinOp::Sub, field, bias, span);
        let without_sign = number(self, (1 << (format.fraction + format.exponent)) - 1);
        let magnitude = self.out.binary(BinOp::And, bits, without_sign, span);
        let zero = number(self, 0);
        let is_zero = self.out.binary(BinOp::Eq, magnitude, zero, span);
        let none = self.out.i32(NONE, span);
        let kind = ExprKind::Select { cond: is_zero, then: none, other: exponent };
        self.out.value(kind, Ty::Scalar(Scalar::I32), span)
    }

    /// Computes 2 to the power of `sign * exponent + by`, as an `f64`.
    fn power(&mut self, exponent: ExprId, sign: i32, by: i32, span: Span) -> ExprId {
        let offset = self.out.i32(by + 1023, span);
        let op = if sign < 0 { BinOp::Sub } else { BinOp::Add };
        let field = self.out.binary(op, offset, exponent, span);
        let field = self.out.convert(field, Scalar::I64, span);
        let by = self.out.constant(ScalarValue::of(52_i64), span);
        let bits = self.out.binary(BinOp::Shl, field, by, span);
        self.out.value(ExprKind::Bitcast(bits), Ty::Scalar(Scalar::F64), span)
    }

    /// Multiplies a number by `up`, the reciprocal of the grid's spacing, and truncates the product to an integer.
    fn truncate_to_grid(&mut self, value: ExprId, up: ExprId, span: Span) -> ExprId {
        let value = self.out.convert(value, Scalar::F64, span);
        let scaled = self.out.binary(BinOp::Mul, value, up, span);
        self.math(MathFn::Trunc, &[scaled], span)
    }

    /// Rounds to `f32` toward zero. An overflow is rounded to infinity, and a NaN becomes the NaN that tensor cores
    /// return.
    fn toward_zero(&mut self, exact: ExprId, span: Span) -> ExprId {
        let near = self.out.convert(exact, Scalar::F32, span);
        let [size, reached] = [exact, near].map(|value| {
            let wide = self.out.convert(value, Scalar::F64, span);
            self.math(MathFn::Abs, &[wide], span)
        });
        let beyond = self.out.binary(BinOp::Gt, reached, size, span);
        let limit = self.out.constant(ScalarValue::of(2f64.powi(128)), span);
        let finite = self.out.binary(BinOp::Lt, size, limit, span);
        let over = self.out.binary(BinOp::And, beyond, finite, span);
        let bits = self.out.value(ExprKind::Bitcast(near), Ty::Scalar(Scalar::U32), span);
        let one = self.out.convert(over, Scalar::U32, span);
        let bits = self.out.binary(BinOp::Sub, bits, one, span);
        let nan = self.out.constant(ScalarValue::of(0x7fff_ffff_u32), span);
        let is_nan = self.math(MathFn::IsNan, &[exact], span);
        let kind = ExprKind::Select { cond: is_nan, then: nan, other: bits };
        let bits = self.out.value(kind, Ty::Scalar(Scalar::U32), span);
        self.out.value(ExprKind::Bitcast(bits), Ty::Scalar(Scalar::F32), span)
    }
}
