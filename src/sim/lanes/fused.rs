//! Fused operators: chains of `f32` arithmetic, optionally with a comparison at the end, and masked results.
//! Intermediate values stay in vector registers; every step still rounds by itself.

use std::marker::PhantomData;

use super::arith::{Add, Ge, Gt, Le, Lt, Max, Min, Mul, Sub};
use super::wide::WideLanes;
use super::{Fn2, Fn3, LaneScalar, Map3, OpStep, each_chunk, load, pick, pick_wide, store};
use crate::group::{Op, OpFn, ThreadGroup};
use crate::group_registers::CHUNK;
use crate::op_shape::{OpShape, OperandRole, RegisterRole, Width};
use clk_ir::def::BinOp;
use clk_runtime::Isa;

/// A step of a chain: the operator that is applied to the value so far, and the side that value is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainOp {
    pub op: BinOp,
    /// The value so far is the right operand.
    pub reversed: bool,
}

/// `b - a`
pub(crate) struct SubFrom;

impl Fn2<f32> for SubFrom {
    type Out = f32;
    #[inline(always)]
    fn call(a: f32, b: f32) -> f32 {
        b - a
    }
}

/// `(a P b) Q c`
pub(crate) struct FusedPair<P, Q>(PhantomData<(P, Q)>);

impl<P: Fn2<f32, Out = f32>, Q: Fn2<f32>> Fn3<f32> for FusedPair<P, Q> {
    type Out = Q::Out;
    #[inline(always)]
    fn call(a: f32, b: f32, c: f32) -> Q::Out {
        Q::call(P::call(a, b), c)
    }
}

/// `d = ((a P b) Q c) R e`, where `e` is the register in `x`.
pub(crate) struct Three<P, Q, R>(PhantomData<(P, Q, R)>);

impl<P, Q, R> OpStep for Three<P, Q, R>
where
    P: Fn2<f32, Out = f32>,
    Q: Fn2<f32, Out = f32>,
    R: Fn2<f32>,
{
    const SHAPE: OpShape = OpShape::new("three")
        .d(RegisterRole::Write(Width::Four))
        .a(RegisterRole::Read(Width::Four))
        .b(RegisterRole::Read(Width::Four))
        .c(RegisterRole::Read(Width::Four))
        .x(OperandRole::Read(Width::Four));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: all five registers, of which `x` is one, have 4-byte lanes, in all chunks of the mask (G1, G2),
        // or are uniform. C3: another op follows.
        unsafe {
            let o = &*op;
            let (d, a, b, c, e) = (
                g.registers.slot(o.d),
                g.registers.slot(o.a),
                g.registers.slot(o.b),
                g.registers.slot(o.c),
                g.registers.slot(o.x as u16),
            );
            each_chunk(&g.mask, d.stride, |chunk| {
                let x = load::<f32>(a.ptr, a.stride, chunk);
                let y = load::<f32>(b.ptr, b.stride, chunk);
                let z = load::<f32>(c.ptr, c.stride, chunk);
                let w = load::<f32>(e.ptr, e.stride, chunk);
                let mut r = [<R::Out as LaneScalar>::Repr::default(); CHUNK];
                for i in 0..CHUNK {
                    r[i] = R::call(Q::call(P::call(x[i], y[i]), z[i]), w[i]).put();
                }
                store(d.ptr, d.stride, chunk, r);
            });
            op.add(1)
        }
    }
}

/// `d = a F b` in the active lanes.
pub(crate) struct MaskedBinary<V, A, F>(PhantomData<(V, A, F)>);

impl<V: WideLanes, A: LaneScalar, F: Fn2<A, Out = A>> OpStep for MaskedBinary<V, A, F> {
    const SHAPE: OpShape = OpShape::new("masked")
        .d(RegisterRole::Write(Width::Four))
        .a(RegisterRole::Read(Width::of::<A::Repr>()))
        .b(RegisterRole::Read(Width::of::<A::Repr>()));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: the registers have 4-byte lanes, in all chunks of the mask (G1, G2), as has the mask. C3: there
        // is an op behind.
        unsafe {
            let o = &*op;
            let (d, a, b) = (g.registers.slot(o.d), g.registers.slot(o.a), g.registers.slot(o.b));
            let mask = g.mask.lanes.cast::<u8>();
            each_chunk(&g.mask, d.stride, |chunk| {
                let x = load::<A::Repr>(a.ptr, a.stride, chunk);
                let y = load::<A::Repr>(b.ptr, b.stride, chunk);
                let mut r = [0; CHUNK];
                for i in 0..CHUNK {
                    r[i] = F::call(A::get(x[i]), A::get(y[i])).to_raw() as u32;
                }
                let to = d.ptr.add(chunk * d.stride);
                V::of(r).select(V::load(to), V::load(mask.add(chunk * 4 * CHUNK))).store(to);
            });
            op.add(1)
        }
    }
}

