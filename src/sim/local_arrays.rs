//! Local arrays: each element is a column of lanes, so that an access with the same index in all lanes reads or writes
//! whole columns.
//!
//! In a local array, the pitch of an axis is the distance in bytes between the columns of adjacent elements. Within a
//! column, the byte offset of a lane is the lane's index times the lane size.

use std::marker::PhantomData;

use super::code::AccessOperands;
use super::group::{Op, ThreadGroup};
use super::group_registers::CHUNK;
use super::lanes::{OpStep, load, store};
use super::memory::{self, out_of_bounds};
use super::op_shape::{Indices, MemoryOperandKind, OpShape, OperandRole, Width, WriteKind};

unsafe fn access<'a>(g: &ThreadGroup, op: *const Op) -> &'a AccessOperands {
    // SAFETY: G5: the code outlives the run of its ops. C4: `x` is an access.
    unsafe { (&(*g.code).accesses).get_unchecked((*op).x as usize) }
}

/// Returns the column of a uniform access, if it is in bounds.
#[inline(always)]
unsafe fn column(g: &ThreadGroup, access: &AccessOperands) -> Option<*mut u8> {
    // SAFETY: C5: the access belongs to the code and has uniform indices, as the op requires.
    unsafe { memory::uniform_address(g, access) }
}

pub(crate) struct LoadColumn<T>(PhantomData<T>);

impl<T: Copy> OpStep for LoadColumn<T> {
    const SHAPE: OpShape =
        OpShape::new("load column").x(OperandRole::Local(Indices::Uniform, Width::of::<T>(), WriteKind::No));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: the access is to columns of a local array. Its components are within the element and as wide as
        // `T`, and each column has all its chunks (G3). The registers have lanes of `T` (G1). C3: another op follows.
        unsafe {
            let access = access(g, op);
            let Some(from) = column(g, access) else {
                return out_of_bounds(g, access);
            };
            let stride = size_of::<T>() * CHUNK;
            for (k, &reg) in access.regs.iter().enumerate() {
                let slot = g.registers.slot(reg);
                let from = from.add(k * stride * g.shape.column_chunks);
                for chunk in g.mask.chunks() {
                    store(slot.ptr, slot.stride, chunk, load::<T>(from, stride, chunk));
                }
            }
            op.add(1)
        }
    }
}

pub(crate) struct StoreColumn<T>(PhantomData<T>);

impl<T: Copy> OpStep for StoreColumn<T> {
    const SHAPE: OpShape =
        OpShape::new("store column").x(OperandRole::Local(Indices::Uniform, Width::of::<T>(), WriteKind::Yes));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: as in [`LoadColumn`]; the registers have lanes of `T` in the chunks of the mask (G1, G2).
        unsafe {
            let access = access(g, op);
            let Some(to) = column(g, access) else {
                return out_of_bounds(g, access);
            };
            let stride = size_of::<T>() * CHUNK;
            for (k, &reg) in access.regs.iter().enumerate() {
                let slot = g.registers.slot(reg);
                let to = to.add(k * stride * g.shape.column_chunks);
                for chunk in g.mask.chunks() {
                    let new = load::<T>(slot.ptr, slot.stride, chunk);
                    let mut r = new;
                    if !g.mask.full {
                        let m = load::<u32>(g.mask.lanes.cast_mut().cast(), 4 * CHUNK, chunk);
                        let old = load::<T>(to, stride, chunk);
                        for i in 0..CHUNK {
                            r[i] = if m[i] != 0 { new[i] } else { old[i] };
                        }
                    }
                    store(to, stride, chunk, r);
                }
            }
            op.add(1)
        }
    }
}

/// An access to a local array with a separate index in each lane: a store if `WRITE`, otherwise a load.
pub(crate) struct LocalLanewise<T, const WRITE: bool>(PhantomData<T>);

impl<T: Copy, const WRITE: bool> OpStep for LocalLanewise<T, WRITE> {
    const SHAPE: OpShape = OpShape::new("local lanewise").x(OperandRole::Local(
        Indices::Any,
        Width::of::<T>(),
        if WRITE { WriteKind::Yes } else { WriteKind::No },
    ));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: as in [`LoadColumn`], for active lanes, which exist (G2) and are in bounds.
        unsafe {
            let access = access(g, op);
            let stride = size_of::<T>() * CHUNK;
            for lane in g.mask.lo * CHUNK..(g.mask.hi * CHUNK).min(g.shape.lanes) {
                if !g.is_active(lane) {
                    continue;
                }
                let Some(column) = memory::atomic_address(g, access, lane) else {
                    return out_of_bounds(g, access);
                };
                for (k, &reg) in access.regs.iter().enumerate() {
                    let at = column.add(k * stride * g.shape.column_chunks).cast::<T>().add(lane);
                    if WRITE {
                        at.write_unaligned(g.registers.lane::<T>(reg, lane));
                    } else {
                        g.registers.set_lane::<T>(reg, lane, at.read_unaligned());
                    }
                }
            }
            op.add(1)
        }
    }
}

/// Declares local array `x`: zeroes its elements in the active lanes.
pub(crate) struct DeclareLocal;

impl OpStep for DeclareLocal {
    const SHAPE: OpShape = OpShape::new("declare").x(OperandRole::Memory(MemoryOperandKind::Local));

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C5: `x` is a local array, with columns for all components of its elements (G3), which have room
        // for all lanes. C3: another op follows.
        unsafe {
            let memory = &*g.memories.add((*op).x as usize);
            if g.mask.full {
                std::ptr::write_bytes(memory.ptr, 0, memory.len);
                return op.add(1);
            }
            let layout = &g.code().memories[(*op).x as usize].layout;
            let element = memory.axes.last().map_or(memory.len, |a| a.pitch as usize);
            for start in (0..memory.len).step_by(element.max(1)) {
                let mut column = memory.ptr.add(start);
                for leaf in &layout.leaves {
                    let size = leaf.ty.scalar().size().max(4);
                    for _ in 0..leaf.ty.lanes() {
                        for lane in g.active() {
                            std::ptr::write_bytes(column.add(lane * size), 0, size);
                        }
                        column = column.add(memory.offset_unit * size / 4);
                    }
                }
            }
            op.add(1)
        }
    }
}
