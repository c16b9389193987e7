//! Atomic read-modify-writes, lane by lane in ascending order (descending in a backward launch): plain reads and writes on memory
//! that one worker owns, else the machine's atomic instructions.
//!
//! The `CHECKED` ones stop where a signed sum overflows.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::code::{AtomicDef, NONE};
use super::fault::stop_at;
use super::group::{CHUNK, Group, Op, Pause};
use super::lanes::slow::{read_value, write_value};
use super::lanes::{Step, load};
use super::memory::{out_of_bounds, place, resolve};
use super::shape::{Indices, Shape, Word};
use crate::device::FaultKind;
use crate::lang::ops::AtomicOp;
use crate::lang::scalar::exact::{holds, is_first_nonfinite};
use crate::lang::scalar::{Element, Scalar, Value, dynamic};

unsafe fn def<'a>(g: &Group, op: *const Op) -> &'a AtomicDef {
    // SAFETY: G5: the code outlives the run of its ops. C4: `x` is an atomic operation (indexing checks it).
    unsafe { &(&(*g.code).atomics)[(*op).x as usize] }
}

/// Any operation on any type.
pub(crate) struct Atomic<const CHECKED: bool>;

impl<const CHECKED: bool> Step for Atomic<CHECKED> {
    const SHAPE: Shape = Shape::new("atomic").x(Word::Atomic(Indices::Any, 0));

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: operation and access are the code's, and the memory exists (G3). Active lanes exist (G2), and their
        // elements are in bounds, aligned, and as large as the type. C3: there is an op behind.
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let alone = (*g.memories.add(access.memory as usize)).alone;
            let mut lanes: Vec<usize> = g.active().collect();
            if g.backward {
                lanes.reverse();
            }
            if lanes.iter().any(|&lane| place(g, access, lane).is_none()) {
                return out_of_bounds(g, access);
            }
            let mut changed = false;
            for lane in lanes {
                let Some(ptr) = place(g, access, lane) else {
                    return out_of_bounds(g, access);
                };
                let value = read_value(g, def.value, access.scalar, lane);
                let compare = (def.compare != NONE).then(|| read_value(g, def.compare, access.scalar, lane));
                let old = update(ptr, alone, def.op, value, compare);
                if CHECKED && let Some(kind) = report(def.op, old, value) {
                    return stop_at(g, kind, access.span, lane, 0);
                }
                if def.result != NONE {
                    write_value(g, def.result, lane, old);
                }
                changed |= g.backward && changes(def.op, old, value, compare);
            }
            if changed {
                // Yields to other blocks while this one may hold a lock or may be about to run ahead of its synchronization.
                (g.resume, g.pause) = (op.add(1), Pause::Iteration);
                return std::ptr::null();
            }
            op.add(1)
        }
    }
}

/// Returns what checks report of a sum or a difference: that it overflows its signed type, or that it is the first infinity.
fn report(op: AtomicOp, old: Value, value: Value) -> Option<FaultKind> {
    let name = match op {
        AtomicOp::Add => "atomic_add",
        AtomicOp::Sub => "atomic_sub",
        _ => return None,
    };
    let (operation, ty) = (|| format!("{name}({old}, {value})"), old.ty);
    if ty.is_float() {
        let result = dynamic::atomic(op, old, value, None).ok()?;
        let is_first = is_first_nonfinite(&[old, value], result);
        return is_first.then(|| FaultKind::NotFinite { operation: operation(), result });
    }
    let (a, b) = (old.as_integer()?, value.as_integer()?);
    let exact = if op == AtomicOp::Add { a + b } else { a - b };
    (ty.is_signed() && !holds(ty, exact)).then(|| FaultKind::Overflow { operation: operation(), ty })
}

/// Stops at the atomic `op`, a sum of 4-byte words that overflows, which found `old` in this lane.
#[cold]
#[inline(never)]
fn word_overflowed(g: &mut Group, op: *const Op, lane: usize, old: u32, value: u32) -> *const Op {
    // SAFETY: C3: the caller's op is one of the code's.
    let def = unsafe { def(g, op) };
    let span = g.code().accesses[def.access as usize].span;
    match report(def.op, Value::of(old as i32), Value::of(value as i32)) {
        Some(kind) => stop_at(g, kind, span, lane, 0),
        None => op.wrapping_add(1),
    }
}

/// Returns the new value of a word, and whether it overflows an `i32`.
#[inline(always)]
fn next<const NEGATE: bool>(old: u32, value: u32) -> (u32, bool) {
    let (old, value) = (old as i32, value as i32);
    let (next, over) = if NEGATE { old.overflowing_sub(value) } else { old.overflowing_add(value) };
    (next as u32, over)
}