/// Returns whether a chain can start with an operator.
pub(crate) fn starts(op: BinOp) -> bool {
    matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul)
}

/// Calls a macro with the type of each link that can continue a chain.
macro_rules! with_link {
    ($link:expr, $then:ident, $($args:tt)*) => {
        match ($link.op, $link.reversed) {
            (BinOp::Add, _) => $then!($($args)*, Add),
            (BinOp::Mul, _) => $then!($($args)*, Mul),
            (BinOp::Sub, false) => $then!($($args)*, Sub),
            (BinOp::Sub, true) => $then!($($args)*, SubFrom),
            _ => None,
        }
    };
}

/// Returns the loop of `(a op b) link c`.
pub(crate) fn two(op: BinOp, link: ChainOp, isa: Isa) -> Option<OpFn> {
    match op {
        BinOp::Add => two_from::<Add>(link, isa),
        BinOp::Sub => two_from::<Sub>(link, isa),
        BinOp::Mul => two_from::<Mul>(link, isa),
        _ => None,
    }
}

fn two_from<P: Fn2<f32, Out = f32>>(link: ChainOp, isa: Isa) -> Option<OpFn> {
    macro_rules! take {
        ($($q:ty),+) => { Some(pick::<Map3<f32, FusedPair<P, $($q),+>>>(isa)) };
    }
    match (link.op, link.reversed) {
        (BinOp::Add, _) => take!(Add),
        (BinOp::Mul, _) => take!(Mul),
        (BinOp::Sub, false) => take!(Sub),
        (BinOp::Sub, true) => take!(SubFrom),
        (BinOp::Lt, false) | (BinOp::Gt, true) => take!(Lt),
        (BinOp::Le, false) | (BinOp::Ge, true) => take!(Le),
        (BinOp::Gt, false) | (BinOp::Lt, true) => take!(Gt),
        (BinOp::Ge, false) | (BinOp::Le, true) => take!(Ge),
        _ => None,
    }
}

/// Returns the loop of `((a op b) link c) last d`.
pub(crate) fn three(op: BinOp, link: ChainOp, last: ChainOp, isa: Isa) -> Option<OpFn> {
    match op {
        BinOp::Add => three_from::<Add>(link, last, isa),
        BinOp::Sub => three_from::<Sub>(link, last, isa),
        BinOp::Mul => three_from::<Mul>(link, last, isa),
        _ => None,
    }
}

fn three_from<P: Fn2<f32, Out = f32>>(link: ChainOp, last: ChainOp, isa: Isa) -> Option<OpFn> {
    macro_rules! go_on {
        ($p:ty, $q:ty) => {
            three_to::<$p, $q>(last, isa)
        };
    }
    with_link!(link, go_on, P)
}

fn three_to<P: Fn2<f32, Out = f32>, Q: Fn2<f32, Out = f32>>(last: ChainOp, isa: Isa) -> Option<OpFn> {
    macro_rules! take {
        ($p:ty, $q:ty, $r:ty) => {
            Some(pick::<Three<$p, $q, $r>>(isa))
        };
    }
    with_link!(last, take, P, Q)
}

/// Returns the loop of a binary operator whose result is stored in the active lanes only.
pub(crate) fn masked(function: Maskable, isa: Isa) -> OpFn {
    match function {
        Maskable::AddF => pick_wide!(isa, V => MaskedBinary<V, f32, Add>),
        Maskable::SubF => pick_wide!(isa, V => MaskedBinary<V, f32, Sub>),
        Maskable::MulF => pick_wide!(isa, V => MaskedBinary<V, f32, Mul>),
        Maskable::MinF => pick_wide!(isa, V => MaskedBinary<V, f32, Min>),
        Maskable::MaxF => pick_wide!(isa, V => MaskedBinary<V, f32, Max>),
        Maskable::AddI => pick_wide!(isa, V => MaskedBinary<V, i32, Add>),
        Maskable::SubI => pick_wide!(isa, V => MaskedBinary<V, i32, Sub>),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maskable {
    AddF,
    SubF,
    MulF,
    MinF,
    MaxF,
    AddI,
    SubI,
}
