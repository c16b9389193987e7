//! The drivers of arithmetic ops: a chunk of 16 lanes is loaded as an array, mapped and stored; LLVM turns each step
//! into one or two vector instructions. They are compiled once per instruction set and selected when a kernel is
//! loaded.

use std::marker::PhantomData;

use crate::current_mask::CurrentMask;
use crate::group::{Op, OpCall, OpFn, ThreadGroup};
use crate::group_registers::CHUNK;
use crate::op_shape::{OpShape, RegisterRole, Width};
use clk_runtime::Isa;
use clk_scalar::{ScalarType, bf16, f16};

/// The implementation of an op.
pub(crate) trait OpStep {
    /// What it expects of the op.
    const SHAPE: OpShape;

    /// Executes the op and returns the next one; null ends the run.
    ///
    /// # Safety
    /// `op` is an op of the group's code, which [`verify`](crate::verify) accepts, and whose shape is this
    /// step's; or a copy of one whose registers, masks and tables fit that shape as well. The group is in a frame, at
    /// this op.
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op;
}

unsafe fn base<S: OpStep>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    // SAFETY: as the step requires.
    unsafe { S::step(g, op) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<S: OpStep>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    // SAFETY: as the step requires. G6: the machine has these instructions.
    unsafe { S::step(g, op) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx512<S: OpStep>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    // SAFETY: as the step requires. G6: the machine has these instructions.
    unsafe { S::step(g, op) }
}

/// Returns the step compiled for an instruction set. Debug builds have only one version: without optimization the
/// others would hardly differ, and take time to compile.
pub(crate) fn pick<S: OpStep>(isa: Isa) -> OpFn {
    #[cfg(debug_assertions)]
    {
        let _ = isa;
        plain::<S>()
    }
    #[cfg(not(debug_assertions))]
    pick_vectors::<S>(isa)
}

/// Returns a step that is written for the vectors of an instruction set.
pub(crate) fn pick_vectors<S: OpStep>(isa: Isa) -> OpFn {
    let call: OpCall = match isa {
        Isa::Base => base::<S>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<S>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<S>,
    };
    OpFn::new(call, &S::SHAPE)
}

/// Returns the step compiled once, for ops that do not profit from wider vectors.
pub(crate) fn plain<S: OpStep>() -> OpFn {
    OpFn::new(base::<S>, &S::SHAPE)
}

/// A scalar with its representation in a register: 4 or 8 bytes, small integers sign- or zero-extended, a `bool` 0 or
/// !0.
pub(crate) trait LaneScalar: ScalarType {
    type Repr: Copy + Default;
    fn get(repr: Self::Repr) -> Self;
    fn put(self) -> Self::Repr;
}

macro_rules! lane {
    ($($ty:ty: $repr:ty, $r:ident => $get:expr, $v:ident => $put:expr;)*) => {
        $(impl LaneScalar for $ty {
            type Repr = $repr;
            #[inline(always)]
            fn get($r: $repr) -> Self {
                $get
            }
            #[inline(always)]
            fn put(self) -> $repr {
                let $v = self;
                $put
            }
        })*
    };
}

lane! {
    bool: u32, r => r != 0, v => if v { !0 } else { 0 };
    i8: i32, r => r as i8, v => v.into();
    i16: i32, r => r as i16, v => v.into();
    i32: i32, r => r, v => v;
    i64: i64, r => r, v => v;
    u8: u32, r => r as u8, v => v.into();
    u16: u32, r => r as u16, v => v.into();
    u32: u32, r => r, v => v;
    u64: u64, r => r, v => v;
    f16: u32, r => f16::from_bits(r as u16), v => v.to_bits().into();
    bf16: u32, r => bf16::from_bits(r as u16), v => v.to_bits().into();
    f32: f32, r => r, v => v;
    f64: f64, r => r, v => v;
}

pub(crate) trait Fn1<A: LaneScalar> {
    type Out: LaneScalar;
    fn call(a: A) -> Self::Out;
}

pub(crate) trait Fn2<A: LaneScalar, B: LaneScalar = A> {
    type Out: LaneScalar;
    fn call(a: A, b: B) -> Self::Out;
}

pub(crate) trait Fn3<A: LaneScalar> {
    type Out: LaneScalar;
    fn call(a: A, b: A, c: A) -> Self::Out;
}

/// Returns the chunks that an op runs over: one for a uniform destination.
#[inline(always)]
pub(crate) fn chunks(mask: &CurrentMask, stride: usize) -> std::ops::Range<usize> {
    if stride == 0 { 0..1 } else { mask.chunks() }
}

/// Calls `f` with each chunk that an op runs over.
#[inline(always)]
pub(crate) fn each_chunk(mask: &CurrentMask, stride: usize, mut f: impl FnMut(usize)) {
    let one = [(0, 1)];
    for &(lo, hi) in if stride == 0 { &one } else { mask.ranges.as_slice() } {
        for chunk in lo as usize..hi as usize {
            f(chunk);
        }
    }
}

/// # Safety
/// `ptr` is a register's and the chunk is within the group.
#[inline(always)]
pub(crate) unsafe fn load<T: Copy>(ptr: *mut u8, stride: usize, chunk: usize) -> [T; CHUNK] {
    // SAFETY: the caller's register has the chunk, of lanes of `T`'s size (C1, G1).
    unsafe { ptr.add(chunk * stride).cast::<[T; CHUNK]>().read_unaligned() }
}

/// # Safety
/// As [`load`].
#[inline(always)]
pub(crate) unsafe fn store<T: Copy>(ptr: *mut u8, stride: usize, chunk: usize, value: [T; CHUNK]) {
    // SAFETY: the caller's register has the chunk, of lanes of `T`'s size (C1, G1).
    unsafe { ptr.add(chunk * stride).cast::<[T; CHUNK]>().write_unaligned(value) }
}

/// `d = f(a)`
pub(crate) struct Map1<A, F>(PhantomData<(A, F)>);
/// `d = f(a, b)`
pub(crate) struct Map2<A, B, F>(PhantomData<(A, B, F)>);
/// `d = f(a, b, c)`
pub(crate) struct Map3<A, F>(PhantomData<(A, F)>);

impl<A: LaneScalar, F: Fn1<A>> OpStep for Map1<A, F> {
    const SHAPE: OpShape = OpShape::new("map 1")
        .d(RegisterRole::Write(Width::of::<<F::Out as LaneScalar>::Repr>()))
        .a(RegisterRole::Read(Width::of::<A::Repr>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: the registers have lanes of these types, in all chunks of the mask (G1, G2), or `d` is uniform,
        // as is `a`. C3: another op follows.
        unsafe {
            let o = &*op;
            let (d, a) = (g.registers.slot(o.d), g.registers.slot(o.a));
            each_chunk(&g.mask, d.stride, |chunk| {
                let x = load::<A::Repr>(a.ptr, a.stride, chunk);
                let mut r = [<F::Out as LaneScalar>::Repr::default(); CHUNK];
                for i in 0..CHUNK {
                    r[i] = F::call(A::get(x[i])).put();
                }
                store(d.ptr, d.stride, chunk, r);
            });
            op.add(1)
        }
    }
}

impl<A: LaneScalar, B: LaneScalar, F: Fn2<A, B>> OpStep for Map2<A, B, F> {
    const SHAPE: OpShape = OpShape::new("map 2")
        .d(RegisterRole::Write(Width::of::<<F::Out as LaneScalar>::Repr>()))
        .a(RegisterRole::Read(Width::of::<A::Repr>()))
        .b(RegisterRole::Read(Width::of::<B::Repr>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: as for [`Map1`]. C3: another op follows.
        unsafe {
            let o = &*op;
            let (d, a, b) = (g.registers.slot(o.d), g.registers.slot(o.a), g.registers.slot(o.b));
            each_chunk(&g.mask, d.stride, |chunk| {
                let x = load::<A::Repr>(a.ptr, a.stride, chunk);
                let y = load::<B::Repr>(b.ptr, b.stride, chunk);
                let mut r = [<F::Out as LaneScalar>::Repr::default(); CHUNK];
                for i in 0..CHUNK {
                    r[i] = F::call(A::get(x[i]), B::get(y[i])).put();
                }
                store(d.ptr, d.stride, chunk, r);
            });
            op.add(1)
        }
    }
}

impl<A: LaneScalar, F: Fn3<A>> OpStep for Map3<A, F> {
    const SHAPE: OpShape = OpShape::new("map 3")
        .d(RegisterRole::Write(Width::of::<<F::Out as LaneScalar>::Repr>()))
        .a(RegisterRole::Read(Width::of::<A::Repr>()))
        .b(RegisterRole::Read(Width::of::<A::Repr>()))
        .c(RegisterRole::Read(Width::of::<A::Repr>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: as for [`Map1`]. C3: another op follows.
        unsafe {
            let o = &*op;
            let (d, a, b, c) =
                (g.registers.slot(o.d), g.registers.slot(o.a), g.registers.slot(o.b), g.registers.slot(o.c));
            each_chunk(&g.mask, d.stride, |chunk| {
                let x = load::<A::Repr>(a.ptr, a.stride, chunk);
                let y = load::<A::Repr>(b.ptr, b.stride, chunk);
                let z = load::<A::Repr>(c.ptr, c.stride, chunk);
                let mut r = [<F::Out as LaneScalar>::Repr::default(); CHUNK];
                for i in 0..CHUNK {
                    r[i] = F::call(A::get(x[i]), A::get(y[i]), A::get(z[i])).put();
                }
                store(d.ptr, d.stride, chunk, r);
            });
            op.add(1)
        }
    }
}
