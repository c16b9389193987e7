//! Operations among the 32 lanes of a warp. Either all threads of the warp take part, or those that a mask operand names: these
//! have to be converged here and to pass the same mask. Lanes with another mask form a separate group.

use super::code::{NONE, WarpDef};
use super::fault::stop_at;
use super::group::{Group, Op, WARP};
use super::lanes::slow::{read_value, write_value};
use super::lanes::{Step, is_wide, lane_of_raw};
use super::shape::{Shape, Word};
use crate::device::{Among, FaultKind};
use crate::lang::ops::{BinaryOp, MathFn, WarpOp};
use crate::lang::scalar::exact::is_first_nonfinite;
use crate::lang::scalar::{Scalar, Value, dynamic};

/// Returns the first lane and the number of lanes of each warp, block by block.
fn warps(g: &Group) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (block, blocks) = (g.lanes / g.shape[3], g.shape[3]);
    let starts = (0..block).step_by(WARP);
    (0..blocks).flat_map(move |b| starts.clone().map(move |s| (b * block + s, WARP.min(block - s))))
}

/// Returns how many of a warp's lanes are active.
fn arrived(g: &Group, first: usize, count: usize) -> usize {
    if g.full { count } else { (first..first + count).filter(|&l| g.is_active(l)).count() }
}

/// Stops at the first warp of which only some lanes are active; returns whether there is none.
fn check(g: &mut Group, what: &'static str, span: u32) -> bool {
    if g.full {
        return true;
    }
    let broken = |&(first, count): &(usize, usize)| !matches!(arrived(g, first, count), n if n == 0 || n == count);
    let Some((first, count)) = warps(g).find(broken) else {
        return true;
    };
    let arrived = arrived(g, first, count) as u32;
    let lane = (first..first + count).find(|&l| g.is_active(l)).unwrap_or(first);
    let elsewhere = super::control::parted_at(g, first..first + count);
    let kind = FaultKind::Divergence { what, arrived, expected: count as u32, elsewhere };
    stop_at(g, kind, span, lane, u64::from(arrived) - 1);
    false
}

/// `warp_barrier()`
pub(crate) struct WarpBarrier;

impl Step for WarpBarrier {
    const SHAPE: Shape = Shape::new("warp barrier").y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, with one behind.
        unsafe { if check(g, "warp_barrier", (*op).y) { op.add(1) } else { std::ptr::null() } }
    }
}

/// Operation `x` of the code's warp operations.
pub(crate) struct Warp;

impl Step for Warp {
    const SHAPE: Shape = Shape::new("warp").x(Word::Warp);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: G5: the code lives as long as the run of its ops; C4: `x` is a warp operation (indexing checks it).
        let def = unsafe { &(&(*g.code).warps)[(*op).x as usize] };
        if def.among != NONE {
            return match among(g, def) {
                Ok(()) => op.wrapping_add(1),
                Err((kind, lane)) => stop_at(g, kind, def.span, lane, 0),
            };
        }
        if !check(g, name(def.op), def.span) {
            return std::ptr::null();
        }
        let warps: Vec<(usize, usize)> = warps(g).filter(|&(first, count)| arrived(g, first, count) > 0).collect();
        for (first, count) in warps {
            let wrong = if g.code().checks.arithmetic { wrong(g, def, first, count) } else { None };
            if let Some((kind, lane, others)) = wrong {
                return stop_at(g, kind, def.span, lane, others);
            }
            match def.op {
                WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
                    // SAFETY: C4: value and result are as wide as the operation's type; all lanes of the warp are active.
                    unsafe { shuffle(g, def, first, count) };
                }
                WarpOp::Ballot | WarpOp::Any | WarpOp::All => vote(g, def, first, count),
                WarpOp::MatchAny => operate(g, def, first, u32::MAX >> (WARP - count), &(0..count).collect::<Vec<_>>()),
                _ => reduce(g, def, first, count),
            }
            if let Some(kind) = infinite(g, def, first, &(0..count).collect::<Vec<_>>()) {
                return stop_at(g, kind, def.span, first, count as u64 - 1);
            }
        }
        op.wrapping_add(1)
    }
}

