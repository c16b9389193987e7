//! Arithmetic checks: signed overflow, shift amounts out of range, floats out of range of an integer type, and the
//! first NaN or infinity.
//!
//! A check op precedes the op that it checks, except that the NaN check follows it. Only active lanes are checked.

use std::marker::PhantomData;

use crate::affine_value::{AffineValue, index_of_lane};
use crate::code::Reg;
use crate::group::{Op, OpFn, ThreadGroup};
use crate::group_registers::CHUNK;
use crate::lanes::slow::read_value;
use crate::lanes::{LaneScalar, OpStep, load, pick, plain};
use crate::op_shape::{OpShape, OperandRole, RegisterRole, Width};
use clk_ir::def::BinOp;
use clk_runtime::FaultKind;
use clk_runtime::Isa;
use clk_scalar::{Scalar, ScalarValue};

/// Tests whether an operation overflows for a pair of operands.
pub(crate) trait OverflowTest<T> {
    fn overflows(a: T, b: T) -> bool;
}

pub(crate) struct Add;
pub(crate) struct Sub;
pub(crate) struct Mul;
pub(crate) struct Div;
pub(crate) struct Pow;

macro_rules! overflows {
    ($($ty:ty),*) => {$(
        impl OverflowTest<$ty> for Add {
            #[inline(always)]
            fn overflows(a: $ty, b: $ty) -> bool {
                let r = a.wrapping_add(b);
                (a ^ r) & (b ^ r) < 0
            }
        }
        impl OverflowTest<$ty> for Sub {
            #[inline(always)]
            fn overflows(a: $ty, b: $ty) -> bool {
                (a ^ b) & (a ^ a.wrapping_sub(b)) < 0
            }
        }
        impl OverflowTest<$ty> for Mul {
            #[inline(always)]
            fn overflows(a: $ty, b: $ty) -> bool {
                a.checked_mul(b).is_none()
            }
        }
        impl OverflowTest<$ty> for Div {
            #[inline(always)]
            fn overflows(a: $ty, b: $ty) -> bool {
                a == <$ty>::MIN && b == -1
            }
        }
        impl OverflowTest<$ty> for Pow {
            #[inline(always)]
            fn overflows(a: $ty, b: $ty) -> bool {
                // Powers of 0, 1 and -1 do not overflow, except that a negative power of 0 is treated as an overflow.
                match u32::try_from(b) {
                    Ok(b) => a.checked_pow(b).is_none(),
                    Err(_) if b < 0 => a != 1 && a != -1,
                    Err(_) => !(-1..=1).contains(&a),
                }
            }
        }
    )*};
}

overflows!(i8, i16, i32, i64);

/// Returns whether `wrong` is true for the operands in some active lane. Uniform operands are tested once.
#[inline(always)]
unsafe fn any_active_fails<T: LaneScalar, U: LaneScalar>(
    g: &ThreadGroup,
    a: Reg,
    b: Reg,
    wrong: impl Fn(T, U) -> bool,
) -> bool {
    // SAFETY: C1: the op's registers have lanes of `T` and `U` in all chunks of the mask (G1, G2), and so does the
    // mask.
    unsafe {
        let (a, b) = (g.registers.slot(a), g.registers.slot(b));
        if a.stride == 0 && b.stride == 0 {
            return wrong(T::get(a.ptr.cast::<T::Repr>().read()), U::get(b.ptr.cast::<U::Repr>().read()));
        }
        let mut failing = 0u32;
        for chunk in g.mask.chunks() {
            let x = load::<T::Repr>(a.ptr, a.stride, chunk);
            let y = load::<U::Repr>(b.ptr, b.stride, chunk);
            let m = load::<u32>(g.mask.lanes.cast_mut().cast(), 4 * CHUNK, chunk);
            for i in 0..CHUNK {
                let bad = wrong(T::get(x[i]), U::get(y[i]));
                failing |= if bad { m[i] } else { 0 };
            }
        }
        failing != 0
    }
}

/// Returns the first active lane for which `holds` is true, and the number of other such lanes.
fn first_active_where(g: &ThreadGroup, holds: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
    let mut lanes = g.active().filter(|&lane| holds(lane));
    lanes.next().map(|first| (first, lanes.count() as u64))
}

