//! Tree reductions in shared memory by sum, product, minimum or maximum: the loop `while d > 0 { if t < d { s[t] = s[t] F s[t +
//! d] } barrier() d /= 2 }` as one op. Every element sees the same operations in the same order; the gain is a dozen ops per
//! iteration, most of which would have run for a few lanes.

use std::marker::PhantomData;

use super::group::{CHUNK, Group, Op, OpFn};
use super::lanes::{Fn2, Isa, Lane, Step, arith, pick};
use super::shape::{Field, Kind, Shape, Width, Word};
use crate::ir::def::BinOp;
use crate::lang::ops::MathFn;
use crate::lang::scalar::Scalar;

/// Stands in front of the loop, which ends at `x`: `a` is the uniform `d`, `y` the array of 4-byte elements. If an iteration
/// could be out of bounds, or the lanes are not all active in one row, the loop itself follows.
pub(crate) struct Tree<T, F>(PhantomData<(T, F)>);

impl<T: Lane, F: Fn2<T, Out = T>> Step for Tree<T, F> {
    const SHAPE: Shape = Shape::new("tree").a(Field::Uniform(Width::Four)).x(Word::Target).y(Word::Memory(Kind::Words));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: `y` is a shared array of one axis of 4-byte elements, of which twice the distance are within its extent
        // (G3). C1: `a` is uniform, of 4-byte lanes. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let Some(distance) = distance(g, o) else {
                return op.add(1);
            };
            g.ticks -= distance.ilog2() + 1;
            combine::<T, F>((*g.memories.add(o.y as usize)).ptr, distance);
            g.broadcast(o.a, 0i32);
            g.at(o.x)
        }
    }
}

/// Returns the first distance of a tree's op, if it can run the loop.
///
/// # Safety
/// The op is a [`Tree`] of the group's code.
#[inline(always)]
pub(crate) unsafe fn distance(g: &Group, tree: &Op) -> Option<usize> {
    // SAFETY: C4: `y` is a memory of one axis. C1: `a` is uniform, of 4-byte lanes.
    unsafe {
        let memory = &*g.memories.add(tree.y as usize);
        let distance = i64::from(g.first::<i32>(tree.a));
        let row = g.full && g.shape[0] == g.lanes;
        let fits = row && distance >= 1 && distance <= g.lanes as i64 && 2 * distance <= memory.axes[0].extent;
        (fits && g.ticks > distance.ilog2() + 1).then_some(distance as usize)
    }
}

#[inline(always)]
unsafe fn read<T: Lane>(at: *const u8) -> [T::Repr; CHUNK] {
    // SAFETY: the caller's address is that of 16 elements.
    unsafe { at.cast::<[T::Repr; CHUNK]>().read_unaligned() }
}

#[inline(always)]
unsafe fn combine<T: Lane, F: Fn2<T, Out = T>>(s: *mut u8, mut d: usize) {
    const BYTES: usize = 4 * CHUNK;
    // SAFETY: the caller's `s` has twice `d` elements of 4 bytes, as many as `T::Repr`; of the last iterations, 16 lie there as `d`
    // was 8.
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
fn halve<T: Lane, F: Fn2<T, Out = T>, const N: usize>(r: &mut [T::Repr; CHUNK]) {
    for i in 0..N {
        r[i] = F::call(T::get(r[i]), T::get(r[i + N])).put();
    }
}

/// The operation that combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    Binary(BinOp),
    Math(MathFn),
}

/// Returns the op of a tree over elements of a type.
pub(crate) fn tree(joint: Joint, scalar: Scalar, isa: Isa) -> Option<OpFn> {
    use arith::{Add, Max, Min, Mul};
    Some(match (joint, scalar) {
        (Joint::Binary(BinOp::Add), Scalar::F32) => pick::<Tree<f32, Add>>(isa),
        (Joint::Binary(BinOp::Mul), Scalar::F32) => pick::<Tree<f32, Mul>>(isa),
        (Joint::Math(MathFn::Min), Scalar::F32) => pick::<Tree<f32, Min>>(isa),
        (Joint::Math(MathFn::Max), Scalar::F32) => pick::<Tree<f32, Max>>(isa),
        (Joint::Binary(BinOp::Add), Scalar::I32 | Scalar::U32) => pick::<Tree<i32, Add>>(isa),
        (Joint::Math(MathFn::Min), Scalar::I32) => pick::<Tree<i32, Min>>(isa),
        (Joint::Math(MathFn::Max), Scalar::I32) => pick::<Tree<i32, Max>>(isa),
        _ => return None,
    })
}
