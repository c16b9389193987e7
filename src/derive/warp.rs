//! Warp operations: tangents of their results, and adjoints of their operands.

use super::lost::Lost;
use super::rules::{Maker, constant};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::typing::{BOOL, U32};
use crate::lang::ops::{MathFn, WarpOp};

/// A warp operation of the original kernel.
pub(super) struct Operands {
    pub op: WarpOp,
    pub value: ExprId,
    pub lane: Option<ExprId>,
    pub among: Option<ExprId>,
    pub result: ExprId,
}

/// Returns the tangent of the result.
pub(super) fn tangent<M: Maker>(m: &mut M, of: &Operands, tangent: ExprId) -> ExprId {
    match of.op {
        WarpOp::ReduceMin | WarpOp::ReduceMax => {
            let (wins, share) = winners(m, of);
            let own = masked(m, wins, tangent);
            let sum = m.builder().warp_among(WarpOp::ReduceAdd, own, None, of.among);
            m.builder().binary(BinOp::Div, sum, share)
        }
        op => m.builder().warp_among(op, tangent, of.lane, of.among),
    }
}

/// Returns the adjoint of the operand, from that of the result.
pub(super) fn adjoint<M: Maker>(m: &mut M, of: &Operands, adjoint: ExprId, span: Span) -> Result<ExprId, Lost> {
    let among = of.among.map(|mask| m.here(mask));
    match of.op {
        WarpOp::ReduceAdd => Ok(m.builder().warp_among(WarpOp::ReduceAdd, adjoint, None, among)),
        WarpOp::ReduceMin | WarpOp::ReduceMax => {
            let sum = m.builder().warp_among(WarpOp::ReduceAdd, adjoint, None, among);
            let (wins, share) = winners(m, of);
            let scalar = m.builder().ty(sum).scalar();
            let share = m.builder().convert(share, scalar);
            let own = m.builder().binary(BinOp::Div, sum, share);
            Ok(masked(m, wins, own))
        }
        _ => shuffle(m, of, adjoint, span),
    }
}

/// Returns whether this lane has the extreme value, and how many have.
fn winners<M: Maker>(m: &mut M, of: &Operands) -> (ExprId, ExprId) {
    let (value, result) = (m.here(of.value), m.here(of.result));
    let among = of.among.map(|mask| m.here(mask));
    let b = m.builder();
    let scalar = b.ty(value).scalar();
    let wins = b.binary(BinOp::Eq, value, result);
    let mask = b.warp_among(WarpOp::Ballot, wins, None, among);
    let count = b.math(MathFn::Popcount, &[mask]);
    (wins, b.convert(count, scalar))
}

fn masked<M: Maker>(m: &mut M, cond: ExprId, value: ExprId) -> ExprId {
    let ty = m.builder().ty(value);
    let zero = constant(m.builder(), ty, 0.0);
    m.builder().select(cond, value, zero)
}

/// The adjoint of a shuffle is a shuffle in the opposite direction; lanes whose source is not there have their own value.
fn shuffle<M: Maker>(m: &mut M, of: &Operands, adjoint: ExprId, span: Span) -> Result<ExprId, Lost> {
    let refuse = |what: &str| Err(Lost::new(span, what, "shuffle all lanes by a constant"));
    let Some(amount) = of.lane else { return refuse("this warp operation has no derivative") };
    let b = m.builder();
    let constant_of = match (&b.function().exprs[amount].kind, b.ty(amount).scalar()) {
        (ExprKind::Const(bits), scalar) => crate::lang::scalar::Value { ty: scalar, bits: *bits }.as_integer(),
        _ => None,
    };
    let Some(by) = constant_of.filter(|by| (0..32).contains(by)) else {
        return refuse("the derivative of a shuffle by an amount that is not a constant is not known");
    };
    if of.among.is_some() && of.op != WarpOp::ShuffleXor {
        return refuse("the derivative of a shuffle among some lanes is not known");
    }
    let by = b.i32(by as i32);
    let lane = b.lane_idx();
    match of.op {
        WarpOp::ShuffleXor => {
            let among = of.among.map(|mask| m.here(mask));
            Ok(m.builder().warp_among(WarpOp::ShuffleXor, adjoint, Some(by), among))
        }
        WarpOp::ShuffleDown | WarpOp::ShuffleUp => {
            let down = of.op == WarpOp::ShuffleDown;
            let back = if down { WarpOp::ShuffleUp } else { WarpOp::ShuffleDown };
            let moved = b.warp(back, adjoint, Some(by));
            let present = lanes(m);
            let b = m.builder();
            let above = b.binary(BinOp::Add, lane, by);
            let at_end = b.binary(BinOp::Ge, above, present);
            let at_start = b.binary(BinOp::Lt, lane, by);
            // This lane's own value went to the lane from which `moved` comes, and stayed where there was no source.
            let (no_target, kept) = if down { (at_start, at_end) } else { (at_end, at_start) };
            let ty = b.ty(adjoint);
            let zero = constant(b, ty, 0.0);
            let moved = b.select(no_target, zero, moved);
            let own = b.select(kept, adjoint, zero);
            Ok(b.binary(BinOp::Add, moved, own))
        }
        _ if b.ty(adjoint).lanes() == 1 => {
            let sum = b.warp(WarpOp::ReduceAdd, adjoint, None);
            let present = lanes(m);
            let is_source = m.builder().binary(BinOp::Eq, lane, by);
            let all = masked(m, is_source, sum);
            let b = m.builder();
            let exists = b.binary(BinOp::Lt, by, present);
            Ok(b.select(exists, all, adjoint))
        }
        _ => refuse("the derivative of a shuffle of vectors to one lane is not known"),
    }
}

/// Returns the number of lanes of the warp that take part.
fn lanes<M: Maker>(m: &mut M) -> ExprId {
    let b = m.builder();
    let yes = b.bool(true);
    debug_assert_eq!(b.ty(yes), BOOL);
    let mask = b.warp(WarpOp::Ballot, yes, None);
    debug_assert_eq!(b.ty(mask), U32);
    let count = b.math(MathFn::Popcount, &[mask]);
    b.convert(count, crate::lang::scalar::Scalar::I32)
}