/// Returns whether an operation changes the value.
fn changes(op: AtomicOp, old: Value, value: Value, compare: Option<Value>) -> bool {
    dynamic::atomic(op, old, value, compare).is_ok_and(|new| new.bits != old.bits)
}

/// Performs one update; returns the old value.
#[inline(always)]
pub(crate) unsafe fn update(ptr: *mut u8, alone: bool, op: AtomicOp, value: Value, compare: Option<Value>) -> Value {
    let ty = value.ty;
    let next = |bits: u64| match (op, ty) {
        // Sums of floats are most of what derivatives do.
        (AtomicOp::Add, Scalar::F32) => {
            let sum = f32::from_raw(bits) + f32::from_raw(value.bits);
            if sum.is_nan() { ty.nan() } else { sum.to_raw() }
        }
        (AtomicOp::Add, Scalar::F64) => {
            let sum = f64::from_raw(bits) + f64::from_raw(value.bits);
            if sum.is_nan() { ty.nan() } else { sum.to_raw() }
        }
        _ => dynamic::atomic(op, Value { ty, bits }, value, compare).map_or(bits, |v| v.bits),
    };
    macro_rules! by_size {
        ($atomic:ty, $int:ty) => {{
            if alone {
                let ptr = ptr.cast::<$int>();
                // SAFETY: the caller's element is in bounds, and no other worker accesses it.
                unsafe {
                    let old = ptr.read_unaligned();
                    ptr.write_unaligned(next(old.into()) as $int);
                    old.into()
                }
            } else {
                // SAFETY: C5, G3: the caller's element is in bounds and aligned to its size, and all workers access it atomically
                // or race.
                let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
                let order = Ordering::SeqCst;
                // An update without effect is not written, so that spinning threads do not contend for the cache line.
                let changed = |old: $int| Some(next(old.into()) as $int).filter(|new| *new != old);
                match cell.fetch_update(order, order, changed) {
                    Ok(old) | Err(old) => old.into(),
                }
            }
        }};
    }
    let bits: u64 = match ty.size() {
        1 => by_size!(AtomicU8, u8),
        2 => by_size!(AtomicU16, u16),
        4 => by_size!(AtomicU32, u32),
        _ => by_size!(AtomicU64, u64),
    };
    Value { ty, bits }
}

/// `+` or `-` on 4-byte integers.
pub(crate) struct AddWord<const NEGATE: bool, const CHECKED: bool>;

impl<const NEGATE: bool, const CHECKED: bool> Step for AddWord<NEGATE, CHECKED> {
    const SHAPE: Shape = Shape::new("add word").x(Word::Atomic(Indices::Any, 4));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`Atomic`], of 4-byte elements. An index of lanes has no coefficients, so that its lanes are the
        // indices; those that are updated are within the extent.
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
            if g.backward {
                return Atomic::<CHECKED>::step(g, op);
            }
            let (one_axis, result) = (access.axes.len() == 1, def.result);
            let varying = one_axis && !access.axes[0].wide && g.slot(access.axes[0].base).stride != 0;
            for chunk in g.lo..g.hi {
                let first = chunk * CHUNK;
                let lanes = first..(first + CHUNK).min(g.lanes);
                let value = load::<u32>(g.slot(def.value).ptr, g.slot(def.value).stride, chunk);
                if varying {
                    let slot = g.slot(access.axes[0].base);
                    let index = load::<u32>(slot.ptr, slot.stride, chunk);
                    let (extent, pitch) = (memory.axes[0].extent as u32, memory.axes[0].pitch as usize);
                    let base = memory.ptr.add(access.offset as usize);
                    for lane in lanes {
                        let i = index[lane - first];
                        if !g.is_active(lane) {
                            continue;
                        }
                        if i >= extent {
                            return out_of_bounds(g, access);
                        }
                        let ptr = base.add(i as usize * pitch);
                        let old = add_word::<NEGATE>(g, ptr, memory.alone, value[lane - first], result, lane);
                        if CHECKED && next::<NEGATE>(old, value[lane - first]).1 {
                            return word_overflowed(g, op, lane, old, value[lane - first]);
                        }
                    }
                } else {
                    for lane in lanes {
                        if !g.is_active(lane) {
                            continue;
                        }
                        let Some(ptr) = place(g, access, lane) else {
                            return out_of_bounds(g, access);
                        };
                        let old = add_word::<NEGATE>(g, ptr, memory.alone, value[lane - first], result, lane);
                        if CHECKED && next::<NEGATE>(old, value[lane - first]).1 {
                            return word_overflowed(g, op, lane, old, value[lane - first]);
                        }
                    }
                }
            }
            op.add(1)
        }
    }
}

/// As [`AddWord`] where the old values are unused and each lane has a separate index: the order of additions does not matter, and
/// the bounds of a chunk are checked at once.
pub(crate) struct Count<const NEGATE: bool, const CHECKED: bool>;

