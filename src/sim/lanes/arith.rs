//! The table of operators and functions that have a specialized loop, by type.

use super::{Fn1, Fn2, Fn3, LaneScalar, Map1, Map2, Map3, pick};
use crate::group::OpFn;
use clk_ir::def::BinOp;
use clk_runtime::Isa;
use clk_scalar::ops::{MathFn, UnaryOp};
use clk_scalar::{Float, Integer, Logic, NumericScalar, Scalar};

macro_rules! functions {
    ($($name:ident: $kind:ident<$bound:ident> $out:ty = $method:path;)*) => {
        $(
            pub struct $name;
            functions!(@ $kind $name $bound ($out) $method);
        )*
    };
    (@ one $name:ident $bound:ident ($out:ty) $method:path) => {
        impl<T: $bound + LaneScalar> Fn1<T> for $name {
            type Out = $out;
            #[inline(always)]
            fn call(a: T) -> $out {
                $method(a)
            }
        }
    };
    (@ two $name:ident $bound:ident ($out:ty) $method:path) => {
        impl<T: $bound + LaneScalar> Fn2<T> for $name {
            type Out = $out;
            #[inline(always)]
            fn call(a: T, b: T) -> $out {
                $method(a, b)
            }
        }
    };
    (@ shift $name:ident $bound:ident ($out:ty) $method:path) => {
        impl<T: $bound + LaneScalar> Fn2<T, u32> for $name {
            type Out = $out;
            #[inline(always)]
            fn call(a: T, b: u32) -> $out {
                $method(a, b)
            }
        }
    };
    (@ three $name:ident $bound:ident ($out:ty) $method:path) => {
        impl<T: $bound + LaneScalar> Fn3<T> for $name {
            type Out = $out;
            #[inline(always)]
            fn call(a: T, b: T, c: T) -> $out {
                $method(a, b, c)
            }
        }
    };
}

functions! {
    Add: two<NumericScalar> T = T::op_add;
    Sub: two<NumericScalar> T = T::op_sub;
    Mul: two<NumericScalar> T = T::op_mul;
    DivF: two<Float> T = T::op_div;
    Min: two<NumericScalar> T = T::op_min;
    Max: two<NumericScalar> T = T::op_max;
    Lt: two<NumericScalar> bool = T::op_lt;
    Le: two<NumericScalar> bool = T::op_le;
    Gt: two<NumericScalar> bool = T::op_gt;
    Ge: two<NumericScalar> bool = T::op_ge;
    Eq: two<NumericScalar> bool = T::op_eq;
    Ne: two<NumericScalar> bool = T::op_ne;
    And: two<Logic> T = T::op_and;
    Or: two<Logic> T = T::op_or;
    Xor: two<Logic> T = T::op_xor;
    Shl: shift<Integer> T = T::op_shl;
    Shr: shift<Integer> T = T::op_shr;
    Neg: one<NumericScalar> T = T::op_neg;
    Not: one<Logic> T = T::op_not;
    Abs: one<NumericScalar> T = T::op_abs;
    Sqrt: one<Float> T = T::op_sqrt;
    Rsqrt: one<Float> T = T::op_rsqrt;
    Floor: one<Float> T = T::op_floor;
    Ceil: one<Float> T = T::op_ceil;
    Round: one<Float> T = T::op_round;
    Trunc: one<Float> T = T::op_trunc;
    Fract: one<Float> T = T::op_fract;
    Exp: one<Float> T = T::op_exp;
    Exp2: one<Float> T = T::op_exp2;
    Exp10: one<Float> T = T::op_exp10;
    Expm1: one<Float> T = T::op_expm1;
    Log: one<Float> T = T::op_log;
    Log2: one<Float> T = T::op_log2;
    Log10: one<Float> T = T::op_log10;
    Log1p: one<Float> T = T::op_log1p;
    Sinh: one<Float> T = T::op_sinh;
    Cosh: one<Float> T = T::op_cosh;
    Tanh: one<Float> T = T::op_tanh;
    Sin: one<Float> T = T::op_sin;
    Cos: one<Float> T = T::op_cos;
    Erf: one<Float> T = T::op_erf;
    Pow: two<NumericScalar> T = T::op_pow;
    Copysign: two<Float> T = T::op_copysign;
    Tf32: one<Float> T = T::op_tf32;
    IsNan: one<Float> bool = T::op_isnan;
    Fma: three<Float> T = T::op_fma;
    Clamp: three<NumericScalar> T = T::op_clamp;
}

