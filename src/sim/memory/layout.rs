//! The layout of arrays, and the data types of address computation.

use smallvec::SmallVec;

use crate::code::{AXES, AccessOperands, KernelTables, MemoryDef, MemoryKind, Reg};
use crate::lanes::is_wide;
use clk_ir::def::Extent;
use clk_scalar::ScalarValue;

/// The location and the layout of an array while a group runs.
#[derive(Clone, Debug)]
pub(crate) struct MemoryRt {
    pub ptr: *mut u8,
    /// Size in bytes.
    pub len: usize,
    /// Extent and pitch (bytes between adjacent indices) of each axis. In local memory, an element consists of lane
    /// columns.
    pub axes: Vec<AxisLayout>,
    /// Set if no other worker accesses the array while this group runs. Atomic operations then use plain loads and
    /// stores.
    pub is_unshared: bool,
    /// Size in bytes of the unit in which offsets within an element are given: 1, or in local memory the size of a lane
    /// column.
    pub offset_unit: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AxisLayout {
    pub extent: i64,
    pub pitch: i64,
}

impl MemoryRt {
    /// Returns the entry for an array that has no memory yet.
    pub fn unplaced() -> MemoryRt {
        MemoryRt { ptr: std::ptr::null_mut(), len: 0, axes: vec![], is_unshared: false, offset_unit: 1 }
    }

    /// Sets the address, extents and element size of an array that no other worker accesses.
    pub fn set_location(
        &mut self,
        ptr: *mut u8,
        len: usize,
        extents: impl DoubleEndedIterator<Item = u32>,
        size: usize,
    ) {
        (self.ptr, self.len, self.is_unshared, self.offset_unit) = (ptr, len, true, 1);
        lay_out(&mut self.axes, extents, size);
    }

    /// Returns the axes of an array with these extents and elements of `size` bytes, outermost first.
    pub fn axes(extents: &[u32], size: usize) -> Vec<AxisLayout> {
        let mut axes = Vec::with_capacity(extents.len());
        lay_out(&mut axes, extents.iter().copied(), size);
        axes
    }
}

/// Sets the axes of an array with these extents and elements of `size` bytes, outermost first.
fn lay_out(axes: &mut Vec<AxisLayout>, extents: impl DoubleEndedIterator<Item = u32>, size: usize) {
    let mut pitch = size as i64;
    axes.clear();
    axes.extend(extents.rev().map(|extent| {
        let axis = AxisLayout { extent: extent.into(), pitch };
        pitch = pitch.wrapping_mul(extent.into());
        axis
    }));
    axes.reverse();
}

/// The addresses of an affine access for consecutive lanes. They form a grid of up to four dimensions.
pub(crate) struct AddressRun {
    /// Address of the element that the first lane accesses.
    pub addr: *mut u8,
    pub lane: usize,
    /// Number of lanes along each dimension, innermost first. Dimensions whose addresses continue each other are
    /// merged.
    pub count: [usize; AXES],
    pub stride: [isize; AXES],
}

/// The part of an affine access's address computation that does not depend on the bases. It remains valid until the
/// group's shape or the layout of its memory changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddressPlan {
    pub(super) epoch: u32,
    pub(super) kind: PlanKind,
    pub(super) count: [usize; AXES],
    pub(super) stride: [isize; AXES],
    pub(super) axes: [PlanAxis; AXES],
    pub(super) rank: usize,
}

/// The cached address plans of a group. A plan is valid if its epoch equals `epoch`; otherwise the group's shape or the
/// layout of memory has changed since the plan was made.
#[derive(Clone, Copy)]
pub(crate) struct AddressPlans {
    /// A plan for each access of the code.
    pub table: *mut AddressPlan,
    pub epoch: u32,
}

impl AddressPlans {
    /// Invalidates all plans.
    pub fn invalidate(&mut self) {
        self.epoch += 1;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PlanKind {
    /// There is no plan, because coefficients are registers or because the array has too many axes.
    #[default]
    None,
    /// The plan is valid if all lanes of the group are active.
    Full,
    /// The group is one row, and the plan is valid for each contiguous range of active lanes.
    Row,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlanAxis {
    pub(super) base: Reg,
    pub(super) wide: bool,
    pub(super) unsigned: bool,
    /// The smallest and the largest index of the full group, relative to the base.
    pub(super) low: i64,
    pub(super) high: i64,
    /// The coefficient along x.
    pub(super) step: i64,
    pub(super) pitch: i64,
    pub(super) extent: i64,
}

/// A kernel argument in host memory, as workers access it.
pub(crate) enum BoundParam {
    Value(SmallVec<[ScalarValue; 1]>),
    Array { ptr: *mut u8, len: usize, shape: SmallVec<[u32; 4]>, writable: bool },
}

/// Returns a message if the arrays of a launch do not fit the kernel. Each array must have the declared number of axes,
/// the extents that the kernel fixes, and enough bytes for its extents. Arrays that the kernel writes must be writable,
/// and elements that it updates atomically must be aligned.
pub(crate) fn find_mismatch(bindings: &[BoundParam], code: &KernelTables) -> Option<String> {
    let atomic = |access: &AccessOperands, memory: usize| access.memory as usize == memory;
    for (number, def) in code.memories.iter().enumerate() {
        let MemoryKind::Global(param) = def.kind else { continue };
        let Some(BoundParam::Array { ptr, len, shape, writable }) = bindings.get(param as usize) else {
            return Some(format!("`{}` is not an array", def.name));
        };
        let matches_declared = |(extent, &n): (&Extent, &u32)| !matches!(extent, Extent::Known(k) if *k != n);
        if shape.len() != def.extents.len() || !def.extents.iter().zip(shape).all(matches_declared) {
            return Some(format!("`{}` has the wrong shape", def.name));
        }
        let elements = shape.iter().try_fold(def.layout.size, |size, &n| size.checked_mul(n as usize));
        if elements.is_none_or(|bytes| bytes > *len) {
            return Some(format!("`{}` has fewer bytes than its shape requires", def.name));
        }
        if def.writable && !writable {
            return Some(format!("`{}` is read-only", def.name));
        }
        let accesses = code.atomics.iter().map(|def| &code.accesses[def.access as usize]);
        let mut sizes = accesses.filter(|access| atomic(access, number)).map(|access| access.scalar.size());
        if sizes.any(|size| !ptr.addr().is_multiple_of(size)) {
            return Some(format!("`{}` is not aligned", def.name));
        }
    }
    None
}

/// Returns the number of 4-byte lane columns of a local array.
pub(crate) fn local_columns(def: &MemoryDef) -> usize {
    if def.kind != MemoryKind::Local {
        return 0;
    }
    known_extents(def).map(|n| n as usize).product::<usize>() * element_columns(def)
}

pub(crate) fn element_columns(def: &MemoryDef) -> usize {
    def.layout.leaves.iter().map(|l| l.ty.lanes() as usize * if is_wide(l.ty.scalar()) { 2 } else { 1 }).sum()
}

pub(crate) fn known_extents(def: &MemoryDef) -> impl DoubleEndedIterator<Item = u32> {
    def.extents.iter().map(|e| if let Extent::Known(n) = e { *n } else { 0 })
}
