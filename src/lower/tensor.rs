//! What tensor cores compute, in ordinary arithmetic: the sum of a number and of a group of products.
//!
//! In: an `f32` and a group of pairs of `f16` or `bf16`, or half as many of `f32` that are rounded to tf32. Out: the `f32` that the
//! instructions of tensor cores give. Idea: products are exact in `f64`, and so are sums of numbers that were cut to a common grid; the
//! grid is so many bits below the largest exponent. The numbers of terms and bits are those of a model ([`Cores`]).

use super::unit::Body;
use crate::base::source::Span;
use crate::ir::def::{BinOp, ExprId, ExprKind, Scalar, Sums, Ty};
use crate::lang::cores::Cores;
use crate::lang::ops::MathFn;
use crate::lang::scalar::Value;

/// Parts of a sum with a multiple of so many terms are whole groups, whatever the model.
pub(super) const GROUP: u32 = 16;

/// Less than any exponent of a product; a zero has none.
const NONE: i32 = -1000;
/// The largest exponent where all are zero.
const LEAST: i32 = -300;

/// The arithmetic of a product.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    /// That of tensor cores, for factors with these fields.
    Cut(Fields, Cores),
    /// The terms are added as they come, in `f32`.
    Rounded,
    /// The terms are added as they come, in `f64`.
    Exact,
}

/// The fields of factors, or of the sum: bits of the fraction, and of the exponent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    fraction: u32,
    exponent: u32,
    bits: Scalar,
}

const SINGLE: Fields = Fields { fraction: 23, exponent: 8, bits: Scalar::U32 };

impl Format {
    /// Returns the arithmetic of factors of 16 bits.
    pub fn of(scalar: Scalar, sums: Sums) -> Option<Format> {
        let fields = match scalar {
            Scalar::F16 => Fields { fraction: 10, exponent: 5, bits: Scalar::U16 },
            Scalar::Bf16 => Fields { fraction: 7, exponent: 8, bits: Scalar::U16 },
            _ => return None,
        };
        Some(Format::adding(fields, sums))
    }

    /// Returns the arithmetic of factors of `f32` whose last 13 bits are zeros: what is exact of fewer bits is so of tf32's.
    pub fn tf32(sums: Sums) -> Format {
        Format::adding(SINGLE, sums)
    }

    fn adding(fields: Fields, sums: Sums) -> Format {
        match sums {
            Sums::Cut(cores) => Format::Cut(fields, cores),
            Sums::Rounded => Format::Rounded,
        }
    }

    /// Returns how many terms a step has.
    pub fn group(self) -> u32 {
        match self {
            Format::Cut(fields, cores) => cores.group(fields.bits.size()),
            // It does not matter.
            Format::Rounded | Format::Exact => GROUP,
        }
    }

    /// Returns how it adds.
    pub fn sums(self) -> Sums {
        match self {
            Format::Cut(_, cores) => Sums::Cut(cores),
            Format::Rounded | Format::Exact => Sums::Rounded,
        }
    }
}

/// Whether factors of this type are products' as they are.
pub(super) fn is_narrow_factor(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16 | Scalar::Bf16)
}

impl Body<'_, '_> {
    /// Returns the sum of `before` and the products of the terms.
    pub(super) fn tensor_step(
        &mut self,
        format: Format,
        before: ExprId,
        terms: &[(ExprId, ExprId)],
        span: Span,
    ) -> ExprId {
        match format {
            Format::Cut(fields, cores) => self.cut_step((fields, cores.kept()), before, terms, span),
            Format::Rounded => terms.iter().fold(before, |sum, &(a, b)| {
                let (a, b) = (self.out.convert(a, Scalar::F32, span), self.out.convert(b, Scalar::F32, span));
                self.math(MathFn::Fma, &[a, b, sum], span)
            }),
            Format::Exact => terms.iter().fold(before, |sum, &(a, b)| self.math(MathFn::Fma, &[a, b, sum], span)),
        }
    }