/// Returns the loop of a binary operator (not integer division, which can fault).
pub(crate) fn binary(op: BinOp, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    match scalar {
        Scalar::F32 => number::<f32>(op, isa).or_else(|| float_binary::<f32>(op, isa)),
        Scalar::F64 => number::<f64>(op, isa).or_else(|| float_binary::<f64>(op, isa)),
        Scalar::I32 => number::<i32>(op, isa).or_else(|| integer::<i32>(op, isa)),
        Scalar::U32 => number::<u32>(op, isa).or_else(|| integer::<u32>(op, isa)),
        Scalar::I64 => number::<i64>(op, isa).or_else(|| integer::<i64>(op, isa)),
        Scalar::U64 => number::<u64>(op, isa).or_else(|| integer::<u64>(op, isa)),
        // Extended to 32 bits, these compare and combine like their 32-bit counterparts.
        Scalar::I8 | Scalar::I16 if closed(op) => number::<i32>(op, isa).or_else(|| integer::<i32>(op, isa)),
        Scalar::U8 | Scalar::U16 if closed(op) => number::<u32>(op, isa).or_else(|| integer::<u32>(op, isa)),
        Scalar::I8 => wrapping::<i8>(op, isa),
        Scalar::I16 => wrapping::<i16>(op, isa),
        Scalar::U8 => wrapping::<u8>(op, isa),
        Scalar::U16 => wrapping::<u16>(op, isa),
        Scalar::Bool if closed(op) => {
            number::<u32>(op, isa).or_else(|| integer::<u32>(op, isa)).filter(|_| equality(op))
        }
        _ => None,
    }
}

/// Returns whether results on extended operands are properly extended again.
fn closed(op: BinOp) -> bool {
    op.is_comparison() || matches!(op, BinOp::And | BinOp::Or | BinOp::Xor)
}

/// Returns whether the operator exists for `bool`; on 0 and !0 the bitwise operators are correct.
fn equality(op: BinOp) -> bool {
    matches!(op, BinOp::Eq | BinOp::Ne | BinOp::And | BinOp::Or | BinOp::Xor)
}

fn number<T: NumericScalar + LaneScalar>(op: BinOp, isa: Isa) -> Option<OpFn> {
    Some(match op {
        BinOp::Add => pick::<Map2<T, T, Add>>(isa),
        BinOp::Sub => pick::<Map2<T, T, Sub>>(isa),
        BinOp::Mul => pick::<Map2<T, T, Mul>>(isa),
        BinOp::Eq => pick::<Map2<T, T, Eq>>(isa),
        BinOp::Ne => pick::<Map2<T, T, Ne>>(isa),
        BinOp::Lt => pick::<Map2<T, T, Lt>>(isa),
        BinOp::Le => pick::<Map2<T, T, Le>>(isa),
        BinOp::Gt => pick::<Map2<T, T, Gt>>(isa),
        BinOp::Ge => pick::<Map2<T, T, Ge>>(isa),
        BinOp::Div | BinOp::Rem | BinOp::Pow | BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr => {
            return None;
        }
    })
}

fn float_binary<T: Float + LaneScalar>(op: BinOp, isa: Isa) -> Option<OpFn> {
    match op {
        BinOp::Div => Some(pick::<Map2<T, T, DivF>>(isa)),
        BinOp::Pow => Some(pick::<Map2<T, T, Pow>>(isa)),
        _ => None,
    }
}

fn integer<T: Integer + LaneScalar>(op: BinOp, isa: Isa) -> Option<OpFn> {
    Some(match op {
        BinOp::And => pick::<Map2<T, T, And>>(isa),
        BinOp::Or => pick::<Map2<T, T, Or>>(isa),
        BinOp::Xor => pick::<Map2<T, T, Xor>>(isa),
        BinOp::Shl => pick::<Map2<T, u32, Shl>>(isa),
        BinOp::Shr => pick::<Map2<T, u32, Shr>>(isa),
        _ => return None,
    })
}

/// Operators whose results have to be cut to the type.
fn wrapping<T: Integer + LaneScalar>(op: BinOp, isa: Isa) -> Option<OpFn> {
    match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul => number::<T>(op, isa),
        BinOp::Shl | BinOp::Shr => integer::<T>(op, isa),
        _ => None,
    }
}

pub(crate) fn unary(op: UnaryOp, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    Some(match (op, scalar) {
        (UnaryOp::Neg, Scalar::F32) => pick::<Map1<f32, Neg>>(isa),
        (UnaryOp::Neg, Scalar::F64) => pick::<Map1<f64, Neg>>(isa),
        (UnaryOp::Neg, Scalar::I32 | Scalar::U32) => pick::<Map1<i32, Neg>>(isa),
        (UnaryOp::Neg, Scalar::I64 | Scalar::U64) => pick::<Map1<i64, Neg>>(isa),
        (UnaryOp::Not, Scalar::Bool | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::U32) => {
            pick::<Map1<u32, Not>>(isa)
        }
        (UnaryOp::Neg, Scalar::I8) => pick::<Map1<i8, Neg>>(isa),
        (UnaryOp::Neg, Scalar::I16) => pick::<Map1<i16, Neg>>(isa),
        (UnaryOp::Neg, Scalar::U8) => pick::<Map1<u8, Neg>>(isa),
        (UnaryOp::Neg, Scalar::U16) => pick::<Map1<u16, Neg>>(isa),
        (UnaryOp::Not, Scalar::U8) => pick::<Map1<u8, Not>>(isa),
        (UnaryOp::Not, Scalar::U16) => pick::<Map1<u16, Not>>(isa),
        (UnaryOp::Not, Scalar::I64 | Scalar::U64) => pick::<Map1<u64, Not>>(isa),
        _ => return None,
    })
}

