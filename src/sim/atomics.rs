//! Atomic read-modify-write ops. Lanes perform their updates in ascending order, or in descending order if the launch
//! runs in reverse order. Memory that only one worker accesses is updated by plain reads and writes, other memory by
//! atomic instructions.
//!
//! Ops with `CHECKED` stop the group if a signed sum overflows.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::code::{AtomicDef, NONE};
use super::group::{Op, Pause, ThreadGroup};
use super::group_registers::{CHUNK, GroupRegisters};
use super::lanes::slow::{read_value, write_value};
use super::lanes::{OpStep, load};
use super::memory::{atomic_address, out_of_bounds, resolve_affine};
use super::op_shape::{Indices, OpShape, OperandRole};
use clk_runtime::FaultKind;
use clk_scalar::exact::{is_first_nonfinite, is_representable};
use clk_scalar::ops::AtomicOp;
use clk_scalar::{Scalar, ScalarType, ScalarValue, dynamic};

unsafe fn atomic_def<'a>(g: &ThreadGroup, op: *const Op) -> &'a AtomicDef {
    // SAFETY: G5: the code outlives the run of its ops. C4: `x` is an atomic operation (indexing checks it).
    unsafe { &(&(*g.code).atomics)[(*op).x as usize] }
}

/// The general op for atomic operation `x`, for all operators and types.
pub(crate) struct GeneralAtomic<const CHECKED: bool>;

impl<const CHECKED: bool> OpStep for GeneralAtomic<CHECKED> {
    const SHAPE: OpShape = OpShape::new("atomic").x(OperandRole::Atomic(Indices::Any, 0));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: operation and access belong to the code, and the memory exists (G3). Active lanes exist (G2),
        // and their elements are in bounds, aligned, and as large as the type. C3: another op follows.
        unsafe {
            let def = atomic_def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let is_unshared = (*g.memories.add(access.memory as usize)).is_unshared;
            let mut lanes: Vec<usize> = g.active().collect();
            if g.reverse_order {
                lanes.reverse();
            }
            if lanes.iter().any(|&lane| atomic_address(g, access, lane).is_none()) {
                return out_of_bounds(g, access);
            }
            let mut changed = false;
            for lane in lanes {
                let Some(ptr) = atomic_address(g, access, lane) else {
                    return out_of_bounds(g, access);
                };
                let value = read_value(&g.registers, def.value, access.scalar, lane);
                let compare = (def.compare != NONE).then(|| read_value(&g.registers, def.compare, access.scalar, lane));
                let old = update_element(ptr, is_unshared, def.op, value, compare);
                if CHECKED && let Some(kind) = atomic_fault(def.op, old, value) {
                    return g.results.stop_at(kind, access.span, lane, 0);
                }
                if def.result != NONE {
                    write_value(&g.registers, def.result, lane, old);
                }
                changed |= g.reverse_order && changes_value(def.op, old, value, compare);
            }
            if changed {
                // Yields to other blocks while this one may hold a lock or may be about to run ahead of its
                // synchronization.
                return g.pause.pause_after(op, Pause::Iteration);
            }
            op.add(1)
        }
    }
}

/// Returns the fault of an atomic sum or difference, for launches with checks: the result overflows its signed type, or
/// it is infinite or NaN although both operands are finite.
fn atomic_fault(op: AtomicOp, old: ScalarValue, value: ScalarValue) -> Option<FaultKind> {
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
    (ty.is_signed() && !is_representable(ty, exact)).then(|| FaultKind::Overflow { operation: operation(), ty })
}

/// Stops at atomic `op`, whose 4-byte sum overflows in this lane. `old` is the previous value.
#[cold]
#[inline(never)]
fn stop_at_word_overflow(g: &mut ThreadGroup, op: *const Op, lane: usize, old: u32, value: u32) -> *const Op {
    // SAFETY: C3: the caller's op is one of the code's.
    let def = unsafe { atomic_def(g, op) };
    let span = g.code().accesses[def.access as usize].span;
    match atomic_fault(def.op, ScalarValue::of(old as i32), ScalarValue::of(value as i32)) {
        Some(kind) => g.results.stop_at(kind, span, lane, 0),
        None => op.wrapping_add(1),
    }
}

/// Returns the new value of a 4-byte element, and whether the sum overflows an `i32`.
#[inline(always)]
fn next_word<const NEGATE: bool>(old: u32, value: u32) -> (u32, bool) {
    let (old, value) = (old as i32, value as i32);
    let (next, overflow) = if NEGATE { old.overflowing_sub(value) } else { old.overflowing_add(value) };
    (next as u32, overflow)
}

