//! Shared memory: one area per group, laid out when a block starts.

use super::code::{MemoryDef, MemoryKind};
use super::group::{Op, ThreadGroup};
use super::group_registers::GroupRegisters;
use super::lanes::OpStep;
use super::memory::MemoryRt;
use super::op_shape::{OpShape, OperandRole};
use clk_ir::def::Extent;
use clk_runtime::FaultKind;

/// Maximum size in bytes of a block's shared memory, as on current GPUs.
pub(crate) const MAX_SHARED_BYTES: usize = 227 * 1024;
/// Maximum size in bytes of a block's shared arrays in a tile program. A GPU holds such tiles in registers.
pub(crate) const MAX_TILE_BYTES: usize = 1024 * 1024;

/// Zeroes the `x` bytes of the block's shared arrays, which the frame has laid out.
pub(crate) struct ClearShared;

impl OpStep for ClearShared {
    const SHAPE: OpShape = OpShape::new("clear").x(OperandRole::Shared);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C9: shared arrays have at least `x` bytes, which the frame has laid out. C3: another op follows.
        unsafe {
            std::ptr::write_bytes(g.shared, 0, (*op).x as usize);
            op.add(1)
        }
    }
}

/// Returns the byte offsets of the start and the end of an array with known extents, if `used` bytes of shared memory
/// precede it.
pub(crate) fn array_range(used: u64, def: &MemoryDef) -> Option<(u64, u64)> {
    let start = used.next_multiple_of(16);
    let size = def.layout.size as u64;
    let bytes = def.extents.iter().try_fold(size, |bytes, extent| bytes.checked_mul(extent.known()?.into()))?;
    Some((start, start.checked_add(bytes)?)).filter(|&(_, end)| end <= MAX_TILE_BYTES as u64)
}

/// Returns the maximum size in bytes of a block's shared arrays.
pub(crate) fn shared_bytes(memories: &[MemoryDef]) -> usize {
    let mut arrays = memories.iter().filter(|m| m.kind == MemoryKind::Shared);
    arrays.try_fold(0, |used, def| Some(array_range(used, def)?.1)).map_or(MAX_SHARED_BYTES, |bytes| bytes as usize)
}

/// Lays out the shared arrays of a block and zeroes them.
pub(crate) struct LayOutShared;

impl OpStep for LayOutShared {
    const SHAPE: OpShape = OpShape::new("arrange");

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: G5: the code outlives the execution of its ops, and therefore this reference.
        let code = unsafe { &*g.code };
        let mut used = 0u64;
        for (k, def) in code.memories.iter().enumerate().filter(|(_, d)| d.kind == MemoryKind::Shared) {
            let start = used.next_multiple_of(16);
            // SAFETY: C9: the registers of dynamic extents are uniform.
            let extents = match unsafe { extents(&g.registers, def) } {
                Ok(extents) => extents,
                Err(extent) => {
                    return stop_launch(
                        g,
                        def,
                        FaultKind::SharedExtent { array: def.name.clone(), extent: extent.into() },
                    );
                }
            };
            let bytes = extents.iter().fold(def.layout.size as u64, |size, &n| size.saturating_mul(n.into()));
            used = start.saturating_add(bytes);
            if used > MAX_SHARED_BYTES as u64 {
                return stop_launch(g, def, FaultKind::SharedSize { bytes: used, limit: MAX_SHARED_BYTES as u64 });
            }
            let ptr = g.shared.wrapping_add(start as usize);
            let axes = MemoryRt::axes(&extents, def.layout.size);
            let memory = MemoryRt { ptr, len: bytes as usize, axes, is_unshared: true, offset_unit: 1 };
            // SAFETY: G4: each memory of the code has an entry.
            unsafe {
                let old = &mut *g.memories.add(k);
                if old.ptr != memory.ptr || old.axes != memory.axes {
                    *old = memory;
                    g.plans.invalidate();
                }
            }
        }
        // SAFETY: if some extents are dynamic, the frame has `MAX_SHARED_BYTES` bytes of shared memory, and `used` is
        // at most `MAX_SHARED_BYTES`.
        unsafe { std::ptr::write_bytes(g.shared, 0, used as usize) };
        op.wrapping_add(1)
    }
}

/// Returns the extents of an array, or the first one that is negative.
unsafe fn extents(registers: &GroupRegisters, def: &MemoryDef) -> Result<Vec<u32>, i32> {
    let extent = |(extent, &reg): (&Extent, &u16)| match extent {
        Extent::Known(n) => Ok(*n),
        _ => {
            // SAFETY: C9: each dynamic extent has a uniform 4-byte register, and no other register is read.
            let extent = unsafe { registers.first::<i32>(reg) };
            u32::try_from(extent).map_err(|_| extent)
        }
    };
    def.extents.iter().zip(&def.extent_regs).map(extent).collect()
}

#[cold]
fn stop_launch(g: &mut ThreadGroup, def: &MemoryDef, why: FaultKind) -> *const Op {
    g.results.stop_at(why, def.span_index, 0, g.shape.lanes as u64 - 1)
}
