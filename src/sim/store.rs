//! Store ops. Addressing modes and races are explained in [`memory`](super::memory).

use std::marker::PhantomData;

use super::current_mask::CurrentMask;
use super::group::{Op, ThreadGroup};
use super::group_registers::{CHUNK, Slot};
use super::lanes::wide::WideLanes;
use super::lanes::{OpStep, each_chunk};
use super::memory::{
    StoredScalar, W4, access, active_in_bounds, address, chunk_offsets, out_of_bounds, resolve_affine,
};
use super::op_shape::{Indices, OpShape, OperandRole};

/// A store with affine indices, which writes rows of elements with constant strides. With stride 0, the value of the
/// last lane remains.
pub(crate) struct StoreAffine<E>(PhantomData<E>);

impl<E: StoredScalar> OpStep for StoreAffine<E> {
    const SHAPE: OpShape = OpShape::new("store affine").x(OperandRole::Store(Indices::Affine, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: the indices are affine, elements have `SIZE` bytes, all components are within an element, and the
        // memory is writable. So the rows of a resolved access are within the memory (G3). The registers have lanes of
        // `Repr` in all chunks of the mask (G1). C3: another op follows.
        unsafe {
            let access = access(g, op);
            let Some(run) = resolve_affine(g, access, (*op).x) else {
                return scatter::<E>(g, op);
            };
            for (k, &reg) in access.regs.iter().enumerate() {
                let slot = g.registers.slot(reg);
                let stride = run.stride[0];
                let plain = slot.stride == size_of::<E::Repr>() * CHUNK;
                if g.mask.full && plain {
                    let values = slot.ptr.cast::<E::Repr>();
                    run.for_each_row(|lane, addr, count| {
                        store_row::<E>(values.add(lane), addr.wrapping_add(k * E::SIZE), stride, count);
                    });
                } else if g.mask.full {
                    run.for_each_row(|lane, addr, count| {
                        store_pieces::<E>(slot, lane, addr.wrapping_add(k * E::SIZE), stride, count);
                    });
                } else {
                    run.for_each_row(|lane, addr, count| {
                        let addr = addr.wrapping_add(k * E::SIZE);
                        store_masked::<E>(g, slot, lane, addr, stride, count);
                    });
                }
            }
            op.add(1)
        }
    }
}

#[inline(always)]
unsafe fn store_row<E: StoredScalar>(from: *const E::Repr, to: *mut u8, stride: isize, count: usize) {
    // SAFETY: the caller's row has `count` elements that are `stride` bytes apart, and as many lanes. Registers that
    // are not views do not overlap arrays (G1).
    unsafe {
        if stride == E::SIZE as isize {
            if E::RAW && count >= 16 {
                std::ptr::copy_nonoverlapping(from.cast(), to, count * E::SIZE);
            } else {
                for i in 0..count {
                    E::write(to.add(i * E::SIZE), from.add(i).read_unaligned());
                }
            }
        } else {
            for i in 0..count {
                E::write(to.wrapping_offset(i as isize * stride), from.add(i).read_unaligned());
            }
        }
    }
}

/// Like [`store_row`], for a register whose chunks are not adjacent in memory: a view or a uniform register.
#[inline(always)]
unsafe fn store_pieces<E: StoredScalar>(slot: Slot, lane: usize, to: *mut u8, stride: isize, count: usize) {
    // SAFETY: the caller's row has `count` elements, and the register has the lanes from `lane` on. A chunk of a view
    // is copied as a whole before it is stored.
    unsafe {
        let mut i = 0;
        while i < count {
            let (chunk, first) = ((lane + i) / CHUNK, (lane + i) % CHUNK);
            let from = slot.ptr.add(chunk * slot.stride).cast::<E::Repr>().add(first);
            let to = to.wrapping_offset(i as isize * stride);
            let piece = (CHUNK - first).min(count - i);
            if piece == CHUNK && E::RAW && stride == E::SIZE as isize {
                to.cast::<[E::Repr; CHUNK]>().write_unaligned(from.cast::<[E::Repr; CHUNK]>().read_unaligned());
            } else {
                store_row::<E>(from, to, stride, piece);
            }
            i += piece;
        }
    }
}

#[inline(always)]
unsafe fn store_masked<E: StoredScalar>(
    g: &ThreadGroup,
    slot: Slot,
    lane: usize,
    to: *mut u8,
    stride: isize,
    count: usize,
) {
    // SAFETY: the caller's row has `count` elements. Only active lanes are stored; their chunks are within the register
    // (G1, G2).
    unsafe {
        let mut i = 0;
        while i < count {
            let l = lane + i;
            let from = slot.ptr.add(l / CHUNK * slot.stride).cast::<E::Repr>();
            if l.is_multiple_of(CHUNK)
                && count - i >= CHUNK
                && stride == E::SIZE as isize
                && is_chunk_active(&g.mask, l)
            {
                let values = from.cast::<[E::Repr; CHUNK]>().read_unaligned();
                for (k, value) in values.into_iter().enumerate() {
                    E::write(to.wrapping_add((i + k) * E::SIZE), value);
                }
                i += CHUNK;
                continue;
            }
            if g.is_active(l) {
                E::write(to.wrapping_offset(i as isize * stride), from.add(l % CHUNK).read_unaligned());
            }
            i += 1;
        }
    }
}

/// An affine store of 4-byte elements: rows of active lanes use masked vector stores.
pub(crate) struct StoreWords<V>(PhantomData<V>);

impl<V: WideLanes> OpStep for StoreWords<V> {
    const SHAPE: OpShape = OpShape::new("store words").x(OperandRole::Store(Indices::Affine, 4));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: as in [`StoreAffine`], for 4-byte elements. The masked store accesses active lanes only, which
        // are within the row.
        unsafe {
            if g.mask.full {
                return StoreAffine::<W4>::step(g, op);
            }
            let access = access(g, op);
            let Some(run) = resolve_affine(g, access, (*op).x) else {
                return scatter::<W4>(g, op);
            };
            let row = run.count[1] == 1 && run.count[2] == 1 && run.count[3] == 1 && run.stride[0] == 4;
            if !row {
                return StoreAffine::<W4>::step(g, op);
            }
            let mask = g.mask.lanes.cast::<u8>();
            for (k, &reg) in access.regs.iter().enumerate() {
                let slot = g.registers.slot(reg);
                // The address that corresponds to lane 0, even if lane 0 is inactive.
                let to = run.addr.wrapping_add(k * 4).wrapping_sub(run.lane * 4);
                each_chunk(&g.mask, 4 * CHUNK, |chunk| {
                    let values = V::load(slot.ptr.add(chunk * slot.stride));
                    let m = V::load(mask.add(chunk * 4 * CHUNK));
                    values.store_masked(to.wrapping_add(chunk * 4 * CHUNK), m);
                });
            }
            op.add(1)
        }
    }
}

