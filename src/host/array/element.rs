//! Element types of arrays and their memory layout.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use smol_str::SmolStr;

use clk_base::escape;
use clk_ir::def::{ElementLayout, Ty};
use clk_scalar::Scalar;

/// The element type of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    Scalar(Scalar),
    /// A vector of 2, 3 or 4 scalars.
    Vector(Scalar, u8),
    /// A struct or a tuple.
    Record(Arc<RecordLayout>),
}

/// The fields of a struct or tuple, and their memory layout, which follows the rules of C.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordLayout {
    /// The name of the struct; empty for a tuple.
    pub name: SmolStr,
    pub fields: Vec<FieldLayout>,
    /// The leaves in order: the scalar and vector fields that remain after flattening nested structs and tuples.
    pub layout: ElementLayout,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldLayout {
    /// Name of the field; `0`, `1`, … in a tuple.
    pub name: SmolStr,
    pub element: ElementType,
    /// Range of the field's leaves in the record's layout.
    pub leaves: Range<usize>,
}

impl ElementType {
    /// Returns the size of an element in bytes, which is also the stride between elements.
    pub fn size(&self) -> usize {
        match self {
            ElementType::Scalar(s) => s.size(),
            ElementType::Vector(s, n) => Ty::Vector(*s, *n).size(),
            ElementType::Record(r) => r.layout.size,
        }
    }

    /// Returns the scalar type of a scalar or vector element; `None` for a record.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            ElementType::Scalar(s) | ElementType::Vector(s, _) => Some(*s),
            ElementType::Record(_) => None,
        }
    }

    /// Returns the number of vector components: 1 for a scalar, 0 for a record.
    pub fn lanes(&self) -> usize {
        match self {
            ElementType::Scalar(_) => 1,
            ElementType::Vector(_, n) => usize::from(*n),
            ElementType::Record(_) => 0,
        }
    }

    /// Returns the element type with the same number of lanes, but another scalar type.
    pub fn with_scalar(&self, scalar: Scalar) -> ElementType {
        match self {
            ElementType::Scalar(_) | ElementType::Record(_) => ElementType::Scalar(scalar),
            ElementType::Vector(_, n) => ElementType::Vector(scalar, *n),
        }
    }

    /// Returns the layout of the leaves in the form that devices use.
    pub fn layout(&self) -> ElementLayout {
        match self {
            ElementType::Scalar(s) => ElementLayout::plain(Ty::Scalar(*s)),
            ElementType::Vector(s, n) => ElementLayout::plain(Ty::Vector(*s, *n)),
            ElementType::Record(r) => r.layout.clone(),
        }
    }

    /// Returns the fields of a struct or tuple, each with its name and its offset in bytes.
    pub fn fields(&self) -> Vec<(SmolStr, ElementType, usize)> {
        let ElementType::Record(record) = self else { return vec![] };
        let offset = |field: &FieldLayout| record.layout.leaves.get(field.leaves.start).map_or(0, |leaf| leaf.offset);
        record.fields.iter().map(|field| (field.name.clone(), field.element.clone(), offset(field))).collect()
    }

    /// Returns the leaves in order, each with its path inside the element (empty for a scalar or vector).
    fn flat_leaves(&self) -> Vec<(String, Ty)> {
        self.layout().leaves.into_iter().map(|leaf| (leaf.path, leaf.ty)).collect()
    }
}

impl From<Ty> for ElementType {
    fn from(ty: Ty) -> ElementType {
        match ty {
            Ty::Scalar(s) => ElementType::Scalar(s),
            Ty::Vector(s, n) => ElementType::Vector(s, n),
        }
    }
}

impl From<Scalar> for ElementType {
    fn from(scalar: Scalar) -> ElementType {
        ElementType::Scalar(scalar)
    }
}

impl RecordLayout {
    /// Computes the layout of a struct with these fields.
    pub fn new(name: impl Into<SmolStr>, fields: impl IntoIterator<Item = (SmolStr, ElementType)>) -> RecordLayout {
        let mut flat = Vec::new();
        let mut placed = Vec::new();
        for (name, element) in fields {
            let first = flat.len();
            flat.extend(element.flat_leaves().into_iter().map(|(path, ty)| (join(&name, &path), ty)));
            placed.push(FieldLayout { name, element, leaves: first..flat.len() });
        }
        RecordLayout { name: name.into(), fields: placed, layout: ElementLayout::from_leaves(flat) }
    }

    /// Computes the layout of a tuple with these components.
    pub fn tuple(parts: impl IntoIterator<Item = ElementType>) -> RecordLayout {
        Self::new("", parts.into_iter().enumerate().map(|(i, part)| (SmolStr::new(i.to_string()), part)))
    }

    pub fn is_tuple(&self) -> bool {
        self.name.is_empty()
    }

    /// Returns the index of the field with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

fn join(field: &str, path: &str) -> String {
    if path.is_empty() { field.to_string() } else { format!("{field}.{path}") }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementType::Scalar(s) => write!(f, "{s}"),
            ElementType::Vector(s, n) => write!(f, "{s}x{n}"),
            ElementType::Record(r) if r.is_tuple() => {
                f.write_str("(")?;
                for (i, field) in r.fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", field.element)?;
                }
                f.write_str(")")
            }
            ElementType::Record(r) => f.write_str(&escape::name(&r.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_laid_out_as_in_c() {
        let inner = RecordLayout::tuple([ElementType::Scalar(Scalar::U8), ElementType::Scalar(Scalar::F64)]);
        let record = RecordLayout::new(
            "Body",
            [
                ("pos".into(), ElementType::Vector(Scalar::F32, 3)),
                ("pair".into(), ElementType::Record(Arc::new(inner))),
                ("mass".into(), ElementType::Scalar(Scalar::F32)),
            ],
        );
        let leaves: Vec<_> = record.layout.leaves.iter().map(|l| (l.path.as_str(), l.offset)).collect();
        assert_eq!(leaves, [("pos", 0), ("pair.0", 12), ("pair.1", 16), ("mass", 24)]);
        assert_eq!((record.layout.size, record.layout.align), (32, 8));
        assert_eq!(record.fields[1].leaves, 1..3);
        assert_eq!(ElementType::Record(Arc::new(record)).to_string(), "Body");
    }
}
