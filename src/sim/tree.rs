//! Tree reductions in shared memory by sum, product, minimum or maximum: the loop
//! `while d > 0 { if t < d { s[t] = s[t] F s[t + d] } barrier() d /= 2 }` as one op. Every element sees the same
//! operations in the same order; the gain is a dozen ops per iteration, most of which would have run for a few lanes.
//!
//! NaNs get the bits that the language defines once, at the end.
//!
//! In a run with checks, the op stops before an iteration with an operation that they report. The loop itself then
//! continues there and reports it.

use std::marker::PhantomData;

use super::group::{Op, OpFn, ThreadGroup};
use super::group_registers::CHUNK;
use super::lanes::{Fn2, LaneScalar, OpStep, arith, pick};
use super::op_shape::{MemoryOperandKind, OpShape, OperandRole, RegisterRole, Width};
use clk_ir::def::BinOp;
use clk_runtime::Isa;
use clk_scalar::Scalar;
use clk_scalar::ops::MathFn;

/// Stands in front of the loop, which ends at `x`: `a` is the uniform `d`, `y` the array of 4-byte elements. If an
/// iteration could be out of bounds, or the lanes are not all active in one row, the loop itself follows.
pub(crate) struct TreeReduceOp<T, F, R>(PhantomData<(T, F, R)>);

/// What a run reports of an operation with these operands and this result.
trait Reports<T> {
    /// Whether the run reports any operation.
    const ANY: bool;

    fn reports(a: T, b: T, result: T) -> bool;
}

struct NoEpilogue;
struct Overflows;
struct Nonfinite;

impl<T> Reports<T> for NoEpilogue {
    const ANY: bool = false;

    #[inline(always)]
    fn reports(_: T, _: T, _: T) -> bool {
        false
    }
}

/// Of sums.
impl Reports<i32> for Overflows {
    const ANY: bool = true;

    #[inline(always)]
    fn reports(a: i32, b: i32, result: i32) -> bool {
        (a ^ result) & (b ^ result) < 0
    }
}

impl Reports<f32> for Nonfinite {
    const ANY: bool = true;

    #[inline(always)]
    fn reports(a: f32, b: f32, result: f32) -> bool {
        !result.is_finite() & a.is_finite() & b.is_finite()
    }
}

impl<T: LaneScalar, F: Fn2<T, Out = T>, R: Reports<T>> OpStep for TreeReduceOp<T, F, R> {
    const SHAPE: OpShape = OpShape::new("tree")
        .a(RegisterRole::Uniform(Width::Four))
        .x(OperandRole::Target)
        .y(OperandRole::Memory(MemoryOperandKind::Words));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: `y` is a shared array of one axis of 4-byte elements, of which twice the distance are within
        // its extent (G3). C1: `a` is uniform, of 4-byte lanes. C3: another op follows.
        unsafe {
            let o = &*op;
            let Some(distance) = distance(g, o) else {
                return op.add(1);
            };
            let array = (*g.memories.add(o.y as usize)).ptr;
            let left = if R::ANY { combine_unreported::<T, F, R>(array, distance) } else { 0 };
            if !R::ANY {
                combine::<T, F>(array, distance);
            }
            if T::SCALAR == Scalar::F32 {
                define_nans(array, distance);
            }
            let iterations = |distance: usize| distance.checked_ilog2().map_or(0, |log| log + 1);
            g.budget.iterations_left -= iterations(distance) - iterations(left);
            g.registers.broadcast(o.a, left as i32);
            if left == 0 { g.op_at(o.x) } else { op.add(1) }
        }
    }
}

/// Returns the first distance of a tree's op, if it can run the loop.
///
/// # Safety
/// The op is a [`TreeReduceOp`] of the group's code.
#[inline(always)]
pub(crate) unsafe fn distance(g: &ThreadGroup, tree: &Op) -> Option<usize> {
    // SAFETY: C4: `y` is a memory of one axis. C1: `a` is uniform, of 4-byte lanes.
    unsafe {
        let memory = &*g.memories.add(tree.y as usize);
        let distance = i64::from(g.registers.first::<i32>(tree.a));
        let row = g.mask.full && g.shape.is_row();
        let fits = row && distance >= 1 && distance <= g.shape.lanes as i64 && 2 * distance <= memory.axes[0].extent;
        (fits && g.budget.iterations_left > distance.ilog2() + 1).then_some(distance as usize)
    }
}

#[inline(always)]
unsafe fn read<T: LaneScalar>(at: *const u8) -> [T::Repr; CHUNK] {
    // SAFETY: the caller's address is that of 16 elements.
    unsafe { at.cast::<[T::Repr; CHUNK]>().read_unaligned() }
}

/// Gives the NaNs among the first elements, which all were computed, the bits that the language defines.
unsafe fn define_nans(s: *mut u8, count: usize) {
    let s = s.cast::<u32>();
    for i in 0..count {
        // SAFETY: the caller's array has `count` elements of 4 bytes.
        unsafe {
            let bits = s.add(i).read_unaligned();
            let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
            s.add(i).write_unaligned(if is_nan { Scalar::F32.canonical_nan() as u32 } else { bits });
        }
    }
}