/// Redirects the register that access `x` stores: makes it a view of the array elements if their chunks are at a
/// constant distance. The following ops then write active lanes of the register directly to the array. Otherwise, the
/// register uses its own memory.
pub(crate) struct RedirectStore;

impl OpStep for RedirectStore {
    const SHAPE: OpShape = OpShape::new("aim").x(OperandRole::Store(Indices::Affine, 4)).before(&["strip"]);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: as in [`StoreAffine`], for 4-byte elements. C6: the slot of the register may be redirected. C7: a
        // strip writes the register, and stores only active lanes, which are within the rows.
        unsafe {
            let access = access(g, op);
            let Some(&reg) = access.regs.first() else {
                return op.add(1);
            };
            let aimed = resolve_affine(g, access, (*op).x).and_then(|run| {
                let stride = match run.count {
                    [_, 1, 1, 1] => 4 * CHUNK as isize,
                    [CHUNK, _, 1, 1] if run.stride[1] > 0 => run.stride[1],
                    _ => return None,
                };
                let back = (run.lane % CHUNK * 4) as isize + stride * (run.lane / CHUNK) as isize;
                let ptr = run.addr.wrapping_offset(-back);
                (run.stride[0] == 4).then_some(Slot { ptr, stride: stride as usize })
            });
            g.registers.set_slot(reg, aimed.unwrap_or(g.registers.home(reg)));
            op.add(1)
        }
    }
}

