//! Moves, conversions and selections.

use std::marker::PhantomData;

use super::{Fn1, LaneScalar, Map1, OpStep, each_chunk, load, pick, store};
use crate::group::{Op, OpFn, ThreadGroup};
use crate::group_registers::CHUNK;
use crate::op_shape::{OpShape, RegisterRole, Width};
use clk_runtime::Isa;
use clk_scalar::Scalar;

/// Conversion to `T`.
pub(crate) struct To<T>(PhantomData<T>);

impl<A: LaneScalar, T: LaneScalar> Fn1<A> for To<T> {
    type Out = T;
    #[inline(always)]
    fn call(a: A) -> T {
        a.to()
    }
}

/// `f32` and `f64` to `i32`, saturating, in a form that LLVM vectorizes.
pub(crate) struct ToI32;

impl Fn1<f32> for ToI32 {
    type Out = i32;
    #[inline(always)]
    fn call(a: f32) -> i32 {
        // SAFETY: the operand is replaced where it is out of range.
        let fits = (-2147483648.0..2147483648.0).contains(&a);
        // SAFETY: the operand is in range of an `i32`, or 0.
        let whole: i32 = unsafe { (if fits { a } else { 0.0 }).to_int_unchecked() };
        let limit = if a < 0.0 {
            i32::MIN
        } else if a > 0.0 {
            i32::MAX
        } else {
            0
        };
        if fits { whole } else { limit }
    }
}

/// Returns the loop of a conversion.
pub(crate) fn convert(from: Scalar, to: Scalar, isa: Isa) -> Option<OpFn> {
    use Scalar::*;
    Some(match (from, to) {
        (I32 | I16 | I8, F32) => pick::<Map1<i32, To<f32>>>(isa),
        (U32 | U16 | U8, F32) => pick::<Map1<u32, To<f32>>>(isa),
        (F32, I32) => pick::<Map1<f32, ToI32>>(isa),
        (F32, U32) => pick::<Map1<f32, To<u32>>>(isa),
        (F32, F64) => pick::<Map1<f32, To<f64>>>(isa),
        (F64, F32) => pick::<Map1<f64, To<f32>>>(isa),
        (I32 | I16 | I8, F64) => pick::<Map1<i32, To<f64>>>(isa),
        (U32 | U16 | U8, F64) => pick::<Map1<u32, To<f64>>>(isa),
        (F64, I32) => pick::<Map1<f64, To<i32>>>(isa),
        (I32 | I16 | I8, I64 | U64) => pick::<Map1<i32, To<i64>>>(isa),
        (U32 | U16 | U8, I64 | U64) => pick::<Map1<u32, To<i64>>>(isa),
        (I64 | U64, I32 | U32) => pick::<Map1<u64, To<u32>>>(isa),
        (I64, F64) => pick::<Map1<i64, To<f64>>>(isa),
        (I8 | I16 | I32 | U8 | U16 | U32, I8) => pick::<Map1<i32, To<i8>>>(isa),
        (I8 | I16 | I32 | U8 | U16 | U32, U8) => pick::<Map1<u32, To<u8>>>(isa),
        (I8 | I16 | I32 | U8 | U16 | U32, I16) => pick::<Map1<i32, To<i16>>>(isa),
        (I8 | I16 | I32 | U8 | U16 | U32, U16) => pick::<Map1<u32, To<u16>>>(isa),
        (Bool, I8 | I16 | I32 | U8 | U16 | U32) => pick::<Map1<bool, To<i32>>>(isa),
        (Bool, F32) => pick::<Map1<bool, To<f32>>>(isa),
        (I8 | I16 | I32 | U8 | U16 | U32, Bool) => pick::<Map1<u32, To<bool>>>(isa),
        (F16, F32) => pick::<Map1<clk_scalar::f16, To<f32>>>(isa),
        (Bf16, F32) => pick::<Map1<clk_scalar::bf16, To<f32>>>(isa),
        (F32, F16) => pick::<Map1<f32, To<clk_scalar::f16>>>(isa),
        (F32, Bf16) => pick::<Map1<f32, To<clk_scalar::bf16>>>(isa),
        _ => return None,
    })
}

/// Returns whether a conversion leaves the lanes' bits unchanged.
pub(crate) fn is_free(from: Scalar, to: Scalar) -> bool {
    use Scalar::*;
    let same = |a: &[Scalar]| a.contains(&from) && a.contains(&to);
    from == to
        || same(&[I32, U32])
        || same(&[I64, U64])
        || matches!((from, to), (I8 | I16 | U8 | U16, I32 | U32) | (I8, I16) | (U8, U16 | I16))
}

