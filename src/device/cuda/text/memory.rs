//! Elements of arrays as C++ types, arrays as pointers or C arrays, and addressing.

use super::abi::{SharedArray, Size};
use super::generator::{Array, Element, Gen};
use super::helpers::COMPONENTS;
use super::names::sanitized;
use super::tree::{Expr, Stmt};
use crate::ir::def::*;

/// Limit of static shared memory; beyond it, a kernel needs dynamic shared memory.
const STATIC_LIMIT: u64 = 48 * 1024;

impl Gen<'_> {
    /// Returns the type of a layout's elements; structs are defined on first use.
    fn element(&mut self, name: &str, layout: &Layout) -> Element {
        if let [leaf] = layout.leaves.as_slice()
            && leaf.path.is_empty()
            && layout.size == leaf.ty.size()
        {
            return Element { ty: self.helpers.ty(leaf.ty), fields: None, gaps: vec![] };
        }
        if let Some((_, known)) = self.elements.iter().find(|(known, _)| known == layout) {
            return known.clone();
        }
        let ty = self.names.fresh(&format!("{name}_element"));
        let mut fields: Vec<String> = vec![];
        let mut gaps = vec![];
        let mut text = String::new();
        let mut end = 0;
        for leaf in &layout.leaves {
            let base = if leaf.path.is_empty() { "value".to_string() } else { sanitized(&leaf.path) };
            let mut field = base.clone();
            while fields.contains(&field) {
                field.push('_');
            }
            gaps.push(leaf.offset > usize::next_multiple_of(end, leaf.ty.align()));
            if gaps.last() == Some(&true) {
                text.push_str(&format!(" unsigned char padding_{end}[{}];", leaf.offset - end));
            }
            text.push_str(&format!(" {} {field};", self.helpers.ty(leaf.ty)));
            end = leaf.offset + leaf.ty.size();
            fields.push(field);
        }
        if usize::next_multiple_of(end, layout.align) < layout.size {
            text.push_str(&format!(" unsigned char padding_{end}[{}];", layout.size - end));
        }
        self.helpers.add(&format!("struct alignas({}) {ty} {{{text} }};", layout.align));
        let element = Element { ty, fields: Some(fields), gaps };
        self.elements.push((layout.clone(), element.clone()));
        element
    }

    /// Names all arrays; those of the kernel's parameters have names already.
    pub fn arrays(&mut self) {
        for (_, memory) in self.function.memories.iter() {
            let name = match memory.space {
                Space::Global { param, .. } => self.params[param as usize].clone(),
                Space::Shared | Space::Local | Space::Constant | Space::Param { .. } => self.names.fresh(&memory.name),
            };
            let element = self.element(&name, &memory.layout);
            let computed = vec![None; memory.extents.len()];
            self.memories.push(Array { name, element, by_axis: false, computed });
        }
        self.constant_arrays();
    }

    /// Declares shared arrays: as C arrays, as far as static memory suffices and extents are known. Returns the static bytes and
    /// the arrays in dynamic memory.
    pub fn shared(&mut self) -> (u32, Vec<SharedArray>) {
        let function = self.function;
        let shared = || function.memories.iter().filter(|(_, memory)| memory.space == Space::Shared);
        let known = shared().filter_map(|(_, memory)| Some(known_bytes(memory)?.next_multiple_of(16))).sum::<u64>();
        let mut dynamic = vec![];
        let mut bytes = 0u64;
        for (id, memory) in shared() {
            match known_bytes(memory) {
                Some(size) if known <= STATIC_LIMIT => {
                    bytes += size.next_multiple_of(16);
                    // Adjacent elements that a thread reads together are loaded in one access of up to 16 bytes.
                    let aligned = if size >= 16 { "__align__(16) " } else { "" };
                    let ty = format!("__shared__ {aligned}{}", self.memories[id.index()].element.ty);
                    self.c_array(id, ty);
                }
                _ => dynamic.push(id),
            }
        }
        let mut before = None;
        let arrays = dynamic.iter().map(|&id| self.in_dynamic_memory(id, &mut before)).collect();
        (bytes as u32, arrays)
    }

    /// Declares the thread's local arrays.
    pub fn local_arrays(&mut self) {
        let local = |memory: &Memory| memory.space == Space::Local;
        for (id, _) in self.function.memories.iter().filter(|(_, memory)| local(memory)) {
            let ty = self.memories[id.index()].element.ty.clone();
            self.c_array(id, ty);
        }
    }

    fn c_array(&mut self, id: MemId, ty: String) {
        let known = |extent: &Extent| match extent {
            // C has no zero-length arrays.
            Extent::Known(n) => format!("[{}]", (*n).max(1)),
            _ => String::new(),
        };
        let suffix = self.function.memories[id].extents.iter().map(known).collect();
        let array = &mut self.memories[id.index()];
        array.by_axis = true;
        let name = array.name.clone();
        self.push(Stmt::Declare { ty, name, suffix, value: None });
    }

    /// Lays out an array in dynamic shared memory. `before`: name and value of the end of the array in front of it.
    fn in_dynamic_memory(&mut self, id: MemId, before: &mut Option<(String, Expr)>) -> SharedArray {
        let memory = &self.function.memories[id];
        let offset = before.take().map(|(name, end)| {
            self.declare("int", &name, end);
            Expr::Atom(name)
        });
        if offset.is_none() {
            let ty = "extern __shared__ __align__(16) unsigned char".into();
            self.push(Stmt::Declare { ty, name: "dynamic_shared".into(), suffix: "[]".into(), value: None });
        }
        let mut count = Expr::int(memory.layout.size as i128);
        for (axis, extent) in memory.extents.iter().enumerate() {
            let extent = match extent {
                Extent::Known(n) => Expr::int(i128::from(*n)),
                Extent::Dynamic(expr) => {
                    let value = self.tree(*expr);
                    let wanted = extent_name(&self.memories[id.index()].name, axis, memory.extents.len());
                    let name = self.names.fresh(&wanted);
                    self.declare("int", &name, value);
                    self.memories[id.index()].computed[axis] = Some(name.clone());
                    Expr::Atom(name)
                }
                Extent::Launch => Expr::int(0),
            };
            count = Expr::binary("*", count, extent);
        }
        let (name, ty) = (self.memories[id.index()].name.clone(), self.memories[id.index()].element.ty.clone());
        let place = match &offset {
            None => Expr::atom("dynamic_shared"),
            Some(offset) => Expr::binary("+", Expr::atom("dynamic_shared"), offset.clone()),
        };
        let cast = Expr::call(format!("({ty} *)"), [place]);
        self.push(Stmt::Declare {
            ty: format!("{ty} *const"),
            name: name.clone(),
            suffix: String::new(),
            value: Some(cast),
        });
        let end = self.names.fresh(&format!("{name}_end"));
        let rounded = Expr::binary("&", Expr::binary("+", count, Expr::int(15)), Expr::int(-16));
        let rounded = match offset {
            None => rounded,
            Some(offset) => Expr::binary("+", offset, rounded),
        };
        *before = Some((end, rounded));
        let size = |extent: &Extent| match extent {
            Extent::Known(n) => Size::Known(*n),
            Extent::Dynamic(expr) => Size::Computed(*expr),
            Extent::Launch => Size::Known(0),
        };
        let extents = memory.extents.iter().map(size).collect();
        SharedArray { name: memory.name.clone(), element: memory.layout.size, extents, span: memory.span }
    }

    /// Returns an extent as an `int`.
    pub fn extent(&mut self, memory: MemId, axis: usize) -> Expr {
        let found = &self.function.memories[memory];
        match (found.extents.get(axis), found.space) {
            (Some(Extent::Known(n)), _) => Expr::int(i128::from(*n)),
            (Some(Extent::Launch), Space::Global { param, .. }) => {
                let rank = found.extents.len();
                Expr::Atom(self.param_extent(param as usize, axis, rank))
            }
            _ => match &self.memories[memory.index()].computed[axis] {
                Some(name) => Expr::atom(name),
                None => Expr::int(0),
            },
        }
    }

    pub(super) fn param_extent(&mut self, param: usize, axis: usize, rank: usize) -> String {
        if let Some(known) = self.extents.get(&(param, axis)) {
            return known.clone();
        }
        let name = self.names.fresh(&extent_name(&self.params[param], axis, rank));
        self.extents.insert((param, axis), name.clone());
        name
    }

    /// Returns an element, or the component that the place names, as an lvalue.
    pub fn place(&mut self, place: &Place) -> Expr {
        let element = self.element_at(place);
        let array = &self.memories[place.memory.index()];
        let leaf = match &array.element.fields {
            Some(fields) => Expr::member(element, &fields[place.leaf as usize]),
            None => element,
        };
        match place.component {
            Some(lane) => Expr::member(leaf, COMPONENTS[lane as usize & 3]),
            None => leaf,
        }
    }

    fn element_at(&mut self, place: &Place) -> Expr {
        let name = Expr::atom(&self.memories[place.memory.index()].name);
        if self.memories[place.memory.index()].by_axis {
            let indices = place.indices.iter().map(|&index| self.value(index)).collect();
            return Expr::index(name, indices);
        }
        let element = Expr::index(name, vec![self.offset(place)]);
        self.in_piece(place, element)
    }

    /// Returns the position of an element in its array.
    pub(super) fn offset(&mut self, place: &Place) -> Expr {
        let indices: Vec<Expr> = place.indices.iter().map(|&index| self.value(index)).collect();
        let wide = self.options.wide && matches!(self.function.memories[place.memory].space, Space::Global { .. });
        let mut offset: Option<Expr> = None;
        for (axis, index) in indices.into_iter().enumerate() {
            offset = Some(match offset {
                None if wide && place.indices.len() > 1 => {
                    self.helpers.need("i64");
                    Expr::call("i64", [index])
                }
                None => index,
                Some(rows) => {
                    let extent = self.extent(place.memory, axis);
                    Expr::binary("+", Expr::binary("*", rows, extent), index)
                }
            });
        }
        // An array of rank 0 is a variable.
        offset.unwrap_or(Expr::int(0))
    }
}

/// Returns the bytes of an array whose extents are all known.
fn known_bytes(memory: &Memory) -> Option<u64> {
    memory.extents.iter().try_fold(memory.layout.size as u64, |size, extent| match extent {
        Extent::Known(n) => Some(size.saturating_mul(u64::from(*n))),
        _ => None,
    })
}

fn extent_name(array: &str, axis: usize, rank: usize) -> String {
    match (rank, axis) {
        (1, _) => format!("{array}_len"),
        (2, 0) => format!("{array}_rows"),
        (2, _) => format!("{array}_cols"),
        _ => format!("{array}_extent{axis}"),
    }
}