    /// As `tensor_step`, for factors with these fields, of which so many bits are kept.
    fn cut_step(
        &mut self,
        (format, kept): (Fields, i32),
        before: ExprId,
        terms: &[(ExprId, ExprId)],
        span: Span,
    ) -> ExprId {
        let mut largest = self.exponent_of(SINGLE, before, span);
        let least = self.out.i32(LEAST, span);
        largest = self.math(MathFn::Max, &[largest, least], span);
        for &(a, b) in terms {
            let (a, b) = (self.exponent_of(format, a, span), self.exponent_of(format, b, span));
            let sum = self.out.binary(BinOp::Add, a, b, span);
            largest = self.math(MathFn::Max, &[largest, sum], span);
        }
        let up = self.power(largest, -1, kept, span);
        let mut sum = self.cut(before, up, span);
        for &(a, b) in terms {
            let (a, b) = (self.out.convert(a, Scalar::F64, span), self.out.convert(b, Scalar::F64, span));
            let product = self.out.binary(BinOp::Mul, a, b, span);
            let part = self.cut(product, up, span);
            sum = self.out.binary(BinOp::Add, sum, part, span);
        }
        // A sum of negative zeros is positive.
        let zero = self.out.zero(Ty::Scalar(Scalar::F64), span);
        let sum = self.out.binary(BinOp::Add, sum, zero, span);
        let down = self.power(largest, 1, -kept, span);
        let exact = self.out.binary(BinOp::Mul, sum, down, span);
        self.toward_zero(exact, span)
    }

    /// Returns the exponent of a float as it is written: that of subnormal numbers is that of the least normal one.
    fn exponent_of(&mut self, format: Fields, value: ExprId, span: Span) -> ExprId {
        let bits = self.out.value(ExprKind::Bitcast(value), Ty::Scalar(format.bits), span);
        let bits = self.out.convert(bits, Scalar::U32, span);
        let number = |this: &mut Self, n: u32| this.out.constant(Value::of(n), span);
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

    /// Returns 2 to the power of `sign * exponent + by`, an `f64`.
    fn power(&mut self, exponent: ExprId, sign: i32, by: i32, span: Span) -> ExprId {
        let offset = self.out.i32(by + 1023, span);
        let op = if sign < 0 { BinOp::Sub } else { BinOp::Add };
        let field = self.out.binary(op, offset, exponent, span);
        let field = self.out.convert(field, Scalar::I64, span);
        let by = self.out.constant(Value::of(52_i64), span);
        let bits = self.out.binary(BinOp::Shl, field, by, span);
        self.out.value(ExprKind::Bitcast(bits), Ty::Scalar(Scalar::F64), span)
    }

    /// Returns how many steps of the grid a number is, without the rest.
    fn cut(&mut self, value: ExprId, up: ExprId, span: Span) -> ExprId {
        let value = self.out.convert(value, Scalar::F64, span);
        let scaled = self.out.binary(BinOp::Mul, value, up, span);
        self.math(MathFn::Trunc, &[scaled], span)
    }

    /// Returns the `f32` toward zero; what is larger than all is infinite, and NaN is the one of tensor cores.
    fn toward_zero(&mut self, exact: ExprId, span: Span) -> ExprId {
        let near = self.out.convert(exact, Scalar::F32, span);
        let [size, reached] = [exact, near].map(|value| {
            let wide = self.out.convert(value, Scalar::F64, span);
            self.math(MathFn::Abs, &[wide], span)
        });
        let beyond = self.out.binary(BinOp::Gt, reached, size, span);
        let limit = self.out.constant(Value::of(2f64.powi(128)), span);
        let finite = self.out.binary(BinOp::Lt, size, limit, span);
        let over = self.out.binary(BinOp::And, beyond, finite, span);
        let bits = self.out.value(ExprKind::Bitcast(near), Ty::Scalar(Scalar::U32), span);
        let one = self.out.convert(over, Scalar::U32, span);
        let bits = self.out.binary(BinOp::Sub, bits, one, span);
        let nan = self.out.constant(Value::of(0x7fff_ffff_u32), span);
        let is_nan = self.math(MathFn::IsNan, &[exact], span);
        let kind = ExprKind::Select { cond: is_nan, then: nan, other: bits };
        let bits = self.out.value(kind, Ty::Scalar(Scalar::U32), span);
        self.out.value(ExprKind::Bitcast(bits), Ty::Scalar(Scalar::F32), span)
    }
}
