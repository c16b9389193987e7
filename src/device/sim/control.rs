//! Jumps, loops, barriers, assertions and output.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use super::code::{AXES, Coef, ForDef};
use super::fault::{message, stop_at};
use super::group::{CHUNK, Counter, Group, Op, OpFn, Pause};
use super::lanes::slow::{read_value, write_value};
use super::lanes::{Fn2, Lane, Step, arith, is_wide, load, mask, plain, store};
use super::poll;
use super::shape::{Field, Flow, Loop, Shape, Width, Word};
use crate::device::FaultKind;
use crate::ir::def::BinOp;
use crate::lang::ops::BarrierKind;
use crate::lang::scalar::{Number, Scalar, Value};

/// Ends the run of the group.
pub(crate) struct End;

impl Step for End {
    const SHAPE: Shape = Shape::new("end").flow(Flow::End);

    unsafe fn step(_: &mut Group, _: *const Op) -> *const Op {
        std::ptr::null()
    }
}

/// Jumps to `x`.
pub(crate) struct Jump;

impl Step for Jump {
    const SHAPE: Shape = Shape::new("jump").x(Word::Target).flow(Flow::Jump);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's.
        g.at(unsafe { (*op).x })
    }
}

/// Jumps to `x` unless the uniform `a` is true.
pub(crate) struct JumpUnless;

impl Step for JumpUnless {
    const SHAPE: Shape = Shape::new("jump unless").a(Field::Uniform(Width::Four)).x(Word::Target);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` is uniform and has 4-byte lanes. C3: there is an op behind.
        unsafe { if g.first::<u32>((*op).a) != 0 { op.add(1) } else { g.at((*op).x) } }
    }
}

/// Jumps to `x` if the uniform `a` is true.
pub(crate) struct JumpIf;

impl Step for JumpIf {
    const SHAPE: Shape = Shape::new("jump if").a(Field::Uniform(Width::Four)).x(Word::Target);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` is uniform and has 4-byte lanes. C3: there is an op behind.
        unsafe { if g.first::<u32>((*op).a) == 0 { op.add(1) } else { g.at((*op).x) } }
    }
}

/// Jumps to `x` unless (`NEGATE`: if) a comparison of uniforms holds.
pub(crate) struct CompareJump<T, F, const NEGATE: bool>(PhantomData<(T, F)>);

