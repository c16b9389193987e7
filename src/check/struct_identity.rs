//! Preserves the identity of structs that a session defines again without a change.
//!
//! Input: the structs of a REPL entry with their fields. Output: if the module had a struct with the same name and
//! fields, the name is bound to that struct again. Therefore, existing values have the type of the struct even if the
//! entry is repeated, or if the struct is checked again because the entry redefines a name in it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::infer::array;
use crate::typed::*;

/// Binds the names of structs that are defined again without a change to the former definitions, so that existing
/// values still have the type.
pub(crate) fn keep_struct_identities(program: &mut Program, module: ModuleId, new: &[StructId]) {
    let mut canonical_ids = FxHashMap::default();
    for &id in new {
        let canonical = identity(program, new, id, &mut canonical_ids);
        if canonical != id {
            program.structs[canonical] = program.structs[id].clone();
            program.modules[module].names.insert(program.structs[id].name.clone(), NameBinding::Struct(canonical));
        }
    }
}

/// Returns the former struct with the same name and fields. If there is none, returns the struct itself, after
/// replacing structs in the types of its fields by former structs.
fn identity(
    program: &mut Program,
    new: &[StructId],
    id: StructId,
    canonical_ids: &mut FxHashMap<StructId, StructId>,
) -> StructId {
    if !new.contains(&id) {
        return id;
    }
    if let Some(canonical) = canonical_ids.get(&id) {
        return *canonical;
    }
    for i in 0..program.structs[id].fields.len() {
        let ty = program.structs[id].fields[i].ty.clone();
        program.structs[id].fields[i].ty = with_structs(&ty, &mut |inner| identity(program, new, inner, canonical_ids));
    }
    let own = &program.structs[id];
    let is_same = |other: &Struct| {
        let fields = other.fields.iter().zip(&own.fields);
        other.module == own.module
            && other.name == own.name
            && other.fields.len() == own.fields.len()
            && fields.into_iter().all(|(a, b)| a.name == b.name && a.ty == b.ty)
    };
    // Use the first such struct. Later ones are repeated definitions whose names were bound to the first struct.
    let mut former = program.structs.iter().filter(|(former, _)| !new.contains(former));
    let canonical = former.find(|(_, other)| is_same(other)).map_or(id, |(former, _)| former);
    canonical_ids.insert(id, canonical);
    canonical
}

/// Replaces all structs in a type.
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
