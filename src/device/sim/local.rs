//! Local arrays: each element is a column of lanes, so that an access with the same index in all lanes reads or writes whole
//! columns.
//!
//! Pitches of a local memory count bytes of columns; a lane lies in the column at its number times the size of a lane.

use std::marker::PhantomData;

use super::code::Access;
use super::group::{CHUNK, Group, Op};
use super::lanes::{Step, load, store};
use super::memory::{self, out_of_bounds};

unsafe fn access<'a>(g: &Group, op: *const Op) -> &'a Access {
    // SAFETY: the code outlives the run of its ops.
    unsafe { (&(*g.code).accesses).get_unchecked((*op).x as usize) }
}

/// Returns the column of a uniform access, if it is in bounds.
#[inline(always)]
unsafe fn column(g: &Group, access: &Access) -> Option<*mut u8> {
    unsafe { memory::uniform_address(g, access) }
}

pub(crate) struct LoadColumn<T>(PhantomData<T>);

impl<T: Copy> Step for LoadColumn<T> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let access = access(g, op);
            let Some(from) = column(g, access) else {
                return out_of_bounds(g, access);
            };
            let stride = size_of::<T>() * CHUNK;
            for (k, &reg) in access.regs.iter().enumerate() {
                let slot = g.slot(reg);
                let from = from.add(k * stride * g.column_chunks);
                for chunk in g.lo..g.hi {
                    store(slot.ptr, slot.stride, chunk, load::<T>(from, stride, chunk));
                }
            }
            op.add(1)
        }
    }
}

pub(crate) struct StoreColumn<T>(PhantomData<T>);

impl<T: Copy> Step for StoreColumn<T> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let access = access(g, op);
            let Some(to) = column(g, access) else {
                return out_of_bounds(g, access);
            };
            let stride = size_of::<T>() * CHUNK;
            for (k, &reg) in access.regs.iter().enumerate() {
                let slot = g.slot(reg);
                let to = to.add(k * stride * g.column_chunks);
                for chunk in g.lo..g.hi {
                    let new = load::<T>(slot.ptr, slot.stride, chunk);
                    let mut r = new;
                    if !g.full {
                        let m = load::<u32>(g.mask.cast_mut().cast(), 4 * CHUNK, chunk);
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

/// An access with a separate index in each lane; a store if `WRITE`.
pub(crate) struct Lanewise<T, const WRITE: bool>(PhantomData<T>);

impl<T: Copy, const WRITE: bool> Step for Lanewise<T, WRITE> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let access = access(g, op);
            let stride = size_of::<T>() * CHUNK;
            for lane in g.lo * CHUNK..(g.hi * CHUNK).min(g.lanes) {
                if !g.is_active(lane) {
                    continue;
                }
                let Some(column) = memory::place(g, access, lane) else {
                    return out_of_bounds(g, access);
                };
                for (k, &reg) in access.regs.iter().enumerate() {
                    let at = column.add(k * stride * g.column_chunks).cast::<T>().add(lane);
                    if WRITE {
                        at.write_unaligned(g.lane::<T>(reg, lane));
                    } else {
                        g.set_lane::<T>(reg, lane, at.read_unaligned());
                    }
                }
            }
            op.add(1)
        }
    }
}

/// Zeroes the elements of local memory `x` in the active lanes.
pub(crate) struct Declare;

impl Step for Declare {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let memory = &*g.memories.add((*op).x as usize);
            if g.full {
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
                        column = column.add(memory.unit * size / 4);
                    }
                }
            }
            op.add(1)
        }
    }
}