impl<T: Lane, F: Fn2<T, Out = bool>, const NEGATE: bool> Step for CompareJump<T, F, NEGATE> {
    const SHAPE: Shape = Shape::new("compare, jump")
        .a(Field::Uniform(Width::of::<T::Repr>()))
        .b(Field::Uniform(Width::of::<T::Repr>()))
        .x(Word::Target);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` and `b` are uniform and as wide as `T`. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let holds = F::call(T::get(g.first::<T::Repr>(o.a)), T::get(g.first::<T::Repr>(o.b)));
            if holds != NEGATE { op.add(1) } else { g.at(o.x) }
        }
    }
}

/// Returns the op that compares two 4-byte uniforms and jumps unless (`negate`: if) the comparison holds.
pub(crate) fn compare_jump(op: BinOp, scalar: Scalar, negate: bool) -> OpFn {
    match scalar {
        Scalar::F32 => compare_jump_of::<f32>(op, negate),
        Scalar::U32 => compare_jump_of::<u32>(op, negate),
        _ => compare_jump_of::<i32>(op, negate),
    }
}

fn compare_jump_of<T: Lane + Number>(op: BinOp, negate: bool) -> OpFn {
    fn pick<T: Lane, F: Fn2<T, Out = bool>>(negate: bool) -> OpFn {
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

/// Jumps back to `x`, unless the launch has been asked to stop.
pub(crate) struct Again;

impl Step for Again {
    const SHAPE: Shape = Shape::new("again").x(Word::Target).y(Word::Span).flow(Flow::Jump);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, which does not change while it runs (G5).
        let o = unsafe { &*op };
        if g.iteration() { g.at(o.x) } else { interrupted(g, o.y) }
    }
}

/// Makes mask `b` current and, if it has lanes, jumps back to `x`; else continues with the next op.
pub(crate) struct AgainIf;

impl Step for AgainIf {
    const SHAPE: Shape = Shape::new("again if").b(Field::Mask).x(Word::Target).y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, which does not change while it runs (G5).
        let o = unsafe { &*op };
        g.enter(o.b);
        if g.lo >= g.hi {
            return op.wrapping_add(1);
        }
        if g.iteration() { g.at(o.x) } else { interrupted(g, o.y) }
    }
}

/// At the end of an iteration of a polling loop, before mask `b` starts the next one: yields from time to time. `x` is behind the
/// loop, `y` its place. `WAITS`: the loop only waits for other threads.
pub(crate) struct Poll<const WAITS: bool>;

impl<const WAITS: bool> Step for Poll<WAITS> {
    const SHAPE: Shape = Shape::new("poll").b(Field::Mask).x(Word::Target).y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        g.polled += 1;
        // In a backward launch, where many blocks wait side by side, each polls once per time slice.
        if !g.backward && !g.polled.is_multiple_of(poll::SLICE) {
            return op.wrapping_add(1);
        }
        // SAFETY: C3: `op` is one of the code's.
        g.enter(unsafe { (*op).b });
        poll::pause::<WAITS>(g, op)
    }
}

#[cold]
pub(crate) fn interrupted(g: &mut Group, span: u32) -> *const Op {
    let limit = g.max_steps > 0 && g.steps >= g.max_steps;
    // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
    let waits = || g.observer.and_then(|observer| unsafe { observer.as_ref() }.waits(g));
    let kind = match limit {
        true => waits().map_or(FaultKind::StepLimit { steps: g.steps }, |detail| FaultKind::Deadlock { detail }),
        false => FaultKind::Interrupted,
    };
    let lane = g.active().next().unwrap_or(0);
    let others = g.active_count().saturating_sub(1) as u64;
    stop_at(g, kind, span, lane, others)
}

unsafe fn loop_def<'a>(g: &Group, op: *const Op) -> (&'a ForDef, usize) {
    // SAFETY: C3: `op` is one of the code's.
    let n = unsafe { (*op).y } as usize;
    // SAFETY: G5: the code lives as long as the run of its ops, and longer than the reference is used.
    (unsafe { &(&(*g.code).loops)[n] }, n)
}

/// Returns the trip count of `for i in start..end step`; `None` for a zero step.
fn trips(def: &ForDef, start: Value, end: Value, step: Value) -> Option<u64> {
    let (start, end) = (start.as_integer()?, end.as_integer()?);
    let step = step.as_integer().filter(|&s| s != 0)?;
    let distance = if step > 0 { end - start } else { start - end };
    let distance = distance + i128::from(def.inclusive);
    Some(if distance <= 0 { 0 } else { ((distance - 1) / step.abs() + 1).min(i128::from(u32::MAX)) as u64 })
}

fn trips_of_lane(g: &Group, def: &ForDef, lane: usize) -> Option<u64> {
    let value = |reg| read_value(g, reg, def.scalar, lane);
    trips(def, value(def.start), value(def.end), value(def.step))
}

fn add_value(g: &Group, def: &ForDef, local: u16, lane: usize, step: u16) {
    let (value, step) = (read_value(g, local, def.scalar, lane), read_value(g, step, def.scalar, lane));
    let bits = value.bits.wrapping_add(step.bits) & (u64::MAX >> (64 - def.scalar.bits()));
    write_value(g, local, lane, Value { ty: def.scalar, bits });
}

/// Copies the value of register `from` to the uniform local.
unsafe fn copy_uniform(g: &Group, def: &ForDef, from: u16) {
    // SAFETY: C1, C4: `from` and the local are uniform, and as wide as the loop's type.
    unsafe {
        if is_wide(def.scalar) {
            g.broadcast(def.local, g.first::<u64>(from));
        } else {
            g.broadcast(def.local, g.first::<u32>(from));
        }
    }
}

unsafe fn advance_uniform(g: &Group, def: &ForDef, local: u16, step: u16) {
    match def.scalar {
        // SAFETY: C1, C4: local and step are uniform registers of 4-byte lanes, as the type is.
        Scalar::I32 | Scalar::U32 => unsafe {
            g.broadcast(local, g.first::<u32>(local).wrapping_add(g.first::<u32>(step)))
        },
        _ => (0..CHUNK).for_each(|lane| add_value(g, def, local, lane, step)),
    }
}

/// Writes the trip count of each active lane to `trips`; returns the smallest and the largest. `None` for a zero step.
unsafe fn lane_trips(g: &Group, def: &ForDef) -> Option<(u64, u64)> {
    // SAFETY: C4: the loop's registers are as wide as its type, and `trips` has 4-byte lanes; active lanes exist (G2). What is read
    // as a value of all lanes is uniform: its stride says so.
    unsafe {
        if let Some(iterations) = even_trips(g, def) {
            return Some((iterations, iterations));
        }
        if def.scalar == Scalar::I32 && g.slot(def.step).stride == 0 && g.first::<i32>(def.step) != 0 {
            return Some(word_trips(g, def, g.first::<i32>(def.step)));
        }
        let (mut least, mut most) = (u64::MAX, 0);
        for lane in g.active() {
            let iterations = trips_of_lane(g, def, lane)?;
            (least, most) = (least.min(iterations), most.max(iterations));
            g.set_lane::<u32>(def.trips, lane, iterations as u32);
        }
        Some((least, most))
    }
}

/// Returns the trip count of all lanes of a full row if it is the same for the first and the last lane: affine starts lie between
/// theirs.
unsafe fn even_trips(g: &Group, def: &ForDef) -> Option<u64> {
    let form = def.form.as_ref().filter(|_| g.full && g.shape[0] == g.lanes && def.scalar == Scalar::I32)?;
    let Coef::Const(across) = form.coef[0] else {
        return None;
    };
    // SAFETY: C4: base, end and step are as wide as the type, `i32`. The base is uniform (C5), and so are the others: the stride
    // says so.
    unsafe {
        if g.slot(def.end).stride != 0 || g.slot(def.step).stride != 0 {
            return None;
        }
        let value = |x: i64| Value::of(x as i32);
        let start = i64::from(g.first::<i32>(form.base));
        let last = start + i64::from(across) * (g.lanes as i64 - 1);
        let (end, step) = (value(g.first::<i32>(def.end).into()), value(g.first::<i32>(def.step).into()));
        i32::try_from(last).ok()?;
        let iterations = trips(def, value(start), end, step)?;
        (trips(def, value(last), end, step)? == iterations).then_some(iterations)
    }
}

/// As [`lane_trips`] for i32 with a uniform step: distances are below 2^33, so that `f64` quotients truncate correctly.
unsafe fn word_trips(g: &Group, def: &ForDef, step: i32) -> (u64, u64) {
    // SAFETY: C4: start and end have 4-byte lanes, as has `trips`, which is a register of lanes; the mask's chunks are in them (G1,
    // G2).
    unsafe {
        let (start, end, trips) = (g.slot(def.start), g.slot(def.end), g.slot(def.trips));
        let (sign, size) = (if step > 0 { 1.0 } else { -1.0 }, f64::from(step).abs());
        let extra = if def.inclusive { size } else { size - 1.0 };
        let (mut least, mut most) = ([u32::MAX; CHUNK], [0u32; CHUNK]);
        for chunk in g.lo..g.hi {
            let from = load::<i32>(start.ptr, start.stride, chunk);
            let to = load::<i32>(end.ptr, end.stride, chunk);
            let active = load::<u32>(g.mask.cast_mut().cast(), 4 * CHUNK, chunk);
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

/// Starts a loop with the same bounds in all lanes: its local becomes the start; jumps to `x` if the trip count is zero.
pub(crate) struct ForUniform;

impl Step for ForUniform {
    const SHAPE: Shape = Shape::new("for").x(Word::Target).y(Word::Loop(Loop::Uniform));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: this is the loop of an op of the code.
        let (def, n) = unsafe { loop_def(g, op) };
        let iterations = match fast_trips(g, def) {
            Some(iterations) => iterations,
            None => match trips_of_lane(g, def, 0) {
                Some(iterations) => iterations,
                None => return zero_step(g, def),
            },
        };
        g.counters[n] = Counter { iteration: 0, least: iterations, most: iterations };
        if iterations == 0 {
            // SAFETY: C3: `op` is one of the code's.
            return g.at(unsafe { (*op).x });
        }
        // SAFETY: C4: the start is as wide as the type, and uniform. C3: there is an op behind.
        unsafe {
            copy_uniform(g, def, def.start);
            op.add(1)
        }
    }
}

/// Returns the trip count in the common case: i32 and a positive step.
fn fast_trips(g: &Group, def: &ForDef) -> Option<u64> {
    if def.scalar != Scalar::I32 {
        return None;
    }
    // SAFETY: C4: the loop's registers are uniform and as wide as its type, `i32`.
    unsafe {
        let step = i64::from(g.first::<i32>(def.step));
        let distance = i64::from(g.first::<i32>(def.end)) - i64::from(g.first::<i32>(def.start));
        let distance = distance + i64::from(def.inclusive);
        (step > 0).then(|| if distance <= 0 { 0 } else { ((distance + step - 1) / step) as u64 })
    }
}

/// Starts the next iteration of such a loop, at `x`.
pub(crate) struct NextUniform;

impl Step for NextUniform {
    const SHAPE: Shape = Shape::new("next").x(Word::Target).y(Word::Loop(Loop::Next));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: `y` is a loop, and there is a counter for each (G4); `d` and `a` are its local and its step, uniform, and of
        // 4-byte lanes if `c` is 1. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let counter = g.counters.get_unchecked_mut(o.y as usize);
            counter.iteration += 1;
            if counter.iteration >= counter.most {
                return op.add(1);
            }
            // `c` is 1 in the common case of a 4-byte local.
            if o.c == 1 {
                let next = g.first::<i32>(o.d).wrapping_add(g.first::<i32>(o.a));
                g.broadcast(o.d, next);
            } else {
                advance_uniform(g, loop_def(g, op).0, o.d, o.a);
            }
            if g.iteration() { g.at(o.x) } else { interrupted(g, loop_def(g, op).0.span) }
        }
    }
}

#[cold]
fn zero_step(g: &mut Group, def: &ForDef) -> *const Op {
    let zero = |lane: &usize| read_value(g, def.step, def.scalar, *lane).bits == 0;
    let lane = g.active().find(zero).unwrap_or(0);
    let others = (g.active().filter(zero).count() as u64).saturating_sub(1);
    stop_at(g, FaultKind::ZeroStep, def.span, lane, others)
}

/// Starts a loop whose trip count differs between lanes. Its mask starts as the current one without the lanes whose trip count is
/// zero; jumps to `x` if that leaves none. `c` is 1 if the local is a lane register (else it is, or is based on, a uniform).
pub(crate) struct ForLanes;

impl Step for ForLanes {
    const SHAPE: Shape = Shape::new("for lanes").x(Word::Target).y(Word::Loop(Loop::Enter));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: the loop has a mask, which suits [`mask::CopyMask`], and `trips`, which has 4-byte lanes. Unless `c` is 1,
        // `a` and the local are uniform and as wide as the type. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let (def, n) = loop_def(g, op);
            let Some((least, most)) = lane_trips(g, def) else {
                return zero_step(g, def);
            };
            g.counters[n] = Counter { iteration: 0, least, most };
            if most == 0 {
                return g.at(o.x);
            }
            if o.c == 1 {
                let lanes = g.lo * CHUNK..g.hi * CHUNK;
                lanes.for_each(|lane| write_value(g, def.local, lane, read_value(g, def.start, def.scalar, lane)));
            } else {
                // `a` is the base, to which `start` adds multiples of the coordinates.
                copy_uniform(g, def, o.a);
            }
            mask::CopyMask::step(g, &Op { b: def.mask, ..*op });
            if least == 0 {
                mask::keep_turning(g, def.mask, def.trips, 0);
            }
            op.add(1)
        }
    }
}

/// Starts the next iteration of such a loop, at `x`.
pub(crate) struct NextLanes;

impl Step for NextLanes {
    const SHAPE: Shape = Shape::new("next lanes").x(Word::Target).y(Word::Loop(Loop::Lanes));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4: as in [`ForLanes`], whose mask this is.
        unsafe {
            let o = &*op;
            let (def, n) = loop_def(g, op);
            g.counters[n].iteration += 1;
            let counter = g.counters[n];
            if counter.iteration >= counter.most {
                return op.add(1);
            }
            if counter.iteration >= counter.least {
                mask::keep_turning(g, def.mask, def.trips, counter.iteration);
            } else {
                g.enter(def.mask);
            }
            if g.lo >= g.hi {
                return op.add(1);
            }
            if o.c == 1 {
                let lanes = g.lo * CHUNK..g.hi * CHUNK;
                lanes.for_each(|lane| add_value(g, def, def.local, lane, def.step));
            } else {
                advance_uniform(g, def, def.local, def.step);
            }
            if g.iteration() { g.at(o.x) } else { interrupted(g, def.span) }
        }
    }
}

/// Computes the lanes of an affine value: `d = base + Σ coef·coordinate` by the index of access `x`.
pub(crate) struct Spread;

impl Step for Spread {
    const SHAPE: Shape = Shape::new("spread").d(Field::Lanes(Width::Four)).x(Word::Forms(1));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: the entry has one affine form, of uniform 4-byte registers. C1: `d` is a register of 4-byte lanes, with room
        // for all lanes of the shape (G1, G2). C3: there is an op behind.
        unsafe {
            let o = &*op;
            let index = &(&(*g.code).accesses).get_unchecked(o.x as usize).axes[0];
            let coef = |d: usize| match index.coef[d] {
                Coef::Zero => 0,
                Coef::Const(c) => c,
                Coef::Reg(r) => g.first::<i32>(r),
            };
            let step: [i32; AXES] = std::array::from_fn(coef);
            let to = g.slot(o.d).ptr.cast::<i32>();
            let start = g.first::<i32>(index.base);
            let mut lane = 0;
            let [nx, ny, nz, nw] = g.shape;
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

/// Computes `lane_idx` (`x` is 0) or `warp_idx`.
pub(crate) struct WarpIds;

impl Step for WarpIds {
    const SHAPE: Shape = Shape::new("warp ids").d(Field::Lanes(Width::Four));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `d` is a register of 4-byte lanes, with room for all lanes (G1, G2). C3: there is an op behind.
        unsafe {
            let o = &*op;
            let block = g.lanes / g.shape[3];
            for lane in 0..g.lanes {
                let thread = lane % block;
                g.set_lane(o.d, lane, (if o.x == 0 { thread % 32 } else { thread / 32 }) as i32);
            }
            op.add(1)
        }
    }
}

/// A block barrier, which every thread has to reach. `x` is the kind; `a` the condition and `d` the uniform result, if any.
pub(crate) struct Barrier;

impl Step for Barrier {
    const SHAPE: Shape =
        Shape::new("barrier").d(Field::MaySet(Width::Four)).a(Field::MayRead(Width::Four)).y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, with one behind.
        unsafe {
            let o = &*op;
            if g.is_split {
                return wait(g, op, Pause::Barrier);
            }
            if !g.full {
                return diverged(g, barrier_name(o.x), o.y);
            }
            meet(g, o, holding(g, o));
            op.add(1)
        }
    }
}

/// Pauses the group behind `op`.
fn wait(g: &mut Group, op: *const Op, pause: Pause) -> *const Op {
    (g.resume, g.pause) = (op.wrapping_add(1), pause);
    std::ptr::null()
}

/// Counts the active lanes in which the condition of a barrier holds.
pub(crate) fn holding(g: &Group, o: &Op) -> usize {
    if o.a == super::code::NONE { 0 } else { mask::count(g, o.a) }
}

/// Writes the result of a barrier whose condition holds in `holding` of the block's lanes.
pub(crate) fn meet(g: &mut Group, o: &Op, holding: usize) {
    let flag = |b: bool| if b { !0u32 } else { 0 };
    let result = match o.x {
        1 => flag(holding > 0),
        2 => flag(holding == g.lanes),
        _ => holding as u32,
    };
    if o.d != super::code::NONE {
        // SAFETY: C1: the result of a barrier, if any, is a uniform register of 4-byte lanes.
        unsafe { g.broadcast(o.d, result) };
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
pub(crate) fn diverged(g: &mut Group, what: &'static str, span: u32) -> *const Op {
    let lane = g.active().next().unwrap_or(0);
    let arrived = g.active_count() as u32;
    let elsewhere = parted_at(g, 0..g.lanes);
    let kind = FaultKind::Divergence { what, arrived, expected: g.lanes as u32, elsewhere };
    stop_at(g, kind, span, lane, u64::from(arrived).saturating_sub(1))
}

/// Returns where the first of these lanes that is not active diverged, if a observer recorded it.
pub(crate) fn parted_at(g: &Group, mut lanes: std::ops::Range<usize>) -> Option<crate::base::source::Span> {
    let missing = lanes.find(|&l| !g.is_active(l))?;
    // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
    let span = unsafe { g.observer?.as_ref() }.parted_at(missing)?;
    Some(g.code().place(span).0)
}

/// Waits for all blocks: the group pauses here and continues with the next op.
pub(crate) struct GridBarrier;

impl Step for GridBarrier {
    const SHAPE: Shape = Shape::new("grid barrier").y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, which does not change while it runs (G5).
        let o = unsafe { &*op };
        if !g.full && !g.is_split {
            return diverged(g, barrier_name(o.x), o.y);
        }
        wait(g, op, Pause::Grid)
    }
}

/// A fence between ordinary accesses of different workers.
pub(crate) struct Fence;

impl Step for Fence {
    const SHAPE: Shape = Shape::new("fence");

    unsafe fn step(_: &mut Group, op: *const Op) -> *const Op {
        std::sync::atomic::fence(Ordering::SeqCst);
        op.wrapping_add(1)
    }
}

/// Stops with message `x` unless `a` is true in every active lane.
pub(crate) struct Assert;

impl Step for Assert {
    const SHAPE: Shape = Shape::new("assert").a(Field::Read(Width::Four)).x(Word::Message).y(Word::Span);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` has 4-byte lanes, and active lanes exist (G2). C3: there is an op behind.
        unsafe {
            let o = &*op;
            let slot = g.slot(o.a);
            let fails = |&l: &usize| *slot.ptr.add(l / CHUNK * slot.stride).cast::<u32>().add(l % CHUNK) == 0;
            let mut failing = g.active().filter(fails);
            let Some(lane) = failing.next() else {
                return op.add(1);
            };
            let others = failing.count() as u64;
            let text = message(g, &g.code().messages[o.x as usize], lane);
            stop_at(g, FaultKind::Assert { message: text }, o.y, lane, others)
        }
    }
}

/// Prints one line for each active lane.
pub(crate) struct Print;

impl Step for Print {
    const SHAPE: Shape = Shape::new("print").x(Word::Message);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, which does not change while it runs (G5).
        let o = unsafe { &*op };
        let mut text = String::new();
        for lane in g.active() {
            text.push_str(&message(g, &g.code().messages[o.x as usize], lane));
        }
        g.printed.push_str(&text);
        op.wrapping_add(1)
    }
}
