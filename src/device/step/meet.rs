//! Barriers and warp operations: what happens when all threads that take part have arrived.

use std::sync::Arc;

use super::check::{self, Stop};
use super::thread::{Phase, Thread, Wait, fault};
use super::value::Val;
use crate::base::source::Span;
use crate::device::fault::Fault;
use crate::ir::Checks;
use crate::ir::def::{Stmt, StmtKind};
use crate::lang::ops::{BarrierKind, BinaryOp, MathFn, WarpOp};
use crate::lang::scalar::{Value, dynamic};

pub(super) fn waits_at(thread: &Thread<'_>, barrier: BarrierKind) -> bool {
    matches!(thread.phase, Phase::Waiting(Stmt { kind: StmtKind::Barrier { kind, .. }, .. }, _) if *kind == barrier)
}

/// Returns the statement that all these threads wait at, and the operands of each.
fn meeting<'m>(threads: &[Arc<Thread<'m>>]) -> Option<(&'m Stmt, Vec<Wait>)> {
    let Phase::Waiting(place, _) = threads.first()?.phase else { return None };
    let wait = |thread: &Arc<Thread<'m>>| match thread.phase {
        Phase::Waiting(at, wait) if std::ptr::eq(at, place) => Some(wait),
        _ => None,
    };
    Some((place, threads.iter().map(wait).collect::<Option<Vec<Wait>>>()?))
}

