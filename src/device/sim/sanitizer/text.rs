//! Names and values of elements, as messages show them.

use super::event::Event;
use crate::device::sim::code::{Access, MemoryKind};
use crate::device::sim::group::Group;
use crate::device::sim::lanes::is_wide;
use crate::device::sim::memory::{Axis, MemoryRt};
use crate::ir::def::{Layout, Leaf};
use crate::lang::scalar::{Scalar, Value};

/// Returns the value of an element.
pub(crate) fn in_memory(addr: *const u8, scalar: Scalar) -> Value {
    // SAFETY: the address was checked against the memory's extents. Concurrent writes may yield any bytes, which are valid.
    let bytes = unsafe { std::slice::from_raw_parts(addr, scalar.size()) };
    Value::from_bytes(scalar, bytes)
}

/// Returns `s[3, 4]` for the element at a byte offset.
pub(crate) fn element_text(name: &str, axes: &[Axis], offset: usize) -> String {
    if axes.is_empty() {
        return name.to_string();
    }
    let mut rest = offset as i64;
    let mut indices = Vec::with_capacity(axes.len());
    for axis in axes {
        let pitch = axis.pitch.max(1);
        indices.push((rest / pitch).to_string());
        rest %= pitch;
    }
    format!("{name}[{}]", indices.join(", "))
}

/// Returns the name of an element, with field and component where it has such.
pub(crate) fn place_text(g: &Group, e: &Event<'_>, addr: *const u8, component: usize) -> String {
    element_path(g, e, addr, component, e.note.components == 1 || !e.watched.whole)
}

/// As [`place_text`]; for a vector, with the component if `one`.
pub(crate) fn element_path(g: &Group, e: &Event<'_>, addr: *const u8, component: usize, one: bool) -> String {
    let number = e.access.memory as usize;
    // SAFETY: G4: there is one for each memory of the code.
    let memory: &MemoryRt = unsafe { &*g.memories.add(number) };
    let def = &g.code().memories[number];
    let offset = addr as usize - memory.ptr as usize;
    let within = offset % def.layout.size.max(1) + component * e.access.scalar.size();
    element_text(&def.name, &memory.axes, offset) + &path_text(&def.layout, within, one)
}

/// Returns an access path: `.mass`, `.pos.x`.
pub(crate) fn path_text(layout: &Layout, within: usize, one: bool) -> String {
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
pub(crate) fn local_text(g: &Group, access: &Access, lane: usize, component: Option<usize>) -> String {
    let number = access.memory as usize;
    let def = &g.code().memories[number];
    debug_assert_eq!(def.kind, MemoryKind::Local);
    // SAFETY: C5, G4: the access and its memory are the code's; the caller's lane exists.
    let (memory, addr) = unsafe { (&*g.memories.add(number), crate::device::sim::memory::address(g, access, lane)) };
    let offset = addr.map_or(0, |a| a as usize - memory.ptr as usize);
    let width = |scalar: Scalar| if is_wide(scalar) { 2 } else { 1 };
    let columns = |leaf: &Leaf| leaf.ty.lanes() as usize * width(leaf.ty.scalar());
    let all: usize = def.layout.leaves.iter().map(columns).sum();
    let column = offset / memory.unit.max(1) % all.max(1) + component.unwrap_or(0) * width(access.scalar);
    let mut text = element_text(&def.name, &memory.axes, offset);
    let mut start = 0;
    for leaf in &def.layout.leaves {
        if column < start + columns(leaf) {
            let (c, one) = ((column - start) / width(leaf.ty.scalar()), component.is_some());
            text += &path_text(&def.layout, leaf.offset + c * leaf.ty.scalar().size(), one);
            break;
        }
        start += columns(leaf);
    }
    text
}