pub(crate) fn math(function: MathFn, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    match scalar {
        Scalar::F32 => number_math::<f32>(function, isa)
            .or_else(|| float_math::<f32>(function, isa))
            .or_else(|| heavy(function, isa)),
        Scalar::F64 => number_math::<f64>(function, isa).or_else(|| float_math::<f64>(function, isa)),
        Scalar::I32 => number_math::<i32>(function, isa),
        Scalar::U32 => number_math::<u32>(function, isa),
        // What comes out is one of the operands.
        Scalar::I8 | Scalar::I16 if chooses(function) => number_math::<i32>(function, isa),
        Scalar::U8 | Scalar::U16 if chooses(function) => number_math::<u32>(function, isa),
        _ => None,
    }
}

fn chooses(function: MathFn) -> bool {
    matches!(function, MathFn::Min | MathFn::Max | MathFn::Clamp)
}

fn number_math<T: NumericScalar + LaneScalar>(function: MathFn, isa: Isa) -> Option<OpFn> {
    Some(match function {
        MathFn::Min => pick::<Map2<T, T, Min>>(isa),
        MathFn::Max => pick::<Map2<T, T, Max>>(isa),
        MathFn::Abs => pick::<Map1<T, Abs>>(isa),
        MathFn::Clamp => pick::<Map3<T, Clamp>>(isa),
        MathFn::WrappingAdd => pick::<Map2<T, T, Add>>(isa),
        MathFn::WrappingSub => pick::<Map2<T, T, Sub>>(isa),
        MathFn::WrappingMul => pick::<Map2<T, T, Mul>>(isa),
        _ => return None,
    })
}

fn float_math<T: Float + LaneScalar>(function: MathFn, isa: Isa) -> Option<OpFn> {
    Some(match function {
        MathFn::Sqrt => pick::<Map1<T, Sqrt>>(isa),
        MathFn::Rsqrt => pick::<Map1<T, Rsqrt>>(isa),
        MathFn::Floor => pick::<Map1<T, Floor>>(isa),
        MathFn::Ceil => pick::<Map1<T, Ceil>>(isa),
        MathFn::Round => pick::<Map1<T, Round>>(isa),
        MathFn::Trunc => pick::<Map1<T, Trunc>>(isa),
        MathFn::Fract => pick::<Map1<T, Fract>>(isa),
        MathFn::Fma => pick::<Map3<T, Fma>>(isa),
        MathFn::Copysign => pick::<Map2<T, T, Copysign>>(isa),
        MathFn::Tf32 => pick::<Map1<T, Tf32>>(isa),
        MathFn::IsNan => pick::<Map1<T, IsNan>>(isa),
        _ => return None,
    })
}

/// Returns the loop of a function of `f32` that is computed by polynomials.
fn heavy(function: MathFn, isa: Isa) -> Option<OpFn> {
    Some(match function {
        MathFn::Exp => pick::<Map1<f32, Exp>>(isa),
        MathFn::Exp2 => pick::<Map1<f32, Exp2>>(isa),
        MathFn::Exp10 => pick::<Map1<f32, Exp10>>(isa),
        MathFn::Expm1 => pick::<Map1<f32, Expm1>>(isa),
        MathFn::Log => pick::<Map1<f32, Log>>(isa),
        MathFn::Log2 => pick::<Map1<f32, Log2>>(isa),
        MathFn::Log10 => pick::<Map1<f32, Log10>>(isa),
        MathFn::Log1p => pick::<Map1<f32, Log1p>>(isa),
        MathFn::Sin => pick::<Map1<f32, Sin>>(isa),
        MathFn::Cos => pick::<Map1<f32, Cos>>(isa),
        MathFn::Sinh => pick::<Map1<f32, Sinh>>(isa),
        MathFn::Cosh => pick::<Map1<f32, Cosh>>(isa),
        MathFn::Tanh => pick::<Map1<f32, Tanh>>(isa),
        MathFn::Erf => pick::<Map1<f32, Erf>>(isa),
        MathFn::Pow => pick::<Map2<f32, f32, Pow>>(isa),
        _ => return None,
    })
}
