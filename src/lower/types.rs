//! Flattens concrete types to leaves: the sequence of scalars and vectors that structs, tuples and field arrays consist
//! of.

use std::ops::Range;

use super::error::{Fallible, internal};
use clk_base::source::Span;
use clk_check::typed::{ArrayType, Dim, Program, Type};
use clk_ir::def::{ElementLayout, Ty};

/// Returns the leaves of a concrete type in memory order, each with its path (`pos`, `inner.mass`, `0`). The type `()`
/// has none.
pub(crate) fn leaves(program: &Program, ty: &Type, span: Span) -> Fallible<Vec<(String, Ty)>> {
    let mut leaves = Vec::new();
    collect(program, ty, span, String::new(), &mut leaves)?;
    Ok(leaves)
}

/// Returns the memory layout of an element of this type.
pub(crate) fn layout(program: &Program, ty: &Type, span: Span) -> Fallible<ElementLayout> {
    Ok(ElementLayout::from_leaves(leaves(program, ty, span)?))
}

/// Returns the IR types of the leaves, without their paths.
pub(crate) fn machine(program: &Program, ty: &Type, span: Span) -> Fallible<Vec<Ty>> {
    Ok(leaves(program, ty, span)?.into_iter().map(|(_, ty)| ty).collect())
}

/// Returns the IR type of a scalar or vector, which has exactly one leaf.
pub(crate) fn single(ty: &Type, span: Span) -> Fallible<Ty> {
    match ty {
        Type::Scalar(s) => Ok(Ty::Scalar(*s)),
        Type::Vector(s, n) => Ok(Ty::Vector(*s, *n)),
        other => Err(internal(span, format!("a scalar or vector was expected here, not {other:?}"))),
    }
}

fn collect(program: &Program, ty: &Type, span: Span, path: String, leaves: &mut Vec<(String, Ty)>) -> Fallible<()> {
    match ty {
        Type::Scalar(_) | Type::Vector(..) => leaves.push((path, single(ty, span)?)),
        Type::Unit | Type::Never => {}
        Type::Struct(_) | Type::Tuple(_) => {
            for (name, part) in parts(program, ty, span)? {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                collect(program, part, span, path, leaves)?;
            }
        }
        // The leaves of a field array are those of its elements in sequence.
        Type::Array(array) => {
            for position in 0..extents(array, span)?.iter().product() {
                let path = if path.is_empty() { position.to_string() } else { format!("{path}.{position}") };
                collect(program, &array.element, span, path, leaves)?;
            }
        }
        other => return Err(internal(span, format!("{other:?} is not a type of kernel values"))),
    }
    Ok(())
}

/// Returns the extents of a field array.
pub(crate) fn extents(array: &ArrayType, span: Span) -> Fallible<Vec<u32>> {
    let extent = |dim: &Dim| match dim {
        Dim::Known(n) => u32::try_from(*n).ok(),
        _ => None,
    };
    let extents: Option<Vec<u32>> = array.dims.iter().map(extent).collect();
    extents.ok_or_else(|| internal(span, "an array of unknown size as a value"))
}

/// Returns the fields of a struct or the elements of a tuple, in order.
pub(crate) fn parts<'a>(program: &'a Program, ty: &'a Type, span: Span) -> Fallible<Vec<(String, &'a Type)>> {
    match ty {
        Type::Struct(id) => {
            let definition = program.structs.get(*id).ok_or_else(|| internal(span, "a struct without definition"))?;
            Ok(definition.fields.iter().map(|f| (f.name.to_string(), &f.ty)).collect())
        }
        Type::Tuple(parts) => Ok(parts.iter().enumerate().map(|(i, ty)| (i.to_string(), ty)).collect()),
        other => Err(internal(span, format!("{other:?} has no parts"))),
    }
}

/// Returns the range of the leaves of field `part` of a struct or tuple, and the type of this field.
pub(crate) fn part(program: &Program, ty: &Type, part: u32, span: Span) -> Fallible<(Range<usize>, Type)> {
    let mut start = 0;
    for (position, (_, field)) in parts(program, ty, span)?.into_iter().enumerate() {
        let length = leaves(program, field, span)?.len();
        if position == part as usize {
            return Ok((start..start + length, field.clone()));
        }
        start += length;
    }
    Err(internal(span, format!("there is no part {part} of {ty:?}")))
}

/// Joins a variable's name and a leaf's path to `a.b`.
pub(crate) fn leaf_name(name: &str, path: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{name}.{path}") }
}
