//! The number of *parts* of a value, and its limit. A part is a scalar or a vector inside a struct, tuple or field
//! array. Each part becomes a separate value in the IR.
//!
//! Nested tuples can have a million parts in a few lines of source, so counting stops at the limit.

use crate::context::{Cx, ErrorReported};
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

/// Maximum number of parts of a value.
pub(crate) const MAX_PARTS: u32 = 4096;

/// Returns whether a type has more parts than [`MAX_PARTS`].
pub fn too_many(program: &Program, ty: &Type) -> bool {
    let mut budget = MAX_PARTS;
    !count(program, ty, &mut budget)
}

fn count(program: &Program, ty: &Type, budget: &mut u32) -> bool {
    match ty {
        Type::Tuple(parts) => parts.iter().all(|part| count(program, part, budget)),
        Type::Struct(id) => program
            .structs
            .get(*id)
            .is_none_or(|s| s.fields.iter().all(|field| count_field(program, &field.ty, budget))),
        Type::Array(array) => count(program, &array.element, budget),
        _ => {
            let within_limit = *budget > 0;
            *budget = budget.saturating_sub(1);
            within_limit
        }
    }
}

/// Counts the parts of a field, including those of all elements of an array field.
fn count_field(program: &Program, ty: &Type, budget: &mut u32) -> bool {
    let Type::Array(array) = ty else { return count(program, ty, budget) };
    let extent = |dim: &Dim| if let Dim::Known(n) = dim { u64::try_from(*n).unwrap_or(0) } else { 1 };
    let elements = array.dims.iter().map(extent).fold(1, u64::saturating_mul);
    elements <= u64::from(MAX_PARTS) && (0..elements).all(|_| count(program, &array.element, budget))
}

/// Returns whether a struct or tuple has an array field, directly or nested.
pub(crate) fn holds_array(program: &Program, ty: &Type) -> bool {
    let inside = |ty: &Type| matches!(ty, Type::Array(_)) || holds_array(program, ty);
    match ty {
        Type::Tuple(parts) => parts.iter().any(inside),
        Type::Struct(id) => program.structs.get(*id).is_some_and(|s| s.fields.iter().any(|field| inside(&field.ty))),
        _ => false,
    }
}

/// Builds the diagnostic for an array of structs that contain arrays.
pub(crate) fn not_an_element_error(ty: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0316", format!("an array can't have elements of type `{ty}`"))
        .at(span, "a struct that holds an array can't be an array element")
        .help("make it an extra axis of an array outside of the struct: `w: [f32; N, 4]` instead of `w: [f32; 4]` in each of N structs")
}

/// Builds the diagnostic for a type with too many parts.
pub fn too_many_parts_error(what: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0329", format!("{what} has more than {MAX_PARTS} parts"))
        .at(span, "each part is a value of its own")
        .help("keep many values of one kind in an array")
}

impl Cx<'_> {
    /// Reports a type that cannot be the element type of an array because it contains arrays.
    pub fn is_element(&mut self, ty: &Type, span: Span) -> Result<(), ErrorReported> {
        let ty = self.vars.shallow(ty);
        match holds_array(self.program, &ty) {
            true => {
                let text = self.ty_text(&ty);
                Err(self.report_error(not_an_element_error(&text, span)))
            }
            false => Ok(()),
        }
    }

    /// Reports a type of too many parts.
    pub fn bounded(&mut self, what: &str, ty: &Type, span: Span) -> Result<(), ErrorReported> {
        match too_many(self.program, ty) {
            true => Err(self.report_error(too_many_parts_error(what, span))),
            false => Ok(()),
        }
    }
}

/// Reports the first struct whose fields together have too many parts although no single field has. Clears the field
/// types of all such structs, so that later passes do not visit them.
pub(crate) fn large_structs(program: &mut Program, ids: &[StructId], diagnostics: &mut Vec<Diagnostic>) {
    let mut reported = false;
    for &id in ids {
        let of = &program.structs[id];
        let large_field = of.fields.iter().find(|field| too_many(program, &field.ty));
        if large_field.is_some() || !too_many(program, &Type::Struct(id)) {
            continue;
        }
        if !reported {
            let d = too_many_parts_error(&format!("the struct `{}`", of.name), of.span);
            diagnostics.push(chain(program, id).into_iter().fold(d, Diagnostic::note));
            reported = true;
        }
        program.structs[id].fields.iter_mut().for_each(|field| field.ty = Type::Error);
    }
}

/// Describes the nesting of a struct for a note, at most four levels deep.
fn chain(program: &Program, mut id: StructId) -> Vec<String> {
    let mut notes = Vec::new();
    while notes.len() < 4 {
        let of = &program.structs[id];
        let inner = of.fields.iter().find_map(|f| if let Type::Struct(inner) = f.ty { Some(inner) } else { None });
        let Some(inner) = inner else { break };
        let times = of.fields.iter().filter(|f| f.ty == Type::Struct(inner)).count();
        notes.push(format!("`{}` holds {times} of `{}`", of.name, program.structs[inner].name));
        id = inner;
    }
    notes
}