pub(crate) fn name(op: WarpOp) -> &'static str {
    match op {
        WarpOp::Shuffle => "shuffle",
        WarpOp::ShuffleUp => "shuffle_up",
        WarpOp::ShuffleDown => "shuffle_down",
        WarpOp::ShuffleXor => "shuffle_xor",
        WarpOp::Ballot => "ballot",
        WarpOp::Any => "warp_any",
        WarpOp::All => "warp_all",
        WarpOp::ReduceAdd => "warp_reduce_add",
        WarpOp::ReduceMin => "warp_reduce_min",
        WarpOp::ReduceMax => "warp_reduce_max",
        WarpOp::ReduceAnd => "warp_reduce_and",
        WarpOp::ReduceOr => "warp_reduce_or",
        WarpOp::ReduceXor => "warp_reduce_xor",
        WarpOp::MatchAny => "match_any",
    }
}

/// Performs an operation with a mask operand. The error is a fault and the lane to report.
fn among(g: &mut Group, def: &WarpDef) -> Result<(), (FaultKind, usize)> {
    let warps: Vec<(usize, usize)> = warps(g).collect();
    for (first, count) in warps {
        let here = (0..count).filter(|&i| g.is_active(first + i)).fold(0u32, |bits, i| bits | 1 << i);
        // A register that views memory has the active lanes only.
        let mask = |i: usize| read_value(g, def.among, Scalar::U32, first + i).bits as u32;
        let masks: Vec<u32> = (0..count).map(|i| if here >> i & 1 != 0 { mask(i) } else { 0 }).collect();
        let mut left = here;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let mask = masks[lane];
            let fault = |wrong| (FaultKind::Among { what: name(def.op), mask, lane: lane as u32, wrong }, first + lane);
            if mask >> lane & 1 == 0 {
                return Err(fault(Among::Own));
            }
            if mask & !here != 0 {
                return Err(fault(Among::Away((mask & !here).trailing_zeros())));
            }
            let group: Vec<usize> = (0..count).filter(|&i| mask >> i & 1 != 0).collect();
            if let Some(&other) = group.iter().find(|&&i| masks[i] != mask) {
                return Err(fault(Among::Other(other as u32, masks[other])));
            }
            if g.code().checks.arithmetic {
                wrong_among(g, def, first, &group)?;
            }
            operate(g, def, first, mask, &group);
            if let Some(kind) = infinite(g, def, first, &group) {
                return Err((kind, first + group[0]));
            }
            left &= !mask;
        }
    }
    Ok(())
}

