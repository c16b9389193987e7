//! Performs a barrier or warp operation once all participating threads have arrived.

use std::sync::Arc;

use super::check;
use super::thread::{Thread, ThreadPhase, Wait, fault};
use super::value::ThreadValue;
use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::{Stmt, StmtKind};
use clk_runtime::{Fault, FaultKind};
use clk_scalar::ops::{BarrierKind, BinaryOp, MathFn, WarpOp};
use clk_scalar::{ScalarValue, dynamic};

pub(super) fn is_waiting_at(thread: &Thread<'_>, barrier: BarrierKind) -> bool {
    matches!(thread.phase, ThreadPhase::Waiting(Stmt { kind: StmtKind::Barrier { kind, .. }, .. }, _) if *kind == barrier)
}

/// Returns the statement at which all these threads wait, and the operands of each thread; `None` if they do not wait
/// at the same statement.
fn common_wait<'m>(threads: &[Arc<Thread<'m>>]) -> Option<(&'m Stmt, Vec<Wait>)> {
    let ThreadPhase::Waiting(place, _) = threads.first()?.phase else { return None };
    let wait = |thread: &Arc<Thread<'m>>| match thread.phase {
        ThreadPhase::Waiting(at, wait) if std::ptr::eq(at, place) => Some(wait),
        _ => None,
    };
    Some((place, threads.iter().map(wait).collect::<Option<Vec<Wait>>>()?))
}