/// `d = a`, 4 or 8 bytes per lane.
pub(crate) struct CopyLanes<T>(PhantomData<T>);

impl<T: std::marker::Copy> OpStep for CopyLanes<T> {
    const SHAPE: OpShape =
        OpShape::new("copy").d(RegisterRole::Write(Width::of::<T>())).a(RegisterRole::Read(Width::of::<T>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `d` and `a` have lanes of `T`, in all chunks of the mask (G1, G2), or both are uniform. C3: there
        // is an op behind.
        unsafe {
            let o = &*op;
            let (d, a) = (g.registers.slot(o.d), g.registers.slot(o.a));
            each_chunk(&g.mask, d.stride, |chunk| {
                store(d.ptr, d.stride, chunk, load::<T>(a.ptr, a.stride, chunk));
            });
            op.add(1)
        }
    }
}

/// `d = a` in the active lanes.
pub(crate) struct Blend<T>(PhantomData<T>);

impl<T: std::marker::Copy + Default> OpStep for Blend<T> {
    const SHAPE: OpShape =
        OpShape::new("blend").d(RegisterRole::Write(Width::of::<T>())).a(RegisterRole::Read(Width::of::<T>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `d` and `a` have lanes of `T`, in all chunks of the mask (G1, G2), as has the mask. C3: there is
        // an op behind.
        unsafe {
            let o = &*op;
            let (d, a) = (g.registers.slot(o.d), g.registers.slot(o.a));
            if g.mask.full {
                each_chunk(&g.mask, d.stride, |chunk| {
                    store(d.ptr, d.stride, chunk, load::<T>(a.ptr, a.stride, chunk));
                });
                return op.add(1);
            }
            let mask = g.mask.lanes.cast_mut().cast();
            each_chunk(&g.mask, d.stride, |chunk| {
                let m = load::<u32>(mask, 4 * CHUNK, chunk);
                let new = load::<T>(a.ptr, a.stride, chunk);
                let mut r = load::<T>(d.ptr, d.stride, chunk);
                for i in 0..CHUNK {
                    r[i] = if m[i] != 0 { new[i] } else { r[i] };
                }
                store(d.ptr, d.stride, chunk, r);
            });
            op.add(1)
        }
    }
}

/// `d = if a { b } else { c }`
pub(crate) struct Select<T>(PhantomData<T>);

impl<T: std::marker::Copy + Default> OpStep for Select<T> {
    const SHAPE: OpShape = OpShape::new("select")
        .d(RegisterRole::Write(Width::of::<T>()))
        .a(RegisterRole::Read(Width::Four))
        .b(RegisterRole::Read(Width::of::<T>()))
        .c(RegisterRole::Read(Width::of::<T>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `d`, `b` and `c` have lanes of `T`, `a` 4-byte lanes, in all chunks of the mask (G1, G2), or all
        // are uniform. C3: another op follows.
        unsafe {
            let o = &*op;
            let (d, a, b, c) =
                (g.registers.slot(o.d), g.registers.slot(o.a), g.registers.slot(o.b), g.registers.slot(o.c));
            each_chunk(&g.mask, d.stride, |chunk| {
                let m = load::<u32>(a.ptr, a.stride, chunk);
                let x = load::<T>(b.ptr, b.stride, chunk);
                let y = load::<T>(c.ptr, c.stride, chunk);
                let mut r = [T::default(); CHUNK];
                for i in 0..CHUNK {
                    r[i] = if m[i] != 0 { x[i] } else { y[i] };
                }
                store(d.ptr, d.stride, chunk, r);
            });
            op.add(1)
        }
    }
}

pub(crate) fn copy(wide: bool, isa: Isa) -> OpFn {
    if wide { pick::<CopyLanes<u64>>(isa) } else { pick::<CopyLanes<u32>>(isa) }
}

pub(crate) fn blend(wide: bool, isa: Isa) -> OpFn {
    if wide { pick::<Blend<u64>>(isa) } else { pick::<Blend<u32>>(isa) }
}

pub(crate) fn select(wide: bool, isa: Isa) -> OpFn {
    if wide { pick::<Select<u64>>(isa) } else { pick::<Select<u32>>(isa) }
}
