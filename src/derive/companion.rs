//! The tangents or adjoints of locals and memories: new ones of the same types and extents.

use rustc_hash::FxHashMap;

use super::active::Activity;
use super::def::{Role, param_of};
use crate::ir::build::FunctionBuilder;
use crate::ir::def::*;

/// Returns the positions of the active values among a kernel's parameters, with their companions' names and their types.
pub(super) fn active_values<'a>(
    kernel: &'a Kernel,
    active: &'a [bool],
) -> impl Iterator<Item = (usize, String, Ty)> + 'a {
    kernel.params.iter().zip(active).enumerate().filter_map(|(position, (param, active))| match param {
        KernelParam::Value { name, ty } if *active && ty.scalar().is_float() => {
            Some((position, format!("d_{name}"), *ty))
        }
        _ => None,
    })
}

/// The companion of every active local and memory.
#[derive(Default)]
pub(super) struct Companions {
    pub locals: FxHashMap<LocalId, LocalId>,
    pub memories: FxHashMap<MemId, MemId>,
}

impl Companions {
    /// Adds the companions to a kernel. `role` gives the role and access of those that are parameters.
    pub fn add(
        b: &mut FunctionBuilder,
        f: &Function,
        activity: &Activity,
        roles: &mut Vec<Role>,
        role: impl Fn(usize, Access) -> (Role, Access),
    ) -> Companions {
        let mut found = Companions::default();
        for (id, local) in f.locals.iter().filter(|(id, _)| activity.local(*id)) {
            found.locals.insert(id, b.local(format!("d_{}", local.name), local.ty));
        }
        for (id, memory) in f.memories.iter().filter(|(id, _)| activity.memories[id.index()]) {
            let name = format!("d_{}", memory.name);
            let new = match (memory.space, param_of(f, id)) {
                (Space::Global { access, .. }, Some(param)) => {
                    let (role, access) = role(param, access);
                    roles.push(role);
                    b.array(name, access, memory.layout.clone(), memory.extents.len())
                }
                (space, _) => b.memory(name, space, memory.layout.clone(), memory.extents.clone()),
            };
            found.memories.insert(id, new);
        }
        found
    }

    pub fn place(&self, place: &Place, indices: Vec<ExprId>) -> Option<Place> {
        let memory = *self.memories.get(&place.memory)?;
        Some(Place { memory, indices, ..place.clone() })
    }
}
