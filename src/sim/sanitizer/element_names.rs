//! Names and values of elements in messages.

use super::checked_access::CheckedAccess;
use crate::code::{AccessOperands, MemoryKind};
use crate::group::ThreadGroup;
use crate::lanes::is_wide;
use crate::memory::{AxisLayout, MemoryRt};
use clk_ir::def::{ElementLayout, Leaf};
use clk_scalar::{Scalar, ScalarValue};

/// Reads the value of an element from memory.
pub(crate) fn read_element(addr: *const u8, scalar: Scalar) -> ScalarValue {
    // SAFETY: the address was checked against the memory's extents. If other workers write concurrently, the bytes may
    // be arbitrary, but all bytes are valid values.
    let bytes = unsafe { std::slice::from_raw_parts(addr, scalar.size()) };
    ScalarValue::from_bytes(scalar, bytes)
}

/// Returns the name of the element at a byte offset, such as `s[3, 4]`.
pub(crate) fn element_name(name: &str, axes: &[AxisLayout], offset: usize) -> String {
    if axes.is_empty() {
        return name.to_string();
    }
    let indices: Vec<String> = element_indices(axes, offset).map(|index| index.to_string()).collect();
    format!("{name}[{}]", indices.join(", "))
}

/// Returns the indices of the element at `offset` bytes.
pub(crate) fn element_indices(axes: &[AxisLayout], offset: usize) -> impl Iterator<Item = i64> + '_ {
    axes.iter().scan(offset as i64, |rest, axis| {
        let pitch = axis.pitch.max(1);
        let index = *rest / pitch;
        *rest %= pitch;
        Some(index)
    })
}

/// Returns the name of the accessed part of an element, with the field of a struct and the component of a vector.
pub(crate) fn component_name(g: &ThreadGroup, e: &CheckedAccess<'_>, addr: *const u8, component: usize) -> String {
    element_path(g, e, addr, component, e.site.components == 1 || !e.tracked.is_single_word)
}

/// Like [`component_name`], but includes the component of a vector only if `one` is true.
pub(crate) fn element_path(
    g: &ThreadGroup,
    e: &CheckedAccess<'_>,
    addr: *const u8,
    component: usize,
    one: bool,
) -> String {
    let number = e.access.memory as usize;
    // SAFETY: G4: each memory of the code has an entry.
    let memory: &MemoryRt = unsafe { &*g.memories.add(number) };
    let def = &g.code().memories[number];
    let offset = addr as usize - memory.ptr as usize;
    let within = offset % def.layout.size.max(1) + component * e.access.scalar.size();
    element_name(&def.name, &memory.axes, offset) + &field_path(&def.layout, within, one)
}

/// Returns the path to the part of an element at byte offset `within`, such as `.mass` or `.pos.x`. Includes the
/// component of a vector only if `one` is true.
pub(crate) fn field_path(layout: &ElementLayout, within: usize, one: bool) -> String {
    let Some(leaf) = layout.leaves.iter().rfind(|l| l.offset <= within) else { return String::new() };
    let mut path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
    let component = (within - leaf.offset) / leaf.ty.scalar().size().max(1);
    if leaf.ty.lanes() > 1 && one {
        path.push('.');
        path.push(['x', 'y', 'z', 'w'][component.min(3)]);
    }
    path
}

/// Returns the name of an element of a local array, with the component if one is given.
pub(crate) fn local_component_name(
    g: &ThreadGroup,
    access: &AccessOperands,
    lane: usize,
    component: Option<usize>,
) -> String {
    let number = access.memory as usize;
    let def = &g.code().memories[number];
    debug_assert_eq!(def.kind, MemoryKind::Local);
    // SAFETY: C5, G4: the access and its memory belong to the code; the caller's lane exists.
    let (memory, addr) = unsafe { (&*g.memories.add(number), crate::memory::address(g, access, lane)) };
    let offset = addr.map_or(0, |a| a as usize - memory.ptr as usize);
    let width = |scalar: Scalar| if is_wide(scalar) { 2 } else { 1 };
    let columns = |leaf: &Leaf| leaf.ty.lanes() as usize * width(leaf.ty.scalar());
    let all: usize = def.layout.leaves.iter().map(columns).sum();
    let column = offset / memory.offset_unit.max(1) % all.max(1) + component.unwrap_or(0) * width(access.scalar);
    let mut text = element_name(&def.name, &memory.axes, offset);
    let mut start = 0;
    for leaf in &def.layout.leaves {
        if column < start + columns(leaf) {
            let (c, one) = ((column - start) / width(leaf.ty.scalar()), component.is_some());
            text += &field_path(&def.layout, leaf.offset + c * leaf.ty.scalar().size(), one);
            break;
        }
        start += columns(leaf);
    }
    text
}
