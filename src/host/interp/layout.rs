//! Maps structs of the program to record layouts and back, and determines the types of values.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::{ElementType, RecordLayout};
use crate::value::HostValue;
use clk_check::typed::{Dim, Program, Signature, StructId, Type};

/// Memory layouts of the program's structs, created when they are first needed.
#[derive(Default)]
pub(crate) struct Layouts {
    layouts: HashMap<StructId, Arc<RecordLayout>>,
    names: HashMap<StructId, String>,
}

impl Layouts {
    pub fn struct_layout(&mut self, program: &Program, id: StructId) -> Arc<RecordLayout> {
        if let Some(known) = self.layouts.get(&id) {
            return known.clone();
        }
        let def = &program.structs[id];
        let fields: Vec<_> = def.fields.iter().map(|f| (f.name.clone(), self.element(program, &f.ty))).collect();
        let layout = Arc::new(RecordLayout::new(def.name.clone(), fields));
        self.layouts.insert(id, layout.clone());
        self.names.insert(id, def.name.to_string());
        layout
    }

    /// Returns the array element type that corresponds to a type of the program. For types that cannot be elements,
    /// which the checker rejects, returns `f32`.
    pub fn element(&mut self, program: &Program, ty: &Type) -> ElementType {
        use clk_scalar::Scalar;
        match ty {
            Type::Scalar(s) => ElementType::Scalar(*s),
            Type::Vector(s, n) => ElementType::Vector(*s, *n),
            Type::Struct(id) => ElementType::Record(self.struct_layout(program, *id)),
            Type::Tuple(parts) => {
                let parts: Vec<ElementType> = parts.iter().map(|p| self.element(program, p)).collect();
                ElementType::Record(Arc::new(RecordLayout::tuple(parts)))
            }
            // An array that is a field of a struct. Such a struct cannot be an array element.
            Type::Array(array) => {
                let extent = |dim: &Dim| if let Dim::Known(n) = dim { *n as usize } else { 1 };
                let count = array.dims.iter().map(extent).product();
                let parts = vec![self.element(program, &array.element); count];
                ElementType::Record(Arc::new(RecordLayout::tuple(parts)))
            }
            _ => ElementType::Scalar(Scalar::F32),
        }
    }

    /// Returns the type of the program that corresponds to an array element type.
    pub fn element_type(&self, element: &ElementType) -> Type {
        match element {
            ElementType::Scalar(s) => Type::Scalar(*s),
            ElementType::Vector(s, n) => Type::Vector(*s, *n),
            ElementType::Record(layout) if layout.is_tuple() => {
                Type::Tuple(layout.fields.iter().map(|f| self.element_type(&f.element)).collect())
            }
            ElementType::Record(layout) => self.struct_type(layout),
        }
    }

    fn struct_type(&self, layout: &Arc<RecordLayout>) -> Type {
        // A redefined struct has a new id, so the newest struct with an equal layout is used.
        let same = self.layouts.iter().filter(|(_, known)| Arc::ptr_eq(known, layout) || *known == layout);
        same.map(|(id, _)| *id).max().map_or(Type::Unknown, Type::Struct)
    }

    /// Returns the type of a value; `Unknown` for values without a type in the program, such as untyped literals.
    pub fn type_of(&self, value: &HostValue) -> Type {
        match value {
            HostValue::Unit => Type::Unit,
            HostValue::Scalar(v) => Type::Scalar(v.ty),
            HostValue::Vector(v) => Type::Vector(v.ty(), v.lanes() as u8),
            HostValue::Record(record) => self.struct_type(&record.layout),
            HostValue::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.type_of(p)).collect()),
            HostValue::Str(_) => Type::Str,
            HostValue::Strings(_) => Type::Strings,
            HostValue::Range(_) => Type::Range,
            HostValue::Timing(_) => Type::Timing,
            HostValue::Traced(traced) => self.type_of(traced.primal()),
            _ => Type::Unknown,
        }
    }

    /// Formats a parameter's type as it is written in the signature, for error messages.
    pub fn format_type(&self, ty: &Type, sig: &Signature) -> String {
        use clk_check::typed::Dim;
        match ty {
            Type::Scalar(s) => s.to_string(),
            Type::Vector(s, n) => format!("{s}x{n}"),
            Type::Param(i) => sig.generics.get(*i as usize).map_or("?".into(), |g| g.name.to_string()),
            Type::Struct(id) => self.names.get(id).cloned().unwrap_or_else(|| "struct".into()),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.format_type(p, sig)).collect();
                format!("({})", parts.join(", "))
            }
            Type::Array(array) => {
                let dims: Vec<String> = array
                    .dims
                    .iter()
                    .map(|d| match d {
                        Dim::Known(k) => k.to_string(),
                        Dim::Name(i) => sig.dims.get(*i as usize).map_or("_".into(), |d| d.name.to_string()),
                        _ => "_".into(),
                    })
                    .collect();
                format!("[{}; {}]", self.format_type(&array.element, sig), dims.join(", "))
            }
            Type::Str => "str".into(),
            _ => "value".into(),
        }
    }
}