/// Performs a warp operation if all threads of the warp, or all in its mask, wait at it. A checked sum that overflows is a fault.
pub(super) fn meet_warp(warp: &mut [Arc<Thread<'_>>], checks: Checks, faults: &mut Vec<Fault>) -> bool {
    if let Some((op, lanes)) = group(warp) {
        if let Some(found) = overflow(warp, &lanes, checks) {
            faults.push(found);
            return true;
        }
        let brought: Vec<Option<(Val, i128)>> = (0..warp.len())
            .map(|i| match warp[i].phase {
                Phase::Waiting(_, Wait::Warp { value, lane, .. }) if lanes.contains(&i) => {
                    Some((value, lane.map_or(0, |l| l.integer())))
                }
                _ => None,
            })
            .collect();
        let results: Vec<Val> = lanes.iter().map(|&lane| group_result(op, &brought, lane)).collect();
        if let Some(found) = infinite(warp, &lanes, results[0], checks) {
            faults.push(found);
            return true;
        }
        for (&lane, result) in lanes.iter().zip(results) {
            Arc::make_mut(&mut warp[lane]).resume(Some(result));
        }
        return true;
    }
    let Some((place, waits)) = meeting(warp) else { return false };
    if waits.iter().any(|wait| matches!(wait, Wait::Warp { among: Some(_), .. })) {
        return false;
    }
    if let Some(found) = overflow(warp, &(0..warp.len()).collect::<Vec<_>>(), checks) {
        faults.push(found);
        return true;
    }
    let results = match place.kind {
        StmtKind::Barrier { kind: BarrierKind::Warp, .. } => vec![None; warp.len()],
        StmtKind::Warp { op, .. } => {
            let brought = |wait: &Wait| match *wait {
                Wait::Warp { value, lane, .. } => (value, lane.map_or(0, |l| l.integer())),
                Wait::Barrier { .. } => panic!("it is a warp operation"),
            };
            let lanes: Vec<_> = waits.iter().map(brought).collect();
            warp_results(op, &lanes).into_iter().map(Some).collect()
        }
        _ => return false,
    };
    if let Some(Some(result)) = results.first()
        && let Some(found) = infinite(warp, &(0..warp.len()).collect::<Vec<_>>(), *result, checks)
    {
        faults.push(found);
        return true;
    }
    warp.iter_mut().zip(results).for_each(|(thread, result)| Arc::make_mut(thread).resume(result));
    true
}

/// Ends the threads of these lanes, which wait at a warp operation, if that is a sum that overflows.
fn overflow(warp: &mut [Arc<Thread<'_>>], lanes: &[usize], checks: Checks) -> Option<Fault> {
    let (values, span) = addends(warp, lanes)?;
    let kind = check::sum(checks, values.first()?.ty, values.iter().filter_map(|value| value.as_integer()))?;
    Some(end(warp, lanes, (kind, span)))
}

/// Like [`overflow`], for a sum of floats that gives this result.
fn infinite(warp: &mut [Arc<Thread<'_>>], lanes: &[usize], result: Val, checks: Checks) -> Option<Fault> {
    let (values, span) = addends(warp, lanes)?;
    let kind = check::float_sum(checks, &values, result.lane(0))?;
    Some(end(warp, lanes, (kind, span)))
}

/// Returns the operands of these lanes, if they wait at a sum.
fn addends(warp: &[Arc<Thread<'_>>], lanes: &[usize]) -> Option<(Vec<Value>, Span)> {
    let first = *lanes.first()?;
    let Phase::Waiting(Stmt { kind: StmtKind::Warp { op: WarpOp::ReduceAdd, .. }, span }, _) = warp[first].phase else {
        return None;
    };
    let brought = |&lane: &usize| match warp[lane].phase {
        Phase::Waiting(_, Wait::Warp { value, .. }) => Some(value.lane(0)),
        _ => None,
    };
    Some((lanes.iter().filter_map(brought).collect(), *span))
}

/// Ends the threads of these lanes; the fault is of the first.
fn end(warp: &mut [Arc<Thread<'_>>], lanes: &[usize], stop: Stop) -> Fault {
    lanes.iter().for_each(|&lane| Arc::make_mut(&mut warp[lane]).phase = Phase::Faulted);
    fault(Arc::make_mut(&mut warp[lanes[0]]), stop, "")
}

/// Returns lanes that wait at the same operation and are exactly the lanes in its mask, as seen by each of them, so that they
/// can proceed.
fn group(warp: &[Arc<Thread<'_>>]) -> Option<(WarpOp, Vec<usize>)> {
    let at = |lane: usize| match warp.get(lane)?.phase {
        Phase::Waiting(stmt, Wait::Warp { among: Some(mask), .. }) => Some((stmt, mask)),
        _ => None,
    };
    (0..warp.len()).find_map(|lane| {
        let (stmt, mask) = at(lane)?;
        let lanes: Vec<usize> = (0..32).filter(|other| mask >> other & 1 != 0).collect();
        let same = |&other: &usize| at(other).is_some_and(|(s, m)| std::ptr::eq(s, stmt) && m == mask);
        let StmtKind::Warp { op, .. } = stmt.kind else { return None };
        (lanes.contains(&lane) && lanes.iter().all(same)).then_some((op, lanes))
    })
}

/// Returns the result of a lane of a group; the group's lanes are those with an operand.
fn group_result(op: WarpOp, brought: &[Option<(Val, i128)>], own: usize) -> Val {
    let at = |lane: i128| usize::try_from(lane).ok().and_then(|l| brought.get(l).copied().flatten());
    let (value, lane) = brought[own].expect("it is one of the group");
    let own = own as i128;
    let from = |lane: i128| at(lane).map_or(value, |(val, _)| val);
    let holding = |holds: &dyn Fn(Val) -> bool| {
        let one = |(i, b): (usize, &Option<(Val, i128)>)| b.is_some_and(|(val, _)| holds(val)).then_some(1u32 << i);
        brought.iter().enumerate().filter_map(one).sum::<u32>()
    };
    let fold = |combine: &dyn Fn(Value, Value) -> Result<Value, dynamic::Failure>| {
        let values = brought.iter().flatten().map(|(val, _)| val.lane(0));
        Val::scalar(values.reduce(|a, b| combine(a, b).expect("a typed reduction")).expect("a lane"))
    };
    match op {
        WarpOp::Shuffle => from(lane.rem_euclid(32)),
        WarpOp::ShuffleUp => from(own - lane),
        WarpOp::ShuffleDown => from(own + lane),
        WarpOp::ShuffleXor => from(own ^ lane),
        WarpOp::Ballot => Val::scalar(Value::of(holding(&|val: Val| val.is_true()))),
        WarpOp::Any => Val::bool(holding(&|val: Val| val.is_true()) != 0),
        WarpOp::All => Val::bool(brought.iter().flatten().all(|(val, _)| val.is_true())),
        WarpOp::MatchAny => Val::scalar(Value::of(holding(&|val| val.lane(0).bits == value.lane(0).bits))),
        WarpOp::ReduceAdd => fold(&|a, b| dynamic::binary(BinaryOp::Add, a, b)),
        WarpOp::ReduceMin => fold(&|a, b| dynamic::math(MathFn::Min, &[a, b])),
        WarpOp::ReduceMax => fold(&|a, b| dynamic::math(MathFn::Max, &[a, b])),
        WarpOp::ReduceAnd => fold(&|a, b| dynamic::binary(BinaryOp::BitAnd, a, b)),
        WarpOp::ReduceOr => fold(&|a, b| dynamic::binary(BinaryOp::BitOr, a, b)),
        WarpOp::ReduceXor => fold(&|a, b| dynamic::binary(BinaryOp::BitXor, a, b)),
    }
}

/// Returns the result of each lane. Lanes beyond the end of the block do not participate.
fn warp_results(op: WarpOp, lanes: &[(Val, i128)]) -> Vec<Val> {
    let value = |lane: i128, own: usize| usize::try_from(lane).ok().and_then(|l| lanes.get(l)).unwrap_or(&lanes[own]).0;
    let shuffle = |from: &dyn Fn(i128, i128) -> i128| -> Vec<Val> {
        lanes.iter().enumerate().map(|(own, &(_, lane))| value(from(own as i128, lane), own)).collect()
    };
    let everyone = |val: Val| vec![val; lanes.len()];
    match op {
        WarpOp::Shuffle => shuffle(&|_, lane| lane.rem_euclid(32)),
        WarpOp::ShuffleUp => shuffle(&|own, lane| own - lane),
        WarpOp::ShuffleDown => shuffle(&|own, lane| own + lane),
        WarpOp::ShuffleXor => shuffle(&|own, lane| own ^ lane),
        WarpOp::Ballot => {
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, (val, _))| bits | (val.is_true() as u32) << i);
            everyone(Val::scalar(Value::of(bits)))
        }
        WarpOp::MatchAny => {
            let same = |own: Val| {
                let equal = |(i, (val, _)): (usize, &(Val, i128))| {
                    if val.lane(0).bits == own.lane(0).bits { 1u32 << i } else { 0 }
                };
                Val::scalar(Value::of(lanes.iter().enumerate().map(equal).sum::<u32>()))
            };
            lanes.iter().map(|&(own, _)| same(own)).collect()
        }
        WarpOp::Any => everyone(Val::bool(lanes.iter().any(|(val, _)| val.is_true()))),
        WarpOp::All => everyone(Val::bool(lanes.iter().all(|(val, _)| val.is_true()))),
        WarpOp::ReduceAdd => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::Add, a, b)),
        WarpOp::ReduceMin => butterfly(lanes, |a, b| dynamic::math(MathFn::Min, &[a, b])),
        WarpOp::ReduceMax => butterfly(lanes, |a, b| dynamic::math(MathFn::Max, &[a, b])),
        WarpOp::ReduceAnd => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitAnd, a, b)),
        WarpOp::ReduceOr => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitOr, a, b)),
        WarpOp::ReduceXor => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitXor, a, b)),
    }
}