/// Performs a warp operation if all threads of the warp, or all threads in its mask, wait at it. If checks are enabled,
/// a sum that overflows is a fault.
pub(super) fn run_warp_rendezvous(warp: &mut [Arc<Thread<'_>>], checks: Checks, faults: &mut Vec<Fault>) -> bool {
    if let Some((op, lanes)) = find_masked_group(warp) {
        if let Some(found) = overflow_fault(warp, &lanes, checks) {
            faults.push(found);
            return true;
        }
        let operands: Vec<Option<(ThreadValue, i128)>> = (0..warp.len())
            .map(|i| match warp[i].phase {
                ThreadPhase::Waiting(_, Wait::Warp { value, lane, .. }) if lanes.contains(&i) => {
                    Some((value, lane.map_or(0, |l| l.integer())))
                }
                _ => None,
            })
            .collect();
        let results: Vec<ThreadValue> = lanes.iter().map(|&lane| group_result(op, &operands, lane)).collect();
        if let Some(found) = nonfinite_sum_fault(warp, &lanes, results[0], checks) {
            faults.push(found);
            return true;
        }
        for (&lane, result) in lanes.iter().zip(results) {
            Arc::make_mut(&mut warp[lane]).resume(Some(result));
        }
        return true;
    }
    let Some((place, waits)) = common_wait(warp) else { return false };
    if waits.iter().any(|wait| matches!(wait, Wait::Warp { among: Some(_), .. })) {
        return false;
    }
    if let Some(found) = overflow_fault(warp, &(0..warp.len()).collect::<Vec<_>>(), checks) {
        faults.push(found);
        return true;
    }
    let results = match place.kind {
        StmtKind::Barrier { kind: BarrierKind::Warp, .. } => vec![None; warp.len()],
        StmtKind::Warp { op, .. } => {
            let operand_of = |wait: &Wait| match *wait {
                Wait::Warp { value, lane, .. } => (value, lane.map_or(0, |l| l.integer())),
                Wait::Barrier { .. } => panic!("it is a warp operation"),
            };
            let lanes: Vec<_> = waits.iter().map(operand_of).collect();
            warp_results(op, &lanes).into_iter().map(Some).collect()
        }
        _ => return false,
    };
    if let Some(Some(result)) = results.first()
        && let Some(found) = nonfinite_sum_fault(warp, &(0..warp.len()).collect::<Vec<_>>(), *result, checks)
    {
        faults.push(found);
        return true;
    }
    warp.iter_mut().zip(results).for_each(|(thread, result)| Arc::make_mut(thread).resume(result));
    true
}

/// If the threads of these lanes wait at a sum that overflows, stops them and returns the fault.
fn overflow_fault(warp: &mut [Arc<Thread<'_>>], lanes: &[usize], checks: Checks) -> Option<Fault> {
    let (values, span) = addends(warp, lanes)?;
    let kind = check::sum(checks, values.first()?.ty, values.iter().filter_map(|value| value.as_integer()))?;
    Some(fault_lanes(warp, lanes, kind, span))
}

/// Like [`overflow_fault`], but for a float sum whose result is NaN or infinite.
fn nonfinite_sum_fault(
    warp: &mut [Arc<Thread<'_>>],
    lanes: &[usize],
    result: ThreadValue,
    checks: Checks,
) -> Option<Fault> {
    let (values, span) = addends(warp, lanes)?;
    let kind = check::float_sum(checks, &values, result.lane(0))?;
    Some(fault_lanes(warp, lanes, kind, span))
}

/// Returns the addends of these lanes, and the source location, if the lanes wait at a warp-wide sum.
fn addends(warp: &[Arc<Thread<'_>>], lanes: &[usize]) -> Option<(Vec<ScalarValue>, Span)> {
    let first = *lanes.first()?;
    let ThreadPhase::Waiting(Stmt { kind: StmtKind::Warp { op: WarpOp::ReduceAdd, .. }, span }, _) = warp[first].phase
    else {
        return None;
    };
    let addend = |&lane: &usize| match warp[lane].phase {
        ThreadPhase::Waiting(_, Wait::Warp { value, .. }) => Some(value.lane(0)),
        _ => None,
    };
    Some((lanes.iter().filter_map(addend).collect(), *span))
}

/// Stops the threads of these lanes. Returns the fault, attributed to the first of them.
fn fault_lanes(warp: &mut [Arc<Thread<'_>>], lanes: &[usize], kind: FaultKind, span: Span) -> Fault {
    lanes.iter().for_each(|&lane| Arc::make_mut(&mut warp[lane]).phase = ThreadPhase::Faulted);
    fault(Arc::make_mut(&mut warp[lanes[0]]), kind, span, "")
}

/// Finds lanes that wait at the same warp operation and all pass the same mask, which consists of exactly these lanes.
fn find_masked_group(warp: &[Arc<Thread<'_>>]) -> Option<(WarpOp, Vec<usize>)> {
    let at = |lane: usize| match warp.get(lane)?.phase {
        ThreadPhase::Waiting(stmt, Wait::Warp { among: Some(mask), .. }) => Some((stmt, mask)),
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

/// Returns the result of a masked warp operation for lane `own`. Lanes outside of the mask have no
/// contribution.
fn group_result(op: WarpOp, contributions: &[Option<(ThreadValue, i128)>], own: usize) -> ThreadValue {
    let at = |lane: i128| usize::try_from(lane).ok().and_then(|l| contributions.get(l).copied().flatten());
    let (value, lane) = contributions[own].expect("it is one of the group");
    let own = own as i128;
    let from = |lane: i128| at(lane).map_or(value, |(val, _)| val);
    let holding = |holds: &dyn Fn(ThreadValue) -> bool| {
        let one =
            |(i, b): (usize, &Option<(ThreadValue, i128)>)| b.is_some_and(|(val, _)| holds(val)).then_some(1u32 << i);
        contributions.iter().enumerate().filter_map(one).sum::<u32>()
    };
    let fold = |combine: &dyn Fn(ScalarValue, ScalarValue) -> Result<ScalarValue, dynamic::ScalarError>| {
        let values = contributions.iter().flatten().map(|(val, _)| val.lane(0));
        ThreadValue::scalar(values.reduce(|a, b| combine(a, b).expect("a typed reduction")).expect("a lane"))
    };
    match op {
        WarpOp::Shuffle => from(lane.rem_euclid(32)),
        WarpOp::ShuffleUp => from(own - lane),
        WarpOp::ShuffleDown => from(own + lane),
        WarpOp::ShuffleXor => from(own ^ lane),
        WarpOp::Ballot => ThreadValue::scalar(ScalarValue::of(holding(&|val: ThreadValue| val.is_true()))),
        WarpOp::Any => ThreadValue::bool(holding(&|val: ThreadValue| val.is_true()) != 0),
        WarpOp::All => ThreadValue::bool(contributions.iter().flatten().all(|(val, _)| val.is_true())),
        WarpOp::MatchAny => {
            ThreadValue::scalar(ScalarValue::of(holding(&|val| val.lane(0).bits == value.lane(0).bits)))
        }
        WarpOp::ReduceAdd => fold(&|a, b| dynamic::binary(BinaryOp::Add, a, b)),
        WarpOp::ReduceMin => fold(&|a, b| dynamic::math(MathFn::Min, &[a, b])),
        WarpOp::ReduceMax => fold(&|a, b| dynamic::math(MathFn::Max, &[a, b])),
        WarpOp::ReduceAnd => fold(&|a, b| dynamic::binary(BinaryOp::BitAnd, a, b)),
        WarpOp::ReduceOr => fold(&|a, b| dynamic::binary(BinaryOp::BitOr, a, b)),
        WarpOp::ReduceXor => fold(&|a, b| dynamic::binary(BinaryOp::BitXor, a, b)),
    }
}

/// Returns the result of a warp operation without a mask for each lane. Lanes beyond the end of the block do not
/// participate.
fn warp_results(op: WarpOp, lanes: &[(ThreadValue, i128)]) -> Vec<ThreadValue> {
    let value = |lane: i128, own: usize| usize::try_from(lane).ok().and_then(|l| lanes.get(l)).unwrap_or(&lanes[own]).0;
    let shuffle = |from: &dyn Fn(i128, i128) -> i128| -> Vec<ThreadValue> {
        lanes.iter().enumerate().map(|(own, &(_, lane))| value(from(own as i128, lane), own)).collect()
    };
    let everyone = |val: ThreadValue| vec![val; lanes.len()];
    match op {
        WarpOp::Shuffle => shuffle(&|_, lane| lane.rem_euclid(32)),
        WarpOp::ShuffleUp => shuffle(&|own, lane| own - lane),
        WarpOp::ShuffleDown => shuffle(&|own, lane| own + lane),
        WarpOp::ShuffleXor => shuffle(&|own, lane| own ^ lane),
        WarpOp::Ballot => {
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, (val, _))| bits | (val.is_true() as u32) << i);
            everyone(ThreadValue::scalar(ScalarValue::of(bits)))
        }
        WarpOp::MatchAny => {
            let same = |own: ThreadValue| {
                let equal = |(i, (val, _)): (usize, &(ThreadValue, i128))| {
                    if val.lane(0).bits == own.lane(0).bits { 1u32 << i } else { 0 }
                };
                ThreadValue::scalar(ScalarValue::of(lanes.iter().enumerate().map(equal).sum::<u32>()))
            };
            lanes.iter().map(|&(own, _)| same(own)).collect()
        }
        WarpOp::Any => everyone(ThreadValue::bool(lanes.iter().any(|(val, _)| val.is_true()))),
        WarpOp::All => everyone(ThreadValue::bool(lanes.iter().all(|(val, _)| val.is_true()))),
        WarpOp::ReduceAdd => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::Add, a, b)),
        WarpOp::ReduceMin => butterfly(lanes, |a, b| dynamic::math(MathFn::Min, &[a, b])),
        WarpOp::ReduceMax => butterfly(lanes, |a, b| dynamic::math(MathFn::Max, &[a, b])),
        WarpOp::ReduceAnd => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitAnd, a, b)),
        WarpOp::ReduceOr => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitOr, a, b)),
        WarpOp::ReduceXor => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitXor, a, b)),
    }
}

