//! Emits the C++ types of elements, the declarations of arrays as pointers or C arrays, and address computations.

use super::abi::{LaunchExtent, SharedArray};
use super::generator::{CudaArray, CudaGenerator, CudaType};
use super::helpers::COMPONENTS;
use super::names::sanitized;
use super::tree::{CudaExpr, CudaStmt};
use clk_ir::def::*;

/// Limit of static shared memory in bytes. Kernels that need more use dynamic shared memory.
const STATIC_LIMIT: u64 = 48 * 1024;

impl CudaGenerator<'_> {
    /// Returns the C++ type for elements with a layout. Defines a struct on first use.
    fn element(&mut self, name: &str, layout: &ElementLayout) -> CudaType {
        if let [leaf] = layout.leaves.as_slice()
            && leaf.path.is_empty()
            && layout.size == leaf.ty.size()
        {
            return CudaType { ty: self.preamble.helpers.ty(leaf.ty), fields: None, gaps: vec![] };
        }
        if let Some((_, known)) = self.preamble.elements.iter().find(|(known, _)| known == layout) {
            return known.clone();
        }
        let ty = self.naming.used.fresh(&format!("{name}_element"));
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
            text.push_str(&format!(" {} {field};", self.preamble.helpers.ty(leaf.ty)));
            end = leaf.offset + leaf.ty.size();
            fields.push(field);
        }
        if usize::next_multiple_of(end, layout.align) < layout.size {
            text.push_str(&format!(" unsigned char padding_{end}[{}];", layout.size - end));
        }
        self.preamble.helpers.add(&format!("struct alignas({}) {ty} {{{text} }};", layout.align));
        let element = CudaType { ty, fields: Some(fields), gaps };
        self.preamble.elements.push((layout.clone(), element.clone()));
        element
    }

    /// Chooses the names of all arrays except parameters of the kernel, which already have names.
    pub fn arrays(&mut self) {
        for (_, memory) in self.function.memories.iter() {
            let name = match memory.space {
                MemorySpace::Global { param, .. } => self.naming.params[param as usize].clone(),
                MemorySpace::Shared | MemorySpace::Local | MemorySpace::Constant | MemorySpace::Param { .. } => {
                    self.naming.used.fresh(&memory.name)
                }
            };
            let element = self.element(&name, &memory.layout);
            let computed = vec![None; memory.extents.len()];
            self.memories.push(CudaArray { name, element, by_axis: false, computed });
        }
        self.constant_arrays();
    }

    /// Declares shared arrays. If static shared memory suffices and all extents are known, they are C arrays. Returns
    /// the bytes of static shared memory and the arrays in dynamic shared memory.
    pub fn shared(&mut self) -> (u32, Vec<SharedArray>) {
        let function = self.function;
        let shared = || function.memories.iter().filter(|(_, memory)| memory.space == MemorySpace::Shared);
        let known_size =
            shared().filter_map(|(_, memory)| Some(known_bytes(memory)?.next_multiple_of(16))).sum::<u64>();
        let mut dynamic = vec![];
        let mut bytes = 0u64;
        for (id, memory) in shared() {
            match known_bytes(memory) {
                Some(size) if known_size <= STATIC_LIMIT => {
                    bytes += size.next_multiple_of(16);
                    // Align the array to 16 bytes, so that a thread can load adjacent elements in one access of up to
                    // 16 bytes.
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

    /// Declares the local arrays of a thread.
    pub fn local_arrays(&mut self) {
        let local = |memory: &Memory| memory.space == MemorySpace::Local;
        for (id, _) in self.function.memories.iter().filter(|(_, memory)| local(memory)) {
            let ty = self.memories[id.index()].element.ty.clone();
            self.c_array(id, ty);
        }
    }

    fn c_array(&mut self, id: MemId, ty: String) {
        let subscript = |extent: &Extent| match extent {
            // C does not allow arrays of length zero.
            Extent::Known(n) => format!("[{}]", (*n).max(1)),
            _ => String::new(),
        };
        let suffix = self.function.memories[id].extents.iter().map(subscript).collect();
        let array = &mut self.memories[id.index()];
        array.by_axis = true;
        let name = array.name.clone();
        self.push(CudaStmt::Declare { ty, name, suffix, value: None });
    }

    /// Declares an array in dynamic shared memory. `before`: the name and the value of the previous array's end offset.
    fn in_dynamic_memory(&mut self, id: MemId, before: &mut Option<(String, CudaExpr)>) -> SharedArray {
        let memory = &self.function.memories[id];
        let offset = before.take().map(|(name, end)| {
            self.declare("int", &name, end);
            CudaExpr::Atom(name)
        });
        if offset.is_none() {
            let ty = "extern __shared__ __align__(16) unsigned char".into();
            self.push(CudaStmt::Declare { ty, name: "dynamic_shared".into(), suffix: "[]".into(), value: None });
        }
        let mut count = CudaExpr::int(memory.layout.size as i128);
        for (axis, extent) in memory.extents.iter().enumerate() {
            let extent = match extent {
                Extent::Known(n) => CudaExpr::int(i128::from(*n)),
                Extent::Dynamic(expr) => {
                    let value = self.tree(*expr);
                    let name_hint = extent_name(&self.memories[id.index()].name, axis, memory.extents.len());
                    let name = self.naming.used.fresh(&name_hint);
                    self.declare("int", &name, value);
                    self.memories[id.index()].computed[axis] = Some(name.clone());
                    CudaExpr::Atom(name)
                }
                Extent::Launch => CudaExpr::int(0),
            };
            count = CudaExpr::binary("*", count, extent);
        }
        let (name, ty) = (self.memories[id.index()].name.clone(), self.memories[id.index()].element.ty.clone());
        let place = match &offset {
            None => CudaExpr::atom("dynamic_shared"),
            Some(offset) => CudaExpr::binary("+", CudaExpr::atom("dynamic_shared"), offset.clone()),
        };
        let cast = CudaExpr::call(format!("({ty} *)"), [place]);
        self.push(CudaStmt::Declare {
            ty: format!("{ty} *const"),
            name: name.clone(),
            suffix: String::new(),
            value: Some(cast),
        });
        let end = self.naming.used.fresh(&format!("{name}_end"));
        let rounded = CudaExpr::binary("&", CudaExpr::binary("+", count, CudaExpr::int(15)), CudaExpr::int(-16));
        let rounded = match offset {
            None => rounded,
            Some(offset) => CudaExpr::binary("+", offset, rounded),
        };
        *before = Some((end, rounded));
        let size = |extent: &Extent| match extent {
            Extent::Known(n) => LaunchExtent::Known(*n),
            Extent::Dynamic(expr) => LaunchExtent::Computed(*expr),
            Extent::Launch => LaunchExtent::Known(0),
        };
        let extents = memory.extents.iter().map(size).collect();
        SharedArray { name: memory.name.clone(), element: memory.layout.size, extents, span: memory.span }
    }

    /// Returns the extent of an array along an axis, as an `int` expression.
    pub fn extent(&mut self, memory: MemId, axis: usize) -> CudaExpr {
        let array = &self.function.memories[memory];
        match (array.extents.get(axis), array.space) {
            (Some(Extent::Known(n)), _) => CudaExpr::int(i128::from(*n)),
            (Some(Extent::Launch), MemorySpace::Global { param, .. }) => {
                let rank = array.extents.len();
                CudaExpr::Atom(self.param_extent(param as usize, axis, rank))
            }
            _ => match &self.memories[memory.index()].computed[axis] {
                Some(name) => CudaExpr::atom(name),
                None => CudaExpr::int(0),
            },
        }
    }

    pub(super) fn param_extent(&mut self, param: usize, axis: usize, rank: usize) -> String {
        if let Some(known) = self.naming.extents.get(&(param, axis)) {
            return known.clone();
        }
        let name = self.naming.used.fresh(&extent_name(&self.naming.params[param], axis, rank));
        self.naming.extents.insert((param, axis), name.clone());
        name
    }

    /// Returns an element, or a component of it, as an lvalue.
    pub fn place(&mut self, place: &Place) -> CudaExpr {
        let element = self.element_at(place);
        let array = &self.memories[place.memory.index()];
        let leaf = match &array.element.fields {
            Some(fields) => CudaExpr::member(element, &fields[place.leaf as usize]),
            None => element,
        };
        match place.component {
            Some(lane) => CudaExpr::member(leaf, COMPONENTS[lane as usize & 3]),
            None => leaf,
        }
    }

    fn element_at(&mut self, place: &Place) -> CudaExpr {
        let name = CudaExpr::atom(&self.memories[place.memory.index()].name);
        if self.memories[place.memory.index()].by_axis {
            let indices = place.indices.iter().map(|&index| self.value(index)).collect();
            return CudaExpr::index(name, indices);
        }
        let element = CudaExpr::index(name, vec![self.offset(place)]);
        self.vectorized_element(place, element)
    }

    /// Returns the linear offset of an element in its array, in elements.
    pub(super) fn offset(&mut self, place: &Place) -> CudaExpr {
        let indices: Vec<CudaExpr> = place.indices.iter().map(|&index| self.value(index)).collect();
        let wide =
            self.options.wide && matches!(self.function.memories[place.memory].space, MemorySpace::Global { .. });
        let mut offset: Option<CudaExpr> = None;
        for (axis, index) in indices.into_iter().enumerate() {
            offset = Some(match offset {
                None if wide && place.indices.len() > 1 => {
                    self.preamble.helpers.need("i64");
                    CudaExpr::call("i64", [index])
                }
                None => index,
                Some(rows) => {
                    let extent = self.extent(place.memory, axis);
                    CudaExpr::binary("+", CudaExpr::binary("*", rows, extent), index)
                }
            });
        }
        // An array of rank 0 has a single element, at offset 0.
        offset.unwrap_or(CudaExpr::int(0))
    }
}

/// Returns the size of an array in bytes, if all extents are known.
fn known_bytes(memory: &Memory) -> Option<u64> {
    Some(memory.known_len()?.saturating_mul(memory.layout.size as u64))
}

fn extent_name(array: &str, axis: usize, rank: usize) -> String {
    match (rank, axis) {
        (1, _) => format!("{array}_len"),
        (2, 0) => format!("{array}_rows"),
        (2, _) => format!("{array}_cols"),
        _ => format!("{array}_extent{axis}"),
    }
}
