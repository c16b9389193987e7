//! Derivatives of warp operations: tangents of their results, and adjoints of their operands.

use super::error::NotDifferentiable;
use super::rules::{PrimalExprEmitter, constant};
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::typing::{BOOL, U32};
use clk_scalar::ops::{MathFn, WarpOp};

/// A warp operation of the primal kernel.
pub(super) struct WarpOperands {
    pub op: WarpOp,
    pub value: ExprId,
    pub lane: Option<ExprId>,
    pub among: Option<ExprId>,
    pub result: ExprId,
}

/// Emits the tangent of the result, given the tangent of the operand.
pub(super) fn tangent<M: PrimalExprEmitter>(m: &mut M, of: &WarpOperands, tangent: ExprId) -> ExprId {
    match of.op {
        WarpOp::ReduceMin | WarpOp::ReduceMax => {
            let (wins, share) = extreme_lanes(m, of);
            let own_tangent = zero_unless(m, wins, tangent);
            let sum = m.builder().warp_masked(WarpOp::ReduceAdd, own_tangent, None, of.among);
            m.builder().binary(BinOp::Div, sum, share)
        }
        op => m.builder().warp_masked(op, tangent, of.lane, of.among),
    }
}

/// Emits the adjoint of the operand, given the adjoint of the result.
pub(super) fn adjoint<M: PrimalExprEmitter>(
    m: &mut M,
    of: &WarpOperands,
    adjoint: ExprId,
    span: Span,
) -> Result<ExprId, NotDifferentiable> {
    let among = of.among.map(|mask| m.current_value(mask));
    match of.op {
        WarpOp::ReduceAdd => Ok(m.builder().warp_masked(WarpOp::ReduceAdd, adjoint, None, among)),
        WarpOp::ReduceMin | WarpOp::ReduceMax => {
            let sum = m.builder().warp_masked(WarpOp::ReduceAdd, adjoint, None, among);
            let (wins, share) = extreme_lanes(m, of);
            let scalar = m.builder().ty(sum).scalar();
            let share = m.builder().convert(share, scalar);
            let own_share = m.builder().binary(BinOp::Div, sum, share);
            Ok(zero_unless(m, wins, own_share))
        }
        _ => shuffle(m, of, adjoint, span),
    }
}

/// Emits two values: whether this lane has the minimum or maximum that the operation returned, and the number of lanes
/// that have it.
fn extreme_lanes<M: PrimalExprEmitter>(m: &mut M, of: &WarpOperands) -> (ExprId, ExprId) {
    let (value, result) = (m.current_value(of.value), m.current_value(of.result));
    let among = of.among.map(|mask| m.current_value(mask));
    let b = m.builder();
    let scalar = b.ty(value).scalar();
    let wins = b.binary(BinOp::Eq, value, result);
    let mask = b.warp_masked(WarpOp::Ballot, wins, None, among);
    let count = b.math(MathFn::Popcount, &[mask]);
    (wins, b.convert(count, scalar))
}

fn zero_unless<M: PrimalExprEmitter>(m: &mut M, cond: ExprId, value: ExprId) -> ExprId {
    let ty = m.builder().ty(value);
    let zero = constant(m.builder(), ty, 0.0);
    m.builder().select(cond, value, zero)
}

/// Emits the adjoint of a shuffle, which is a shuffle in the opposite direction. A lane without a source lane keeps its
/// own value, so it also keeps its adjoint.
fn shuffle<M: PrimalExprEmitter>(
    m: &mut M,
    of: &WarpOperands,
    adjoint: ExprId,
    span: Span,
) -> Result<ExprId, NotDifferentiable> {
    let refuse = |what: &str| Err(NotDifferentiable::new(span, what, "shuffle all lanes by a constant"));
    let Some(amount) = of.lane else { return refuse("this warp operation has no derivative") };
    let b = m.builder();
    let Some(by) = b.function().const_integer(amount).filter(|by| (0..32).contains(by)) else {
        return refuse("a shuffle by an amount that is not a constant has no derivative");
    };
    if of.among.is_some() && of.op != WarpOp::ShuffleXor {
        return refuse("a shuffle among a subset of the lanes has no derivative");
    }
    let by = b.i32(by as i32);
    let lane = b.lane_idx();
    match of.op {
        WarpOp::ShuffleXor => {
            let among = of.among.map(|mask| m.current_value(mask));
            Ok(m.builder().warp_masked(WarpOp::ShuffleXor, adjoint, Some(by), among))
        }
        WarpOp::ShuffleDown | WarpOp::ShuffleUp => {
            let down = of.op == WarpOp::ShuffleDown;
            let back = if down { WarpOp::ShuffleUp } else { WarpOp::ShuffleDown };
            let shifted = b.warp(back, adjoint, Some(by));
            let present = lanes(m);
            let b = m.builder();
            let source_lane = b.binary(BinOp::Add, lane, by);
            let at_end = b.binary(BinOp::Ge, source_lane, present);
            let at_start = b.binary(BinOp::Lt, lane, by);
            // This lane's value went to the lane from which `shifted` comes, if there is such a lane. A lane without a
            // source lane also kept its own value.
            let (no_target, keeps_own) = if down { (at_start, at_end) } else { (at_end, at_start) };
            let ty = b.ty(adjoint);
            let zero = constant(b, ty, 0.0);
            let shifted = b.select(no_target, zero, shifted);
            let kept_adjoint = b.select(keeps_own, adjoint, zero);
            Ok(b.binary(BinOp::Add, shifted, kept_adjoint))
        }
        _ if b.ty(adjoint).lanes() == 1 => {
            let sum = b.warp(WarpOp::ReduceAdd, adjoint, None);
            let present = lanes(m);
            let is_source = m.builder().binary(BinOp::Eq, lane, by);
            let all = zero_unless(m, is_source, sum);
            let b = m.builder();
            let exists = b.binary(BinOp::Lt, by, present);
            Ok(b.select(exists, all, adjoint))
        }
        _ => refuse("a shuffle of vectors from one lane has no derivative"),
    }
}

/// Emits the number of active lanes of the warp.
fn lanes<M: PrimalExprEmitter>(m: &mut M) -> ExprId {
    let b = m.builder();
    let yes = b.bool(true);
    debug_assert_eq!(b.ty(yes), BOOL);
    let mask = b.warp(WarpOp::Ballot, yes, None);
    debug_assert_eq!(b.ty(mask), U32);
    let count = b.math(MathFn::Popcount, &[mask]);
    b.convert(count, clk_scalar::Scalar::I32)
}