/// Computes a butterfly reduction; lane 0's result is the result of all lanes. A lane without a partner keeps its value.
fn butterfly(lanes: &[(Val, i128)], combine: impl Fn(Value, Value) -> Result<Value, dynamic::Failure>) -> Vec<Val> {
    let mut values: Vec<Value> = lanes.iter().map(|(val, _)| val.lane(0)).collect();
    for distance in [16, 8, 4, 2, 1] {
        let partner = |lane: usize, own: Value| match values.get(lane ^ distance) {
            Some(&other) => combine(own, other).expect("a typed reduction"),
            None => own,
        };
        values = values.iter().enumerate().map(|(lane, &own)| partner(lane, own)).collect();
    }
    vec![Val::scalar(values[0]); lanes.len()]
}

/// Performs a block barrier if all threads of the block wait at the same one.
pub(super) fn meet_block(threads: &mut [Arc<Thread<'_>>]) -> bool {
    let Some((place, waits)) = meeting(threads) else { return false };
    let StmtKind::Barrier { kind, .. } = place.kind else { return false };
    let yes = |wait: &&Wait| matches!(wait, Wait::Barrier { value: Some(v), .. } if v.is_true());
    let votes = waits.iter().filter(yes).count();
    let result = match kind {
        BarrierKind::Block => None,
        BarrierKind::BlockAny => Some(Val::bool(votes > 0)),
        BarrierKind::BlockAll => Some(Val::bool(votes == threads.len())),
        BarrierKind::BlockCount => Some(Val::i32(votes as i32)),
        BarrierKind::Warp | BarrierKind::Grid => return false,
    };
    threads.iter_mut().for_each(|thread| Arc::make_mut(thread).resume(result));
    true
}
