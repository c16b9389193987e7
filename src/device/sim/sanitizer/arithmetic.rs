//! Arithmetic checks: signed overflow, shift amounts out of range, floats out of range of an integer, and the first NaN or
//! infinity.
//!
//! These ops precede the operation they check (the last one follows it) and consider active lanes only.

use std::marker::PhantomData;

use crate::device::FaultKind;
use crate::device::sim::code::{AXES, Index, Reg};
use crate::device::sim::fault::stop_at;
use crate::device::sim::group::{CHUNK, Group, Op, OpFn};
use crate::device::sim::lanes::slow::read_value;
use crate::device::sim::lanes::{Isa, Lane, Step, load, pick, plain};
use crate::device::sim::memory::coef;
use crate::device::sim::shape::{Field, Shape, Width, Word};
use crate::ir::def::BinOp;
use crate::lang::scalar::{Scalar, Value};

/// A predicate on pairs of operands: the operation would overflow.
pub(crate) trait Wrong<T> {
    fn wrong(a: T, b: T) -> bool;
}

pub(crate) struct Add;
pub(crate) struct Sub;
pub(crate) struct Mul;
pub(crate) struct Div;
pub(crate) struct Pow;

macro_rules! overflows {
    ($($ty:ty),*) => {$(
        impl Wrong<$ty> for Add {
            #[inline(always)]
            fn wrong(a: $ty, b: $ty) -> bool {
                let r = a.wrapping_add(b);
                (a ^ r) & (b ^ r) < 0
            }
        }
        impl Wrong<$ty> for Sub {
            #[inline(always)]
            fn wrong(a: $ty, b: $ty) -> bool {
                (a ^ b) & (a ^ a.wrapping_sub(b)) < 0
            }
        }
        impl Wrong<$ty> for Mul {
            #[inline(always)]
            fn wrong(a: $ty, b: $ty) -> bool {
                a.checked_mul(b).is_none()
            }
        }
        impl Wrong<$ty> for Div {
            #[inline(always)]
            fn wrong(a: $ty, b: $ty) -> bool {
                a == <$ty>::MIN && b == -1
            }
        }
        impl Wrong<$ty> for Pow {
            #[inline(always)]
            fn wrong(a: $ty, b: $ty) -> bool {
                // Powers of 0, 1 and -1 never overflow, except that 0 has no reciprocal.
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

/// Returns whether some active lane's operands are wrong; uniform operands are tested once.
#[inline(always)]
unsafe fn any_wrong<T: Lane, U: Lane>(g: &Group, a: Reg, b: Reg, wrong: impl Fn(T, U) -> bool) -> bool {
    // SAFETY: C1: the op's registers have lanes of `T` and `U`, in all chunks of the mask (G1, G2), as has the mask.
    unsafe {
        let (a, b) = (g.slot(a), g.slot(b));
        if a.stride == 0 && b.stride == 0 {
            return wrong(T::get(a.ptr.cast::<T::Repr>().read()), U::get(b.ptr.cast::<U::Repr>().read()));
        }
        let mut found = 0u32;
        for chunk in g.lo..g.hi {
            let x = load::<T::Repr>(a.ptr, a.stride, chunk);
            let y = load::<U::Repr>(b.ptr, b.stride, chunk);
            let m = load::<u32>(g.mask.cast_mut().cast(), 4 * CHUNK, chunk);
            for i in 0..CHUNK {
                let bad = wrong(T::get(x[i]), U::get(y[i]));
                found |= if bad { m[i] } else { 0 };
            }
        }
        found != 0
    }
}

/// Returns the first active lane for which `holds` is true, and how many more there are.
fn first_of(g: &Group, holds: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
    let mut lanes = g.active().filter(|&lane| holds(lane));
    lanes.next().map(|first| (first, lanes.count() as u64))
}

/// Checks for overflow: `a` and `b` are the operands; `x` is the span.
struct Overflow<T, F>(PhantomData<(T, F)>);

impl<T: Lane, F: Wrong<T> + Symbol> Step for Overflow<T, F> {
    const SHAPE: Shape = Shape::new("overflow")
        .a(Field::Read(Width::of::<T::Repr>()))
        .b(Field::Read(Width::of::<T::Repr>()))
        .x(Word::Span);

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` and `b` have lanes of `T`. C3: there is an op behind.
        unsafe {
            let o = &*op;
            if any_wrong::<T, T>(g, o.a, o.b, F::wrong) { overflowed::<T, F>(g, op) } else { op.add(1) }
        }
    }
}

/// An operator's symbol.
pub trait Symbol {
    const SYMBOL: &'static str;
}

impl Symbol for Add {
    const SYMBOL: &'static str = "+";
}
impl Symbol for Sub {
    const SYMBOL: &'static str = "-";
}
impl Symbol for Mul {
    const SYMBOL: &'static str = "*";
}
impl Symbol for Div {
    const SYMBOL: &'static str = "/";
}
impl Symbol for Pow {
    const SYMBOL: &'static str = "**";
}

#[cold]
#[inline(never)]
unsafe fn overflowed<T: Lane, F: Wrong<T> + Symbol>(g: &mut Group, op: *const Op) -> *const Op {
    // SAFETY: C3: the caller's op is one of the code's, which does not change while it runs (G5).
    let o = unsafe { &*op };
    // SAFETY: C1: `a` and `b` have lanes of `T`; active lanes exist (G2).
    let value = |reg: Reg, lane: usize| T::get(unsafe { g.lane::<T::Repr>(reg, lane) });
    match first_of(g, |lane| F::wrong(value(o.a, lane), value(o.b, lane))) {
        Some((lane, others)) => {
            let [left, right] = [o.a, o.b].map(|reg| read_value(g, reg, T::SCALAR, lane));
            stop_at(g, FaultKind::overflow(F::SYMBOL, left, right), o.x, lane, others)
        }
        None => op.wrapping_add(1),
    }
}

/// As [`Overflow`], for affine `i32`s: the two indices of access `y`. `a` is 0 for `+`, 1 for `-`, 2 for `*`.
struct AffineOverflow;

/// Returns the smallest and the largest value of an affine form over the group.
unsafe fn bounds(g: &Group, index: &Index) -> (i64, i64) {
    // SAFETY: C5: forms have uniform registers of 4-byte lanes.
    let base = i64::from(unsafe { g.first::<i32>(index.base) });
    let mut bounds = (base, base);
    for d in 0..AXES {
        // SAFETY: C5: the same.
        let span = unsafe { coef(g, index.coef[d]) } * (g.shape[d] as i64 - 1);
        bounds = (bounds.0 + span.min(0), bounds.1 + span.max(0));
    }
    bounds
}

unsafe fn at_lane(g: &Group, index: &Index, lane: usize) -> i32 {
    let coordinates = g.coordinates(lane);
    // SAFETY: C5: forms have uniform registers of 4-byte lanes.
    let mut value = unsafe { g.first::<i32>(index.base) };
    for d in 0..AXES {
        // SAFETY: C5: the same.
        let step = unsafe { coef(g, index.coef[d]) } as i32;
        value = value.wrapping_add(step.wrapping_mul(coordinates[d] as i32));
    }
    value
}

impl Step for AffineOverflow {
    const SHAPE: Shape = Shape::new("affine overflow").x(Word::Span).y(Word::Forms(2));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: `y` has two affine forms. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let axes = &(&(*g.code).accesses)[o.y as usize].axes;
            let ((p, q), (r, s)) = (bounds(g, &axes[0]), bounds(g, &axes[1]));
            let all = match o.a {
                0 => [p + r, q + s, 0, 0],
                1 => [p - s, q - r, 0, 0],
                _ => [p * r, p * s, q * r, q * s],
            };
            let fits = |v: i64| i32::try_from(v).is_ok();
            if fits(p) && fits(q) && fits(r) && fits(s) && all.into_iter().all(fits) {
                return op.add(1);
            }
            let wrong = |lane: usize| {
                let (a, b) = (at_lane(g, &axes[0], lane), at_lane(g, &axes[1], lane));
                match o.a {
                    0 => a.checked_add(b),
                    1 => a.checked_sub(b),
                    _ => a.checked_mul(b),
                }
                .is_none()
            };
            let Some((lane, others)) = first_of(g, wrong) else { return op.add(1) };
            let [left, right] = [0, 1].map(|k| Value::of(at_lane(g, &axes[k], lane)));
            let symbol = ["+", "-", "*"][usize::from(o.a).min(2)];
            stop_at(g, FaultKind::overflow(symbol, left, right), o.x, lane, others)
        }
    }
}

/// Returns the overflow check of a signed operator, if it can overflow.
pub(crate) fn overflow(op: BinOp, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    fn of<F: Wrong<i8> + Wrong<i16> + Wrong<i32> + Wrong<i64> + Symbol>(scalar: Scalar, isa: Isa) -> Option<OpFn> {
        Some(match scalar {
            Scalar::I8 => pick::<Overflow<i8, F>>(isa),
            Scalar::I16 => pick::<Overflow<i16, F>>(isa),
            Scalar::I32 => pick::<Overflow<i32, F>>(isa),
            Scalar::I64 => pick::<Overflow<i64, F>>(isa),
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

/// Returns the overflow check for affine operands, and its `a`.
pub(crate) fn affine_overflow(op: BinOp) -> Option<(OpFn, u16)> {
    let which = match op {
        BinOp::Add => 0,
        BinOp::Sub => 1,
        BinOp::Mul => 2,
        _ => return None,
    };
    Some((plain::<AffineOverflow>(), which))
}

/// Checks that the shift amount `b` is within the width of the scalar type with number `y`; `x` is the span, `a` the amount's
/// type.
struct Shift<T>(PhantomData<T>);

impl<T: Lane + Into<i128>> Step for Shift<T> {
    const SHAPE: Shape = Shape::new("shift check").b(Field::Read(Width::of::<T::Repr>())).x(Word::Span);

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `b` has lanes of `T`; active lanes exist (G2). C3: there is an op behind.
        unsafe {
            let o = &*op;
            let ty = Scalar::ALL.get(o.y as usize).copied().unwrap_or(Scalar::I32);
            let bits = ty.bits() as i128;
            let outside = |v: T| !(0..bits).contains(&v.into());
            if !any_wrong::<T, T>(g, o.b, o.b, |v, _| outside(v)) {
                return op.add(1);
            }
            let amount = |lane: usize| T::get(g.lane::<T::Repr>(o.b, lane));
            let Some((lane, others)) = first_of(g, |lane| outside(amount(lane))) else { return op.add(1) };
            let amount = read_value(g, o.b, T::SCALAR, lane);
            stop_at(g, FaultKind::ShiftAmount { amount, ty }, o.x, lane, others)
        }
    }
}

/// Returns the check of a shift by amounts of this type.
pub(crate) fn shift(by: Scalar, isa: Isa) -> Option<OpFn> {
    Some(match by {
        Scalar::I8 => pick::<Shift<i8>>(isa),
        Scalar::I16 => pick::<Shift<i16>>(isa),
        Scalar::I32 => pick::<Shift<i32>>(isa),
        Scalar::I64 => pick::<Shift<i64>>(isa),
        Scalar::U8 => pick::<Shift<u8>>(isa),
        Scalar::U16 => pick::<Shift<u16>>(isa),
        Scalar::U32 => pick::<Shift<u32>>(isa),
        Scalar::U64 => pick::<Shift<u64>>(isa),
        _ => return None,
    })
}

/// Checks that the float `a` (of the scalar type with number `c`) is in range of the integer type with number `y`; `x` is the
/// span.
struct Conversion;

/// Returns the range of floats whose integer part is in range: more than the first, less than the second; for 64 bits, at least
/// the first.
fn limits(ty: Scalar) -> (f64, f64, bool) {
    let bits = ty.bits() as i32;
    let top = 2f64.powi(if ty.is_signed() { bits - 1 } else { bits });
    match (ty.is_signed(), bits) {
        (true, 64) => (-top, top, true),
        (true, _) => (-top - 1.0, top, false),
        _ => (-1.0, top, false),
    }
}

impl Step for Conversion {
    const SHAPE: Shape = Shape::new("conversion check").x(Word::Span).y(Word::Types);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: `a` is as wide as the type with number `c`. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let scalar = |n: u32| Scalar::ALL.get(n as usize).copied().unwrap_or(Scalar::F32);
            let (from, to) = (scalar(o.c.into()), scalar(o.y));
            let (low, high, closed) = limits(to);
            let fits = |v: f64| (v > low || (closed && v == low)) && v < high;
            let bad = match from {
                Scalar::F32 => any_wrong::<f32, f32>(g, o.a, o.a, |v, _| !fits(v.into())),
                Scalar::F64 => any_wrong::<f64, f64>(g, o.a, o.a, |v, _| !fits(v)),
                _ => true,
            };
            if !bad {
                return op.add(1);
            }
            let value = |lane: usize| read_value(g, o.a, from, lane);
            let Some((lane, others)) = first_of(g, |lane| !fits(value(lane).as_f64())) else { return op.add(1) };
            stop_at(g, FaultKind::Conversion { value: value(lane), to }, o.x, lane, others)
        }
    }
}

pub(crate) fn conversion() -> OpFn {
    plain::<Conversion>()
}

/// Returns the number of a scalar type, for the ops of this file.
pub(crate) fn number(scalar: Scalar) -> u32 {
    Scalar::ALL.iter().position(|&s| s == scalar).unwrap_or(0) as u32
}

/// Checks that the result `d` of operation `x` of the births is finite, or some operand is not; `y` is the span.
struct Finite;

impl Step for Finite {
    const SHAPE: Shape = Shape::new("finite check").x(Word::Birth).y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: `x` is one of the code's births (indexing checks it), and `d` as wide as its type. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let birth = &(&(*g.code).births)[o.x as usize];
            let bad = match birth.scalar {
                Scalar::F32 => any_wrong::<f32, f32>(g, o.d, o.d, |v, _| !v.is_finite()),
                Scalar::F64 => any_wrong::<f64, f64>(g, o.d, o.d, |v, _| !v.is_finite()),
                _ => true,
            };
            if !bad {
                return op.add(1);
            }
            let finite = |reg: Reg, scalar: Scalar, lane: usize| {
                !scalar.is_float() || read_value(g, reg, scalar, lane).as_f64().is_finite()
            };
            let born = |lane: usize| {
                !finite(o.d, birth.scalar, lane) && birth.args.iter().all(|&(reg, scalar)| finite(reg, scalar, lane))
            };
            let Some((lane, others)) = first_of(g, born) else { return op.add(1) };
            let args: Vec<String> = birth.args.iter().map(|&(r, s)| read_value(g, r, s, lane).to_string()).collect();
            let operation = match (birth.infix, args.as_slice()) {
                (true, [one]) => format!("{}{one}", birth.name),
                (true, _) => args.join(&format!(" {} ", birth.name)),
                (false, _) => format!("{}({})", birth.name, args.join(", ")),
            };
            let result = read_value(g, o.d, birth.scalar, lane).with_defined_nan();
            stop_at(g, FaultKind::NotFinite { operation, result }, o.y, lane, others)
        }
    }
}

pub(crate) fn finite() -> OpFn {
    plain::<Finite>()
}
