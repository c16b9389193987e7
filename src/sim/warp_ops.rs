//! Operations among the 32 lanes of a warp. All threads of the warp participate, or only the lanes in a mask operand.
//! The lanes of a mask have to be converged and have to pass the same mask. Lanes with different masks form separate
//! subgroups.

use super::code::{NONE, WarpDef};
use super::group::{GroupShape, Op, ThreadGroup, WARP};
use super::group_registers::GroupRegisters;
use super::lanes::slow::{read_value, write_value};
use super::lanes::{OpStep, is_wide, lane_of_raw};
use super::op_shape::{OpShape, OperandRole};
use clk_runtime::{FaultKind, WarpMaskError};
use clk_scalar::exact::is_first_nonfinite;
use clk_scalar::ops::{BinaryOp, MathFn, WarpOp};
use clk_scalar::{Scalar, ScalarValue, dynamic};

/// Returns the first lane and the number of lanes of each warp in the group, in the order of blocks.
fn warps(shape: &GroupShape) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (block, blocks) = (shape.lanes / shape.extents[3], shape.extents[3]);
    let starts = (0..block).step_by(WARP);
    (0..blocks).flat_map(move |b| starts.clone().map(move |s| (b * block + s, WARP.min(block - s))))
}

/// Returns how many lanes of a warp are active.
fn active_in_warp(g: &ThreadGroup, first: usize, count: usize) -> usize {
    if g.mask.full { count } else { (first..first + count).filter(|&l| g.is_active(l)).count() }
}

/// Stops the group if some warp is only partially active; reports the first such warp. Returns whether there is no such
/// warp.
fn check_full_warps(g: &mut ThreadGroup, what: &'static str, span: u32) -> bool {
    if g.mask.full {
        return true;
    }
    let broken =
        |&(first, count): &(usize, usize)| !matches!(active_in_warp(g, first, count), n if n == 0 || n == count);
    let Some((first, count)) = warps(&g.shape).find(broken) else {
        return true;
    };
    let arrived = active_in_warp(g, first, count) as u32;
    let lane = (first..first + count).find(|&l| g.is_active(l)).unwrap_or(first);
    let elsewhere = super::control_flow::divergence_span(g, first..first + count);
    let kind = FaultKind::Divergence { what, arrived, expected: count as u32, elsewhere };
    g.results.stop_at(kind, span, lane, u64::from(arrived) - 1);
    false
}

/// The built-in function `warp_barrier()`: checks that all lanes of each warp have arrived.
pub(crate) struct WarpBarrier;

impl OpStep for WarpBarrier {
    const SHAPE: OpShape = OpShape::new("warp barrier").y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, and another op follows.
        unsafe { if check_full_warps(g, "warp_barrier", (*op).y) { op.add(1) } else { std::ptr::null() } }
    }
}

/// Performs warp operation `x` of the code.
pub(crate) struct WarpStep;

impl OpStep for WarpStep {
    const SHAPE: OpShape = OpShape::new("warp").x(OperandRole::Warp);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: G5: the code outlives the run of its ops. C4: `x` is a warp operation (indexing checks it).
        let def = unsafe { &(&(*g.code).warps)[(*op).x as usize] };
        if def.participants != NONE {
            return match run_masked(g, def) {
                Ok(()) => op.wrapping_add(1),
                Err((kind, lane)) => g.results.stop_at(kind, def.span, lane, 0),
            };
        }
        if !check_full_warps(g, op_name(def.op), def.span) {
            return std::ptr::null();
        }
        let warps: Vec<(usize, usize)> =
            warps(&g.shape).filter(|&(first, count)| active_in_warp(g, first, count) > 0).collect();
        for (first, count) in warps {
            let wrong =
                if g.code().events.checks.arithmetic { warp_fault(&g.registers, def, first, count) } else { None };
            if let Some((kind, lane, others)) = wrong {
                return g.results.stop_at(kind, def.span, lane, others);
            }
            match def.op {
                WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
                    // SAFETY: C4: value and result are as wide as the operation's type. All lanes of the warp are
                    // active.
                    unsafe { shuffle(&g.registers, def, first, count) };
                }
                WarpOp::Ballot | WarpOp::Any | WarpOp::All => vote(&g.registers, def, first, count),
                WarpOp::MatchAny => {
                    run_subgroup(&g.registers, def, first, u32::MAX >> (WARP - count), &(0..count).collect::<Vec<_>>())
                }
                _ => reduce(&g.registers, def, first, count),
            }
            if let Some(kind) = nonfinite_fault(g, def, first, &(0..count).collect::<Vec<_>>()) {
                return g.results.stop_at(kind, def.span, first, count as u64 - 1);
            }
        }
        op.wrapping_add(1)
    }
}