/// Returns whether an atomic operation changes the element's value.
fn changes_value(op: AtomicOp, old: ScalarValue, value: ScalarValue, compare: Option<ScalarValue>) -> bool {
    dynamic::atomic(op, old, value, compare).is_ok_and(|new| new.bits != old.bits)
}

/// Performs one atomic update of an element; returns the old value.
#[inline(always)]
pub(crate) unsafe fn update_element(
    ptr: *mut u8,
    is_unshared: bool,
    op: AtomicOp,
    value: ScalarValue,
    compare: Option<ScalarValue>,
) -> ScalarValue {
    let ty = value.ty;
    let next = |bits: u64| match (op, ty) {
        // Fast path: derivatives consist mostly of float sums.
        (AtomicOp::Add, Scalar::F32) => {
            let sum = f32::from_raw(bits) + f32::from_raw(value.bits);
            if sum.is_nan() { ty.canonical_nan() } else { sum.to_raw() }
        }
        (AtomicOp::Add, Scalar::F64) => {
            let sum = f64::from_raw(bits) + f64::from_raw(value.bits);
            if sum.is_nan() { ty.canonical_nan() } else { sum.to_raw() }
        }
        _ => dynamic::atomic(op, ScalarValue { ty, bits }, value, compare).map_or(bits, |v| v.bits),
    };
    macro_rules! by_size {
        ($atomic:ty, $int:ty) => {{
            if is_unshared {
                let ptr = ptr.cast::<$int>();
                // SAFETY: the caller's element is in bounds, and no other worker accesses it.
                unsafe {
                    let old = ptr.read_unaligned();
                    ptr.write_unaligned(next(old.into()) as $int);
                    old.into()
                }
            } else {
                // SAFETY: C5, G3: the caller's element is in bounds and aligned to its size, and all workers either
                // access it atomically or race.
                let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
                let order = Ordering::SeqCst;
                // An update that does not change the value is not written, so that spinning threads do not contend for
                // the cache line.
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
    ScalarValue { ty, bits }
}

/// Atomic `+` or `-` on 4-byte integers.
pub(crate) struct AddWord<const NEGATE: bool, const CHECKED: bool>;

impl<const NEGATE: bool, const CHECKED: bool> OpStep for AddWord<NEGATE, CHECKED> {
    const SHAPE: OpShape = OpShape::new("add word").x(OperandRole::Atomic(Indices::Any, 4));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`GeneralAtomic`], for 4-byte elements. An index in a lane register
        // is not affine in the thread index, so the register contains the indices themselves. Only elements within the
        // extent are updated.
        unsafe {
            let def = atomic_def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
            if g.reverse_order {
                return GeneralAtomic::<CHECKED>::step(g, op);
            }
            let (one_axis, result) = (access.axes.len() == 1, def.result);
            let varying = one_axis && !access.axes[0].wide && g.registers.slot(access.axes[0].base).stride != 0;
            for chunk in g.mask.chunks() {
                let first = chunk * CHUNK;
                let lanes = first..(first + CHUNK).min(g.shape.lanes);
                let value = load::<u32>(g.registers.slot(def.value).ptr, g.registers.slot(def.value).stride, chunk);
                if varying {
                    let slot = g.registers.slot(access.axes[0].base);
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
                        let old = add_word::<NEGATE>(
                            &g.registers,
                            ptr,
                            memory.is_unshared,
                            value[lane - first],
                            result,
                            lane,
                        );
                        if CHECKED && next_word::<NEGATE>(old, value[lane - first]).1 {
                            return stop_at_word_overflow(g, op, lane, old, value[lane - first]);
                        }
                    }
                } else {
                    for lane in lanes {
                        if !g.is_active(lane) {
                            continue;
                        }
                        let Some(ptr) = atomic_address(g, access, lane) else {
                            return out_of_bounds(g, access);
                        };
                        let old = add_word::<NEGATE>(
                            &g.registers,
                            ptr,
                            memory.is_unshared,
                            value[lane - first],
                            result,
                            lane,
                        );
                        if CHECKED && next_word::<NEGATE>(old, value[lane - first]).1 {
                            return stop_at_word_overflow(g, op, lane, old, value[lane - first]);
                        }
                    }
                }
            }
            op.add(1)
        }
    }
}

/// Like [`AddWord`], for unused old values and a separate index in each lane. The order of additions does not affect
/// the sums, so the bounds of a chunk's indices are checked together.
pub(crate) struct AddUnordered<const NEGATE: bool, const CHECKED: bool>;

impl<const NEGATE: bool, const CHECKED: bool> OpStep for AddUnordered<NEGATE, CHECKED> {
    const SHAPE: OpShape = OpShape::new("count").x(OperandRole::Atomic(Indices::Lanes, 4));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`AddWord`], with one axis. All indices are checked against the extent before any
        // element is updated, and no other worker accesses the memory.
        unsafe {
            let def = atomic_def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
            if g.reverse_order {
                return GeneralAtomic::<CHECKED>::step(g, op);
            }
            let [index] = access.axes.as_slice() else {
                return AddWord::<NEGATE, CHECKED>::step(g, op);
            };
            if index.wide || !memory.is_unshared || !g.mask.full || !g.shape.lanes.is_multiple_of(CHUNK) {
                return AddWord::<NEGATE, CHECKED>::step(g, op);
            }
            let (index, value) = (g.registers.slot(index.base), g.registers.slot(def.value));
            let (extent, pitch) = (memory.axes[0].extent as u32, memory.axes[0].pitch as usize);
            let base = memory.ptr.add(access.offset as usize);
            let mut outside = false;
            for chunk in g.mask.chunks() {
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
            for chunk in g.mask.chunks() {
                let lanes = index.ptr.add(chunk * index.stride).cast::<u32>();
                let values = value.ptr.add(chunk * value.stride).cast::<u32>();
                for i in 0..CHUNK {
                    let ptr = base.add(lanes.add(i).read_unaligned() as usize * pitch).cast::<u32>();
                    let value = if value.stride == 0 { one } else { values.add(i).read_unaligned() };
                    let old = ptr.read_unaligned();
                    let (next, overflow) = next_word::<NEGATE>(old, value);
                    ptr.write_unaligned(next);
                    if CHECKED && overflow {
                        return stop_at_word_overflow(g, op, chunk * CHUNK + i, old, value);
                    }
                }
            }
            op.add(1)
        }
    }
}

