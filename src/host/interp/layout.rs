//! Mapping between the program's structs and record layouts, and types of values.

use std::collections::HashMap;
use std::sync::Arc;

use crate::check::typed::{Dim, Program, Signature, StructId, Type};
use crate::host::array::{Element, RecordLayout};
use crate::host::value::Value;

/// Record layouts of the program's structs, created on demand.
#[derive(Default)]
pub(crate) struct Layouts {
    of: HashMap<StructId, Arc<RecordLayout>>,
    names: HashMap<StructId, String>,
}

impl Layouts {
    pub fn of_struct(&mut self, program: &Program, id: StructId) -> Arc<RecordLayout> {
        if let Some(known) = self.of.get(&id) {
            return known.clone();
        }
        let def = &program.structs[id];
        let fields: Vec<_> = def.fields.iter().map(|f| (f.name.clone(), self.element(program, &f.ty))).collect();
        let layout = Arc::new(RecordLayout::new(def.name.clone(), fields));
        self.of.insert(id, layout.clone());
        self.names.insert(id, def.name.to_string());
        layout
    }

    /// Returns the element type of arrays of this type. Types that cannot be elements, which the checker refuses, give `f32`.
    pub fn element(&mut self, program: &Program, ty: &Type) -> Element {
        use crate::lang::scalar::Scalar;
        match ty {
            Type::Scalar(s) => Element::Scalar(*s),
            Type::Vector(s, n) => Element::Vector(*s, *n),
            Type::Struct(id) => Element::Record(self.of_struct(program, *id)),
            Type::Tuple(parts) => {
                let parts: Vec<Element> = parts.iter().map(|p| self.element(program, p)).collect();
                Element::Record(Arc::new(RecordLayout::tuple(parts)))
            }
            // An array as a field; a record with one cannot itself be an array element.
            Type::Array(array) => {
                let known = |dim: &Dim| if let Dim::Known(n) = dim { *n as usize } else { 1 };
                let count = array.dims.iter().map(known).product();
                let parts = vec![self.element(program, &array.element); count];
                Element::Record(Arc::new(RecordLayout::tuple(parts)))
            }
            _ => Element::Scalar(Scalar::F32),
        }
    }

    /// Returns the program's type of an array's elements.
    pub fn element_type(&self, element: &Element) -> Type {
        match element {
            Element::Scalar(s) => Type::Scalar(*s),
            Element::Vector(s, n) => Type::Vector(*s, *n),
            Element::Record(layout) if layout.is_tuple() => {
                Type::Tuple(layout.fields.iter().map(|f| self.element_type(&f.element)).collect())
            }
            Element::Record(layout) => self.struct_type(layout),
        }
    }

    fn struct_type(&self, layout: &Arc<RecordLayout>) -> Type {
        // A redefined struct has a new id; the newest one with an equal layout is taken.
        let same = self.of.iter().filter(|(_, known)| Arc::ptr_eq(known, layout) || *known == layout);
        same.map(|(id, _)| *id).max().map_or(Type::Unknown, Type::Struct)
    }

    /// Returns the type of a value as the program would write it.
    pub fn type_of(&self, value: &Value) -> Type {
        match value {
            Value::Unit => Type::Unit,
            Value::Scalar(v) => Type::Scalar(v.ty),
            Value::Vector(v) => Type::Vector(v.ty(), v.lanes() as u8),
            Value::Record(record) => self.struct_type(&record.layout),
            Value::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.type_of(p)).collect()),
            Value::Str(_) => Type::Str,
            Value::Strings(_) => Type::Strings,
            Value::Range(_) => Type::Range,
            Value::Timing(_) => Type::Timing,
            Value::Traced(traced) => self.type_of(traced.primal()),
            _ => Type::Unknown,
        }
    }

    /// Formats a parameter's type as in its signature, for messages.
    pub fn type_text(&self, ty: &Type, sig: &Signature) -> String {
        use crate::check::typed::Dim;
        match ty {
            Type::Scalar(s) => s.to_string(),
            Type::Vector(s, n) => format!("{s}x{n}"),
            Type::Param(i) => sig.generics.get(*i as usize).map_or("?".into(), |g| g.name.to_string()),
            Type::Struct(id) => self.names.get(id).cloned().unwrap_or_else(|| "struct".into()),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.type_text(p, sig)).collect();
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
                format!("[{}; {}]", self.type_text(&array.element, sig), dims.join(", "))
            }
            Type::Str => "str".into(),
            _ => "value".into(),
        }
    }
}