/// Follows [`RedirectStore`] and the ops that write the register: stores the register to the array unless it is a view
/// of the array.
pub(crate) struct StoreUnlessRedirected<V>(PhantomData<V>);

impl<V: WideLanes> OpStep for StoreUnlessRedirected<V> {
    const SHAPE: OpShape = OpShape::new("store unless aimed").x(OperandRole::Store(Indices::Affine, 4));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: the registers exist, with a home each (G4). C7: the op follows a [`RedirectStore`] op for the
        // same access, which is a store.
        unsafe {
            let aimed =
                access(g, op).regs.first().is_none_or(|&reg| g.registers.slot(reg).ptr != g.registers.home(reg).ptr);
            if aimed { op.add(1) } else { StoreWords::<V>::step(g, op) }
        }
    }
}

/// Returns whether all lanes of the chunk that starts at `lane` are active.
#[inline(always)]
unsafe fn is_chunk_active(mask: &CurrentMask, lane: usize) -> bool {
    let in_range = mask.chunks().contains(&(lane / CHUNK));
    // SAFETY: G2: this chunk is within the mask, whose register has 4-byte lanes.
    in_range
        && unsafe { mask.lanes.add(lane).cast::<[u32; CHUNK]>().read_unaligned().iter().fold(!0, |a, b| a & b) == !0 }
}

/// A store with a separate index in each lane; lanes store in ascending order.
pub(crate) struct StoreScatter<E>(PhantomData<E>);

impl<E: StoredScalar> OpStep for StoreScatter<E> {
    const SHAPE: OpShape = OpShape::new("store scatter").x(OperandRole::Store(Indices::Lanes, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: indices have no coefficients, elements have `SIZE` bytes, and the memory is writable. Stored
        // lanes are in bounds: either all lanes are in bounds, or only active lanes are stored (G2). The registers have
        // lanes of `Repr` (G1). C3: another op follows.
        unsafe {
            let access = access(g, op);
            let memory = &*g.memories.add(access.memory as usize);
            for chunk in g.mask.chunks() {
                let (offsets, ok) = chunk_offsets(&g.registers, access, memory, chunk);
                if !ok && !active_in_bounds(g, access, chunk) {
                    return out_of_bounds(g, access);
                }
                let all = ok && g.mask.full && (chunk + 1) * CHUNK <= g.shape.lanes;
                for (k, &reg) in access.regs.iter().enumerate() {
                    let slot = g.registers.slot(reg);
                    let from = slot.ptr.add(chunk * slot.stride).cast::<E::Repr>();
                    let to = memory.ptr.add(k * E::SIZE);
                    for i in 0..CHUNK {
                        if all || g.is_active(chunk * CHUNK + i) {
                            E::write(to.offset(offsets[i] as isize), from.add(i).read_unaligned());
                        }
                    }
                }
            }
            op.add(1)
        }
    }
}

#[inline(never)]
unsafe fn scatter<E: StoredScalar>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    // SAFETY: C5: as in [`StoreAffine`], but only elements of active lanes that are in bounds are written.
    unsafe {
        let access = access(g, op);
        for lane in g.mask.lo * CHUNK..(g.mask.hi * CHUNK).min(g.shape.lanes) {
            if !g.is_active(lane) {
                continue;
            }
            let Some(to) = address(g, access, lane) else {
                return out_of_bounds(g, access);
            };
            for (k, &reg) in access.regs.iter().enumerate() {
                E::write(to.add(k * E::SIZE), g.registers.lane::<E::Repr>(reg, lane));
            }
        }
        op.add(1)
    }
}