/// Like [`AddWord`], for unused old values and affine indices: updates rows of elements, or adds the sum of all lanes
/// to a single element.
pub(crate) struct AddRows<const NEGATE: bool, const CHECKED: bool>;

impl<const NEGATE: bool, const CHECKED: bool> OpStep for AddRows<NEGATE, CHECKED> {
    const SHAPE: OpShape = OpShape::new("add rows").x(OperandRole::Atomic(Indices::Affine, 4));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`AddWord`], with affine indices: the rows of a resolved access are within the memory.
        // The value has the chunks of the mask (G1, G2). C3: another op follows.
        unsafe {
            let def = atomic_def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let is_unshared = (*g.memories.add(access.memory as usize)).is_unshared;
            if g.reverse_order {
                return GeneralAtomic::<CHECKED>::step(g, op);
            }
            let Some(run) = resolve_affine(g, access, def.access) else {
                return AddWord::<NEGATE, CHECKED>::step(g, op);
            };
            let (value, stride) = (g.registers.slot(def.value), run.stride[0]);
            let solid = g.mask.full || (g.mask.is_contiguous && run.is_exact(&g.mask));
            let mut overflow: Option<(usize, u32, u32)> = None;
            run.for_each_row(|lane, addr, count| {
                let raw = |i: usize| {
                    let lane = lane + i;
                    value.ptr.add(lane / CHUNK * value.stride).cast::<u32>().add(lane % CHUNK).read_unaligned()
                };
                let at = |i: usize| if solid || g.is_active(lane + i) { raw(i) } else { 0 };
                let signed_at = |i: usize| signed_value::<NEGATE>(at(i));
                if stride == 0 && (!CHECKED || cannot_overflow::<NEGATE>(addr, is_unshared, (0..count).map(at))) {
                    let sum = (0..count).fold(0u32, |sum, i| sum.wrapping_add(signed_at(i)));
                    add_to_word(addr, is_unshared, sum);
                } else if is_unshared && stride == 4 && solid && value.stride == 4 * CHUNK {
                    let (to, from) = (addr.cast::<u32>(), value.ptr.cast::<u32>().add(lane));
                    let mut any = false;
                    for i in 0..count {
                        let (next, overflow) =
                            next_word::<NEGATE>(to.add(i).read_unaligned(), from.add(i).read_unaligned());
                        to.add(i).write_unaligned(next);
                        any |= overflow;
                    }
                    if CHECKED && any {
                        let old = |i: usize| to.add(i).read_unaligned().wrapping_sub(signed_at(i));
                        let first = (0..count).find(|&i| next_word::<NEGATE>(old(i), raw(i)).1);
                        overflow = overflow.or(first.map(|i| (lane + i, old(i), raw(i))));
                    }
                } else {
                    for i in 0..count {
                        let old = add_to_word(addr.wrapping_offset(i as isize * stride), is_unshared, signed_at(i));
                        if CHECKED && next_word::<NEGATE>(old, at(i)).1 {
                            overflow = overflow.or(Some((lane + i, old, at(i))));
                        }
                    }
                }
            });
            match overflow {
                Some((lane, old, value)) if CHECKED => stop_at_word_overflow(g, op, lane, old, value),
                _ => op.add(1),
            }
        }
    }
}

