//! Ops for jumps, loops, barriers, assertions and output.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use super::affine_value::coefficient;
use super::code::{Coef, ForDef};
use super::current_mask::CurrentMask;
use super::fault::format_message;
use super::group::{ForLoopState, Op, OpFn, Pause, ThreadGroup};
use super::group_registers::{CHUNK, GroupRegisters};
use super::lanes::slow::{read_value, write_value};
use super::lanes::{Fn2, LaneScalar, OpStep, arith, is_wide, load, mask, plain, store};
use super::op_shape::{LoopKind, OpFlow, OpShape, OperandRole, RegisterRole, Width};
use super::polling;
use clk_ir::def::BinOp;
use clk_runtime::FaultKind;
use clk_scalar::exact;
use clk_scalar::ops::BarrierKind;
use clk_scalar::{NumericScalar, Scalar, ScalarValue};

/// Ends the execution of the group.
pub(crate) struct EndRun;

impl OpStep for EndRun {
    const SHAPE: OpShape = OpShape::new("end").flow(OpFlow::End);

    unsafe fn step(_: &mut ThreadGroup, _: *const Op) -> *const Op {
        std::ptr::null()
    }
}

/// Jumps to op `x`.
pub(crate) struct JumpOp;

impl OpStep for JumpOp {
    const SHAPE: OpShape = OpShape::new("jump").x(OperandRole::Target).flow(OpFlow::Jump);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code.
        g.op_at(unsafe { (*op).x })
    }
}

/// Jumps to op `x` unless the uniform register `a` is true.
pub(crate) struct JumpUnless;

impl OpStep for JumpUnless {
    const SHAPE: OpShape = OpShape::new("jump unless").a(RegisterRole::Uniform(Width::Four)).x(OperandRole::Target);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` is uniform and has 4-byte lanes. C3: another op follows.
        unsafe { if g.registers.first::<u32>((*op).a) != 0 { op.add(1) } else { g.op_at((*op).x) } }
    }
}

/// Jumps to op `x` if the uniform register `a` is true.
pub(crate) struct JumpIf;

impl OpStep for JumpIf {
    const SHAPE: OpShape = OpShape::new("jump if").a(RegisterRole::Uniform(Width::Four)).x(OperandRole::Target);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` is uniform and has 4-byte lanes. C3: another op follows.
        unsafe { if g.registers.first::<u32>((*op).a) == 0 { op.add(1) } else { g.op_at((*op).x) } }
    }
}

/// Jumps to op `x` unless a comparison of uniform registers `a` and `b` is true. With `NEGATE`, jumps if it is true.
pub(crate) struct CompareJump<T, F, const NEGATE: bool>(PhantomData<(T, F)>);