/// Computes a butterfly reduction. A lane whose partner does not exist keeps its value. All lanes receive the result of
/// lane 0.
fn butterfly(
    lanes: &[(ThreadValue, i128)],
    combine: impl Fn(ScalarValue, ScalarValue) -> Result<ScalarValue, dynamic::ScalarError>,
) -> Vec<ThreadValue> {
    let mut values: Vec<ScalarValue> = lanes.iter().map(|(val, _)| val.lane(0)).collect();
    for distance in [16, 8, 4, 2, 1] {
        let partner = |lane: usize, own: ScalarValue| match values.get(lane ^ distance) {
            Some(&other) => combine(own, other).expect("a typed reduction"),
            None => own,
        };
        values = values.iter().enumerate().map(|(lane, &own)| partner(lane, own)).collect();
    }
    vec![ThreadValue::scalar(values[0]); lanes.len()]
}

/// Performs a block barrier if all threads of the block wait at the same barrier statement.
pub(super) fn run_block_rendezvous(threads: &mut [Arc<Thread<'_>>]) -> bool {
    let Some((place, waits)) = common_wait(threads) else { return false };
    let StmtKind::Barrier { kind, .. } = place.kind else { return false };
    let yes = |wait: &&Wait| matches!(wait, Wait::Barrier { value: Some(v), .. } if v.is_true());
    let votes = waits.iter().filter(yes).count();
    let result = match kind {
        BarrierKind::Block => None,
        BarrierKind::BlockAny => Some(ThreadValue::bool(votes > 0)),
        BarrierKind::BlockAll => Some(ThreadValue::bool(votes == threads.len())),
        BarrierKind::BlockCount => Some(ThreadValue::i32(votes as i32)),
        BarrierKind::Warp | BarrierKind::Grid => return false,
    };
    threads.iter_mut().for_each(|thread| Arc::make_mut(thread).resume(result));
    true
}