/// Runs the iterations before the first one with an operation that is reported; returns the distance of that one, or 0.
#[inline(always)]
unsafe fn combine_unreported<T: LaneScalar, F: Fn2<T, Out = T>, R: Reports<T>>(s: *mut u8, mut d: usize) -> usize {
    let s = s.cast::<T::Repr>();
    // SAFETY: the caller's `s` has twice `d` elements of 4 bytes, as many as `T::Repr`.
    unsafe {
        let pair = |i: usize, d: usize| (T::get(s.add(i).read_unaligned()), T::get(s.add(i + d).read_unaligned()));
        while d > 0 {
            let mut reported = false;
            for i in 0..d {
                let (x, y) = pair(i, d);
                reported |= R::reports(x, y, F::call(x, y));
            }
            if reported {
                return d;
            }
            for i in 0..d {
                let (x, y) = pair(i, d);
                s.add(i).write_unaligned(F::call(x, y).put());
            }
            d /= 2;
        }
    }
    0
}

#[inline(always)]
unsafe fn combine<T: LaneScalar, F: Fn2<T, Out = T>>(s: *mut u8, mut d: usize) {
    const BYTES: usize = 4 * CHUNK;
    // SAFETY: the caller's `s` has twice `d` elements of 4 bytes, as many as `T::Repr`; of the last iterations, 16 lie
    // there as `d` was 8.
    unsafe {
        while d > 0 && d.is_multiple_of(CHUNK) {
            for chunk in 0..d / CHUNK {
                let to = s.add(chunk * BYTES);
                let (x, y) = (read::<T>(to), read::<T>(to.add(4 * d)));
                let mut r = x;
                for i in 0..CHUNK {
                    r[i] = F::call(T::get(x[i]), T::get(y[i])).put();
                }
                to.cast::<[T::Repr; CHUNK]>().write_unaligned(r);
            }
            d /= 2;
        }
        if d == CHUNK / 2 {
            // The last iterations stay in registers.
            let mut r = read::<T>(s);
            halve::<T, F, 8>(&mut r);
            halve::<T, F, 4>(&mut r);
            halve::<T, F, 2>(&mut r);
            halve::<T, F, 1>(&mut r);
            s.cast::<[T::Repr; CHUNK]>().write_unaligned(r);
            return;
        }
        let s = s.cast::<T::Repr>();
        while d > 0 {
            for i in 0..d {
                let (x, y) = (s.add(i).read_unaligned(), s.add(i + d).read_unaligned());
                s.add(i).write_unaligned(F::call(T::get(x), T::get(y)).put());
            }
            d /= 2;
        }
    }
}

#[inline(always)]
fn halve<T: LaneScalar, F: Fn2<T, Out = T>, const N: usize>(r: &mut [T::Repr; CHUNK]) {
    for i in 0..N {
        r[i] = F::call(T::get(r[i]), T::get(r[i + N])).put();
    }
}

/// The operation that combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CombineOp {
    Binary(BinOp),
    Math(MathFn),
}

/// Returns the op of a tree over elements of a type. `arithmetic`: overflow is reported. `nan`: so is the first NaN or
/// infinity.
pub(crate) fn tree(joint: CombineOp, scalar: Scalar, isa: Isa, arithmetic: bool, nan: bool) -> Option<OpFn> {
    use arith::{Add, Max, Min, Mul};
    Some(match (joint, scalar) {
        (CombineOp::Binary(BinOp::Add), Scalar::F32) if nan => pick::<TreeReduceOp<f32, Add, Nonfinite>>(isa),
        (CombineOp::Binary(BinOp::Mul), Scalar::F32) if nan => pick::<TreeReduceOp<f32, Mul, Nonfinite>>(isa),
        (CombineOp::Binary(BinOp::Add), Scalar::F32) => pick::<TreeReduceOp<f32, Add, NoEpilogue>>(isa),
        (CombineOp::Binary(BinOp::Mul), Scalar::F32) => pick::<TreeReduceOp<f32, Mul, NoEpilogue>>(isa),
        // One of the operands is the result.
        (CombineOp::Math(MathFn::Min), Scalar::F32) => pick::<TreeReduceOp<f32, Min, NoEpilogue>>(isa),
        (CombineOp::Math(MathFn::Max), Scalar::F32) => pick::<TreeReduceOp<f32, Max, NoEpilogue>>(isa),
        (CombineOp::Math(MathFn::Min), Scalar::I32) => pick::<TreeReduceOp<i32, Min, NoEpilogue>>(isa),
        (CombineOp::Math(MathFn::Max), Scalar::I32) => pick::<TreeReduceOp<i32, Max, NoEpilogue>>(isa),
        (CombineOp::Binary(BinOp::Add), Scalar::I32) if arithmetic => pick::<TreeReduceOp<i32, Add, Overflows>>(isa),
        (CombineOp::Binary(BinOp::Add), Scalar::I32 | Scalar::U32) => pick::<TreeReduceOp<i32, Add, NoEpilogue>>(isa),
        _ => return None,
    })
}