impl<T: LaneScalar, F: Fn2<T, Out = bool>, const NEGATE: bool> OpStep for CompareJump<T, F, NEGATE> {
    const SHAPE: OpShape = OpShape::new("compare, jump")
        .a(RegisterRole::Uniform(Width::of::<T::Repr>()))
        .b(RegisterRole::Uniform(Width::of::<T::Repr>()))
        .x(OperandRole::Target);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` and `b` are uniform and as wide as `T`. C3: another op follows.
        unsafe {
            let o = &*op;
            let holds = F::call(T::get(g.registers.first::<T::Repr>(o.a)), T::get(g.registers.first::<T::Repr>(o.b)));
            if holds != NEGATE { op.add(1) } else { g.op_at(o.x) }
        }
    }
}

/// Returns the op that compares two 4-byte uniform registers and jumps unless the comparison is true. With `negate`,
/// the op jumps if it is true.
pub(crate) fn compare_jump(op: BinOp, scalar: Scalar, negate: bool) -> OpFn {
    match scalar {
        Scalar::F32 => compare_jump_of::<f32>(op, negate),
        Scalar::U32 => compare_jump_of::<u32>(op, negate),
        _ => compare_jump_of::<i32>(op, negate),
    }
}

fn compare_jump_of<T: LaneScalar + NumericScalar>(op: BinOp, negate: bool) -> OpFn {
    fn pick<T: LaneScalar, F: Fn2<T, Out = bool>>(negate: bool) -> OpFn {
        if negate { plain::<CompareJump<T, F, true>>() } else { plain::<CompareJump<T, F, false>>() }
    }
    match op {
        BinOp::Lt => pick::<T, arith::Lt>(negate),
        BinOp::Le => pick::<T, arith::Le>(negate),
        BinOp::Gt => pick::<T, arith::Gt>(negate),
        BinOp::Ge => pick::<T, arith::Ge>(negate),
        BinOp::Ne => pick::<T, arith::Ne>(negate),
        _ => pick::<T, arith::Eq>(negate),
    }
}

/// Jumps back to op `x`, the start of a loop body. If the launch has been asked to stop, stops the group instead.
pub(crate) struct LoopBack;

impl OpStep for LoopBack {
    const SHAPE: OpShape = OpShape::new("again").x(OperandRole::Target).y(OperandRole::Span).flow(OpFlow::Jump);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, which does not change while it runs (G5).
        let o = unsafe { &*op };
        if g.budget.count_iteration() { g.op_at(o.x) } else { stop_interrupted(g, o.y) }
    }
}

/// Makes mask `b` the current one. If mask `b` contains a lane, jumps back to op `x`; otherwise continues with the next
/// op.
pub(crate) struct LoopBackIf;

impl OpStep for LoopBackIf {
    const SHAPE: OpShape = OpShape::new("again if").b(RegisterRole::Mask).x(OperandRole::Target).y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, which does not change while it runs (G5).
        let o = unsafe { &*op };
        g.set_mask(o.b);
        if g.mask.is_empty() {
            return op.wrapping_add(1);
        }
        if g.budget.count_iteration() { g.op_at(o.x) } else { stop_interrupted(g, o.y) }
    }
}

/// Ends an iteration of a polling loop: makes mask `b` the current one for the next iteration, and yields to other
/// groups once per time slice. `x` is the op after the loop, `y` the span of the loop. With `WAITS`, the loop does
/// nothing but wait for other threads.
pub(crate) struct PollOp<const WAITS: bool>;

impl<const WAITS: bool> OpStep for PollOp<WAITS> {
    const SHAPE: OpShape = OpShape::new("poll").b(RegisterRole::Mask).x(OperandRole::Target).y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        g.polling.iterations += 1;
        // A backward launch has many waiting blocks, so each polls only once per time slice.
        if !g.reverse_order && !g.polling.iterations.is_multiple_of(polling::POLLS_PER_SLICE) {
            return op.wrapping_add(1);
        }
        // SAFETY: C3: `op` is an op of the code.
        g.set_mask(unsafe { (*op).b });
        polling::yield_or_continue::<WAITS>(g, op)
    }
}

#[cold]
pub(crate) fn stop_interrupted(g: &mut ThreadGroup, span: u32) -> *const Op {
    let limit = g.budget.is_exhausted();
    // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
    let waits = || g.observer.and_then(|observer| unsafe { observer.as_ref() }.describe_wait(g));
    let kind = match limit {
        true => waits().map_or(FaultKind::StepLimit { steps: g.budget.steps }, |detail| FaultKind::Deadlock { detail }),
        false => FaultKind::Interrupted,
    };
    let lane = g.active().next().unwrap_or(0);
    let others = g.active_count().saturating_sub(1) as u64;
    g.results.stop_at(kind, span, lane, others)
}

unsafe fn loop_def<'a>(g: &ThreadGroup, op: *const Op) -> (&'a ForDef, usize) {
    // SAFETY: C3: `op` is an op of the code.
    let n = unsafe { (*op).y } as usize;
    // SAFETY: G5: the code outlives the execution of its ops, and therefore the returned reference.
    (unsafe { &(&(*g.code).loops)[n] }, n)
}

/// Returns the trip count of `for i in start..end step`; `None` for a zero step.
fn trip_count(def: &ForDef, start: ScalarValue, end: ScalarValue, step: ScalarValue) -> Option<u64> {
    let trips = exact::trip_count(start.as_integer()?, end.as_integer()?, step.as_integer()?, def.inclusive)?;
    Some(trips.min(u32::MAX.into()) as u64)
}

fn lane_trip_count(registers: &GroupRegisters, def: &ForDef, lane: usize) -> Option<u64> {
    let value = |reg| read_value(registers, reg, def.scalar, lane);
    trip_count(def, value(def.start), value(def.end), value(def.step))
}

fn add_value(registers: &GroupRegisters, def: &ForDef, local: u16, lane: usize, step: u16) {
    let (value, step) = (read_value(registers, local, def.scalar, lane), read_value(registers, step, def.scalar, lane));
    let bits = value.bits.wrapping_add(step.bits) & (u64::MAX >> (64 - def.scalar.bits()));
    write_value(registers, local, lane, ScalarValue { ty: def.scalar, bits });
}

/// Copies register `from` to the loop's uniform loop variable.
unsafe fn copy_uniform(registers: &GroupRegisters, def: &ForDef, from: u16) {
    // SAFETY: C1, C4: `from` and the local are uniform and as wide as the loop's type.
    unsafe {
        if is_wide(def.scalar) {
            registers.broadcast(def.local, registers.first::<u64>(from));
        } else {
            registers.broadcast(def.local, registers.first::<u32>(from));
        }
    }
}

unsafe fn advance_uniform(registers: &GroupRegisters, def: &ForDef, local: u16, step: u16) {
    match def.scalar {
        // SAFETY: C1, C4: local and step are uniform registers of 4-byte lanes, like the type.
        Scalar::I32 | Scalar::U32 => unsafe {
            registers.broadcast(local, registers.first::<u32>(local).wrapping_add(registers.first::<u32>(step)))
        },
        _ => (0..CHUNK).for_each(|lane| add_value(registers, def, local, lane, step)),
    }
}

/// Writes the trip count of each active lane to `trips`, and returns the smallest and the largest one. `None` for a
/// zero step.
unsafe fn set_lane_trips(g: &ThreadGroup, def: &ForDef) -> Option<(u64, u64)> {
    // SAFETY: C4: the loop's registers are as wide as its type, and `trips` has 4-byte lanes; active lanes exist (G2).
    // Registers that are read as a single value are uniform, because their stride is 0.
    unsafe {
        if let Some(iterations) = uniform_trip_count(g, def) {
            return Some((iterations, iterations));
        }
        if def.scalar == Scalar::I32
            && g.registers.slot(def.step).stride == 0
            && g.registers.first::<i32>(def.step) != 0
        {
            return Some(set_i32_trips(&g.registers, &g.mask, def, g.registers.first::<i32>(def.step)));
        }
        let (mut least, mut most) = (u64::MAX, 0);
        for lane in g.active() {
            let iterations = lane_trip_count(&g.registers, def, lane)?;
            (least, most) = (least.min(iterations), most.max(iterations));
            g.registers.set_lane::<u32>(def.trips, lane, iterations as u32);
        }
        Some((least, most))
    }
}

/// Returns the common trip count of all lanes, if the group is one full row and the first and the last lane have the
/// same trip count. The starts are affine, so the starts of all other lanes, and their trip counts, are between those
/// of these two lanes.
unsafe fn uniform_trip_count(g: &ThreadGroup, def: &ForDef) -> Option<u64> {
    let form = def.form.as_ref().filter(|_| g.mask.full && g.shape.is_row() && def.scalar == Scalar::I32)?;
    let Coef::Const(across) = form.coef[0] else {
        return None;
    };
    // SAFETY: C4: base, end and step are as wide as the type, `i32`. The base is uniform (C5). The other registers are
    // uniform because their stride is 0.
    unsafe {
        if g.registers.slot(def.end).stride != 0 || g.registers.slot(def.step).stride != 0 {
            return None;
        }
        let value = |x: i64| ScalarValue::of(x as i32);
        let start = i64::from(g.registers.first::<i32>(form.base));
        let last = start + i64::from(across) * (g.shape.lanes as i64 - 1);
        let (end, step) =
            (value(g.registers.first::<i32>(def.end).into()), value(g.registers.first::<i32>(def.step).into()));
        i32::try_from(last).ok()?;
        let iterations = trip_count(def, value(start), end, step)?;
        (trip_count(def, value(last), end, step)? == iterations).then_some(iterations)
    }
}

/// Like [`set_lane_trips`], for `i32` with a uniform step. Distances are below 2^33, so truncating the `f64` quotient
/// gives the exact integer quotient.
unsafe fn set_i32_trips(registers: &GroupRegisters, mask: &CurrentMask, def: &ForDef, step: i32) -> (u64, u64) {
    // SAFETY: C4: start and end have 4-byte lanes, and `trips` is a lane register of 4-byte lanes. The chunks of the
    // mask are in them (G1, G2).
    unsafe {
        let (start, end, trips) = (registers.slot(def.start), registers.slot(def.end), registers.slot(def.trips));
        let (sign, size) = (if step > 0 { 1.0 } else { -1.0 }, f64::from(step).abs());
        let extra = if def.inclusive { size } else { size - 1.0 };
        let (mut least, mut most) = ([u32::MAX; CHUNK], [0u32; CHUNK]);
        for chunk in mask.chunks() {
            let from = load::<i32>(start.ptr, start.stride, chunk);
            let to = load::<i32>(end.ptr, end.stride, chunk);
            let active = load::<u32>(mask.lanes.cast_mut().cast(), 4 * CHUNK, chunk);
            let mut iterations = [0u32; CHUNK];
            for i in 0..CHUNK {
                let distance = (f64::from(to[i]) - f64::from(from[i])) * sign;
                iterations[i] = ((distance + extra) / size).clamp(0.0, f64::from(u32::MAX)) as u32;
                least[i] = least[i].min(iterations[i] | !active[i]);
                most[i] = most[i].max(iterations[i] & active[i]);
            }
            store(trips.ptr, trips.stride, chunk, iterations);
        }
        let least = least.into_iter().min().unwrap_or(0);
        (least.into(), most.into_iter().max().unwrap_or(0).into())
    }
}

/// Starts a loop with the same bounds in all lanes: sets the loop variable to the start value, or jumps to op `x` if
/// the trip count is zero.
pub(crate) struct ForUniform;

impl OpStep for ForUniform {
    const SHAPE: OpShape = OpShape::new("for").x(OperandRole::Target).y(OperandRole::Loop(LoopKind::Uniform));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: the op belongs to this loop of the code.
        let (def, n) = unsafe { loop_def(g, op) };
        let iterations = match i32_trip_count(&g.registers, def) {
            Some(iterations) => iterations,
            None => match lane_trip_count(&g.registers, def, 0) {
                Some(iterations) => iterations,
                None => return stop_zero_step(g, def),
            },
        };
        g.counters[n] = ForLoopState { iteration: 0, min_trips: iterations, max_trips: iterations };
        if iterations == 0 {
            // SAFETY: C3: `op` is an op of the code.
            return g.op_at(unsafe { (*op).x });
        }
        // SAFETY: C4: the start is uniform and as wide as the type. C3: another op follows.
        unsafe {
            copy_uniform(&g.registers, def, def.start);
            op.add(1)
        }
    }
}

/// Returns the trip count of a loop over `i32` with a positive step, which is the common case; `None` for other loops.
fn i32_trip_count(registers: &GroupRegisters, def: &ForDef) -> Option<u64> {
    if def.scalar != Scalar::I32 {
        return None;
    }
    // SAFETY: C4: the loop's registers are uniform and as wide as its type, `i32`.
    unsafe {
        let step = i64::from(registers.first::<i32>(def.step));
        let distance = i64::from(registers.first::<i32>(def.end)) - i64::from(registers.first::<i32>(def.start));
        let distance = distance + i64::from(def.inclusive);
        (step > 0).then(|| if distance <= 0 { 0 } else { ((distance + step - 1) / step) as u64 })
    }
}

/// Starts the next iteration of a [`ForUniform`] loop: jumps to op `x`, or continues with the next op if the loop is
/// done.
pub(crate) struct NextUniform;

impl OpStep for NextUniform {
    const SHAPE: OpShape = OpShape::new("next").x(OperandRole::Target).y(OperandRole::Loop(LoopKind::Next));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `y` is a loop, and each loop has a counter (G4). `d` is the loop variable and `a` the step; both
        // are uniform, with 4-byte lanes if `c` is 1. C3: another op follows.
        unsafe {
            let o = &*op;
            let counter = g.counters.get_unchecked_mut(o.y as usize);
            counter.iteration += 1;
            if counter.iteration >= counter.max_trips {
                return op.add(1);
            }
            // `c` is 1 if the loop variable has 4 bytes, which is the common case.
            if o.c == 1 {
                let next = g.registers.first::<i32>(o.d).wrapping_add(g.registers.first::<i32>(o.a));
                g.registers.broadcast(o.d, next);
            } else {
                advance_uniform(&g.registers, loop_def(g, op).0, o.d, o.a);
            }
            if g.budget.count_iteration() { g.op_at(o.x) } else { stop_interrupted(g, loop_def(g, op).0.span) }
        }
    }
}

#[cold]
fn stop_zero_step(g: &mut ThreadGroup, def: &ForDef) -> *const Op {
    let zero = |lane: &usize| read_value(&g.registers, def.step, def.scalar, *lane).bits == 0;
    let lane = g.active().find(zero).unwrap_or(0);
    let others = (g.active().filter(zero).count() as u64).saturating_sub(1);
    g.results.stop_at(FaultKind::ZeroStep, def.span, lane, others)
}

/// Starts a loop whose trip count differs between lanes. The initial mask of the loop is the current mask without the
/// lanes whose trip count is zero. Jumps to op `x` if that mask is empty. `c` is 1 if the loop variable is a lane
/// register; otherwise it is uniform, or affine with a uniform base.
pub(crate) struct ForLanes;

impl OpStep for ForLanes {
    const SHAPE: OpShape = OpShape::new("for lanes").x(OperandRole::Target).y(OperandRole::Loop(LoopKind::Enter));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: the loop has a mask, which is valid for [`mask::CopyMask`], and `trips`, which has 4-byte lanes.
        // Unless `c` is 1, `a` and the loop variable are uniform and as wide as the type. C3: another op follows.
        unsafe {
            let o = &*op;
            let (def, n) = loop_def(g, op);
            let Some((least, most)) = set_lane_trips(g, def) else {
                return stop_zero_step(g, def);
            };
            g.counters[n] = ForLoopState { iteration: 0, min_trips: least, max_trips: most };
            if most == 0 {
                return g.op_at(o.x);
            }
            if o.c == 1 {
                let lanes = g.mask.lo * CHUNK..g.mask.hi * CHUNK;
                lanes.for_each(|lane| {
                    write_value(&g.registers, def.local, lane, read_value(&g.registers, def.start, def.scalar, lane))
                });
            } else {
                // Register `a` holds the base of the affine start value.
                copy_uniform(&g.registers, def, o.a);
            }
            mask::CopyMask::step(g, &Op { b: def.mask, ..*op });
            if least == 0 {
                mask::keep_turning(g, def.mask, def.trips, 0);
            }
            op.add(1)
        }
    }
}

/// Starts the next iteration of a [`ForLanes`] loop: jumps to op `x`, or continues with the next op if no lane is left
/// in the loop.
pub(crate) struct NextLanes;

impl OpStep for NextLanes {
    const SHAPE: OpShape = OpShape::new("next lanes").x(OperandRole::Target).y(OperandRole::Loop(LoopKind::Lanes));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: as in [`ForLanes`]; this is the mask of that loop.
        unsafe {
            let o = &*op;
            let (def, n) = loop_def(g, op);
            g.counters[n].iteration += 1;
            let counter = g.counters[n];
            if counter.iteration >= counter.max_trips {
                return op.add(1);
            }
            if counter.iteration >= counter.min_trips {
                mask::keep_turning(g, def.mask, def.trips, counter.iteration);
            } else {
                g.set_mask(def.mask);
            }
            if g.mask.is_empty() {
                return op.add(1);
            }
            if o.c == 1 {
                let lanes = g.mask.lo * CHUNK..g.mask.hi * CHUNK;
                lanes.for_each(|lane| add_value(&g.registers, def, def.local, lane, def.step));
            } else {
                advance_uniform(&g.registers, def, def.local, def.step);
            }
            if g.budget.count_iteration() { g.op_at(o.x) } else { stop_interrupted(g, def.span) }
        }
    }
}

/// Computes the lanes of an affine value: `d = base + Σ coef·coordinate`, with the index of access `x`.
pub(crate) struct SpreadAffine;

impl OpStep for SpreadAffine {
    const SHAPE: OpShape = OpShape::new("spread").d(RegisterRole::Lanes(Width::Four)).x(OperandRole::Forms(1));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: access `x` has one affine index with uniform 4-byte registers. C1: `d` is a register of 4-byte
        // lanes, with room for all lanes of the shape (G1, G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let index = &(&(*g.code).accesses).get_unchecked(o.x as usize).axes[0];
            let step = index.coef.map(|c| coefficient(&g.registers, c) as i32);
            let to = g.registers.slot(o.d).ptr.cast::<i32>();
            let start = g.registers.first::<i32>(index.base);
            let mut lane = 0;
            let [nx, ny, nz, nw] = g.shape.extents;
            for w in 0..nw as i32 {
                for z in 0..nz as i32 {
                    for y in 0..ny as i32 {
                        let row = step[3].wrapping_mul(w).wrapping_add(step[2].wrapping_mul(z));
                        let row = start.wrapping_add(row).wrapping_add(step[1].wrapping_mul(y));
                        for x in 0..nx {
                            to.add(lane + x).write(row.wrapping_add(step[0].wrapping_mul(x as i32)));
                        }
                        lane += nx;
                    }
                }
            }
            op.add(1)
        }
    }
}

/// Computes `lane_idx` if `x` is 0, otherwise `warp_idx`.
pub(crate) struct WarpIds;

impl OpStep for WarpIds {
    const SHAPE: OpShape = OpShape::new("warp ids").d(RegisterRole::Lanes(Width::Four));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `d` is a register of 4-byte lanes, with room for all lanes (G1, G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let block = g.shape.lanes / g.shape.extents[3];
            for lane in 0..g.shape.lanes {
                let thread = lane % block;
                g.registers.set_lane(o.d, lane, (if o.x == 0 { thread % 32 } else { thread / 32 }) as i32);
            }
            op.add(1)
        }
    }
}

/// A block barrier, which every thread of the block has to reach. `x` is the kind of barrier, `a` the condition and `d`
/// the uniform result; `a` and `d` may be `NONE`.
pub(crate) struct Barrier;

impl OpStep for Barrier {
    const SHAPE: OpShape = OpShape::new("barrier")
        .d(RegisterRole::MaySet(Width::Four))
        .a(RegisterRole::MayRead(Width::Four))
        .y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, and another op follows.
        unsafe {
            let o = &*op;
            if g.split.is_split {
                return g.pause.pause_after(op, Pause::Barrier);
            }
            if !g.mask.full {
                return stop_diverged(g, barrier_name(o.x), o.y);
            }
            write_barrier_result(g, o, count_true_lanes(g, o));
            op.add(1)
        }
    }
}

/// Counts the active lanes in which the condition of a barrier is true.
pub(crate) fn count_true_lanes(g: &ThreadGroup, o: &Op) -> usize {
    if o.a == super::code::NONE { 0 } else { mask::count(g, o.a) }
}

/// Writes the result of a barrier whose condition is true in `holding` lanes of the block.
pub(crate) fn write_barrier_result(g: &mut ThreadGroup, o: &Op, holding: usize) {
    let flag = |b: bool| if b { !0u32 } else { 0 };
    let result = match o.x {
        1 => flag(holding > 0),
        2 => flag(holding == g.shape.lanes),
        _ => holding as u32,
    };
    if o.d != super::code::NONE {
        // SAFETY: C1: the result of a barrier, if it has one, is a uniform register of 4-byte lanes.
        unsafe { g.registers.broadcast(o.d, result) };
    }
}

pub(crate) fn barrier_code(kind: BarrierKind) -> u32 {
    match kind {
        BarrierKind::Block => 0,
        BarrierKind::BlockAny => 1,
        BarrierKind::BlockAll => 2,
        BarrierKind::BlockCount => 3,
        BarrierKind::Warp => 4,
        BarrierKind::Grid => 5,
    }
}

pub(crate) fn barrier_name(code: u32) -> &'static str {
    ["barrier", "barrier_any", "barrier_all", "barrier_count", "warp_barrier", "grid_barrier"]
        .get(code as usize)
        .copied()
        .unwrap_or("barrier")
}

#[cold]
pub(crate) fn stop_diverged(g: &mut ThreadGroup, what: &'static str, span: u32) -> *const Op {
    let lane = g.active().next().unwrap_or(0);
    let arrived = g.active_count() as u32;
    let elsewhere = divergence_span(g, 0..g.shape.lanes);
    let kind = FaultKind::Divergence { what, arrived, expected: g.shape.lanes as u32, elsewhere };
    g.results.stop_at(kind, span, lane, u64::from(arrived).saturating_sub(1))
}

/// Returns the source span at which the first inactive lane of `lanes` diverged, if an observer recorded it.
pub(crate) fn divergence_span(g: &ThreadGroup, mut lanes: std::ops::Range<usize>) -> Option<clk_base::source::Span> {
    let missing = lanes.find(|&l| !g.is_active(l))?;
    // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
    let span = unsafe { g.observer?.as_ref() }.divergence_of(missing)?;
    Some(g.code().source.location(span).0)
}

/// A grid barrier: the group pauses until all blocks have reached the barrier, then continues with the next op.
pub(crate) struct GridBarrier;

impl OpStep for GridBarrier {
    const SHAPE: OpShape = OpShape::new("grid barrier").y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, which does not change while it runs (G5).
        let o = unsafe { &*op };
        if !g.mask.full && !g.split.is_split {
            return stop_diverged(g, barrier_name(o.x), o.y);
        }
        g.pause.pause_after(op, Pause::Grid)
    }
}

/// A fence: executes a CPU memory fence, which orders non-atomic memory accesses between workers.
pub(crate) struct FenceOp;

impl OpStep for FenceOp {
    const SHAPE: OpShape = OpShape::new("fence");

    unsafe fn step(_: &mut ThreadGroup, op: *const Op) -> *const Op {
        std::sync::atomic::fence(Ordering::SeqCst);
        op.wrapping_add(1)
    }
}

/// An assertion: stops the group with message `x` unless register `a` is true in every active lane.
pub(crate) struct Assert;

impl OpStep for Assert {
    const SHAPE: OpShape =
        OpShape::new("assert").a(RegisterRole::Read(Width::Four)).x(OperandRole::Message).y(OperandRole::Span);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` has 4-byte lanes, and active lanes exist (G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let slot = g.registers.slot(o.a);
            let fails = |&l: &usize| *slot.ptr.add(l / CHUNK * slot.stride).cast::<u32>().add(l % CHUNK) == 0;
            let mut failing = g.active().filter(fails);
            let Some(lane) = failing.next() else {
                return op.add(1);
            };
            let others = failing.count() as u64;
            let text = format_message(&g.registers, &g.code().messages[o.x as usize], lane);
            g.results.stop_at(FaultKind::Assert { message: text }, o.y, lane, others)
        }
    }
}

/// Prints message `x`, one line for each active lane.
pub(crate) struct Print;

impl OpStep for Print {
    const SHAPE: OpShape = OpShape::new("print").x(OperandRole::Message);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is an op of the code, which does not change while it runs (G5).
        let o = unsafe { &*op };
        let mut text = String::new();
        for lane in g.active() {
            text.push_str(&format_message(&g.registers, &g.code().messages[o.x as usize], lane));
        }
        g.results.printed.push_str(&text);
        op.wrapping_add(1)
    }
}
