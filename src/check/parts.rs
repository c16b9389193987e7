//! How many scalars and vectors a value is made of, and the bound of that.
//!
//! A tuple of two tuples of two tuples … is written in a few lines and has a million parts. Parts are counted only as far as the
//! bound, so counting costs no more than that.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::cx::{Cx, Reported};
use crate::check::typed::*;

/// Parts that a value may have.
pub const MAX_PARTS: u32 = 4096;

/// Whether a type has more parts than a value may have.
pub fn too_many(program: &Program, ty: &Type) -> bool {
    let mut room = MAX_PARTS;
    !count(program, ty, &mut room)
}

fn count(program: &Program, ty: &Type, room: &mut u32) -> bool {
    match ty {
        Type::Tuple(parts) => parts.iter().all(|part| count(program, part, room)),
        Type::Struct(id) => {
            program.structs.get(*id).is_none_or(|s| s.fields.iter().all(|field| count(program, &field.ty, room)))
        }
        Type::Array(array) => count(program, &array.element, room),
        _ => {
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        }
    }
}

/// The message for something of such a type.
pub fn refusal(what: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0329", format!("{what} has more than {MAX_PARTS} parts"))
        .at(span, "each part is a value of its own")
        .help("keep many values of one kind in an array")
}

impl Cx<'_> {
    /// Refuses a type of too many parts.
    pub fn bounded(&mut self, what: &str, ty: &Type, span: Span) -> Result<(), Reported> {
        match too_many(self.program, ty) {
            true => Err(self.refuse(refusal(what, span))),
            false => Ok(()),
        }
    }
}

/// Reports the first struct that is too large because of what it holds itself, not because a field alone is. All that are too
/// large lose the types of their fields, so nothing has to walk over them.
pub fn large_structs(program: &mut Program, ids: &[StructId], found: &mut Vec<Diagnostic>) {
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

/// What a struct holds, and what that holds, a few steps down.
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
