//! Operations without a specialized loop, evaluated lane by lane by `clk_scalar::dynamic`; and integer division,
//! which can fault.

mod def;

use std::marker::PhantomData;

pub(crate) use self::def::{SlowDef, SlowOp};
use super::{Fn2, LaneScalar, OpStep, chunks, is_wide, lane_of_raw, load, pick, plain, raw_of_lane, store};
use crate::code::Reg;
use crate::group::{Op, OpFn, ThreadGroup};
use crate::group_registers::{CHUNK, GroupRegisters};
use crate::op_shape::{OpShape, OperandRole, RegisterRole, Width};
use clk_ir::def::BinOp;
use clk_runtime::FaultKind;
use clk_runtime::Isa;
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Integer, Scalar, ScalarValue, dynamic};

/// Reads a lane of a register as a value.
pub(crate) fn read_value(registers: &GroupRegisters, reg: Reg, scalar: Scalar, lane: usize) -> ScalarValue {
    // SAFETY: C1, C4: registers are as wide as the scalars that tables give for them; the caller's lane exists.
    let bits = unsafe {
        if is_wide(scalar) { registers.lane::<u64>(reg, lane) } else { registers.lane::<u32>(reg, lane).into() }
    };
    ScalarValue { ty: scalar, bits: raw_of_lane(scalar, bits) }
}

/// Writes a value to a lane of a register.
pub(crate) fn write_value(registers: &GroupRegisters, reg: Reg, lane: usize, value: ScalarValue) {
    let bits = lane_of_raw(value.ty, value.bits);
    // SAFETY: C1, C4: registers are as wide as the scalars that tables give for them; the caller's lane exists.
    unsafe {
        if is_wide(value.ty) {
            registers.set_lane::<u64>(reg, lane, bits)
        } else {
            registers.set_lane::<u32>(reg, lane, bits as u32)
        }
    }
}

/// Evaluates the operation; a failure gives zero (divisions that can fault are checked elsewhere).
pub(crate) fn evaluate(def: &SlowDef, args: &[ScalarValue]) -> ScalarValue {
    let zero = ScalarValue { ty: def.out, bits: 0 };
    let first = args.first().copied().unwrap_or(zero);
    let second = args.get(1).copied().unwrap_or(zero);
    match def.function {
        SlowOp::Unary(op) => dynamic::unary(op, first).unwrap_or(zero),
        SlowOp::Binary(op) => dynamic::binary(op, first, second).unwrap_or(zero),
        SlowOp::Math(f) => dynamic::math(f, args).unwrap_or(zero),
        SlowOp::Convert => dynamic::convert(def.out, first),
        SlowOp::Bitcast => ScalarValue { ty: def.out, bits: first.bits },
    }
}

struct SlowStep;

impl OpStep for SlowStep {
    const SHAPE: OpShape = OpShape::new("slow").x(OperandRole::Slow).y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, which does not change while it runs (G5).
        let o = unsafe { &*op };
        let def = &g.code().slow[o.x as usize];
        let checked = matches!(def.function, SlowOp::Binary(BinaryOp::Div | BinaryOp::Rem)) && def.out.is_int();
        // SAFETY: C4: `d` is a register.
        let uniform = unsafe { g.registers.slot(o.d) }.stride == 0;
        let range = if uniform { 0..CHUNK } else { g.mask.lo * CHUNK..g.mask.hi * CHUNK };
        let mut fault = None;
        let mut args = Vec::with_capacity(3);
        for lane in range {
            args.clear();
            args.extend(def.args.iter().map(|&(r, s)| read_value(&g.registers, r, s, lane)));
            let zero = checked && args.get(1).is_some_and(|v| v.bits == 0);
            if zero && (uniform || g.is_active(lane)) {
                let left = args.first().copied();
                fault.get_or_insert((lane, left, 0u64)).2 += 1;
            }
            write_value(&g.registers, o.d, lane, evaluate(def, &args));
        }
        match fault {
            Some((lane, left, count)) => {
                let left = left.unwrap_or(ScalarValue { ty: def.out, bits: 0 });
                division_stop(g, o.y, uniform, lane, count, left)
            }
            None => op.wrapping_add(1),
        }
    }
}

fn division_stop(
    g: &mut ThreadGroup,
    span: u32,
    uniform: bool,
    lane: usize,
    count: u64,
    left: ScalarValue,
) -> *const Op {
    let (lane, count) = match uniform {
        true => (g.active().next().unwrap_or(0), g.active_count() as u64),
        false => (lane, count),
    };
    g.results.stop_at(FaultKind::DivisionByZero { left }, span, lane, count.saturating_sub(1))
}

/// Integer `/` and `%` of 4-byte types by way of `f64`, whose quotient is exact enough to truncate correctly.
struct Divide<T, F>(PhantomData<(T, F)>);

pub(crate) struct Quotient;
pub(crate) struct Remainder;

