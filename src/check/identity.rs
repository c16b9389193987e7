//! The identity of structs that a session defines again.
//!
//! Input: the structs of an entry with their fields. Output: if the module had a struct of the same name and fields, the name is bound to
//! that struct again. Existing values therefore still fit after an entry is repeated, and after a struct is checked again because
//! the entry defines a name that occurs in it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::check::infer::array;
use crate::check::typed::*;

/// Gives structs that are defined again without a change the identity of their former definition, so that existing values fit.
pub(crate) fn keep_identities(program: &mut Program, module: ModuleId, new: &[StructId]) {
    let mut known = FxHashMap::default();
    for &id in new {
        let kept = identity(program, new, id, &mut known);
        if kept != id {
            program.structs[kept] = program.structs[id].clone();
            program.modules[module].names.insert(program.structs[id].name.clone(), Binding::Struct(kept));
        }
    }
}

/// Returns the former struct of the same name and fields, or the struct itself, whose fields get the types of former structs.
fn identity(
    program: &mut Program,
    new: &[StructId],
    id: StructId,
    known: &mut FxHashMap<StructId, StructId>,
) -> StructId {
    if !new.contains(&id) {
        return id;
    }
    if let Some(kept) = known.get(&id) {
        return *kept;
    }
    for i in 0..program.structs[id].fields.len() {
        let ty = program.structs[id].fields[i].ty.clone();
        program.structs[id].fields[i].ty = with_structs(&ty, &mut |inner| identity(program, new, inner, known));
    }
    let own = &program.structs[id];
    let is_same = |other: &Struct| {
        let fields = other.fields.iter().zip(&own.fields);
        other.module == own.module
            && other.name == own.name
            && other.fields.len() == own.fields.len()
            && fields.into_iter().all(|(a, b)| a.name == b.name && a.ty == b.ty)
    };
    // The first one: later ones are copies that were given its identity.
    let mut former = program.structs.iter().filter(|(former, _)| !new.contains(former));
    let kept = former.find(|(_, other)| is_same(other)).map_or(id, |(former, _)| former);
    known.insert(id, kept);
    kept
}

/// Replaces the structs in a type.
fn with_structs(ty: &Type, replace: &mut dyn FnMut(StructId) -> StructId) -> Type {
    match ty {
        Type::Struct(id) => Type::Struct(replace(*id)),
        Type::Array(a) => array(with_structs(&a.element, replace), a.dims.clone()),
        Type::Tuple(parts) => {
            let parts: Vec<Type> = parts.iter().map(|part| with_structs(part, replace)).collect();
            Type::Tuple(Arc::from(parts))
        }
        other => other.clone(),
    }
}
