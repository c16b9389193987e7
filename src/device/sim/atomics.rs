//! Atomic read-modify-writes, lane by lane in ascending order: on shared memory in plain steps (one worker owns it), on global
//! memory with the machine's atomic instructions.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::code::{AtomicDef, NONE, Op};
use super::group::Group;
use super::lanes::slow::{read_value, write_value};
use super::lanes::{Step, load};
use super::memory::{out_of_bounds, place};
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
            let shared = (*g.memories.add(access.memory as usize)).shared;
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
                let old = update(ptr, shared, def.op, value, compare);
                if def.result != NONE {
                    write_value(g, def.result, lane, old);
                }
            }
            op.add(1)
        }
    }
}

/// One update; returns the old value.
unsafe fn update(ptr: *mut u8, shared: bool, op: AtomicOp, value: Value, compare: Option<Value>) -> Value {
    let ty = value.ty;
    let next = |bits: u64| dynamic::atomic(op, Value { ty, bits }, value, compare).map_or(bits, |v| v.bits);
    macro_rules! by_size {
        ($atomic:ty, $int:ty) => {{
            if shared {
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
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let def = def(g, op);
            let access = &(&(*g.code).accesses)[def.access as usize];
            let memory = &*g.memories.add(access.memory as usize);
            let (one_axis, result) = (access.axes.len() == 1, def.result);
            let varying = one_axis && !access.axes[0].wide && g.slot(access.axes[0].base).stride != 0;
            for chunk in g.lo..g.hi {
                let first = chunk * super::group::CHUNK;
                let lanes = first..(first + super::group::CHUNK).min(g.lanes);
                let value = load::<u32>(g.slot(def.value).ptr, g.slot(def.value).stride, chunk);
                if varying {
                    let slot = g.slot(access.axes[0].base);
                    let index = load::<u32>(slot.ptr, slot.stride, chunk);
                    let (extent, pitch) = (memory.axes[0].extent as u32, memory.axes[0].pitch as usize);
                    let base = memory.ptr.add(access.offset as usize);
                    if g.full && memory.shared && result == NONE && lanes.len() == super::group::CHUNK {
                        if index.iter().any(|&i| i >= extent) {
                            return out_of_bounds(g, access);
                        }
                        for (i, v) in index.into_iter().zip(value) {
                            let ptr = base.add(i as usize * pitch).cast::<u32>();
                            let v = if NEGATE { v.wrapping_neg() } else { v };
                            ptr.write_unaligned(ptr.read_unaligned().wrapping_add(v));
                        }
                        continue;
                    }
                    for lane in lanes {
                        let i = index[lane - first];
                        if !g.is_active(lane) {
                            continue;
                        }
                        if i >= extent {
                            return out_of_bounds(g, access);
                        }
                        let ptr = base.add(i as usize * pitch);
                        add_word::<NEGATE>(g, ptr, memory.shared, value[lane - first], result, lane);
                    }
                } else {
                    for lane in lanes {
                        if !g.is_active(lane) {
                            continue;
                        }
                        let Some(ptr) = place(g, access, lane) else {
                            return out_of_bounds(g, access);
                        };
                        add_word::<NEGATE>(g, ptr, memory.shared, value[lane - first], result, lane);
                    }
                }
            }
            op.add(1)
        }
    }
}

#[inline(always)]
unsafe fn add_word<const NEGATE: bool>(g: &Group, ptr: *mut u8, shared: bool, value: u32, result: u16, lane: usize) {
    unsafe {
        let value = if NEGATE { value.wrapping_neg() } else { value };
        let old = if shared {
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