/// Checks that an operation on registers `a` and `b` does not overflow; `x` is the span of the operation.
struct OverflowCheck<T, F>(PhantomData<(T, F)>);

impl<T: LaneScalar, F: OverflowTest<T> + OperatorSymbol> OpStep for OverflowCheck<T, F> {
    const SHAPE: OpShape = OpShape::new("overflow")
        .a(RegisterRole::Read(Width::of::<T::Repr>()))
        .b(RegisterRole::Read(Width::of::<T::Repr>()))
        .x(OperandRole::Span);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` and `b` have lanes of `T`. C3: another op follows.
        unsafe {
            let o = &*op;
            if any_active_fails::<T, T>(g, o.a, o.b, F::overflows) { report_overflow::<T, F>(g, op) } else { op.add(1) }
        }
    }
}

/// The symbol of an operator, for messages.
pub trait OperatorSymbol {
    const SYMBOL: &'static str;
}

impl OperatorSymbol for Add {
    const SYMBOL: &'static str = "+";
}
impl OperatorSymbol for Sub {
    const SYMBOL: &'static str = "-";
}
impl OperatorSymbol for Mul {
    const SYMBOL: &'static str = "*";
}
impl OperatorSymbol for Div {
    const SYMBOL: &'static str = "/";
}
impl OperatorSymbol for Pow {
    const SYMBOL: &'static str = "**";
}

#[cold]
#[inline(never)]
unsafe fn report_overflow<T: LaneScalar, F: OverflowTest<T> + OperatorSymbol>(
    g: &mut ThreadGroup,
    op: *const Op,
) -> *const Op {
    // SAFETY: C3: the caller's op is one of the code's, which does not change while it runs (G5).
    let o = unsafe { &*op };
    // SAFETY: C1: `a` and `b` have lanes of `T`; active lanes exist (G2).
    let value = |reg: Reg, lane: usize| T::get(unsafe { g.registers.lane::<T::Repr>(reg, lane) });
    match first_active_where(g, |lane| F::overflows(value(o.a, lane), value(o.b, lane))) {
        Some((lane, others)) => {
            let [left, right] = [o.a, o.b].map(|reg| read_value(&g.registers, reg, T::SCALAR, lane));
            g.results.stop_at(FaultKind::overflow(F::SYMBOL, left, right), o.x, lane, others)
        }
        None => op.wrapping_add(1),
    }
}

/// Like [`OverflowCheck`], for two affine `i32` operands, which are the two indices of access `y`. The operator is
/// given by `a`: 0 for `+`, 1 for `-`, 2 for `*`.
struct AffineOverflowCheck;

impl OpStep for AffineOverflowCheck {
    const SHAPE: OpShape = OpShape::new("affine overflow").x(OperandRole::Span).y(OperandRole::Forms(2));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: `y` has two affine forms. C3: another op follows.
        unsafe {
            let o = &*op;
            let axes = &(&(*g.code).accesses)[o.y as usize].axes;
            let [(p, q), (r, s)] = [0, 1].map(|k: usize| AffineValue::of(&g.registers, &axes[k]).bounds(&g.shape));
            let all = match o.a {
                0 => [p + r, q + s, 0, 0],
                1 => [p - s, q - r, 0, 0],
                _ => [p * r, p * s, q * r, q * s],
            };
            let fits = |v: i64| i32::try_from(v).is_ok();
            if fits(p) && fits(q) && fits(r) && fits(s) && all.into_iter().all(fits) {
                return op.add(1);
            }
            let value = |k: usize, lane: usize| index_of_lane(g, &axes[k], lane) as i32;
            let wrong = |lane: usize| {
                let (a, b) = (value(0, lane), value(1, lane));
                match o.a {
                    0 => a.checked_add(b),
                    1 => a.checked_sub(b),
                    _ => a.checked_mul(b),
                }
                .is_none()
            };
            let Some((lane, others)) = first_active_where(g, wrong) else { return op.add(1) };
            let [left, right] = [0, 1].map(|k| ScalarValue::of(value(k, lane)));
            let symbol = ["+", "-", "*"][usize::from(o.a).min(2)];
            g.results.stop_at(FaultKind::overflow(symbol, left, right), o.x, lane, others)
        }
    }
}

/// Returns the op that checks a signed operator for overflow; `None` if the operator cannot overflow.
pub(crate) fn overflow_check(op: BinOp, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    fn of<F: OverflowTest<i8> + OverflowTest<i16> + OverflowTest<i32> + OverflowTest<i64> + OperatorSymbol>(
        scalar: Scalar,
        isa: Isa,
    ) -> Option<OpFn> {
        Some(match scalar {
            Scalar::I8 => pick::<OverflowCheck<i8, F>>(isa),
            Scalar::I16 => pick::<OverflowCheck<i16, F>>(isa),
            Scalar::I32 => pick::<OverflowCheck<i32, F>>(isa),
            Scalar::I64 => pick::<OverflowCheck<i64, F>>(isa),
            _ => return None,
        })
    }
    match op {
        BinOp::Add => of::<Add>(scalar, isa),
        BinOp::Sub => of::<Sub>(scalar, isa),
        BinOp::Mul => of::<Mul>(scalar, isa),
        BinOp::Div | BinOp::Rem => of::<Div>(scalar, isa),
        BinOp::Pow => of::<Pow>(scalar, isa),
        _ => None,
    }
}

/// Returns the op that checks an operator on affine operands for overflow, and the value of the op's field `a`.
pub(crate) fn affine_overflow_check(op: BinOp) -> Option<(OpFn, u16)> {
    let operator = match op {
        BinOp::Add => 0,
        BinOp::Sub => 1,
        BinOp::Mul => 2,
        _ => return None,
    };
    Some((plain::<AffineOverflowCheck>(), operator))
}

/// Checks that the shift amount in register `b` is less than the width of the scalar type with index `y`. `x` is the
/// span, and `a` is the index of the amount's type.
struct ShiftCheck<T>(PhantomData<T>);

impl<T: LaneScalar + Into<i128>> OpStep for ShiftCheck<T> {
    const SHAPE: OpShape =
        OpShape::new("shift check").b(RegisterRole::Read(Width::of::<T::Repr>())).x(OperandRole::Span);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `b` has lanes of `T`; active lanes exist (G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let ty = Scalar::ALL.get(o.y as usize).copied().unwrap_or(Scalar::I32);
            let bits = ty.bits() as i128;
            let outside = |v: T| !(0..bits).contains(&v.into());
            if !any_active_fails::<T, T>(g, o.b, o.b, |v, _| outside(v)) {
                return op.add(1);
            }
            let amount = |lane: usize| T::get(g.registers.lane::<T::Repr>(o.b, lane));
            let Some((lane, others)) = first_active_where(g, |lane| outside(amount(lane))) else { return op.add(1) };
            let amount = read_value(&g.registers, o.b, T::SCALAR, lane);
            g.results.stop_at(FaultKind::ShiftAmount { amount, ty }, o.x, lane, others)
        }
    }
}

/// Returns the op that checks shifts by amounts of type `by`.
pub(crate) fn shift_check(by: Scalar, isa: Isa) -> Option<OpFn> {
    Some(match by {
        Scalar::I8 => pick::<ShiftCheck<i8>>(isa),
        Scalar::I16 => pick::<ShiftCheck<i16>>(isa),
        Scalar::I32 => pick::<ShiftCheck<i32>>(isa),
        Scalar::I64 => pick::<ShiftCheck<i64>>(isa),
        Scalar::U8 => pick::<ShiftCheck<u8>>(isa),
        Scalar::U16 => pick::<ShiftCheck<u16>>(isa),
        Scalar::U32 => pick::<ShiftCheck<u32>>(isa),
        Scalar::U64 => pick::<ShiftCheck<u64>>(isa),
        _ => return None,
    })
}

/// Checks that the float in register `a` is in the range of the integer type with index `y`. `c` is the index of the
/// float's type, and `x` is the span.
struct ConversionCheck;

/// Returns the bounds of the floats that can be converted to the integer type: a lower bound, an exclusive upper bound,
/// and whether the lower bound is inclusive.
fn float_limits(ty: Scalar) -> (f64, f64, bool) {
    let bits = ty.bits() as i32;
    let top = 2f64.powi(if ty.is_signed() { bits - 1 } else { bits });
    match (ty.is_signed(), bits) {
        (true, 64) => (-top, top, true),
        (true, _) => (-top - 1.0, top, false),
        _ => (-1.0, top, false),
    }
}

impl OpStep for ConversionCheck {
    const SHAPE: OpShape = OpShape::new("conversion check").x(OperandRole::Span).y(OperandRole::Types);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `a` is as wide as the type with index `c`. C3: another op follows.
        unsafe {
            let o = &*op;
            let scalar = |n: u32| Scalar::ALL.get(n as usize).copied().unwrap_or(Scalar::F32);
            let (from, to) = (scalar(o.c.into()), scalar(o.y));
            let (low, high, closed) = float_limits(to);
            let fits = |v: f64| (v > low || (closed && v == low)) && v < high;
            let bad = match from {
                Scalar::F32 => any_active_fails::<f32, f32>(g, o.a, o.a, |v, _| !fits(v.into())),
                Scalar::F64 => any_active_fails::<f64, f64>(g, o.a, o.a, |v, _| !fits(v)),
                _ => true,
            };
            if !bad {
                return op.add(1);
            }
            let value = |lane: usize| read_value(&g.registers, o.a, from, lane);
            let Some((lane, others)) = first_active_where(g, |lane| !fits(value(lane).as_f64())) else {
                return op.add(1);
            };
            g.results.stop_at(FaultKind::Conversion { value: value(lane), to }, o.x, lane, others)
        }
    }
}

pub(crate) fn conversion_check() -> OpFn {
    plain::<ConversionCheck>()
}

/// Returns the index of a scalar type, as the fields of check ops store it.
pub(crate) fn scalar_index(scalar: Scalar) -> u32 {
    Scalar::ALL.iter().position(|&s| s == scalar).unwrap_or(0) as u32
}

/// Checks that the result in register `d` is finite, unless an operand is infinite or NaN. NaN check `x` describes the
/// operation, and `y` is the span.
struct FiniteCheck;

impl OpStep for FiniteCheck {
    const SHAPE: OpShape = OpShape::new("finite check").x(OperandRole::NanCheck).y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is a NaN check of the code (indexing checks it), and `d` is as wide as its type. C3: another
        // op follows.
        unsafe {
            let o = &*op;
            let check = &(&(*g.code).events.nan_checks)[o.x as usize];
            let bad = match check.scalar {
                Scalar::F32 => any_active_fails::<f32, f32>(g, o.d, o.d, |v, _| !v.is_finite()),
                Scalar::F64 => any_active_fails::<f64, f64>(g, o.d, o.d, |v, _| !v.is_finite()),
                _ => true,
            };
            if !bad {
                return op.add(1);
            }
            let finite = |reg: Reg, scalar: Scalar, lane: usize| {
                !scalar.is_float() || read_value(&g.registers, reg, scalar, lane).as_f64().is_finite()
            };
            let is_first = |lane: usize| {
                !finite(o.d, check.scalar, lane) && check.args.iter().all(|&(reg, scalar)| finite(reg, scalar, lane))
            };
            let Some((lane, others)) = first_active_where(g, is_first) else { return op.add(1) };
            let args: Vec<String> =
                check.args.iter().map(|&(r, s)| read_value(&g.registers, r, s, lane).to_string()).collect();
            let operation = match (check.infix, args.as_slice()) {
                (true, [one]) => format!("{}{one}", check.name),
                (true, _) => args.join(&format!(" {} ", check.name)),
                (false, _) => format!("{}({})", check.name, args.join(", ")),
            };
            let result = read_value(&g.registers, o.d, check.scalar, lane).with_canonical_nan();
            g.results.stop_at(FaultKind::NotFinite { operation, result }, o.y, lane, others)
        }
    }
}

pub(crate) fn finite_check() -> OpFn {
    plain::<FiniteCheck>()
}
