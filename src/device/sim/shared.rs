//! Shared memory: one area per group, laid out when a block starts.

use super::code::{MemoryDef, MemoryKind};
use super::fault::stop_at;
use super::group::{Group, Op};
use super::lanes::Step;
use super::memory::MemoryRt;
use super::shape::{Shape, Word};
use crate::device::FaultKind;
use crate::ir::def::Extent;

/// Bytes of shared memory per block, as on current GPUs.
pub(crate) const LIMIT: usize = 227 * 1024;
/// The same for programs of tiles, which a GPU holds in registers.
pub(crate) const LIMIT_OF_TILES: usize = 1024 * 1024;

/// Zeroes the `x` bytes of shared arrays that the frame has laid out.
pub(crate) struct Clear;

impl Step for Clear {
    const SHAPE: Shape = Shape::new("clear").x(Word::Shared);

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C9: shared arrays have `x` bytes or more, which the frame has laid out. C3: there is an op behind.
        unsafe {
            std::ptr::write_bytes(g.shared, 0, (*op).x as usize);
            op.add(1)
        }
    }
}

/// Returns start and end of an array of known extents that follows `used` bytes.
pub(crate) fn place(used: u64, def: &MemoryDef) -> Option<(u64, u64)> {
    let start = used.next_multiple_of(16);
    let bytes = def.extents.iter().try_fold(def.layout.size as u64, |size, extent| match extent {
        Extent::Known(n) => size.checked_mul(u64::from(*n)),
        _ => None,
    })?;
    Some((start, start.checked_add(bytes)?)).filter(|&(_, end)| end <= LIMIT_OF_TILES as u64)
}

/// Returns the bytes that the shared arrays of a block may take.
pub(crate) fn room(memories: &[MemoryDef]) -> usize {
    let mut arrays = memories.iter().filter(|m| m.kind == MemoryKind::Shared);
    arrays.try_fold(0, |used, def| Some(place(used, def)?.1)).map_or(LIMIT, |bytes| bytes as usize)
}

/// Lays out the shared arrays of a block and zeroes them.
pub(crate) struct Arrange;

impl Step for Arrange {
    const SHAPE: Shape = Shape::new("arrange");

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: G5: the code lives as long as the run of its ops, and longer than the reference is used.
        let code = unsafe { &*g.code };
        let mut used = 0u64;
        for (k, def) in code.memories.iter().enumerate().filter(|(_, d)| d.kind == MemoryKind::Shared) {
            let start = used.next_multiple_of(16);
            // SAFETY: C9: the registers of dynamic extents are uniform.
            let extents = match unsafe { extents(g, def) } {
                Ok(extents) => extents,
                Err(extent) => {
                    return refuse(g, def, FaultKind::SharedExtent { array: def.name.clone(), extent: extent.into() });
                }
            };
            let bytes = extents.iter().fold(def.layout.size as u64, |size, &n| size.saturating_mul(n.into()));
            used = start.saturating_add(bytes);
            if used > LIMIT as u64 {
                return refuse(g, def, FaultKind::SharedSize { bytes: used, limit: LIMIT as u64 });
            }
            let ptr = g.shared.wrapping_add(start as usize);
            let axes = MemoryRt::axes(&extents, def.layout.size);
            let memory = MemoryRt { ptr, len: bytes as usize, axes, alone: true, unit: 1 };
            // SAFETY: G4: there is one for each memory of the code.
            unsafe {
                let old = &mut *g.memories.add(k);
                if old.ptr != memory.ptr || old.axes != memory.axes {
                    *old = memory;
                    g.epoch += 1;
                }
            }
        }
        // SAFETY: where extents are not known, the frame has `LIMIT` bytes of shared memory, and `used` is no more.
        unsafe { std::ptr::write_bytes(g.shared, 0, used as usize) };
        op.wrapping_add(1)
    }
}

/// Returns the extents of an array, or the first one that is negative.
unsafe fn extents(g: &Group, def: &MemoryDef) -> Result<Vec<u32>, i32> {
    let extent = |(extent, &reg): (&Extent, &u16)| match extent {
        Extent::Known(n) => Ok(*n),
        _ => {
            // SAFETY: C9: there is a uniform 4-byte register for each dynamic extent, and no other is read.
            let extent = unsafe { g.first::<i32>(reg) };
            u32::try_from(extent).map_err(|_| extent)
        }
    };
    def.extents.iter().zip(&def.extent_regs).map(extent).collect()
}

#[cold]
fn refuse(g: &mut Group, def: &MemoryDef, why: FaultKind) -> *const Op {
    stop_at(g, why, def.place, 0, g.lanes as u64 - 1)
}
