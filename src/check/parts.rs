//! The number of *parts* of a value, and its limit. A part is a scalar or vector component of a struct, tuple or field array;
//! each becomes a value of its own in the IR.
//!
//! Nested tuples can have a million parts in a few lines of source, so counting stops at the limit.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::cx::{Cx, Reported};
use crate::check::typed::*;

/// Maximum number of parts of a value.
pub(crate) const MAX_PARTS: u32 = 4096;

/// Whether a type has more parts than [`MAX_PARTS`].
pub fn too_many(program: &Program, ty: &Type) -> bool {
    let mut room = MAX_PARTS;
    !count(program, ty, &mut room)
}

fn count(program: &Program, ty: &Type, room: &mut u32) -> bool {
    match ty {
        Type::Tuple(parts) => parts.iter().all(|part| count(program, part, room)),
        Type::Struct(id) => {
            program.structs.get(*id).is_none_or(|s| s.fields.iter().all(|field| count_field(program, &field.ty, room)))
        }
        Type::Array(array) => count(program, &array.element, room),
        _ => {
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        }
    }
}

/// Counts the parts of a field; each element of an array field counts.
fn count_field(program: &Program, ty: &Type, room: &mut u32) -> bool {
    let Type::Array(array) = ty else { return count(program, ty, room) };
    let known = |dim: &Dim| if let Dim::Known(n) = dim { u64::try_from(*n).unwrap_or(0) } else { 1 };
    let elements = array.dims.iter().map(known).fold(1, u64::saturating_mul);
    elements <= u64::from(MAX_PARTS) && (0..elements).all(|_| count(program, &array.element, room))
}

/// Whether a struct or tuple has an array field, directly or nested.
pub(crate) fn holds_array(program: &Program, ty: &Type) -> bool {
    let inside = |ty: &Type| matches!(ty, Type::Array(_)) || holds_array(program, ty);
    match ty {
        Type::Tuple(parts) => parts.iter().any(inside),
        Type::Struct(id) => program.structs.get(*id).is_some_and(|s| s.fields.iter().any(|field| inside(&field.ty))),
        _ => false,
    }
}

/// Builds the diagnostic for an array of structs that hold arrays.
pub(crate) fn no_element(ty: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0316", format!("an array can't have elements of type `{ty}`"))
        .at(span, "a struct that holds an array is a value of its own, and no element")
        .help("give the array an axis of its own beside the others: `w: [f32; N, 4]` instead of `w: [f32; 4]` in each of N structs")
}

/// Builds the diagnostic for a type with too many parts.
pub fn refusal(what: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0329", format!("{what} has more than {MAX_PARTS} parts"))
        .at(span, "each part is a value of its own")
        .help("keep many values of one kind in an array")
}

impl Cx<'_> {
    /// Reports a type that cannot be an array element because its values hold arrays.
    pub fn is_element(&mut self, ty: &Type, span: Span) -> Result<(), Reported> {
        let ty = self.vars.shallow(ty);
        match holds_array(self.program, &ty) {
            true => {
                let text = self.ty_text(&ty);
                Err(self.refuse(no_element(&text, span)))
            }
            false => Ok(()),
        }
    }

    /// Reports a type of too many parts.
    pub fn bounded(&mut self, what: &str, ty: &Type, span: Span) -> Result<(), Reported> {
        match too_many(self.program, ty) {
            true => Err(self.refuse(refusal(what, span))),
            false => Ok(()),
        }
    }
}

/// Reports the first struct that is too large because of all its fields together, not because of a single one. Clears the
/// field types of every such struct, so that no later pass has to walk them.
pub(crate) fn large_structs(program: &mut Program, ids: &[StructId], found: &mut Vec<Diagnostic>) {
    let mut reported = false;
    for &id in ids {
        let of = &program.structs[id];
        let alone = of.fields.iter().find(|field| too_many(program, &field.ty));
        if alone.is_some() || !too_many(program, &Type::Struct(id)) {
            continue;
        }
        if !reported {
            let d = refusal(&format!("the struct `{}`", of.name), of.span);
            found.push(chain(program, id).into_iter().fold(d, Diagnostic::note));
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