/// Checks the operation of a group (only with checks on).
fn wrong_among(g: &Group, def: &WarpDef, first: usize, group: &[usize]) -> Result<(), (FaultKind, usize)> {
    let asked = |lane: usize| read_value(g, def.lane, Scalar::I32, first + lane).as_integer().unwrap_or(0) as i64;
    match def.op {
        WarpOp::Shuffle => {
            let lane = group.iter().copied().find(|&lane| !group.iter().any(|&from| from as i64 == asked(lane)));
            let Some(lane) = lane else { return Ok(()) };
            let mask = read_value(g, def.among, Scalar::U32, first + lane).bits as u32;
            let wrong = Among::Source(asked(lane));
            Err((FaultKind::Among { what: name(def.op), mask, lane: lane as u32, wrong }, first + lane))
        }
        WarpOp::ReduceAdd if def.scalar.is_signed() => {
            let values = group.iter().filter_map(|&i| read_value(g, def.value, def.scalar, first + i).as_integer());
            match overflow(values, def.scalar) {
                Some(kind) => Err((kind, first + group[0])),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Performs the operation of one group: lanes of a warp, in ascending order.
fn operate(g: &Group, def: &WarpDef, first: usize, mask: u32, group: &[usize]) {
    let value = |i: usize| read_value(g, def.value, def.scalar, first + i);
    let holding =
        |holds: &dyn Fn(usize) -> bool| group.iter().filter(|&&i| holds(i)).fold(0u32, |bits, &i| bits | 1 << i);
    let truth = |holds: bool| Value { ty: Scalar::Bool, bits: holds.into() };
    let everyone = |value: Value| group.iter().for_each(|&i| write_value(g, def.result, first + i, value));
    match def.op {
        WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
            let found: Vec<Value> = group
                .iter()
                .map(|&i| {
                    let amount = read_value(g, def.lane, Scalar::I32, first + i).as_integer().unwrap_or(0) as i64;
                    let from = source(def.op, i, amount, WARP);
                    value(if mask >> from & 1 != 0 { from } else { i })
                })
                .collect();
            group.iter().zip(found).for_each(|(&i, value)| write_value(g, def.result, first + i, value));
        }
        WarpOp::Ballot => everyone(Value { ty: Scalar::U32, bits: holding(&|i| value(i).bits != 0).into() }),
        WarpOp::Any => everyone(truth(holding(&|i| value(i).bits != 0) != 0)),
        WarpOp::All => everyone(truth(holding(&|i| value(i).bits != 0) == mask)),
        WarpOp::MatchAny => {
            let found: Vec<u32> = group.iter().map(|&i| holding(&|j| value(j).bits == value(i).bits)).collect();
            for (&i, bits) in group.iter().zip(found) {
                write_value(g, def.result, first + i, Value { ty: Scalar::U32, bits: bits.into() });
            }
        }
        _ => {
            let zero = Value { ty: def.scalar, bits: 0 };
            let total = group.iter().map(|&i| value(i)).reduce(|a, b| combine(def.op, a, b).unwrap_or(zero));
            everyone(total.unwrap_or(zero));
        }
    }
}

/// Returns the fault of the sum that was just computed, if it is the first NaN or infinity of a run that traps it.
fn infinite(g: &Group, def: &WarpDef, first: usize, group: &[usize]) -> Option<FaultKind> {
    if !g.code().checks.nan || def.op != WarpOp::ReduceAdd || !def.scalar.is_float() {
        return None;
    }
    let values: Vec<Value> = group.iter().map(|&lane| read_value(g, def.value, def.scalar, first + lane)).collect();
    let result = read_value(g, def.result, def.scalar, first + group[0]).with_defined_nan();
    let operation = || name(def.op).to_string();
    is_first_nonfinite(&values, result).then(|| FaultKind::NotFinite { operation: operation(), result })
}

/// Returns the fault of a sum that overflows its type.
fn overflow(values: impl Iterator<Item = i128>, ty: Scalar) -> Option<FaultKind> {
    let (sum, bits) = (values.sum::<i128>(), ty.bits());
    let fits = (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&sum);
    let operation = format!("warp_reduce_add: the sum {sum}");
    (!fits).then_some(FaultKind::Overflow { operation, ty })
}

/// Returns the source lane of lane `lane` in a shuffle; the lane itself if there is no such source.
pub(crate) fn source(op: WarpOp, lane: usize, amount: i64, count: usize) -> usize {
    let from = match op {
        WarpOp::ShuffleUp => lane as i64 - amount,
        WarpOp::ShuffleDown => lane as i64 + amount,
        WarpOp::ShuffleXor => lane as i64 ^ amount,
        _ => amount.rem_euclid(WARP as i64),
    };
    usize::try_from(from).ok().filter(|&f| f < count).unwrap_or(lane)
}

/// Checks the operation of one warp: a shuffle from a lane that does not exist, or a sum that overflows. Returns the fault, the
/// lane to report, and how many more there are.
fn wrong(g: &Group, def: &WarpDef, first: usize, count: usize) -> Option<(FaultKind, usize, u64)> {
    match def.op {
        WarpOp::Shuffle | WarpOp::ShuffleXor => {
            let lanes = if def.op == WarpOp::Shuffle { count } else { WARP };
            let asked = |lane: usize| read_value(g, def.lane, Scalar::I32, lane).as_integer().unwrap_or(0);
            let mut missing = (first..first + count).filter(|&lane| !(0..lanes as i128).contains(&asked(lane)));
            let lane = missing.next()?;
            let kind = FaultKind::NoLane { what: name(def.op), lane: asked(lane) as i64, lanes: count as u32 };
            Some((kind, lane, missing.count() as u64))
        }
        WarpOp::ReduceAdd if def.scalar.is_signed() => {
            let values = (first..first + count).filter_map(|l| read_value(g, def.value, def.scalar, l).as_integer());
            overflow(values, def.scalar).map(|kind| (kind, first, count as u64 - 1))
        }
        _ => None,
    }
}

unsafe fn shuffle(g: &Group, def: &WarpDef, first: usize, count: usize) {
    let mut values = [0u64; WARP];
    let wide = is_wide(def.scalar);
    // SAFETY: C4: value and result are as wide as the type, `lane` has 4-byte lanes; the caller's lanes exist, and are active.
    unsafe {
        for (i, value) in values.iter_mut().enumerate().take(count) {
            *value =
                if wide { g.lane::<u64>(def.value, first + i) } else { g.lane::<u32>(def.value, first + i).into() };
        }
        for i in 0..count {
            let amount = if def.lane == NONE { 0 } else { g.lane::<i32>(def.lane, first + i).into() };
            let value = values[source(def.op, i, amount, count)];
            if wide {
                g.set_lane(def.result, first + i, value);
            } else {
                g.set_lane(def.result, first + i, value as u32);
            }
        }
    }
}

fn vote(g: &Group, def: &WarpDef, first: usize, count: usize) {
    let holds = |i: usize| read_value(g, def.value, Scalar::Bool, first + i).bits != 0;
    let ballot = (0..count).fold(0u32, |bits, i| bits | u32::from(holds(i)) << i);
    let all = u32::MAX >> (WARP - count);
    let (scalar, raw) = match def.op {
        WarpOp::Ballot => (Scalar::U32, ballot.into()),
        WarpOp::Any => (Scalar::Bool, (ballot != 0).into()),
        _ => (Scalar::Bool, (ballot == all).into()),
    };
    let bits = lane_of_raw(scalar, raw) as u32;
    // SAFETY: C4: the result of a vote is a register of 4-byte lanes; the lanes of the warp exist.
    (first..first + count).for_each(|lane| unsafe { g.set_lane(def.result, lane, bits) });
}

/// The lanes of a warp.
pub(crate) const LANES: usize = WARP;

fn reduce(g: &Group, def: &WarpDef, first: usize, count: usize) {
    let zero = Value { ty: def.scalar, bits: 0 };
    let mut values = [zero; WARP];
    for (i, value) in values.iter_mut().enumerate().take(count) {
        *value = read_value(g, def.value, def.scalar, first + i);
    }
    butterfly(&mut values, count, |a, b| combine(def.op, a, b).unwrap_or(zero));
    for (i, value) in values.iter().enumerate().take(count) {
        write_value(g, def.result, first + i, *value);
    }
}

/// Reduces the first `count` lanes of a warp by a butterfly, so that the order of additions is the GPU's.
#[inline(always)]
pub(crate) fn butterfly<T: Copy>(values: &mut [T; WARP], count: usize, combine: impl Fn(T, T) -> T) {
    for distance in [16, 8, 4, 2, 1] {
        let before = *values;
        for i in (0..count).filter(|i| i ^ distance < count) {
            values[i] = combine(before[i], before[i ^ distance]);
        }
    }
    // A warp of fewer than 32 threads need not be a power of two: every lane gets lane 0's result, which includes all.
    if !count.is_power_of_two() {
        *values = [values[0]; WARP];
    }
}

pub(crate) fn combine(op: WarpOp, a: Value, b: Value) -> Option<Value> {
    match op {
        WarpOp::ReduceMin => dynamic::math(MathFn::Min, &[a, b]).ok(),
        WarpOp::ReduceMax => dynamic::math(MathFn::Max, &[a, b]).ok(),
        WarpOp::ReduceAnd => dynamic::binary(BinaryOp::BitAnd, a, b).ok(),
        WarpOp::ReduceOr => dynamic::binary(BinaryOp::BitOr, a, b).ok(),
        WarpOp::ReduceXor => dynamic::binary(BinaryOp::BitXor, a, b).ok(),
        _ => dynamic::binary(BinaryOp::Add, a, b).ok(),
    }
}
