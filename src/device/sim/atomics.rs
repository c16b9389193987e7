//! Atomic read-modify-writes, lane by lane in ascending order: in plain steps on memory that one worker owns, and else with the
//! machine's atomic instructions.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::code::{AtomicDef, NONE, Op};
use super::group::{CHUNK, Group};
use super::lanes::slow::{read_value, write_value};
use super::lanes::{Step, load};
use super::memory::{out_of_bounds, place, resolve};
use crate::lang::ops::AtomicOp;
use crate::lang::scalar::{Scalar, Value, dynamic};

unsafe fn def<'a>(g: &Group, op: *const Op) -> &'a AtomicDef {
    // SAFETY: the code outlives the run of its ops.
    unsafe { &(&(*g.code).atomics)[(*op).x as usize] }
}

/// Any operation on any type.
pub struct Atomic;

impl Step for Atomic {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let alone = (*g.memories.add(access.memory as usize)).alone;
            let lanes: Vec<usize> = g.active().collect();
            if lanes.iter().any(|&lane| place(g, access, lane).is_none()) {
                return out_of_bounds(g, access);
            }
            for lane in lanes {
                let Some(ptr) = place(g, access, lane) else {
                    return out_of_bounds(g, access);
                };
                let value = read_value(g, def.value, access.scalar, lane);
                let compare = (def.compare != NONE).then(|| read_value(g, def.compare, access.scalar, lane));
                let old = update(ptr, alone, def.op, value, compare);
                if def.result != NONE {
                    write_value(g, def.result, lane, old);
                }
            }
            op.add(1)
        }
    }
}

/// One update; returns the old value.
unsafe fn update(ptr: *mut u8, alone: bool, op: AtomicOp, value: Value, compare: Option<Value>) -> Value {
    let ty = value.ty;
    let next = |bits: u64| dynamic::atomic(op, Value { ty, bits }, value, compare).map_or(bits, |v| v.bits);
    macro_rules! by_size {
        ($atomic:ty, $int:ty) => {{
            if alone {
                let ptr = ptr.cast::<$int>();
                unsafe {
                    let old = ptr.read_unaligned();
                    ptr.write_unaligned(next(old.into()) as $int);
                    old.into()
                }
            } else {
                // SAFETY: the buffer is aligned to 16 bytes, the element to its size.
                let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
                let order = Ordering::SeqCst;
                match cell.fetch_update(order, order, |old| Some(next(old.into()) as $int)) {
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
pub struct AddWord<const NEGATE: bool>;

impl<const NEGATE: bool> Step for AddWord<NEGATE> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
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
                        add_word::<NEGATE>(g, ptr, memory.alone, value[lane - first], result, lane);
                    }
                } else {
                    for lane in lanes {
                        if !g.is_active(lane) {
                            continue;
                        }
                        let Some(ptr) = place(g, access, lane) else {
                            return out_of_bounds(g, access);
                        };
                        add_word::<NEGATE>(g, ptr, memory.alone, value[lane - first], result, lane);
                    }
                }
            }
            op.add(1)
        }
    }
}

/// The same where nobody looks at the old values and each lane has an index of its own: what the lanes add may be added in any
/// order, and the bounds of a chunk are checked at once.
pub struct Count<const NEGATE: bool>;

impl<const NEGATE: bool> Step for Count<NEGATE> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
            let [index] = access.axes.as_slice() else {
                return AddWord::<NEGATE>::step(g, op);
            };
            if index.wide || !memory.alone || !g.full || !g.lanes.is_multiple_of(CHUNK) {
                return AddWord::<NEGATE>::step(g, op);
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
            let one = signed::<NEGATE>(value.ptr.cast::<u32>().read());
            for chunk in g.lo..g.hi {
                let lanes = index.ptr.add(chunk * index.stride).cast::<u32>();
                let values = value.ptr.add(chunk * value.stride).cast::<u32>();
                for i in 0..CHUNK {
                    let ptr = base.add(lanes.add(i).read_unaligned() as usize * pitch).cast::<u32>();
                    let value = if value.stride == 0 { one } else { signed::<NEGATE>(values.add(i).read_unaligned()) };
                    ptr.write_unaligned(ptr.read_unaligned().wrapping_add(value));
                }
            }
            op.add(1)
        }
    }
}

/// The same where the indices are affine: rows of elements, or one element that takes the sum of all.
pub struct AddRows<const NEGATE: bool>;

impl<const NEGATE: bool> Step for AddRows<NEGATE> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let alone = (*g.memories.add(access.memory as usize)).alone;
            let Some(run) = resolve(g, access, def.access) else {
                return AddWord::<NEGATE>::step(g, op);
            };
            let (value, stride) = (g.slot(def.value), run.stride[0]);
            let solid = g.full || (g.solid && run.is_exact(g));
            run.rows(|lane, addr, count| {
                let at = |i: usize| {
                    let lane = lane + i;
                    let value = value.ptr.add(lane / CHUNK * value.stride).cast::<u32>().add(lane % CHUNK);
                    let value = signed::<NEGATE>(value.read_unaligned());
                    if solid || g.is_active(lane) { value } else { 0 }
                };
                if stride == 0 {
                    let sum = (0..count).fold(0u32, |sum, i| sum.wrapping_add(at(i)));
                    add_one(addr, alone, sum);
                } else if alone && stride == 4 && solid && value.stride == 4 * CHUNK {
                    let (to, from) = (addr.cast::<u32>(), value.ptr.cast::<u32>().add(lane));
                    for i in 0..count {
                        let old = to.add(i).read_unaligned();
                        to.add(i).write_unaligned(old.wrapping_add(signed::<NEGATE>(from.add(i).read_unaligned())));
                    }
                } else {
                    (0..count).for_each(|i| add_one(addr.wrapping_offset(i as isize * stride), alone, at(i)));
                }
            });
            op.add(1)
        }
    }
}

#[inline(always)]
fn signed<const NEGATE: bool>(value: u32) -> u32 {
    if NEGATE { value.wrapping_neg() } else { value }
}

/// Adding nothing leaves no trace.
#[inline(always)]
unsafe fn add_one(ptr: *mut u8, alone: bool, value: u32) {
    unsafe {
        if value == 0 {
        } else if alone {
            let ptr = ptr.cast::<u32>();
            ptr.write_unaligned(ptr.read_unaligned().wrapping_add(value));
        } else {
            AtomicU32::from_ptr(ptr.cast()).fetch_add(value, Ordering::SeqCst);
        }
    }
}

#[inline(always)]
unsafe fn add_word<const NEGATE: bool>(g: &Group, ptr: *mut u8, alone: bool, value: u32, result: u16, lane: usize) {
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
    }
}

/// Whether the fast form fits.
pub fn is_word_add(op: AtomicOp, scalar: Scalar) -> bool {
    matches!(op, AtomicOp::Add | AtomicOp::Sub) && matches!(scalar, Scalar::I32 | Scalar::U32)
}