/// Returns whether the values can be added to a 4-byte element (subtracted if `NEGATE`) in any order without an
/// intermediate overflow of `i32`. If other workers may add to the element concurrently, half of the `i32` range is
/// reserved for their additions.
#[inline(always)]
unsafe fn cannot_overflow<const NEGATE: bool>(
    ptr: *mut u8,
    is_unshared: bool,
    values: impl Iterator<Item = u32>,
) -> bool {
    let (mut low, mut high) = (0i64, 0i64);
    for value in values {
        let value = i64::from(value as i32) * if NEGATE { -1 } else { 1 };
        (low, high) = (low + value.min(0), high + value.max(0));
    }
    let ptr = ptr.cast::<u32>();
    // SAFETY: the caller's element is in bounds and aligned; if not `is_unshared`, it is read atomically.
    let (old, far) = unsafe {
        match is_unshared {
            true => (ptr.read_unaligned(), 0),
            false => (AtomicU32::from_ptr(ptr).load(Ordering::SeqCst), i64::from(i32::MAX) / 2),
        }
    };
    let old = i64::from(old as i32);
    old + low - far >= i64::from(i32::MIN) && old + high + far <= i64::from(i32::MAX)
}

#[inline(always)]
fn signed_value<const NEGATE: bool>(value: u32) -> u32 {
    if NEGATE { value.wrapping_neg() } else { value }
}

/// Adds to a 4-byte element; does not write if `value` is 0. Returns the old value (0 if `value` is 0).
#[inline(always)]
unsafe fn add_to_word(ptr: *mut u8, is_unshared: bool, value: u32) -> u32 {
    // SAFETY: the caller's element is in bounds and aligned; if not `is_unshared`, it is updated atomically.
    unsafe {
        if value == 0 {
            0
        } else if is_unshared {
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
    registers: &GroupRegisters,
    ptr: *mut u8,
    is_unshared: bool,
    value: u32,
    result: u16,
    lane: usize,
) -> u32 {
    // SAFETY: the caller's element is in bounds and aligned; if not `is_unshared`, it is updated atomically. C4: if
    // there is a result, it is a register of 4-byte lanes, and the lane exists.
    unsafe {
        let value = if NEGATE { value.wrapping_neg() } else { value };
        let old = if is_unshared {
            let ptr = ptr.cast::<u32>();
            let old = ptr.read_unaligned();
            ptr.write_unaligned(old.wrapping_add(value));
            old
        } else {
            AtomicU32::from_ptr(ptr.cast()).fetch_add(value, Ordering::SeqCst)
        };
        if result != NONE {
            registers.set_lane(result, lane, old);
        }
        old
    }
}

/// Atomic `+` on floats, for unused old values and affine indices. Adds lane by lane, because the order affects the
/// result.
pub(crate) struct AddFloats<const WIDE: bool>;

impl<const WIDE: bool> OpStep for AddFloats<WIDE> {
    const SHAPE: OpShape = OpShape::new("add floats").x(OperandRole::Atomic(Indices::Affine, if WIDE { 8 } else { 4 }));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: as in [`AddRows`]. If other workers update the memory, its elements are aligned.
        unsafe {
            let def = atomic_def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let is_unshared = (*g.memories.add(access.memory as usize)).is_unshared;
            if g.reverse_order {
                return GeneralAtomic::<false>::step(g, op);
            }
            let Some(run) = resolve_affine(g, access, def.access) else {
                return GeneralAtomic::<false>::step(g, op);
            };
            let (stride, solid) = (run.stride[0], g.mask.full || (g.mask.is_contiguous && run.is_exact(&g.mask)));
            let scalar = if WIDE { Scalar::F64 } else { Scalar::F32 };
            run.for_each_row(|lane, addr, count| {
                for i in 0..count {
                    if solid || g.is_active(lane + i) {
                        let value = read_value(&g.registers, def.value, scalar, lane + i);
                        update_element(
                            addr.wrapping_offset(i as isize * stride),
                            is_unshared,
                            AtomicOp::Add,
                            value,
                            None,
                        );
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