pub(crate) fn op_name(op: WarpOp) -> &'static str {
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

/// Performs a warp operation with a mask operand. An error contains the fault and the lane to report.
fn run_masked(g: &mut ThreadGroup, def: &WarpDef) -> Result<(), (FaultKind, usize)> {
    let warps: Vec<(usize, usize)> = warps(&g.shape).collect();
    for (first, count) in warps {
        let active = (0..count).filter(|&i| g.is_active(first + i)).fold(0u32, |bits, i| bits | 1 << i);
        // If the register is a view of memory, only its active lanes are valid.
        let mask = |i: usize| read_value(&g.registers, def.participants, Scalar::U32, first + i).bits as u32;
        let masks: Vec<u32> = (0..count).map(|i| if active >> i & 1 != 0 { mask(i) } else { 0 }).collect();
        let mut left = active;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let mask = masks[lane];
            let fault =
                |wrong| (FaultKind::Among { what: op_name(def.op), mask, lane: lane as u32, wrong }, first + lane);
            if mask >> lane & 1 == 0 {
                return Err(fault(WarpMaskError::Own));
            }
            if mask & !active != 0 {
                return Err(fault(WarpMaskError::LaneAbsent((mask & !active).trailing_zeros())));
            }
            let group: Vec<usize> = (0..count).filter(|&i| mask >> i & 1 != 0).collect();
            if let Some(&other) = group.iter().find(|&&i| masks[i] != mask) {
                return Err(fault(WarpMaskError::Other(other as u32, masks[other])));
            }
            if g.code().events.checks.arithmetic {
                check_masked(&g.registers, def, first, &group)?;
            }
            run_subgroup(&g.registers, def, first, mask, &group);
            if let Some(kind) = nonfinite_fault(g, def, first, &group) {
                return Err((kind, first + group[0]));
            }
            left &= !mask;
        }
    }
    Ok(())
}