impl Fn2<i32> for Quotient {
    type Out = i32;
    #[inline(always)]
    fn call(a: i32, b: i32) -> i32 {
        let wide = if b == -1 { 1 } else { b };
        // SAFETY: |a| / |b| fits where b is neither 0 nor -1.
        let q: i32 = unsafe { (f64::from(a) / f64::from(wide)).to_int_unchecked() };
        if b == -1 { a.wrapping_neg() } else { q }
    }
}

impl Fn2<u32> for Quotient {
    type Out = u32;
    #[inline(always)]
    fn call(a: u32, b: u32) -> u32 {
        // SAFETY: a / b fits where b is not 0.
        let q: i64 = unsafe { (f64::from(a) / f64::from(b)).to_int_unchecked() };
        q as u32
    }
}

impl Fn2<i32> for Remainder {
    type Out = i32;
    #[inline(always)]
    fn call(a: i32, b: i32) -> i32 {
        a.wrapping_sub(<Quotient as Fn2<i32>>::call(a, b).wrapping_mul(b))
    }
}

impl Fn2<u32> for Remainder {
    type Out = u32;
    #[inline(always)]
    fn call(a: u32, b: u32) -> u32 {
        a.wrapping_sub(<Quotient as Fn2<u32>>::call(a, b).wrapping_mul(b))
    }
}

/// `a / 2^k`, rounded toward zero.
pub(crate) struct Halved;
/// `a % 2^k`, with the sign of `a`.
pub(crate) struct HalvedRest;

impl Fn2<i32, u32> for Halved {
    type Out = i32;
    #[inline(always)]
    fn call(a: i32, k: u32) -> i32 {
        let bias = ((1u32 << (k & 31)) - 1) & (a >> 31) as u32;
        a.wrapping_add(bias as i32) >> (k & 31)
    }
}

impl Fn2<i32, u32> for HalvedRest {
    type Out = i32;
    #[inline(always)]
    fn call(a: i32, k: u32) -> i32 {
        a.wrapping_sub(Halved::call(a, k) << (k & 31))
    }
}

impl<T: LaneScalar + Integer, F: Fn2<T, T, Out = T>> OpStep for Divide<T, F> {
    const SHAPE: OpShape = OpShape::new("divide")
        .d(RegisterRole::Write(Width::of::<T::Repr>()))
        .a(RegisterRole::Read(Width::of::<T::Repr>()))
        .b(RegisterRole::Read(Width::of::<T::Repr>()))
        .y(OperandRole::Span);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: the registers have lanes of `T`, in all chunks of the mask (G1, G2), or all are uniform. C3:
        // another op follows.
        unsafe {
            let o = &*op;
            let (d, a, b) = (g.registers.slot(o.d), g.registers.slot(o.a), g.registers.slot(o.b));
            let mut zeros = false;
            for chunk in chunks(&g.mask, d.stride) {
                let x = load::<T::Repr>(a.ptr, a.stride, chunk);
                let y = load::<T::Repr>(b.ptr, b.stride, chunk);
                let mut any = false;
                for v in y {
                    any |= T::get(v) == T::default();
                }
                zeros |= any;
                let mut r = [T::Repr::default(); CHUNK];
                for i in 0..CHUNK {
                    let divisor = T::get(y[i]);
                    let divisor = if divisor == T::default() { divisor.op_not() } else { divisor };
                    r[i] = F::call(T::get(x[i]), divisor).put();
                }
                store(d.ptr, d.stride, chunk, r);
            }
            if zeros { zero_divisor::<T>(g, op) } else { op.add(1) }
        }
    }
}

/// Handles a zero divisor in some lane, which is a fault if that lane is active. (Where the destination is an operand's
/// register, the dividend in the message would come from the result, so the compiler keeps them apart.)
#[cold]
#[inline(never)]
unsafe fn zero_divisor<T: LaneScalar>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    // SAFETY: C3: the caller's op is one of the code's, which does not change while it runs (G5).
    let o = unsafe { &*op };
    // SAFETY: C1: `d` is a register.
    let uniform = unsafe { g.registers.slot(o.d) }.stride == 0;
    let divisor = |lane: usize| read_value(&g.registers, o.b, T::SCALAR, lane).bits;
    let lanes: Vec<usize> = g.active().filter(|&l| divisor(if uniform { 0 } else { l }) == 0).collect();
    match lanes.first() {
        Some(&lane) => {
            let left = read_value(&g.registers, o.a, T::SCALAR, if uniform { 0 } else { lane });
            division_stop(g, o.y, uniform, lane, lanes.len() as u64, left)
        }
        None => op.wrapping_add(1),
    }
}

/// Returns the loop of an integer division or remainder.
pub(crate) fn divide(op: BinOp, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    Some(match (op, scalar) {
        (BinOp::Div, Scalar::I32) => pick::<Divide<i32, Quotient>>(isa),
        (BinOp::Rem, Scalar::I32) => pick::<Divide<i32, Remainder>>(isa),
        (BinOp::Div, Scalar::U32) => pick::<Divide<u32, Quotient>>(isa),
        (BinOp::Rem, Scalar::U32) => pick::<Divide<u32, Remainder>>(isa),
        _ => return None,
    })
}

pub(crate) fn slow() -> OpFn {
    plain::<SlowStep>()
}
