//! Data types for the layout of arrays and for the addresses of an access.

use smallvec::SmallVec;

use crate::device::sim::code::{AXES, Access, Code, MemoryDef, MemoryKind, Reg};
use crate::device::sim::lanes::is_wide;
use crate::ir::def::Extent;
use crate::lang::scalar::Value;

/// An array during the run of a group.
#[derive(Clone, Debug)]
pub(crate) struct MemoryRt {
    pub ptr: *mut u8,
    /// Size in bytes.
    pub len: usize,
    /// Per axis the extent and the bytes from one index to the next (for local memory: lane columns).
    pub axes: Vec<Axis>,
    /// No other worker accesses it while this group runs, so that atomic operations need no atomic instructions.
    pub alone: bool,
    /// The unit of offsets within an element in bytes: 1, or in local memory a lane column.
    pub unit: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Axis {
    pub extent: i64,
    pub pitch: i64,
}

impl MemoryRt {
    /// An array that is nowhere.
    pub fn nowhere() -> MemoryRt {
        MemoryRt { ptr: std::ptr::null_mut(), len: 0, axes: vec![], alone: false, unit: 1 }
    }

    /// Places an array that no other worker accesses at an address, with these extents and elements of `size`.
    pub fn place(&mut self, ptr: *mut u8, len: usize, extents: impl DoubleEndedIterator<Item = u32>, size: usize) {
        (self.ptr, self.len, self.alone, self.unit) = (ptr, len, true, 1);
        lay_out(&mut self.axes, extents, size);
    }

    /// Returns the axes of an array with these extents and elements of `size`, outermost first.
    pub fn axes(extents: &[u32], size: usize) -> Vec<Axis> {
        let mut axes = Vec::with_capacity(extents.len());
        lay_out(&mut axes, extents.iter().copied(), size);
        axes
    }
}

/// Sets the axes of an array with these extents and elements of `size`, outermost first.
fn lay_out(axes: &mut Vec<Axis>, extents: impl DoubleEndedIterator<Item = u32>, size: usize) {
    let mut pitch = size as i64;
    axes.clear();
    axes.extend(extents.rev().map(|extent| {
        let axis = Axis { extent: extent.into(), pitch };
        pitch = pitch.wrapping_mul(extent.into());
        axis
    }));
    axes.reverse();
}

/// The addresses of an affine access for a range of lanes: a grid of up to four dimensions.
pub(crate) struct Run {
    /// Address of the first lane.
    pub addr: *mut u8,
    pub lane: usize,
    /// Innermost first; contiguous dimensions are merged.
    pub count: [usize; AXES],
    pub stride: [isize; AXES],
}

/// The part of an affine access's address computation that does not depend on the bases: valid for one shape of the group and one
/// layout of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(super) epoch: u32,
    pub(super) kind: PlanKind,
    pub(super) count: [usize; AXES],
    pub(super) stride: [isize; AXES],
    pub(super) axes: [PlanAxis; AXES],
    pub(super) rank: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PlanKind {
    /// Not usable: coefficients are registers, or there are too many axes.
    #[default]
    None,
    /// Valid for the full group.
    Full,
    /// The group is one row: valid for any range of it.
    Row,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlanAxis {
    pub(super) base: Reg,
    pub(super) wide: bool,
    pub(super) unsigned: bool,
    /// Added to the base: the smallest and the largest index of the full group.
    pub(super) low: i64,
    pub(super) high: i64,
    /// The coefficient along x.
    pub(super) step: i64,
    pub(super) pitch: i64,
    pub(super) extent: i64,
}

/// An argument in the form that workers use.
pub(crate) enum Binding {
    Value(SmallVec<[Value; 1]>),
    Array { ptr: *mut u8, len: usize, shape: SmallVec<[u32; 4]>, writable: bool },
}

/// Returns what is wrong with the arrays of a launch: kernels rely on their having the axes that they are declared with, and as many
/// bytes as these say; on being able to write what they may write; and on the alignment of what they update atomically.
pub(crate) fn misfit(bindings: &[Binding], code: &Code) -> Option<String> {
    let atomic = |access: &Access, memory: usize| access.memory as usize == memory;
    for (number, def) in code.memories.iter().enumerate() {
        let MemoryKind::Global(param) = def.kind else { continue };
        let Some(Binding::Array { ptr, len, shape, writable }) = bindings.get(param as usize) else {
            return Some(format!("`{}` is not an array", def.name));
        };
        let known = |(extent, &n): (&Extent, &u32)| !matches!(extent, Extent::Known(k) if *k != n);
        if shape.len() != def.extents.len() || !def.extents.iter().zip(shape).all(known) {
            return Some(format!("`{}` has another shape", def.name));
        }
        let elements = shape.iter().try_fold(def.layout.size, |size, &n| size.checked_mul(n as usize));
        if elements.is_none_or(|bytes| bytes > *len) {
            return Some(format!("`{}` has fewer bytes than its shape says", def.name));
        }
        if def.writable && !writable {
            return Some(format!("`{}` cannot be written", def.name));
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
    known(def).map(|n| n as usize).product::<usize>() * element_columns(def)
}

pub(crate) fn element_columns(def: &MemoryDef) -> usize {
    def.layout.leaves.iter().map(|l| l.ty.lanes() as usize * if is_wide(l.ty.scalar()) { 2 } else { 1 }).sum()
}

pub fn known(def: &MemoryDef) -> impl DoubleEndedIterator<Item = u32> {
    def.extents.iter().map(|e| if let Extent::Known(n) = e { *n } else { 0 })
}
