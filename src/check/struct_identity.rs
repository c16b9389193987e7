//! Preserves the identity of structs that a session defines again without a change.
//!
//! Input: the structs of a REPL entry with their fields. Output: if the module had a struct with the same name and
//! fields, the name is bound to that struct again. Therefore, existing values have the type of the struct even if the
//! entry is repeated, or if the struct is checked again because the entry redefines a name in it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::infer::array;
use crate::typed::*;

/// The structs of an entry and those that its module had before.
struct DefinedStructs {
    new: FxHashSet<StructId>,
    /// The former structs by name, in the order of their definitions.
    former: FxHashMap<SmolStr, Vec<StructId>>,
    /// The results of `identity` so far.
    identities: FxHashMap<StructId, StructId>,
}

/// Binds the names of structs that are defined again without a change to the former definitions, so that existing
/// values still have the type.
pub(crate) fn keep_struct_identities(program: &mut Program, module: ModuleId, new: &[StructId]) {
    let mut structs = DefinedStructs {
        new: new.iter().copied().collect(),
        former: FxHashMap::default(),
        identities: FxHashMap::default(),
    };
    for (id, known) in program.structs.iter() {
        if known.module == module && !structs.new.contains(&id) {
            structs.former.entry(known.name.clone()).or_default().push(id);
        }
    }
    for &id in new {
        let canonical = structs.identity(program, id);
        if canonical != id {
            program.structs[canonical] = program.structs[id].clone();
            program.modules[module].names.insert(program.structs[id].name.clone(), NameBinding::Struct(canonical));
        }
    }
}

impl DefinedStructs {
    /// Returns the former struct with the same name and fields. If there is none, returns the struct itself, after
    /// replacing structs in the types of its fields by former structs.
    fn identity(&mut self, program: &mut Program, id: StructId) -> StructId {
        if !self.new.contains(&id) {
            return id;
        }
        if let Some(canonical) = self.identities.get(&id) {
            return *canonical;
        }
        for i in 0..program.structs[id].fields.len() {
            let ty = program.structs[id].fields[i].ty.clone();
            program.structs[id].fields[i].ty = with_structs(&ty, &mut |inner| self.identity(program, inner));
        }
        let own = &program.structs[id];
        let is_same = |former: &StructId| {
            let former = &program.structs[*former];
            let mut fields = former.fields.iter().zip(&own.fields);
            former.fields.len() == own.fields.len() && fields.all(|(a, b)| a.name == b.name && a.ty == b.ty)
        };
        // Use the first such struct. Later ones are repeated definitions whose names were bound to the first struct.
        let mut former = self.former.get(&own.name).into_iter().flatten();
        let canonical = former.find(|former| is_same(former)).copied().unwrap_or(id);
        self.identities.insert(id, canonical);
        canonical
    }
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