impl<const NEGATE: bool, const CHECKED: bool> Step for Count<NEGATE, CHECKED> {
    const SHAPE: Shape = Shape::new("count").x(Word::Atomic(Indices::Lanes, 4));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`AddWord`], with one axis; all indices are within the extent before any element is updated, and no
        // other worker accesses the memory.
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
            if g.backward {
                return Atomic::<CHECKED>::step(g, op);
            }
            let [index] = access.axes.as_slice() else {
                return AddWord::<NEGATE, CHECKED>::step(g, op);
            };
            if index.wide || !memory.alone || !g.full || !g.lanes.is_multiple_of(CHUNK) {
                return AddWord::<NEGATE, CHECKED>::step(g, op);
            }
            let (index, value) = (g.slot(index.base), g.slot(def.value));
            let (extent, pitch) = (memory.axes[0].extent as u32, memory.axes[0].pitch as usize);
            let base = memory.ptr.add(access.offset as usize);
            let mut outside = false;
            for chunk in g.lo..g.hi {
                let lanes = load::<u32>(index.ptr, index.stride, chunk);
                let mut out = 0;
                for i in lanes {
                    out |= u32::from(i >= extent);
                }
                outside |= out != 0;
            }
            if outside {
                return out_of_bounds(g, access);
            }
            let one = value.ptr.cast::<u32>().read_unaligned();
            for chunk in g.lo..g.hi {
                let lanes = index.ptr.add(chunk * index.stride).cast::<u32>();
                let values = value.ptr.add(chunk * value.stride).cast::<u32>();
                for i in 0..CHUNK {
                    let ptr = base.add(lanes.add(i).read_unaligned() as usize * pitch).cast::<u32>();
                    let value = if value.stride == 0 { one } else { values.add(i).read_unaligned() };
                    let old = ptr.read_unaligned();
                    let (next, over) = next::<NEGATE>(old, value);
                    ptr.write_unaligned(next);
                    if CHECKED && over {
                        return word_overflowed(g, op, chunk * CHUNK + i, old, value);
                    }
                }
            }
            op.add(1)
        }
    }
}

/// As [`AddWord`] where the old values are unused and the indices affine: rows of elements, or one element that takes the sum of
/// all lanes.
pub(crate) struct AddRows<const NEGATE: bool, const CHECKED: bool>;

impl<const NEGATE: bool, const CHECKED: bool> Step for AddRows<NEGATE, CHECKED> {
    const SHAPE: Shape = Shape::new("add rows").x(Word::Atomic(Indices::Affine, 4));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`AddWord`], with affine indices: the rows of a resolved access are within the memory. The value
        // has the chunks of the mask (G1, G2). C3: there is an op behind.
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let alone = (*g.memories.add(access.memory as usize)).alone;
            if g.backward {
                return Atomic::<CHECKED>::step(g, op);
            }
            let Some(run) = resolve(g, access, def.access) else {
                return AddWord::<NEGATE, CHECKED>::step(g, op);
            };
            let (value, stride) = (g.slot(def.value), run.stride[0]);
            let solid = g.full || (g.solid && run.is_exact(g));
            let mut over: Option<(usize, u32, u32)> = None;
            run.rows(|lane, addr, count| {
                let raw = |i: usize| {
                    let lane = lane + i;
                    value.ptr.add(lane / CHUNK * value.stride).cast::<u32>().add(lane % CHUNK).read_unaligned()
                };
                let at = |i: usize| if solid || g.is_active(lane + i) { raw(i) } else { 0 };
                let signed_at = |i: usize| signed::<NEGATE>(at(i));
                if stride == 0 && (!CHECKED || has_room::<NEGATE>(addr, alone, (0..count).map(at))) {
                    let sum = (0..count).fold(0u32, |sum, i| sum.wrapping_add(signed_at(i)));
                    add_one(addr, alone, sum);
                } else if alone && stride == 4 && solid && value.stride == 4 * CHUNK {
                    let (to, from) = (addr.cast::<u32>(), value.ptr.cast::<u32>().add(lane));
                    let mut any = false;
                    for i in 0..count {
                        let (next, over) = next::<NEGATE>(to.add(i).read_unaligned(), from.add(i).read_unaligned());
                        to.add(i).write_unaligned(next);
                        any |= over;
                    }
                    if CHECKED && any {
                        let old = |i: usize| to.add(i).read_unaligned().wrapping_sub(signed_at(i));
                        let first = (0..count).find(|&i| next::<NEGATE>(old(i), raw(i)).1);
                        over = over.or(first.map(|i| (lane + i, old(i), raw(i))));
                    }
                } else {
                    for i in 0..count {
                        let old = add_one(addr.wrapping_offset(i as isize * stride), alone, signed_at(i));
                        if CHECKED && next::<NEGATE>(old, at(i)).1 {
                            over = over.or(Some((lane + i, old, at(i))));
                        }
                    }
                }
            });
            match over {
                Some((lane, old, value)) if CHECKED => word_overflowed(g, op, lane, old, value),
                _ => op.add(1),
            }
        }
    }
}

