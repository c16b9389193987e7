//! Element types of arrays and their memory layout.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::base::escape;
use crate::ir::def::{Layout, Ty};
use crate::lang::scalar::Scalar;

/// The element type of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Scalar(Scalar),
    /// A vector of 2, 3 or 4 scalars.
    Vector(Scalar, u8),
    /// A struct or a tuple.
    Record(Arc<RecordLayout>),
}

/// The fields of a struct or tuple and their layout, which is that of C.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordLayout {
    /// The name of the struct; empty for a tuple.
    pub name: SmolStr,
    pub fields: Vec<FieldLayout>,
    /// The scalar components ("leaves") of all fields in order: the scalars and vectors that nested fields consist of.
    pub layout: Layout,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldLayout {
    /// The name; `0`, `1`, … in a tuple.
    pub name: SmolStr,
    pub element: Element,
    /// Range of its leaves in the record's layout.
    pub leaves: Range<usize>,
}

impl Element {
    /// Returns the stride from one element to the next in bytes.
    pub fn size(&self) -> usize {
        match self {
            Element::Scalar(s) => s.size(),
            Element::Vector(s, n) => Ty::Vector(*s, *n).size(),
            Element::Record(r) => r.layout.size,
        }
    }

    /// Returns the scalar type of a scalar or vector element; `None` for a record.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Element::Scalar(s) | Element::Vector(s, _) => Some(*s),
            Element::Record(_) => None,
        }
    }

    /// Returns the number of vector components: 1 for a scalar, 0 for a record.
    pub fn lanes(&self) -> usize {
        match self {
            Element::Scalar(_) => 1,
            Element::Vector(_, n) => usize::from(*n),
            Element::Record(_) => 0,
        }
    }

    /// Returns the element type with the same number of lanes and another scalar.
    pub fn with_scalar(&self, scalar: Scalar) -> Element {
        match self {
            Element::Scalar(_) | Element::Record(_) => Element::Scalar(scalar),
            Element::Vector(_, n) => Element::Vector(scalar, *n),
        }
    }

    /// Returns the layout of the leaves, as devices take it.
    pub fn layout(&self) -> Layout {
        match self {
            Element::Scalar(s) => Layout::plain(Ty::Scalar(*s)),
            Element::Vector(s, n) => Layout::plain(Ty::Vector(*s, *n)),
            Element::Record(r) => r.layout.clone(),
        }
    }

    /// Returns the fields of a struct or tuple, each with its name and its offset in bytes.
    pub fn fields(&self) -> Vec<(SmolStr, Element, usize)> {
        let Element::Record(record) = self else { return vec![] };
        let offset = |field: &FieldLayout| record.layout.leaves.get(field.leaves.start).map_or(0, |leaf| leaf.offset);
        record.fields.iter().map(|field| (field.name.clone(), field.element.clone(), offset(field))).collect()
    }

    /// Returns the leaves in order, each with its path inside the element (empty for a scalar or vector).
    fn flat(&self) -> Vec<(String, Ty)> {
        self.layout().leaves.into_iter().map(|leaf| (leaf.path, leaf.ty)).collect()
    }
}

impl From<Ty> for Element {
    fn from(ty: Ty) -> Element {
        match ty {
            Ty::Scalar(s) => Element::Scalar(s),
            Ty::Vector(s, n) => Element::Vector(s, n),
        }
    }
}

impl From<Scalar> for Element {
    fn from(scalar: Scalar) -> Element {
        Element::Scalar(scalar)
    }
}

impl RecordLayout {
    /// Lays out a struct with these fields.
    pub fn new(name: impl Into<SmolStr>, fields: impl IntoIterator<Item = (SmolStr, Element)>) -> RecordLayout {
        let mut flat = Vec::new();
        let mut placed = Vec::new();
        for (name, element) in fields {
            let first = flat.len();
            flat.extend(element.flat().into_iter().map(|(path, ty)| (join(&name, &path), ty)));
            placed.push(FieldLayout { name, element, leaves: first..flat.len() });
        }
        RecordLayout { name: name.into(), fields: placed, layout: Layout::of(flat) }
    }

    /// Lays out a tuple of these parts.
    pub fn tuple(parts: impl IntoIterator<Item = Element>) -> RecordLayout {
        Self::new("", parts.into_iter().enumerate().map(|(i, part)| (SmolStr::new(i.to_string()), part)))
    }

    pub fn is_tuple(&self) -> bool {
        self.name.is_empty()
    }

    /// Returns the index of a field.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

fn join(field: &str, path: &str) -> String {
    if path.is_empty() { field.to_string() } else { format!("{field}.{path}") }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Scalar(s) => write!(f, "{s}"),
            Element::Vector(s, n) => write!(f, "{s}x{n}"),
            Element::Record(r) if r.is_tuple() => {
                f.write_str("(")?;
                for (i, field) in r.fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", field.element)?;
                }
                f.write_str(")")
            }
            Element::Record(r) => f.write_str(&escape::name(&r.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_laid_out_as_in_c() {
        let inner = RecordLayout::tuple([Element::Scalar(Scalar::U8), Element::Scalar(Scalar::F64)]);
        let record = RecordLayout::new(
            "Body",
            [
                ("pos".into(), Element::Vector(Scalar::F32, 3)),
                ("pair".into(), Element::Record(Arc::new(inner))),
                ("mass".into(), Element::Scalar(Scalar::F32)),
            ],
        );
        let leaves: Vec<_> = record.layout.leaves.iter().map(|l| (l.path.as_str(), l.offset)).collect();
        assert_eq!(leaves, [("pos", 0), ("pair.0", 12), ("pair.1", 16), ("mass", 24)]);
        assert_eq!((record.layout.size, record.layout.align), (32, 8));
        assert_eq!(record.fields[1].leaves, 1..3);
        assert_eq!(Element::Record(Arc::new(record)).to_string(), "Body");
    }
}