/// Checks the operation of one subgroup for an invalid source lane or an overflow. Called only if arithmetic checks are
/// on.
fn check_masked(
    registers: &GroupRegisters,
    def: &WarpDef,
    first: usize,
    group: &[usize],
) -> Result<(), (FaultKind, usize)> {
    let requested =
        |lane: usize| read_value(registers, def.lane, Scalar::I32, first + lane).as_integer().unwrap_or(0) as i64;
    match def.op {
        WarpOp::Shuffle => {
            let lane = group.iter().copied().find(|&lane| !group.iter().any(|&from| from as i64 == requested(lane)));
            let Some(lane) = lane else { return Ok(()) };
            let mask = read_value(registers, def.participants, Scalar::U32, first + lane).bits as u32;
            let wrong = WarpMaskError::Source(requested(lane));
            Err((FaultKind::Among { what: op_name(def.op), mask, lane: lane as u32, wrong }, first + lane))
        }
        WarpOp::ReduceAdd if def.scalar.is_signed() => {
            let values =
                group.iter().filter_map(|&i| read_value(registers, def.value, def.scalar, first + i).as_integer());
            match overflow_fault(values, def.scalar) {
                Some(kind) => Err((kind, first + group[0])),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Performs the operation of one subgroup. `group` lists its lanes within the warp, in ascending order.
fn run_subgroup(registers: &GroupRegisters, def: &WarpDef, first: usize, mask: u32, group: &[usize]) {
    let value = |i: usize| read_value(registers, def.value, def.scalar, first + i);
    let holding =
        |holds: &dyn Fn(usize) -> bool| group.iter().filter(|&&i| holds(i)).fold(0u32, |bits, &i| bits | 1 << i);
    let truth = |holds: bool| ScalarValue { ty: Scalar::Bool, bits: holds.into() };
    let everyone =
        |value: ScalarValue| group.iter().for_each(|&i| write_value(registers, def.result, first + i, value));
    match def.op {
        WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
            let results: Vec<ScalarValue> = group
                .iter()
                .map(|&i| {
                    let amount =
                        read_value(registers, def.lane, Scalar::I32, first + i).as_integer().unwrap_or(0) as i64;
                    let from = source_lane(def.op, i, amount, WARP);
                    value(if mask >> from & 1 != 0 { from } else { i })
                })
                .collect();
            group.iter().zip(results).for_each(|(&i, value)| write_value(registers, def.result, first + i, value));
        }
        WarpOp::Ballot => everyone(ScalarValue { ty: Scalar::U32, bits: holding(&|i| value(i).bits != 0).into() }),
        WarpOp::Any => everyone(truth(holding(&|i| value(i).bits != 0) != 0)),
        WarpOp::All => everyone(truth(holding(&|i| value(i).bits != 0) == mask)),
        WarpOp::MatchAny => {
            let results: Vec<u32> = group.iter().map(|&i| holding(&|j| value(j).bits == value(i).bits)).collect();
            for (&i, bits) in group.iter().zip(results) {
                write_value(registers, def.result, first + i, ScalarValue { ty: Scalar::U32, bits: bits.into() });
            }
        }
        _ => {
            let zero = ScalarValue { ty: def.scalar, bits: 0 };
            let total = group.iter().map(|&i| value(i)).reduce(|a, b| combine(def.op, a, b).unwrap_or(zero));
            everyone(total.unwrap_or(zero));
        }
    }
}

/// Returns a fault if `--trap-nan` is on and the computed sum is NaN or infinite although all values in it are finite.
fn nonfinite_fault(g: &ThreadGroup, def: &WarpDef, first: usize, group: &[usize]) -> Option<FaultKind> {
    if !g.code().events.checks.nan || def.op != WarpOp::ReduceAdd || !def.scalar.is_float() {
        return None;
    }
    let values: Vec<ScalarValue> =
        group.iter().map(|&lane| read_value(&g.registers, def.value, def.scalar, first + lane)).collect();
    let result = read_value(&g.registers, def.result, def.scalar, first + group[0]).with_canonical_nan();
    let operation = || op_name(def.op).to_string();
    is_first_nonfinite(&values, result).then(|| FaultKind::NotFinite { operation: operation(), result })
}

/// Returns a fault if the sum of the values overflows their type.
fn overflow_fault(values: impl Iterator<Item = i128>, ty: Scalar) -> Option<FaultKind> {
    let (sum, bits) = (values.sum::<i128>(), ty.bits());
    let is_in_range = (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&sum);
    let operation = format!("warp_reduce_add: the sum {sum}");
    (!is_in_range).then_some(FaultKind::Overflow { operation, ty })
}

/// Returns the lane from which `lane` gets its value in a shuffle; `lane` itself if the requested lane does not exist.
pub(crate) fn source_lane(op: WarpOp, lane: usize, amount: i64, count: usize) -> usize {
    let from = match op {
        WarpOp::ShuffleUp => lane as i64 - amount,
        WarpOp::ShuffleDown => lane as i64 + amount,
        WarpOp::ShuffleXor => lane as i64 ^ amount,
        _ => amount.rem_euclid(WARP as i64),
    };
    usize::try_from(from).ok().filter(|&f| f < count).unwrap_or(lane)
}

/// Checks the operation of one warp for a shuffle from a lane that does not exist, and for a sum that overflows.
/// Returns the fault, the lane to report, and the number of other lanes with the same fault.
fn warp_fault(
    registers: &GroupRegisters,
    def: &WarpDef,
    first: usize,
    count: usize,
) -> Option<(FaultKind, usize, u64)> {
    match def.op {
        WarpOp::Shuffle | WarpOp::ShuffleXor => {
            let lanes = if def.op == WarpOp::Shuffle { count } else { WARP };
            let requested = |lane: usize| read_value(registers, def.lane, Scalar::I32, lane).as_integer().unwrap_or(0);
            let mut missing = (first..first + count).filter(|&lane| !(0..lanes as i128).contains(&requested(lane)));
            let lane = missing.next()?;
            let kind =
                FaultKind::InvalidLane { what: op_name(def.op), lane: requested(lane) as i64, lanes: count as u32 };
            Some((kind, lane, missing.count() as u64))
        }
        WarpOp::ReduceAdd if def.scalar.is_signed() => {
            let values =
                (first..first + count).filter_map(|l| read_value(registers, def.value, def.scalar, l).as_integer());
            overflow_fault(values, def.scalar).map(|kind| (kind, first, count as u64 - 1))
        }
        _ => None,
    }
}

unsafe fn shuffle(registers: &GroupRegisters, def: &WarpDef, first: usize, count: usize) {
    let mut values = [0u64; WARP];
    let wide = is_wide(def.scalar);
    // SAFETY: C4: value and result are as wide as the type, and `lane` has 4-byte lanes. The caller's lanes exist and
    // are active.
    unsafe {
        for (i, value) in values.iter_mut().enumerate().take(count) {
            *value = if wide {
                registers.lane::<u64>(def.value, first + i)
            } else {
                registers.lane::<u32>(def.value, first + i).into()
            };
        }
        for i in 0..count {
            let amount = if def.lane == NONE { 0 } else { registers.lane::<i32>(def.lane, first + i).into() };
            let value = values[source_lane(def.op, i, amount, count)];
            if wide {
                registers.set_lane(def.result, first + i, value);
            } else {
                registers.set_lane(def.result, first + i, value as u32);
            }
        }
    }
}

fn vote(registers: &GroupRegisters, def: &WarpDef, first: usize, count: usize) {
    let holds = |i: usize| read_value(registers, def.value, Scalar::Bool, first + i).bits != 0;
    let ballot = (0..count).fold(0u32, |bits, i| bits | u32::from(holds(i)) << i);
    let all = u32::MAX >> (WARP - count);
    let (scalar, raw) = match def.op {
        WarpOp::Ballot => (Scalar::U32, ballot.into()),
        WarpOp::Any => (Scalar::Bool, (ballot != 0).into()),
        _ => (Scalar::Bool, (ballot == all).into()),
    };
    let bits = lane_of_raw(scalar, raw) as u32;
    // SAFETY: C4: the result of a vote is a register of 4-byte lanes; the lanes of the warp exist.
    (first..first + count).for_each(|lane| unsafe { registers.set_lane(def.result, lane, bits) });
}

/// Number of lanes in a warp.
pub(crate) const LANES: usize = WARP;

fn reduce(registers: &GroupRegisters, def: &WarpDef, first: usize, count: usize) {
    let zero = ScalarValue { ty: def.scalar, bits: 0 };
    let mut values = [zero; WARP];
    for (i, value) in values.iter_mut().enumerate().take(count) {
        *value = read_value(registers, def.value, def.scalar, first + i);
    }
    butterfly(&mut values, count, |a, b| combine(def.op, a, b).unwrap_or(zero));
    for (i, value) in values.iter().enumerate().take(count) {
        write_value(registers, def.result, first + i, *value);
    }
}

/// Reduces the first `count` lanes of a warp by a butterfly, which performs additions in the same order as the GPU.
#[inline(always)]
pub(crate) fn butterfly<T: Copy>(values: &mut [T; WARP], count: usize, combine: impl Fn(T, T) -> T) {
    for distance in [16, 8, 4, 2, 1] {
        let before = *values;
        for i in (0..count).filter(|i| i ^ distance < count) {
            values[i] = combine(before[i], before[i ^ distance]);
        }
    }
    // If the number of threads is not a power of two, the butterfly leaves partial results in some lanes. All lanes get
    // the result of lane 0, which includes all values.
    if !count.is_power_of_two() {
        *values = [values[0]; WARP];
    }
}

pub(crate) fn combine(op: WarpOp, a: ScalarValue, b: ScalarValue) -> Option<ScalarValue> {
    match op {
        WarpOp::ReduceMin => dynamic::math(MathFn::Min, &[a, b]).ok(),
        WarpOp::ReduceMax => dynamic::math(MathFn::Max, &[a, b]).ok(),
        WarpOp::ReduceAnd => dynamic::binary(BinaryOp::BitAnd, a, b).ok(),
        WarpOp::ReduceOr => dynamic::binary(BinaryOp::BitOr, a, b).ok(),
        WarpOp::ReduceXor => dynamic::binary(BinaryOp::BitXor, a, b).ok(),
        _ => dynamic::binary(BinaryOp::Add, a, b).ok(),
    }
}