/// Returns whether the values can be added to (`NEGATE`: subtracted from) a word in any order without an intermediate overflow of
/// `i32`. Where others may add to it concurrently, half of the range is reserved for these.
#[inline(always)]
unsafe fn has_room<const NEGATE: bool>(ptr: *mut u8, alone: bool, values: impl Iterator<Item = u32>) -> bool {
    let (mut low, mut high) = (0i64, 0i64);
    for value in values {
        let value = i64::from(value as i32) * if NEGATE { -1 } else { 1 };
        (low, high) = (low + value.min(0), high + value.max(0));
    }
    let ptr = ptr.cast::<u32>();
    // SAFETY: the caller's element is in bounds and aligned; if not `alone`, it is read atomically.
    let (old, far) = unsafe {
        match alone {
            true => (ptr.read_unaligned(), 0),
            false => (AtomicU32::from_ptr(ptr).load(Ordering::SeqCst), i64::from(i32::MAX) / 2),
        }
    };
    let old = i64::from(old as i32);
    old + low - far >= i64::from(i32::MIN) && old + high + far <= i64::from(i32::MAX)
}

#[inline(always)]
fn signed<const NEGATE: bool>(value: u32) -> u32 {
    if NEGATE { value.wrapping_neg() } else { value }
}

/// Adds to a word, without a write if `value` is 0. Returns the old value (0 if `value` is 0).
#[inline(always)]
unsafe fn add_one(ptr: *mut u8, alone: bool, value: u32) -> u32 {
    // SAFETY: the caller's element is in bounds and aligned; if not `alone`, it is updated atomically.
    unsafe {
        if value == 0 {
            0
        } else if alone {
            let ptr = ptr.cast::<u32>();
            let old = ptr.read_unaligned();
            ptr.write_unaligned(old.wrapping_add(value));
            old
        } else {
            AtomicU32::from_ptr(ptr.cast()).fetch_add(value, Ordering::SeqCst)
        }
    }
}

#[inline(always)]
unsafe fn add_word<const NEGATE: bool>(
    g: &Group,
    ptr: *mut u8,
    alone: bool,
    value: u32,
    result: u16,
    lane: usize,
) -> u32 {
    // SAFETY: the caller's element is in bounds and aligned; if not `alone`, it is updated atomically. C4: the result, if any, is a
    // register of 4-byte lanes, and the lane exists.
    unsafe {
        let value = if NEGATE { value.wrapping_neg() } else { value };
        let old = if alone {
            let ptr = ptr.cast::<u32>();
            let old = ptr.read_unaligned();
            ptr.write_unaligned(old.wrapping_add(value));
            old
        } else {
            AtomicU32::from_ptr(ptr.cast()).fetch_add(value, Ordering::SeqCst)
        };
        if result != NONE {
            g.set_lane(result, lane, old);
        }
        old
    }
}

/// `+` on floats whose old values are unused, with affine indices: lane by lane, as the order shows.
pub(crate) struct AddFloats<const WIDE: bool>;

impl<const WIDE: bool> Step for AddFloats<WIDE> {
    const SHAPE: Shape = Shape::new("add floats").x(Word::Atomic(Indices::Affine, if WIDE { 8 } else { 4 }));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`AddRows`]. If others update the memory, its elements are aligned.
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let alone = (*g.memories.add(access.memory as usize)).alone;
            if g.backward {
                return Atomic::<false>::step(g, op);
            }
            let Some(run) = resolve(g, access, def.access) else {
                return Atomic::<false>::step(g, op);
            };
            let (stride, solid) = (run.stride[0], g.full || (g.solid && run.is_exact(g)));
            let scalar = if WIDE { Scalar::F64 } else { Scalar::F32 };
            run.rows(|lane, addr, count| {
                for i in 0..count {
                    if solid || g.is_active(lane + i) {
                        let value = read_value(g, def.value, scalar, lane + i);
                        update(addr.wrapping_offset(i as isize * stride), alone, AtomicOp::Add, value, None);
                    }
                }
            });
            op.add(1)
        }
    }
}

/// Returns whether the specialized ops for 4-byte additions apply.
pub(crate) fn is_word_add(op: AtomicOp, scalar: Scalar) -> bool {
    matches!(op, AtomicOp::Add | AtomicOp::Sub) && matches!(scalar, Scalar::I32 | Scalar::U32)
}
